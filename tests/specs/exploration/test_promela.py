"""The exported model: spin verifies it, and the Python walk of the same table agrees with spin to the last state."""

from __future__ import annotations

import ast
import json

import pytest

from treadle.testing import TABLE, Row
from treadle_specs.exploration import promela
from treadle_specs.exploration.abstract import calls, laws, outcomes, verbs
from treadle_specs.exploration.abstract.options import OPTIONS
from treadle_specs.exploration.abstract.translation import Untranslatable, functions_of, translate
from treadle_specs.exploration.abstract.walk import Walk, walk
from treadle_specs.exploration.mutants import kill_by_spin, mutants

pytestmark = pytest.mark.slow

try:
    promela.tools()
    MISSING = ""
except promela.SpinMissing as missing:
    MISSING = str(missing)

needs_spin = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.fixture(scope="module")
def walked() -> Walk:
    return walk()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, promela.Verdict]:
    return {verdict.name: verdict for verdict in promela.verify()}


@pytest.mark.rule("L2", "L5", "L7", "D4", "D5", "I5", "O4")
def test_every_law_holds_in_every_state_of_the_abstraction(walked: Walk) -> None:
    assert walked.rule is None, walked.path
    assert walked.states > 3_000


@needs_spin
def test_spin_and_the_walk_count_the_same_states_and_steps(walked: Walk, verdicts: dict[str, promela.Verdict]) -> None:
    safety = verdicts["safety"]
    assert safety.errors == 0
    assert safety.states == walked.states
    assert safety.transitions == walked.transitions + 1, "spin counts the first state as a step"


@needs_spin
@pytest.mark.rule("L2", "C4", "O4", "M2", "M3", "I5", "N7")
@pytest.mark.parametrize("claim", promela.LTL)
def test_spin_verifies_each_claim(claim: str, verdicts: dict[str, promela.Verdict]) -> None:
    assert verdicts[claim].errors == 0, verdicts[claim].path


@needs_spin
def test_spin_finds_the_wake_that_a_changed_table_loses() -> None:
    rows = [_without(row, "latch_wake") if row.source.name == "CANCEL_CONVERGENCE" else row for row in TABLE]
    last = promela.verify(rows)[-1]
    assert (last.name, last.errors) == ("safety", 1)
    assert last.path[-1].startswith("deliver_next_turn_wake") or "cancel" in last.path


@needs_spin
@pytest.mark.parametrize(
    "name",
    [
        "STEP CONTINUE without close_step",
        "CANCEL_CONVERGENCE CONVERGE without reread",
        "IDLE MAINTAIN deleted",
        "DISPOSAL DRAIN without finish_disposal",
    ],
)
def test_spin_kills_mutants_of_the_table(name: str) -> None:
    (mutant,) = [mutant for mutant in mutants() if mutant.name == name]
    assert kill_by_spin(mutant) is not None


@pytest.mark.parametrize("verb", sorted({verb.__name__ for row in TABLE for verb in row.verbs}))
def test_the_walk_misses_each_verb_that_is_taken_out_everywhere(verb: str) -> None:
    assert walk([_without(row, verb) for row in TABLE]).rule is not None


def test_every_verb_and_every_row_is_in_the_model() -> None:
    model = promela.promela()
    for row in TABLE:
        line = next(
            text
            for text in model.split(f"inline fire_{row.trigger.name}()")[1].splitlines()
            if f"(state == {row.source.name}) ->" in text
        )
        assert f"state = {row.dest.name}" in line
        assert line.split("do_")[1:] == [
            f"{verb.__name__}(){'; ' if verb is not row.verbs[-1] else ''}" for verb in row.verbs
        ]
    assert set(verbs.VERBS) == {verb.__name__ for row in TABLE for verb in row.verbs}


def test_every_option_of_the_walk_is_an_option_of_the_model() -> None:
    model = promela.promela()
    assert [f"@{option.name}\\n" in model for option in OPTIONS] == [True] * len(OPTIONS)
    assert model.count("d_step") == len(OPTIONS)


def test_every_function_of_the_abstraction_is_translated_once() -> None:
    model = promela.promela()
    for function in functions_of(verbs, calls, outcomes, laws):
        head = translate(function)[0]
        assert model.count(head + "\n") == 1


@pytest.mark.parametrize(
    "source",
    [
        "def f(s):\n    return [x for x in s.nt0]",
        "def f(s):\n    for x in s.nt0:\n        pass",
        "def f(s):\n    s.unknown = 1",
        "def f(s):\n    s.nt0 += 1",
        "def f(s):\n    other.call(s)",
        "def f(s):\n    return 'text'",
    ],
)
def test_what_the_translation_does_not_know_it_refuses(source: str) -> None:
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    with pytest.raises(Untranslatable):
        translate(function)


def test_the_command_writes_the_model() -> None:
    said: list[str] = []
    assert promela.promela_command(out=said.append) == 0
    assert said == [promela.promela()]


def test_without_spin_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(promela.SpinMissing, match="apt install spin"):
        promela.promela_command(check=True)


def test_the_command_tells_the_verdict(walked: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    safety = promela.Verdict("safety", 0, walked.states, walked.transitions + 1, 0.1)
    monkeypatch.setattr(promela, "walk", lambda: walked)
    monkeypatch.setattr(
        promela, "verify", lambda: [safety, promela.Verdict("cancel_converges", 1, 9, 9, 0.1, ("cancel",))]
    )
    said: list[str] = []
    assert promela.promela_command(check=True, out=said.append) == 1
    assert "fails after cancel" in "".join(said)
    said.clear()
    assert promela.promela_command(check=True, as_json=True, out=said.append) == 1
    assert json.loads("".join(said))["walk"]["states"] == walked.states


def _without(row: Row, verb: str) -> Row:
    return Row(row.source, row.trigger, row.dest, tuple([kept for kept in row.verbs if kept.__name__ != verb]))
