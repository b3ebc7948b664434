"""Calls on the agent, as the kernel takes them: deliveries, inbox operations, cancel, dispose, maintenance (§3–§8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from . import inputs as i
from .effects import Discarded, Inserted, Publish, Record, Rejected, Settle, Updated
from .errors import AgentBusy, AgentDisposed, DuplicateMessage, MisuseError
from .inbox import NEXT_STEP, NEXT_TURN, Entry, normalize
from .lifecycle import CANCEL, DISPOSE, LATCH, MAINTAIN, REPLAY, WAKE, Trigger
from .models.messages import UserMessage
from .session.events import InboxSpliced, Target
from .session.reasons import ByDisposal, Cause
from .verbs import park

if TYPE_CHECKING:
    from .kernel import Kernel

# --- delivery and the inbox ---------------------------------------------------------------------------------------


def _accepting(kernel: Kernel) -> None:
    if kernel.gone:
        raise AgentDisposed("the agent is disposed or being disposed; nothing is accepted any more (L9)")


def deliver(kernel: Kernel, given: i.Deliver) -> None:
    """A message arrives: it is inserted, and may wake (D1, D4)."""
    _accepting(kernel)
    message = given.message
    if kernel.taken(message.id):
        raise DuplicateMessage(message.id)
    cancelled = kernel.cause is not None
    target = NEXT_TURN if given.wakeup and cancelled and not given.own else given.target
    insert(kernel, target, (message,), given.wakeup)
    if given.wakeup and not (cancelled and given.own):
        kernel.fire(LATCH if kernel.holds_back and kernel.allows(LATCH) else WAKE)


def insert(kernel: Kernel, target: Target, messages: tuple[UserMessage, ...], waking: bool) -> None:
    """Put messages at the end of a list, recorded and told (I3, I4)."""
    start = len(kernel.inbox.list_of(target))
    kernel.inbox.splice(target, start, 0, [Entry(message, waking) for message in messages])
    kernel.out.append(Record(InboxSpliced(target, start, 0, messages)))
    for message in messages:
        kernel.out.append(Publish(Inserted(message)))


def inbox_operation(
    kernel: Kernel,
    given: i.Splice | i.ReplaceMessage | i.RemoveMessage | i.ClearInbox | i.EditMessage | i.SteerMessage,
) -> None:
    """An operation on the pending lists; one that changes nothing records nothing (I2)."""
    _accepting(kernel)
    match given:
        case i.Splice():
            length = len(kernel.inbox.list_of(given.target))
            start, count = normalize(length, given.start, given.delete_count)
            _change(kernel, given.target, start, count, given.inserted)
        case i.ReplaceMessage():
            if (place := kernel.inbox.locate(given.message_id)) is not None:
                waking = kernel.inbox.list_of(place[0])[place[1]].waking
                _change(kernel, *place, 1, (given.message,), waking)
        case i.RemoveMessage():
            if (place := kernel.inbox.locate(given.message_id)) is not None:
                _change(kernel, *place, 1, ())
        case i.ClearInbox():
            _clear(kernel)
        case i.EditMessage():
            _edit(kernel, given)
        case i.SteerMessage():
            _steer(kernel, given)
        case _:
            assert_never(given)
    if not kernel.inbox.can_use_wake:
        kernel.latched = False


def _change(
    kernel: Kernel, target: Target, start: int, count: int, inserted: tuple[UserMessage, ...], waking: bool = False
) -> None:
    removed = kernel.inbox.list_of(target)[start : start + count]
    before = {entry.message.id: entry for entry in removed}
    fresh: set[str] = set()
    for message in inserted:
        if message.id in fresh or (message.id not in before and kernel.taken(message.id)):
            raise DuplicateMessage(message.id)
        fresh.add(message.id)
    if [entry.message for entry in removed] == list(inserted):
        return
    entries = [Entry(message, before[message.id].waking if message.id in before else waking) for message in inserted]
    kernel.inbox.splice(target, start, count, entries)
    lost = [entry.message for entry in removed if entry.message.id not in fresh]
    kernel.out.append(Record(InboxSpliced(target, start, count, inserted, "canceled" if lost else None)))
    for message in lost:
        _discard(kernel, message)
    for message in inserted:
        kernel.out.append(Publish(Updated(message) if message.id in before else Inserted(message)))


def _discard(kernel: Kernel, message: UserMessage) -> None:
    kernel.out.append(Settle(message.id, Rejected("discarded")))
    kernel.out.append(Publish(Discarded(message)))


def _empty(kernel: Kernel, target: Target) -> list[UserMessage]:
    """Drop one list as a cancellation; returns what it held, not told yet."""
    count = len(kernel.inbox.list_of(target))
    if not count:
        return []
    removed = kernel.inbox.splice(target, 0, count)
    kernel.out.append(Record(InboxSpliced(target, 0, count, (), "canceled")))
    return [entry.message for entry in removed]


def _clear(kernel: Kernel) -> None:
    for target in (NEXT_STEP, NEXT_TURN):
        for message in _empty(kernel, target):
            _discard(kernel, message)


def _edit(kernel: Kernel, given: i.EditMessage) -> None:
    target, index = _queued(kernel, given.message_id)
    old = kernel.inbox.list_of(target)[index].message
    _change(kernel, target, index, 1, (UserMessage(old.id, given.content, old.source),))


def _steer(kernel: Kernel, given: i.SteerMessage) -> None:
    if not kernel.accepts_next_step:
        raise MisuseError("no open turn accepts steering now (I9)")
    target, index = _queued(kernel, given.message_id)
    message = kernel.inbox.splice(target, index, 1)[0].message
    start = len(kernel.inbox.next_step)
    kernel.inbox.splice(NEXT_STEP, start, 0, [Entry(message, True)])
    kernel.out.append(Record(InboxSpliced(target, index, 1)))
    kernel.out.append(Record(InboxSpliced(NEXT_STEP, start, 0, (message,))))
    kernel.out.append(Publish(Updated(message)))


def _queued(kernel: Kernel, message_id: str) -> tuple[Target, int]:
    place = kernel.inbox.locate(message_id)
    if place is None or place[0] != NEXT_TURN:
        raise MisuseError(f"no next-turn entry has the id {message_id!r} (I9)")
    return place


# --- cancel, dispose, maintenance, reservation --------------------------------------------------------------------


def cancel(kernel: Kernel, cause: Cause, keep: bool) -> None:
    """Stop the activity, or only clear when there is none (C1, C2)."""
    if kernel.gone:
        return
    if kernel.allows(CANCEL):
        _abort(kernel, CANCEL, cause, keep)
    elif not keep:
        _clear(kernel)
        kernel.latched = False


def _abort(kernel: Kernel, trigger: Trigger, cause: Cause, keep: bool) -> None:
    """Cancel the activity: all is recorded and set before anything is told (C3)."""
    dropped: list[UserMessage] = []
    if not keep:
        dropped = [*_empty(kernel, NEXT_STEP), *_empty(kernel, NEXT_TURN)]
        kernel.latched = False
    if kernel.cause is None:
        kernel.cause, kernel.keep = cause, keep
    kernel.fire(trigger)
    for message in dropped:
        _discard(kernel, message)


def dispose(kernel: Kernel, given: i.Dispose) -> None:
    """End the agent; a second disposal joins the first (O4)."""
    if not kernel.allows(DISPOSE):
        return
    if kernel.allows(MAINTAIN):
        if not given.keep_inbox:
            _clear(kernel)
        kernel.fire(DISPOSE)
    else:
        _abort(kernel, DISPOSE, ByDisposal(), given.keep_inbox)


def maintain(kernel: Kernel) -> None:
    """Claim the idle state for a maintenance task (M1)."""
    _accepting(kernel)
    if not kernel.truly_idle:
        raise AgentBusy(f"maintenance needs an idle agent (M1); this one is in {kernel.state.value}: await when_idle()")
    kernel.fire(MAINTAIN)


def reserve(kernel: Kernel) -> None:
    """Hold back the next claim (D8)."""
    if not kernel.truly_idle:
        raise AgentBusy("admission can be reserved while idle only (D8)")
    kernel.reserved = True


def unreserve(kernel: Kernel) -> None:
    """Release what was held back, and replay a latched wake (D8, O0)."""
    kernel.reserved = kernel.held = False
    _use_latch(kernel)


def replayed(kernel: Kernel) -> None:
    """An activity has converged: replay a latched wake, or tell what it left behind (H4, L3)."""
    if not kernel.allows(REPLAY):
        return
    _use_latch(kernel)
    if kernel.allows(REPLAY) and not kernel.latched:
        park(kernel)


def _use_latch(kernel: Kernel) -> None:
    """Replay a latched wake that still finds work; otherwise it is spent (D5)."""
    if not kernel.allows(REPLAY) or kernel.holds_back:
        return
    if kernel.poised:
        kernel.fire(REPLAY)
    else:
        kernel.latched = False
