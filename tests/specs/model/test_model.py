"""The model of the contract: the kernel refines it, refused inputs change neither, and its logs are sound."""

from __future__ import annotations

import random
from typing import Any, get_args

import pytest

from treadle import ByUser, Session, SessionHeader
from treadle.errors import InvalidTrigger
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.testing import LogMonitor
from treadle_specs.conformance.faults import planted
from treadle_specs.conformance.kernel_faults import KERNEL_FAULTS
from treadle_specs.exploration.alphabet import CALLS, Alphabet
from treadle_specs.exploration.lockstep import beginning, follow, unchanged
from treadle_specs.exploration.renaming import renamed
from treadle_specs.exploration.search import Search
from treadle_specs.exploration.violation import Violation
from treadle_specs.exploration.vocabulary import ATTEMPT, plain
from treadle_specs.model.model import TAKERS, Model


def test_the_model_takes_every_input_that_there_is() -> None:
    assert set(TAKERS) == set(get_args(i.Input))


@pytest.mark.rule("L1", "L9", "M1", "D8", "I1", "K5")
def test_the_kernel_does_what_the_model_does_and_what_is_refused_changes_nothing() -> None:
    found = Search(Alphabet(1, calls=1, inbox=False)).run()
    assert found.counterexample is None, found.counterexample
    assert found.complete
    assert (found.states > 4_000, found.transitions > 100_000) == (True, True)


def test_of_two_refusals_one_that_changes_something_is_seen() -> None:
    pair = beginning()
    assert follow(pair, i.Unreserve()) is None
    unchanged(pair)
    pair.kernel.owes = True
    with pytest.raises(Violation, match="only the kernel knows"):
        unchanged(pair)


def test_a_model_that_is_changed_by_what_it_refuses_is_seen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoils(agent: Any, _given: Any) -> None:
        agent.latched = True
        raise InvalidTrigger("D8")

    monkeypatch.setitem(TAKERS, i.Unreserve, spoils)
    pair = beginning()
    assert follow(pair, i.Unreserve()) is None
    with pytest.raises(Violation, match="the model refuses"):
        unchanged(pair)


def test_a_field_that_changes_when_it_should_not_is_seen_at_once() -> None:
    fault = next(fault for fault in KERNEL_FAULTS if fault.name == "a cancel ends a reservation")
    with planted(fault):
        broken = Search(Alphabet(1, calls=1, inbox=False)).run().counterexample
    assert broken is not None
    assert (broken.rule, [type(given) for given in broken.inputs]) == ("D8", [i.Reserve, i.Cancel])


def test_a_copy_of_the_model_goes_its_own_way() -> None:
    model = Model()
    model.receive(i.Deliver(plain("m1"), "next-turn", True))
    twin = model.copy()
    twin.receive(i.Cancel(ByUser()))
    assert (model.state, twin.state) == ("admission", "cancel_convergence")


# --- its logs ---------------------------------------------------------------------------------------------------------

OF_THE_ADAPTER = ("Q",)
"""Rules about attempts and their marks, of which exploration's fixed answers know nothing."""


def walk(chance: random.Random, length: int) -> list[i.Input]:
    """Accepted inputs, at random; at the end the agent comes to rest by itself."""
    alphabet, pair, inputs = Alphabet(3, calls=2, strays=False), beginning(pool=2), list[i.Input]()
    while len(inputs) < length or pair.model.owed is not None or pair.reread:
        possible = list(alphabet.inputs(pair.model, reread=pair.reread))
        own = [given for given in possible if type(given) not in CALLS]
        over = len(inputs) >= length
        given = chance.choice(own if own and (over or chance.random() < 0.6) else possible)
        after = (
            follow(pair, given) if adapters_send(given, inputs) and not (over and type(given) is i.Retried) else None
        )
        if after is not None:
            pair = after
            inputs.append(given)
    return inputs


def adapters_send(given: i.Input, before: list[i.Input]) -> bool:
    """Whether an attempt can come to this: it is prepared once, and nothing of it follows what is recorded of it."""
    marks = [type(one) for one in before if type(one) in (i.Entered, i.Retried, i.Prepared, i.AttemptRecorded)]
    match given:
        case i.Prepared():
            return marks[-1:] != [i.Prepared]
        case i.AttemptRecorded():
            return given.fact is ATTEMPT and marks[-1:] == [i.Prepared]
        case i.Answered():
            return not given.truncated and marks[-1:] == [i.Prepared]
        case _:
            return True


@pytest.mark.rule("T10", "N1", "N3", "I6", "L4", "K5")
@pytest.mark.parametrize("seed", range(30))
def test_a_log_of_the_model_is_one_that_the_checker_of_logs_finds_sound(seed: int) -> None:
    inputs = walk(random.Random(seed), 60)
    session, model = Session(SessionHeader("s", created_at=0, cwd="/")), Model(pool=2)
    for given in renamed(inputs, Kernel(pool=2)):
        for effect in model.receive(given):
            if type(effect) is fx.Record:
                session.commit(effect.data, None)
    monitor = LogMonitor()
    for entry in session.events:
        monitor.take(entry)
    assert [str(breach) for breach in monitor.breaches if not breach.rule.startswith(OF_THE_ADAPTER)] == []
