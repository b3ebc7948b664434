"""What callers can do to the abstraction, decided as the kernel decides it; see ``verbs`` for the language.

Each function is one option of the model; ``may_…`` says when it can be taken. ``wanted`` is kept as the contract says
the latch should be, whatever the table does.
"""

from __future__ import annotations

from treadle.kernel.lifecycle import CANCEL, DISPOSE, LATCH, MAINTAIN, REPLAY, WAKE

from .fields import (
    CANCEL_CONVERGENCE,
    DISPOSAL,
    DISPOSE_CAUSE,
    DISPOSED,
    FREE,
    IDLE,
    MAINTENANCE,
    PENDING,
    PLAIN,
    PLAIN_WAKING,
    TAGGED_WAKING,
    USER,
    Abstract,
)
from .machine import allows, fire
from .verbs import meet_fate, shift_turns, tagged, usable


def moved(s: Abstract, wakes: int, own: int) -> bool:
    """Whether a delivery goes to next-turn whatever its target was (D4)."""
    return wakes == 1 and s.cause != 0 and own == 0


def may_deliver(s: Abstract, turn: int, wakes: int, own: int, mark: int) -> bool:
    """There is room in the list, and the tagged message is sent once at a time."""
    return (
        allows(s, WAKE)
        and (s.tag == FREE or mark == 0)
        and (s.cause != 0 or own == 0)
        and (s.nt1 == 0 or (turn == 0 and not moved(s, wakes, own)))
        and (s.ns1 == 0 or turn == 1 or moved(s, wakes, own))
    )


def deliver(s: Abstract, turn: int, wakes: int, own: int, mark: int) -> None:
    """A message arrives (D1, D4)."""
    if turn == 1 or moved(s, wakes, own):
        if s.nt0 == 0:
            s.nt0 = PLAIN + wakes + 2 * mark
        else:
            s.nt1 = PLAIN + wakes + 2 * mark
    elif s.ns0 == 0:
        s.ns0 = PLAIN + wakes + 2 * mark
    else:
        s.ns1 = PLAIN + wakes + 2 * mark
    if mark == 1:
        s.tag = PENDING
    if wakes == 1 and (s.cause == 0 or own == 0):
        if s.reserved == 1 or s.state == MAINTENANCE or s.state == CANCEL_CONVERGENCE:
            s.wanted = 1
        if s.reserved == 1 and allows(s, LATCH):
            fire(s, LATCH)
        else:
            fire(s, WAKE)
        assert s.state != IDLE or s.reserved == 1, "L2"
        assert s.state != DISPOSAL, "D6"


def spent(s: Abstract) -> None:
    """After an inbox operation a latch without work is dropped (D5)."""
    if not usable(s):
        s.latched = 0
        s.wanted = 0


def may_remove_turn(s: Abstract) -> bool:
    """Next-turn has a first entry."""
    return allows(s, WAKE) and s.nt0 != 0


def remove_turn(s: Abstract) -> None:
    """The first next-turn entry is removed (I2)."""
    if tagged(s.nt0):
        meet_fate(s)
    shift_turns(s)
    spent(s)


def may_remove_turn_last(s: Abstract) -> bool:
    """Next-turn has a second entry."""
    return allows(s, WAKE) and s.nt1 != 0


def remove_turn_last(s: Abstract) -> None:
    """The second next-turn entry is removed (I2)."""
    if tagged(s.nt1):
        meet_fate(s)
    s.nt1 = 0
    spent(s)


def may_remove_step(s: Abstract) -> bool:
    """Next-step has a first entry."""
    return allows(s, WAKE) and s.ns0 != 0


def remove_step(s: Abstract) -> None:
    """The first next-step entry is removed (I2)."""
    if tagged(s.ns0):
        meet_fate(s)
    s.ns0 = s.ns1
    s.ns1 = 0
    spent(s)


def may_steer(s: Abstract) -> bool:
    """A next-turn entry can be moved to next-step (I9)."""
    return allows(s, WAKE) and s.nt0 != 0 and s.ns1 == 0 and s.turn_open == 1 and allows(s, CANCEL)


def steer(s: Abstract) -> None:
    """The first next-turn entry is steered: it presses (I9, I3)."""
    if s.ns0 == 0:
        s.ns0 = TAGGED_WAKING if tagged(s.nt0) else PLAIN_WAKING
    else:
        s.ns1 = TAGGED_WAKING if tagged(s.nt0) else PLAIN_WAKING
    shift_turns(s)
    spent(s)


def may_replace(s: Abstract) -> bool:
    """The first next-step entry can be replaced by a passive or pressing one that inherits (I3)."""
    return allows(s, WAKE) and tagged(s.ns0)


def replace(s: Abstract) -> None:
    """The tagged message in next-step is replaced by another one, which inherits its pressing (I2, I3)."""
    meet_fate(s)
    s.ns0 = PLAIN_WAKING if s.ns0 == TAGGED_WAKING else PLAIN
    spent(s)


def empty(s: Abstract) -> None:
    """Both lists are dropped (I7)."""
    if tagged(s.nt0) or tagged(s.nt1) or tagged(s.ns0) or tagged(s.ns1):
        meet_fate(s)
    s.nt0 = 0
    s.nt1 = 0
    s.ns0 = 0
    s.ns1 = 0


def may_clear(s: Abstract) -> bool:
    """Something is pending."""
    return allows(s, WAKE) and (s.nt0 != 0 or s.ns0 != 0)


def clear(s: Abstract) -> None:
    """Everything pending is dropped (I7)."""
    empty(s)
    spent(s)


def stop_activity(s: Abstract, cause: int, keep: int) -> None:
    """Clear unless kept; the first cause is the cause (C2, C3)."""
    if keep == 0:
        empty(s)
        s.latched = 0
        s.wanted = 0
    if s.cause == 0:
        s.cause = cause


def may_cancel(s: Abstract) -> bool:
    """Cancel does nothing once the agent is gone (L1)."""
    return allows(s, WAKE)


def cancel(s: Abstract, keep: int) -> None:
    """Stop what is active, and clear the inbox unless it is kept (C1)."""
    if allows(s, CANCEL):
        stop_activity(s, USER, keep)
        fire(s, CANCEL)
        assert s.state == CANCEL_CONVERGENCE, "C3"
    elif keep == 0:
        empty(s)
        s.latched = 0
        s.wanted = 0


def may_dispose(s: Abstract) -> bool:
    """A second dispose joins the first (O4)."""
    return allows(s, DISPOSE)


def dispose(s: Abstract, keep: int) -> None:
    """End the agent (O4)."""
    if allows(s, MAINTAIN):
        if keep == 0:
            empty(s)
    else:
        stop_activity(s, DISPOSE_CAUSE, keep)
    fire(s, DISPOSE)
    assert s.state in (DISPOSAL, DISPOSED), "O4"


def may_maintain(s: Abstract) -> bool:
    """The agent is truly idle (M1)."""
    return allows(s, WAKE) and allows(s, MAINTAIN) and s.reserved == 0 and not (s.latched == 1 and usable(s))


def maintain(s: Abstract) -> None:
    """Maintenance takes the state (M1)."""
    fire(s, MAINTAIN)


def reserve(s: Abstract) -> None:
    """The next claim is held back (D8); possible whenever maintenance is."""
    s.reserved = 1


def use_latch(s: Abstract) -> None:
    """Replay a latched wake that still finds work; otherwise it is spent (D5)."""
    if allows(s, REPLAY) and s.reserved == 0:
        if s.latched == 1 and usable(s):
            fire(s, REPLAY)
        else:
            s.latched = 0


def may_release(s: Abstract) -> bool:
    """Something is held back: by a reservation or by creation (D8, O0)."""
    return s.reserved == 1


def release(s: Abstract) -> None:
    """The reservation is released; a wake it held up is served (D8)."""
    s.reserved = 0
    use_latch(s)
    assert s.wanted == 0, "D8"


def may_fall_silent(s: Abstract) -> bool:
    """Once."""
    return s.quiet == 0


def fall_silent(s: Abstract) -> None:
    """Nobody calls any more."""
    s.quiet = 1
