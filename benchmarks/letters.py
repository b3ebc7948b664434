"""What is asked through another replica than the owner: from the asking until its committed taking is known there.

The owner is a process of its own, busy with a thousand sessions that write turns. The floor is the way of the same bytes by
bare statements, in turns with ours: an insert, a notice, an update by who was told, and a notice back; each committed.
Figures are by the clock on the wall: they are waits.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import psycopg
import trio

from tests.postgres import Server, programs
from treadle import AgentOptions, Host, Session
from treadle.session import SessionWriter, new_header
from treadle_adapters.cluster import Post, Replica
from treadle_adapters.stores.postgres import PostgresStore

from .measure import Benchmark, Sample
from .postgres import running
from .stores import turn

BUSY, PAUSE = 1_000, 4.0
"""Sessions that write turns beside, and the seconds between two turns of one: 250 turns, 2,000 events a second."""
ASKED, LETTERS = 20, 400
OPTIONS = AgentOptions(provider="scripted", model="m")


async def own(url: str) -> None:
    """Be the owner: agents that take letters, and busy sessions; says so, and ends with its standard input."""
    async with Host(replica=Replica(url, agent_options=OPTIONS)) as host, trio.open_nursery() as nursery:
        store = host.store
        assert store is not None
        for number in range(ASKED):
            await host.agents.create(session_id=f"asked{number}", agent_options=OPTIONS)
        for number in range(BUSY):
            session = Session(new_header(f"busy{number}", "/work/project"))
            nursery.start_soon(_write, session, await store.create(session.header))
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


async def _write(session: Session, writer: SessionWriter) -> None:
    chance, number = random.Random(session.id), 1
    while True:
        await trio.sleep(PAUSE * 2 * chance.random())
        await writer.append(turn(session, number))
        number += 1


@contextmanager
def owner(server: Server) -> Generator[None]:
    """The owner's process, ready."""
    words = [sys.executable, "-m", "benchmarks.letters", server.url]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


class Bare:
    """The same way by bare statements: two connections, of which one thread answers."""

    def __init__(self, url: str) -> None:
        self._mine, self._theirs = (psycopg.connect(url, autocommit=True) for _ in range(2))
        self._mine.execute("create table bare_mail (id int8 primary key, letter text, seq int8)")
        self._mine.execute("listen taken")
        self._theirs.execute("listen letters")
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        while True:
            [told] = self._theirs.notifies(stop_after=1)
            if told.payload == "stop":
                return
            self._theirs.execute(
                "update bare_mail set letter = null, seq = 1 where id = %s", (int(told.payload),), prepare=True
            )
            self._theirs.execute("select pg_notify('taken', %s)", (told.payload,), prepare=True)

    def close(self) -> None:
        """End it."""
        self._mine.execute("select pg_notify('letters', 'stop')")
        self._thread.join()
        for each in (self._mine, self._theirs):
            each.close()

    def ask(self, number: int) -> None:
        """Ask, and wait until it was taken."""
        letter = "x" * 200
        self._mine.execute("insert into bare_mail values (%s, %s, null)", (number, letter), prepare=True)
        self._mine.execute("select pg_notify('letters', %s)", (str(number),), prepare=True)
        assert [told.payload for told in self._mine.notifies(stop_after=1)] == [str(number)]


def taken(share: float) -> Sample:
    """So many of all letters are taken within this time, in milliseconds."""
    return trio.run(_taken, share)


async def _taken(share: float) -> Sample:
    ours: list[float] = []
    floor: list[float] = []
    async with running() as (server, first):
        await first.list()
        with owner(server):
            async with PostgresStore(server.url) as store, Post(store) as post:
                bare = Bare(server.url)
                for number in range(LETTERS):
                    began = time.perf_counter()
                    await (await post.agent(f"asked{number % ASKED}").inject("what is asked")).recorded()
                    ours.append(time.perf_counter() - began)
                    began = time.perf_counter()
                    await trio.to_thread.run_sync(bare.ask, number)
                    floor.append(time.perf_counter() - began)
                bare.close()
    return Sample(*[sorted(each)[int(len(each) * share)] * 1e3 for each in (ours, floor)])


BENCHMARKS = (
    [
        Benchmark(
            f"pg-letter-p{percent}",
            f"{percent} of 100 letters are taken within this, asked through another process than the owner's, which is "
            "busy with 1,000 sessions; floor: the same by bare statements",
            "ms",
            bar,
            lambda share=percent / 100: taken(share),
            "at-most",
            warm_up=False,
        )
        for percent, bar in ((50, 10), (99, 50))
    ]
    if programs() is not None
    else []
)

if __name__ == "__main__":
    trio.run(own, sys.argv[1])
