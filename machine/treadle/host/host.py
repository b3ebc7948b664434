"""The host: the composition root that holds agents, models, tools and hooks, within one nursery."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import trio

from ..errors import MisuseError
from ..hooks.dispatch import Emit, Serial, Waterfall
from ..hooks.registry import HookRegistry
from ..hooks.scope import Disposer, Scope
from ..loop.factory import LoopFactory
from ..loop.retry import DEFAULT_RETRIES, Retries, install_retries
from ..loop.services import Approver
from ..models.routes import Models
from ..prompt.registry import PromptRegistry
from ..tools.registry import ToolRegistry
from .config import load_config
from .declared import Deployment, Parts, host_arguments, report_start
from .default_model import DefaultModel
from .presets.presets import Presets
from .registry import Agents
from .sessions import Sessions

if TYPE_CHECKING:
    from ..agent.agent import Agent
    from ..session.store import SessionStore

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
LOGGER = logging.getLogger("treadle")


class Host:
    """Holds everything that agents share. Use it as an async context manager.

    Leaving it disposes every agent, keeping what is pending (O4), and waits for all tasks. Cancelling the task that
    holds it does the same: agents are wound down in order, not torn apart.

    Args:
        store: where sessions are kept; in memory only without one.
        checks: verify the invariants while running; a violation raises where it was caused.
        approver: answers pre-execute hooks that ask (K2).
        cwd: the working directory of sessions that name none.
        retries: retries failed attempts by their adapter's policy (Q6); ``None`` leaves that to other listeners.
        max_delegation_depth: how deep below its root an agent may be created; no bound unless given (O6).
        tool_order: canonical order of tools; the others follow by name (R1).
        default_model: what agents use that name neither provider nor model (O10).

    Attributes:
        declared: the agents that the configuration declared, by their labels (O8).
        unload_loop: unloads the loop's factory, so that another one can be set (O14).
        start: starts a task that raises nothing, in the host's context; ``spawn`` takes any other (O7).
    """

    def __init__(
        self,
        *,
        store: SessionStore | None = None,
        checks: bool = False,
        approver: Approver | None = None,
        cwd: str | None = None,
        retries: Retries | None = DEFAULT_RETRIES,
        max_delegation_depth: int | None = None,
        tool_order: Iterable[str] = (),
        default_model: DefaultModel | None = None,
    ) -> None:
        self.store = store
        self.checks = checks
        self.approver = approver
        self.cwd = cwd if cwd is not None else str(Path.cwd())
        self.scope = Scope("host")
        if retries is not None:
            install_retries(self.scope, retries)
        self.models = Models()
        self.max_delegation_depth = max_delegation_depth
        if tool_order:
            self.tools.set_order(tool_order)
        self.default_model = default_model if default_model is not None else DefaultModel()
        self.presets = Presets(self.scope, self.report)
        self.declared: dict[str, Agent] = {}
        self._deployment: Deployment | None = None
        self.agents = Agents(self.scope)
        self.sessions = Sessions(self.agents, store)
        self.unload_loop = self.agents.set_factory(LoopFactory(self))
        self.thread_id = -1
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self.start: Callable[..., None] = _not_running
        self._stop = trio.Event()
        self._stack = AsyncExitStack()
        self._outer: trio.Nursery | None = None
        self._leaving: BaseException | None = None

    @classmethod
    def from_config(cls, path: str | Path, *, parts: Parts | None = None, **options: Any) -> Self:
        """Make a host of a ``treadle.toml``; entering it starts the declared agents (O8).

        An agent that cannot start is told by ``agent-loop/config-start-failed``; the others start all the same.

        Args:
            path: the file; relative paths in it start in its folder.
            parts: names that ``use`` may name in the file, and what makes the part.
            **options: as ``Host`` takes them; they go before what the file says.

        Raises:
            ConfigError: the file is wrong, or a store, model or preset file of it cannot be had; nothing was started.
        """
        deployment = Deployment(load_config(path), parts or {})
        host = cls(**{**host_arguments(deployment), **options})
        host._deployment = deployment
        host.declared = deployment.declared
        deployment.furnish(host.models, host.prompt, host.presets, host.tools)
        return host

    # --- composition --------------------------------------------------------------------------------------------------

    @property
    def tools(self) -> ToolRegistry:
        """Tools that every agent of this host has."""
        return ToolRegistry(self.scope)

    @property
    def hooks(self) -> HookRegistry:
        """Listeners that hear every agent of this host (H3)."""
        return HookRegistry(self.scope)

    @property
    def prompt(self) -> PromptRegistry:
        """Prompt parts that every agent of this host has (R1)."""
        return PromptRegistry(self.scope)

    @overload
    def on(
        self, point: Waterfall[P, R], listener: Callable[[P, Callable[[], Awaitable[R]]], Awaitable[R] | R]
    ) -> Disposer: ...
    @overload
    def on(self, point: Emit[P] | Serial[P], listener: Callable[[P], object]) -> Disposer: ...
    def on(self, point: Any, listener: Callable[..., Any]) -> Disposer:
        """Listen at a hook point for every agent of this host (H3)."""
        return self.scope.on(point, listener)

    # --- the life of the host -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self.thread_id != -1:
            raise MisuseError("a host is entered once; make a new one")
        self.thread_id = threading.get_ident()
        self._token = trio.lowlevel.current_trio_token()
        context = contextvars.copy_context()
        outer = self._outer = await self._stack.enter_async_context(trio.open_nursery())
        nursery: trio.Nursery = await outer.start(self._serve)
        self._nursery = nursery
        self.start = partial(context.run, nursery.start_soon)
        self.scope.attach(self.spawn)
        if self._deployment is not None:
            try:
                failed = partial(report_start, self.scope, self.report)
                await self._deployment.start(self._stack, self.presets, self.agents, failed)
            except BaseException as error:
                await self.__aexit__(type(error), error, error.__traceback__)
                raise
        return self

    async def _serve(self, task_status: trio.TaskStatus[trio.Nursery]) -> None:
        """Hold the nursery of the agents' tasks, shielded, so that cancelling the host winds agents down in order."""
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.shield = True
            task_status.started(nursery)
            await self._stop.wait()
            nursery.cancel_scope.shield = False

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with trio.CancelScope(shield=True):
                await self.agents.close()
                await self.scope.close(self.report)
            await self.agents.drained()
        finally:
            self._stop.set()
            # what the body raised goes on as it is: no nursery of the host's wraps it
            await self._stack.__aexit__(None, None, None)
            if self._leaving is not None:
                raise self._leaving

    @property
    def running(self) -> bool:
        """Whether the host has been entered."""
        return self._nursery is not None

    def spawn(self, run: Callable[[], Awaitable[Any]], name: str | None = None) -> None:
        """Start a task of the host's own, in the host's context (O7).

        Raises:
            MisuseError: the host is not running.
        """
        self.start(self._guard, run, name=name)

    async def _guard(self, run: Callable[[], Awaitable[Any]]) -> None:
        try:
            await run()
        except trio.Cancelled:
            raise
        except BaseException as error:
            self.leave(error)

    def leave(self, error: BaseException) -> None:
        """End the host because one of its tasks asks to leave the program, or broke (H5).

        The body is cancelled and the agents are wound down in order; then leaving the host raises ``error``.
        """
        if self._leaving is None:
            self._leaving = error
            assert self._outer is not None
            self._outer.cancel_scope.cancel()

    def from_thread(self, function: Callable[..., T], *args: Any) -> T:
        """Call ``function`` in the host's thread, from another one; returns its result (D2)."""
        return trio.from_thread.run_sync(function, *args, trio_token=self._token)

    def await_from_thread(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function in the host's loop, from another thread; returns its result (D2).

        From a worker thread of that loop it runs in the task that waits for the thread, and is cancelled with it.
        """
        token = None if self._awaits_this_thread() else self._token
        return trio.from_thread.run(function, *args, trio_token=token)

    def _awaits_this_thread(self) -> bool:
        try:
            return trio.from_thread.run_sync(trio.lowlevel.current_trio_token) is self._token
        except RuntimeError:
            return False

    def report(self, error: BaseException) -> None:
        """A clean-up of the host itself failed."""
        LOGGER.error("a clean-up of the host failed", exc_info=error)

    def __repr__(self) -> str:
        return f"<Host with {len(self.agents)} agents>"


def _not_running(*_task: object, **_named: object) -> None:
    raise MisuseError("the host is not running; use it as 'async with Host() as host'")
