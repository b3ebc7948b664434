"""A live agent, for asyncio code and for any thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal, TypeVar

from ..agent.agent import BY_USER, Agent, checked
from ..agent.asking import OnCancel, TurnAnswer
from ..agent.compacting import Compacted
from ..agent.delivery import Receipt
from ..agent.engine import Converging
from ..agent.idle import when_quiet
from ..agent.options import AgentOptions
from ..hooks.scope import Scope
from ..ids import SessionId
from ..kernel.effects import Status
from ..kernel.lifecycle import State
from ..pictures import picture
from ..session.log import Session
from ..words.events import Target
from ..words.messages import Block, UserMessage
from ..words.reasons import Cause, EndReason
from ..words.signal import Signal
from .crossing import Crossing
from .inbox import BridgedInbox, BridgedReceipt
from .registries import BridgedHooks, BridgedPrompt, BridgedTools
from .reply import Reply
from .streams import EventStream, FrameStream

T = TypeVar("T")


class BridgedAgent:
    """A live agent, as asyncio code and other threads use it.

    Deliveries, changes and ``cancel`` are on their way when the call returns, in the order of calling, from any thread.
    What is awaited and what is iterated belongs to the bridge's loop.

    Attributes:
        native: the agent itself. Read it from anywhere; change it through the bridge.
    """

    __slots__ = ("_crossing", "native")

    def __init__(self, crossing: Crossing, agent: Agent) -> None:
        self._crossing = crossing
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
    def parent(self) -> BridgedAgent | None:
        """See ``Agent.parent``."""
        parent = self.native.parent
        return BridgedAgent(self._crossing, parent) if parent is not None else None

    @property
    def scope(self) -> Scope:
        """The agent's scope, to be named as an owner; register through ``tools``, ``hooks`` and ``prompt``."""
        return self.native.scope

    @property
    def session(self) -> Session:
        """The session; read only."""
        return self.native.session

    @property
    def inbox(self) -> BridgedInbox:
        """The pending messages."""
        return BridgedInbox(self._crossing, self.native.inbox)

    @property
    def tools(self) -> BridgedTools:
        """See ``Agent.tools``."""
        return BridgedTools(self._crossing, self.native.tools)

    @property
    def hooks(self) -> BridgedHooks:
        """See ``Agent.hooks``."""
        return BridgedHooks(self._crossing, self.native.hooks)

    @property
    def prompt(self) -> BridgedPrompt:
        """See ``Agent.prompt``."""
        return BridgedPrompt(self._crossing, self.native.prompt)

    @property
    def system_prompt(self) -> str:
        """See ``Agent.system_prompt``, as of now; ``prompt.replace_persona`` sets it, and answers when it is set."""
        return self.native.system_prompt

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
        """See ``Agent.converging``. Asked of the host's thread, whose clock it is told by."""
        return self._crossing.call(lambda: self.native.converging)

    # --- delivery -----------------------------------------------------------------------------------------------------

    def send(self, message: UserMessage | str, target: Target, wakeup: bool) -> BridgedReceipt:
        """Deliver a message (D1). It is on its way when this returns; no cancellation takes it back.

        Raises:
            InvalidMessage: from the call: it cannot be accepted (D3).
            BridgeClosed: from the call: the bridge is not open.
            DuplicateMessage, AgentDisposed, MisuseError: from the receipt, as ``Agent.send`` raises them.
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
        receipt = BridgedReceipt(self._crossing, self.native, delivered.id)
        ended = self._crossing.delivering(self.native)

        def deliver_since(message: UserMessage) -> Receipt:
            if not ended:
                ended.append(self.native.engine.ended)
            return deliver(message)

        self._crossing.call_into(receipt, deliver_since, delivered)
        return receipt

    def update_inbox(
        self,
        message_id: str,
        action: Literal["edit", "remove", "steer"],
        content: str | tuple[Block, ...] | None = None,
    ) -> Reply[Literal["applied", "not-found", "steer-unavailable"]]:
        """See ``Agent.update_inbox``.

        Raises:
            BridgeClosed: from the call: the bridge is not open.
            InvalidMessage, MisuseError: from the reply, as there.
        """
        return self._crossing.call(self.native.update_inbox, message_id, action, content)

    # --- control ------------------------------------------------------------------------------------------------------

    def cancel(self, cause: Cause | Literal["user", "parent"] = BY_USER, *, keep_inbox: bool = False) -> Reply[None]:
        """See ``Agent.cancel``. Callable from any thread; await the reply only to know that it was done.

        Raises:
            BridgeClosed: from the call: the bridge is not open.
            MisuseError: from the reply, as there.
        """
        return self._crossing.call(lambda: self.native.cancel(cause, keep_inbox=keep_inbox))

    async def when_idle(self) -> EndReason | None:
        """See ``Agent.when_idle``. A cancelled wait cancels nothing else.

        A delivery acts in the host's thread at once, and its turn may be over before a wait reaches it. So the wait
        counts as begun with the first delivery to this agent by the calling task that no such wait followed yet.

        Raises:
            MisuseError: awaited by the agent's own tool or hook, which would never return (L6).
            BridgeClosed: the bridge is not open, or was closed meanwhile.
        """
        agent, ended = self.native, self._crossing.delivered(self.native)
        self._crossing.forbid_own_wait(agent, f"when_idle() of agent {self.id!r}")

        async def wait() -> EndReason | None:
            agent.engine.check_thread()
            return await when_quiet(agent.engine, agent.id, ended[0] if ended else None)

        return await self._crossing.run(wait)

    async def ask(self, message: UserMessage | str, *, on_cancel: OnCancel = "leave") -> TurnAnswer:
        """See ``Agent.ask``. A cancellation reaches it there, and goes on here once it has settled.

        Raises:
            MessageRejected, MisuseError, InvalidMessage, DuplicateMessage, AgentDisposed: as there.
            BridgeClosed: the bridge is not open, or was closed meanwhile.
        """
        self._crossing.forbid_own_wait(self.native, f"ask() of agent {self.id!r}")
        return await self._crossing.run(partial(self.native.ask, checked(message), on_cancel=on_cancel))

    def run_maintenance(self, task: Callable[[Signal], Coroutine[Any, Any, T]]) -> Reply[T]:
        """See ``Agent.run_maintenance``: claimed in the call; the reply is the task's end.

        The task runs in the bridge's loop, and is cancelled there; it may read its signal, not wait for it.

        Raises:
            BridgeClosed: from the call: the bridge is not open; from the reply: it was closed meanwhile.
            AgentBusy, AgentDisposed, MaintenanceCancelled: from the reply, as there.
        """
        reply = self._crossing.call_to_end(self.native.run_maintenance, self._crossing.in_loop(task))
        what = f"a maintenance task of agent {self.id!r}"
        reply.forbid = partial(self._crossing.forbid_own_wait, self.native, what)
        return reply

    def compact(self, instructions: str | None = None) -> Reply[Compacted]:
        """See ``Agent.compact``: claimed in the call; the reply is what became of it.

        Raises:
            BridgeClosed: from the call: the bridge is not open; from the reply: it was closed meanwhile.
            MisuseError, AgentBusy, AgentDisposed, MaintenanceCancelled: from the reply, as there.
        """
        reply = self._crossing.call_to_end(self.native.compact, instructions)
        what = f"a compaction of agent {self.id!r}"
        reply.forbid = partial(self._crossing.forbid_own_wait, self.native, what)
        return reply

    def reserve_turn_admission(self, *, ahead: bool = False) -> Reply[Callable[[], Reply[None]] | None]:
        """See ``Agent.reserve_turn_admission``; the release is callable from any thread."""

        def reserve() -> Callable[[], Reply[None]] | None:
            release = self.native.reserve_turn_admission(ahead=ahead)
            return (lambda: self._crossing.call(release)) if release is not None else None

        return self._crossing.call(reserve)

    # --- what it tells ------------------------------------------------------------------------------------------------

    def events(self, start: int | None = 0) -> EventStream:
        """Iterate over the log, from event ``start`` on; ``None`` starts with what comes next. Ends with the agent."""
        return EventStream(self._crossing, self.native, start if start is not None else len(self.native.session))

    def frames(self) -> FrameStream:
        """Iterate over the frames of live answers, from now on (Q9). Ends with the agent."""
        return FrameStream(self._crossing, self.native)

    def stream(self, message: UserMessage | str) -> FrameStream:
        """Follow up with a message and iterate over the frames of the turn that answers it.

        Leaving early leaves the turn alone; ``cancel`` stops it.

        Raises:
            InvalidMessage: the message cannot be accepted (D3).
            DuplicateMessage, AgentDisposed: from the iteration, when it was not accepted.
        """
        delivered = checked(message)
        return FrameStream(
            self._crossing, self.native, delivered, BridgedReceipt(self._crossing, self.native, delivered.id)
        )

    def __repr__(self) -> str:
        return f"<BridgedAgent {self.id} {self.state.value}>"

    def _repr_html_(self) -> str | None:
        return picture("agent_html", self.native)
