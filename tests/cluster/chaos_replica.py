"""A replica under faults: drives whatever sessions it can get, writes to any, and notes what it was told is durable.

chaos_replica.py URL DIRECT SCHEMA LEASE FILE SEED CHANCE SESSIONS

``URL`` leads through a proxy, ``DIRECT`` to the server. Each step of claiming, committing, accepting, taking, beating and letting go may, by
the seed and the chance, be late, end the process, or lose its connection before or after.
"""

from __future__ import annotations

import os
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import trio

from treadle import (
    Admitted,
    AgentHandle,
    AgentOptions,
    Answer,
    Call,
    Host,
    ScriptedModel,
    StoreFailure,
    TreadleError,
    message,
    tool,
)
from treadle.session import ByUser, new_id
from treadle_adapters.cluster import Replica, rows
from treadle_adapters.cluster.mailbox import rows as letters
from treadle_adapters.cluster.mailbox.asked import Cancel
from treadle_adapters.stores.postgres import append
from treadle_adapters.stores.postgres import rows as sessions

OPTIONS = AgentOptions(provider="scripted", model="m")
CLIENTS = 4


def failpoints(chance: random.Random, share: float, lease: float) -> None:
    """Put what may go wrong around each step."""

    def around(module: Any, name: str) -> None:
        step: Callable[..., Any] = getattr(module, name)

        def stumbling(conn: Any, *args: Any) -> Any:
            what = chance.choice(("late", "cut before", "cut after", "end before", "end after"))
            if chance.random() >= share:
                what = ""
            if what == "late":
                time.sleep(lease * chance.uniform(0.2, 1.5))
            elif what == "end before":
                os._exit(9)
            elif what == "cut before":
                conn.close()
                raise psycopg.OperationalError("cut off before it was asked")
            result = step(conn, *args)
            if what == "end after":
                os._exit(9)
            if what == "cut after":
                conn.close()
                raise psycopg.OperationalError("cut off before it was answered")
            return result

        setattr(module, name, stumbling)

    for module, name in (
        (append, "_send"),
        (rows, "claim"),
        (rows, "beat"),
        (rows, "bury"),
        (rows, "leave"),
        (sessions, "take"),
        (sessions, "release"),
        (letters, "accept"),
        (letters, "notify"),
        (letters, "waiting"),
        (letters, "unowned"),
        (letters, "answer"),
    ):
        around(module, name)


@tool
def look() -> str:
    """Look around."""
    return "seen"


class Driver:
    """Drives every session that it gets, one message after the other."""

    def __init__(self, host: Host, replica: Replica, direct: str, schema: str, notes: int) -> None:
        self.host, self.replica, self.notes = host, replica, notes
        self.direct, self.schema = direct, schema
        self.driven: set[str] = set()
        self.nursery: trio.Nursery | None = None

    async def take(self, session_id: str) -> AgentHandle:
        """Resume a session and drive it."""
        handle = await self.host.agents.resume(session_id, agent_options=OPTIONS)
        assert self.nursery is not None
        self.driven.add(session_id)
        self.nursery.start_soon(self.drive, handle)
        return handle

    async def drive(self, handle: Any) -> None:
        agent = handle.agent
        try:
            while True:
                text = f"{self.replica.id.split()[0]}/{time.monotonic_ns()}"
                outcome = await agent.followup(text).outcome(durable=True)
                if type(outcome).__name__ != "Admitted":
                    break
                self.note("admitted", agent.id, text)
                await agent.when_idle()
        except TreadleError:
            pass  # it was taken over, or could not be written: somebody goes on with it
        finally:
            self.driven.discard(agent.id)
            handle.dispose(keep_inbox=True)

    def note(self, *words: object) -> None:
        os.write(self.notes, (" ".join(map(str, (f"{time.monotonic():.3f}", *words))) + "\n").encode())

    async def write_letters(self, sessions: int, seed: int) -> None:
        """Be a client: ask something of any session, wherever it is, until it is accepted; then what came of it."""
        chance = random.Random(seed)
        while True:
            agent = self.replica.agent(f"s{chance.randrange(sessions):03}")
            name = new_id()
            cancels = chance.random() < 0.1
            given = message(f"mail:{name}", id=name)
            while True:
                try:
                    if cancels:
                        await self.replica.post.accept(agent.id, name, Cancel(ByUser(), keep_inbox=True))
                        posted = None
                    else:
                        posted = await agent.followup(given)
                    break
                except StoreFailure:
                    await trio.sleep(0.05)
            self.note("accepted", agent.id, name)
            with trio.move_on_after(20):
                if posted is not None and isinstance(await posted.outcome(), Admitted):
                    self.note("admitted", agent.id, f"mail:{name}")

    async def look_for_free(self) -> None:
        """Take sessions that nobody has."""
        while True:
            try:
                found = await trio.to_thread.run_sync(self.free)
            except psycopg.Error:
                found = []
            for session_id in found:
                try:
                    await self.take(session_id)
                except TreadleError:
                    continue
            await trio.sleep(0.3)

    def free(self) -> list[str]:
        with psycopg.connect(self.direct, autocommit=True, options=f"-c search_path={self.schema}") as conn:
            return [
                row[0] for row in conn.execute("select id from sessions where owner is null order by random() limit 4")
            ]


async def main(url: str, direct: str, schema: str, lease: str, file: str, seed: str, share: str, count: str) -> None:
    failpoints(random.Random(int(seed)), float(share), float(lease))
    notes = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    drivers: list[Driver] = []

    async def resume(session_id: str) -> AgentHandle:
        return await drivers[0].take(session_id)

    owner = Replica(url, schema=schema, lease=float(lease), resume=resume)
    async with owner as replica, Host(store=replica.store, checks=True) as host, trio.open_nursery() as nursery:
        replica.attach(host)
        calls = [Answer("I look.", calls=(Call("look", {}),)), Answer("There.")]
        host.models.register("scripted", ScriptedModel(calls * 10_000, pace=0.002))
        host.tools.register(look)
        driver = Driver(host, replica, direct, schema, notes)
        driver.nursery = nursery
        drivers.append(driver)
        nursery.start_soon(driver.look_for_free)
        for client in range(CLIENTS):
            nursery.start_soon(driver.write_letters, int(count), int(seed) + client)


if __name__ == "__main__":
    try:
        trio.run(lambda: main(*sys.argv[1:]))
    except BaseException as error:
        with Path(sys.argv[5] + ".ends").open("a") as ends:
            where = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
            ends.write(f"{type(error).__name__}: {str(error)[:300]} at {where[-4:]}\n")
        os._exit(3)
