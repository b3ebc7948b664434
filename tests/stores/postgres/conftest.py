"""Fixtures of the PostgreSQL store's tests."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.postgres import Server
from treadle.session import new_id
from treadle_adapters.stores.postgres import PostgresStore

Stores = Callable[..., PostgresStore]


@pytest.fixture
def schema() -> str:
    """A schema that no other test uses."""
    return f"t{new_id().replace('-', '')}"


@pytest.fixture
async def stores(postgres: Server, schema: str) -> AsyncIterator[Stores]:
    """Makes stores on one schema, closed when the test is over; ``port`` leads to them through a proxy."""
    made: list[PostgresStore] = []

    def make(port: int | None = None, **options: Any) -> PostgresStore:
        url = postgres.url.replace(str(postgres.port), str(port or postgres.port))
        made.append(PostgresStore(url, schema=schema, **options))
        return made[-1]

    yield make
    for store in made:
        await store.close()
