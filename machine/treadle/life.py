"""From preparation to disposal: one agent's life, and who may end it (O1–O5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from .agent import Agent, driver_of
from .effects import Rejected
from .handle import Disposal
from .points import AGENT_CREATED, AGENT_DISPOSED
from .scope import Disposer, Scope
from .session.reasons import ByDisposal
from .signal import Signal, give_cause
from .waiting import forbid_creator_wait

if TYPE_CHECKING:
    from .host import Host


class Life:
    """Ends one agent, exactly once, in order (O4, O17)."""

    __slots__ = (
        "_disown",
        "_drained",
        "_host",
        "_lives",
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
        self._disown: Disposer | None = None
        self._drained: trio.Event | None = None
        self._settled: trio.Event | None = None
        self._signal: Signal | None = None

    # --- creation -----------------------------------------------------------------------------------------------------

    def take_owners(self, owner: Scope) -> None:
        """Have the agent end with its owning scope and with its parent (O3, O6)."""
        parent = self.agent.parent
        if parent is not None:
            self._disown = self._host.agents.adopt_child(parent, self, self.dispose)
        if owner is not self._host.scope:
            self.agent.scope.ended_by(partial(self.dispose, keep_inbox=True))

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
            self.disposal = Disposal(self.forbid_wait)
            self._drained = trio.Event()
            if self.creation is not None:
                if self._signal is not None:
                    give_cause(self._signal, ByDisposal())
                self.creation.cancel()
            driver.dispose(keep_inbox, self._drained.set)
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
        await driver.flushed()
        await agent.scope.close(disposal.failed, last=AGENT_DISPOSED)
        if self.write_path is not None:
            try:
                await self.write_path()
            except Exception as error:
                disposal.failed(error)
        driver.reject_open(Rejected("disposed"))
        self._lives.pop(self, None)
        if self._disown is not None:
            self._disown()
        if self.detach is not None:
            self.detach()
        agent.scope.forget()
        agent.session.driven = False
        agent.session.listen(None)
