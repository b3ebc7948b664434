"""Fixtures of the replicas' tests: a schema of the test's own, and replicas on clocks that the test moves."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
from attrs import define

from tests.postgres import Server
from treadle.session import new_id
from treadle_adapters.cluster import Replica
from treadle_adapters.cluster.lease import now


@define
class Clock:
    """A replica's own clock, which a test moves forward: as if it had slept, or time had passed."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return now() + self.ahead


Made = tuple[Replica, Clock]
Make = Callable[..., Made]


@pytest.fixture
def schema() -> str:
    """A schema that no other test uses."""
    return f"c{new_id().replace('-', '')}"


@pytest.fixture
def make(postgres: Server, schema: str) -> Make:
    """Makes replicas that neither beat nor look unless the test has them do so: their leases are long."""

    def one(port: int | None = None, **options: Any) -> Made:
        url = postgres.url.replace(str(postgres.port), str(port or postgres.port))
        clock = Clock()
        replica = Replica(url, schema=schema, lease=LEASE, **options)
        replica.lease.clock = clock
        return replica, clock

    return one


async def eventually(holds: Callable[[], bool], within: float = 30.0) -> bool:
    """Wait until something holds; whether it did within the time."""
    with trio.move_on_after(within):
        while True:
            if holds():
                return True
            await trio.sleep(0.005)
    return False


LEASE = 1_000.0
"""Seconds; no test lasts as long as a beat of it."""
