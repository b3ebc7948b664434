"""What is asked of messages: deliver one, once; what became of it; change what is pending."""

from __future__ import annotations

from collections import OrderedDict

import trio

from treadle import Admitted, Agent, DuplicateMessage, Receipt, SessionLocked, UserMessage, message
from treadle.agent import Target
from treadle.models import Text
from treadle.session import TurnStart, UserMessageAdded, new_id

from .desk import Desk
from .problems import Refused
from .sessions import Asked
from .shapes import Delivery, Edit, InboxView, MessageFate, Order

REMEMBERED = 10_000
"""How many receipts are remembered over all sessions; what became of an older message is read from the log."""

MODES: dict[str, tuple[Target, bool]] = {
    "followup": ("next-turn", True),
    "steer": ("next-step", True),
    "inject": ("next-step", False),
}
"""Where a message goes by each mode, and whether it wakes (D1)."""


class MessageOperations:
    """The operations; each runs in the host's thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._receipts: OrderedDict[tuple[str, str], tuple[Receipt, UserMessage]] = OrderedDict()

    # --- delivery -----------------------------------------------------------------------------------------------------

    async def deliver(self, asked: Asked) -> MessageFate:
        """Deliver a message. One that was delivered before under this id is not delivered again; its fate is told.

        Raises:
            Refused: another message has that id (``DUPLICATE_MESSAGE``), or the server is being drained.
            InvalidMessage: it cannot be accepted (D3).
        """
        given: Delivery = asked.body
        self._desk.check_admits()
        blocks = given.blocks()
        name = given.id if given.id is not None else new_id()
        made = message(blocks, id=name) if isinstance(blocks, str) else UserMessage(name, blocks)
        try:
            agent = await self._desk.opened(asked.owner, asked.session)
        except SessionLocked as locked:
            posted = await self._desk.elsewhere(asked.session, locked).send(made, *MODES[given.mode])
            return MessageFate(name, "pending", duplicate=not posted.fresh)
        self._desk.check_admits()  # the drain may have begun while the session was opened
        before = self._known(agent, name)
        if before is not None:
            return _again(before, made)
        try:
            receipt = {"followup": agent.followup, "steer": agent.steer, "inject": agent.inject}[given.mode](made)
        except DuplicateMessage:
            # claimed by the open turn, and delivered by somebody else than the web
            return MessageFate(name, "pending", duplicate=True)
        self._receipts[agent.id, name] = (receipt, made)
        if len(self._receipts) > REMEMBERED:
            self._receipts.popitem(last=False)
        return _fate(receipt)

    async def fate(self, asked: Asked) -> MessageFate:
        """What became of a message; with ``wait`` the answer waits so many seconds for its fate.

        Raises:
            Refused: nothing is known of it.
        """
        desk, name = self._desk, asked.path["message"]
        await desk.check(asked.owner, asked.session)
        known = self._receipts.get((asked.session, name))
        if known is not None and known[0].fate is None:
            with trio.move_on_after(asked.number("wait", 0, int(desk.limits.wait))):
                await known[0].outcome()
        if known is not None:
            return _fate(known[0])
        agent = await desk.opened(asked.owner, asked.session)
        found = self._known(agent, name)
        if found is None:
            raise Refused(404, "MESSAGE_NOT_FOUND", "no message of that id was delivered to this session")
        return found[0]

    def _known(self, agent: Agent, id: str) -> tuple[MessageFate, UserMessage] | None:
        """What is known of a message that was delivered before: by its receipt, the inbox, or the log."""
        known = self._receipts.get((agent.id, id))
        if known is not None:
            return _fate(known[0]), known[1]
        for pending in (*agent.inbox.next_turn, *agent.inbox.next_step):
            if pending.id == id:
                return MessageFate(id, "pending"), pending
        if id in agent.session.recorded:
            turn = None
            for entry in agent.session.events:
                if isinstance(entry.data, TurnStart):
                    turn = entry.data.turn
                elif isinstance(entry.data, UserMessageAdded) and entry.data.message.id == id:
                    return MessageFate(id, "admitted", turn), entry.data.message
        return None

    # --- what is pending ----------------------------------------------------------------------------------------------

    async def inbox(self, asked: Asked) -> InboxView:
        """The pending messages."""
        return _inbox(await self._desk.opened(asked.owner, asked.session))

    async def edit(self, asked: Asked) -> InboxView:
        """Give a pending message another text; it keeps its id and place (I9)."""
        given: Edit = asked.body
        agent, name = await self._desk.opened(asked.owner, asked.session), asked.path["message"]
        if agent.update_inbox(name, "edit", given.text) == "not-found":
            if all(pending.id != name for pending in agent.inbox.next_step):
                raise _not_pending()
            agent.inbox.replace(name, UserMessage(name, (Text(given.text),)))
        return _inbox(agent)

    async def remove(self, asked: Asked) -> InboxView:
        """Take a pending message out (I2)."""
        agent = await self._desk.opened(asked.owner, asked.session)
        if not agent.inbox.remove(asked.path["message"]):
            raise _not_pending()
        return _inbox(agent)

    async def send_ahead(self, asked: Asked) -> InboxView:
        """Move a message that waits for a turn of its own into the running turn (I9).

        Raises:
            Refused: it is not pending, or no turn would take it now (``STEER_UNAVAILABLE``).
        """
        agent = await self._desk.opened(asked.owner, asked.session)
        match agent.update_inbox(asked.path["message"], "steer"):
            case "not-found":
                raise _not_pending()
            case "steer-unavailable":
                raise Refused(409, "STEER_UNAVAILABLE", "no turn is running that would take it now")
            case "applied":
                return _inbox(agent)

    async def reorder(self, asked: Asked) -> InboxView:
        """Put the messages that wait for turns of their own in another order.

        Raises:
            Refused: the ids are not exactly those that wait now (``INBOX_CHANGED``).
        """
        given: Order = asked.body
        agent = await self._desk.opened(asked.owner, asked.session)
        waiting = {pending.id: pending for pending in agent.inbox.next_turn}
        if sorted(given.ids) != sorted(waiting):
            raise Refused(409, "INBOX_CHANGED", "these are not the messages that wait now; read the inbox again")
        agent.inbox.splice("next-turn", 0, len(waiting), [waiting[one] for one in given.ids])
        return _inbox(agent)


def _again(before: tuple[MessageFate, UserMessage], made: UserMessage) -> MessageFate:
    fate, delivered = before
    if delivered.content != made.content:
        raise Refused(409, "DUPLICATE_MESSAGE", "another message was delivered under this id; send it under a new one")
    return MessageFate(fate.id, fate.fate, fate.turn, fate.reason, duplicate=True)


def _fate(receipt: Receipt) -> MessageFate:
    fate = receipt.fate
    if fate is None:
        return MessageFate(receipt.message_id, "pending")
    if isinstance(fate, Admitted):
        return MessageFate(receipt.message_id, "admitted", fate.turn)
    return MessageFate(receipt.message_id, "rejected", receipt.turn, fate.reason)


def _inbox(agent: Agent) -> InboxView:
    return InboxView(agent.inbox.next_turn, agent.inbox.next_step)


def _not_pending() -> Refused:
    return Refused(404, "NOT_PENDING", "this message is not pending any more: it was taken, or removed")
