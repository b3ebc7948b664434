"""How agents and hosts end and begin again: at rest, in order, by a kill or a power cut; and what is left then (P1, P4, P7, S5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from treadle import Admitted, AgentDisposed, MessageRejected, Receipt, Rejected, State
from treadle.agent import message
from treadle.session import TurnEnd, fork

from ...exploration.violation import require
from ...logs.checker import check_events
from ..machine import Machine
from .actor import Actor
from .world import Past, World


class Ends(Machine):
    """A machine over a world."""

    world: World
    names: Iterator[str]
    ids: Iterator[str]

    def closed(self) -> list[str]:
        """The sessions of the storage that are not live."""
        return [name for name in self.world.past if name not in self.world.actors]

    def rest_all(self) -> None:
        """Nothing waits for time, storage or a reservation any more."""
        world = self.world
        world.storage.mood = "well"
        for _ in range(60):
            self.bench.advance(10.0)
            if world.over or not [one for one in world.actors.values() if not self.at_rest(one)]:
                break
        self.bench.settle()
        busy = [one.id for one in world.actors.values() if not self.at_rest(one)] if not world.over else []
        require(not busy, "L8", "{} never come to rest\n{}", busy, self.bench.dump() if busy else "")
        for actor in list(world.actors.values()):
            with world.noting():
                actor.rest()
            stuck = [one.name for one in actor.waiters if not (one.done or one.excuse() or actor.reserved)]
            if not world.over:
                require(not stuck, "L6", "{} wait for ever\n{}", stuck, self.bench.dump() if stuck else "")
            if actor.disposing:
                self.bury(actor)
        if not world.over:
            with world.noting():
                world.revisions.rest()
        if world.broken:
            raise world.broken[0]

    def at_rest(self, actor: Actor) -> bool:
        """Whether nothing of an agent is under way."""
        return actor.agent.state in (State.IDLE, State.DISPOSED)

    def bury(self, actor: Actor) -> None:
        """It is gone: its log is kept, sound and whole."""
        world, session = self.world, actor.agent.session
        del world.actors[actor.id]
        world.revisions.bound(actor.agent, None)
        checked = check_events(session.events, actor.id, header=session.header, finished=True)
        require(checked.sound, "N3", "the log of {} is not sound: {}", actor.id, checked.findings)
        past = world.past.setdefault(actor.id, Past([]))
        past.events, past.closed = list(session.events), True
        if not world.failures:
            past.safe = len(past.events)

    def come_back(self, name: str) -> None:
        """Resume a session; one that was closed in order gains nothing by it (P4, N5)."""
        world = self.world

        async def resume() -> None:
            await world.births.resume(name)

        before = world.past[name]
        self.bench.run(resume)
        session = world.actors[name].agent.session
        require(world.actors[name].agent.status != "running", "I8", "{} runs after a resume", name)
        if before.closed and before.safe >= len(before.events):
            require(len(session) == len(before.events), "P4", "resuming {} again added {} events", name,
                    len(session) - len(before.events))  # fmt: skip
            require(list(session.events) == before.events, "N5", "{} resumes with another log", name)

    def branch(self, name: str, part: int) -> None:
        """Fork a session, and compare (S5)."""
        world = self.world
        new = next(self.ids)
        events = world.past[name].events
        whole = (part == 0 and world.past[name].closed) or not events
        upto = None
        if not whole:
            ends = [0] + [e.seq + 1 for e in events if e.type == "turn/end"]
            upto = ends[part % len(ends)]
        self.bench.run(world.store.fork, name, new, upto)
        stored = self.bench.run(world.store.open_read, new)
        if events and world.past[name].safe >= len(events):
            header, due = fork(self.bench.run(world.store.open_read, name).header, events, new, upto)
            require([e.data for e in stored.events] == [e.data for e in due], "S5", "{} is no fork of {}", new, name)
            require(stored.header.inherited == header.inherited, "S5", "{} inherits {}", new, stored.header.inherited)
        world.past[new] = Past(list(stored.events), len(stored.events))

    def leave_world(self) -> None:
        """Leave the host; every log is whole, every warning was due."""
        world = self.world
        world.leave()
        for actor in list(world.actors.values()):
            with world.noting():
                actor.rest()
            self.bury(actor)
        with world.noting():
            world.settle_warnings()
        if world.broken:
            raise world.broken[0]

    def die(self, *, power: bool) -> None:
        """Open what a kill leaves, in another world: what was acknowledged is there (P1, P4, P7)."""
        old = self.world
        self.bench.settle()
        live = {one.id: list(one.agent.session.events) for one in old.everyone}
        live |= {name: past.events for name, past in old.past.items() if name not in live}
        safe = {name: past.safe for name, past in old.past.items()}
        copied = old.storage.copy(power=power)
        old.storage.mood = "well"
        self.leave_world()
        old.storage.end()
        self.world = World(copied, self.bench, self.names)
        store = self.world.store
        there = {listed.header.id for listed in self.bench.run(store.list).sessions}
        require(there <= live.keys(), "S5", "{} are listed, and were never made", there - live.keys())
        for name in [name for name in live if name in there]:
            stored = self.bench.run(store.open_read, name).events
            known = live.get(name, [])
            require(
                [e.data for e in stored] == [e.data for e in known[: len(stored)]],
                "P4",
                "{} is no beginning of its log",
                name,
            )
            require(len(stored) >= safe.get(name, 0), "P7" if power else "P1", "{} events of {} were safe, and {} are left",
                    safe.get(name, 0), name, len(stored))  # fmt: skip
            self.world.past[name] = Past(list(stored), len(stored), closed=False)
        lost = [name for name in safe if safe[name] and name not in self.world.past]
        require(not lost, "P1", "sessions {} are gone", lost)

    # --- waiting --------------------------------------------------------------------------------------------------------

    def idle(self, actor: Actor) -> Any:
        """A wait until an agent is idle; the end of its turn is durable then (L6, P8)."""

        async def wait() -> None:
            failed = self.world.failures
            await actor.agent.when_idle()
            with self.world.noting():
                require(
                    actor.agent.state in (State.IDLE, State.DISPOSED),
                    "L6",
                    "when_idle returns in {}",
                    actor.agent.state,
                )
            if not failed and not self.world.failures:
                ends = [e.seq for e in actor.agent.session.events if e.type == "turn/end"]
                self.safe(actor, ends[-1] + 1 if ends else 0)
                if ends:
                    self.on_disk(actor, ends[-1])

        return wait

    def on_disk(self, actor: Actor, seq: int) -> None:
        """An event is on disk (P8)."""
        with self.world.noting():
            self.world.storage.hold_durable(actor.id, seq)

    def fate(self, actor: Actor, receipt: Receipt) -> Any:
        """A wait for a fate: one that came with the end of a turn is told once that is on disk (D8, P8)."""

        async def wait() -> None:
            failed = self.world.failures
            told = await receipt.outcome()
            if failed or self.world.failures or receipt.turn is None:
                return
            if isinstance(told, Admitted) and told.step is not None:
                return
            ends = [
                e for e in actor.agent.session.events if isinstance(e.data, TurnEnd) and e.data.turn == receipt.turn
            ]
            if ends and not (isinstance(told, Rejected) and told.reason in ("left-out", "discarded")):
                self.on_disk(actor, ends[-1].seq)

        return wait

    def asked(self, actor: Actor, name: str) -> Any:
        """A question, and its turn's end on disk once it is answered (D9)."""

        async def wait() -> None:
            failed = self.world.failures
            try:
                answer = await actor.agent.ask(message("a question", id=name))
            except (MessageRejected, AgentDisposed):
                return
            ends = [e for e in actor.agent.session.events if isinstance(e.data, TurnEnd) and e.data.turn == answer.turn]
            with self.world.noting():
                require(ends, "D9", "turn {} is answered, and has no end", answer.turn)
                require(ends[-1].data.reason == answer.reason, "D9", "turn {} ends {}", answer.turn, answer.reason)
            if not failed and not self.world.failures:
                self.on_disk(actor, ends[-1].seq)

        return wait

    def durable(self, actor: Actor, name: str, receipt: Any) -> Any:
        """A wait until a message is durable (D8)."""

        async def wait() -> None:
            await receipt.outcome(durable=True)
            at = [e.seq for e in actor.agent.session.events if e.type == "user/message" and e.data.message.id == name]
            self.safe(actor, at[-1] + 1 if at else 0)

        return wait

    def safe(self, actor: Actor, count: int) -> None:
        """So many events were acknowledged."""
        past = self.world.past.setdefault(actor.id, Past([]))
        past.safe = max(past.safe, count)
