"""Every packaged case, through the rig: inside this process where that is possible, as a child process otherwise."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle_specs import run_cases
from treadle_specs.protocol.reading import read_reply, schema
from treadle_specs.rig.desk import Desk
from treadle_specs.rig.protocol import FEATURES
from treadle_specs.rig.wire import answer, serve

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
COMMAND = f"{sys.executable} -m treadle_specs.rig"
Json = dict[str, Any]


class LocalRig:
    """Stands in for the child process: requests and replies still pass as lines of JSON."""

    def __init__(self, command: str, *, show: bool = False) -> None:
        self.desk = Desk()
        self.gates: list[Json] = []

    def hello(self) -> list[str]:
        return self.ask({"do": "hello"})["features"]

    def ask(self, request: Json) -> Json:
        replies = io.BytesIO()
        asked = {"id": 1, **request}
        serve(self.desk, io.BytesIO(json.dumps(asked).encode() + b"\n"), replies)
        return read_reply(replies.getvalue(), asked)

    def kill(self) -> None:
        """What a kill leaves after a flush: cases send one before they kill."""
        self.ask({"do": "close"})

    def exit_status(self) -> int:
        return 0 if self.desk.closed else 1

    def stop(self) -> None:
        self.desk.leave()


def packaged(only: str | None = None) -> list[Any]:
    cases: list[Any] = []
    for path in run_cases.own_cases():
        stem = Path(path).stem
        if only not in (None, stem):
            continue
        for case in json.loads(Path(path).read_text(encoding="utf-8")):
            rule = pytest.mark.rule(*case["rules"])
            cases.append(pytest.param(case, marks=rule, id=f"{stem}: {case['name']}"))
    return cases


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [str(ROOT / folder) for folder in ("machine", "adapters", "specs", "diagrams")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))


@pytest.mark.parametrize("case", packaged())
def test_the_rig_does_what_the_case_says(case: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_cases, "Rig", LocalRig)
    play(case)


@pytest.mark.rule("P3", "P4", "I8")
@pytest.mark.parametrize("case", packaged("durable"))
def test_a_killed_process_leaves_what_its_successor_needs(case: Json, environment: None) -> None:
    play(case)


def play(case: Json) -> None:
    try:
        run_cases.run_case(case, COMMAND)
    except run_cases.Skip as why:
        pytest.skip(str(why))


def test_a_rig_in_a_process_of_its_own_serves_a_case_and_ends_with_status_0(environment: None) -> None:
    steps: list[Json] = [
        {"do": "deliver", "message": {"id": "u1", "text": "u1"}, "target": "next-turn", "wakeup": True},
        {"do": "settle", "gates": ["model"], "request": ["user u1"]},
        {"do": "pass", "gate": "model", "chunks": [{"text": "hello"}], "end": "stop"},
        {"do": "settle", "log": ["assistant 'hello'", "step/end 1.1", "turn/end 1 completed"]},
    ]
    run_cases.run_case({"name": "one turn", "steps": steps}, COMMAND)


def test_a_rig_whose_input_ends_goes_away_by_itself(environment: None) -> None:
    lines = b'{"id":1,"do":"open","session":"s1"}\n{"id":2,"do":"maintain"}\n{"id":3,"do":"settle"}\n'
    done = subprocess.run(
        [sys.executable, "-m", "treadle_specs.rig"], input=lines, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0
    assert [json.loads(line)["ok"] for line in done.stdout.splitlines()] == [True, True, True]


@pytest.fixture
def desk() -> Any:
    made = Desk()
    yield made
    made.leave()


def code(desk: Desk, **request: Any) -> str:
    reply = desk.ask({"id": 1, **request})
    return "ok" if reply["ok"] else reply["error"]["code"]


def test_what_the_rig_cannot_do_is_unsupported(desk: Desk) -> None:
    assert code(desk, do="sing") == "unsupported"
    assert code(desk, do="open", session="s1", gates=["moon"]) == "unsupported"
    assert code(desk, do="open", session="s1", options={"speed": 1}) == "unsupported"
    assert code(desk, do="open", session="s1", store={"kind": "tape"}) == "unsupported"
    assert code(desk, do="open", session="s1") == "ok"
    assert code(desk, do="inbox", op="shuffle") == "unsupported"
    assert code(desk, do="listen", on="notice:agent/sleep", request={"do": "raise"}) == "unsupported"
    assert code(desk, do="listen", on="turn/end", request={"do": "settle"}) == "unsupported"


@pytest.mark.rule("D3")
def test_malformed_requests_are_invalid_and_change_nothing(desk: Desk) -> None:
    assert code(desk, do="settle") == "not-found"
    assert code(desk, do="open", session="../etc") == "invalid"
    assert code(desk, do="open", session="s1", options={"max_steps_per_turn": 0}) == "invalid"
    assert code(desk, do="open", session="s1", tools=[{"name": "t", "mode": "sideways"}]) == "invalid"
    assert code(desk, do="open", session="s1", tools=[{"name": "t"}, {"name": "t"}]) == "invalid"
    assert code(desk, do="open", session="s1") == "ok"
    assert code(desk, do="open", session="s1") == "busy"
    assert code(desk, do="deliver", message={"id": "m", "text": "m"}, target="next-turn", wakeup="yes") == "invalid"
    assert code(desk, do="deliver", message={"id": "m", "text": "\ud800"}, target="next-turn", wakeup=True) == "invalid"
    assert code(desk, do="cancel", cause="disposed") == "invalid"
    assert code(desk, do="listen", on="turn/end", nth=0, request={"do": "raise"}) == "invalid"
    assert desk.ask([])["error"]["code"] == "invalid"
    assert answer(desk, b"{")["ok"] is False
    assert desk.ask({"do": "settle"})["events"] == []


def test_a_refused_answer_leaves_its_gate_waiting(desk: Desk) -> None:
    desk.ask({"do": "open", "session": "s1"})
    desk.ask({"do": "deliver", "message": {"id": "u", "text": "u"}, "target": "next-turn", "wakeup": True})
    gate = desk.ask({"do": "settle"})["gates"][0]["gate"]
    for wrong in ({"chunks": [{"image": 1}]}, {"end": "soon"}, {"chunks": 5}, {"chunks": [{"usage": [1]}]}):
        assert code(desk, do="pass", gate=gate, **wrong) == "invalid"
    assert code(desk, do="pass", gate="g99") == "no-such-gate"
    assert code(desk, do="pass", gate=gate, chunks=[], end="max-tokens") == "ok"
    assert code(desk, do="pass", gate=gate, chunks=[], end="stop") == "no-such-gate"


def test_agents_of_one_rig_are_told_apart(desk: Desk) -> None:
    for name in ("a", "b"):
        assert code(desk, do="open", agent=name, session=f"s-{name}") == "ok"
    message = {"id": "u", "text": "u"}
    for name in ("b", "a"):
        assert code(desk, do="deliver", agent=name, message=message, target="next-turn", wakeup=True) == "ok"
    desk.ask({"do": "settle"})
    first, second = (desk.ask({"do": "settle", "agent": name}) for name in ("a", "b"))
    assert [len(told["gates"]) for told in (first, second)] == [1, 1]
    assert code(desk, do="pass", gate=second["gates"][0]["gate"], chunks=[{"text": "x"}], end="stop") == "ok"
    assert desk.ask({"do": "settle", "agent": "a"})["status"] == "running"
    assert desk.ask({"do": "settle", "agent": "b"})["status"] == "idle"


@pytest.mark.rule("O4", "N7")
def test_leaving_ends_what_waits_at_any_gate_and_answers_nothing_for_the_tester() -> None:
    desk = Desk()
    tools = [{"name": "stubborn", "mode": "parallel"}, {"name": "t", "mode": "parallel"}]
    desk.ask({"do": "open", "session": "s1", "gates": ["tool", "stubborn-tool"], "tools": tools})
    desk.ask({"do": "deliver", "message": {"id": "u", "text": "u"}, "target": "next-turn", "wakeup": True})
    gate = desk.ask({"do": "settle"})["gates"][0]["gate"]
    calls = [{"call": {"id": f"c{number}", "name": tool["name"]}} for number, tool in enumerate(tools)]
    desk.ask({"do": "pass", "gate": gate, "chunks": calls, "end": "tool-calls"})
    assert len(desk.ask({"do": "settle"})["gates"]) == 2
    desk.leave()
    assert desk.stepper.finished


@pytest.mark.rule("O4")
def test_a_disposed_session_may_be_opened_again_at_once(desk: Desk) -> None:
    desk.ask({"do": "open", "session": "s1"})
    desk.ask({"do": "deliver", "message": {"id": "q", "text": "q"}, "target": "next-turn", "wakeup": False})
    desk.ask({"do": "dispose", "keep_inbox": True})
    desk.ask({"do": "settle"})
    assert code(desk, do="open", session="s1", resume=True) == "ok"
    told = desk.ask({"do": "settle"})
    assert (told["state"], told["events"], told["inbox"]["next-turn"]) == ("idle", [], ["q"])
    assert code(desk, do="open", agent="other", session="s2", resume=True) == "not-found"


def test_a_close_that_resets_the_rig_leaves_it_as_if_just_started() -> None:
    replies = io.BytesIO()
    wake = {"do": "deliver", "message": {"id": "m", "text": "m"}, "target": "next-turn", "wakeup": True}
    run: list[Json] = [{"do": "open", "session": "s1"}, wake, {"do": "settle"}]
    asked: list[Json] = [*run, {"do": "close", "reset": True}, *run, {"do": "close"}, {"do": "hello"}]
    lines = [json.dumps({"id": number, **request}).encode() for number, request in enumerate(asked)]
    left = serve(Desk(), io.BytesIO(b"\n".join(lines)), replies)
    left.stepper.abandon()
    told = [json.loads(line) for line in replies.getvalue().splitlines()]
    assert [reply["id"] for reply in told] == list(range(8))
    assert all(reply["ok"] for reply in told)
    first, second = told[2], told[6]
    assert first["gates"][0]["kind"] == "model"
    assert (first["events"], first["gates"]) == (second["events"], second["gates"])


def test_every_word_of_the_schema_is_named_in_the_protocol() -> None:
    text = (ROOT / "specs" / "treadle_specs" / "PROTOCOL.md").read_text(encoding="utf-8")
    words = set(enumerated(schema())) - {"system", "user", "assistant"}
    states = {"admission", "step", "turn_stopping", "cancel_convergence", "maintenance", "disposal", "idle", "disposed"}
    assert len(words) > 30
    assert {word for word in words - states if f"`{word}`" not in text and f'"{word}"' not in text} == set()
    assert set(FEATURES) <= {word for word in FEATURES if f"`{word}`" in text}


def enumerated(part: Any) -> Iterator[str]:
    """The words that a schema lists, wherever it does."""
    if isinstance(part, dict):
        yield from (word for word in part.get("enum", []) if isinstance(word, str))
        for inner in part.values():
            yield from enumerated(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from enumerated(inner)
