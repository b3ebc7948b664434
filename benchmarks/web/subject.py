"""The agents that are served while it is measured."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import trio

from treadle import AgentOptions, Host, MemoryStore, ModelRequest, ScriptedModel
from treadle.asyncio import Bridge
from treadle.models import BlockEnd, BlockStart, Finish, Finished, TextDelta
from treadle_adapters.web import Limits, Web, app

OPTIONS = AgentOptions(provider="scripted", model="m")


def host_of(subject: str, pace: float, deltas: int) -> Host:
    """A host whose model says ``deltas`` words, one every ``pace`` seconds; ``stored`` ones have a store."""

    async def words(_: ModelRequest) -> AsyncIterator[Any]:
        yield BlockStart(0, "text")
        for _at in range(deltas):
            if pace:
                await trio.sleep(pace)
            yield TextDelta(0, "word ")
        yield BlockEnd(0)
        yield Finished(Finish("stop"))

    host = Host(store=MemoryStore() if subject == "stored" else None)
    host.models.register("scripted", ScriptedModel(default=words))
    return host


def web_of(host: Host | Bridge) -> Web:
    """The application, with room for all."""
    limits = Limits(
        gather=0, heartbeat=600.0, loaded=200 if isinstance(host, Host) and host.store is not None else 20_000,
        streams=19_000, streams_per_owner=19_000, requests=20_000, sessions_per_owner=100_000,
    )  # fmt: skip
    return app(host, agent_options=OPTIONS, limits=limits)
