"""The machine of the batching writer: events, barriers, cancelled waiters and closings, over a sink of every mood."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from attrs import define, field
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from treadle import SessionLocked, StoreFailure
from treadle.errors import MisuseError
from treadle.session import BatchWriter, Event, TurnStart, encode_event

from ...exploration.violation import Violation, require
from ..bench import Waiter
from ..machine import Machine, step
from .sink import SLOW, Mood, Sink

WINDOW = 0.1
FULL = 600
"""Bytes that do not wait for the window's end."""
PATIENCE = 20 * (SLOW + WINDOW)
"""Seconds after which a healthy sink has taken everything."""
MOODS: tuple[Mood, ...] = ("quick", "slow", "held", "late", "full", "quick", "lost")
GOING = st.one_of(
    st.just(("settle", 0, ())),
    st.tuples(st.just("tick"), st.integers(0, 4), st.lists(st.integers(0, 3), max_size=3)),
    st.tuples(st.just("advance"), st.sampled_from([0.03, WINDOW, SLOW, 2.0]), st.just(())),
)


@define(eq=False)
class Barrier:
    """Somebody who waits: for how many events to be how safe, and what had failed when he began."""

    waiter: Waiter[None]
    target: int
    durable: bool
    failed: int
    closing: bool = False
    told: bool = False


@define
class Model:
    """What was given to the writer, and what that entitles to.

    Attributes:
        taken: the records it has taken, in order; ``None`` from the first one on that cannot be stored.
        since: when each was taken.
        tries: calls that entitle the writer to one more write.
        quiet_since: what had failed when the writer was last given a reason to try again.
    """

    taken: list[bytes | None] = field(factory=list[bytes | None])
    since: list[float] = field(factory=list[float])
    tries: int = 0
    failed_before: int = 0
    started: bool = False
    begun: float = 0.0
    spoilt: bool = False
    closed: bool = False
    reports: list[Exception] = field(factory=list[Exception])
    background: set[trio.lowlevel.Task] = field(factory=set[trio.lowlevel.Task])
    due_reports: int = 0
    may_tell: bool = True


class WriterMachine(Machine):
    """Holds a ``BatchWriter`` to P1, P2, P7, N6 and N8."""

    make: Any = BatchWriter

    @initialize(started=st.booleans(), eager=st.booleans())
    @step
    def open(self, *, started: bool, eager: bool) -> None:
        """A writer over an empty session."""
        self.sink = Sink(eager=eager)
        self.model = Model()
        self.barriers: list[Barrier] = []
        self.writer = type(self).make("s", self.sink, 0, window=WINDOW, full=FULL)
        self.seen_failures = self.syncs = 0
        self.wanted = False
        if started:
            self._start()

    # --- what is done to it -------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.model.started and not self.model.closed)
    @rule()
    @step
    def start(self) -> None:
        """Live events are written in the background from now on."""
        self._start()

    @rule(count=st.integers(1, 4), size=st.sampled_from([1, 40, 300]), go=GOING)
    @step
    def add(self, count: int, size: int, go: Any) -> None:
        """Events are recorded."""
        for _ in range(count):
            self._add(size)
        self._go(go)

    @precondition(lambda self: not self.model.spoilt and not self.model.closed)
    @rule(sure=st.integers(0, 5))
    @step
    def spoil(self, sure: int) -> None:
        """An event that cannot be stored: what follows is counted and not kept."""
        if sure == 0:
            self.writer.add(Event("turn/start", len(self.model.taken), 0, {"no": object()}))
            self._took(None)
            self.model.spoilt = True
            self.model.due_reports += self.model.started

    @rule(seq=st.integers(-2, 2))
    @step
    def misplace(self, seq: int) -> None:
        """An event whose number is not the one due is refused, and changes nothing (N6)."""
        if seq == 0 and not self.model.closed:
            return
        try:
            self.writer.add(_event(len(self.model.taken) + seq, 1))
        except MisuseError:
            return
        raise Violation("N6", f"an event was taken {seq} off its place, or after the end")

    @rule(kind=st.sampled_from(["flush", "flush", "written", "append"]), go=GOING)
    @step
    def wait(self, kind: str, go: Any) -> None:
        """Somebody waits until what was taken is safe."""
        self._barrier(kind)
        self._go(go)

    @rule(count=st.integers(2, 12))
    @step
    def crowd(self, count: int) -> None:
        """Many wait at once, while a write is under way: two more serve them all (P1)."""
        if self.sink.mood not in ("slow", "late") or self.model.closed or self.model.spoilt:
            return
        before = self.sink.writes
        for _ in range(count):
            self._add(1)
            self._barrier("flush")
            self.bench.tick(1)
        self.bench.advance(PATIENCE)
        self.bench.settle()
        spent = self.sink.writes - before
        require(spent <= 3, "P1", "{} waiters cost {} writes", count, spent)

    @rule(count=st.integers(1, 3))
    @step
    def fail_late(self, count: int) -> None:
        """A write fails after more has come: what it held stays in front (N6)."""
        if self.sink.mood == "lost" or self.sink.loss_told or self.model.closed or self.model.spoilt:
            return
        self.sink.mood = "held"
        self._add(1)
        self._barrier("flush")
        self.bench.settle()
        for _ in range(count):
            self._add(40)
        self.sink.mood = "full"
        self.sink.let_go()
        self.bench.settle()
        self.sink.mood = "quick"

    @precondition(lambda self: self.barriers)
    @rule(pick=st.integers(0, 5), go=GOING)
    @step
    def give_up(self, pick: int, go: Any) -> None:
        """One who waits is cancelled; no part of a batch is left behind."""
        self.barriers[pick % len(self.barriers)].waiter.scope.cancel()
        self._go(go)

    @rule(mood=st.sampled_from(MOODS), sure=st.integers(0, 3), go=GOING)
    @step
    def change(self, mood: Mood, sure: int, go: Any) -> None:
        """The sink changes; what is held may be let go as well."""
        if mood != "lost" or sure < 2:
            self.sink.mood = "lost" if self.sink.loss_told else mood
        if sure % 2:
            self.sink.let_go()
        self._go(go)

    @rule(go=GOING)
    @step
    def wait_a_while(self, go: Any) -> None:
        """Time passes."""
        self._go(go)

    @precondition(lambda self: len(self.model.taken) > 3)
    @rule(times=st.integers(0, 2), go=GOING)
    @step
    def close(self, times: int, go: Any) -> None:
        """It is closed, by several perhaps."""
        for _ in range(times):
            self._close()
        self._go(go)

    # --- what has to hold ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """What is stored is a beginning of what was taken, and who was told so was told the truth."""
        if self.sink.broken:
            raise self.sink.broken[0]
        sink, model = self.sink, self.model
        stored = len(sink.records)
        require(sink.records == model.taken[:stored], "P1", "what is stored is no beginning of what was taken")
        require(self.writer.accepted == len(model.taken), "P1", "accepted is {}", self.writer.accepted)
        lacking = len(model.taken) - sink.durable
        if not sink.busy:
            require(self.writer.pending == lacking, "P1", "pending is {}, and {} are", self.writer.pending, lacking)
        require(self.writer.pending >= lacking, "P1", "durable is said of more than is")
        self._look_at_barriers()
        self._look_at_reports()
        require(self.wanted or sink.syncs == self.syncs, "P7", "a write is synced that nobody waits for")
        self.syncs = sink.syncs
        self.wanted = any([one.durable and not one.waiter.done for one in self.barriers])

    def _look_at_barriers(self) -> None:
        sink = self.sink
        for one in [one for one in self.barriers if one.waiter.done and not one.told]:
            one.told = True
            error = one.waiter.error
            if one.closing:
                require(sink.released == 1, "P1", "it is closed, and did not let go")
            if one.waiter.succeeded:
                safe = sink.durable if one.durable else len(sink.records)
                require(safe >= one.target, "P1", "{} are promised and {} are safe", one.target, safe)
            elif isinstance(error, SessionLocked):
                require(sink.loss_told, "P2", "a lock is said to be lost that is not: {}", error)
            elif error is not None:
                known = isinstance(error, (StoreFailure, MisuseError))
                require(known, "P1", "a barrier raised {!r}", error)
                fair = sink.failed > one.failed or self.model.spoilt or self.model.closed
                require(fair, "P1", "a barrier failed, and no write did: {}", error)
                require(not sink.loss_told or self.model.closed or self.model.spoilt or sink.failed > one.failed, "P2",
                        "a lost lock is told as {!r}", error)  # fmt: skip
        self.barriers = [one for one in self.barriers if not one.told]

    def _look_at_reports(self) -> None:
        """The background tells of a failing store once, until a write succeeds (N8)."""
        model = self.model
        for task, _ in self.sink.failures[self.seen_failures :]:
            if task in model.background and model.may_tell:
                model.due_reports += 1
                model.may_tell = False
        if len(self.sink.failures) == self.seen_failures and len(self.sink.records) > self.stored:
            model.may_tell = True
        self.seen_failures, self.stored = len(self.sink.failures), len(self.sink.records)

    stored = 0

    @invariant()
    def told(self) -> None:
        """What has gone wrong in the background was told, and nothing else."""
        if self.broken or not hasattr(self, "model"):
            return
        model = self.model
        if not self.sink.busy and self.bench.stepper.quiescent:
            few = len(model.reports) >= min(1, model.due_reports)
            require(few, "N8", "the background failed and told nobody")
        bound = self.sink.failed + model.spoilt
        require(len(model.reports) <= bound, "N8", "{} reports of {} failures", len(model.reports), bound)

    def end(self) -> None:
        """The sink is well again: everybody who waits is served, and closing writes what is left."""
        if not self.sink.loss_told:
            self.sink.mood = "quick"
        self.sink.let_go()
        self.bench.advance(PATIENCE)
        waiting = [one.waiter.name for one in self.barriers if not one.waiter.done]
        require(not waiting, "P1", "{} wait for ever\n{}", waiting, self.bench.dump())
        self.look()
        closing = self._close()
        self.bench.advance(PATIENCE)
        require(closing.waiter.done, "P1", "closing does not end\n{}", self.bench.dump())
        whole = not self.model.spoilt and not self.sink.loss_told and not self.broken_close
        require(not whole or self.sink.durable == len(self.model.taken), "P1", "closing left something unwritten")
        require(self.sink.released == 1, "P1", "closing let go {} times", self.sink.released)
        self.look()
        self.bench.finish()

    broken_close = False

    # --- pieces -------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.model.started, self.model.begun = True, self.bench.now
        self.model.due_reports += 0
        self.writer.start(self._spawn, self.model.reports.append)
        self._reason()

    def _spawn(self, run: Callable[[], Awaitable[Any]], name: str | None = None) -> None:
        async def behind() -> None:
            self.model.background.add(trio.lowlevel.current_task())
            await run()

        self.bench.stepper.start(behind, name=name)

    def _add(self, size: int) -> None:
        if self.model.closed:
            return
        entry = _event(len(self.model.taken), size)
        self.writer.add(entry)
        self._took(encode_event(entry) if not self.model.spoilt else None)

    def _took(self, record: bytes | None) -> None:
        self.model.taken.append(record)
        self.model.since.append(self.bench.now)
        self._reason()

    def _reason(self) -> None:
        """The writer has a reason to try again."""
        self.model.tries += 1
        self.model.failed_before = self.sink.failed

    def _barrier(self, kind: str) -> Barrier:
        durable = kind != "written"
        call: Callable[[], Awaitable[None]] = getattr(self.writer, "flush" if kind == "append" else kind)
        if kind == "append" and not self.model.closed:
            entry = _event(len(self.model.taken), 1)

            async def append() -> None:
                await self.writer.append([entry])

            call = append
            # the events are taken when the task begins; nothing else may come between
            made = self._waiting(call, kind, durable)
            self.bench.tick(1)
            require(self.writer.accepted == len(self.model.taken) + 1, "P1", "append did not take its event at once")
            self._took(encode_event(entry) if not self.model.spoilt else None)
            made.target = len(self.model.taken)
            return made
        return self._waiting(call, kind, durable)

    def _waiting(self, call: Callable[[], Awaitable[None]], kind: str, durable: bool) -> Barrier:
        self._reason()
        self.wanted = self.wanted or durable
        made = Barrier(self.bench.waiter(call, name=kind), len(self.model.taken), durable, self.sink.failed)
        self.barriers.append(made)
        return made

    def _close(self) -> Barrier:
        self.broken_close = self.broken_close or self.sink.mood in ("full", "lost")
        made = self._waiting(self.writer.close, "close", durable=True)
        made.closing = True
        self.bench.tick(1)
        self.model.closed = True
        return made

    def _go(self, going: tuple[str, Any, Any]) -> None:
        how, much, order = going
        if how == "tick":
            self.bench.tick(much, order)
            return
        if how == "advance":
            quick = self.sink.mood == "quick" and not self.sink.busy
            self.bench.advance(much)
            if quick:
                self._in_time()
        self.bench.settle()
        self._served()

    def _in_time(self) -> None:
        """Nothing waits longer than the window for the background to write it, once it runs and no other write is under way."""
        model, sink = self.model, self.sink
        if not model.started or model.spoilt or model.closed or sink.busy or sink.failed > model.failed_before:
            return
        late = [
            seq
            for seq in range(len(sink.records), len(model.taken))
            if max(model.since[seq], model.begun, sink.ended) + WINDOW <= self.bench.now
        ]
        require(not late, "P1", "events {} wait longer than the window", late)

    def _served(self) -> None:
        """At rest over a quick sink everybody who waits has been served, and a full batch does not wait."""
        sink, model = self.sink, self.model
        if sink.busy or sink.mood not in ("quick", "full"):
            return
        waiting = [one.waiter.name for one in self.barriers if not one.waiter.done]
        require(not waiting, "P1", "{} wait, and nothing is under way\n{}", waiting, self.bench.dump())
        kept = [record for record in model.taken[len(sink.records) :] if record is not None]
        behind = model.started and not model.closed and sink.failed <= model.failed_before and not model.spoilt
        require(not behind or sum(map(len, kept)) < FULL, "P1", "a full batch waits for its window")


def _event(seq: int, size: int) -> Event:
    return Event("turn/start", seq, 0, TurnStart(10 ** min(size, 300) if size > 1 else seq))
