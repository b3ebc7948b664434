"""Presets: which revision each agent holds, what it brings, and when it ends (O9, O11, O12)."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from treadle import Agent
from treadle.errors import MisuseError, ScopeClosed
from treadle.hooks import INBOX_INSERTED, InboxInserted
from treadle.presets import Composition, Lease, PresetDefinition
from treadle.session import PresetSelected, TurnStart
from treadle.tools import Tool

from ...exploration.violation import require
from .surroundings import Surroundings

NAMES = ("red", "blue")
DOCUMENT = "- brand: [{}]\n"


@define(eq=False)
class Held:
    """A loaded revision: who holds it, and whether its declaration is gone."""

    number: int
    name: str
    holders: list[object] = field(factory=list[object])
    retired: bool = False
    scope: Any = None
    ended: bool = False


class Revisions:
    """The presets of a world, with a count of their own of who holds what."""

    def __init__(self, world: Surroundings) -> None:
        self.world = world
        self.held: dict[int, Held] = {}
        self.current: dict[str, Held] = {}
        self.of: dict[Agent, Held] = {}
        self.leases: list[tuple[Lease, Held]] = []
        self.disposers: dict[str, Any] = {}
        self.loading = 0

    def brand(self, composition: Composition, name: str) -> None:
        """The one component: a tool, a persona and a service that tell the revision apart, and a clean-up."""
        held = Held(self.loading, name)
        self.held[held.number] = held
        composition.tools.register(Tool(f"brand{held.number}", "b", {"type": "object"}, self.world.crew.body))
        composition.prompt.persona(f"You are number {held.number}.")
        composition.provide("number", held.number)

        def ended() -> None:
            with self.world.noting():
                require(not held.ended, "O12", "revision {} ends twice", held.number)
                kept = held.retired or self.world.leaving or self.world.interrupts
                require(kept, "O12", "revision {} ends, and its declaration stands", held.number)
                free = self.world.leaving or self.world.interrupts
                require(free or not self._live(held), "O12", "revision {} ends, and is held", held.number)
            held.ended = True

        composition.scope.defer(ended)
        held.scope = composition.scope

    def overhear(self, pick: int) -> None:
        """A listener is registered in a preset that agents are bound to: it hears each of them, and nobody else (O11)."""
        bound = sorted(self.of.items(), key=lambda pair: pair[0].id)
        if not bound:
            return
        agent, held = bound[pick % len(bound)]
        heard: list[Agent] = []

        def hear(told: InboxInserted) -> None:
            heard.append(told.agent)

        dispose = held.scope.on(INBOX_INSERTED, hear)
        self.world.actor_of(agent).deliver(self.world.name(), "next-step", wakeup=False)
        dispose()
        over = self.world.actor_of(agent).disposing
        require(over or agent in heard, "O11", "what is registered in the preset of {} does not hear it", agent.id)
        others = [one.id for one in heard if self.of.get(one) is not held]
        require(not others, "O11", "what is registered in a preset hears {}", others)

    def _live(self, held: Held) -> list[object]:
        """Its leases, and those of its agents that are not ending: these let go of it on their way."""
        ending = [one.agent for one in self.world.everyone if one.disposing]
        return [one for one in held.holders if one not in ending]

    async def declare(self, name: str) -> None:
        """Declare a preset, anew where it is declared: another revision."""
        old = self.current.pop(name, None)
        if old is not None:
            old.retired = True
            self.disposers[name]()
        self.loading += 1
        presets = self.world.host.presets
        self.disposers[name] = await presets.register(PresetDefinition(name, DOCUMENT.format(name)))
        self.current[name] = self.held[self.loading]
        info = await presets.resolve(name)
        require(info.error is None, "O9", "preset {} is broken: {}", name, info.error)
        require(info.revision == self.loading, "O11", "revision {} where {} was loaded", info.revision, self.loading)

    def bound(self, agent: Agent, held: Held | None) -> None:
        """An agent was bound to a revision, and no longer to the one before."""
        old = self.of.pop(agent, None)
        if old is not None:
            old.holders.remove(agent)
        if held is not None:
            held.holders.append(agent)
            self.of[agent] = held

    async def select(self, agent: Agent, name: str) -> None:
        """Choose a preset before the first turn; refused afterwards (O12)."""
        blank = not any([isinstance(entry.data, TurnStart) for entry in agent.session.events])
        open_still, before = not agent.scope.closed, self.of.get(agent)
        if blank and open_still:
            self.bound(agent, self.current[name])
        try:
            await self.world.host.presets.select(agent, name)
        except MisuseError:
            require(not blank, "O12", "{} is blank, and cannot choose", agent.id)
        except ScopeClosed:
            require(not open_still or self.world.actor_of(agent).disposing, "O12", "the scope of {} is open", agent.id)
            self.bound(agent, before)
        else:
            require(blank, "O12", "{} has had a turn, and chooses", agent.id)
            chosen = [entry.data.preset for entry in agent.session.events if isinstance(entry.data, PresetSelected)]
            require(chosen[-1:] == [name], "O9", "{} chose {}, and {} is recorded", agent.id, name, chosen)

    async def lease(self, name: str) -> None:
        """Hold the present revision for reading."""
        self.leases.append((await self.world.host.presets.acquire_scope(name), self.current[name]))
        self.current[name].holders.append(self.leases[-1][0])

    async def let_go(self, pick: int) -> None:
        """Release a lease, twice."""
        lease, held = self.leases.pop(pick % len(self.leases))
        held.holders.remove(lease)
        await lease.release()
        await lease.release()

    def rest(self) -> None:
        """Every agent holds the revision it was bound to, and a revision lives as long as somebody holds it."""
        presets = self.world.host.presets
        for actor in self.world.live():
            held = self.of.get(actor.agent)
            number = presets.service_for(actor.agent, "number")
            due = held.number if held is not None else None
            require(number == due, "O9", "{} has revision {}, and was bound to {}", actor.id, number, due)
            offered = [one.name for one in actor.agent.tools.list() if one.name.startswith("brand")]
            require(
                offered == ([f"brand{due}"] if due is not None else []), "O11", "{} is offered {}", actor.id, offered
            )
        for held in self.held.values():
            gone = held.retired and not held.holders
            require(held.ended == gone, "O12", "revision {} ended: {}; held by {}, retired: {}", held.number, held.ended,
                    len(held.holders), held.retired)  # fmt: skip
