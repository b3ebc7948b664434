"""Replicas as actors of a real Ray: machines, processes and drivers die, and sessions go on.

Ray takes its time and its memory, so this is a job of its own: ``bash .ci/ray`` sets ``TREADLE_RAY``.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.postgres import Server
from treadle import MisuseError, StoreFailure
from treadle.session import new_id
from treadle_adapters.cluster.ray import Cluster, Standing

from .agents import spec

ROOT = Path(__file__).parent.parent.parent.parent
FOLDERS = [str(ROOT / folder) for folder in ("machine", "adapters", "specs", "diagrams", ".")]
LEASE = 4.0
GOES_ON = 15.0
"""Seconds in which a session goes on, whatever died."""
ROOM = 15.0
"""Seconds beside, on a machine that has other things to do."""

pytestmark = pytest.mark.skipif("TREADLE_RAY" not in os.environ, reason="a job of its own: bash .ci/ray")


class Nodes:
    """A Ray of several nodes on 127.0.0.1; the first one is the head, and has no room for replicas."""

    def __init__(self) -> None:
        self.several: Any = import_module("ray.cluster_utils").Cluster()
        self.several.add_node(num_cpus=0, **LITTLE)
        self.address: str = self.several.address

    def add(self) -> Any:
        return self.several.add_node(num_cpus=2, **LITTLE)


LITTLE: dict[str, Any] = {
    "include_dashboard": False,
    "node_ip_address": "127.0.0.1",
    "object_store_memory": 80 << 20,
}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    ray: Any = import_module("ray")
    made = Nodes()
    ray.init(address=made.address, _node_ip_address="127.0.0.1", log_to_driver=False)
    yield made
    ray.shutdown()
    made.several.shutdown()


@asynccontextmanager
async def entered(server: Server, schema: str, name: str) -> AsyncGenerator[Cluster]:
    async with Cluster(spec(server.url, schema, LEASE), name=name) as cluster:
        with trio.fail_after(240):
            yield cluster
            await cluster.resize(0, seconds=1.0)


async def goes_on(cluster: Cluster, session: str, since: float, what: str) -> None:
    """A session answers, within the time that is promised, which is told."""
    answer = await cluster.agent(session).ask("are you there?")
    took = time.monotonic() - since
    print(f"\n{what}: the session went on after {took:.1f} s")
    assert answer.text.startswith("answer")
    assert took < GOES_ON + ROOM


def home_of(standing: Any, session: str) -> Standing:
    (found,) = [each for each in standing.values() if session in each.sessions]
    return found


async def test_what_dies_is_gone_on_with(nodes: Nodes, postgres: Server, schema: str) -> None:
    """A process, and then a whole machine with what runs on it."""
    for _ in range(2):
        nodes.add()
    async with entered(postgres, schema, new_id()[-8:]) as cluster:
        await cluster.resize(2)
        for number in range(6):
            agent = await cluster.create(f"s{number}")
            assert (await agent.ask("hello")).text.startswith("answer")
        before = await cluster.standing()
        assert {len(each.sessions) for each in before.values()} == {3}, "they were not shared out"
        assert len({each.node for each in before.values()}) == 2, "two replicas are on one node"

        killed = home_of(before, "s0")
        since = time.monotonic()
        os.kill(killed.process, signal.SIGKILL)
        await goes_on(cluster, "s0", since, "a process was killed")
        await cluster.resize(2)
        after = await cluster.standing()
        assert killed.process not in {each.process for each in after.values()}
        assert len(after) == 2

        dying = home_of(after, "s1")
        (doomed,) = [each for each in nodes.several.worker_nodes if each.node_id == dying.node]
        since = time.monotonic()
        os.kill(dying.process, signal.SIGKILL)  # with its machine; what Ray alone takes for dead may live on
        await trio.to_thread.run_sync(lambda: nodes.several.remove_node(doomed, allow_graceful=False))
        await goes_on(cluster, "s1", since, "a node was killed")
        for number in range(6):
            assert (await cluster.agent(f"s{number}").ask("and you?")).text.startswith("answer")
        await cluster.resize(2)
        last = await cluster.standing()
        assert len(last) == 2
        assert {each.node for each in last.values()} == {each.node_id for each in nodes.several.worker_nodes}


DRIVER = """
import sys, ray, trio
sys.path[:0] = {folders!r}
from tests.cluster.ray.agents import spec
from treadle_adapters.cluster.ray import Cluster
ray.init(address={address!r}, _node_ip_address="127.0.0.1", log_to_driver=False)

async def main():
    async with Cluster(spec({url!r}, {schema!r}, {lease!r}), name={name!r}) as cluster:
        await cluster.resize(1)
        await (await cluster.create("d")).ask("hello")
        print("stands", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_driver_that_is_killed_is_followed_by_another_that_finds_its_replicas(
    nodes: Nodes, postgres: Server, schema: str
) -> None:
    nodes.add()
    name = new_id()[-8:]
    text = DRIVER.format(
        folders=FOLDERS, address=nodes.address, url=postgres.url, schema=schema, lease=LEASE, name=name
    )
    driver = await trio.to_thread.run_sync(
        lambda: subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    )
    assert driver.stdout is not None
    assert await trio.to_thread.run_sync(driver.stdout.readline) == b"stands\n"
    driver.kill()
    driver.wait()
    driver.stdout.close()
    since = time.monotonic()
    async with entered(postgres, schema, name) as cluster:
        await goes_on(cluster, "d", since, "a driver was killed")
        before = await cluster.standing()
        await cluster.resize(1)
        assert await cluster.standing() == before, "its replica was not found again"


async def test_sessions_move_from_a_draining_node_and_when_there_are_more_or_fewer_replicas(
    nodes: Nodes, postgres: Server, schema: str
) -> None:
    while len(nodes.several.worker_nodes) < 2:
        nodes.add()
    async with entered(postgres, schema, new_id()[-8:]) as cluster:
        await cluster.resize(1)
        for number in range(4):
            await cluster.create(f"s{number}")
        await cluster.resize(2)
        assert await cluster.even_out() == 2
        spread = await cluster.standing()
        assert sorted(len(each.sessions) for each in spread.values()) == [2, 2]
        assert len({each.node for each in spread.values()}) == 2

        (there,) = [name for name, each in spread.items() if each is not home_of(spread, "s0")]
        assert await cluster.move("s0", there)
        assert "s0" in (await cluster.standing())[there].sessions
        assert not await cluster.move("s0", "nobody")

        node = home_of(await cluster.standing(), "s1").node
        await cluster.drain(node, seconds=5.0)
        drained = await cluster.standing()
        assert len(drained) == 2
        assert node not in {each.node for each in drained.values()}
        await cluster.place([f"s{number}" for number in range(4)])
        owned = sorted(session for each in (await cluster.standing()).values() for session in each.sessions)
        assert owned == ["s0", "s1", "s2", "s3"]

        await cluster.resize(1, seconds=5.0)
        (last,) = (await cluster.standing()).values()
        assert sorted(last.sessions) == ["s0", "s1", "s2", "s3"]
        assert (await cluster.agent("s3").ask("hello")).text.startswith("answer")
        with pytest.raises(MisuseError, match="-1"):
            await cluster.resize(-1)


async def test_where_no_replica_stands_that_is_said(
    nodes: Nodes, postgres: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle_adapters.cluster.ray.cluster.PATIENCE", 0.5)
    async with entered(postgres, schema, new_id()[-8:]) as cluster:
        assert await cluster.standing() == {}
        with pytest.raises(StoreFailure, match=r"resize\(\) starts some"):
            await cluster.create()
