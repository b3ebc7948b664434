"""A change is told at its first effect and nowhere else: there where a session recorded with it first differs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.specs.rehearsal import recorder
from tests.specs.rehearsal.recorded_agent import make
from treadle_specs.rehearsal import Rehearsal, rehearse

SESSIONS = Path(__file__).parent / "sessions"
CHANGES = {
    "word": 20,
    "schema": 20,
    "context-order": 20,
    "no-tool": 20,
    "no-asking": 20,
    "policy": 3,
    "delay": 3,
    "steps": 1,
    "no-submitted": 1,
    "no-entering": 10,
    "no-calling": 2,
    "no-guarded": 1,
    "no-executing": 2,
    "no-executed": 4,
    "no-objection": 2,
    "no-spending": 1,
}
"""The changes of the agent, and in how many of the sessions each has an effect at least."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def told(content: bytes, change: str) -> list[Any]:
    """The events of a log without what is made up anew each time; a way to compare that is not the one under test."""
    names: dict[str, int] = {}
    left_out = {"stream", "time", "refused", "body", "contexts", *(() if change == "delay" else ("delay",))}

    def plain(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: plain(one, name) for name, one in value.items() if name not in left_out}
        if isinstance(value, list):
            return [plain(one, key) for one in value]
        if key == "delay":
            return value > 1.5
        made_up = key in ("attemptId", "callId", "accepted", "agentId", "id") and isinstance(value, str)
        return names.setdefault(value, len(names)) if made_up else value

    return [plain(json.loads(line)) for line in content.splitlines()[1:]]


def first_effect(name: str, before: bytes, change: str) -> int | None:
    """Where a session first differs that is recorded with the change."""
    was, now = told(before, change), told(dict(recorder.record(name, change))[f"{name}.jsonl"], change)
    for seq, (one, other) in enumerate(zip(was, now, strict=False)):
        if one != other:
            return seq
    return None if len(was) == len(now) else min(len(was), len(now))


QUICK = ("word", "schema", "context-order", "policy", "no-executed")
"""One of each kind; the others take longer together than a test should."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in CHANGES]
)
def test_a_change_is_told_at_its_first_effect_and_nowhere_else(change: str) -> None:
    effects = 0
    for name in recorder.SESSIONS:
        path = SESSIONS / f"{name}.jsonl"
        expected = first_effect(name, path.read_bytes(), change)
        (found,) = rehearse(path, make(change)).sessions
        assert found.trouble is None, str(found)
        at = found.difference.seq if found.difference is not None else None
        assert at == expected, f"{name}: {found}"
        assert found.difference is None or found.difference.session == name
        effects += at is not None
    assert effects >= CHANGES[change]


def one(name: str, change: str) -> Rehearsal:
    """Rehearse one session on a changed agent."""
    (found,) = rehearse(SESSIONS / f"{name}.jsonl", make(change)).sessions
    assert found.difference is not None
    return found


@pytest.mark.parametrize(
    ("name", "change", "kind", "said", "line"),
    [
        ("three-days", "word", "request", "the system prompt changed", "+  You keep the books of a large mill."),
        ("three-days", "schema", "request", "the tool 'note' is told otherwise", '+     "maxLength": 1000'),
        ("three-days", "no-tool", "request", "the tool 'mail' is no longer there", "-tool mail:"),
        ("three-days", "context-order", "request", "other messages enter the step", "+  dry"),
        ("three-days", "no-asking", "request", "the configuration of the call changed", "-config:"),
        ("three-days", "no-entering", "request", "what hooks add", "-  mind the house rules"),
        ("refused-calls", "no-calling", "hook", "'search' was refused (NO_GOLD), and runs now", "-  there is no gold"),
        ("busy-line", "policy", "hook", "the failed attempt is not retried any more", ""),
        ("busy-line", "delay", "hook", "the retry policy or a hook decided otherwise: it waits", ""),
        ("hooks-at-work", "no-submitted", "hook", "the step is entered now", ""),
        ("at-the-limits", "steps", "event", "the turn ends where", ""),
    ],
)
def test_a_difference_is_told_with_who_decided_it_and_the_request(
    name: str, change: str, kind: str, said: str, line: str
) -> None:
    difference = one(name, change).difference
    assert difference is not None
    assert (difference.kind, said in difference.message) == (kind, True), str(difference)
    assert not line or any(each.startswith(line) for each in difference.request), str(difference)


def test_what_differs_in_a_sub_agent_is_told_of_its_session(tmp_path: Path) -> None:
    """The clerk's own prompt changes: its session differs at its prompt, and nothing of the parent's before."""
    for path in SESSIONS.glob("clerks*.jsonl"):
        text = path.read_bytes()
        if path.stem != "clerks":
            text = text.replace(b"You are the clerk.", b"You are the cook.")
        (tmp_path / path.name).write_bytes(text)
    told = {one.path.stem: one for one in rehearse(tmp_path, make()).sessions}
    found = told.pop("clerks")
    assert found.difference is not None
    assert found.difference.session in {
        path.read_text("utf-8").split('"id":"')[1][:36] for path in tmp_path.glob("clerks-*")
    }
    assert found.difference.message == "the system prompt changed"
    assert all(other.with_parent for other in told.values())


def test_an_agent_that_goes_on_where_the_session_was_over_differs(tmp_path: Path) -> None:
    lines = (SESSIONS / "hooks-at-work.jsonl").read_bytes().splitlines(keepends=True)
    end = next(n for n, line in enumerate(lines) if b'"turn/end"' in line and b'"turn":3' in line)
    objection = next(n for n, line in enumerate(lines) if b"and the flour?" in line)
    step_end = objection - 1
    assert b"step/end" in lines[step_end]
    closed = lines[end].replace(f'"seq":{json.loads(lines[end])["seq"]}'.encode(), f'"seq":{objection - 1}'.encode())
    path = tmp_path / "short.jsonl"
    path.write_bytes(b"".join([*lines[:objection], closed]))
    (found,) = rehearse(path, make()).sessions
    assert found.difference is not None
    assert found.difference.seq == objection - 1
