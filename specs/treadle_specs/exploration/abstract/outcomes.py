"""What the owed operation may answer, decided as the kernel decides it; see ``verbs`` for the language."""

from __future__ import annotations

from treadle.kernel.lifecycle import (
    CLOSE,
    CLOSE_TO_NEXT,
    CONTINUE,
    CONVERGE,
    DRAIN,
    EMPTY,
    ENTER,
    FAIL,
    OBJECT,
    REFUSE,
    RELEASE,
    RELEASE_TO_NEXT,
    REPLAY,
    REST,
    WAKE,
)

from .calls import use_latch
from .fields import (
    ACCEPTED,
    ADMIT,
    CLAIMED,
    IDLE,
    MAINTAIN_TASK,
    NOTHING,
    PLAIN,
    PLAIN_WAKING,
    PROCEED,
    RECOVER,
    REQUEST,
    STEPS,
    STOP,
    TOOLS,
    Abstract,
)
from .machine import allows, fire
from .verbs import meet_fate, park, presses, usable


def converge(s: Abstract) -> None:
    """Everything that was started has settled (C4)."""
    if allows(s, CONVERGE):
        fire(s, CONVERGE)
    else:
        fire(s, DRAIN)


def close(s: Abstract) -> None:
    """The turn is over: the next prompt, or rest (I5)."""
    if s.nt0 != 0:
        fire(s, CLOSE_TO_NEXT)
        assert s.turn_open == 1, "I5"
    else:
        fire(s, CLOSE)
        assert not usable(s), "T4"


def fail(s: Abstract) -> None:
    """The turn ends with a failure (T9)."""
    fire(s, FAIL)


def may_enter(s: Abstract, some: int, kept: int) -> bool:
    """Admission is owed; what is kept of the tagged message makes the batch not empty."""
    return s.owed == ADMIT and s.reread == 0 and (some == 1 or kept == 0)


def enter(s: Abstract, some: int, kept: int) -> None:
    """The batch is decided: empty or not, with the tagged message or without (T2, T8)."""
    s.owed = NOTHING
    if s.cause != 0:
        converge(s)
    else:
        if s.tag == CLAIMED:
            if kept == 1:
                s.tag = ACCEPTED
            else:
                meet_fate(s)
        if some == 1 or s.owes == 1:
            fire(s, ENTER)
            s.prepared = 0
            s.retried = 0
        elif presses(s):
            fire(s, EMPTY)
        else:
            close(s)


def may_refuse(s: Abstract) -> bool:
    """Admission is owed."""
    return s.owed == ADMIT and s.reread == 0


def refuse(s: Abstract) -> None:
    """The step is rejected (T2)."""
    s.owed = NOTHING
    if s.cause != 0:
        converge(s)
    else:
        fire(s, REFUSE)


def may_prepare(s: Abstract) -> bool:
    """A request is owed and not prepared."""
    return s.owed == REQUEST and s.prepared == 0 and s.cause == 0


def prepare(s: Abstract) -> None:
    """The call is prepared: the accepted batch enters the history (T1)."""
    if s.tag == ACCEPTED:
        meet_fate(s)
    s.prepared = 1


def may_answer(s: Abstract) -> bool:
    """A request is owed and prepared."""
    return s.owed == REQUEST and s.prepared == 1


def answer_with_calls(s: Abstract) -> None:
    """The answer asks for tools (T3)."""
    s.owes = 0
    s.handed = 0
    s.owed = TOOLS


def answer_without(s: Abstract) -> None:
    """The answer asks for nothing (T3)."""
    s.owes = 0
    s.owed = PROCEED


def fail_attempt(s: Abstract) -> None:
    """The attempt failed: recovery decides (H6)."""
    s.owed = NOTHING
    if s.cause != 0:
        converge(s)
    else:
        s.owed = RECOVER


def may_retry(s: Abstract) -> bool:
    """Recovery is owed; a step is retried once."""
    return s.owed == RECOVER and s.retried == 0


def retry(s: Abstract) -> None:
    """Another attempt of the same step (H6)."""
    s.owed = NOTHING
    if s.cause != 0:
        converge(s)
    else:
        s.owed = REQUEST
        s.prepared = 0
        s.retried = 1


def may_hand_over(s: Abstract) -> bool:
    """Tools run, and none of this step has handed contexts over; in disposal they are dropped (C7)."""
    return s.owed == TOOLS and s.handed == 0 and s.ns1 == 0 and allows(s, WAKE)


def hand_over(s: Abstract) -> None:
    """A result comes with a context: it presses unless the turn is being cancelled (C7)."""
    s.handed = 1
    if s.ns0 == 0:
        s.ns0 = PLAIN_WAKING if s.cause == 0 else PLAIN
    else:
        s.ns1 = PLAIN_WAKING if s.cause == 0 else PLAIN


def step_over(s: Abstract, owes: int) -> None:
    """Another step, the question for the end, or the step limit (T3, T4, T11)."""
    s.owed = NOTHING
    s.handed = 0
    if s.cause != 0:
        converge(s)
    else:
        s.owes = owes
        if s.owes == 0 and not presses(s):
            fire(s, REST)
        elif s.steps >= STEPS:
            fail(s)
        else:
            fire(s, CONTINUE)


def may_settle_tools(s: Abstract) -> bool:
    """Tools are owed."""
    return s.owed == TOOLS


def settle_tools(s: Abstract, owes: int) -> None:
    """Every call has its result; unless one concludes, they are owed to the model (T5)."""
    step_over(s, owes)


def may_proceed(s: Abstract) -> bool:
    """The notifications of an answer are running."""
    return s.owed == PROCEED


def proceed(s: Abstract) -> None:
    """The notifications of an answer have run."""
    step_over(s, 0)


def may_stop(s: Abstract) -> bool:
    """Turn-stopping is owed."""
    return s.owed == STOP


def stop(s: Abstract) -> None:
    """All were asked; the inbox decides (T4)."""
    s.owed = NOTHING
    if s.cause != 0:
        converge(s)
    elif not presses(s):
        close(s)
    elif s.steps >= STEPS:
        fail(s)
    else:
        fire(s, OBJECT)


def may_end_maintenance(s: Abstract) -> bool:
    """Maintenance is owed."""
    return s.owed == MAINTAIN_TASK and s.reread == 0


def end_maintenance(s: Abstract) -> None:
    """The task is over (M3)."""
    s.owed = NOTHING
    s.ended = 1
    if s.cause != 0:
        converge(s)
    elif s.latched == 1 and usable(s):
        fire(s, RELEASE_TO_NEXT)
    else:
        fire(s, RELEASE)


def may_break(s: Abstract) -> bool:
    """An operation that can fail is owed."""
    return s.reread == 0 and s.owed != NOTHING and s.owed != PROCEED and s.owed != MAINTAIN_TASK


def break_down(s: Abstract) -> None:
    """The operation fails, or lets a cancellation through (T9, C4)."""
    s.owed = NOTHING
    s.handed = 0
    if s.cause != 0:
        converge(s)
    else:
        fail(s)


def may_replay(s: Abstract) -> bool:
    """The notifications of a convergence are running."""
    return s.reread == 1


def replayed(s: Abstract) -> None:
    """The notifications of a convergence have run: replay, or tell what was left behind (H4, L3)."""
    s.reread = 0
    if s.state == IDLE:
        s.ended = 1
    use_latch(s)
    if allows(s, REPLAY) and s.latched == 0:
        park(s)
