"""The runner of cases, held against a tiny rig that answers by rote."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle_specs import run_cases

# One agent that is always idle; `dispose` is not supported; a message of id "twice" is refused.
RIG = """
import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    reply = {"id": ask["id"], "ok": True}
    if ask["do"] == "hello":
        reply |= {"protocol": 1, "features": ["at"]}
    elif ask["do"] == "settle":
        reply |= {
            "status": "idle", "inbox": {"next-turn": ["m1"], "next-step": []}, "gates": [],
            "events": [{"type": "turn/start", "turn": 1, "at": 2}, {"type": "request/header", "at": 3}],
            "notices": [{"name": "agent/status", "status": "running", "at": 1}],
        }
    elif ask["do"] == "dispose":
        reply |= {"ok": False, "error": {"code": "unsupported"}}
    elif ask["do"] == "deliver" and ask["message"]["id"] == "twice":
        reply |= {"ok": False, "error": {"code": "duplicate-message"}}
    print(json.dumps(reply), flush=True)
    if ask["do"] == "close":
        break
"""


@pytest.fixture
def rig(tmp_path: Path) -> str:
    path = tmp_path / "rig.py"
    path.write_text(RIG)
    return f"{sys.executable} {path}"


def run(rig: str, *steps: dict[str, Any], **case: Any) -> None:
    run_cases.run_case({"name": "a case", "steps": list(steps), **case}, rig)


def deliver(message: str, **checks: Any) -> dict[str, Any]:
    return {"do": "deliver", "message": {"id": message, "text": ""}, **checks}


def test_a_case_passes_when_every_check_holds(rig: str) -> None:
    run(
        rig,
        deliver("twice", ok=False, code="duplicate-message"),
        {"do": "settle", "log": ["turn/start 1"], "notices": ["status running"], "next-turn": ["m1"]},
        {
            "do": "settle",
            "story": ["~status running", "turn/start 1"],
            "log_has": ["turn/start 1"],
            "log_lacks": ["end"],
        },
    )


def test_a_restart_opens_the_session_again(rig: str) -> None:
    run(rig, {"do": "restart"}, {"do": "restart", "kill": True}, {"do": "settle", "status": "idle"})


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"do": "settle", "log": []}, "want \\[\\]"),
        ({"do": "settle", "log_has": ["turn/end 1"]}, "log lacks"),
        ({"do": "settle", "log_lacks": ["turn/start"]}, "log has"),
        ({"do": "settle", "statsu": "idle"}, "unknown checks"),
        ({"do": "pass", "gate": "model"}, "no gate 'model'"),
        (deliver("twice"), "refused"),
        (deliver("twice", ok=False, code="busy"), "refused"),
        (deliver("m1", ok=False), "must be refused"),
        ({"do": "reserve", "reserved": True}, "want True, got None"),
        ({"do": "close"}, "no answer"),
    ],
)
def test_a_case_fails_with_the_step_that_broke_it(rig: str, step: dict[str, Any], words: str) -> None:
    with pytest.raises((run_cases.Failure, BrokenPipeError), match=f"{words}|Broken pipe"):
        run(rig, step)


def test_what_the_rig_lacks_is_skipped(rig: str) -> None:
    with pytest.raises(run_cases.Skip, match="rig lacks maintenance"):
        run(rig, needs=["at", "maintenance"])
    with pytest.raises(run_cases.Skip, match="unsupported: dispose"):
        run(rig, {"do": "dispose"})
    with pytest.raises(run_cases.Skip, match="names no artifact"):
        run(rig, {"do": "restart", "damage": {"cut": 1}})


def test_damage_cuts_first_and_appends_then(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"abcdef")
    run_cases.damage(path, {"cut": 2, "append": "é"})
    assert path.read_bytes() == b"abcd" + "é".encode()


def test_the_cases_beside_the_runner_are_named_once_and_cite_rules() -> None:
    for path in run_cases.own_cases():
        cases = json.loads(Path(path).read_text(encoding="utf-8"))
        names = [case["name"] for case in cases]
        assert len(set(names)) == len(names)
        assert all(case["rules"] for case in cases)


def test_the_command_counts_and_selects(
    rig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"name": "good", "rules": ["L5"], "steps": [{"do": "settle", "status": "idle"}]}
    bad = {"name": "bad", "rules": ["L5"], "steps": [{"do": "settle", "status": "running"}]}
    path = tmp_path / "cases.json"
    path.write_text(json.dumps([good, bad]))
    monkeypatch.setattr(sys, "argv", ["run_cases.py", "--rig", rig, str(path)])
    assert run_cases.main() == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
    monkeypatch.setattr(sys, "argv", ["run_cases.py", "--rig", rig, f"{path}#good"])
    assert run_cases.main() == 0
