"""The batching writer by itself: when it writes, how much together, what it tells, and what is final (P1, P2, P7, N6, N8)."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from treadle import MisuseError, SessionLocked, StoreFailure
from treadle.session import WINDOW, BatchWriter, Event, encode_event
from treadle_specs.kits.store_bench import sample

EVENTS: list[Event] = list(sample("w", 4).events)
RECORDS = [encode_event(entry) for entry in EVENTS]
NO_ROOM = OSError(errno.ENOSPC, "no room")
FIRST = 3
"""What the sink holds when the writer begins: a writer need not begin at zero."""


@define
class Recording:
    """A sink that keeps what it was asked, and does what the test says."""

    writes: list[tuple[float, int, list[bytes], bool]] = field(factory=list)
    failures: list[BaseException] = field(factory=list)
    released: int = 0
    takes: float = 0.0
    eager: bool = False
    gate: trio.Event | None = None

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:
        self.writes.append((trio.current_time(), first, list(records), durable))
        if self.gate is not None:
            await self.gate.wait()
        await trio.sleep(self.takes)
        if self.failures:
            raise self.failures.pop(0)
        return durable or self.eager

    async def release(self) -> None:
        self.released += 1

    @property
    def asked(self) -> list[tuple[int, int, bool]]:
        """From which event on, how many, and whether they have to be durable."""
        return [(first, len(records), durable) for _, first, records, durable in self.writes]


@define
class Stand:
    """A writer over a recording sink, with a background that counts its tasks."""

    sink: Recording
    writer: BatchWriter
    told: list[Exception]
    started: float
    tasks: int = 0
    running: int = 0

    def add(self, *seqs: int) -> None:
        for seq in seqs:
            self.writer.add(EVENTS[seq])

    def since(self) -> list[float]:
        """When each write began, in windows since the start."""
        return [round((at - self.started) / WINDOW, 6) for at, *_ in self.sink.writes]


def stand(nursery: trio.Nursery | None, **options: Any) -> Stand:
    sink = Recording()
    made = Stand(sink, BatchWriter("w", sink, FIRST, **options), [], trio.current_time())

    def spawn(function: Any) -> None:
        async def task() -> None:
            made.running += 1
            try:
                await function()
            finally:
                made.running -= 1

        assert nursery is not None
        made.tasks += 1
        nursery.start_soon(task)

    if nursery is not None:
        made.writer.start(spawn, made.told.append)
    return made


def unstorable(seq: int) -> Event:
    """An event that no encoder takes."""
    return Event("check/strange", seq, 1, {"lone": "\ud800"})


@pytest.mark.rule("S11")
def test_what_reads_back_is_told_by_the_write_path() -> None:
    archive: Any = object()
    assert BatchWriter("w", Recording(), FIRST, archive=archive).archive is archive
    assert BatchWriter("w", Recording(), FIRST).archive is None


# --- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("P1", "P7")
async def test_what_is_taken_written_and_durable_is_counted_apart() -> None:
    s = stand(None)
    assert (s.writer.accepted, s.writer.pending) == (3, 0)
    s.add(3, 4)
    assert (s.writer.accepted, s.writer.pending) == (5, 2)
    await s.writer.written()
    assert (s.writer.accepted, s.writer.pending) == (5, 2)
    await s.writer.flush()
    assert (s.writer.accepted, s.writer.pending) == (5, 0)
    assert s.sink.asked == [(3, 2, False), (5, 0, True)]
    assert s.sink.writes[0][2] == RECORDS[3:5]
    assert repr(s.writer) == "<BatchWriter of w: 5 taken, 5 durable>"


@pytest.mark.rule("P1")
async def test_a_sink_that_syncs_unasked_is_believed() -> None:
    s = stand(None)
    s.sink.eager = True
    s.add(3)
    await s.writer.written()
    assert s.writer.pending == 0
    await s.writer.flush()
    assert s.sink.asked == [(3, 1, False)]


@pytest.mark.rule("N6")
@pytest.mark.parametrize("seq", [2, 4])
async def test_an_event_that_is_not_due_is_refused_and_changes_nothing(seq: int) -> None:
    s = stand(None)
    with pytest.raises(MisuseError, match="N6"):
        s.add(seq)
    assert (s.writer.accepted, s.writer.pending) == (3, 0)
    await s.writer.flush()
    assert s.sink.asked == []


@pytest.mark.rule("P1")
async def test_append_returns_once_all_of_it_is_durable() -> None:
    s = stand(None)
    await s.writer.append(EVENTS[3:6])
    assert s.sink.asked == [(3, 3, True)]
    assert s.writer.pending == 0


# --- barriers ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("P1", "P7")
@pytest.mark.parametrize("barrier", ["flush", "written"])
async def test_a_barrier_with_nothing_to_do_writes_nothing_and_is_a_checkpoint_all_the_same(barrier: str) -> None:
    s = stand(None)
    with trio.CancelScope() as scope:
        scope.cancel()
        await getattr(s.writer, barrier)()
    assert scope.cancelled_caught
    assert s.sink.asked == []
    with assert_checkpoints():
        await getattr(s.writer, barrier)()
    s.add(3)
    await getattr(s.writer, barrier)()
    with assert_checkpoints():
        await getattr(s.writer, barrier)()
    assert len(s.sink.asked) == 1


@pytest.mark.rule("P1")
async def test_a_barrier_that_was_cancelled_before_it_began_writes_nothing() -> None:
    s = stand(None)
    s.add(3)
    with trio.CancelScope() as scope:
        scope.cancel()
        await s.writer.flush()
    assert scope.cancelled_caught
    assert s.sink.asked == []


@pytest.mark.rule("P1")
async def test_a_barrier_that_is_cancelled_in_the_middle_leaves_no_part_behind(autojump_clock: object) -> None:
    s = stand(None)
    s.sink.takes = 5
    s.add(3, 4)
    with trio.move_on_after(1):
        await s.writer.flush()
    assert trio.current_time() - s.started == 5
    assert s.writer.pending == 0
    s.add(5)
    await s.writer.flush()
    assert s.sink.asked == [(3, 2, True), (5, 1, True)]


@pytest.mark.rule("P1")
async def test_one_write_is_under_way_at_a_time_and_what_came_meanwhile_goes_together(autojump_clock: object) -> None:
    s = stand(None)
    s.sink.gate = trio.Event()
    async with trio.open_nursery() as nursery:
        s.add(3)
        nursery.start_soon(s.writer.flush)
        await wait_all_tasks_blocked()
        for seq in (4, 5, 6):
            s.add(seq)
            nursery.start_soon(s.writer.flush)
        await wait_all_tasks_blocked()
        assert s.sink.asked == [(3, 1, True)]
        s.sink.gate.set()
    assert s.sink.asked == [(3, 1, True), (4, 3, True)]


# --- the background ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("P1")
async def test_live_events_wait_one_window_from_the_first_on(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery)
        assert s.writer.window == WINDOW
        assert s.tasks == 0
        s.add(3)
        await trio.sleep(WINDOW / 2)
        s.add(4)
        await trio.sleep(WINDOW)
        assert (s.since(), s.sink.asked) == ([1.0], [(3, 2, False)])
        await trio.sleep(WINDOW * 1.5)
        assert (s.tasks, s.running) == (1, 0)  # none lives while nothing waits
        s.add(5)
        await trio.sleep(WINDOW * 2)
        assert (s.since(), s.sink.asked[1:], s.tasks) == ([1.0, 4.0], [(5, 1, False)], 2)
        assert s.told == []


@pytest.mark.rule("P1")
async def test_events_taken_before_the_background_began_are_written_when_it_does(autojump_clock: object) -> None:
    s = stand(None)
    s.add(3)
    async with trio.open_nursery() as nursery:
        s.writer.start(lambda function: nursery.start_soon(function), s.told.append)
    assert (s.since(), s.sink.asked) == ([1.0], [(3, 1, False)])


@pytest.mark.rule("P1")
async def test_a_flush_ends_the_window(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery)
        s.add(3)
        await wait_all_tasks_blocked()
        await s.writer.flush()
        await wait_all_tasks_blocked()
        assert s.running == 0
        assert s.since() == [0.0]


@pytest.mark.rule("P1")
async def test_as_much_as_is_full_does_not_wait(autojump_clock: object) -> None:
    sizes = [len(record) for record in RECORDS]
    async with trio.open_nursery() as nursery:
        s = stand(nursery, full=sizes[3] + sizes[4])
        s.add(3)
        await wait_all_tasks_blocked()
        assert s.sink.asked == []
        s.add(4)
        await wait_all_tasks_blocked()
        assert s.sink.asked == [(3, 2, False)]
        s.add(5)  # what was written no longer counts
        await wait_all_tasks_blocked()
        assert s.sink.asked == [(3, 2, False)]
        await trio.sleep(WINDOW * 1.5)
        assert s.since() == [0.0, 1.0]


@pytest.mark.rule("P1")
@pytest.mark.parametrize("more", [0, 1])
async def test_after_a_write_the_same_bytes_are_full_again_and_a_byte_less_is_not(
    more: int, autojump_clock: object
) -> None:
    same = [Event(EVENTS[3].type, seq, EVENTS[3].time, EVENTS[3].data) for seq in (3, 4)]
    async with trio.open_nursery() as nursery:
        s = stand(nursery, full=len(encode_event(same[0])) + more)
        s.writer.add(same[0])
        await s.writer.written()
        s.writer.add(same[1])
        await wait_all_tasks_blocked()
        assert s.sink.asked == [(3, 1, False), (4, 1, False)][: 2 - more]


@pytest.mark.rule("P1")
async def test_what_comes_as_a_barrier_ends_the_window_begins_one_of_its_own(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery)
        s.add(3)
        await wait_all_tasks_blocked()  # the background waits for the end of its window
        await s.writer.written()
        s.add(4)  # before the background has seen that nothing is left
        await wait_all_tasks_blocked()
        assert s.sink.asked == [(3, 1, False)]
        await trio.sleep(WINDOW * 1.5)
        assert s.since() == [0.0, 1.0]


@pytest.mark.rule("P1")
async def test_a_byte_less_than_full_waits(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery, full=len(RECORDS[3]) + len(RECORDS[4]) + 1)
        s.add(3, 4)
        await wait_all_tasks_blocked()
        assert s.sink.asked == []


@pytest.mark.rule("P1")
async def test_a_first_event_that_is_full_by_itself_does_not_wait_either(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery, full=len(RECORDS[3]))
        s.add(3)
        await wait_all_tasks_blocked()
        assert s.since() == [0.0]


@pytest.mark.rule("P1")
async def test_what_comes_during_a_write_waits_a_window_of_its_own(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery)
        s.sink.takes = WINDOW
        s.add(3)
        await trio.sleep(WINDOW * 1.5)
        s.add(4)
        await trio.sleep(WINDOW * 5)
        assert (s.since(), s.sink.asked) == ([1.0, 3.0], [(3, 1, False), (4, 1, False)])
        assert s.tasks == 1


# --- failures that pass -----------------------------------------------------------------------------------------------


@pytest.mark.rule("P1")
async def test_what_could_not_be_written_is_kept_in_order_and_tried_again(autojump_clock: object) -> None:
    s = stand(None)
    s.sink.failures = [NO_ROOM]
    s.sink.takes = 1
    s.add(3, 4)

    async def late() -> None:
        await trio.sleep(0.5)
        s.add(5, 6)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(late)
        with pytest.raises(StoreFailure, match=r"4 events .*no room.*make room") as raised:
            await s.writer.flush()
    assert raised.value.__cause__ is NO_ROOM
    assert s.writer.pending == 4
    await s.writer.flush()
    assert s.sink.writes[1][1:] == (3, RECORDS[3:7], True)


@pytest.mark.rule("N8", "P1")
async def test_the_background_tells_of_one_outage_once_and_of_the_next_one_again(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery)
        s.sink.failures = [NO_ROOM, NO_ROOM]
        s.add(3)
        await trio.sleep(WINDOW * 5)
        assert (len(s.told), len(s.sink.writes), s.running) == (1, 1, 0)
        assert isinstance(s.told[0], StoreFailure)
        s.add(4)  # has it tried again
        await trio.sleep(WINDOW * 5)
        assert (len(s.told), len(s.sink.writes)) == (1, 2)
        s.add(5)
        await trio.sleep(WINDOW * 5)
        assert s.sink.asked[2] == (3, 3, False)
        s.sink.failures = [NO_ROOM]
        s.add(6)
        await trio.sleep(WINDOW * 5)
        assert len(s.told) == 2


@pytest.mark.rule("P1")
async def test_what_was_kept_counts_towards_full_again(autojump_clock: object) -> None:
    sizes = [len(record) for record in RECORDS]
    async with trio.open_nursery() as nursery:
        s = stand(nursery, full=sizes[3] + sizes[4])
        s.sink.failures = [NO_ROOM]
        s.add(3)
        await trio.sleep(WINDOW * 2)
        assert s.since() == [1.0]
        s.add(4)
        await wait_all_tasks_blocked()
        assert s.since() == [1.0, 2.0]


@pytest.mark.rule("P1")
async def test_an_interrupt_in_the_middle_of_a_write_goes_on_and_loses_nothing() -> None:
    s = stand(None)
    s.sink.failures = [KeyboardInterrupt()]
    s.add(3)
    with pytest.raises(KeyboardInterrupt):
        await s.writer.flush()
    await s.writer.flush()
    assert s.sink.writes[1][1:] == (3, RECORDS[3:4], True)


# --- failures that are final ------------------------------------------------------------------------------------------


@pytest.mark.rule("P2", "N8")
async def test_a_lost_lock_is_told_once_and_nothing_is_written_any_more(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery)
        s.sink.failures = [SessionLocked("somebody else's")]
        s.add(3)
        await trio.sleep(WINDOW * 3)
        assert [type(error) for error in s.told] == [SessionLocked]
        s.add(4)
        await trio.sleep(WINDOW * 3)
        for barrier in (s.writer.flush, s.writer.written):
            with pytest.raises(SessionLocked, match="somebody else's"):
                await barrier()
        assert (len(s.told), len(s.sink.writes), s.writer.accepted, s.writer.pending) == (1, 1, 5, 2)


@pytest.mark.rule("P1", "N6", "N8")
async def test_from_an_event_on_that_cannot_be_encoded_all_are_counted_and_none_is_written(
    autojump_clock: object,
) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery)
        s.add(3)
        s.writer.add(unstorable(4))
        s.writer.add(unstorable(5))
        assert [type(error) for error in s.told] == [StoreFailure]
        assert "event 4 of session 'w' cannot be stored" in str(s.told[0])
        await trio.sleep(WINDOW * 3)
        assert (len(s.told), s.writer.accepted, s.writer.pending) == (1, 6, 3)
        for _ in range(2):
            with pytest.raises(StoreFailure, match="event 4"):
                await s.writer.flush()
        assert s.sink.asked == []


@pytest.mark.rule("P1", "N6")
async def test_an_event_that_cannot_be_encoded_needs_no_background_to_be_told() -> None:
    s = stand(None)
    s.writer.add(unstorable(3))
    with pytest.raises(StoreFailure, match="event 3"):
        await s.writer.flush()


@pytest.mark.rule("P1", "N6")
async def test_an_event_that_cannot_be_encoded_while_a_write_is_under_way_is_told_once(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery)
        s.sink.takes = WINDOW
        s.add(3)
        await trio.sleep(WINDOW * 1.5)
        s.writer.add(unstorable(4))
        await trio.sleep(WINDOW * 5)
        assert (len(s.told), s.sink.asked, s.running) == (1, [(3, 1, False)], 0)


@pytest.mark.rule("P2")
async def test_a_forked_process_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    s = stand(None)
    s.add(3)
    there = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: there + 1)
    with pytest.raises(MisuseError, match="P2"):
        s.add(4)
    for barrier in (s.writer.flush, s.writer.written, s.writer.close):
        with pytest.raises(MisuseError, match="P2"):
            await barrier()
    assert (s.writer.accepted, s.sink.asked, s.sink.released) == (4, [], 0)


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("P1", "O4")
async def test_close_writes_what_is_left_lets_go_once_and_ends_the_background(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery)
        s.add(3)
        await wait_all_tasks_blocked()
        await s.writer.close()
        await wait_all_tasks_blocked()
        assert (set(s.since()), s.sink.asked[-1][2], s.sink.released, s.running) == ({0.0}, True, 1, 0)
        assert [record for _, _, records, _ in s.sink.writes for record in records] == RECORDS[3:4]
        asked = s.sink.asked
        await s.writer.close()
        await s.writer.flush()  # all is durable: nothing is left to be refused
        assert (s.sink.asked, s.sink.released) == (asked, 1)
        with pytest.raises(MisuseError, match="O4"):
            s.add(4)
        assert (s.writer.accepted, s.told) == (4, [])


@pytest.mark.rule("P1")
async def test_a_close_that_fails_lets_go_all_the_same_and_every_further_one_raises_too(autojump_clock: object) -> None:
    s = stand(None)
    s.sink.failures = [NO_ROOM]
    s.add(3)
    with pytest.raises(StoreFailure, match="no room"):
        await s.writer.close()
    assert s.sink.released == 1
    for call in (s.writer.close, s.writer.flush):
        with pytest.raises(StoreFailure, match="session 'w' is closed"):
            await call()
    assert (s.sink.released, len(s.sink.writes)) == (1, 1)


@pytest.mark.rule("P1")
async def test_a_close_that_could_not_sync_what_was_written_says_so_each_time() -> None:
    s = stand(None)
    s.add(3)
    await s.writer.written()
    s.sink.failures = [NO_ROOM]
    for _ in range(2):
        with pytest.raises(StoreFailure):
            await s.writer.close()
    assert (s.sink.released, s.sink.asked) == (1, [(3, 1, False), (4, 0, True)])


@pytest.mark.rule("P2")
async def test_a_close_after_the_lock_was_lost_says_so_each_time() -> None:
    s = stand(None)
    s.sink.failures = [SessionLocked("somebody else's")]
    s.add(3)
    for _ in range(2):
        with pytest.raises(SessionLocked, match="somebody else's"):
            await s.writer.close()
    assert (s.sink.released, len(s.sink.writes)) == (1, 1)


@pytest.mark.rule("P1")
async def test_a_cancelled_close_closes_and_a_second_one_waits_for_it(autojump_clock: object) -> None:
    s = stand(None)
    s.sink.takes = 3
    s.add(3)
    over: list[float] = []

    async def close() -> None:
        await s.writer.close()
        over.append(trio.current_time() - s.started)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(close)
        await wait_all_tasks_blocked()
        nursery.start_soon(close)
        nursery.cancel_scope.cancel()
    assert (s.sink.asked, s.sink.released, s.writer.pending) == ([(3, 1, True)], 1, 0)
    assert over == [3.0, 3.0]


@pytest.mark.rule("P1")
async def test_a_failing_background_is_quiet_about_what_a_close_interrupts(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        s = stand(nursery)
        s.sink.takes = WINDOW
        s.add(3)
        await trio.sleep(WINDOW * 1.5)
        s.add(4)
        await s.writer.close()
        await trio.sleep(WINDOW * 5)
        assert (s.sink.asked, s.running, s.told) == ([(3, 1, False), (4, 1, True)], 0, [])
