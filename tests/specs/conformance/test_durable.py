"""The durable profile: sessions are closed or killed, resumed by another process, and nothing of them is lost."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle_cli import main
from treadle_specs.conformance.kit import Untickable, check_driver
from treadle_specs.conformance.local import LocalRig
from treadle_specs.conformance.plan import Plan
from treadle_specs.conformance.profiles import LEAST, RESUMED
from treadle_specs.conformance.reporting import as_text
from treadle_specs.conformance.shrinking import broken_by
from treadle_specs.conformance.verdicts import Verdict

pytestmark = pytest.mark.slow

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Stored(Untickable):
    """Our own driver in this process; subclasses forget something when they resume."""

    def __init__(self) -> None:
        super().__init__(LocalRig())
        self.resumed, self.told = False, 0

    def ask(self, request: Json) -> Json:
        reply = super().ask(request)
        if request["do"] == "hello":
            reply = {**reply, "lacks": ["second-process"]}  # one run of trio in a process
        self.resumed = self.resumed or bool(request.get("resume"))
        if self.resumed and request["do"] == "settle" and reply["ok"]:
            self.told += 1
            self.changed(reply, first=self.told == 1)
        return reply

    def changed(self, reply: Json, *, first: bool) -> None:
        pass


class ForgetsTheInbox(Stored):
    def changed(self, reply: Json, *, first: bool) -> None:
        del first
        reply["inbox"] = {"next-turn": [], "next-step": []}


class LeavesTheTurnOpen(Stored):
    def changed(self, reply: Json, *, first: bool) -> None:
        del first
        reply["events"] = [event for event in reply["events"] if event.get("reason") != "interrupted"]


class ForgetsItsHistory(Stored):
    def changed(self, reply: Json, *, first: bool) -> None:
        del first
        for gate in reply["gates"]:
            if gate["kind"] == "model":
                gate["messages"] = gate["messages"][-1:]


class RunsOnByItself(Stored):
    def changed(self, reply: Json, *, first: bool) -> None:
        if first:
            reply["events"] = [*reply["events"], {"type": "turn/start", "turn": 99}]


def judged(make_rig: Any, **given: Any) -> Verdict:
    return check_driver(make_rig, Plan(**{"profile": "durable", "examples": 60, **given}), raises=False)


@pytest.mark.rule("I8", "N5", "P4")
def test_our_own_driver_conforms_and_what_a_resume_may_break_was_at_stake() -> None:
    verdict = judged(Stored, examples=80)
    assert verdict.conforms, as_text(verdict)
    assert all(verdict.times(rule) >= LEAST for rule in RESUMED if rule != "P2")
    assert verdict.of("P2") == "not applicable: no second-process"


@pytest.mark.parametrize(
    ("make_rig", "rules"),
    [
        (ForgetsTheInbox, {"I8"}),
        (LeavesTheTurnOpen, {"P4"}),
        (ForgetsItsHistory, {"N5"}),
        (RunsOnByItself, {"I8", "L4", "D7"}),
    ],
)
def test_a_driver_that_forgets_at_a_resume_is_told_and_its_script_shows_it_again(
    make_rig: Any, rules: set[str]
) -> None:
    verdict = judged(make_rig, rounds=1)
    assert verdict.word == "does not conform"
    found = verdict.broken[0]
    assert found.rule in rules
    script = json.loads(json.dumps(found.steps))
    assert broken_by(make_rig, script, found.rule) is not None
    assert broken_by(Stored, script) is None


def test_without_a_store_the_rules_of_a_resume_are_not_applicable(tmp_path: Path) -> None:
    class Forgetful(Stored):
        def ask(self, request: Json) -> Json:
            reply = super().ask(request)
            if request["do"] == "hello":
                reply["features"] = [word for word in reply["features"] if word not in ("jsonl", "sqlite")]
            return reply

    verdict = judged(Forgetful, examples=5)
    assert verdict.of("P4") == "not applicable: no sqlite or jsonl"


def test_killed_processes_of_our_own_lose_nothing_that_was_flushed(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = ["--profile", "durable", "--examples", "12", "--seed", "5", "--no-cases", "--no-corpus", "--jobs", "1"]
    assert main(["conform", *options, "--format", "json", "--output", str(report)]) in (0, 3)
    told = json.loads(report.read_text())
    assert told["broken"] == []
    assert told["rules"]["P4"]["times"] > 0
    assert told["rules"]["P2"]["times"] > 0


@pytest.mark.rule("P2")
def test_a_driver_that_lets_two_processes_drive_a_session_is_told(tmp_path: Path) -> None:
    loose = (
        "import treadle_adapters.stores.locks as locks\n"
        "from treadle_specs.rig.wire import main\n"
        "locks.Held.lock = lambda self: True\n"
        "main()\n"
    )
    script = tmp_path / "loose.py"
    script.write_text(loose)
    options = ["--profile", "durable", "--examples", "12", "--seed", "5", "--no-cases", "--no-corpus", "--jobs", "1"]
    report = tmp_path / "report.json"
    rig = f"{sys.executable} {script}"
    assert main(["conform", "--rig", rig, *options, "--format", "json", "--output", str(report)]) == 1
    assert "P2" in {found["rule"] for found in json.loads(report.read_text())["broken"]}
