"""Asking: one message, its own turn, and what that turn answered (D9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import trio
from attrs import frozen

from ..errors import MessageRejected, MisuseError
from ..kernel import inputs as i
from ..kernel.pending import NEXT_TURN
from ..words.events import AssistantAttempt, AssistantMessageAdded, TurnEnd, TurnStart
from ..words.reasons import ByUser, EndReason
from ..words.stream import Usage, joined_usage
from .idle import forbid_wait

if TYPE_CHECKING:
    from ..session.log import Session
    from ..words.messages import UserMessage
    from .delivery import Receipt
    from .engine import Engine

OnCancel = Literal["leave", "stop"]
"""What a cancelled ``ask`` does with the turn: leaves it alone, or stops it."""


@frozen
class TurnAnswer:
    """What a turn answered.

    Attributes:
        text: the last thing that the model said in it; empty when it said nothing.
        reason: how the turn ended; look at it, as a turn that failed may have said something before.
        usage: the tokens of all its attempts together; what no attempt reported is absent.
        turn: its number.
    """

    text: str
    reason: EndReason
    usage: Usage
    turn: int


async def ask(engine: Engine, session: Session, message: UserMessage, on_cancel: OnCancel) -> TurnAnswer:
    """Deliver a message for a turn of its own and wait for that turn; see ``Agent.ask``."""
    if on_cancel not in ("leave", "stop"):
        raise MisuseError(f"on_cancel must be 'leave' or 'stop', not {on_cancel!r} (D9)")
    forbid_wait(engine, f"ask() of agent {session.id!r}")
    receipt = engine.deliver(message, NEXT_TURN, wakeup=True)
    try:
        await _until_over(engine, receipt)
    except trio.Cancelled:
        if (on_cancel == "stop" and _stop(engine, receipt)) or engine.cancel_with_parent():
            with trio.CancelScope(shield=True):
                await _until_over(engine, receipt)
        raise
    if receipt.turn is None:
        raise MessageRejected(message.id, _why(receipt))
    return _answer(session, receipt.turn)


async def _until_over(engine: Engine, receipt: Receipt) -> None:
    """Wait until the message's turn has ended and is flushed, or it is known that it gets none."""
    await trio.lowlevel.checkpoint_if_cancelled()
    while True:
        if receipt.fate is not None:
            if receipt.turn is None or engine.last_ended >= receipt.turn:
                break
        elif engine.kernel.truly_idle and engine.kernel.inbox.locate(receipt.message_id) is not None:
            engine.feed(i.RemoveMessage(receipt.message_id))
            break
        await engine.until_changed()
    await engine.flushed()


def _stop(engine: Engine, receipt: Receipt) -> bool:
    """Take the message back, or cancel its turn; returns whether a turn is to be waited for."""
    if engine.kernel.inbox.locate(receipt.message_id) is not None:
        engine.feed(i.RemoveMessage(receipt.message_id))
        return False
    if receipt.fate is None or (receipt.turn is not None and engine.last_ended < receipt.turn):
        engine.feed(i.Cancel(ByUser(), True))
        return True
    return False


def _why(receipt: Receipt) -> str:
    reason = getattr(receipt.fate, "reason", None)
    return "it was discarded, or parked when the turn before it failed" if reason == "discarded" else str(reason)


def _answer(session: Session, turn: int) -> TurnAnswer:
    text, reason, usages = "", None, list[Usage]()
    events = session.events
    at = len(events) - 1
    while at >= 0:
        data = events[at].data
        at -= 1
        if type(data) is TurnEnd:
            reason = data.reason if data.turn == turn else None
        elif type(data) is TurnStart and data.turn <= turn:
            break
        elif reason is not None and isinstance(data, (AssistantMessageAdded, AssistantAttempt)):
            if data.usage is not None:
                usages.append(data.usage)
            if isinstance(data, AssistantMessageAdded) and not text and data.message.text.strip():
                text = data.message.text
    assert reason is not None
    return TurnAnswer(text, reason, joined_usage(*usages), turn)
