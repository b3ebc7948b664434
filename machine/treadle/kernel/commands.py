"""Calls on the agent, as the kernel takes them: deliveries, inbox operations, cancel, dispose, maintenance (§3–§8)."""

from __future__ import annotations

from typing import assert_never

import msgspec

from ..errors import AgentBusy, AgentDisposed, DuplicateMessage, InvalidTrigger, MisuseError
from ..words.events import InboxSpliced, Target
from ..words.messages import UserMessage
from ..words.reasons import ByDisposal, Cause
from . import inputs as i
from .effects import Discarded, Inserted, Publish, Record, Rejected, Settle, Updated
from .lifecycle import CANCEL, DISPOSE, LATCH, MAINTAIN, REPLAY, WAKE, fire
from .pending import NEXT_STEP, NEXT_TURN, Entry, normalize
from .state import KernelState, Trigger
from .verbs import park

# --- delivery and the inbox ---------------------------------------------------------------------------------------


def _accepting(state: KernelState) -> None:
    if state.gone:
        raise AgentDisposed("the agent is disposed or being disposed; nothing is accepted any more (L9)")


def deliver(state: KernelState, given: i.Deliver) -> None:
    """A message arrives: it is inserted, and may wake (D1, D4)."""
    _accepting(state)
    message = given.message
    if state.taken(message.id):
        raise DuplicateMessage(message.id)
    cancelled = state.cause is not None
    target = NEXT_TURN if given.wakeup and cancelled and not given.own else given.target
    state.insert(target, (message,), given.wakeup)
    if given.wakeup and not (cancelled and given.own):
        fire(state, LATCH if state.holds_back and state.allows(LATCH) else WAKE)


def inbox_operation(
    state: KernelState,
    given: i.Splice | i.ReplaceMessage | i.RemoveMessage | i.ClearInbox | i.EditMessage | i.SteerMessage,
) -> None:
    """An operation on the pending lists; one that changes nothing records nothing (I2)."""
    _accepting(state)
    match given:
        case i.Splice():
            length = len(state.inbox.list_of(given.target))
            start, count = normalize(length, given.start, given.delete_count)
            _change(state, given.target, start, count, given.inserted)
        case i.ReplaceMessage():
            if (place := state.inbox.locate(given.message_id)) is not None:
                waking = state.inbox.list_of(place[0])[place[1]].waking
                _change(state, *place, 1, (given.message,), waking)
        case i.RemoveMessage():
            if (place := state.inbox.locate(given.message_id)) is not None:
                _change(state, *place, 1, ())
        case i.ClearInbox():
            _clear(state)
        case i.EditMessage():
            _edit(state, given)
        case i.SteerMessage():
            _steer(state, given)
        case _:
            assert_never(given)
    if not state.inbox.can_use_wake:
        state.latched = False


def _change(
    state: KernelState, target: Target, start: int, count: int, inserted: tuple[UserMessage, ...], waking: bool = False
) -> None:
    removed = state.inbox.list_of(target)[start : start + count]
    before = {entry.message.id: entry for entry in removed}
    fresh: set[str] = set()
    for message in inserted:
        if message.id in fresh or (message.id not in before and state.taken(message.id)):
            raise DuplicateMessage(message.id)
        fresh.add(message.id)
    if [entry.message for entry in removed] == list(inserted):
        return
    entries = [Entry(message, before[message.id].waking if message.id in before else waking) for message in inserted]
    state.inbox.splice(target, start, count, entries)
    lost = [entry.message for entry in removed if entry.message.id not in fresh]
    state.out.append(Record(InboxSpliced(target, start, count, inserted, "canceled" if lost else None)))
    for message in lost:
        _discard(state, message)
    for message in inserted:
        kept = before.get(message.id)
        if kept is None:
            state.out.append(Publish(Inserted(message)))
        elif kept.message != message:
            state.out.append(Publish(Updated(message)))


def _discard(state: KernelState, message: UserMessage) -> None:
    state.out.append(Settle(message.id, Rejected("discarded")))
    state.out.append(Publish(Discarded(message)))


def _empty(state: KernelState, target: Target) -> list[UserMessage]:
    """Drop one list as a cancellation; returns what it held, not told yet."""
    count = len(state.inbox.list_of(target))
    if not count:
        return []
    removed = state.inbox.splice(target, 0, count)
    state.out.append(Record(InboxSpliced(target, 0, count, (), "canceled")))
    return [entry.message for entry in removed]


def _clear(state: KernelState) -> None:
    for message in _empty_both(state):
        _discard(state, message)


def _empty_both(state: KernelState) -> list[UserMessage]:
    """Drop all that is pending: both records come before anything is told (I7, C3)."""
    return [*_empty(state, NEXT_STEP), *_empty(state, NEXT_TURN)]


def _edit(state: KernelState, given: i.EditMessage) -> None:
    target, index = _queued(state, given.message_id)
    old = state.inbox.list_of(target)[index].message
    _change(state, target, index, 1, (msgspec.structs.replace(old, content=given.content),))


def _steer(state: KernelState, given: i.SteerMessage) -> None:
    if not state.accepts_next_step:
        raise MisuseError("no open turn accepts steering now (I9)")
    target, index = _queued(state, given.message_id)
    message = state.inbox.splice(target, index, 1)[0].message
    start = len(state.inbox.next_step)
    state.inbox.splice(NEXT_STEP, start, 0, [Entry(message, True)])
    state.out.append(Record(InboxSpliced(target, index, 1)))
    state.out.append(Record(InboxSpliced(NEXT_STEP, start, 0, (message,))))
    state.out.append(Publish(Updated(message)))


def _queued(state: KernelState, message_id: str) -> tuple[Target, int]:
    place = state.inbox.locate(message_id)
    if place is None or place[0] != NEXT_TURN:
        raise MisuseError(f"no next-turn entry has the id {message_id!r} (I9)")
    return place


# --- cancel, dispose, maintenance, reservation --------------------------------------------------------------------


def cancel(state: KernelState, given: i.Cancel) -> None:
    """Stop the activity, or only clear when there is none (C1, C2)."""
    if isinstance(given.cause, ByDisposal):
        raise MisuseError("the cause `disposed` belongs to a dispose; cancel with another one (C1)")
    if state.gone:
        return
    if state.allows(CANCEL):
        _abort(state, CANCEL, given.cause, given.keep_inbox)
    elif not given.keep_inbox:
        _clear(state)
        state.latched = False


def _abort(state: KernelState, trigger: Trigger, cause: Cause, keep: bool) -> None:
    """Cancel the activity: all is recorded and set before anything is told (C3)."""
    dropped: list[UserMessage] = []
    if not keep:
        dropped = _empty_both(state)
        state.latched = False
    if state.cause is None:
        state.cause, state.keep = cause, keep
    fire(state, trigger)
    for message in dropped:
        _discard(state, message)


def dispose(state: KernelState, given: i.Dispose) -> None:
    """End the agent; a second disposal joins the first (O4)."""
    if not state.allows(DISPOSE):
        return
    if state.allows(MAINTAIN):
        if not given.keep_inbox:
            _clear(state)
        fire(state, DISPOSE)
    else:
        _abort(state, DISPOSE, ByDisposal(), given.keep_inbox)


def maintain(state: KernelState, _given: i.BeginMaintenance) -> None:
    """Claim the idle state for a maintenance task (M1)."""
    _accepting(state)
    if not state.truly_idle:
        raise AgentBusy(f"maintenance needs an idle agent (M1); this one is in {state.state.value}: await when_idle()")
    fire(state, MAINTAIN)


def reserve(state: KernelState, given: i.Reserve) -> None:
    """Hold back the next claim (D8)."""
    ahead = given.ahead and state.turn_open and not state.gone and not state.reserved
    if not (ahead or state.truly_idle):
        raise AgentBusy("admission can be reserved once: while idle, or ahead of the next turn while one runs (D8)")
    state.reserved = True


def unreserve(state: KernelState, _given: i.Unreserve) -> None:
    """Release what was held back: a latched wake is replayed, or what waits is told (D8, O0)."""
    if not state.holds_back:
        raise InvalidTrigger("nothing is held back, so nothing can be released (D8)")
    state.reserved = state.held = False
    _rest(state)


def replayed(state: KernelState, _given: i.Replayed) -> None:
    """An activity has converged: replay a latched wake, or tell what it left behind (H4, L3)."""
    if not state.holds_back:
        _rest(state)


def _rest(state: KernelState) -> None:
    """Replay a latched wake that still finds work; otherwise tell what waits for another wake (D5, L3)."""
    if not state.allows(REPLAY):
        return
    if state.poised:
        fire(state, REPLAY)
    else:
        park(state)
