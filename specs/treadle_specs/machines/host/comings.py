"""How agents of the host machine come and go: made, made in vain, disposed, resumed, forked, killed (O1, O4, O13, P4, S5)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from treadle import State

from ..machine import step
from .actor import Actor
from .births import Where
from .drawn import CROWD, GOING, PICK
from .ends import Ends
from .sent import NEXT_TURN


class Comings(Ends):
    """The rules by which agents begin and end, and what rules of other kinds are made of."""

    @rule(pick=PICK, keep=st.booleans(), again=st.booleans(), go=GOING)
    @step
    def dispose(self, pick: int, go: Any, *, keep: bool, again: bool) -> None:
        """An agent ends, with those below it; its session may be resumed right after (O4)."""
        actor = self._actor(pick)
        if actor is None:
            return
        self.world.storage.mood = "well"
        actor.dispose(keep=keep)
        self._go(go)
        if again:
            self.rest_all()
            if not self.world.ending:
                self.come_back(actor.id)

    @rule(pick=PICK)
    @step
    def resume(self, pick: int) -> None:
        """A session that is not live is resumed, the second time perhaps."""
        self.rest_all()
        closed = self.closed()
        if closed and not self.world.ending and not self.crowded:
            self.come_back(closed[pick % len(closed)])

    @rule(pick=PICK, times=st.integers(2, 3))
    @step
    def come_again(self, pick: int, times: int) -> None:
        """An agent is disposed, resumed and asked, several times over (P4, Q2)."""
        for _ in range(times):
            actor = self._actor(pick)
            if actor is None or self.world.ending:
                return
            self.world.storage.mood = "well"
            actor.dispose(keep=True)
            self.rest_all()
            if self.world.ending or self.crowded:
                return
            self.come_back(actor.id)
            again = self.world.actors[actor.id]
            again.deliver(self.world.name(), NEXT_TURN, wakeup=True)
            self.bench.settle()

    @rule(pick=PICK, part=st.integers(0, 3))
    @step
    def fork(self, pick: int, part: int) -> None:
        """A session is forked, at its end or before; the fork may be forked again (S5)."""
        self.rest_all()
        closed = self.closed()
        if not closed or self.world.ending:
            return
        self.branch(closed[pick % len(closed)], part)

    @rule(power=st.booleans())
    @step
    def kill(self, *, power: bool) -> None:
        """The process dies, or the machine; another one opens what is left (P4, P7)."""
        self.die(power=power)

    @rule(where=st.sampled_from(["setup", "commit", "created", "orphan", "other"]), pick=PICK, anew=st.booleans())
    @step
    def fail(self, where: Where, pick: int, *, anew: bool) -> None:
        """A creation or a resume fails; the next one under its id succeeds (O1, O13)."""
        name = self._vain(pick, anew=anew)
        if name is None:
            return
        gone = [one for one in self.world.everyone if one.witness.gone]
        if where == "orphan" and not gone:
            where = "setup"
        self.bench.run(lambda: self.world.births.fail(name, where, gone[-1] if gone else None, anew=anew))
        self._after_all(name, anew=anew)

    @rule(ticks=st.integers(0, 8), order=st.lists(st.integers(0, 3), max_size=4), pick=PICK, anew=st.booleans())
    @step
    def give_up(self, ticks: int, order: list[int], pick: int, *, anew: bool) -> None:
        """A creation or a resume is cancelled at some moment; what is made by then stays, or nothing does (O1)."""
        name = self._vain(pick, anew=anew)
        if name is None:
            return
        waiter = self.bench.waiter(lambda: self.world.births.attempt(name, anew=anew), name=f"creation of {name}")
        self.bench.tick(ticks, order)
        waiter.scope.cancel()
        self.bench.settle()
        self.bench.advance(1.0)
        if waiter.error is not None:
            raise waiter.error
        if self.world.ending:
            return
        if not waiter.succeeded:
            self.bench.run(lambda: self.world.births.undone(name, anew=anew))
            self._after_all(name, anew=anew)

    # --- pieces -------------------------------------------------------------------------------------------------------

    @property
    def crowded(self) -> bool:
        """Whether no more agents are to be made. No rule's drawing depends on it, nor on anything else that happens."""
        return len(self.world.live()) >= CROWD

    def _vain(self, pick: int, *, anew: bool) -> str | None:
        """The id of a creation that is to fail: of a new session, or of one that is not live."""
        if self.world.ending or self.crowded:
            return None
        if not (anew or self.closed()) and (actor := self._actor(pick)) is not None:
            self.world.storage.mood = "well"
            actor.dispose(keep=True)
        self.rest_all()
        closed = self.closed()
        if self.world.ending or not (anew or closed):
            return None
        return next(self.ids) if anew else closed[pick % len(closed)]

    def _after_all(self, name: str, *, anew: bool) -> None:
        if self.world.ending:
            return
        if anew:
            self._make(name, None, None, 5.0, 2, "big")
        else:
            self.come_back(name)

    def _actor(self, pick: int, *, busy: bool | None = None) -> Actor | None:
        live = [one for one in self.world.live() if one.handle is not None]
        if self.world.ending or not live:
            return None
        if busy is not None:
            wanted = [one for one in live if (one.agent.state is not State.IDLE) == busy]
            live = wanted or live
        return live[pick % len(live)]

    def _create(
        self, under: int | None, preset: str | None, warning: float, pool: int, model: str, early: int = 0
    ) -> None:
        world = self.world
        if world.ending:
            return
        parent = self._actor(under) if under is not None else None
        depth = parent.agent.session.header.delegation_depth if parent is not None else 0
        if depth > 3 or (parent is not None and parent.agent.state is not State.IDLE):
            parent = None
        world.storage.mood = "well"
        self._make(next(self.ids), parent, preset, warning, pool, model, early)

    def _make(
        self, name: str, parent: Actor | None, preset: str | None, warning: float, pool: int, model: str, early: int = 0
    ) -> None:
        world = self.world

        async def create() -> None:
            await world.births.create(
                name, parent=parent, preset=preset, warning=warning, pool=pool, model=model, early=early
            )

        self.bench.run(create)

    def _go(self, going: tuple[str, Any, Any]) -> None:
        how, much, order = going
        if how == "tick":
            self.bench.tick(much, order)
        elif how == "advance":
            self.bench.advance(much)
        else:
            self.bench.settle()
