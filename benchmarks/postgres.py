"""The PostgreSQL store: commits beside bare statements of the same bytes, and many sessions at once (§13).

A server of its own is started for each sample, which syncs its commits. Committing waits for the disk and for another
process, so its figures are by the clock on the wall; what turns cost is by processor time, the server's included.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import trio
import trio.testing

from tests.postgres import Server, programs
from treadle import Event, Session
from treadle.session import SessionStore, SessionWriter, encode_event, new_header
from treadle_adapters.cluster import rows
from treadle_adapters.stores.postgres import PostgresStore
from treadle_adapters.stores.sqlite import SqliteStore

from .measure import SLICES, Benchmark, Pair, Sample
from .stores import turn

EVENTS = 500
ROUNDS = 10
BUSY, TURNS = 1_000, 5
OWNED, BEATS = 10_000, 200
TABLE = "create table bare (session text not null, seq int8 not null, record text not null, primary key (session, seq))"


@asynccontextmanager
async def running() -> AsyncGenerator[tuple[Server, PostgresStore]]:
    """A server and a store on it."""
    found = programs()
    assert found is not None
    server = await trio.to_thread.run_sync(lambda: Server.make(found, durable=True))
    try:
        async with PostgresStore(server.url) as store:
            yield server, store
    finally:
        server.remove()


def bare_connection(server: Server) -> psycopg.Connection[Any]:
    """A connection with a table like ours."""
    conn = server.connect()
    conn.execute(TABLE)
    return conn


async def opened(store: SessionStore, count: int) -> list[tuple[Session, SessionWriter]]:
    """So many new sessions."""
    sessions = [Session(new_header(f"s{number}", "/work/project")) for number in range(count)]
    return [(session, await store.create(session.header)) for session in sessions]


async def one_event() -> Sample:
    """An event of one session, durable, against an insert of the same bytes, prepared and committed."""
    pair, each = Pair(), EVENTS // SLICES
    async with running() as (server, store):
        [(session, writer)] = await opened(store, 1)
        bare = bare_connection(server)
        events: list[Event] = []
        for number in range(1, EVENTS // 8 + 2):
            events += turn(session, number)
        for start in range(0, EVENTS, each):
            mine = events[start : start + each]
            with pair.ours.time(each):
                for event in mine:
                    await writer.append([event])
            with pair.floor.time(each):
                for event in mine:
                    values = ("s", event.seq, encode_event(event).decode())
                    bare.execute("insert into bare values (%b, %b, %b)", values, prepare=True)
        bare.close()
    return by_wall(pair)


def grouped(count: int) -> Callable[[], Any]:
    """One event of each of so many sessions, against one insert of the same rows."""

    async def sample() -> Sample:
        pair = Pair()
        async with running() as (server, store), trio.open_nursery() as nursery:
            sessions = await opened(store, count)
            written = Rounds(count)
            batches = [[event for number in range(1, ROUNDS + 1) for event in turn(one, number)] for one, _ in sessions]
            for (_, writer), events in zip(sessions, batches, strict=True):
                nursery.start_soon(written.write, writer, events)
            bare = bare_connection(server)
            for index in range(len(batches[0])):
                await trio.testing.wait_all_tasks_blocked()
                with pair.ours.time(1):
                    await written.next()
                with pair.floor.time(1):
                    _insert(bare, [(f"s{at}", events[index]) for at, events in enumerate(batches)])
            bare.close()
        return by_wall(pair)

    return sample


class Rounds:
    """Tasks that each write one event when all are told to."""

    def __init__(self, count: int) -> None:
        self._count = self._left = count
        self._go, self._over = trio.Event(), trio.Event()

    async def write(self, writer: SessionWriter, events: list[Event]) -> None:
        """One session's."""
        for event in events:
            await self._go.wait()
            await writer.append([event])
            self._left -= 1
            if not self._left:
                self._left = self._count
                self._go = trio.Event()
                self._over.set()
            await self._over.wait()

    async def next(self) -> None:
        """Have all write one event."""
        self._over = trio.Event()
        self._go.set()
        await self._over.wait()


def _insert(conn: psycopg.Connection[Any], events: list[tuple[str, Event]]) -> None:
    names = [name for name, _ in events]
    seqs = [event.seq for _, event in events]
    records = [encode_event(event).decode() for _, event in events]
    statement = "insert into bare select * from unnest(%b::text[], %b::int8[], %b::text[])"
    conn.execute(statement, (names, seqs, records), prepare=True)


def by_wall(pair: Pair) -> Sample:
    """The sample by the clock on the wall."""
    return Sample(pair.ours.each_wall, pair.floor.each_wall, pair.ours.each_wall / pair.floor.each_wall)


async def busy() -> Sample:
    """A thousand sessions that write turns and wait for each: events per second."""
    async with running() as (_, store):
        sessions = await opened(store, BUSY)
        began = time.perf_counter()
        count = await drive(sessions)
        return Sample(count / (time.perf_counter() - began))


async def drive(sessions: list[tuple[Session, SessionWriter]]) -> int:
    """Write turns in all sessions at once, with a barrier after each; returns how many events there were."""
    count = 0

    async def go(session: Session, writer: SessionWriter) -> None:
        nonlocal count
        for number in range(1, TURNS + 1):
            for event in turn(session, number):
                writer.add(event)
                count += 1
            await writer.flush()

    async with trio.open_nursery() as nursery:
        for session, writer in sessions:
            nursery.start_soon(go, session, writer)
    return count


async def turns() -> Sample:
    """Whole turns of a thousand sessions, against the SQLite store: processor time of client and server together."""
    async with running() as (server, store):
        sessions = await opened(store, BUSY)
        before = time.process_time() + server_time(server)
        await drive(sessions)
        ours = time.process_time() + server_time(server) - before
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as name:
        async with SqliteStore(Path(name) / "sessions.sqlite") as theirs:
            sessions = await opened(theirs, BUSY)
            before = time.process_time()
            await drive(sessions)
            floor = time.process_time() - before
    return Sample(ours / BUSY / TURNS * 1e6, floor / BUSY / TURNS * 1e6)


def server_time(server: Server) -> float:
    """Processor seconds of the processes of a server that live."""
    main = int((server.directory / "data" / "postmaster.pid").read_text().split("\n")[0])
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == main or int(path.name) == main:
                total += int((path / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return total / 1e9


async def beat() -> Sample:
    """A beat of a replica that owns 10,000 sessions, against an update of the only row of a table, by the wall."""
    pair, each = Pair(), BEATS // SLICES
    async with running() as (server, store):
        await store.list()
        conn = server.connect(store.place.schema)
        rows.register(conn, "me", 10.0)
        conn.execute(
            "insert into sessions (id, header, made, owner, epoch, next_seq, size, modified) "
            "select 's' || n, '{}', 'x', 'me', nextval('epochs'), 0, 0, 0 from generate_series(1, %s) n",
            (OWNED,),
        )
        conn.prepare_threshold = 1
        conn.execute("create table bare (id text primary key, beat int8 not null)")
        conn.execute("insert into bare values ('me', 0)")
        for _ in range(SLICES):
            with pair.ours.time(each):
                for _ in range(each):
                    assert rows.beat(conn, "me")
            with pair.floor.time(each):
                for _ in range(each):
                    conn.execute("update bare set beat = beat + 1 where id = %s", ("me",))
        conn.close()
    return by_wall(pair)


BENCHMARKS = (
    [
        Benchmark(
            "pg-beat",
            "a beat of a replica that owns 10,000 sessions; floor: an update of the only row of a table, by the wall",
            "µs",
            1.3,
            beat,
            warm_up=False,
        ),
        Benchmark(
            "pg-event",
            "an event of one session, durable; floor: the same bytes inserted by a prepared statement, by the wall",
            "µs/event",
            1.2,
            one_event,
            warm_up=False,
        ),
        *[
            Benchmark(
                f"pg-grouped-{count}",
                f"an event of each of {count} sessions; floor: the same rows inserted by one statement, by the wall",
                "µs",
                2.5,
                grouped(count),
                warm_up=False,
            )
            for count in (50, 500)
        ],
        Benchmark(
            "pg-busy",
            "events of 1,000 busy sessions, a barrier after each turn",
            "events/s",
            10_000,
            busy,
            "at-least",
            warm_up=False,
        ),
        Benchmark(
            "pg-turns",
            "a turn of one of 1,000 sessions, by processor time of client and server; floor: the SQLite store",
            "µs/turn",
            1.0,
            turns,
            warm_up=False,
        ),
    ]
    if programs() is not None
    else []
)
