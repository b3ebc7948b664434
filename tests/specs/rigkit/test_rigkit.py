"""Rigs that are written with the kits are as the protocol wants them, on each loop and in each language."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle_specs import rigkit
from treadle_specs.conformance import command, rig_check
from treadle_specs.conformance.fair_rules import FAIR
from treadle_specs.conformance.reporting import as_text
from treadle_specs.protocol.process import RigProcess

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples"
TRIO = f"{sys.executable} {HERE / 'trio_toy.py'}"
ODD = f"{sys.executable} {HERE / 'odd_toy.py'}"
ASYNCIO = f"{sys.executable} {EXAMPLES / 'asyncio_rig.py'}"
NODE = f"node {EXAMPLES / 'node_rig.mjs'}"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js here")


@pytest.mark.slow
@pytest.mark.parametrize("rig", [TRIO, ASYNCIO, pytest.param(NODE, marks=needs_node)])
def test_a_toy_keeps_the_fair_profile(rig: str) -> None:
    verdict = command.conform(rig, profile="fair", seconds=None, examples=20, seed=1, jobs=1)
    assert verdict.conforms, as_text(verdict)
    assert set(verdict.rules_that_are("held")) >= set(list(FAIR)[:10])


@pytest.mark.slow
def test_a_rig_for_the_fair_profile_is_told_that_nothing_it_asks_is_lacking(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert rig_check.tell(TRIO) == 1
    told = capsys.readouterr().out
    assert told.splitlines()[-1] == (
        "6 steps lack something of the core; what the fair profile asks is there: try `treadle conform --profile fair`"
    )
    assert told.count("asked from profile core on, not by fair") == told.count("LACKS") == 6
    broken = tmp_path / "broken.py"
    text = "from treadle_specs.rigkit import FrameworkRig, main\n\n\nclass Broken(FrameworkRig):\n    name = 'broken'\n"
    text += "    def open(self, tools): pass\n    async def turn(self, text): raise ValueError('a slip')\n\n\nmain(Broken)\n"
    broken.write_text(text, encoding="utf-8")
    assert rig_check.tell(f"{sys.executable} {broken}") == 1
    told = capsys.readouterr().out
    assert "stderr: the run ended: ValueError('a slip')" in told
    assert told.splitlines()[-1].endswith("steps lack something")


def test_rigs_are_short() -> None:
    rigs = [EXAMPLES / "asyncio_rig.py", EXAMPLES / "node_rig.mjs", *(EXAMPLES / "rigs").glob("*_rig.*")]
    long = {rig.name for rig in rigs if len(rig.read_text(encoding="utf-8").splitlines()) >= 130}
    assert len(rigs) == 8
    assert long == set()
    assert len((EXAMPLES / "asyncio_rig.py").read_text(encoding="utf-8").splitlines()) < 100


def deliver(name: str) -> dict[str, Any]:
    return {"do": "deliver", "message": {"id": name, "text": name}, "target": "next-turn", "wakeup": True}


def begun(command: str) -> RigProcess:
    rig = RigProcess(command)
    rig.ask({"do": "hello"})
    assert rig.ask({"do": "open", "session": "s1", "gates": ["tool"], "tools": [], "options": {}})["ok"]
    return rig


@pytest.mark.parametrize("rig", [TRIO, ASYNCIO, pytest.param(NODE, marks=needs_node)])
def test_nothing_runs_but_in_a_settle_and_a_gate_that_is_cancelled_is_gone_at_once(rig: str) -> None:
    process = begun(rig)
    process.ask(deliver("m1"))
    assert process.ask({"do": "pass", "gate": "g1"})["error"]["code"] == "no-such-gate"
    (gate,) = process.ask({"do": "settle"})["gates"]
    assert gate["messages"] == [rigkit.user("m1")]
    process.ask({"do": "cancel", "cause": "user"})
    assert process.ask({"do": "pass", "gate": gate["gate"], "end": "stop"})["error"]["code"] == "no-such-gate"
    assert process.ask({"do": "settle"})["status"] == "idle"
    process.stop()


@pytest.mark.parametrize("rig", [TRIO, ASYNCIO, pytest.param(NODE, marks=needs_node)])
def test_a_run_that_is_reset_leaves_nothing_behind(rig: str) -> None:
    process = begun(rig)
    process.ask(deliver("m1"))
    process.ask({"do": "settle"})
    assert process.ask({"do": "close", "reset": True})["ok"]
    assert process.ask({"do": "open", "session": "s1", "gates": ["tool"], "tools": [], "options": {}})["ok"]
    assert process.ask({"do": "settle"})["gates"] == []
    process.ask(deliver("m2"))
    assert process.ask({"do": "settle"})["gates"][0]["messages"] == [rigkit.user("m2")]
    assert process.ask({"do": "close"})["ok"]
    assert process.exit_status() == 0
    process.stop()


@pytest.mark.parametrize("rig", [ASYNCIO, pytest.param(NODE, marks=needs_node)])
def test_what_a_rig_does_not_know_is_refused_and_changes_nothing(rig: str) -> None:
    process = RigProcess(rig)
    opening = {"do": "open", "session": "s1", "gates": ["pre-step"], "tools": [], "options": {}}
    assert process.ask(opening)["error"] == {"code": "unsupported", "message": "no gate of kind pre-step"}
    assert process.ask({"do": "maintain"})["error"]["code"] == "unsupported"
    process.stop()


@pytest.mark.parametrize("rig", [[sys.executable, str(EXAMPLES / "asyncio_rig.py")],
                                 pytest.param(NODE.split(), marks=needs_node)])  # fmt: skip
def test_a_line_that_is_no_json_is_refused(rig: list[str]) -> None:
    run = subprocess.run(rig, input=b'{"id": 1, "do"\n{"id": 2, "do": "hello"}\n', capture_output=True, check=True)
    first, second = [json.loads(line) for line in run.stdout.splitlines()]
    assert first["error"]["code"] == "invalid"
    assert (second["id"], second["protocol"]) == (2, 1)


def test_a_listener_acts_when_its_event_is_published_for_the_nth_time() -> None:
    process = begun(ASYNCIO)
    process.ask({"do": "listen", "on": "turn/start", "nth": 2, "request": {"do": "cancel", "cause": "hook"}})
    process.ask({"do": "listen", "on": "turn/start", "request": {"do": "raise"}})
    process.ask(deliver("m1"))
    (gate,) = process.ask({"do": "settle"})["gates"]
    process.ask({"do": "pass", "gate": gate["gate"], "chunks": [], "end": "stop"})
    process.ask({"do": "settle"})
    process.ask(deliver("m2"))
    ended = process.ask({"do": "settle"})
    assert ended["gates"] == []
    assert {"type": "turn/end", "turn": 2, "reason": "aborted", "cause": "hook"} in ended["events"]
    process.stop()


@pytest.mark.parametrize("way", ["thread", "executor", "socket", "timer", "yields", "prints"])
def test_a_settle_waits_for_what_can_go_on_by_itself(way: str) -> None:
    process = begun(f"{ODD} {way}")
    process.ask(deliver("m1"))
    (gate,) = process.ask({"do": "settle"})["gates"]
    assert gate["messages"] == [rigkit.user("m1"), rigkit.assistant("done")]
    process.stop()


def test_beside_an_open_gate_time_stands_still() -> None:
    process = begun(f"{ODD} timeout")
    process.ask(deliver("m1"))
    for _ in range(2):
        assert [gate["kind"] for gate in process.ask({"do": "settle"})["gates"]] == ["model"]
    process.stop()


def test_a_driver_that_ends_its_process_ends_the_rig_with_its_status() -> None:
    process = begun(f"{ODD} exits")
    process.ask(deliver("m1"))
    with pytest.raises(Exception, match="status 3"):
        process.ask({"do": "settle"})
    process.drop()
