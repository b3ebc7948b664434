"""The public handle of a live agent (§2–§7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec
import trio

from ..errors import AgentBusy, MisuseError
from ..hooks.registry import HookRegistry
from ..ids import SessionId
from ..kernel import inputs as i
from ..kernel.effects import Status
from ..kernel.lifecycle import State
from ..kernel.pending import NEXT_STEP, NEXT_TURN
from ..pictures import picture
from ..prompt.registry import PromptRegistry
from ..tools.registry import ToolRegistry
from ..words.events import Target
from ..words.messages import Block, Text, UserMessage, check_user_message
from ..words.reasons import CAUSES, ByDisposal, ByParent, ByUser, Cause, EndReason
from ..words.signal import Signal
from .asking import OnCancel, TurnAnswer, ask
from .compacting import Compacted, compactor_of
from .delivery import Receipt, checked
from .engine import Converging, Engine
from .idle import when_quiet
from .inbox import Inbox
from .maintenance import MaintenanceTask

if TYPE_CHECKING:
    from ..hooks.scope import Scope
    from ..session.log import Session
    from .options import AgentOptions

T = TypeVar("T")
BY_USER = ByUser()
_CAUSES: dict[str, Cause] = {"user": BY_USER, "parent": ByParent()}


class Agent:
    """A live agent: one driver over one session.

    Every method but those that are awaited acts in the call itself. Use it from its host's thread (D2). Only the
    handle that created it can dispose it (O3).

    Attributes:
        session: its log.
        options: what it was created with.
        scope: what is registered through it is this agent's own, and ends with it (O5).
        parent: the agent that it was created under, ``None`` for a root (O6).
        engine: what drives it; for treadle's own parts. Agents of other factories may have none (O14).
    """

    __slots__ = ("__weakref__", "_inbox", "engine", "options", "parent", "scope", "session")

    def __init__(self, session: Session, options: AgentOptions, scope: Scope, parent: Agent | None = None) -> None:
        self.session = session
        self.options = options
        self.scope = scope
        self.parent = parent
        self._inbox: Inbox | None = None
        self.engine: Engine

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def id(self) -> SessionId:
        """The agent's id, which is its session's."""
        return self.session.id

    @property
    def inbox(self) -> Inbox:
        """The pending messages."""
        if self._inbox is None:
            self._inbox = Inbox(self.engine)
        return self._inbox

    @property
    def status(self) -> Status:
        """``running`` while a turn is under way, else ``idle`` (L5)."""
        return "running" if self.engine.kernel.running else "idle"

    @property
    def state(self) -> State:
        """Where in the lifecycle the agent is (contract §2)."""
        return self.engine.kernel.state

    @property
    def tools(self) -> ToolRegistry:
        """The tools of this agent; registering here makes them its own (K10)."""
        return ToolRegistry(self.scope)

    @property
    def hooks(self) -> HookRegistry:
        """Listeners that hear this agent only (H3)."""
        return HookRegistry(self.scope)

    @property
    def prompt(self) -> PromptRegistry:
        """The prompt parts of this agent; registering here shadows the host's (R1)."""
        return PromptRegistry(self.scope)

    @property
    def system_prompt(self) -> str:
        """This agent's own persona where it is plain text; setting it shadows the host's (R3)."""
        return self.prompt.own_persona()

    @system_prompt.setter
    def system_prompt(self, text: str) -> None:
        self.prompt.replace_persona(text)

    @property
    def accepts_next_step(self) -> bool:
        """Whether a next-step delivery would enter the current turn (D8)."""
        return self.engine.kernel.accepts_next_step

    @property
    def parked(self) -> tuple[UserMessage, ...]:
        """Waking input that was left behind and waits for the next wake (L3)."""
        kernel = self.engine.kernel
        return kernel.inbox.waking() if kernel.truly_idle else ()

    @property
    def converging(self) -> Converging | None:
        """What a cancellation is still waiting for, ``None`` when there is none (C10)."""
        return self.engine.converging

    # --- delivery -----------------------------------------------------------------------------------------------------

    def send(self, message: UserMessage | str, target: Target, wakeup: bool) -> Receipt:
        """Deliver a message (D1).

        Args:
            message: what to deliver; text becomes a message under a fresh id.
            target: ``next-turn`` or ``next-step``.
            wakeup: whether it may start the driver, and in next-step whether it forces a step.

        Raises:
            InvalidMessage: it cannot be accepted (D3).
            DuplicateMessage: its id is taken (I1).
            AgentDisposed: the agent accepts nothing any more (L9).
            MisuseError: a wrong target, or a foreign thread (D2).
        """
        engine = self.engine
        engine.check_thread()
        delivered = checked(message)
        if target != NEXT_TURN and target != NEXT_STEP:  # pyright: ignore[reportUnnecessaryComparison]
            raise MisuseError(f"target must be 'next-turn' or 'next-step', not {target!r} (D1)")
        return engine.deliver(delivered, target, bool(wakeup))

    def followup(self, message: UserMessage | str) -> Receipt:
        """Queue a message for a turn of its own, and wake (D1)."""
        return self.send(message, NEXT_TURN, True)

    def steer(self, message: UserMessage | str) -> Receipt:
        """Hand a message to the nearest step: it forces one, and wakes an idle agent (D1, D6)."""
        return self.send(message, NEXT_STEP, True)

    def inject(self, message: UserMessage | str) -> Receipt:
        """Hand over context that rides along with the next step or turn, and forces neither (D1, D7)."""
        return self.send(message, NEXT_STEP, False)

    def update_inbox(
        self,
        message_id: str,
        action: Literal["edit", "remove", "steer"],
        content: str | tuple[Block, ...] | None = None,
    ) -> Literal["applied", "not-found", "steer-unavailable"]:
        """Edit, remove or steer a next-turn entry (I9).

        ``edit`` keeps id and place and needs ``content``; ``steer`` moves the entry to next-step while that would
        enter the current turn.
        """
        engine = self.engine
        engine.check_thread()
        place = engine.kernel.inbox.locate(message_id)
        if place is None or place[0] != NEXT_TURN:
            return "not-found"
        if action == "remove":
            engine.feed(i.RemoveMessage(message_id))
        elif action == "edit":
            if content is None:
                raise MisuseError("an edit needs the new content (I9)")
            blocks = (Text(content),) if isinstance(content, str) else tuple(content)
            old = engine.kernel.inbox.list_of(place[0])[place[1]].message
            check_user_message(msgspec.structs.replace(old, content=blocks))
            engine.feed(i.EditMessage(message_id, blocks))
        elif action == "steer":
            if not self.accepts_next_step:
                return "steer-unavailable"
            engine.feed(i.SteerMessage(message_id))
        else:
            raise MisuseError(f"action must be 'edit', 'remove' or 'steer', not {action!r} (I9)")
        return "applied"

    # --- control ------------------------------------------------------------------------------------------------------

    def cancel(self, cause: Cause | Literal["user", "parent"] = BY_USER, *, keep_inbox: bool = False) -> None:
        """Stop the current turn or maintenance task, and drop what is pending unless ``keep_inbox`` (C1–C3).

        Raises:
            MisuseError: a cause that is none, that the log cannot hold, or that is reserved to dispose.
        """
        self.engine.check_thread()
        given = _CAUSES.get(cause, cause) if isinstance(cause, str) else cause
        if isinstance(given, ByDisposal) or not isinstance(given, Cause):
            raise MisuseError(f"cancel takes ByUser(), ByParent() or ByHook(reason), not {cause!r} (C1)")
        CAUSES.check(given, "cause")
        self.engine.feed(i.Cancel(given, bool(keep_inbox)))

    @trio.lowlevel.enable_ki_protection
    async def when_idle(self) -> EndReason | None:
        """Wait until nothing is active and nothing is about to start (L6).

        Returns:
            The reason of the last turn that ended meanwhile, ``None`` if none did.

        Raises:
            MisuseError: awaited by the agent's own tool or hook, which would never return.
        """
        self.engine.check_thread()
        return await when_quiet(self.engine, self.session.header.id)

    @trio.lowlevel.enable_ki_protection
    async def ask(self, message: UserMessage | str, *, on_cancel: OnCancel = "leave") -> TurnAnswer:
        """Follow up with a message, wait for the turn that it opens, and return what that turn answered (D9).

        It cannot miss a quick turn, and what other turns do meanwhile is not taken for its answer.

        Args:
            message: what to ask; text becomes a message under a fresh id.
            on_cancel: when the wait is cancelled: ``leave`` leaves the message and its turn alone, ``stop`` takes the
                message back while it is pending, or cancels its turn and waits until that has converged.

        Raises:
            MessageRejected: it got no turn: it was discarded, or its turn would have followed one that failed, which
                parks what is pending (L3); it is taken back then.
            MisuseError: awaited by the agent's own tool or hook, which would never return (L6), or a foreign thread.
            InvalidMessage, DuplicateMessage, AgentDisposed: as ``send``.
        """
        self.engine.check_thread()
        return await ask(self.engine, self.session, checked(message), on_cancel)

    def run_maintenance(self, task: Callable[[Signal], Awaitable[T]]) -> MaintenanceTask[T]:
        """Claim the idle agent for one task between turns, in the call; await what it returns for the result (M1–M5).

        Raises:
            AgentBusy: the agent is not truly idle.
            AgentDisposed: it is in disposal or disposed.
        """
        engine = self.engine
        engine.check_thread()
        running = MaintenanceTask(task)
        engine.maintain(running)
        return running

    def compact(self, instructions: str | None = None) -> MaintenanceTask[Compacted]:
        """Have a summary take the place of old history, between turns; await what it returns for what became of it (Z1).

        Where the installed compaction is at work already and no instructions are given, that one is waited for.

        Args:
            instructions: what the summary is to pay attention to, in words for whoever writes it.

        Raises:
            MisuseError: no compaction is installed for the agent.
            AgentBusy: the agent is not truly idle.
            AgentDisposed: it is in disposal or disposed.
        """
        self.engine.check_thread()
        return compactor_of(self.scope)(self, instructions)

    def reserve_turn_admission(self, *, ahead: bool = False) -> Callable[[], None] | None:
        """Hold back the next claim; returns the idempotent release, ``None`` when not possible (D8).

        Args:
            ahead: also while a turn runs, which goes on to its end; what waits then stays pending.
        """
        engine = self.engine
        engine.check_thread()
        try:
            engine.feed(i.Reserve(ahead))
        except AgentBusy:
            return None
        released = False

        def release() -> None:
            nonlocal released
            engine.check_thread()
            if not released:
                released = True
                if engine.kernel.reserved:
                    engine.feed(i.Unreserve())

        return release

    def __repr__(self) -> str:
        return f"<Agent {self.id} {self.state.value}>"

    def _repr_html_(self) -> str | None:
        return picture("agent_html", self)
