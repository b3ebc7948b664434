"""What runs in each process: a host that is a replica, in a trio thread; Ray calls it from threads of its own."""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

import trio
from attrs import frozen

from treadle import AgentOptions, Host, StoreFailure, TreadleError
from treadle.agent import Setup
from treadle.errors import LeaseLost
from treadle_adapters.stores.postgres import SCHEMA

from ..replica import LEASE, Replica

LOGGER = logging.getLogger("treadle")
T = TypeVar("T")
AGAIN = 0.5
"""Seconds until another replica begins where one lost its lease, or found no database."""


@frozen
class Spec:
    """What all replicas of a cluster have in common. It is sent to other processes, which import what it names.

    Attributes:
        url: the database, as ``PostgresStore`` takes it.
        prepare: given each host before it is entered: registers its models and tools.
        agent_options: of agents that are made or resumed.
        setup: as ``Agents.create`` takes it.
        lease: see ``Replica``.
        schema: see ``PostgresStore``.
    """

    url: str
    prepare: Callable[[Host], None]
    agent_options: AgentOptions
    setup: Setup | None = None
    lease: float = LEASE
    schema: str = SCHEMA


@frozen
class Standing:
    """A replica as it stands.

    Attributes:
        replica: its id, ``None`` while none stands there.
        node: where it runs, as Ray names it.
        process: its process.
        sessions: those that it owns.
        running: those of them that are in a turn.
    """

    replica: str | None
    node: str
    process: int
    sessions: tuple[str, ...] = ()
    running: tuple[str, ...] = ()


class HostActor:
    """A host whose replica begins again when it lost its lease. Anything else that fails ends the process: Ray restarts it.

    Args:
        spec: see there.
        node: where it runs, as Ray names it.
    """

    def __init__(self, spec: Spec, node: str | None = None) -> None:
        self._spec = spec
        self._node = node if node is not None else _node_here()
        self._begun = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._leave = trio.Event()
        self._left = trio.Event()
        self._patience = 0.0
        self._host: Host | None = None
        self._replica: Replica | None = None
        threading.Thread(target=self._live, name="treadle replica", daemon=True).start()

    # --- what Ray calls ---------------------------------------------------------------------------------------------------

    def standing(self) -> Standing:
        """How it stands."""
        return self._asked(self._standing)

    def create(self, session_id: str | None) -> str | None:
        """Make an agent on a new session; returns its id, ``None`` if no replica stands here."""
        return self._asked(self._create, session_id)

    def take(self, sessions: Sequence[str]) -> list[str]:
        """Own sessions that nobody owns; returns those that are owned here then."""
        return self._asked(self._take, sessions)

    def give(self, sessions: Sequence[str], seconds: float) -> list[str]:
        """Let go of sessions whose turns end in time; returns those."""
        return self._asked(self._give, sessions, seconds)

    def leave(self, seconds: float) -> list[str]:
        """Go out of service for good, and let go of everything; turns may take so long. Returns what was owned."""
        return self._asked(self._leave_for_good, seconds)

    def _asked(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        self._begun.wait()
        return trio.from_thread.run(function, *args, trio_token=self._token)

    # --- in the thread of trio --------------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            trio.run(self._run)
        except BaseException:
            LOGGER.exception("the process of a replica ends; Ray starts another one")
            os._exit(1)

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._begun.set()
        while not self._leave.is_set():
            try:
                await self._serve()
            except Exception as error:
                if not _to_begin_again(error):
                    raise
                LOGGER.warning("a replica begins again: %s", error)
                with trio.move_on_after(AGAIN):
                    await self._leave.wait()
        self._left.set()
        await trio.sleep_forever()  # it answers until it is taken away

    async def _serve(self) -> None:
        spec = self._spec
        replica = Replica(
            spec.url, lease=spec.lease, schema=spec.schema, agent_options=spec.agent_options, setup=spec.setup
        )
        host = Host(replica=replica)
        spec.prepare(host)
        try:
            async with host:
                self._host, self._replica = host, replica
                await self._leave.wait()
                await replica.drain(self._patience)
        finally:
            self._host = self._replica = None

    async def _standing(self) -> Standing:
        await trio.lowlevel.checkpoint()
        if self._host is None or self._replica is None:
            return Standing(None, self._node, os.getpid())
        live = [(agent.id, agent.status) for agent in self._host.agents.roots()]
        running = tuple(name for name, status in live if status != "idle")
        return Standing(self._replica.id, self._node, os.getpid(), tuple(name for name, _ in live), running)

    async def _create(self, session_id: str | None) -> str | None:
        host, replica, spec = self._host, self._replica, self._spec
        if host is None or replica is None or self._leave.is_set():
            return None
        handle = await host.agents.create(session_id=session_id, agent_options=spec.agent_options, setup=spec.setup)
        replica.hold(handle)
        return handle.agent.id

    async def _take(self, sessions: Sequence[str]) -> list[str]:
        replica, taken = self._replica, list[str]()
        for session in sessions:
            try:
                if replica is not None and not self._leave.is_set():
                    await replica.take(session)
                    taken.append(session)
            except TreadleError as error:
                LOGGER.info("session %s is not taken here: %s", session, error)
        return taken

    async def _give(self, sessions: Sequence[str], seconds: float) -> list[str]:
        replica, given = self._replica, list[str]()

        async def give(session: str) -> None:
            if replica is not None and await replica.give(session, seconds):
                given.append(session)

        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(give, session)
        return given

    async def _leave_for_good(self, seconds: float) -> list[str]:
        owned = (await self._standing()).sessions
        self._patience = seconds
        self._leave.set()
        await self._left.wait()
        return list(owned)


def _to_begin_again(error: BaseException) -> bool:
    """Whether a lease was lost, or the database was away, and nothing else."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(_to_begin_again(each) for each in group.exceptions)
    return isinstance(error, LeaseLost | StoreFailure)


def _node_here() -> str:
    return str(importlib.import_module("ray").get_runtime_context().get_node_id())
