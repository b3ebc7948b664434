"""The verbs of the table over the abstraction, and the lists that they work on.

The Python walk runs these functions as they stand; the export translates them, statement by statement, into Promela. So
they keep to what the translation knows: fields of ``s``, constants, comparisons, ``if``, ``assert`` with a rule, and
calls of each other. A function that only returns is a condition.
"""

from __future__ import annotations

from collections.abc import Callable

from treadle.testing import TABLE

from .fields import (
    ACCEPTED,
    ADMIT,
    CLAIMED,
    FREE,
    MAINTAIN_TASK,
    PLAIN_WAKING,
    REQUEST,
    STOP,
    TAGGED,
    TAGGED_WAKING,
    Abstract,
)

# --- conditions -------------------------------------------------------------------------------------------------------


def waking(e: int) -> bool:
    """Whether a place holds a waking entry."""
    return e in (PLAIN_WAKING, TAGGED_WAKING)


def tagged(e: int) -> bool:
    """Whether a place holds the tagged message."""
    return e in (TAGGED, TAGGED_WAKING)


def presses(s: Abstract) -> bool:
    """Whether next-step holds a pressing entry (§1)."""
    return waking(s.ns0) or waking(s.ns1)


def usable(s: Abstract) -> bool:
    """Whether a wake would find work (D5)."""
    return s.nt0 != 0 or presses(s)


# --- lists ------------------------------------------------------------------------------------------------------------


def meet_fate(s: Abstract) -> None:
    """The tagged message meets its one fate (I5)."""
    assert s.tag != FREE, "I5"
    s.tag = FREE


def shift_turns(s: Abstract) -> None:
    """Take the first entry out of next-turn."""
    s.nt0 = s.nt1
    s.nt1 = 0


def claim_steps(s: Abstract) -> None:
    """Claim all of next-step (I5)."""
    if tagged(s.ns0) or tagged(s.ns1):
        s.tag = CLAIMED
    s.ns0 = 0
    s.ns1 = 0


# --- verbs, by the names that the table's verbs have ------------------------------------------------------------------


def start_running(s: Abstract) -> None:
    """Status becomes running (L5)."""
    assert s.running == 0, "L5"
    s.running = 1


def stop_running(s: Abstract) -> None:
    """Status becomes idle, if it was not."""
    assert s.turn_open == 0, "L5"
    s.running = 0


def open_turn(s: Abstract) -> None:
    """The next turn opens (L4, C4)."""
    assert s.turn_open == 0, "T10"
    assert s.running == 1, "T10"
    assert s.cause == 0, "T10"
    s.turn_open = 1
    s.wanted = 0


def claim_turn(s: Abstract) -> None:
    """Claim all of next-step, then one next-turn entry (I5)."""
    assert s.turn_open == 1, "L7"
    assert s.owed == 0, "L7"
    claim_steps(s)
    if tagged(s.nt0):
        s.tag = CLAIMED
    shift_turns(s)
    s.owed = ADMIT


def claim_step(s: Abstract) -> None:
    """Claim all of next-step for another step (I5)."""
    assert s.turn_open == 1, "L7"
    assert s.owed == 0, "L7"
    claim_steps(s)
    s.owed = ADMIT


def open_step(s: Abstract) -> None:
    """Enter the step (T0)."""
    assert s.turn_open == 1, "T10"
    assert s.step_open == 0, "T10"
    assert s.cause == 0, "T10"
    assert s.owed == 0, "T10"
    s.step_open = 1
    s.steps = s.steps + 1
    s.owed = REQUEST


def close_step(s: Abstract) -> None:
    """End the step, if one is open: what it accepted is settled first (T12)."""
    if s.step_open == 1:
        if s.tag == ACCEPTED:
            meet_fate(s)
        s.step_open = 0
        s.prepared = 0
        s.retried = 0


def stop_turn(s: Abstract) -> None:
    """Ask whether anyone objects (T4)."""
    assert s.owed == 0, "L7"
    s.owed = STOP


def settle_claimed(s: Abstract) -> None:
    """The claimed batch ends here."""
    if s.tag == CLAIMED:
        meet_fate(s)


def end_turn(s: Abstract) -> None:
    """The open turn ends, once, with nothing of it left (N3, T10, N2)."""
    assert s.turn_open == 1, "T10"
    assert s.step_open == 0, "T10"
    assert s.tag != CLAIMED, "N2"
    assert s.tag != ACCEPTED, "N2"
    s.turn_open = 0
    s.owes = 0
    s.steps = 0
    s.ended = 1


def close_turn(s: Abstract) -> None:
    """End the turn: nothing is owed (T7)."""
    end_turn(s)


def block_turn(s: Abstract) -> None:
    """End the turn because its step was rejected (T2)."""
    settle_claimed(s)
    end_turn(s)


def fail_turn(s: Abstract) -> None:
    """End the turn with a failure (T9)."""
    settle_claimed(s)
    end_turn(s)


def end_aborted(s: Abstract) -> None:
    """End the turn, if one is open, with the cause (C2, C6)."""
    assert s.cause != 0, "C11"
    if s.turn_open == 1:
        settle_claimed(s)
        end_turn(s)
    s.cause = 0
    s.signalled = 0


def abort_activity(s: Abstract) -> None:
    """Set the signal, once (C2, C3)."""
    assert s.cause != 0, "C2"
    assert s.signalled == 0, "C2"
    s.signalled = 1


def latch_wake(s: Abstract) -> None:
    """Keep the wake for replay (D4)."""
    s.latched = 1


def drop_latch(s: Abstract) -> None:
    """The latched wake is used up (D5)."""
    s.latched = 0


def begin_maintenance(s: Abstract) -> None:
    """Start the maintenance task (M1)."""
    assert s.owed == 0, "L7"
    s.owed = MAINTAIN_TASK


def reread(s: Abstract) -> None:
    """Read latch and inbox again once the notifications have run (H4)."""
    s.reread = 1


def park(s: Abstract) -> None:
    """Tell what waking input was left behind (L3)."""
    s.told = 1


def finish_disposal(s: Abstract) -> None:
    """The agent can be unwound, once (O4)."""
    assert s.finished == 0, "O4"
    s.latched = 0
    s.reserved = 0
    s.wanted = 0
    s.finished = 1


VERBS: dict[str, Callable[[Abstract], None]] = {
    verb.__name__: globals()[verb.__name__] for row in TABLE for verb in row.verbs
}
"""The abstract verb for each verb of the table, by name; a verb without one fails here."""
