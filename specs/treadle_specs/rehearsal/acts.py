"""Doing to a live agent what was done to the recorded one: deliveries, cancels, edits, results, answers, consent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import Any, Protocol

from treadle import AgentDisposed, ByDisposal, ByParent, DuplicateMessage, Event, UserMessage
from treadle.models import HookSource, ToolSource
from treadle.prompt import ContextSource
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    InboxSpliced,
    PresetSelected,
    RetryScheduled,
    RetryStarted,
    ToolCallStarted,
    ToolResultAdded,
    TurnStart,
)
from treadle.session.log import OWNED_BY_DRIVER

from .differences import runs_now
from .outside import Stop, comes_as_the_turn_ends, cut_short, is_insertion, keeps_inbox, waking_of, was_refused
from .plays import Body
from .track import Track


class Act(Enum):
    """What was done."""

    NOTHING = "nothing"
    LET = "something that waits was let go on"
    CALLED = "a method of the agent was called"


class Doing(Protocol):
    """What acts need of whoever conducts."""

    def start(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Start a task."""
        ...

    def play_up_to_a_cut(self) -> bool:
        """Let the streams pass that were cut off when they were recorded; returns whether anything did."""
        ...

    async def select_preset(self, track: Track, preset: str) -> None:
        """Have a preset selected."""
        ...


def act(track: Track, doing: Doing, *, at_once: bool = False, ahead: bool = False) -> Act:
    """Do the next thing of a session that came from outside, if that is what is due.

    Args:
        track: the session.
        doing: starts what takes time.
        at_once: only what needs nobody to rest first: it follows on something that was just done.
        ahead: behind a difference, do what comes later, too, as what is due does not come.
    """
    if track.difference is None:
        return _perform(track, track.due, doing, at_once=at_once) if track.entry is not None else Act.NOTHING
    for seq in range(track.due, track.life.end if ahead else min(track.due + 1, track.life.end)):
        if seq not in track.performed and (done := _perform(track, seq, doing)) is not Act.NOTHING:
            track.performed.add(seq)
            track.due = max(track.due, seq)
            return done
    return Act.NOTHING


def _perform(track: Track, seq: int, doing: Doing, *, at_once: bool = False) -> Act:
    entry = track.recording.events[seq]
    for stop in track.stops:
        if not stop.made and stop.moment.at == seq and not stop.moment.eager:
            done = _stop(track, stop, doing, at_once=at_once)
            if done is not Act.NOTHING:
                return done
    data = entry.data
    match data:
        case InboxSpliced():
            return _splice(track, entry, at_once=at_once)
        case AssistantMessageAdded() | AssistantAttempt() if not at_once:
            return _answer(track, seq, data.interrupted)
        case ToolResultAdded() if not at_once:
            return _result(track, entry)
        case ToolCallStarted() if not at_once:
            return _call(track)
        case PresetSelected() if not at_once and track.agent.status == "idle":
            doing.start(partial(doing.select_preset, track, data.preset))
            return Act.LET
        case TurnStart() if track.held is not None and not at_once:
            release, track.held = track.held, None
            release()
            return Act.CALLED
        case RetryScheduled() | RetryStarted() | PresetSelected():
            return Act.NOTHING
        case _:
            return _append(track, entry)


# --- cancels ------------------------------------------------------------------------------------------------------------


def _stop(track: Track, stop: Stop, doing: Doing, *, at_once: bool) -> Act:
    if track.cancelling or (isinstance(stop.cause, ByParent) and track.agent.parent is not None):
        return Act.NOTHING
    engine, play = track.agent.engine, track.play
    if engine.kernel.truly_idle:
        return Act.NOTHING
    if doing.play_up_to_a_cut():
        return Act.LET
    if at_once and play is None and type(track.recording.events[stop.moment.at].data) in (
        AssistantAttempt, AssistantMessageAdded,
    ):  # fmt: skip
        return Act.NOTHING
    make_stop(track, stop, doing)
    return Act.CALLED


def make_stop(track: Track, stop: Stop, doing: Doing) -> None:
    """Cancel as it was recorded."""
    stop.made = True
    track.shield_bodies()
    inbox = track.agent.inbox
    pending = bool(inbox.next_step or inbox.next_turn)
    keep = keeps_inbox(track.recording.events, stop, stop.moment.at, pending=pending)
    if isinstance(stop.cause, ByDisposal):
        assert track.handle is not None
        ending = track.handle.dispose(keep_inbox=keep)

        async def ended() -> None:
            await ending

        doing.start(ended)
    else:
        track.agent.cancel(stop.cause, keep_inbox=keep)


# --- the inbox ----------------------------------------------------------------------------------------------------------


def from_outside(track: Track, entry: Event) -> bool:
    """Whether a change of the inbox may have come from outside, and is not what the loop or a hook did."""
    data = entry.data
    if data.outcome is None and not data.inserted:
        return _is_move(track, entry.seq)
    if data.outcome is not None and not data.inserted:
        return True
    sources = [message.source for message in data.inserted]
    if any(isinstance(source, (HookSource, ContextSource)) for source in sources):
        return False
    if track.difference is not None and comes_as_the_turn_ends(track.recording.events, entry.seq):
        return False
    running = any(not body.over for body in track.bodies)
    return running or not any(isinstance(source, ToolSource) for source in sources)


def _is_move(track: Track, seq: int) -> bool:
    """Whether a message that leaves next-turn enters next-step at once: it was steered (I9)."""
    events = track.recording.events
    data, after = events[seq].data, events[seq + 1].data if seq + 1 < track.life.end else None
    if data.target != "next-turn" or not is_insertion(after) or after.target != "next-step":  # type: ignore[union-attr]
        return False
    pending = track.agent.inbox.next_turn
    return data.start < len(pending) and after.inserted[0].id == pending[data.start].id  # type: ignore[union-attr]


def _splice(track: Track, entry: Event, *, at_once: bool) -> Act:
    if not from_outside(track, entry) or _was_handed_over(track, entry):
        return Act.NOTHING
    play = track.play
    if play is not None and not at_once and play.allow(entry.time - 1):
        return Act.LET
    return Act.CALLED if make_splice(track, entry) else Act.NOTHING


def make_splice(track: Track, entry: Event) -> bool:
    """Change the inbox as it was recorded; returns whether it could be."""
    try:
        return _changed(track, entry)
    except (AgentDisposed, DuplicateMessage):
        return False


def _changed(track: Track, entry: Event) -> bool:
    data, agent = entry.data, track.agent
    inbox, at = agent.inbox, int(data.start)
    pending: list[UserMessage] = list(inbox.next_turn if data.target == "next-turn" else inbox.next_step)
    if not data.removed_count and len(data.inserted) == 1 and (data.start == len(pending) or track.difference):
        _deliver(track, entry, data.inserted[0])
    elif data.start + data.removed_count > len(pending):
        return False
    elif data.outcome is None and not data.inserted:
        agent.update_inbox(pending[at].id, "steer")
    elif data.removed_count == 1 and len(data.inserted) == 1:
        inbox.replace(pending[at].id, data.inserted[0])
    else:
        inbox.splice(data.target, data.start, data.removed_count, data.inserted)
    return True


def _deliver(track: Track, entry: Event, message: UserMessage) -> None:
    agent = track.agent
    waking = waking_of(
        track.recording.events, entry.seq, track.life,
        idle=not agent.engine.kernel.turn_open, cancelled=track.cancelling,
    )  # fmt: skip
    if waking.held and track.held is None and agent.engine.kernel.truly_idle:
        track.held = agent.reserve_turn_admission()
    agent.send(message, entry.data.target, waking.wakes)


def _was_handed_over(track: Track, entry: Event) -> bool:
    """Whether messages came beside a tool's result: the body hands them over, and hooks add theirs."""
    before = track.recording.events[entry.seq - 1] if entry.seq else None
    return before is not None and type(before.data) is ToolResultAdded and before.data.contexts > 0


def _contexts(track: Track, result: Event) -> tuple[UserMessage, ...]:
    """The messages that a body handed over beside its result (K11)."""
    events, data = track.recording.events, result.data
    after = events[result.seq + 1].data if result.seq + 1 < len(events) else None
    own = data.body.contexts if data.body is not None else data.contexts
    return after.inserted[:own] if own and is_insertion(after) else ()  # type: ignore[union-attr]


# --- models and tools ---------------------------------------------------------------------------------------------------


def _answer(track: Track, seq: int, interrupted: bool) -> Act:
    play = track.play
    if play is None or play.ended:
        return Act.NOTHING
    if play.seq != seq and track.difference is None:
        return Act.NOTHING
    if interrupted:
        return Act.LET if play.allow() else Act.NOTHING
    play.end()
    return Act.LET


def _result(track: Track, entry: Event) -> Act:
    data = entry.data
    for question in track.questions:
        if question.answer is None and question.call_id == track.pairing.live_name(data.call_id):
            question.answer = data.code != "NOT_APPROVED"
            question.tell()
            return Act.LET
    if cut_short(data):
        return _let_finish(track) if track.cancelling else Act.NOTHING
    body = track.body_of(data.call_id, _name_of(track, entry))
    if body is None or _ran_out_of_time(data):
        return Act.NOTHING
    if was_refused(data) and track.difference is None:
        track.difference = runs_now(entry, body.tool.name, track.recording)
    _finish(track, body, entry)
    if track.difference is None:
        _let_others_finish(track, entry.seq)
    return Act.LET


def _finish(track: Track, body: Body, entry: Event) -> None:
    body.contexts = _contexts(track, entry)
    body.result = entry
    body.tell()


def _let_others_finish(track: Track, seq: int) -> None:
    """Finish the bodies whose results follow at once: they had finished before another call could start."""
    events = track.recording.events
    for after in events[seq + 1 : track.life.end]:
        if type(after.data) is ToolResultAdded and not cut_short(after.data) and not _ran_out_of_time(after.data):
            body = track.body_of(after.data.call_id)
            if body is None or was_refused(after.data):
                return
            _finish(track, body, after)
        elif not (is_insertion(after.data) and _was_handed_over(track, after)):
            return


def _let_finish(track: Track) -> Act:
    """Finish the bodies that came to their own ends in spite of a cancel: it settles when all are over."""
    done = Act.NOTHING
    for body in track.bodies:
        if not body.over and body.result is None and body.scope.shield:
            entry = track.result_of(body.run.call.call_id)
            if entry is not None:
                _finish(track, body, entry)
                done = Act.LET
    return done


def _ran_out_of_time(data: ToolResultAdded) -> bool:
    return (data.body.code if data.body is not None else data.code) == "TOOL_TIMEOUT"


def _name_of(track: Track, entry: Event) -> str | None:
    for seq in range(entry.seq - 1, -1, -1):
        data = track.recording.events[seq].data
        if type(data) is ToolCallStarted and data.call_id == entry.data.call_id:
            return data.name
    return None


def _call(track: Track) -> Act:
    """A call is due that waits for consent, or for a place in the pool."""
    for question in track.questions:
        if question.answer is None:
            result = track.result_of(question.call_id)
            question.answer = result is None or result.data.code != "NOT_APPROVED"
            question.tell()
            return Act.LET
    if track.difference is not None:
        return Act.NOTHING
    for body in reversed(track.bodies):  # had the first one made room, its result would be due
        if not body.over and body.result is None:
            entry = track.result_of(body.run.call.call_id)
            if entry is not None and not cut_short(entry.data) and not _ran_out_of_time(entry.data):
                _finish(track, body, entry)
                return Act.LET
    return Act.NOTHING


# --- other events -------------------------------------------------------------------------------------------------------


def _append(track: Track, entry: Event) -> Act:
    """An event that a program, or the body of a tool, wrote: a compaction, an extension's own."""
    running = any(not body.over for body in track.bodies)
    if entry.type in OWNED_BY_DRIVER or not (running or not track.agent.engine.kernel.turn_open):
        return Act.NOTHING
    if track.difference is not None:
        return Act.NOTHING
    track.session.append(
        entry.data, surface_op=entry.surface_op, sources=entry.source_event_seqs, ignorable=entry.ignorable
    )
    return Act.CALLED
