"""Starts, resizes and drains replicas, and places sessions; from any process, and from several at once."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import trio
from attrs import define

from treadle import MisuseError, StoreFailure
from treadle_adapters.stores.postgres import PostgresStore

from ..mailbox import AgentRef, Post
from .actor import HostActor, Spec, Standing
from .placement import Load, choose, moves

LOGGER = logging.getLogger("treadle")
NAMESPACE = "treadle"
PATIENCE = 10.0
"""Seconds that an actor is waited for, beside what it was told to take."""
PAUSE = 0.2
"""Seconds between two looks at who stands."""
AT_ONCE = 25
"""Sessions that a replica is asked to take together."""


@define
class _Actor:
    handle: Any
    standing: Standing


class Cluster:
    """Replicas as actors of Ray, under names that any driver finds again. Use it as an async context manager.

    Actors are detached: they outlive whoever started them. Ray restarts one whose process or machine died; its sessions are
    gone on with by others once its lease is over, whether Ray has noticed or not. Leaving the block leaves them alone:
    ``resize(0)`` ends them.

    The program has called ``ray.init`` before.

    Args:
        spec: what the replicas have in common; a driver that finds actors there leaves them as they were started.
        name: the cluster's; names of actors begin with it.
        processors: how many Ray reserves for each replica.

    Raises:
        MisuseError: ``ray.init`` was not called.
    """

    def __init__(self, spec: Spec, *, name: str = "treadle", processors: float = 1) -> None:
        self._ray = importlib.import_module("ray")  # typed for nobody, and not everywhere
        if not self._ray.is_initialized():
            raise MisuseError("Ray is not connected: call ray.init(address=…) before")
        self._spec = spec
        self._name = name
        self._processors = processors
        self._store = PostgresStore(spec.url, schema=spec.schema)
        self._post = Post(self._store)

    async def __aenter__(self) -> Self:
        await self._post.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._post.__aexit__(kind, error, trace)
        await self._store.close()

    # --- agents -------------------------------------------------------------------------------------------------------

    def agent(self, session_id: str) -> AgentRef:
        """The agent of a session, to be spoken to from here wherever it is, through the database and not through Ray.

        Raises:
            MisuseError: the id is none.
        """
        return self._post.agent(session_id)

    async def create(self, session_id: str | None = None, affinity: str | None = None) -> AgentRef:
        """Make an agent on a new session, on the replica that ``choose`` says.

        Args:
            session_id: its id; made up unless given.
            affinity: see ``choose``.

        Raises:
            DuplicateSession: there is one of that id.
            StoreFailure: no replica stands, or the one that was asked died: whether the session was made is not known.
        """
        actors = await self._standing_ones()
        chosen = actors[choose(_loads(actors), affinity)]
        made = await self._ask(chosen.handle.create.remote(session_id))
        if made is None:
            raise StoreFailure("the replica that was to make the session has just ended; ask again")
        return self.agent(made)

    async def place(self, sessions: Iterable[str], affinity: str | None = None) -> None:
        """Have sessions owned that nobody owns, each by the replica that ``choose`` says; others are left where they are.

        Raises:
            StoreFailure: no replica stands.
        """
        actors = await self._standing_ones()
        loads = _loads(actors)
        homes: dict[str, list[str]] = {}
        for session in sessions:
            home = choose(loads, affinity)
            loads[home] = Load(loads[home].sessions + 1, loads[home].running)
            homes.setdefault(home, []).append(session)
        async with trio.open_nursery() as nursery:
            for home, placed in homes.items():
                for first in range(0, len(placed), AT_ONCE):
                    batch = placed[first : first + AT_ONCE]
                    nursery.start_soon(self._asked, actors[home].handle.take, batch)

    async def move(self, session_id: str, to: str, seconds: float = 30.0) -> bool:
        """Move a session to a replica by its name, once it is at rest.

        Args:
            session_id: the session.
            to: the name of the replica, one of ``standing``.
            seconds: how long its turn may take.

        Returns:
            Whether it is there now; if not, it is where it was, or whoever is asked next takes it.
        """
        actors = await self._actors()
        for each in actors.values():
            if session_id in each.standing.sessions:
                await self._asked(each.handle.give, [session_id], seconds, beside=seconds)
        return to in actors and session_id in (await self._asked(actors[to].handle.take, [session_id]) or [])

    async def even_out(self, seconds: float = 0.0) -> int:
        """Move sessions at rest from replicas that have more to those that have less; returns how many were let go of.

        Args:
            seconds: how long the turns of others may take that are moved as well, if those at rest are too few.
        """
        actors = await self._actors()
        moved = 0
        for giver, taker, count in moves(_loads(actors)):
            standing = actors[giver].standing
            ranked = sorted(standing.sessions, key=set(standing.running).__contains__)
            given: list[str] = (
                await self._asked(actors[giver].handle.give, ranked[:count], seconds, beside=seconds) or []
            )
            await self._asked(actors[taker].handle.take, given)
            actors[giver].standing = _without(standing, given)
            moved += len(given)
        return moved

    # --- replicas -----------------------------------------------------------------------------------------------------

    async def standing(self) -> Mapping[str, Standing]:
        """The replicas that answer, by name."""
        return {name: actor.standing for name, actor in (await self._actors()).items()}

    async def resize(self, count: int, seconds: float = 30.0) -> None:
        """Have so many replicas: further ones are started where there is room, the last ones end and their sessions move.

        Asked again it comes to the same; it also starts those that are missing. It returns when all stand.

        Args:
            count: how many.
            seconds: how long running turns of those that end may take.

        Raises:
            MisuseError: less than none.
            StoreFailure: Ray finds no room, or a replica does not begin to stand.
        """
        if count < 0:
            raise MisuseError(f"a cluster has some replicas or none, not {count}")
        names = sorted(await trio.to_thread.run_sync(self._names), key=self._number)
        nodes = await self._nodes() if count > len(names) else {}
        for _ in range(count - len(names)):
            names.append(await self._start(names, nodes))
        keep, end = names[:count], names[count:]
        await self._stand(keep)
        await self._end(end, seconds)

    async def drain(self, node: str, seconds: float = 30.0) -> None:
        """Empty a node: as many replicas begin on others, those on it end, and their sessions move to all that stand.

        Args:
            node: as Ray names it: see ``Standing.node``.
            seconds: how long running turns may take.

        Raises:
            StoreFailure: no other node has room, or a replica does not begin to stand there.
        """
        leaving = [name for name, each in (await self._actors()).items() if each.standing.node == node]
        nodes = await self._nodes()
        nodes.pop(node, None)
        names = await trio.to_thread.run_sync(self._names)
        begun: list[str] = []
        for _ in leaving:
            begun.append(await self._start([*names, *begun], nodes))
        await self._stand(begun)
        await self._end(leaving, seconds)

    async def _end(self, names: Sequence[str], seconds: float) -> None:
        """Have replicas leave, take their actors away, and have others own what they had."""
        actors = await self._actors(names)
        owned: list[str] = []

        async def end(name: str) -> None:
            actor = actors.get(name)
            if actor is not None:
                owned.extend(await self._asked(actor.handle.leave, seconds, beside=seconds) or actor.standing.sessions)
            await trio.to_thread.run_sync(self._take_away, name)

        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(end, name)
        if owned and set(await trio.to_thread.run_sync(self._names)) - set(names):
            await self.place(owned)

    def _take_away(self, name: str) -> None:
        try:
            self._ray.kill(self._ray.get_actor(name, namespace=NAMESPACE), no_restart=True)
        except ValueError:
            return  # somebody else did

    async def _start(self, names: Sequence[str], nodes: dict[str, int]) -> str:
        """Start a replica under the next number, on the node with the fewest; returns its name.

        Raises:
            StoreFailure: there is no node for it.
        """
        if not nodes:
            raise StoreFailure(f"Ray has no node with {self._processors:g} processors for a replica")
        number = max((self._number(name) for name in names), default=-1) + 1
        name = f"{self._name}-{number}"
        node = min(sorted(nodes), key=nodes.__getitem__)
        nodes[node] += 1
        await trio.to_thread.run_sync(self._begin, name, node)
        return name

    def _begin(self, name: str, node: str) -> None:
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        self._ray.remote(HostActor).options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_concurrency=8,
            num_cpus=self._processors,
            scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node, soft=True),
        ).remote(self._spec)

    async def _stand(self, names: Sequence[str]) -> None:
        """Wait until all of them do.

        Raises:
            StoreFailure: one does not, for longer than it takes a process to begin.
        """
        missing = set(names)
        with trio.move_on_after(6 * PATIENCE):
            while missing:
                missing -= {name for name, each in (await self._actors(names)).items() if each.standing.replica}
                if missing:
                    await trio.sleep(PAUSE)
        if missing:
            raise StoreFailure(
                f"{', '.join(sorted(missing))} did not begin within {6 * PATIENCE:g} s: see that Ray has "
                f"{self._processors:g} processors for each, and that the database is there"
            )

    # --- asking Ray -----------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        found = self._ray.util.list_named_actors(all_namespaces=True)
        mine = [each["name"] for each in found if each["namespace"] == NAMESPACE]
        return [name for name in mine if name.rpartition("-")[0] == self._name and name.rpartition("-")[2].isdigit()]

    def _number(self, name: str) -> int:
        return int(name.rpartition("-")[2])

    async def _nodes(self) -> dict[str, int]:
        """The nodes that live and are large enough, and how many of the replicas that answer run on each."""
        living = await trio.to_thread.run_sync(self._ray.nodes)
        counts = {str(node["NodeID"]): 0 for node in living if node["Alive"] and self._has_room(node["Resources"])}
        for each in (await self._actors()).values():
            if each.standing.node in counts:
                counts[each.standing.node] += 1
        return counts

    def _has_room(self, resources: Mapping[str, float]) -> bool:
        return resources.get("CPU", 0.0) >= self._processors

    async def _actors(self, names: Sequence[str] | None = None) -> dict[str, _Actor]:
        """The actors that answer; a dead one does when Ray has restarted it."""
        found: dict[str, _Actor] = {}

        async def find(name: str) -> None:
            try:
                handle = await trio.to_thread.run_sync(lambda: self._ray.get_actor(name, namespace=NAMESPACE))
            except ValueError:
                return
            standing = await self._asked(handle.standing, patience=2.0)
            if standing is not None:
                found[name] = _Actor(handle, standing)

        async with trio.open_nursery() as nursery:
            for name in names if names is not None else await trio.to_thread.run_sync(self._names):
                nursery.start_soon(find, name)
        return {name: found[name] for name in sorted(found, key=self._number)}

    async def _standing_ones(self) -> dict[str, _Actor]:
        """Those that own sessions.

        Raises:
            StoreFailure: there is none for now.
        """
        with trio.move_on_after(PATIENCE):
            while True:
                actors = {name: each for name, each in (await self._actors()).items() if each.standing.replica}
                if actors:
                    return actors
                await trio.sleep(PAUSE)
        raise StoreFailure(f"no replica of {self._name!r} stands: resize() starts some")

    async def _ask(self, reference: Any, patience: float = PATIENCE) -> Any:
        """Wait for an answer of an actor; what it raised is raised here.

        Raises:
            StoreFailure: it died, or did not answer in time.
        """
        errors = self._ray.exceptions

        def get() -> Any:
            try:
                return self._ray.get(reference, timeout=patience)
            except errors.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, Exception) else error) from None
            except errors.RayError as error:
                raise StoreFailure(f"a replica of {self._name!r} did not answer: {type(error).__name__}") from error

        return await trio.to_thread.run_sync(get, abandon_on_cancel=True)

    async def _asked(self, method: Any, *args: Any, beside: float = 0.0, patience: float = PATIENCE) -> Any:
        """As ``_ask``; ``None`` if there was no answer: others see to what it had."""
        try:
            return await self._ask(method.remote(*args), patience + beside)
        except StoreFailure as error:
            LOGGER.warning("%s", error)
            return None


def _loads(actors: Mapping[str, _Actor]) -> dict[str, Load]:
    return {
        name: Load(len(each.standing.sessions), len(each.standing.running))
        for name, each in actors.items()
        if each.standing.replica
    }


def _without(standing: Standing, given: Sequence[str]) -> Standing:
    gone = set(given)
    sessions = tuple(name for name in standing.sessions if name not in gone)
    return Standing(standing.replica, standing.node, standing.process, sessions, standing.running)
