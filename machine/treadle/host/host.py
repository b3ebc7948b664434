"""The host: the composition root that holds agents, models, tools and hooks, within one nursery."""

from __future__ import annotations

import contextvars
import logging
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import trio

from ..agent.membership import Membership
from ..containment import leaving_in
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
from .publication import MAX_DELEGATION_DEPTH, MAX_LIVE_CHILDREN
from .registry import Agents
from .sessions import Sessions

if TYPE_CHECKING:
    from ..agent.agent import Agent
    from ..session.store import SessionStore

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
LOGGER = logging.getLogger("treadle")
H = TypeVar("H")
Tables = Mapping[str, Callable[[H, Any, Path], object]]
"""Tables of a configuration file that extensions read, by name, and what furnishes a host with each."""
NOT_ENTERED, FORKED = -1, -2
"""What stands for the thread of a host that was not entered, and of one in a process forked from its own."""


class Host:
    """Holds everything that agents share. Use it as an async context manager.

    Leaving it disposes every agent, keeping what is pending (O4), and waits for all tasks. Cancelling the task that
    holds it does the same: agents are wound down in order, not torn apart. Ctrl-C arrives in the main task of the
    program, or in a tool or listener that is computing; nothing of the host's own is interrupted (H11).

    Args:
        store: where sessions are kept; in memory only without one.
        checks: verify the invariants while running; a violation raises where it was caused.
        approver: answers pre-execute hooks that ask (K2).
        cwd: the working directory of sessions that name none.
        retries: retries failed attempts by their adapter's policy (Q6); ``None`` leaves that to other listeners.
        max_delegation_depth: how deep below its root an agent may be created; ``None`` for no bound (O6).
        max_live_children: how many agents may live below one root, all levels together; ``None`` for no bound (O6).
        tool_order: canonical order of tools; the others follow by name (R1).
        default_model: what agents use that name neither provider nor model (O10).
        replica: makes this host one of many that drive the sessions of one store, which is its (P2).

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
        max_delegation_depth: int | None = MAX_DELEGATION_DEPTH,
        max_live_children: int | None = MAX_LIVE_CHILDREN,
        tool_order: Iterable[str] = (),
        default_model: DefaultModel | None = None,
        replica: Membership | None = None,
    ) -> None:
        if replica is not None and store is not None:
            raise MisuseError("a replica brings its store: give either store or replica")
        self.store = replica.store if replica is not None else store
        self.replica = replica
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
        self.agents = Agents(self.scope, max_live_children)
        self.sessions = Sessions(self.agents, self.store)
        self.unload_loop = self.agents.set_factory(LoopFactory(self))
        self.thread_id = NOT_ENTERED
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self.start: Callable[..., None] = self.refuse_start
        self._stop = trio.Event()
        self._stack = AsyncExitStack()
        self._outer: trio.Nursery | None = None
        self._leaving: BaseException | None = None

    @classmethod
    def from_config(
        cls, path: str | Path, *, parts: Parts | None = None, tables: Tables[Self] | None = None, **options: Any
    ) -> Self:
        """Make a host of a ``treadle.toml``; entering it starts the declared agents (O8).

        An agent that cannot start is told by ``agent-loop/config-start-failed``; the others start all the same.

        Args:
            path: the file; relative paths in it start in its folder.
            parts: names that ``use`` may name in the file, and what makes the part.
            tables: tables of the file that extensions read, and what furnishes the host with each: it is given the
                host, the table and the file.
            **options: as ``Host`` takes them; they go before what the file says.

        Raises:
            ConfigError: the file is wrong, or a store, model or preset file of it cannot be had; nothing was started.
        """
        readers = tables or {}
        deployment = Deployment(load_config(path, readers), parts or {})
        host = cls(**{**host_arguments(deployment), **options})
        host._deployment = deployment
        host.declared = deployment.declared
        deployment.furnish(host.models, host.prompt, host.presets, host.tools)
        for name, table in deployment.config.others.items():
            readers[name](host, table, deployment.config.where)
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

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> Self:
        if self.thread_id != NOT_ENTERED:
            raise MisuseError("a host is entered once; make a new one")
        try:
            self._token = trio.lowlevel.current_trio_token()
        except RuntimeError as error:
            raise self.misplaced() from error
        self.thread_id = threading.get_ident()
        _ENTERED.add(self)
        context = contextvars.copy_context()
        if self.replica is not None:
            await self._stack.enter_async_context(self.replica.joined(self))
        outer = self._outer = await self._stack.enter_async_context(trio.open_nursery())
        ready = trio.Event()
        outer.start_soon(self._serve, ready)
        try:
            with trio.CancelScope(shield=True):
                await ready.wait()
            assert self._nursery is not None
            self.start = partial(context.run, self._nursery.start_soon)
            await trio.lowlevel.checkpoint_if_cancelled()
            self.scope.attach(self.spawn)
            if self._deployment is not None:
                failed = partial(report_start, self.scope, self.report)
                await self._deployment.start(self._stack, self.presets, self.agents, failed)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    @trio.lowlevel.enable_ki_protection
    async def _serve(self, ready: trio.Event) -> None:
        """Hold the nursery of the agents' tasks, shielded, so that cancelling the host winds agents down in order.

        No task of ``Nursery.start``: that one would stay under the cancellation which the host is entered under.
        """
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.shield = True
            self._nursery = nursery
            ready.set()
            with trio.CancelScope(shield=True):
                await self._stop.wait()
            nursery.cancel_scope.shield = False

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.check_not_forked()
        try:
            if self._nursery is not None:
                await self._wound_down(self._nursery)
            await self.agents.drained()
        finally:
            self._stop.set()
            # what the body raised goes on as it is: no nursery of the host's wraps it
            try:
                await self._stack.__aexit__(None, None, None)
            except BaseExceptionGroup as errors:
                leaving = leaving_in(errors)
                if leaving is None:
                    raise
                self._leaving = self._leaving or leaving
            if self._leaving is not None:
                raise self._leaving

    async def _wound_down(self, nursery: trio.Nursery) -> None:
        """Wind the agents down, in a task of the host's: Ctrl-C at the one that leaves waits until that is done."""
        over = trio.Event()
        failures: list[BaseException] = []

        @trio.lowlevel.enable_ki_protection
        async def wind_down() -> None:
            try:
                await self.agents.close()
                await self.scope.close(self.report)
            except BaseException as error:
                failures.append(error)
            finally:
                over.set()

        nursery.start_soon(wind_down, name="treadle.host.host.Host.__aexit__")
        with trio.CancelScope(shield=True):
            while not over.is_set():
                try:
                    await over.wait()
                except KeyboardInterrupt as interrupt:
                    self._leaving = self._leaving or interrupt
        if failures:
            raise failures[0]

    @property
    def running(self) -> bool:
        """Whether the host has been entered, so that agents can be made."""
        return self.start != self.refuse_start

    def spawn(self, run: Callable[[], Awaitable[Any]], name: str | None = None) -> None:
        """Start a task of the host's own, in the host's context (O7).

        Raises:
            MisuseError: the host is not running.
        """
        self.start(self._guard, run, name=name)

    def refuse_start(self, *_task: object, **_named: object) -> None:
        """What ``start`` is while no task can be started: says why (D2)."""
        raise self.misplaced()

    @trio.lowlevel.enable_ki_protection
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

    def check_here(self) -> None:
        """Raise ``MisuseError`` unless called where the host runs: in its thread, of its process (D2)."""
        if threading.get_ident() != self.thread_id:
            raise self.misplaced()

    def misplaced(self) -> MisuseError:
        """What is the matter with a call from elsewhere than where the host runs, and what to do."""
        if self.thread_id == NOT_ENTERED:
            return MisuseError(
                "the host is not running: use it as 'async with Host() as host' in a trio program, and in an asyncio "
                "program as 'async with treadle.asyncio.Bridge(Host()) as bridge'"
            )
        if self.thread_id == FORKED:
            return MisuseError(
                "this process was forked from the one that the host runs in, and has no part in it (D2): "
                "make a host of its own here, or start the process anew instead of forking"
            )
        return MisuseError(
            "agents are used from their host's thread (D2); from another one go through host.from_thread, "
            "and from asyncio through treadle.asyncio.Bridge"
        )

    def from_thread(self, function: Callable[..., T], *args: Any) -> T:
        """Call ``function`` in the host's thread, from another one; returns its result (D2)."""
        self._check_reachable()
        return trio.from_thread.run_sync(function, *args, trio_token=self._token)

    def await_from_thread(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function in the host's loop, from another thread; returns its result (D2).

        From a worker thread of that loop it runs in the task that waits for the thread, and is cancelled with it.
        """
        self._check_reachable()
        token = None if self._awaits_this_thread() else self._token
        return trio.from_thread.run(function, *args, trio_token=token)

    def check_not_forked(self) -> None:
        """Raise ``MisuseError`` in a process that was forked from the one the host runs in."""
        if self.thread_id == FORKED:
            raise self.misplaced()

    def _check_reachable(self) -> None:
        if self.thread_id in (NOT_ENTERED, FORKED):
            raise self.misplaced()

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


_ENTERED: weakref.WeakSet[Host] = weakref.WeakSet()


def _forked() -> None:
    """In a forked process: no host of the parent's is usable, as the tasks and threads that it needs are not there."""
    for host in list(_ENTERED):
        host.thread_id = FORKED
        host.start = host.refuse_start


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
