"""Other processes for the tests: one holds a session, one forks agents that are killed at a random moment.

child.py hold KIND DIRECTORY SESSION     open the session for writing, say so, wait for a line on stdin
child.py unclosed KIND DIRECTORY         store sessions in two runs with one store, close nothing, come to the end
child.py forked KIND DIRECTORY SESSION   hold the session, fork a child that lives on, name it
child.py full KIND DIRECTORY             write sessions until no file may grow, then go on when files may grow again
child.py inside DATABASE                 begin a writing transaction, say so, end it at a line on stdin
child.py fork                            for each line of JSON on stdin, fork an agent, answer how it ended
"""

import json
import os
import resource
import signal
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import apsw
import trio

from treadle import Agent, Answer, Call, Host, ScriptedModel, Session, ToolRun, tool
from treadle.errors import StoreFailure
from treadle.session import SessionStore, encode_event
from treadle_adapters.stores import open_store
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_specs.kits.store_bench import extend, refused, sample, stored_as
from treadle_specs.rig.scripts import OPTIONS


def store_of(kind: str, directory: str | Path) -> SessionStore:
    """A store of a kind; ``jsonl.zst`` compresses."""
    return JsonlStore(directory, compress=True) if kind == "jsonl.zst" else open_store(kind, directory)


# --- holding a session ------------------------------------------------------------------------------------------------


async def hold(kind: str, directory: str, session_id: str) -> None:
    async with store_of(kind, directory) as store:
        opened = await store.open_write(session_id)
        session = Session(opened.stored.header, opened.stored.events)
        print("ready", flush=True)
        while line := await trio.to_thread.run_sync(sys.stdin.readline):
            if line.strip() == "append":
                try:
                    await opened.writer.append(extend(session))
                    print("appended", flush=True)
                except Exception as error:
                    print(type(error).__name__, flush=True)
            else:
                await opened.writer.close()
                print("closed", flush=True)


# --- what may befall a process ----------------------------------------------------------------------------------------


def unclosed(kind: str, directory: str) -> None:
    store = store_of(kind, directory)
    kept: list[Any] = []

    async def begin(name: str) -> None:
        kept.append(await stored_as(store, sample(name)))

    trio.run(begin, "s")
    trio.run(begin, "t")
    print("the end", flush=True)


async def forked(kind: str, directory: str, session_id: str) -> None:
    opened = await store_of(kind, directory).open_write(session_id)
    if not os.fork():
        print(os.getpid(), flush=True)  # the child's own sign: it runs, and has closed what it must not hold
        signal.pause()
    await trio.to_thread.run_sync(sys.stdin.readline)
    await opened.writer.close()


async def full(kind: str, directory: str) -> None:
    """Every write that was acknowledged is there although files could not grow any more in between."""
    session = sample("s")
    async with store_of(kind, directory) as store:
        writer = await stored_as(store, session)
        largest = max(path.stat().st_size for path in Path(directory).rglob("*") if path.is_file())  # noqa: ASYNC240
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 20_000, unlimited[1]))
        acknowledged = len(session)
        try:
            while True:
                await writer.append(extend(session, 10))
                acknowledged = len(session)
        except StoreFailure:
            await refused(StoreFailure, writer.flush)
        assert len((await store.open_read("s")).events) == acknowledged
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        await writer.close()
        assert list((await store.open_read("s")).events) == list(session.events)
    print(acknowledged, flush=True)


def inside(database: str) -> None:
    db = apsw.Connection(database)
    db.execute("BEGIN IMMEDIATE")
    print("inside", flush=True)
    sys.stdin.readline()
    db.execute("COMMIT")
    print("outside", flush=True)


# --- agents that are killed -------------------------------------------------------------------------------------------


class Killer:
    """Kills this process a while after a sign of it; what others do on the machine does not count.

    The signs are "begun", "acknowledged" and "counted"; the while is processor time, and none means at once.
    """

    def __init__(self, sign: str, number: int, work: float) -> None:
        self._awaited, self._left, self._work = sign, number, work
        self._seen = threading.Event()
        threading.Thread(target=self._wait, daemon=True).start()

    def see(self, sign: str) -> None:
        """Something was done of which the file outside knows already."""
        if sign == self._awaited:
            self._left -= 1
            if not self._left:
                if not self._work:
                    os.kill(os.getpid(), signal.SIGKILL)
                self._seen.set()

    def _wait(self) -> None:
        self._seen.wait()
        begun, tick = time.process_time(), threading.Event()
        while time.process_time() - begun < self._work:
            tick.wait(0.0005)
        os.kill(os.getpid(), signal.SIGKILL)


def counting(path: Path, killer: Killer) -> Any:
    """A tool that leaves a line in a file for each call that ran."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @tool
    def count(run: ToolRun) -> str:
        """Count."""
        os.write(descriptor, run.call.call_id.encode() + b"\n")
        killer.see("counted")
        return "counted"

    return count


def answer(request: Any) -> Answer:
    """Two answers of three ask for tools, whatever a kill left in the history: a turn adds three messages at least."""
    number = len(request.messages)
    if number // 3 % 3:
        return Answer(
            f"answer {number} \u6c49", calls=[Call("count", {}, f"{request.attempt_id}-{n}") for n in range(2)]
        )
    return Answer(f"answer {number} of some words")


async def work(task: dict[str, Any]) -> None:
    directory = Path(task["directory"])
    killer = Killer(*task["kill"])
    killer.see("begun")
    acknowledged = os.open(directory / "acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    async with store_of(task["kind"], directory) as store, Host(store=store) as host:
        host.models.register("scripted", ScriptedModel(default=answer))
        host.tools.register(counting(directory / "counted", killer))
        names = [one.header.id for one in (await store.list()).sessions]
        make = host.agents.resume if task["session"] in names else host.agents.create
        handle = await make(session_id=task["session"], agent_options=OPTIONS)
        while True:
            acknowledge(handle.agent, acknowledged)
            killer.see("acknowledged")
            handle.agent.followup("go on")
            handle.agent.inject("by the way")
            await handle.agent.when_idle()


def acknowledge(agent: Agent, descriptor: int) -> None:
    """Everything up to here was said to be durable: keep how much that is, and a sum of it."""
    events = agent.session.events
    total = 0
    for entry in events:
        total = zlib.crc32(encode_event(entry), total)
    os.write(descriptor, f"{len(events)} {total}\n".encode())


def fork_agents() -> None:
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            try:
                trio.run(work, task)
            except BaseException as error:
                sys.stderr.write(f"{error!r}\n")
            os._exit(3)
        _, status = os.waitpid(pid, 0)
        print(status, flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["hold", kind, directory, session_id]:
            trio.run(hold, kind, directory, session_id)
        case ["unclosed", kind, directory]:
            unclosed(kind, directory)
        case ["forked", kind, directory, session_id]:
            trio.run(forked, kind, directory, session_id)
        case ["full", kind, directory]:
            trio.run(full, kind, directory)
        case ["inside", database]:
            inside(database)
        case _:
            fork_agents()
