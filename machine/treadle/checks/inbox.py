"""The inbox as its splices fold, and what becomes of each message (I1–I6, T0, N2)."""

from __future__ import annotations

from ..words.events import Event, InboxSpliced, StepStart, UserMessageAdded
from ..words.messages import UserMessage
from .state import LogState, Moving

_NOBODY: frozenset[str] = frozenset()


def spliced(log: LogState, data: InboxSpliced, entry: Event) -> None:
    """A splice fits the list, changes something, and says what became of the removed (I2, I3, I6)."""
    entries = log.lists.get(data.target)
    if entries is None:
        log.note("I6", f"there is no list {data.target!r}")
        return
    if _completes_move(log, data, entries):
        return
    settle_move(log)
    end = data.start + data.removed_count
    if not 0 <= data.start <= end <= len(entries):
        log.note("I6", f"a splice at {data.start} removing {data.removed_count} does not fit {len(entries)} pending")
        return
    if not data.removed_count and not data.inserted:
        log.note("I2", "a splice that changes nothing")
        return
    lost = removed = entries[data.start : end]
    if data.removed_count:
        before = {message.id for message in removed}
        log.pending -= before
        if data.inserted:
            fresh = {message.id for message in data.inserted}
            lost = [message for message in removed if message.id not in fresh]
    else:
        before = _NOBODY
    for message in data.inserted:
        _enter(log, message, again=message.id in before)
    entries[data.start : end] = data.inserted
    if lost and data.outcome is None and not data.inserted:
        _leave(log, data, removed, entry.seq)
        return
    if log.turn.due:
        log.doubt("I5", "the inbox changes before the turn has claimed what it begins with")
        log.turn.due.clear()
    if bool(lost) is not (data.outcome == "canceled"):
        log.note("I3", f"{len(lost)} messages leave the inbox, and the outcome is {data.outcome!r}")


def _enter(log: LogState, message: UserMessage, *, again: bool) -> None:
    if not again and (message.id in log.pending or message.id in log.turn.ids or message.id in log.recorded):
        log.note("I1", f"message {message.id!r} is pending, claimed or recorded already")
    log.pending.add(message.id)


def _leave(log: LogState, data: InboxSpliced, removed: list[UserMessage], seq: int) -> None:
    """A pure removal without outcome: a claim, or the first half of a steer (I3, I9)."""
    turn, step = log.turn, log.step
    if not turn.open:
        log.note("I3", "messages leave the inbox outside a turn, and nothing says what became of them")
        return
    due = turn.due[0] if turn.due else None
    if due == (data.target, len(removed)) and data.start == 0:
        del turn.due[0]
        if data.target == "next-turn":
            turn.prompt = removed[0].id
        _claim(log, removed)
    elif data.target == "next-turn" and len(removed) == 1:
        log.moving = Moving(removed[0], data.start, seq)
    else:
        if due is not None or step.open or data.start or log.lists[data.target] or data.target == "next-turn":
            log.note("I5", f"a claim takes {len(removed)} of {data.target} where it may not")
        _claim(log, removed)
        step.waiting = 0


def _claim(log: LogState, messages: list[UserMessage]) -> None:
    for message in messages:
        log.turn.claimed[message.id] = message
        log.turn.ids.add(message.id)


def _completes_move(log: LogState, data: InboxSpliced, entries: list[UserMessage]) -> bool:
    """Whether this splice is the second half of a steer, to the end of next-step (I9)."""
    moving = log.moving
    if moving is None or data.target != "next-step" or data.removed_count or data.inserted != (moving.message,):
        return False
    if data.start != len(entries) or data.outcome is not None:
        return False
    log.moving = None
    entries.append(moving.message)
    log.pending.add(moving.message.id)
    return True


def settle_move(log: LogState) -> None:
    """The entry that left next-turn was not put into next-step: it was claimed, where only a turn's start may (I5)."""
    moving, log.moving = log.moving, None
    if moving is None:
        return
    _claim(log, [moving.message])
    log.doubt("I5", f"message {moving.message.id!r} is claimed out of next-turn, and no turn begins", moving.seq)


def decide_batch(log: LogState, data: StepStart) -> list[UserMessage]:
    """What a step accepts: claimed messages, or messages given in full where hooks added or changed them (T0, I1)."""
    claimed = log.turn.claimed
    amended = {message.id: message for message in data.amended} if data.amended else {}
    accepted: list[UserMessage] = []
    for message_id in data.accepted:
        message = amended.pop(message_id, None)
        if message is None:
            message = claimed.get(message_id)
        elif message == claimed.get(message_id):
            log.note("T0", f"message {message_id!r} is given as changed, and is as it was claimed")
        elif message_id not in claimed and (message_id in log.pending or message_id in log.recorded):
            log.note("I1", f"message {message_id!r} enters, and is pending or recorded already")
        if message is None:
            log.note("T0", f"message {message_id!r} is accepted, and was neither claimed nor given")
        elif _place(accepted, message_id) is not None:
            log.note("T0", f"message {message_id!r} is accepted twice")
        else:
            accepted.append(message)
    if amended:
        log.note("T0", f"given in full and not accepted: {', '.join(amended)}")
    claimed.clear()
    log.turn.ids.update(data.accepted)
    return accepted


def _place(messages: list[UserMessage], message_id: str) -> int | None:
    for place, known in enumerate(messages):
        if known.id == message_id:
            return place
    return None


def user_message(log: LogState, data: UserMessageAdded, _: Event) -> None:
    """A message enters the history once, in the order of its batch, never between a call and its result (N1, N2, T1)."""
    message, turn, step = data.message, log.turn, log.step
    if message.id in log.recorded:
        log.note("I1", f"message {message.id!r} is recorded twice")
    log.recorded.add(message.id)
    if message.id in log.pending:
        log.note("N2", f"message {message.id!r} is recorded while it is pending")
    if step.asked:
        log.note("N1", f"message {message.id!r} stands between a call and its result")
    place = _place(step.accepted, message.id)
    if place is not None:
        if place:
            log.note("T1", f"message {message.id!r} precedes {step.accepted[0].id!r}, which was accepted before it")
        if step.accepted.pop(place) != message:
            log.note("T0", f"message {message.id!r} is not recorded as it was accepted")
    elif message.id in turn.claimed:
        if step.open:
            log.note("T10", f"message {message.id!r} was claimed for a later step")
        if turn.claimed.pop(message.id) != message:
            log.note("T0", f"message {message.id!r} is not recorded as it was claimed")
        turn.kept.append(message.id)
    elif message.id in turn.ids:
        log.note("N2", f"message {message.id!r} was taken in, left behind, and is recorded after all")
