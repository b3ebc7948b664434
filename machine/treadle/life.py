"""From preparation to disposal: one agent's life, and who may end it (O1–O5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import trio

from . import inputs as i
from .agent import Agent, driver_of
from .effects import Rejected
from .points import AGENT_CREATED, AGENT_DISPOSED
from .scope import Disposer, Scope
from .session.events import ByDisposal
from .signal import Signal
from .waiting import forbid_creator_wait

if TYPE_CHECKING:
    from .host import Host
    from .session.repair import Recovery


class Disposal:
    """The end of an agent under way; await it for the end. A cancelled waiter only stops waiting (O4)."""

    __slots__ = ("_done", "_errors", "_life")

    def __init__(self, life: Life | None = None) -> None:
        self._done = trio.Event()
        self._errors: list[BaseException] = []
        self._life = life

    async def wait(self) -> None:
        """Wait for the end.

        Raises:
            MisuseError: awaited by an ``agent/created`` listener of that agent or of one below it, whose end the
                disposal waits for (O15).
            BaseExceptionGroup: what clean-ups raised; all of them ran.
        """
        if self._life is not None:
            self._life.forbid_wait()
        await self.ended()
        if self._errors:
            raise BaseExceptionGroup("clean-ups of a disposed agent failed", list(self._errors))

    async def ended(self) -> None:
        """Wait for the end, whatever clean-ups raised."""
        await self._done.wait()

    def failed(self, error: BaseException) -> None:
        """A clean-up raised; the others run all the same."""
        self._errors.append(error)

    def finish(self) -> None:
        """The end is reached: everybody who waits goes on."""
        self._done.set()

    @property
    def done(self) -> bool:
        """Whether the end is reached."""
        return self._done.is_set()

    def __await__(self) -> Generator[Any, Any, None]:
        return self.wait().__await__()


class Life:
    """Ends one agent, exactly once, in order (O4, O17)."""

    __slots__ = (
        "_drained",
        "_host",
        "_lives",
        "_owners",
        "_settled",
        "_signal",
        "agent",
        "creation",
        "detach",
        "disposal",
        "write_path",
    )

    def __init__(self, host: Host, agent: Agent, lives: dict[Life, None]) -> None:
        self._host = host
        self._lives = lives
        self.agent = agent
        self.disposal: Disposal | None = None
        self.creation: trio.CancelScope | None = None
        self.detach: Disposer | None = None
        self.write_path: Callable[[], Awaitable[None]] | None = None
        self._owners: list[Disposer] | None = None
        self._drained: trio.Event | None = None
        self._settled: trio.Event | None = None
        self._signal: Signal | None = None

    # --- creation -----------------------------------------------------------------------------------------------------

    def take_owners(self, owner: Scope) -> None:
        """Have the agent end with its owning scope and with its parent (O3, O6)."""
        parent = self.agent.parent
        if parent is not None:
            self._owners = [self._host.agents.adopt_child(parent, self, self.dispose)]
        if owner is not self._host.scope:
            self._owners = [*(self._owners or ()), owner.defer(lambda: self.dispose(keep_inbox=True))]

    @property
    def signal(self) -> Signal | None:
        """Tells created listeners that the creation is being stopped; made only if there are any (O1)."""
        if self._signal is None and self.agent.scope.listeners(AGENT_CREATED):
            self._signal = Signal()
        return self._signal

    def created(self) -> None:
        """The creation is over, one way or the other; a disposal that waits for it goes on (O15)."""
        self.creation = self._signal = None
        if self._settled is not None:
            self._settled.set()

    def forbid_wait(self) -> None:
        """Raise when the running task is awaited by the creation of this agent, or of one below it (O15)."""
        forbid_creator_wait(driver_of(self.agent), "the disposal")
        for child in self._host.agents.children_of(self.agent):
            if isinstance(child, Life):
                child.forbid_wait()

    # --- disposal -----------------------------------------------------------------------------------------------------

    def dispose(self, keep_inbox: bool = False) -> Disposal:
        """Take the state in the call; the rest follows in a task. Later calls join the first."""
        if self.disposal is None:
            driver = driver_of(self.agent)
            driver.check_thread()
            self.disposal = Disposal(self)
            self._drained = trio.Event()
            driver.finished = self._drained.set
            if self.creation is not None:
                if self._signal is not None:
                    self._signal._set(ByDisposal())  # pyright: ignore[reportPrivateUsage]
                self.creation.cancel()
            driver.feed(i.Dispose(keep_inbox))
            if not driver.driving:
                self._drained.set()
            children = self._host.agents.end_children(self.agent, keep_inbox)
            self._host.spawn(lambda: self._unwind(children))
        return self.disposal

    async def _unwind(self, children: list[Awaitable[None]]) -> None:
        disposal, drained = self.disposal, self._drained
        assert disposal is not None
        assert drained is not None
        with trio.CancelScope(shield=True):
            try:
                for child in children:
                    try:
                        await child
                    except Exception as error:
                        disposal.failed(error)
                await drained.wait()
                if self.creation is not None:
                    self._settled = trio.Event()
                    await self._settled.wait()
                await self._close(disposal)
            finally:
                self._lives.pop(self, None)
                disposal.finish()

    async def _close(self, disposal: Disposal) -> None:
        """Scope, write path, registry, session: in this order (O4, O17)."""
        agent = self.agent
        driver = driver_of(agent)
        await self._host.turn_flushed(driver)
        await agent.scope.close(disposal.failed, last=AGENT_DISPOSED)
        if self.write_path is not None:
            try:
                await self.write_path()
            except Exception as error:
                disposal.failed(error)
        for receipt in list(driver.receipts.values()):
            receipt._settle(Rejected("disposed"))  # pyright: ignore[reportPrivateUsage]
        driver.receipts.clear()
        self._lives.pop(self, None)
        for disown in self._owners or ():
            disown()
        if self.detach is not None:
            self.detach()
        agent.scope.forget()
        agent.session.driven = False
        agent.session.listen(None)


class Owned(Protocol):
    """What a handle ends: the loop's agents and those of other factories alike."""

    @property
    def agent(self) -> Agent:
        """The live agent."""
        ...

    def dispose(self, keep_inbox: bool = False) -> Disposal:
        """Take the state in the call; all calls return the same disposal."""
        ...


class AgentHandle:
    """An owned agent: only who holds this can dispose it (O3). Use it as an async context manager to do so.

    Attributes:
        agent: the live agent.
        recovery: what opening its stored session had to mend; ``None`` when it was not resumed from a store (P3, P4).
    """

    __slots__ = ("_life", "agent", "recovery")

    def __init__(self, life: Owned) -> None:
        self._life = life
        self.agent = life.agent
        self.recovery: Recovery | None = None

    def dispose(self, *, keep_inbox: bool = False) -> Disposal:
        """End the agent: taken in the call, awaited for the end (O4). Idempotent; all callers join the same end."""
        return self._life.dispose(keep_inbox)

    async def __aenter__(self) -> Agent:
        return self.agent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        disposal = self.dispose(keep_inbox=True)
        with trio.CancelScope(shield=True):
            await disposal

    def __repr__(self) -> str:
        return f"<AgentHandle {self.agent!r}>"
