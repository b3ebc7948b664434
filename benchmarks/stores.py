"""The JSONL store: appending with a barrier per turn, resuming long sessions, listing many (§13).

Appending waits for the disk, so its figures are by the clock on the wall; the others are by CPU time. The garbage
collector is off while resuming is measured: it would slow down the floor, which makes dictionaries, far more than us.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec

from treadle import AgentOptions, AssistantMessage, Completed, Event, Host, Session, Text
from treadle.models import BlockEnd, BlockStart, CallConfig, Finish, Finished, Segment, TimedStream
from treadle.session import (
    AssistantMessageAdded,
    InboxSpliced,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
    encode_event,
    encode_header,
    new_header,
)
from treadle.words.messages import user_message
from treadle_adapters.stores.jsonl import JsonlStore

from .measure import SLICES, Benchmark, Pair, Sample

TURNS = 1_000
LONG, LONGER = 10_000, 20_000
FILES, BIG = 200, 5_000_000
WORDS = ("This ", "answer ", "is ", "streamed ", "word ", "by ", "word, ", "as ", "answers ", "are.")


# --- subjects ---------------------------------------------------------------------------------------------------------


def turn(session: Session, number: int) -> list[Event]:
    """Add the events of one ordinary turn; returns them."""
    message = user_message(f"Question {number}, about as long as people type.", f"{session.id}-{number}")
    stream = TimedStream(
        (
            Segment((1,), chunk=BlockStart(0, "text")),
            Segment(tuple(range(10)), "text-delta", 0, WORDS),
            Segment((11,), chunk=BlockEnd(0)),
            Segment((12,), chunk=Finished(Finish("stop"))),
        )
    )
    answer, config = AssistantMessage((Text("".join(WORDS)),), "bench"), CallConfig("bench", "prebuilt")
    facts = [
        InboxSpliced("next-turn", 0, 0, (message,)),
        TurnStart(number),
        InboxSpliced("next-turn", 0, 1),
        StepStart(number, 1, (message.id,)),
        UserMessageAdded(message),
        *([RequestHeader(config, (), "initial"), RequestContext("bench", "prebuilt")] if number == 1 else []),
        AssistantMessageAdded(answer, f"attempt-{number}", Finish("stop"), None, False, stream),
        StepEnd(number, 1),
        TurnEnd(number, Completed()),
    ]
    return [session.commit(fact) for fact in facts]


def session_of(name: str, turns: int) -> Session:
    """A session of ordinary turns."""
    session = Session(new_header(name, "/work/project"))
    for number in range(1, turns + 1):
        turn(session, number)
    return session


def written(directory: Path, session: Session) -> Path:
    """Write a session's file without a store."""
    path = directory / f"{session.id}.jsonl"
    lines = [encode_header(session.header), *map(encode_event, session.events)]
    path.write_bytes(b"".join([line + b"\n" for line in lines]))
    return path


@cache
def long_sessions() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """Two long sessions in a directory; made once, gone with the process."""
    directory = tempfile.TemporaryDirectory(prefix="treadle-bench-")
    for name, turns in (("long", LONG), ("longer", LONGER)):
        written(Path(directory.name), session_of(name, turns))
    return directory, Path(directory.name)


@contextmanager
def without_collector() -> Iterator[None]:
    """Measure without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# --- benchmarks -------------------------------------------------------------------------------------------------------


async def append_and_flush() -> Sample:
    """A barrier after each turn, against a loop that writes the same bytes with the same syncs."""
    session = Session(new_header("s", "/work/project"))
    batches = [turn(session, number) for number in range(1, TURNS + 1)]
    pair, each = Pair(), TURNS // SLICES
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as name:
        writer = await JsonlStore(name).create(session.header)
        bare = os.open(Path(name) / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for start in range(0, TURNS, each):
            mine = batches[start : start + each]
            with pair.ours.time(each):
                for events in mine:
                    for entry in events:
                        writer.add(entry)
                    await writer.flush()
            with pair.floor.time(each):
                _bare_loop(bare, mine)
        await writer.close()
        os.close(bare)
    return Sample(pair.ours.each_wall, pair.floor.each_wall, pair.ours.each_wall / pair.floor.each_wall)


def _bare_loop(descriptor: int, batches: Sequence[Sequence[Event]]) -> None:
    for events in batches:
        os.write(descriptor, b"".join([encode_event(entry) + b"\n" for entry in events]))
        os.fdatasync(descriptor)


async def resume_long() -> Sample:
    """Resume a session of 10,000 turns, against decoding its lines into dictionaries."""
    _, directory = long_sessions()
    pair = Pair()
    await _resume(pair, directory, "long", LONG)
    with without_collector(), pair.floor.time(LONG):
        kept = decoded(directory / "long.jsonl")
    assert len(kept) > 8 * LONG
    return pair.sample()


async def resume_longer() -> Sample:
    """Resume 20,000 turns, against 10,000: the whole time of each."""
    _, directory = long_sessions()
    pair, half = Pair(), Pair()
    await _resume(pair, directory, "longer", LONGER)
    await _resume(half, directory, "long", LONG)
    whole, part = pair.ours, half.ours
    return Sample(whole.cpu * 1e3, part.cpu * 1e3, whole.wall / part.wall)


async def _resume(pair: Pair, directory: Path, name: str, turns: int) -> None:
    (directory / f"{name}.checkpoint").unlink(missing_ok=True)  # what is measured reads every event
    async with Host(store=JsonlStore(directory)) as host:
        with without_collector(), pair.ours.time(turns):
            handle = await host.agents.resume(name, agent_options=AgentOptions(provider="bench", model="prebuilt"))
        assert len(handle.agent.session) > 8 * turns
        await handle.dispose(keep_inbox=True)


def decoded(path: Path) -> list[object]:
    """A file's lines as dictionaries."""
    decode = msgspec.json.Decoder().decode
    return [decode(line) for line in path.read_bytes().split(b"\n") if line]


async def listing_reads() -> Sample:
    """List 200 logs of 5 MB: the bytes read of each."""
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as name:
        directory = Path(name)
        whole = written(directory, session_of("log-0", 1)).read_bytes()
        events = whole.partition(b"\n")[2]
        for number in range(FILES):
            header = encode_header(new_header(f"log-{number}", "/work/project")) + b"\n"
            path = directory / f"log-{number}.jsonl"
            path.write_bytes(header + events)
            os.truncate(path, BIG)
        before = _bytes_read()
        listing = await JsonlStore(directory).list()
        read = (_bytes_read() - before) / FILES
        assert len(listing.sessions) == FILES
    return Sample(read / 1024)


def _bytes_read() -> int:
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"])


BENCHMARKS = [
    Benchmark(
        "append-and-flush",
        "an ordinary turn appended and flushed; floor: a loop of write and fdatasync of the same bytes, by the wall",
        "µs/turn",
        2.0,
        append_and_flush,
    ),
    Benchmark(
        "resume-10000",
        "resuming 10,000 turns from a file; floor: the file's lines decoded into dictionaries with msgspec",
        "µs/turn",
        4.5,
        resume_long,
    ),
    Benchmark("resume-20000", "resuming 20,000 turns; floor: resuming 10,000", "ms", 2.3, resume_longer),
    Benchmark(
        "listing", "bytes read of each of 200 logs of 5 MB", "KiB/log", 64.0, listing_reads, "at-most", warm_up=False
    ),
]
