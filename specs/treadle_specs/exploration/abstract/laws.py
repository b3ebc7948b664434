"""What must hold of the abstraction after every step; see ``verbs`` for the language."""

from __future__ import annotations

from treadle.kernel.lifecycle import CANCEL, DISPOSE, LATCH, MAINTAIN, REPLAY, WAKE

from .fields import (
    ACCEPTED,
    ADMISSION,
    ADMIT,
    CANCEL_CONVERGENCE,
    CLAIMED,
    DISPOSAL,
    DISPOSED,
    IDLE,
    MAINTAIN_TASK,
    MAINTENANCE,
    NOTHING,
    PENDING,
    PROCEED,
    RECOVER,
    REQUEST,
    STEP,
    STOP,
    TOOLS,
    TURN_STOPPING,
    Abstract,
)
from .machine import allows
from .verbs import presses, tagged, usable, waking


def in_turn(s: Abstract) -> bool:
    """Whether a turn is under way and is not being stopped."""
    return s.state == ADMISSION or s.state == STEP or s.state == TURN_STOPPING


def converging(s: Abstract) -> bool:
    """Whether something that was started is waited for (C4, O4)."""
    return s.state == CANCEL_CONVERGENCE or s.state == DISPOSAL


def gone(s: Abstract) -> bool:
    """Whether nothing is accepted any more (L9)."""
    return s.state == DISPOSAL or s.state == DISPOSED


def owed_fits(s: Abstract) -> bool:
    """Whether what is owed fits the state (L7)."""
    return (
        ((s.state == IDLE or s.state == DISPOSED) and s.owed == NOTHING)
        or (s.state == ADMISSION and s.owed == ADMIT)
        or (s.state == STEP and (s.owed == REQUEST or s.owed == RECOVER or s.owed == TOOLS or s.owed == PROCEED))
        or (s.state == TURN_STOPPING and s.owed == STOP)
        or (s.state == MAINTENANCE and s.owed == MAINTAIN_TASK)
        or (converging(s) and s.owed != NOTHING)
    )


def listed(s: Abstract) -> bool:
    """Whether the tagged message is in a list."""
    return tagged(s.nt0) or tagged(s.nt1) or tagged(s.ns0) or tagged(s.ns1)


def waits(s: Abstract) -> bool:
    """Whether waking input is pending."""
    return waking(s.nt0) or waking(s.nt1) or presses(s)


def check_shape(s: Abstract) -> None:
    """State, owed operation, status and turn fit each other (L5, L7, T10)."""
    assert owed_fits(s), "L7"
    assert s.running == s.turn_open, "L5"
    if not converging(s):
        assert (s.turn_open == 1) == in_turn(s), "T10"
        assert (s.step_open == 1) == (s.state == STEP), "T10"
        assert s.cause == 0, "C2"
    else:
        assert s.cause != 0, "C3"
        assert s.signalled == 1, "C3"
    assert (s.signalled == 1) == (s.cause != 0), "C2"
    assert (s.finished == 1) == (s.state == DISPOSED), "O4"


def check_messages(s: Abstract) -> None:
    """The tagged message is where it is said to be, and nowhere else (I5, N2)."""
    assert (s.tag == PENDING) == listed(s), "I5"
    assert not (s.tag == CLAIMED and s.turn_open == 0), "I5"
    assert not (s.tag == ACCEPTED and s.step_open == 0), "T12"


def check_latch(s: Abstract) -> None:
    """A wake is kept exactly while it cannot be served and finds work; none is lost, none is invented (D4, D5, L2)."""
    if not gone(s):
        assert s.latched == s.wanted, "D4"
        if s.latched == 1:
            assert usable(s), "D5"
            assert not in_turn(s), "D4"
            assert s.state != IDLE or s.reserved == 1 or s.reread == 1, "L2"
    assert s.reserved == 0 or s.state == IDLE, "D8"
    assert not (s.state == DISPOSED and s.latched == 1), "O4"


def check_rows(s: Abstract) -> None:
    """Every call of the contract is possible where the contract has it (L1, L9, C1, M1, O4)."""
    assert allows(s, WAKE) == (not gone(s)), "L9"
    assert allows(s, CANCEL) == (in_turn(s) or s.state == MAINTENANCE), "C1"
    assert allows(s, DISPOSE) == (not gone(s)), "O4"
    assert allows(s, MAINTAIN) == (s.state == IDLE), "M1"
    assert allows(s, REPLAY) == (s.state == IDLE), "H4"
    assert allows(s, LATCH) == (s.state == IDLE), "D8"


def check_told(s: Abstract) -> None:
    """What an activity leaves behind is told, once nothing will replay it (L3)."""
    if s.ended == 1 and s.state == IDLE and s.reread == 0 and s.latched == 0 and waits(s):
        assert s.told == 1, "L3"
    assert s.told == 0 or s.ended == 1, "L3"
    s.ended = 0
    s.told = 0


def check(s: Abstract) -> None:
    """Everything that must hold after a step."""
    check_shape(s)
    check_messages(s)
    check_latch(s)
    check_rows(s)
    check_told(s)
