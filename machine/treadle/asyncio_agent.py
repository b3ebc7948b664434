"""The handle of an agent, for asyncio code and for any thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from .agent import BY_USER, Agent, checked
from .asyncio_streams import EventStream, FrameStream
from .crossing import Reply
from .effects import Admitted, Rejected, Status
from .engine import Converging
from .errors import MisuseError
from .models.messages import Block, UserMessage
from .session.events import Target
from .session.reasons import Cause, EndReason

if TYPE_CHECKING:
    from .asyncio import Bridge
    from .handle import AgentHandle
    from .ids import SessionId
    from .lifecycle import State
    from .maintenance import MaintenanceTask
    from .options import AgentOptions
    from .receipts import Receipt
    from .session.log import Session
    from .signal import Signal

T = TypeVar("T")


class BridgedReceipt(Reply["Receipt"]):
    """The receipt of a delivery that is on its way (D8). Await it to know that the message was accepted.

    Attributes:
        message_id: the message.
    """

    def __init__(self, bridge: Bridge, message_id: str) -> None:
        super().__init__()
        self._bridge = bridge
        self.message_id = message_id

    async def outcome(self) -> Admitted | Rejected:
        """Wait for the message's fate. A cancelled wait takes nothing back.

        Raises:
            DuplicateMessage, AgentDisposed: the message was not accepted.
        """
        receipt = await self
        return await self._bridge.run(receipt.outcome)

    def __repr__(self) -> str:
        return f"<BridgedReceipt {self.message_id}>"


class BridgedInbox:
    """The pending messages of an agent. Changes are made in the call and answered by a reply."""

    def __init__(self, bridge: Bridge, agent: Agent) -> None:
        self._bridge = bridge
        self._inbox = agent.inbox

    @property
    def next_turn(self) -> tuple[UserMessage, ...]:
        """See ``Inbox.next_turn``."""
        return self._inbox.next_turn

    @property
    def next_step(self) -> tuple[UserMessage, ...]:
        """See ``Inbox.next_step``."""
        return self._inbox.next_step

    def append(self, target: Target, message: UserMessage | str) -> Reply[None]:
        """See ``Inbox.append``."""
        return self._bridge.call(self._inbox.append, target, checked(message))

    def prepend(self, target: Target, message: UserMessage | str) -> Reply[None]:
        """See ``Inbox.prepend``."""
        return self._bridge.call(self._inbox.prepend, target, checked(message))

    def replace(self, message_id: str, message: UserMessage | str) -> Reply[bool]:
        """See ``Inbox.replace``."""
        return self._bridge.call(self._inbox.replace, message_id, checked(message))

    def remove(self, message_id: str) -> Reply[bool]:
        """See ``Inbox.remove``."""
        return self._bridge.call(self._inbox.remove, message_id)

    def splice(
        self, target: Target, start: int, delete_count: int, inserted: tuple[UserMessage, ...] = ()
    ) -> Reply[tuple[UserMessage, ...]]:
        """See ``Inbox.splice``."""
        return self._bridge.call(self._inbox.splice, target, start, delete_count, inserted)

    def clear(self) -> Reply[None]:
        """See ``Inbox.clear``."""
        return self._bridge.call(self._inbox.clear)


class BridgedAgent:
    """A live agent, as asyncio code and other threads use it.

    Deliveries and ``cancel`` are on their way when the call returns, in the order of calling, from any thread.

    Attributes:
        native: the agent itself. Read it from anywhere; change it through the bridge.
    """

    __slots__ = ("_bridge", "native")

    def __init__(self, bridge: Bridge, agent: Agent) -> None:
        self._bridge = bridge
        self.native = agent

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def id(self) -> SessionId:
        """See ``Agent.id``."""
        return self.native.id

    @property
    def options(self) -> AgentOptions:
        """See ``Agent.options``."""
        return self.native.options

    @property
    def session(self) -> Session:
        """The session; read only."""
        return self.native.session

    @property
    def inbox(self) -> BridgedInbox:
        """The pending messages."""
        return BridgedInbox(self._bridge, self.native)

    @property
    def status(self) -> Status:
        """See ``Agent.status``, as of now."""
        return self.native.status

    @property
    def state(self) -> State:
        """See ``Agent.state``, as of now."""
        return self.native.state

    @property
    def parked(self) -> tuple[UserMessage, ...]:
        """See ``Agent.parked``, as of now."""
        return self.native.parked

    @property
    def accepts_next_step(self) -> bool:
        """See ``Agent.accepts_next_step``, as of now."""
        return self.native.accepts_next_step

    def converging(self) -> Reply[Converging | None]:
        """See ``Agent.converging``."""
        return self._bridge.call(lambda: self.native.converging)

    # --- delivery -----------------------------------------------------------------------------------------------------

    def send(self, message: UserMessage | str, target: Target, wakeup: bool) -> BridgedReceipt:
        """Deliver a message (D1). It is on its way when this returns; no cancellation takes it back.

        Raises:
            InvalidMessage: it cannot be accepted (D3).
            BridgeClosed: the bridge is closed.
        """
        return self._deliver(lambda message: self.native.send(message, target, wakeup), message)

    def followup(self, message: UserMessage | str) -> BridgedReceipt:
        """See ``Agent.followup``; otherwise as ``send``."""
        return self._deliver(self.native.followup, message)

    def steer(self, message: UserMessage | str) -> BridgedReceipt:
        """See ``Agent.steer``; otherwise as ``send``."""
        return self._deliver(self.native.steer, message)

    def inject(self, message: UserMessage | str) -> BridgedReceipt:
        """See ``Agent.inject``; otherwise as ``send``."""
        return self._deliver(self.native.inject, message)

    def _deliver(self, deliver: Callable[[UserMessage], Receipt], message: UserMessage | str) -> BridgedReceipt:
        delivered = checked(message)
        receipt = BridgedReceipt(self._bridge, delivered.id)
        self._bridge.call_into(receipt, deliver, delivered)
        return receipt

    def update_inbox(
        self,
        message_id: str,
        action: Literal["edit", "remove", "steer"],
        content: str | tuple[Block, ...] | None = None,
    ) -> Reply[Literal["applied", "not-found", "steer-unavailable"]]:
        """See ``Agent.update_inbox``."""
        return self._bridge.call(self.native.update_inbox, message_id, action, content)

    # --- control ------------------------------------------------------------------------------------------------------

    def cancel(self, cause: Cause | Literal["user", "parent"] = BY_USER, *, keep_inbox: bool = False) -> Reply[None]:
        """See ``Agent.cancel``. Callable from any thread; await the reply only to know that it was done."""
        return self._bridge.call(lambda: self.native.cancel(cause, keep_inbox=keep_inbox))

    async def when_idle(self) -> EndReason | None:
        """See ``Agent.when_idle``. A cancelled wait cancels nothing else.

        Raises:
            MisuseError: awaited by the agent's own tool or hook, which would never return (L6).
        """
        if self._bridge.awaits_here(self.native):
            raise MisuseError(f"when_idle() of agent {self.id!r} awaited by its own tool or hook never returns (L6)")
        return await self._bridge.run(self.native.when_idle)

    async def run_maintenance(self, task: Callable[[Signal], Coroutine[Any, Any, T]]) -> T:
        """See ``Agent.run_maintenance``; the task runs in the bridge's loop, and is cancelled there."""
        crossed: Callable[[Signal], Awaitable[T]] = self._bridge.in_loop(task)
        running: MaintenanceTask[T] = await self._bridge.call(lambda: self.native.run_maintenance(crossed))
        return await self._bridge.run(running.wait)

    def reserve_turn_admission(self) -> Reply[Callable[[], Reply[None]] | None]:
        """See ``Agent.reserve_turn_admission``; the release is callable from any thread."""

        def reserve() -> Callable[[], Reply[None]] | None:
            release = self.native.reserve_turn_admission()
            return (lambda: self._bridge.call(release)) if release is not None else None

        return self._bridge.call(reserve)

    # --- what it tells ------------------------------------------------------------------------------------------------

    def events(self, start: int | None = 0) -> EventStream:
        """Iterate over the log, from event ``start`` on; ``None`` starts with what comes next. Ends with the agent."""
        return EventStream(self._bridge, self.native, start if start is not None else len(self.native.session))

    def frames(self) -> FrameStream:
        """Iterate over the frames of live answers, from now on (Q9). Ends with the agent."""
        return FrameStream(self._bridge, self.native)

    def stream(self, message: UserMessage | str) -> FrameStream:
        """Follow up with a message and iterate over the frames of the turn that answers it.

        Leaving early leaves the turn alone; ``cancel`` stops it.

        Raises:
            InvalidMessage: the message cannot be accepted (D3).
            DuplicateMessage, AgentDisposed: from the iteration, when it was not accepted.
        """
        delivered = checked(message)
        return FrameStream(self._bridge, self.native, delivered, BridgedReceipt(self._bridge, delivered.id))

    def __repr__(self) -> str:
        return f"<BridgedAgent {self.id} {self.state.value}>"


class BridgedHandle:
    """An owned agent: only who holds this can dispose it (O3). Use it as an async context manager to do so.

    Attributes:
        agent: the live agent.
    """

    __slots__ = ("_bridge", "_handle", "agent")

    def __init__(self, bridge: Bridge, handle: AgentHandle) -> None:
        self._bridge = bridge
        self._handle = handle
        self.agent = bridge.agent(handle.agent)

    def dispose(self, *, keep_inbox: bool = False) -> Awaitable[None]:
        """See ``AgentHandle.dispose``: taken in the call, from any thread; await it for the end."""
        taken = self._bridge.call(lambda: self._handle.dispose(keep_inbox=keep_inbox))

        async def end() -> None:
            disposal = await taken
            await self._bridge.run(disposal.wait)

        return _Ending(end)

    async def __aenter__(self) -> BridgedAgent:
        return self.agent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.dispose(keep_inbox=True)


class _Ending:
    """Awaitable any number of times; taken already."""

    def __init__(self, end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._end = end

    def __await__(self) -> Any:
        return self._end().__await__()
