"""The exported graph: spin verifies it, counts the same states, and finds what a broken model would lose."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.kernel import inputs as i
from treadle_specs.exploration import promela
from treadle_specs.exploration.alphabet import Alphabet
from treadle_specs.exploration.search import Search
from treadle_specs.exploration.statespace import AGENT, CALLER, ON, Space, statespace
from treadle_specs.model import turns
from treadle_specs.model.agent import CONVERGING
from treadle_specs.model.model import TAKERS

pytestmark = pytest.mark.slow

try:
    promela.tools()
    MISSING = ""
except promela.SpinMissing as missing:
    MISSING = str(missing)

needs_spin = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.fixture(scope="module")
def graph() -> Space:
    return promela.space()


@pytest.fixture(scope="module")
def verdicts(graph: Space) -> dict[str, promela.Verdict]:
    return {verdict.name: verdict for verdict in promela.verify(graph)}


@pytest.mark.rule("L1", "L2", "D4", "D5")
def test_the_graph_has_the_states_that_kernel_and_model_reach_together() -> None:
    alphabet = Alphabet(1, calls=1, inbox=False, strays=False)
    explored = Search(alphabet).run()
    assert explored.counterexample is None
    assert statespace(alphabet, merge=False).walked[0] == explored.states, "and what a wake wants, the latch says"


def test_states_are_merged_and_none_of_what_the_claims_see_is_lost(graph: Space) -> None:
    alphabet = Alphabet(1, calls=1, inbox=False, strays=False)
    whole = statespace(alphabet, merge=False)
    assert len(graph.seen) < len(whole.seen) / 10
    assert set(graph.seen) == set(whole.seen)
    assert {step.who for steps in graph.steps for step in steps} == {CALLER, AGENT, ON}


@needs_spin
def test_spin_finds_as_many_states_as_the_graph_has(graph: Space, verdicts: dict[str, promela.Verdict]) -> None:
    assert verdicts["safety"].errors == 0
    assert verdicts["safety"].states == promela.count(graph) > 300


@needs_spin
@pytest.mark.rule("L2", "C4", "O4", "M2", "M3", "I5", "N7")
@pytest.mark.parametrize("claim", promela.LTL)
def test_spin_verifies_each_claim(claim: str, verdicts: dict[str, promela.Verdict]) -> None:
    assert verdicts[claim].errors == 0, verdicts[claim].path


# --- what spin notices: the model without one of its promises ---------------------------------------------------------


def _instead(monkeypatch: pytest.MonkeyPatch, kind: Any, does: Any) -> None:
    taker = TAKERS[kind]
    monkeypatch.setitem(TAKERS, kind, lambda agent, given: does(taker, agent, given))


def _forgets_the_wake(taker: Any, agent: Any, given: Any) -> None:
    """A wake that comes during convergence is forgotten."""
    latched = agent.latched
    taker(agent, given)
    if agent.state == CONVERGING:
        agent.latched = latched


def _recovers_under_a_cancel(taker: Any, agent: Any, given: Any) -> None:
    """A cancel does not win over recovery, so that attempts go on for ever."""
    cause, agent.cause = agent.cause, None
    taker(agent, given)
    agent.cause = cause


def _maintains_again(taker: Any, agent: Any, given: Any) -> None:
    """A wake during maintenance has the task begin anew instead of a turn."""
    if agent.latched and agent.cause is None:
        agent.begin(turns.fx.Maintain())
        agent.running = not agent.running
    else:
        taker(agent, given)


BROKEN: dict[str, tuple[tuple[Any, ...], Any, tuple[str, ...]]] = {
    "a wake is lost": ((i.Deliver,), _forgets_the_wake, ("safety", "no_lost_wake")),
    "a cancel never converges": (
        (i.AttemptFailed, i.Retried),
        _recovers_under_a_cancel,
        ("no_lost_wake", "cancel_converges"),
    ),
    "maintenance goes on": ((i.Maintained,), _maintains_again, ("no_lost_wake", "maintenance_ends")),
}


@needs_spin
@pytest.mark.parametrize("name", BROKEN)
def test_spin_finds_what_a_broken_model_would_lose(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds, does, said = BROKEN[name]
    for kind in kinds:
        _instead(monkeypatch, kind, does)
    last = promela.verify(promela.space())[-1]
    assert last.errors
    assert last.name in said
    assert last.path


# --- the command ------------------------------------------------------------------------------------------------------


def test_every_class_and_step_is_in_the_model(graph: Space) -> None:
    model = promela.promela(graph)
    assert model.count("d_step") == sum(map(len, graph.steps)) + 1
    for name in promela.LTL:
        assert f"ltl {name} {{" in model
    for state in promela.STATES:
        assert f"#define {state.upper()} " in model


def test_the_command_writes_the_model(graph: Space) -> None:
    said: list[str] = []
    assert promela.promela_command(out=said.append) == 0
    assert said == [promela.promela(graph)]


def test_without_spin_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(promela.SpinMissing, match="apt install spin"):
        promela.promela_command(check=True)


def test_the_command_tells_the_verdict(graph: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    safety = promela.Verdict("safety", 0, promela.count(graph), 9, 0.1)
    failed = promela.Verdict("cancel_converges", 1, 9, 9, 0.1, ("Cancel",))
    monkeypatch.setattr(promela, "verify", lambda graph: [safety, failed])
    said: list[str] = []
    assert promela.promela_command(check=True, out=said.append) == 1
    assert "fails after Cancel" in "".join(said)
    said.clear()
    assert promela.promela_command(check=True, as_json=True, out=said.append) == 1
    assert json.loads("".join(said))["graph"]["states"] == promela.count(graph)
