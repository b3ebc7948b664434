"""Replicas as processes, killed, stopped, cut off and left without a server, by a seed; then every history is checked.

``TREADLE_CHAOS_SECONDS`` makes it long, ``TREADLE_CHAOS_SEED`` another one.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from attrs import define, evolve, field

from tests.postgres import Server, programs
from tests.proxy import Proxy
from treadle import AgentOptions, Event, Host, ScriptedModel, message
from treadle.session import encode_event, encode_header
from treadle_adapters.stores.postgres import PostgresStore
from treadle_specs.kits.store_bench import sample

from .conftest import eventually
from .histories import Acknowledged, Kept, Letter, faults_in, letter_faults, letters_in, logs_in

SECONDS = float(os.environ.get("TREADLE_CHAOS_SECONDS", "15"))
SEED = int(os.environ.get("TREADLE_CHAOS_SEED", "1"))
ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("machine", "adapters", "specs", "diagrams", ".")
REPLICAS, SESSIONS = (4, 200) if SECONDS > 60 else (3, 24)
LEASE = 3.0
SCHEMA = "chaos"
OPTIONS = AgentOptions(provider="scripted", model="m")


# --- the checker is checked -------------------------------------------------------------------------------------------


async def healthy() -> tuple[Kept, list[Acknowledged], list[Event]]:
    """A log of two turns, by one replica each, what was acknowledged of it, and its events."""
    async with Host(checks=True) as host:
        host.models.register("scripted", ScriptedModel())
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        for text in ("r1/1", "r2/2"):
            agent.followup(message(text, id=text.partition("/")[0]))
            await agent.when_idle()
        events = list(agent.session.events)
        header = encode_header(agent.session.header).decode()
    half = next(entry.seq for entry in events if entry.type == "turn/end") + 1
    rows = tuple((entry.seq, 1 if entry.seq < half else 2, encode_event(entry).decode()) for entry in events)
    return Kept("s", header, len(rows), rows), [Acknowledged("s", "r1/1"), Acknowledged("s", "r2/2")], events


def at(kept: Kept, what: str, turn: int = 1) -> int:
    """Where an event of a type is, the first or the second of them."""
    return [seq for seq, _, record in kept.rows if record.startswith(f'{{"type":"{what}"')][turn - 1]


def without(kept: Kept, seq: int) -> Kept:
    return evolve(kept, rows=kept.rows[:seq] + kept.rows[seq + 1 :])


def cut(kept: Kept, count: int) -> Kept:
    return evolve(kept, rows=kept.rows[:count], next_seq=count)


def under(kept: Kept, epochs: Callable[[int], int]) -> Kept:
    return evolve(kept, rows=tuple((seq, epochs(seq), record) for seq, _, record in kept.rows))


def doubled(kept: Kept) -> Kept:
    """The message of the first turn is recorded in the second as well."""
    message, again = at(kept, "user/message"), at(kept, "user/message", 2)
    record = kept.rows[message][2].replace(f'"seq":{message},', f'"seq":{again},')
    return evolve(kept, rows=(*kept.rows[:again], (again, 2, record), *kept.rows[again + 1 :]))


def renamed(kept: Kept) -> Kept:
    """The end of a turn is the end of another."""
    end = at(kept, "turn/end")
    seq, epoch, record = kept.rows[end]
    return evolve(
        kept, rows=(*kept.rows[:end], (seq, epoch, record.replace('"turn":1', '"turn":7')), *kept.rows[end + 1 :])
    )


FAULTS: dict[str, tuple[Callable[[Kept], Kept], str]] = {
    "an event is missing": (lambda kept: without(kept, 4), "a gap"),
    "the count is wrong": (lambda kept: evolve(kept, next_seq=99), "a gap"),
    "the end is lost": (lambda kept: cut(kept, at(kept, "turn/start", 2)), "acknowledged and is there 0 times"),
    "an old owner wrote late": (
        lambda kept: under(kept, lambda seq: 1 if seq in (0, kept.next_seq - 1) else 2),
        "goes back",
    ),
    "two owners at once": (lambda kept: under(kept, lambda _: 1), "two owners"),
    "a message is there twice": (doubled, "is there 2 times"),
    "a turn does not end": (renamed, "s: N3"),
}


@pytest.mark.rule("P1", "P2", "N6")
@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_of_a_history_is_found(fault: str) -> None:
    kept, acknowledged, events = await healthy()
    assert faults_in([kept], acknowledged, {"s": events}) == []
    change, said = FAULTS[fault]
    found = faults_in([change(kept)], acknowledged, {})
    assert any(said in each for each in found), found


@pytest.mark.rule("P3")
async def test_a_follower_that_saw_something_else_is_found() -> None:
    kept, acknowledged, events = await healthy()
    assert faults_in([kept], acknowledged, {"s": events[:3]}) == []
    assert "a follower saw something else" in faults_in([kept], acknowledged, {"s": [events[0], *events[2:]]})[0]


LETTERS: dict[str, tuple[list[Letter], str]] = {
    "a letter is gone": ([], "was accepted, and is gone"),
    "a letter is taken and nowhere": ([Letter("s", "other", 3)], "says that it is recorded at 3, and is at []"),
    "a letter waits and is recorded": ([Letter("s", "r1", None)], "recorded at None, and is at [0]"),
    "a letter is recorded elsewhere": ([Letter("s", "r1", 1)], "recorded at 1, and is at [0]"),
}


@pytest.mark.rule("A1", "A2")
@pytest.mark.parametrize("fault", LETTERS)
async def test_each_fault_of_a_mailbox_is_found(fault: str) -> None:
    kept, _, _ = await healthy()
    assert letter_faults([kept], [Letter("s", "r1", 0), Letter("s", "later", None)], [("s", "r1")]) == []
    letters, said = LETTERS[fault]
    found = letter_faults([kept], letters, [("s", "r1")])
    assert any(said in each for each in found), found


# --- chaos ------------------------------------------------------------------------------------------------------------


@define(eq=False)
class Cluster:
    """Replica processes behind a proxy, and what befalls them."""

    server: Server
    proxy: Proxy
    folder: Path
    chance: random.Random
    share: float = 0.002
    running: dict[int, "subprocess.Popen[bytes]"] = field(factory=dict)
    stopped: dict[int, float] = field(factory=dict)
    told: list[str] = field(factory=list)

    def start(self, number: int) -> None:
        through = self.server.url.replace(str(self.server.port), str(self.proxy.port))
        words = (through, self.server.url, SCHEMA, LEASE, self.folder / f"notes{number}")
        seed = self.chance.randrange(1 << 30)
        program = str(Path(__file__).with_name("chaos_replica.py"))
        with (self.folder / f"errors{number}").open("ab") as errors:
            self.running[number] = subprocess.Popen(
                [sys.executable, program, *map(str, words), str(seed), str(self.share), str(SESSIONS)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in FOLDERS)},
                stdin=subprocess.DEVNULL,
                stderr=errors,
            )

    def keep(self) -> None:
        """Start again what has ended, and let go on what was stopped for long enough."""
        for number, until in list(self.stopped.items()):
            if time.monotonic() >= until:
                del self.stopped[number]
                self.running[number].send_signal(signal.SIGCONT)
        for number, process in list(self.running.items()):
            if process.poll() is not None:
                self.start(number)

    def harm(self) -> None:
        """One fault, by chance."""
        what = self.chance.choice(("kill", "kill", "stop", "cut", "cut", "restart", "immediate", "away"))
        number = self.chance.choice(list(self.running))
        self.told.append(what)
        if what == "kill":
            self.running[number].kill()
            self.running[number].wait()
        elif what == "stop" and number not in self.stopped:
            self.running[number].send_signal(signal.SIGSTOP)
            self.stopped[number] = time.monotonic() + LEASE * self.chance.uniform(1.2, 2.5)
        elif what == "cut":
            self.proxy.cut()
        elif what in ("restart", "immediate", "away"):
            self.server.stop("immediate" if what == "immediate" else "fast")
            if what == "away":
                time.sleep(LEASE * 1.3)  # every replica loses its lease
            self.server.start()

    def notes(self, kind: str) -> list[tuple[float, str, str]]:
        """What replicas were told: when, of which session, and which message or letter."""
        lines = [line.split() for path in self.folder.glob("notes?") for line in path.read_text().splitlines()]
        return [(float(at), session, what) for at, of, session, what in lines if of == kind]

    def acknowledged(self) -> list[tuple[float, Acknowledged]]:
        return [(at, Acknowledged(session, text)) for at, session, text in self.notes("admitted")]

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


async def follow(store: PostgresStore, session: str, seen: list[Event]) -> None:
    """See a session from outside, through all of it."""
    async with store.follow(session) as coming:
        async for events in coming:
            seen += events


@pytest.mark.slow
@pytest.mark.rule("P1", "P2", "P3", "P4", "N6", "A1", "A2", "A3", "A4", "A5")
@pytest.mark.timeout(SECONDS + 600)
async def test_nothing_is_lost_doubled_or_stuck_whatever_befalls_replicas(tmp_path: Path) -> None:
    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL server here (Debian package: postgresql)")
    server = await trio.to_thread.run_sync(Server.make, found)
    names = [f"s{number:03}" for number in range(SESSIONS)]
    followed: dict[str, list[Event]] = {name: [] for name in names[:4]}
    with Proxy(server.port) as proxy:
        cluster = Cluster(server, proxy, tmp_path, random.Random(SEED))
        try:
            async with PostgresStore(server.url, schema=SCHEMA, patience=60) as store:
                for name in names:
                    await (await store.create(sample(name, 0).header)).close()
                async with trio.open_nursery() as nursery:
                    for name, seen in followed.items():
                        nursery.start_soon(follow, store, name, seen)
                    for number in range(REPLICAS):
                        cluster.start(number)
                    assert await eventually(lambda: len(cluster.acknowledged()) > SESSIONS, 120), _ends(tmp_path)
                    over = time.monotonic() + SECONDS
                    while time.monotonic() < over:
                        cluster.keep()
                        await trio.to_thread.run_sync(cluster.harm)
                        await trio.sleep(cluster.chance.uniform(0.3, 2.0))
                    last = time.monotonic()

                    def all_go_on() -> bool:
                        cluster.keep()
                        if {each.session for at, each in cluster.acknowledged() if at > last} != set(names):
                            return False
                        before = {(session, name) for at, session, name in cluster.notes("accepted") if at < last}
                        with server.connect(SCHEMA) as conn:
                            waiting = {(each.session, each.id) for each in letters_in(conn) if each.seq is None}
                        return not waiting & before

                    assert await eventually(all_go_on, 180), f"stuck after {cluster.told}: {_ends(tmp_path)}"
                    print(f"all sessions went on {time.monotonic() - last:.1f} s after the last of {cluster.told}")
                    cluster.end()
                    nursery.cancel_scope.cancel()
            with server.connect(SCHEMA) as conn:
                logs, letters = logs_in(conn), letters_in(conn)
            acknowledged = [each for _, each in cluster.acknowledged()]
            accepted = [(session, name) for _, session, name in cluster.notes("accepted")]
            print(f"{sum(kept.next_seq for kept in logs)} events, {len(acknowledged)} messages admitted")
            print(f"{len(accepted)} letters accepted, {sum(each.seq is not None for each in letters)} taken")
            assert letter_faults(logs, letters, accepted) == []
            assert len(accepted) > SESSIONS, "hardly anything was asked by letter"
            assert faults_in(logs, acknowledged, followed) == []
            assert all(followed.values())
            assert max(epoch for kept in logs for _, epoch, _ in kept.rows) > SESSIONS, "nothing was taken over"
        finally:
            cluster.end()
            server.remove()


def _ends(folder: Path) -> str:
    return "".join(path.read_text()[-2_000:] for path in sorted(folder.glob("*.ends")) + sorted(folder.glob("errors*")))
