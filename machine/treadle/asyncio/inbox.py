"""Messages on their way to an agent, and those that are pending."""

from __future__ import annotations

import functools

from ..agent.agent import Agent, Inbox, checked
from ..agent.delivery import Receipt
from ..kernel.effects import Admitted, Fate, Rejected
from ..words.events import Target
from ..words.messages import UserMessage
from .crossing import Crossing
from .reply import Reply


class BridgedReceipt(Reply[Receipt]):
    """The receipt of a delivery that is on its way (D8). Await it to know that the message was accepted.

    Attributes:
        message_id: the message.
    """

    def __init__(self, crossing: Crossing, agent: Agent, message_id: str) -> None:
        super().__init__()
        self._crossing = crossing
        self._agent = agent
        self.message_id = message_id

    @property
    def fate(self) -> Fate | None:
        """See ``Receipt.fate``, as of now; ``None``, too, while the delivery is on its way or when it was refused."""
        accepted = self._future.done() and self._future.exception() is None
        return self._future.result().fate if accepted else None

    @property
    def turn(self) -> int | None:
        """See ``Receipt.turn``, as of now; ``None``, too, while the delivery is on its way or when it was refused."""
        accepted = self._future.done() and self._future.exception() is None
        return self._future.result().turn if accepted else None

    async def outcome(self, *, durable: bool = False) -> Admitted | Rejected:
        """Wait for the message's fate; see ``Receipt.outcome``. A cancelled wait takes nothing back.

        Raises:
            MisuseError: awaited by the agent's own tool or hook before the fate is known (L6).
            DuplicateMessage, AgentDisposed: the message was not accepted.
            BridgeClosed: the bridge was closed before its fate was known.
        """
        receipt = await self
        if receipt.fate is None:
            self._crossing.forbid_own_wait(self._agent, f"the outcome of message {self.message_id!r}")
        return await self._crossing.run(functools.partial(receipt.outcome, durable=durable))

    def __repr__(self) -> str:
        return f"<BridgedReceipt {self.message_id}>"


class BridgedInbox:
    """The pending messages of an agent. Changes are made in the call, from any thread, and answered by a reply.

    Raises:
        InvalidMessage: from the call: a message cannot be accepted (D3).
        BridgeClosed: from the call: the bridge is not open.
        MisuseError, DuplicateMessage, AgentDisposed: from the reply, as ``Inbox`` raises them.
    """

    def __init__(self, crossing: Crossing, inbox: Inbox) -> None:
        self._crossing = crossing
        self._inbox = inbox

    @property
    def next_turn(self) -> tuple[UserMessage, ...]:
        """See ``Inbox.next_turn``, as of now."""
        return self._inbox.next_turn

    @property
    def next_step(self) -> tuple[UserMessage, ...]:
        """See ``Inbox.next_step``, as of now."""
        return self._inbox.next_step

    def append(self, target: Target, message: UserMessage | str) -> Reply[None]:
        """See ``Inbox.append``."""
        return self._crossing.call(self._inbox.append, target, checked(message))

    def prepend(self, target: Target, message: UserMessage | str) -> Reply[None]:
        """See ``Inbox.prepend``."""
        return self._crossing.call(self._inbox.prepend, target, checked(message))

    def replace(self, message_id: str, message: UserMessage | str) -> Reply[bool]:
        """See ``Inbox.replace``."""
        return self._crossing.call(self._inbox.replace, message_id, checked(message))

    def remove(self, message_id: str) -> Reply[bool]:
        """See ``Inbox.remove``."""
        return self._crossing.call(self._inbox.remove, message_id)

    def splice(
        self, target: Target, start: int, delete_count: int, inserted: tuple[UserMessage, ...] | list[UserMessage] = ()
    ) -> Reply[tuple[UserMessage, ...]]:
        """See ``Inbox.splice``."""
        return self._crossing.call(self._inbox.splice, target, start, delete_count, tuple(inserted))

    def clear(self) -> Reply[None]:
        """See ``Inbox.clear``."""
        return self._crossing.call(self._inbox.clear)

    def __repr__(self) -> str:
        return f"<BridgedInbox next-turn={len(self.next_turn)} next-step={len(self.next_step)}>"
