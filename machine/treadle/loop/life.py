"""From preparation to disposal: one agent's life, and who may end it (O1–O5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from ..agent.ending import Ending, Failed
from ..agent.idle import forbid_creator_wait, forbid_wait
from ..hooks.points import AGENT_CREATED, AGENT_DISPOSED
from ..kernel.effects import Rejected
from ..words.reasons import ByDisposal
from ..words.signal import Signal, SignalSource

if TYPE_CHECKING:
    from ..hooks.scope import Disposer, Scope
    from .driver import Driver
    from .surroundings import Surroundings


class Life:
    """Ends one agent, exactly once, in order (O4, O17).

    The agent ends with its owning scope, with its parent, and with its factory besides (O3, O6).

    Attributes:
        driver: drives the agent.
        ending: its disposal, once that has begun.
        detach: takes it out of the registry, once it has been entered.
        write_path: closes the way to the store, once there is one.
    """

    __slots__ = (
        "_below",
        "_creation",
        "_disown",
        "_host",
        "_lives",
        "_settled",
        "_signal",
        "agent",
        "detach",
        "driver",
        "ending",
        "write_path",
    )

    def __init__(self, host: Surroundings, driver: Driver, owner: Scope, lives: dict[Life, None]) -> None:
        self._host = host
        self._lives = lives
        self.driver = driver
        self.agent = agent = driver.agent
        self.ending: Ending | None = None
        self.detach: Disposer | None = None
        self.write_path: Callable[[], Awaitable[None]] | None = None
        self._below: Sequence[Awaitable[None]] = ()
        self._creation: trio.CancelScope | None = None
        self._settled: trio.Event | None = None
        self._signal: SignalSource | None = None
        self._disown = host.agents.adopt_child(agent.parent, self.dispose) if agent.parent is not None else None
        if owner is not host.scope:
            agent.scope.ended_by(partial(self.dispose, keep_inbox=True))
        lives[self] = None

    # --- creation -----------------------------------------------------------------------------------------------------

    def begin(self, creation: trio.CancelScope) -> None:
        """The running task creates the agent inside ``creation``; a disposal cancels that (O1)."""
        self._creation = creation
        self.driver.creating()

    @property
    def signal(self) -> Signal | None:
        """Tells created listeners that the creation is being stopped; made only if there are any (O1)."""
        if self._signal is None and self.agent.scope.heard[AGENT_CREATED]:
            self._signal = SignalSource()
        return self._signal

    def created(self) -> None:
        """The creation is over, one way or the other; a disposal that waits for it goes on (O15)."""
        self._creation = self._signal = None
        self.driver.created()
        if self._settled is not None:
            self._settled.set()

    def _forbid_wait(self) -> None:
        """Raise when the running task is awaited by an operation or the creation of this agent, or one below (L6, O15)."""
        driver, what = self.driver, f"the disposal of agent {self.agent.id!r}"
        forbid_creator_wait(driver, self.agent.id)
        forbid_wait(driver, what)
        for child in self._below:
            if isinstance(child, Ending) and child.forbid is not None:
                child.forbid()

    # --- disposal -----------------------------------------------------------------------------------------------------

    def dispose(self, keep_inbox: bool = False) -> Ending:
        """Take the state in the call; the rest follows in a task. Later calls join the first."""
        if self.ending is None:
            driver = self.driver
            driver.check_thread()
            drained = trio.Event()
            self.ending = Ending(partial(self._unwind, drained), self._forbid_wait)
            if self._creation is not None:
                if self._signal is not None:
                    self._signal.cancel(ByDisposal())
                self._creation.cancel()
            driver.dispose(keep_inbox, drained.set)
            self._below = self._host.agents.end_children(self.agent, keep_inbox)
            self.ending.begin(self._host.spawn)
        return self.ending

    async def _unwind(self, drained: trio.Event, failed: Failed) -> None:
        try:
            for child in self._below:
                try:
                    await child
                except Exception as error:
                    failed(error)
            await drained.wait()
            if self._creation is not None:
                self._settled = trio.Event()
                await self._settled.wait()
            await self._close(failed)
        finally:
            self._lives.pop(self, None)

    async def _close(self, failed: Failed) -> None:
        """Scope, write path, registry, session: in this order (O4, O17)."""
        agent, driver = self.agent, self.driver
        await driver.flushed()
        driver.unwinding = trio.lowlevel.current_task()
        await agent.scope.close(failed, last=AGENT_DISPOSED)
        if self.write_path is not None:
            try:
                await self.write_path()
            except Exception as error:
                failed(error)
        driver.reject_open(Rejected("disposed"))
        driver.unwinding = None
        for leave in (self._disown, self.detach):
            if leave is not None:
                leave()
        agent.scope.forget()
        agent.session.driven = False
        agent.session.listen(None)
