"""One agent as the machine calls it: each call is predicted from what the contract says, and held to that at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field

from treadle import (
    Agent,
    AgentBusy,
    AgentDisposed,
    AgentHandle,
    ByDisposal,
    ByHook,
    ByParent,
    ByUser,
    Cause,
    DuplicateMessage,
    State,
)
from treadle.agent import message
from treadle.session import InboxSpliced, TurnStart, UserMessageAdded

from ...exploration.violation import require
from ..bench import Waiter
from .fates import hold_fates, nothing_overlooked
from .planned import UNSEEN, Planned
from .sent import NEXT_STEP, NEXT_TURN, Sent, awaited, folded
from .surroundings import Surroundings
from .witness import Witness

ACTIVE = (State.ADMISSION, State.STEP, State.TURN_STOPPING, State.MAINTENANCE)
TURNING = (State.ADMISSION, State.STEP, State.TURN_STOPPING)
OVER = (State.DISPOSAL, State.DISPOSED)
CAUSES: dict[str, Cause] = {"user": ByUser(), "parent": ByParent(), "hook": ByHook("r")}


@define(eq=False)
class Actor:
    """One live agent, and what is known of it without looking.

    Attributes:
        reserved: the release of the reservation that is held, ``None`` while none is.
        releases: every release there ever was.
        latched: whether a wake waits that has to be served (D4, D5).
        pressing: pending messages that force a step.
        sent: what was accepted.
        cause: the first cause of the cancellation under way.
        since: when it began.
        cancelled_turn: the turn that it ends, ``None`` for a maintenance task.
        due_cancels: how often cancel-requested has to be told.
        due_warnings: when warnings about its convergence are due, and whether they must have been logged.
        given: how many chunks the model had delivered when it was cancelled.
        unseen: how many tasks that nobody awaits have failed.
        errand_ended: when the last maintenance task ended.
        disposing: whether it was disposed.
    """

    world: Surroundings
    agent: Agent
    handle: AgentHandle | None
    parent: Actor | None
    witness: Witness
    reserved: Callable[[], None] | None = None
    releases: list[Callable[[], None]] = field(factory=list[Callable[[], None]])
    latched: bool = False
    pressing: set[str] = field(factory=set[str])
    sent: dict[str, Sent] = field(factory=dict[str, Sent])
    cause: Cause | None = None
    since: float | None = None
    due_cancels: int = 0
    due_warnings: list[tuple[float, bool]] = field(factory=list[tuple[float, bool]])
    errand_ended: float | None = None
    given: int | None = None
    unseen: int = 0
    cancelled_turn: int | None = None
    disposing: bool = False
    waiters: list[Waiter[Any]] = field(factory=list[Waiter[Any]])
    ending: Waiter[Any] | None = None
    told_fates: set[str] = field(factory=set[str])

    @property
    def id(self) -> str:
        """The agent's id."""
        return self.agent.id

    @property
    def published(self) -> bool:
        """Whether its creation is over, so that wakes are served (O0)."""
        return not self.agent.engine.kernel.held

    @property
    def own_child(self) -> bool:
        """Whether the tool for sub-agents made it: then that tool, and no rule, decides over it."""
        return self.agent.session.header.origin == "subagent"

    @property
    def children(self) -> list[Actor]:
        """The live agents below it."""
        return [one for one in self.world.actors.values() if one.parent is self]

    @property
    def lists(self) -> dict[str, list[str]]:
        """What is pending, by id."""
        inbox = self.agent.inbox
        return {NEXT_TURN: [m.id for m in inbox.next_turn], NEXT_STEP: [m.id for m in inbox.next_step]}

    @property
    def usable(self) -> bool:
        """Whether a wake would find work (D5)."""
        lists = self.lists
        return bool(lists[NEXT_TURN]) or any([one in self.pressing for one in lists[NEXT_STEP]])

    def picture(self) -> Any:
        """Everything that a refused call must not change."""
        return len(self.agent.session), self.lists, self.agent.state, self.agent.status, self.reserved

    # --- delivery -----------------------------------------------------------------------------------------------------

    def deliver(self, name: str, box: Any, *, wakeup: bool, own: bool = False) -> None:
        """Deliver a message; ``own`` says that the activity's own hook or tool does."""
        world, agent = self.world, self.agent
        with world.noting(self):
            before, state, seq, fired = self.picture(), agent.state, len(agent.session), world.fired
            reserved = self.reserved is not None or not self.published
            waiting = self.latched
            known = name in self.sent and self._known(name)
            try:
                receipt = agent.send(message(name, id=name), box, wakeup)
            except AgentDisposed:
                require(state in OVER, "L9", "a delivery in {} raises AgentDisposed", state)
                require(self.picture() == before, "L9", "a refused delivery changed something")
                return
            except DuplicateMessage:
                require(known, "I1", "{} is refused as a duplicate", name)
                require(self.picture() == before, "I1", "a refused delivery changed something")
                return
            require(state not in OVER, "L9", "a delivery in {} was accepted", state)
            require(not known, "I1", "{} was accepted again", name)
            self.sent[name] = Sent(receipt, seq, wakeup)
            late = state is State.CANCEL_CONVERGENCE and wakeup and not own
            place = NEXT_TURN if late else box
            if wakeup and place == NEXT_STEP:
                self.pressing.add(name)
            if wakeup and (late or (state is State.MAINTENANCE or (state is State.IDLE and reserved))):
                self.latched = True
            entry: Any = agent.session.events[seq].data
            require(isinstance(entry, InboxSpliced) and [m.id for m in entry.inserted] == [name], "I3",
                    "a delivery records {}", entry)  # fmt: skip
            require(entry.target == place, "D4", "{} went to {}, and belongs to {}", name, entry.target, place)
            opens = len(agent.session) > seq + 1 and isinstance(agent.session.events[seq + 1].data, TurnStart)
            if wakeup and state is State.IDLE and not reserved and not (waiting or world.telling):
                require(opens, "L2", "a wake of the idle {} opens no turn in the call", self.id)
            elif state is not State.IDLE and world.fired == fired:
                require(not opens, "L2", "a delivery in {} opens a turn", state)
            if (not wakeup or reserved) and state is State.IDLE and world.fired == fired:
                require(agent.state is State.IDLE, "D7", "{} runs after a delivery that wakes nobody", self.id)

    def _known(self, name: str) -> bool:
        """Whether an id is pending, claimed, or recorded (I1)."""
        if any([name in pending for pending in self.lists.values()]):
            return True
        fate = self.sent[name].receipt.fate
        recorded = any(
            [isinstance(e.data, UserMessageAdded) and e.data.message.id == name for e in self.agent.session.events]
        )
        return recorded or fate is None

    # --- control ------------------------------------------------------------------------------------------------------

    def cancel(self, cause: str = "user", *, keep: bool = False) -> None:
        """Cancel whatever runs."""
        world, agent = self.world, self.agent
        with world.noting(self):
            before, state, fired = self.picture(), agent.state, world.fired
            pending = self.lists
            converging = self.cause is not None or state is State.CANCEL_CONVERGENCE
            if state not in OVER and not keep:
                self.latched = False
            if state in ACTIVE and not converging:
                self.cause, self.since = CAUSES[cause], world.bench.now
                self.cancelled_turn = agent.engine.kernel.turn if state is not State.MAINTENANCE else None
                self.due_cancels += 1
                self.given = world.model.given.get(self.id, 0)
            agent.cancel(CAUSES[cause], keep_inbox=keep)
            if state in OVER:
                require(self.picture() == before, "L1", "a cancel after the disposal changed something")
                return
            if not keep and world.fired == fired:
                require(not any(self.lists.values()), "C1", "a cancel left {} pending", self.lists)
            if not keep:
                gone = [e.data for e in agent.session.events[before[0] :] if isinstance(e.data, InboxSpliced)]
                first = [one.target for one in gone if one.outcome == "canceled"][:2]
                due = [box for box in (NEXT_STEP, NEXT_TURN) if pending[box]]
                require(first[: len(due)] == due, "I7", "a cancel cleared {}, and {} was due", first, due)
            if state is State.IDLE and world.fired == fired:
                require(agent.state is State.IDLE, "C1", "a cancel of an idle agent makes it {}", agent.state)
            if state in ACTIVE and world.fired == fired:
                require(agent.state is State.CANCEL_CONVERGENCE, "C3", "a cancel in {} leads to {}", state, agent.state)
            require(
                not (keep and world.fired == fired) or self.lists == pending, "C1", "a cancel dropped what it keeps"
            )

    def aborted(self, turn: int, cause: Cause) -> None:
        """A turn was told to have ended aborted, for this cause (C2)."""
        due = self.cause if turn == self.cancelled_turn else None
        if self.own_child and self.handle is None and self.cause is None:
            require(isinstance(cause, (ByParent, ByDisposal)), "O6", "a child of a tool ends aborted by {}", cause)
        if due is not None:
            require(cause == due, "C2", "a turn ends aborted by {}, and {} was the first cause", cause, due)
            self._converged(self.world.bench.now)

    def maintain(self, how: str, seconds: float) -> None:
        """Claim the idle agent for a task."""
        task = self.world.errand(self, how, seconds)
        self._claim(lambda: self.agent.run_maintenance(task), f"maintenance {how}", unseen=how == "unseen")

    def compact(self, instructions: str | None) -> None:
        """Claim it for a compaction; one under way is joined where nothing is said about it (Z1)."""
        running: dict[str, Any] = self.world.compactions.running
        known = running.get(self.id)
        made = self._claim(lambda: self.agent.compact(instructions), "compaction", known=known)
        if made is not None:
            with self.world.noting(self):
                require(
                    made is not known or instructions is None,
                    "Z1",
                    "a compaction with instructions was joined to another",
                )
            running[self.id] = made

    def _claim(self, begin: Callable[[], Any], what: str, *, unseen: bool = False, known: Any = None) -> Any:
        """Begin a task from true idle, or join the ``known`` one; returns it, ``None`` where it was refused (M1)."""
        world, agent = self.world, self.agent
        with world.noting(self):
            before, state = self.picture(), agent.state
            free = state is State.IDLE and self.reserved is None and self.published
            try:
                running = begin()
            except (AgentBusy, AgentDisposed) as refusal:
                require(not free or self.latched or world.telling, "M1", "{} is idle, and {!r}", self.id, refusal)
                require(isinstance(refusal, AgentDisposed) == (state in OVER), "L1", "in {}: {!r}", state, refusal)
                require(self.picture() == before, "M1", "a refused {} changed something", what)
                return None
            joined = known is not None and running is known
            require(free != joined, "M1", "{} begins in {}, reserved: {}", what, state, self.reserved is not None)
            require(agent.status == "idle", "M2", "status is {} in maintenance", agent.status)
            if not unseen and not world.telling:
                self.waiters.append(world.bench.waiter(running.wait, name=what))
            return running

    def reserve(self) -> None:
        """Hold back the next claim."""
        world, agent = self.world, self.agent
        with world.noting(self):
            before, state = self.picture(), agent.state
            free = state is State.IDLE and self.reserved is None and self.published
            release = agent.reserve_turn_admission()
            if release is None:
                require(not free or self.latched or world.telling, "D8", "{} is idle, and not reserved", self.id)
                require(self.picture() == before, "D8", "a refused reservation changed something")
                return
            require(free, "D8", "a reservation in {}, while one is held: {}", state, self.reserved is not None)
            self.releases.append(release)
            self.reserved = release
            require(not agent.accepts_next_step, "D8", "a reserved agent accepts a next step")

    def release(self, pick: int) -> None:
        """Release a reservation, the one that is held or an old one again (D8)."""
        if not self.releases:
            return
        world, agent = self.world, self.agent
        with world.noting(self):
            release = self.releases[pick % len(self.releases)]
            before, fired, seq = self.picture(), world.fired, len(agent.session)
            live = release is self.reserved and agent.state not in OVER
            serves = live and self.latched and self.usable
            if live:
                self.reserved = None
            release()
            if not live:
                require(self.picture() == before, "D8", "a stale release changed something")
                if self.reserved is not None and agent.state is State.IDLE:
                    require(agent.engine.kernel.reserved, "D8", "a stale release frees a newer reservation")
            elif serves and not world.telling:
                opened = [e for e in agent.session.events[seq:] if isinstance(e.data, TurnStart)]
                require(opened, "D8", "a release serves no latched wake")
            elif world.fired == fired and not serves:
                require(len(agent.session) == seq, "D8", "a release without a wake records something")

    def dispose(self, *, keep: bool) -> None:
        """End it, and everything below it (O4, O6)."""
        world = self.world
        if self.handle is None:
            return
        with world.noting(self):
            first, fired = not self.disposing, world.fired
            pending = [(one, one.lists) for one in self.lineage() if not one.disposing]
            self.doomed()
            ending = self.handle.dispose(keep_inbox=keep)
            require(self.agent.state in OVER, "O4", "a disposed agent is in {}", self.agent.state)
            if world.fired == fired:
                for one, before in pending:
                    due: dict[str, list[str]] = before if keep else {NEXT_TURN: [], NEXT_STEP: []}
                    left = folded(one.agent.session.events)
                    require(left == due, "O4", "a disposal leaves {} pending of {} in {}", left, before, one.id)
            if first and not world.telling:
                self.ending = world.bench.waiter(awaited(ending), name=f"disposal of {self.id}")

    def lineage(self) -> Iterator[Actor]:
        """It, and all below it."""
        yield self
        for child in self.children:
            yield from child.lineage()

    def doomed(self) -> None:
        """It was disposed, or what it hangs on was."""
        for child in self.children:
            child.doomed()
        if not self.disposing:
            self.disposing = True
            self.reserved, self.latched = None, False
            if self.agent.state in ACTIVE and self.cause is None:
                self.cause, self.since = ByDisposal(), self.world.bench.now
                maintaining = self.agent.state is State.MAINTENANCE
                self.cancelled_turn = self.agent.engine.kernel.turn if not maintaining else None
                self.due_cancels += 1

    # --- what has to hold ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """What can be seen at any moment between two batches."""
        self.refresh()
        if not self.witness.gone:
            heard, due = self.witness.heard, len(self.agent.session)
            require(heard == due, "H4", "{} of {} events of {} are told, and nobody is telling", heard, due, self.id)
        if not self.disposing:
            require(self.lists == folded(self.agent.session.events), "I6", "the inbox of {} is {}, its log folds to {}", self.id, self.lists,
                    folded(self.agent.session.events))  # fmt: skip

    def refresh(self) -> None:
        """Forget what is over: a cancellation that has converged, a latch that was served or finds nothing (D5)."""
        state = self.agent.state
        if self.cause is not None and state not in (State.CANCEL_CONVERGENCE, State.DISPOSAL):
            if self.errand_ended is not None:
                self._converged(self.errand_ended)
            else:
                self._converged(self.world.bench.now, sure=False)
        if state in TURNING or not self.usable:
            self.latched = False

    def _converged(self, now: float, *, sure: bool = True) -> None:
        """The cancellation is over: was it warned of in time (C10)?"""
        assert self.since is not None
        due = self.since + self.agent.options.convergence_warning
        if now >= due:
            self.due_warnings.append((due, sure and now > due))
        self.cause = self.since = self.errand_ended = None

    def rest(self) -> None:
        """Nothing runs, nothing waits for time: no wake is lost, and every message has its one fate."""
        agent = self.agent
        self.look()
        self.witness.rest()
        told = self.witness.cancels
        require(self.own_child or self.world.interrupts or told == self.due_cancels, "C2", "cancel-requested of {} is told {} times, and {} are due",
                self.id, told, self.due_cancels)  # fmt: skip
        if self.disposing:
            require(agent.state is State.DISPOSED, "O4", "the disposal of {} does not end", self.id)
            require(self.witness.gone == 1, "O4", "disposed is told {} times", self.witness.gone)
            require(self.world.host.agents.get(self.id) is not agent, "O4", "{} is still registered", self.id)
            open_still = [name for name, one in self.sent.items() if one.receipt.fate is None]
            require(not open_still, "D8", "{} is gone, and {} have no fate", self.id, open_still)
            return
        if agent.state is State.IDLE and self.reserved is None:
            require(not self.latched, "D4", "{} is idle, and a latched wake finds work", self.id)
            nothing_overlooked(agent, self.lists, self.sent)
            left = [one.id for one in self.children if one.own_child and not one.witness.gone]
            require(not left, "O6", "{} is idle, and the tool's children {} live", self.id, left)
        unseen = len([one for one in self.witness.errors if isinstance(one, Planned) and f"{one}" == UNSEEN])
        require(unseen == self.unseen, "N8", "{} tasks failed unseen, and {} are told", self.unseen, unseen)
        self.world.compactions.rest(agent.session)
        hold_fates(agent, self.lists, self.sent, self.told_fates)
