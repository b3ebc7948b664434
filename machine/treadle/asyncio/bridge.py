"""The bridge: a host in a thread of its own, and all that asyncio code does with it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from ..agent.agent import Agent
from ..hooks.dispatch import Emit, Serial, Waterfall
from ..host.host import Host
from ..tools.definition import Tool, tool
from .agent import BridgedAgent
from .agents import BridgedAgents
from .crossing import Crossing, Undo
from .loop import LoopSide
from .models import BridgedDefaultModel, BridgedModels
from .presets import BridgedPresets
from .registries import BridgedHooks, BridgedPrompt, BridgedTools
from .reply import Reply, undisturbed
from .sessions import BridgedSessions, BridgedStore
from .thread import HostThread

P = TypeVar("P")
R = TypeVar("R")


class Bridge(Crossing):
    """Runs a host in a thread and gives asyncio code its agents. Use it as an async context manager.

    Leaving it leaves the host: every agent is disposed, keeping what is pending (O4).

    Args:
        host: a host that was not entered yet; enter it nowhere else.

    Attributes:
        host: the host itself. Read it from anywhere; change it through the parts here, ``call`` and ``run``.
        agents: its agents.
        models: its model routes.
        default_model: what agents use that name no model.
        sessions: its live sessions and its projections.
        presets: its presets.

    Raises:
        MisuseError: from entering it: the host was entered before.
        BaseException: from entering it, why the host could not be entered; from leaving it, what the host ended with.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(HostThread(host))
        self.host = host
        self.agents = BridgedAgents(self, host.agents)
        self.models = BridgedModels(self, host.models)
        self.default_model = BridgedDefaultModel(self, host.default_model)
        self.sessions = BridgedSessions(self, host.sessions)
        self.presets = BridgedPresets(self, host.presets)

    async def __aenter__(self) -> Self:
        self._loop_side = LoopSide(asyncio.get_running_loop(), self._thread)
        self._thread.start()
        try:
            await undisturbed(self._thread.started)
        except BaseException:
            self._thread.stop()
            await self._ended()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.stop()
        await self._ended()

    async def _ended(self) -> None:
        try:
            await undisturbed(self._thread.ended)
        finally:
            self._thread.join()

    # --- what every agent has -----------------------------------------------------------------------------------------

    @property
    def tools(self) -> BridgedTools:
        """See ``Host.tools``."""
        return BridgedTools(self, self.host.tools)

    @property
    def hooks(self) -> BridgedHooks:
        """See ``Host.hooks``."""
        return BridgedHooks(self, self.host.hooks)

    @property
    def prompt(self) -> BridgedPrompt:
        """See ``Host.prompt``."""
        return BridgedPrompt(self, self.host.prompt)

    @overload
    def on(self, point: str, listener: Callable[..., Any]) -> Reply[Undo]: ...
    @overload
    def on(
        self, point: Waterfall[P, R], listener: Callable[[P, Callable[[], Awaitable[R]]], Awaitable[R] | R]
    ) -> Reply[Undo]: ...
    @overload
    def on(self, point: Emit[P] | Serial[P], listener: Callable[[P], object]) -> Reply[Undo]: ...
    def on(self, point: Any, listener: Callable[..., Any]) -> Reply[Undo]:
        """See ``Host.on``: listen at a hook point for every agent; otherwise as ``hooks.on``."""
        return self.hooks.on(point, listener)

    def tool(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """As ``treadle.tool``, for an asyncio function: it runs in the bridge's loop. Usable as a decorator.

        A turn's cancellation reaches it as ``CancelledError``; the signal of its ``run`` may be read, not waited for.

        Raises:
            MisuseError: as there.
        """
        if function is None:
            return functools.partial(self.tool, **options)
        made: Tool = tool(self.brought(function), **options)
        return made

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def store(self) -> BridgedStore | None:
        """The host's store, ``None`` when it keeps sessions in memory only."""
        store = self.host.store
        return BridgedStore(self, store) if store is not None else None

    @property
    def declared(self) -> dict[str, BridgedAgent]:
        """See ``Host.declared``, as of now."""
        return {label: self.agent(agent) for label, agent in dict(self.host.declared).items()}

    def agent(self, agent: Agent) -> BridgedAgent:
        """The asyncio side of an agent of this host, such as a hook's payload or ``setup`` names."""
        return BridgedAgent(self, agent)
