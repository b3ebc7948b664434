"""Every input that can come next, drawn from the model alone: calls, outcomes, progress, and those that must be refused.

One of each outcome is tried in every state, whatever is owed: the model says which are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from treadle import ByDisposal, UserMessage
from treadle.agent import Target
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i

from ..model.agent import IDLE, STEP, TURN
from ..model.model import Model
from .vocabulary import (
    ATTEMPT,
    CONTEXT,
    FAILURE,
    FIRST_CAUSE,
    HEADER,
    LATER_CAUSE,
    PARTIAL,
    SYSTEM,
    answer,
    edited,
    message_ids,
    plain,
    result,
)

TARGETS: tuple[Target, Target] = (TURN, STEP)

CALLS = frozenset[Any](
    {
        *(i.Deliver, i.Splice, i.ReplaceMessage, i.RemoveMessage, i.ClearInbox, i.EditMessage, i.SteerMessage),
        *(i.Cancel, i.BeginMaintenance, i.Reserve, i.Unreserve, i.Dispose),
    }
)
"""Inputs that come from outside: nothing that must happen may depend on them."""


@frozen
class Alphabet:
    """How much may happen.

    Attributes:
        ids: messages that may be live at once; an id is used again once its message has met its fate.
        calls: the largest number of tool calls that an answer asks for.
        inbox: whether every inbox operation is tried, or only those that no other one can stand for; the latter also
            while tools run.
        strays: whether one of each outcome is tried in every state.
        endings: whether bodies end in other ways than by coming to a result of their own (C4).
        alone: whether nobody but a cancel or a dispose comes between while an agent is busy.
    """

    ids: int = 3
    calls: int = 2
    inbox: bool = True
    strays: bool = True
    endings: bool = False
    alone: bool = False

    def inputs(self, model: Model, *, reread: bool = False) -> Iterator[i.Input]:
        """Every input that can come next; ``reread``: the notifications of a convergence are running."""
        live = [message.id for message, _ in model.next_turn + model.next_step]
        live += [message.id for message in model.claimed + model.accepted]
        fresh = next((plain(message_id) for message_id in message_ids(self.ids) if message_id not in live), None)
        control = _CONTROL[model.cause is not None]
        yield from control if not self.alone or model.state == IDLE else control[:_STOPS]
        if model.leaving:
            yield from _LATE_CALLS
        elif not self.alone or model.state == IDLE:
            yield from _deliveries(fresh, live, cancelled=model.cause is not None)
            every = self.inbox and not model.modes
            yield from _operations(model, fresh, every=every)
            for target in TARGETS:
                there = [message for message, _ in model.inbox(target)]
                yield from _splices(target, there, fresh) if every else _few_splices(target, there, fresh)
        if reread:
            yield i.Replayed()
        yield from _OUTCOMES if self.strays else [given for given in _OUTCOMES if answers(model, given)]
        match model.owed:
            case fx.Admit():
                yield from _admissions(model, fresh)
            case fx.Request():
                yield from self._requests()
            case fx.RunTools():
                yield from self._tools(model, fresh, live)
            case _:
                pass

    def _requests(self) -> Iterator[i.Input]:
        yield _PREPARED
        for calls in range(1, self.calls + 1):
            yield i.Answered(answer(calls), answer(calls).message.calls)
        yield from _REQUESTS

    def _tools(self, model: Model, fresh: UserMessage | None, live: list[str]) -> Iterator[i.Input]:
        for index, call in enumerate(model.calls):
            if index:
                yield from _TOOL_PROGRESS[index]
                yield i.CallSettled(index, result(call))
            mode = model.modes[index]
            if mode == "unstarted":
                yield i.CallStarted(index, False)
            elif self.endings and mode in ("parallel", "exclusive"):
                yield i.CallFinished(index, i.TimedOut(1.0))
                yield i.CallFinished(index, i.LetThrough(started=True))
                yield i.CallFinished(index, i.LetThrough(started=False))
        due = next((index for index, mode in enumerate(model.modes) if mode != "settled"), None)
        if due is None:
            return
        call = model.calls[due]
        yield i.CallSettled(due, result(model.calls[due - 1]))
        yield i.CallSettled(due, result(call, concludes=True))
        yield i.CallSettled(due, result(call, is_error=True, concludes=True))
        if fresh is not None:
            yield i.CallSettled(due, result(call), (fresh, fresh))
        if live:
            yield i.CallSettled(due, result(call), (plain(live[0]),))


def answers(model: Model, given: i.Input) -> bool:
    """Whether an outcome or a piece of progress is of the kind that is owed (L7)."""
    owed: Any = model.owed
    return type(given) in _KINDS.get(owed.__class__, ())


_KINDS: dict[type, frozenset[Any]] = {
    fx.Admit: frozenset({i.Entered, i.Refused, i.Failed, i.Interrupted}),
    fx.Request: frozenset(
        {i.Prepared, i.AttemptRecorded, i.Answered, i.AttemptFailed, i.Failed, i.Interrupted},
    ),
    fx.Recover: frozenset({i.Retried, i.Failed, i.Interrupted}),
    fx.RunTools: frozenset(
        {
            *(i.CallStarted, i.CallRefused, i.CallFinished, i.CallSettled, i.CallDropped),
            *(i.ToolsSettled, i.Failed, i.Interrupted),
        }
    ),
    fx.Stop: frozenset({i.Stopped, i.Failed, i.Interrupted}),
    fx.Maintain: frozenset({i.Maintained, i.Interrupted}),
    str: frozenset({i.Proceeded}),
}


def _control(cause: Any) -> tuple[i.Input, ...]:
    stops = (i.Cancel(cause), i.Cancel(cause, keep_inbox=True), i.Dispose(), i.Dispose(keep_inbox=True))
    others = (i.BeginMaintenance(), i.Reserve(), i.Unreserve(), i.ClearInbox(), i.RemoveMessage("nobody"))
    return (*stops, *others, i.SteerMessage("nobody"), i.Cancel(ByDisposal()))


_STOPS = 4
_CONTROL = (_control(FIRST_CAUSE), _control(LATER_CAUSE))

_LATE = plain("late")
_LATE_CALLS: tuple[i.Input, ...] = (
    i.Deliver(_LATE, TURN, True),
    i.Deliver(_LATE, STEP, False, own=True),
    i.Splice(TURN, 0, 0, (_LATE,)),
    i.ReplaceMessage("m1", _LATE),
    i.EditMessage("m1", _LATE.content),
    i.SteerMessage("m1"),
)
"""Each kind of call that an agent which is gone refuses (L9)."""

_FIRST = answer(1).message.calls[0]
_OUTCOMES: tuple[i.Input, ...] = (
    i.Entered(()),
    i.Refused(),
    i.Prepared(),
    i.AttemptRecorded(ATTEMPT),
    i.Answered(answer(0)),
    i.AttemptFailed(FAILURE),
    i.Retried(),
    i.CallStarted(0, True),
    i.CallRefused(0),
    i.CallFinished(0),
    i.CallSettled(0, result(_FIRST)),
    i.CallDropped(0),
    i.ToolsSettled(),
    i.Stopped(),
    i.Maintained(),
    i.Failed(FAILURE),
    i.Interrupted(),
    i.Proceeded(),
)
"""One of each outcome, and of each piece of progress."""

_PREPARED = i.Prepared((i.SystemChange(SYSTEM, 3),), HEADER, CONTEXT)
_REQUESTS: tuple[i.Input, ...] = (
    i.Prepared((), HEADER),
    i.Answered(answer(0), (), truncated=True),
    i.Answered(answer(1), answer(1).message.calls, truncated=True),
    i.AttemptRecorded(PARTIAL),
)
_TOOL_PROGRESS: list[tuple[i.Input, ...]] = [
    (i.CallStarted(index, True), i.CallRefused(index), i.CallFinished(index), i.CallDropped(index))
    for index in range(9)
]


def _deliveries(fresh: UserMessage | None, live: list[str], *, cancelled: bool) -> Iterator[i.Input]:
    if fresh is not None:
        for target in TARGETS:
            yield i.Deliver(fresh, target, True)
            yield i.Deliver(fresh, target, False)
            if cancelled or target == STEP:
                yield i.Deliver(fresh, target, True, own=True)
    for taken in {live[0], live[-1]} if live else ():
        yield i.Deliver(plain(taken), STEP, True)


def _operations(model: Model, fresh: UserMessage | None, *, every: bool) -> Iterator[i.Input]:
    for target, entries in ((TURN, model.next_turn), (STEP, model.next_step)):
        for message, _ in entries:
            yield i.RemoveMessage(message.id)
            yield i.SteerMessage(message.id)
            if fresh is not None:
                yield i.ReplaceMessage(message.id, fresh)
            if every and target == TURN:
                yield i.EditMessage(message.id, edited(message).content)
            elif every:
                yield i.ReplaceMessage(message.id, edited(message))
        if every and entries:
            first = entries[0][0]
            yield i.ReplaceMessage(first.id, first)
            if len(entries) > 1:
                yield i.ReplaceMessage(first.id, entries[1][0])
            if target == TURN and model.next_step:
                yield i.ReplaceMessage(first.id, model.next_step[0][0])


def _few_splices(target: Target, there: list[UserMessage], fresh: UserMessage | None) -> Iterator[i.Input]:
    if fresh is not None:
        yield i.Splice(target, 0, 0, (fresh,))
    if len(there) > 1:
        yield i.Splice(target, 0, 2, (there[1], there[0]))


def _splices(target: Target, there: list[UserMessage], fresh: UserMessage | None) -> Iterator[i.Input]:
    """Splices with each coordinate below, at and above its bounds (I2)."""
    if fresh is not None:
        yield i.Splice(target, 0, -1, (fresh,))
        yield i.Splice(target, 9, 1, (fresh,))
    if not there:
        yield i.Splice(target, -9, 9)
        return
    first = there[0]
    yield i.Splice(target, -1, 9)
    yield i.Splice(target, -9, 1)
    yield i.Splice(target, len(there), 9)
    yield i.Splice(target, 0, 1, (first, first))
    yield i.Splice(target, len(there), 0, (first,))
    if fresh is not None:
        yield i.Splice(target, -1, 0, (fresh,))
        yield i.Splice(target, 1, 0, (fresh,))
        yield i.Splice(target, 0, 1, (fresh, first))
        yield i.Splice(target, -1, 1, (fresh,))
    if len(there) > 1:
        yield i.Splice(target, 0, 2, (there[1], first))
        yield i.Splice(target, -2, 2, (there[1],))
        yield i.Splice(target, 0, 2, (first, edited(there[1])))


def _admissions(model: Model, fresh: UserMessage | None) -> Iterator[i.Input]:
    batch = model.claimed
    yield i.Entered(batch, series=True)
    if batch:
        yield i.Entered(batch)
        yield i.Entered((edited(batch[0]), *batch[1:]))
        yield i.Entered((batch[0], *batch))
    if len(batch) > 1:
        yield i.Entered(batch[1:])
        yield i.Entered(batch[::-1])
    for message, _ in (*model.next_turn[:1], *model.next_step[:1]):
        yield i.Entered((*batch, message))
        yield i.Refused("no", (message,))
    if fresh is not None:
        yield i.Entered((*batch, fresh))
        yield i.Entered((*batch[1:], fresh))
    prompt = model.owed.prompt
    if prompt is not None:
        yield i.Refused("no", tuple([message for message in batch if message.id != prompt.id]))
        yield i.Refused("no", (prompt, prompt))
