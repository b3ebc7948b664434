"""Situations that chance seldom makes: calls that wait, requests that fail again and again, hooks, and who waits (K4, Q6, D9)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from treadle import State
from treadle.agent import message

from ..machine import step
from .actor import Actor
from .acts import HOOKED, HOOKS, Armed
from .answers import Said
from .bodies import TIMEOUT
from .comings import Comings
from .drawn import BATCH, BOX, GOING, PICK, PLAN, call_of
from .sent import NEXT_TURN


class Troubles(Comings):
    """Rules that lead to such a situation on purpose, from wherever the program is."""

    @rule(pick=PICK, calls=BATCH, moods=st.lists(st.booleans(), max_size=4), late=st.booleans(), go=GOING)
    @step
    def overlap(self, pick: int, calls: list[Any], moods: list[bool], go: Any, *, late: bool) -> None:
        """An agent is given calls that take a while, one more than its time perhaps, and wait for each other (K1, K4, K5)."""
        actor = self._actor(pick, busy=False)
        if actor is None:
            return
        beyond = (call_of("timed", {"do": "sleep", "for": 2 * TIMEOUT}),) if late else ()
        self.world.model.first(actor.id, Said("calls", (*calls, *beyond)))
        self.world.crew.moods.extend(moods)
        actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
        self.bench.advance(0.3)
        self._go(go)

    @rule(
        pick=PICK, on=st.sampled_from(["agent/inbox/spliced", "inserted", "turn/start", "status", "claimed"]), go=GOING
    )
    @step
    def brace(self, pick: int, on: str, go: Any) -> None:
        """A listener leaves the program in the middle of a call: everybody else has heard all when it is raised (H5)."""
        actor = self._actor(pick, busy=False)
        if actor is None or actor.agent.state is not State.IDLE or actor.reserved is not None or actor.latched:
            return
        world, armed = self.world, Armed(actor.id, on, 1, "interrupt", actor.id)
        world.acts.armed.append(armed)
        world.braced = True
        try:
            actor.agent.followup(message("hold on", id=world.name()))
        except KeyboardInterrupt:
            actor.look()
        finally:
            world.braced = False
            world.acts.armed = [one for one in world.acts.armed if one is not armed]
        self._go(go)

    @rule(
        pick=PICK,
        on=st.sampled_from(["step/start", "assistant/message", "tool/result", "step/end"]),
        sure=st.integers(0, 7),
    )
    @step
    def leave(self, pick: int, on: str, sure: int) -> None:
        """A listener leaves the program in the agent's own task: the agent begins nothing more, and the host ends (H5)."""
        actor = self._actor(pick, busy=False)
        if actor is None or sure:
            return
        self.world.acts.armed.append(Armed(actor.id, on, 1, "interrupt", actor.id))
        self.world.model.first(actor.id, Said("calls", (call_of("alone", {"do": "quick"}),)))
        actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
        self.bench.settle()

    @rule()
    @step
    def reroute(self) -> None:
        """The model is taken out and put in again between turns: requests go to the one that is there (Q4)."""
        if not self.world.ending and all(self.at_rest(one) for one in self.world.actors.values()):
            self.world.model.connect()

    @rule(
        pick=PICK,
        failures=st.lists(st.integers(0, 3), min_size=1, max_size=3),
        after=st.sampled_from([None, 1.5, 9.0]),
        go=GOING,
    )
    @step
    def stutter(self, pick: int, failures: list[int], after: float | None, go: Any) -> None:
        """The requests of several steps fail, each so many times; the provider may say when to come again (Q6)."""
        actor = self._actor(pick, busy=False)
        if actor is None:
            return
        for times in reversed(failures):
            self.world.model.first(actor.id, Said("calls", (call_of("alone", {"do": "quick"}),)))
            for _ in range(times):
                self.world.model.first(actor.id, Said("busy", retry_after=after))
        actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
        self.bench.advance(3.0)
        self._go(go)

    @rule(pick=PICK, after=st.sampled_from([0.5, 1.0, 2.0]), box=BOX, keep=st.booleans(), go=GOING)
    @step
    def haunt(self, pick: int, after: float, box: Any, go: Any, *, keep: bool) -> None:
        """What a tool of one turn left running delivers while the next one is being cancelled (D4, O7)."""
        actor = self._actor(pick, busy=False)
        if actor is None:
            return
        for how in ({"do": "stray", "for": after, "box": box}, {"do": "shield", "for": 6.0}):
            self.world.model.first(actor.id, Said())
            self.world.model.first(actor.id, Said("calls", (call_of("alone", how),)))
            actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
            self.bench.settle()
        actor.cancel(keep=keep)
        self.bench.advance(0.2)
        self._go(go)

    @rule(
        pick=PICK,
        on=st.sampled_from(["prompt-submit", *sorted(HOOKS)]),
        deed=st.sampled_from(HOOKED),
        box=BOX,
        stop=st.booleans(),
        keep=st.booleans(),
        go=GOING,
    )
    @step
    def spoil(self, pick: int, on: str, deed: str, box: Any, go: Any, *, stop: bool, keep: bool) -> None:
        """A hook acts in the very next turn, which may be cancelled then; somebody waits for what becomes of its message (D8, P8, H7, H9)."""
        actor = self._actor(pick, busy=False)
        if actor is None:
            return
        self.world.acts.armed.append(Armed(actor.id, on, 1, "wait" if stop else deed, actor.id))
        name = self.world.name()
        actor.deliver(name, NEXT_TURN if stop else box, wakeup=True)
        if name in actor.sent:
            self._watch(actor, name)
        if stop:
            self.bench.settle()
            actor.cancel(keep=keep)
        self._go(go)

    @rule(pick=PICK, what=st.sampled_from(["idle", "durable", "fate"]), many=st.integers(1, 3))
    @step
    def wait(self, pick: int, what: str, many: int) -> None:
        """Some wait for an agent, or somebody until a message is safe (L6, D8)."""
        actor = self._actor(pick, busy=True)
        if actor is None:
            return
        if what == "idle":
            for number in range(many):
                actor.waiters.append(self.bench.waiter(self.idle(actor), name=f"when_idle {number} of {actor.id}"))
        elif what == "fate":
            for name, one in actor.sent.items():
                if one.receipt.fate is None:
                    self._watch(actor, name)
        elif actor.sent:
            name, one = next(reversed(actor.sent.items()))
            made = self.bench.waiter(self.durable(actor, name, one.receipt), name=f"outcome of {name}")
            made.excuse = lambda: one.receipt.fate is None
            actor.waiters.append(made)

    @rule(pick=PICK, plan=PLAN, mood=st.sampled_from([None, "slow", "late"]), go=GOING)
    @step
    def ask(self, pick: int, plan: list[Said], mood: Any, go: Any) -> None:
        """Somebody asks an idle agent, of whose last turn the end may not be on disk yet, and waits for the answer (D9)."""
        actor = self._actor(pick, busy=False)
        if actor is None or actor.agent.state is not State.IDLE or actor.reserved is not None or actor.latched:
            return
        if mood is not None:
            self.world.storage.mood = mood
            actor.deliver(self.world.name(), NEXT_TURN, wakeup=True)
            self.bench.settle()
            if actor.agent.state is not State.IDLE:
                return
        self.world.model.plan(actor.id, plan)
        name = self.world.name()
        actor.waiters.append(self.bench.waiter(self.asked(actor, name), name=f"ask of {name}"))
        self.bench.settle()
        self._go(go)

    # --- pieces -------------------------------------------------------------------------------------------------------

    def _watch(self, actor: Actor, name: str) -> None:
        """Somebody waits for the fate of a message."""
        receipt = actor.sent[name].receipt
        made = self.bench.waiter(self.fate(actor, receipt), name=f"fate of {name}")
        made.excuse = lambda: receipt.fate is None
        actor.waiters.append(made)
