"""One agent per session behind FastAPI: answers are streamed as server-sent events, through the asyncio bridge.

uvicorn examples.fastapi_sse:app
curl -N -X POST --json '{"text": "Hello"}' http://127.0.0.1:8000/sessions/one/messages
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from treadle import AgentOptions, DuplicateSession, Host, MisuseError, ScriptedModel
from treadle.asyncio import Bridge, BridgedAgent
from treadle.hooks import FrameChunk, FrameEnd
from treadle.models import TextDelta

OPTIONS = AgentOptions(provider="scripted", model="small")


class Say(BaseModel):
    """What a client sends."""

    text: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The host lives as long as the application; its thread is the bridge's."""
    host = Host()
    host.models.register("scripted", ScriptedModel(default=lambda request: f"You said: {request.messages[-1].text}"))
    async with Bridge(host) as app.state.bridge:
        yield


app = FastAPI(lifespan=lifespan)


async def agent_of(session: str) -> BridgedAgent:
    """The agent of a session, made at first use."""
    bridge: Bridge = app.state.bridge
    found = bridge.agents.get(session)
    if found is not None:
        return found
    try:
        return (await bridge.agents.create(session_id=session, agent_options=OPTIONS)).agent
    except DuplicateSession:  # two first requests at once: the other one made it
        return await agent_of(session)
    except MisuseError as error:
        raise HTTPException(422, str(error)) from error


@app.post("/sessions/{session}/messages")
async def say(session: str, said: Say) -> StreamingResponse:
    """Send a message; the answer is streamed. A client that goes away leaves the turn alone."""
    agent = await agent_of(session)

    async def events() -> AsyncIterator[str]:
        async with agent.stream(said.text) as frames:
            async for frame in frames:
                if isinstance(frame, FrameChunk) and isinstance(frame.chunk, TextDelta):
                    yield f"event: text\ndata: {json.dumps(frame.chunk.text)}\n\n"
                elif isinstance(frame, FrameEnd):
                    yield f"event: end\ndata: {json.dumps(frame.committed)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@app.post("/sessions/{session}/cancel")
async def cancel(session: str) -> dict[str, str]:
    """Stop what the agent is doing."""
    agent = await agent_of(session)
    await agent.cancel("user")
    await agent.when_idle()
    return {"status": agent.status}
