"""Hosts on one database, and a program that owns no sessions: what is asked at one is done at another."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import trio

from tests.postgres import Server
from treadle import AgentOptions, Host, ScriptedModel
from treadle_adapters.cluster import Post, Replica
from treadle_adapters.stores.postgres import PostgresStore
from treadle_specs.kits.store_bench import sample

LEASE = 1_000.0
"""Seconds; no test lasts as long as a beat of it."""
OPTIONS = AgentOptions(provider="scripted", model="m")
Enter = Callable[..., AbstractAsyncContextManager[Host]]


@pytest.fixture
def enter(postgres: Server, schema: str) -> Enter:
    """Enters a host that is a replica; ``answers`` are its model's, ``port`` leads to the server through a proxy."""

    @asynccontextmanager
    async def one(
        answers: Any = ("one", "two", "three") * 50, *, port: int | None = None, pace: float = 0.0, **options: Any
    ) -> AsyncGenerator[Host]:
        url = postgres.url.replace(str(postgres.port), str(port or postgres.port))
        replica = Replica(url, schema=schema, lease=LEASE, agent_options=OPTIONS, patience=20)
        async with Host(replica=replica, checks=True, **options) as host:
            host.models.register("scripted", ScriptedModel(list(answers), pace=pace))
            with trio.fail_after(30):
                yield host

    return one


@pytest.fixture
async def store(postgres: Server, schema: str) -> AsyncGenerator[PostgresStore]:
    """A store of a program that owns no sessions, with one session ``s`` in it that nobody owns."""
    async with PostgresStore(postgres.url, schema=schema) as made:
        await (await made.create(sample("s", 0).header)).close()
        yield made


@pytest.fixture
async def post(store: PostgresStore) -> AsyncGenerator[Post]:
    """What that program reaches agents by."""
    async with Post(store) as made:
        yield made


def replica_of(host: Host) -> Replica:
    assert isinstance(host.replica, Replica)
    return host.replica


def texts(events: Any) -> list[str]:
    """The messages of the user in a log, in order."""
    return [entry.data.message.text for entry in events if entry.type == "user/message"]


async def log(store: PostgresStore) -> list[Any]:
    """The events of the session ``s``."""
    return list((await store.open_read("s")).events)
