"""The batching writer over a sink of every mood: it loses nothing that it acknowledged, and keeps nobody waiting."""

from __future__ import annotations

import pytest
import trio

from treadle import StoreFailure
from treadle.session import BatchWriter, Event, TurnStart
from treadle_specs.machines.budget import chosen, run_machine
from treadle_specs.machines.writer.machine import WriterMachine
from treadle_specs.machines.writer.sink import Sink


def event(seq: int, size: int = 1) -> Event:
    return Event("turn/start", seq, 0, TurnStart(10**size))


@pytest.mark.slow
@pytest.mark.rule("P1", "P2", "P7", "N6", "N8")
def test_the_writer_keeps_its_promises_whatever_its_sink_does() -> None:
    run_machine(WriterMachine, chosen(80))


@pytest.mark.slow
@pytest.mark.rule("P1", "P2", "P7", "N6", "N8")
def test_the_writer_keeps_them_in_long_programs() -> None:
    run_machine(WriterMachine, chosen(200, 60))


@pytest.mark.rule("P1")
async def test_every_close_of_a_writer_that_could_not_store_everything_says_so() -> None:
    writer = BatchWriter("s", Sink("full"), 0)
    writer.add(event(0))
    for _ in range(2):
        with pytest.raises(StoreFailure):
            await writer.close()


@pytest.mark.rule("N8")
async def test_an_event_that_cannot_be_stored_is_told_once(autojump_clock: trio.testing.MockClock) -> None:
    told: list[Exception] = []
    async with trio.open_nursery() as nursery:
        writer = BatchWriter("s", Sink(), 0)
        writer.start(lambda run, name=None: nursery.start_soon(run), told.append)
        writer.add(event(0))
        writer.add(Event("turn/start", 1, 0, {"no": object()}))
        writer.add(event(2))
        await trio.sleep(1)
    assert len(told) == 1


@pytest.mark.rule("P1")
async def test_what_waited_before_the_background_began_is_written_at_once_when_it_is_much(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sink = Sink()
    writer = BatchWriter("s", sink, 0, window=60, full=100)
    writer.add(event(0, 200))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        writer.start(lambda run, name=None: nursery.start_soon(run), lambda error: None)
    assert sink.records
    assert trio.current_time() - began < 1
