"""The bridge inside a web application, over real connections of a server on this machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.asyncio.test_bridge import ends, hold
from tests.hosts import OPTIONS
from tests.invariants import check_invariants
from treadle import Host, ScriptedModel
from treadle.asyncio import Bridge, BridgedAgent
from treadle.hooks import FrameChunk
from treadle.models import TextDelta


def application(bridge: Bridge) -> Starlette:
    async def agent_of(request: Request) -> BridgedAgent:
        name = request.path_params["id"]
        return bridge.agents.get(name) or (await bridge.agents.create(session_id=name, agent_options=OPTIONS)).agent

    async def say(request: Request) -> Response:
        agent = await agent_of(request)
        text = (await request.body()).decode()

        async def words() -> AsyncIterator[str]:
            async with agent.stream(text) as frames:
                async for frame in frames:
                    if isinstance(frame, FrameChunk) and isinstance(frame.chunk, TextDelta):
                        yield frame.chunk.text

        return StreamingResponse(words(), media_type="text/plain")

    async def cancel(request: Request) -> Response:
        agent = await agent_of(request)
        await agent.cancel()
        await agent.when_idle()
        return JSONResponse({"status": agent.status})

    return Starlette(routes=[Route("/{id}", say, methods=["POST"]), Route("/{id}/cancel", cancel, methods=["POST"])])


@asynccontextmanager
async def served(*script: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Bridge]]:
    """A server on a port of this machine, in this loop, and a client of it."""
    host = Host()
    host.models.register("scripted", ScriptedModel(script))
    async with Bridge(host) as bridge:
        server = uvicorn.Server(uvicorn.Config(application(bridge), port=0, log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  # the server has no event for it
            await asyncio.sleep(0.001)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10, trust_env=False) as web:
            yield web, bridge
        server.should_exit = True
        await serving


def run(body: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await body()

    asyncio.run(main())


@pytest.mark.rule("Q9")
def test_an_answer_reaches_the_client_while_the_model_still_speaks() -> None:
    held, script = hold()

    @run
    async def _() -> None:
        async with served(script) as (web, bridge), web.stream("POST", "/one", content="hi") as answer:
            parts = answer.aiter_text()
            assert await anext(parts) == "half "
            held.go.set()
            assert "".join([part async for part in parts]) == "whole"
            agent = bridge.agents.get("one")
            assert agent is not None
            await agent.when_idle()
            check_invariants(agent.session)


@pytest.mark.rule("C1", "C5")
def test_another_request_stops_the_turn_and_the_stream_ends() -> None:
    held, script = hold()

    @run
    async def _() -> None:
        async with served(script) as (web, bridge), web.stream("POST", "/one", content="hi") as answer:
            parts = answer.aiter_text()
            assert await anext(parts) == "half "
            await held.reached()
            assert (await web.post("/one/cancel")).json() == {"status": "idle"}
            assert [part async for part in parts] == []
            agent = bridge.agents.get("one")
            assert agent is not None
            assert ends(agent) == ["aborted user"]


@pytest.mark.rule("N2")
def test_a_client_that_goes_away_leaves_the_turn_alone() -> None:
    held, script = hold()

    @run
    async def _() -> None:
        async with served(script) as (web, bridge):
            async with web.stream("POST", "/one", content="hi") as answer:
                assert await anext(answer.aiter_text()) == "half "
            held.go.set()
            agent = bridge.agents.get("one")
            assert agent is not None
            await agent.when_idle()
            assert ends(agent) == ["completed"]


@pytest.mark.rule("O2", "I5")
def test_many_clients_at_once_each_get_their_own_answer() -> None:
    @run
    async def _() -> None:
        script = [lambda request: f"re {request.messages[-1].text}"] * 40
        async with served(*script) as (web, bridge):
            answers = await asyncio.gather(*[web.post(f"/s{number % 8}", content=f"m{number}") for number in range(8)])
            assert [answer.text for answer in answers] == [f"re m{number}" for number in range(8)]
            assert len(bridge.agents.list()) == 8
            more = await asyncio.gather(*[web.post(f"/s{number % 8}", content=f"n{number}") for number in range(32)])
            assert [answer.text for answer in more] == [f"re n{number}" for number in range(32)]
