"""The machine of hosts: draws a program of calls, listeners, answers, time and disasters, and holds what follows (§1–§15)."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from treadle import State
from treadle.loop import attempt

from ..machine import step
from .acts import DEEDS, EACH_TURN, HEARD, HOOKED, HOOKS, Armed
from .answers import Said
from .compactions import MOODS
from .drawn import BOX, GOING, PICK, PLAN, WARNING, call_of
from .revisions import NAMES
from .sent import NEXT_TURN
from .storage import MemoryStorage
from .troubles import Troubles
from .world import World


class HostMachine(Troubles):
    """Several agents on one host, over a storage of some kind."""

    storages: ClassVar[tuple[Any, ...]] = (MemoryStorage,)

    def __init__(self) -> None:
        super().__init__()
        self._pause = attempt.YIELD_EVERY
        setattr(attempt, "YIELD_EVERY", 0.0)  # noqa: B010  # it is real time: at each chunk, and not when the machine is slow

    @initialize(kind=st.integers(0, 2), parent=st.booleans(), preset=st.sampled_from([None, *NAMES]), pool=st.integers(1, 3),
                warnings=st.tuples(WARNING, WARNING))  # fmt: skip
    @step
    def open(self, kind: int, preset: str | None, pool: int, warnings: tuple[float, float], *, parent: bool) -> None:
        """A host with two agents."""
        self.names = (f"m{number}" for number in itertools.count(1))
        self.ids = (f"a{number}" for number in itertools.count(1))
        storages = type(self).storages
        self.world = World(storages[kind % len(storages)](), self.bench, self.names)
        self._create(None, preset, warnings[0], pool, "big")
        self._create(0 if parent else None, "parent" if parent else None, warnings[1], pool, "big")

    # --- agents -------------------------------------------------------------------------------------------------------

    @rule(under=st.one_of(st.none(), PICK), preset=st.sampled_from([None, "parent", *NAMES]), warning=WARNING,
          pool=st.integers(1, 3), model=st.sampled_from(["big", "small"]), early=st.integers(0, 6))  # fmt: skip
    @step
    def create(self, under: int | None, preset: str | None, warning: float, pool: int, model: str, early: int) -> None:
        """An agent is created, below another perhaps; something is recorded in it meanwhile."""
        if not self.crowded:
            self._create(under, preset, warning, pool, model, early)

    @rule(pick=PICK, box=BOX, wakeup=st.booleans(), plan=PLAN, again=st.integers(0, 12), watch=st.booleans(), go=GOING)
    @step
    def deliver(self, pick: int, box: Any, plan: list[Said], again: int, go: Any, *, wakeup: bool, watch: bool) -> None:
        """A message arrives, with an id that was used before now and then."""
        actor = self._actor(pick)
        if actor is None:
            return
        self.world.model.plan(actor.id, plan)
        name = list(actor.sent)[-1 - again] if again < min(3, len(actor.sent)) else self.world.name()
        actor.deliver(name, box, wakeup=wakeup or bool(plan))
        if watch and name in actor.sent:
            self._watch(actor, name)
        if again > 8:
            actor.deliver(name, box, wakeup=wakeup)
        self._go(go)

    @rule(pick=PICK, plan=PLAN.filter(bool), moods=st.lists(st.booleans(), max_size=4), go=GOING)
    @step
    def work(self, pick: int, plan: list[Said], moods: list[bool], go: Any) -> None:
        """An agent is given something to do."""
        actor = self._actor(pick)
        if actor is None:
            return
        self.world.model.plan(actor.id, plan)
        self.world.crew.moods.extend(moods)
        actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
        self._go(go)

    @rule(pick=PICK, keep=st.booleans(), cause=st.sampled_from(["user", "parent", "hook"]), box=st.one_of(st.none(), BOX),
          go=GOING)  # fmt: skip
    @step
    def cancel(self, pick: int, cause: str, box: Any, go: Any, *, keep: bool) -> None:
        """An agent is cancelled; a wake may find it converging (D4)."""
        actor = self._actor(pick, busy=True)
        if actor is None:
            return
        actor.cancel(cause, keep=keep)
        if box is not None:
            actor.deliver(self.world.name(), box, wakeup=True)
        self._go(go)

    @rule(keep=st.booleans(), go=GOING)
    @step
    def cancel_all(self, go: Any, *, keep: bool) -> None:
        """All are cancelled at once."""
        for actor in self.world.live():
            if actor.agent.state is not State.IDLE:
                actor.cancel("user", keep=keep)
        self._go(go)

    @rule(pick=PICK, seconds=st.permutations([0.8, 2.0, 6.0]), both=st.booleans(), wrapped=st.booleans(),
          on=st.sampled_from([None, "tool/result", "step/end", "agent/inbox/spliced", "cancel-requested"]),
          deed=st.sampled_from(["steer", "follow", "cancel", "inject"]), keep=st.booleans(), go=GOING)  # fmt: skip
    @step
    def stop_working(
        self,
        pick: int,
        seconds: list[float],
        on: str | None,
        deed: str,
        go: Any,
        *,
        both: bool,
        wrapped: bool,
        keep: bool,
    ) -> None:
        """One agent or two are cancelled in the middle of tools that end, or begin, when they please; a listener acts (C4, C10, D4)."""
        how = {"do": "shield", "wrap": "shield"} if wrapped else {"do": "shield"}
        picked = [self._actor(one, busy=False) for one in (pick, pick + 1)[: 1 + both]]
        chosen = {actor.id: actor for actor in picked if actor is not None}
        for actor, during in zip(chosen.values(), seconds, strict=False):
            self.world.model.first(actor.id, Said("calls", (call_of("alone", {**how, "for": during}),)))
            actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
        self.bench.settle()
        for actor in chosen.values():
            if on is not None:
                self.world.acts.armed.append(Armed(actor.id, on, 1, deed, actor.id))
            actor.cancel("user", keep=keep)
        self._go(go)

    @rule(pick=PICK, verb=st.sampled_from(["reserve", "reserve", "release", "maintain", "maintain"]), stale=PICK,
          how=st.sampled_from(["quick", "unseen", "shield", "raise", "unseen"]), seconds=st.sampled_from([0.2, 2.0]),
          wakes=st.booleans(), go=GOING)  # fmt: skip
    @step
    def hold(self, pick: int, verb: str, stale: int, how: str, seconds: float, go: Any, *, wakes: bool) -> None:
        """Something holds turns back, or no longer; a wake may come meanwhile (D8, M1, M2)."""
        actor = self._actor(pick, busy=False)
        if actor is None:
            return
        if verb == "reserve":
            actor.reserve()
        elif verb == "release":
            actor.release(stale)
        else:
            actor.maintain(how, seconds)
        if wakes:
            actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
        self._go(go)

    @rule(pick=PICK, wakes=st.booleans(), go=GOING)
    @step
    def hold_again(self, pick: int, go: Any, *, wakes: bool) -> None:
        """Admission is reserved, released, and reserved anew; the first release is used again (D8)."""
        actor = self._actor(pick, busy=False)
        if actor is None:
            return
        actor.reserve()
        actor.release(len(actor.releases) - 1)
        actor.reserve()
        if wakes:
            actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
        actor.release(0)
        self._go(go)

    @rule(pick=PICK, moods=st.lists(st.sampled_from(MOODS), min_size=1, max_size=2), go=GOING,
          words=st.lists(st.sampled_from([None, "names"]), min_size=1, max_size=2))  # fmt: skip
    @step
    def compact(self, pick: int, moods: list[str], words: list[str | None], go: Any) -> None:
        """A history is compacted by hand, again perhaps while that is under way (Z1–Z4)."""
        actor = self._actor(pick, busy=False)
        if actor is None:
            return
        self.world.compactions.moods.extend(moods)
        for each in words:
            actor.compact(each)
        self._go(go)

    @rule(pick=PICK, turns=st.integers(0, 4), refusals=st.integers(1, 4), moods=st.lists(st.sampled_from(MOODS), max_size=1),
          go=GOING)  # fmt: skip
    @step
    def outgrow(self, pick: int, turns: int, refusals: int, moods: list[str], go: Any) -> None:
        """After some turns a request is refused as too long, once or more (Z2, Z6)."""
        actor = self._actor(pick, busy=False)
        if actor is None:
            return
        for _ in range(turns):
            actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
            self.bench.settle()
        self.world.compactions.moods.extend(moods)
        for _ in range(refusals):
            self.world.model.first(actor.id, Said("long"))
        actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
        self._go(go)

    @rule(pick=PICK, stale=PICK, go=GOING)
    @step
    def release(self, pick: int, stale: int, go: Any) -> None:
        """A reservation is released, or an old one again."""
        actor = self._actor(pick)
        if actor is not None:
            actor.release(stale)
            self._go(go)

    @rule(pick=PICK, on=st.sampled_from(HEARD), nth=st.integers(1, 3), deed=st.sampled_from(DEEDS), whom=PICK,
          sure=st.integers(0, 3))  # fmt: skip
    @step
    def listen(self, pick: int, on: str, nth: int, deed: str, whom: int, sure: int) -> None:
        """A listener will act (H4, H5)."""
        self._arm(pick, on, nth, deed, whom if sure == 0 else pick, rare=sure)

    @rule(pick=PICK, on=st.sampled_from(sorted(HOOKS)), nth=st.integers(1, 2), deed=st.sampled_from(HOOKED))
    @step
    def hook(self, pick: int, on: str, nth: int, deed: str) -> None:
        """A hook will act."""
        self._arm(pick, on, nth, deed, pick, rare=0)

    @rule(pick=PICK, on=st.sampled_from(EACH_TURN), go=GOING)
    @step
    def quit(self, pick: int, on: str, go: Any) -> None:
        """A listener is taken out while an event is told that it would hear next (H3)."""
        actor = self._actor(pick, busy=False)
        if actor is None:
            return
        self.world.births.overhear(actor.agent)
        self.world.acts.armed.append(Armed(actor.id, on, 1, "unsubscribe", actor.id))
        actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
        self._go(go)

    @rule(pick=PICK, name=st.sampled_from(NAMES))
    @step
    def choose(self, pick: int, name: str) -> None:
        """A preset is chosen for an agent (O12)."""
        actor = self._actor(pick)
        if actor is not None:
            self.bench.run(self.world.revisions.select, actor.agent, name)

    @rule(
        name=st.sampled_from(NAMES),
        pick=PICK,
        what=st.sampled_from(["declare", "declare", "lease", "let go", "listen"]),
    )
    @step
    def preset(self, name: str, pick: int, what: str) -> None:
        """A preset is declared anew, or a revision is leased or let go of (O11, O12)."""
        revisions = self.world.revisions
        if self.world.ending:
            return
        if what == "declare":
            self.bench.run(revisions.declare, name)
        elif what == "listen":
            revisions.overhear(pick)
        elif what == "lease":
            self.bench.run(revisions.lease, name)
        elif revisions.leases:
            self.bench.run(revisions.let_go, pick)

    @rule(names=st.permutations(NAMES), lease=st.booleans())
    @step
    def rebind(self, names: list[str], *, lease: bool) -> None:
        """A blank agent is bound anew, and what it is bound to is declared anew; a lease comes and goes (O9, O12)."""
        if self.world.ending or self.crowded:
            return
        revisions = self.world.revisions
        self._create(None, names[0], 5.0, 2, "big")
        self.bench.run(revisions.select, self.world.live()[-1].agent, names[1])
        if lease:
            self.bench.run(revisions.lease, names[1])
            self.bench.run(revisions.let_go, len(revisions.leases) - 1)
        self.bench.run(revisions.declare, names[1])

    @rule(mood=st.sampled_from(["well", "slow", "late", "full", "unsure"]), go=GOING)
    @step
    def store(self, mood: Any, go: Any) -> None:
        """The storage changes."""
        self.world.storage.mood = mood
        self.world.failures += mood in ("full", "unsure")
        self._go(go)

    @rule(go=GOING)
    @step
    def run(self, go: Any) -> None:
        """Time passes, or tasks run a while."""
        self._go(go)

    # --- what has to hold ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """What can be seen between two batches."""
        world = self.world
        if world.broken:
            raise world.broken[0]
        for actor in list(world.actors.values()):
            actor.look()
        if world.broken:
            raise world.broken[0]

    def end(self) -> None:
        """Everything comes to rest, the host is left, and nothing is lost."""
        self.rest_all()
        self.leave_world()
        self.world.storage.end()
        self.bench.finish()

    def teardown(self) -> None:
        """End the run, in any case."""
        try:
            super().teardown()
        finally:
            setattr(attempt, "YIELD_EVERY", self._pause)  # noqa: B010
            world = getattr(self, "world", None)
            if world is not None:
                world.log.end()

    # --- pieces -------------------------------------------------------------------------------------------------------

    def _arm(self, pick: int, on: str, nth: int, deed: str, target: int, *, rare: int) -> None:
        actor, other = self._actor(pick), self._actor(target)
        if actor is None or other is None or (deed in ("interrupt", "dispose") and rare != 1):
            return
        self.world.acts.armed.append(Armed(actor.id, on, nth, deed, other.id))
