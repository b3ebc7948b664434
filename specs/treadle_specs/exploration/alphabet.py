"""Every input that can come next: calls at any time, and what the owed operation may answer or report.

Inputs that a rule refuses are part of it: the monitor checks that they are refused and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from attrs import frozen

from treadle import UserMessage
from treadle.agent import Target
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.kernel.lifecycle import DISPOSAL, DISPOSED
from treadle.kernel.pending import NEXT_STEP, NEXT_TURN
from treadle.kernel.schedule import FINISHED, PENDING, REFUSED, STARTED, Schedule

from .node import ASKED, ATTEMPTED, PREPARED, Node
from .refusals import is_owed
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

TARGETS: tuple[Target, Target] = (NEXT_TURN, NEXT_STEP)


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
        inbox: whether every inbox operation is tried, or only those that no other one can stand for.
        strays: whether outcomes that nobody owes are tried: each must be refused (L1).
        endings: whether bodies end in other ways than by coming to a result of their own (C4).
    """

    ids: int = 3
    calls: int = 2
    inbox: bool = True
    strays: bool = False
    endings: bool = False

    def inputs_of(self, kernel: Kernel) -> Iterator[i.Input]:
        """Every input that can come next to a kernel on which nothing is under way."""
        return self.inputs(Node(kernel))

    def inputs(self, node: Node) -> Iterator[i.Input]:
        """Every input that can come next."""
        kernel = node.kernel
        live = node.view.live
        fresh = next((plain(message_id) for message_id in message_ids(self.ids) if message_id not in live), None)
        yield from _control(kernel)
        if kernel.state is DISPOSAL or kernel.state is DISPOSED:
            yield from _REFUSED
        else:
            yield from _deliveries(kernel, fresh)
            yield from _inbox(kernel, fresh, every=self.inbox)
        if self.strays:
            yield from [given for given in _STRAYS if not is_owed(kernel, given)]
        if node.reread:
            yield i.Replayed()
        elif kernel.owed is not None:
            yield from self._answers(node, kernel, fresh)

    def _answers(self, node: Node, kernel: Kernel, fresh: UserMessage | None) -> Iterator[i.Input]:
        owed = kernel.owed
        if owed is fx.PROCEED:
            yield i.Proceeded()
            return
        match owed:
            case fx.Admit():
                yield from _admissions(owed, fresh)
            case fx.Request():
                yield from self._requests(node.phase)
            case fx.Recover():
                yield i.Retried()
            case fx.RunTools():
                schedule = cast("Schedule", kernel.schedule)
                yield from _tools(kernel, schedule, fresh)
                if self.endings:
                    yield from _other_endings(kernel, schedule)
            case fx.Stop():
                yield i.Stopped()
            case _:
                yield i.Maintained()
        if not isinstance(owed, fx.Maintain):
            yield i.Failed(FAILURE)
            if kernel.cause is not None:
                yield i.Interrupted()

    def _requests(self, phase: int) -> Iterator[i.Input]:
        if phase == ASKED:
            yield i.Prepared()
            yield i.Prepared((i.SystemChange(SYSTEM),), HEADER, CONTEXT)
        elif phase == PREPARED:
            for calls in range(self.calls + 1):
                fact = answer(calls)
                yield i.Answered(fact, fact.message.calls)
            yield i.Answered(answer(0), (), truncated=True)
            yield i.AttemptRecorded(ATTEMPT)
            yield i.AttemptRecorded(PARTIAL)
        elif phase == ATTEMPTED:
            yield i.AttemptFailed(FAILURE)


_LATE = plain("late")
_REFUSED: tuple[i.Input, ...] = (
    i.Deliver(_LATE, NEXT_TURN, True),
    i.Deliver(_LATE, NEXT_STEP, False, own=True),
    i.Splice(NEXT_TURN, 0, 0, (_LATE,)),
    i.RemoveMessage("m1"),
    i.ReplaceMessage("m1", _LATE),
    i.ClearInbox(),
    i.EditMessage("m1", _LATE.content),
    i.SteerMessage("m1"),
)
"""Each kind of call that an agent which is gone refuses (L9)."""


_STRAYS: tuple[i.Input, ...] = (
    i.Entered(()),
    i.Refused(),
    i.Prepared(),
    i.AttemptRecorded(ATTEMPT),
    i.Answered(answer(1), answer(1).message.calls),
    i.AttemptFailed(FAILURE),
    i.Retried(),
    i.CallStarted(0, True),
    i.CallRefused(0),
    i.CallFinished(0),
    i.CallSettled(0, result(answer(1).message.calls[0])),
    i.CallDropped(0),
    i.ToolsSettled(),
    i.Stopped(),
    i.Maintained(),
    i.Failed(FAILURE),
    i.Interrupted(),
    i.Proceeded(),
)
"""One of each outcome, and of each piece of progress."""


def _deliveries(kernel: Kernel, fresh: UserMessage | None) -> Iterator[i.Input]:
    if fresh is not None:
        for target in TARGETS:
            yield i.Deliver(fresh, target, True)
            yield i.Deliver(fresh, target, False)
            if kernel.cause is not None:
                yield i.Deliver(fresh, target, True, own=True)
    for taken in (next(iter(kernel.inbox.ids), None), *[m.id for m in kernel.claimed[:1]]):
        if taken is not None:
            yield i.Deliver(plain(taken), NEXT_STEP, True)


def _control(kernel: Kernel) -> Iterator[i.Input]:
    cause = FIRST_CAUSE if kernel.cause is None else LATER_CAUSE
    yield i.Cancel(cause)
    yield i.Cancel(cause, keep_inbox=True)
    yield i.Dispose()
    yield i.Dispose(keep_inbox=True)
    yield i.BeginMaintenance()
    yield i.Reserve()
    if kernel.reserved or kernel.held:
        yield i.Unreserve()


def _inbox(kernel: Kernel, fresh: UserMessage | None, *, every: bool) -> Iterator[i.Input]:
    inbox = kernel.inbox
    for message_id, target in list(inbox.ids.items()):
        yield i.RemoveMessage(message_id)
        if target == NEXT_TURN and kernel.accepts_next_step:
            yield i.SteerMessage(message_id)
        if fresh is not None:
            yield i.ReplaceMessage(message_id, fresh)
    if inbox.ids:
        yield i.ClearInbox()
    for target in TARGETS:
        pending = [entry.message for entry in inbox.list_of(target)]
        if fresh is not None:
            yield i.Splice(target, 0, 0, (fresh,))
        if every:
            yield from _rarer(target, pending, fresh)
        elif len(pending) > 1:
            yield i.Splice(target, 0, 2, (pending[1], pending[0]))


def _rarer(target: Target, pending: list[UserMessage], fresh: UserMessage | None) -> Iterator[i.Input]:
    """Operations whose outcome others reach as well, and those that change nothing."""
    if fresh is not None:
        yield i.Splice(target, len(pending), 0, (fresh,))
        yield i.RemoveMessage(fresh.id)
        yield i.Splice(target, 0, 1, (fresh, *pending[:1]))
    if pending:
        first = pending[0]
        yield i.Splice(target, -1, 99)
        yield i.ReplaceMessage(first.id, edited(first))
        yield i.ReplaceMessage(first.id, first)
        yield i.Splice(target, 0, 1, (first, first))
        if target == NEXT_TURN:
            yield i.EditMessage(first.id, edited(first).content)
    if len(pending) > 1:
        yield i.Splice(target, 0, 2, (pending[1], pending[0]))
        yield i.Splice(target, 0, 2, (pending[1],))


def _admissions(owed: fx.Admit, fresh: UserMessage | None) -> Iterator[i.Input]:
    batch = owed.batch
    yield i.Entered(batch)
    yield i.Entered(batch, series=True)
    yield i.Refused()
    if batch:
        yield i.Entered(())
        yield i.Entered((edited(batch[0]), *batch[1:]))
    if len(batch) > 1:
        yield i.Entered(batch[1:])
        yield i.Entered(batch[::-1])
    if fresh is not None:
        yield i.Entered((*batch, fresh))
        yield i.Entered((*batch[1:], fresh))
    if owed.prompt is not None:
        prompt = owed.prompt.id
        yield i.Refused("no", tuple([message for message in batch if message.id != prompt]))


def _tools(kernel: Kernel, schedule: Schedule, fresh: UserMessage | None) -> Iterator[i.Input]:
    if kernel.cause is None and schedule.next_start < len(schedule.calls):
        for parallel in (True, False):
            if schedule.may_start(parallel):
                yield i.CallStarted(schedule.next_start, parallel)
        yield i.CallRefused(schedule.next_start)
    for index, status in enumerate(schedule.status):
        if status == STARTED:
            yield i.CallFinished(index)
    due = schedule.next_settle
    if schedule.done:
        yield i.ToolsSettled()
    elif schedule.status[due] in (FINISHED, REFUSED):
        call = schedule.calls[due]
        yield i.CallSettled(due, result(call))
        yield i.CallSettled(due, result(call, concludes=True))
        yield i.CallSettled(due, result(call, is_error=True, concludes=True))
        if fresh is not None:
            yield i.CallSettled(due, result(call), (fresh, fresh))
        taken = next(iter(kernel.inbox.ids), None)
        if taken is not None:
            yield i.CallSettled(due, result(call), (plain(taken),))
    elif schedule.status[due] == PENDING and kernel.cause is not None:
        yield i.CallDropped(due)


def _other_endings(kernel: Kernel, schedule: Schedule) -> Iterator[i.Input]:
    for index, status in enumerate(schedule.status):
        if status == STARTED:
            yield i.CallFinished(index, i.TimedOut(1.0))
            if kernel.cause is not None:
                yield i.CallFinished(index, i.LetThrough(started=True))
                yield i.CallFinished(index, i.LetThrough(started=False))
