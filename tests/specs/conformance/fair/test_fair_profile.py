"""The fair profile notices each wrong driver by its rule, in spite of other rules, and asks nothing that was not promised."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle_specs.conformance import command
from treadle_specs.conformance.fair.judge import Judge
from treadle_specs.conformance.fair.pairing import unpaired
from treadle_specs.conformance.fair_rules import FAIR, PROMISED
from treadle_specs.conformance.reporting import as_text
from treadle_specs.conformance.verdicts import Verdict
from treadle_specs.rigkit import assistant, result, user

TOY = f"{sys.executable} {Path(__file__).parent / 'toy.py'}"


def judged(rig: str, **more: Any) -> Verdict:
    return command.conform(rig, profile="fair", seconds=None, jobs=1, **{"examples": 60, "seed": 1, **more})


@pytest.mark.slow
def test_a_driver_that_keeps_every_rule_conforms() -> None:
    verdict = judged(TOY)
    assert verdict.conforms, as_text(verdict)
    assert set(verdict.rules_that_are("held")) == set(FAIR)


@pytest.mark.slow
@pytest.mark.parametrize("rule", FAIR)
def test_a_driver_that_breaks_one_rule_is_told_by_it(rule: str) -> None:
    verdict = judged(f"{TOY} {rule}", rules=[rule])
    assert [one.rule for one in verdict.broken] == [rule], as_text(verdict)
    script = verdict.broken[0].script()
    assert command.replayed(script, f"{TOY} {rule}")[1] == 1
    assert command.replayed(script, TOY) == ("holds", 0)


@pytest.mark.slow
def test_a_broken_rule_hides_no_other_and_what_follows_from_it_is_counted() -> None:
    verdict = judged(f"{TOY} F4", examples=20)
    assert [one.rule for one in verdict.broken] == ["F4"]
    assert verdict.masked > 0
    assert f"{verdict.masked} times a rule was broken again" in as_text(verdict)
    assert "F7" in verdict.rules_that_are("held")


@pytest.mark.slow
def test_a_finished_call_of_which_the_model_is_told_something_else_is_noticed() -> None:
    verdict = judged(f"{TOY} told", examples=20)
    assert [one.rule for one in verdict.broken] == ["F7"]
    assert "the model is told 'aborted'" in verdict.broken[0].message


@pytest.mark.slow
def test_what_a_driver_does_not_promise_is_not_asked_of_it() -> None:
    verdict = judged(f"{TOY} modest", examples=20)
    assert verdict.conforms, as_text(verdict)
    assert {rule: verdict.of(rule) for rule in PROMISED} == {
        rule: f"not applicable: {word} is not promised" for rule, word in PROMISED.items()
    }


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([user("m1"), assistant("", ["c1", "c2"]), result("c2"), result("c1"), user("m2")], ""),
        ([assistant("", ["c1"])], "c1 unanswered at the end"),
        ([assistant("", ["c1"]), user("m1")], "c1 unanswered before a message of the user"),
        ([assistant("", ["c1"]), assistant("a")], "c1 unanswered before an answer of the model"),
        ([assistant("", ["c1"]), result("c1"), result("c1")], "a result of c1, which is not called just before"),
        ([assistant("", ["c1", "c1"])], "two calls of one id among c1, c1"),
        ([assistant("", ["c1"]), result("c1"), assistant("", ["c1"])], "two calls of one id among c1"),
    ],
)
def test_calls_and_results_are_paired_as_model_servers_insist(messages: list[Any], fault: str) -> None:
    assert unpaired(messages) == fault


def test_a_rule_is_noted_once_in_a_run_and_counted_afterwards() -> None:
    judge = Judge()
    stuck = {"status": "running", "gates": []}
    for _ in range(3):
        judge.asked({"do": "deliver", "message": {"text": "m"}, "target": "next-turn"}, {"ok": True}, None)
        judge.reported(stuck)
    assert judge.broken == {"F10": "it is running, and waits for nothing"}
    assert judge.masked == {"F10": 2}


@pytest.mark.slow
def test_a_finding_is_drawn_and_saved_with_its_rule(tmp_path: Path) -> None:
    judged(f"{TOY} F9", examples=20, rules=["F9"], save=tmp_path)
    script = json.loads((tmp_path / "F9.json").read_text())[0]
    assert script["rules"] == ["F9"]
    assert "unanswered" in (tmp_path / "F9.mmd").read_text()
