"""langgraph with langchain's `create_agent`: `ainvoke` on a thread of an `InMemorySaver`, `astream` of messages for pieces."""

import asyncio
import importlib.metadata

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from serving import expect, serve


class Scripted(BaseChatModel):
    """A model whose answers are given."""

    answers: object
    pieces: int = 0

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, *_, **__):
        raise NotImplementedError

    async def _agenerate(self, *_, **__):
        return ChatResult(generations=[ChatGeneration(message=next(self.answers))])

    async def _astream(self, *_, **__):
        if not self.pieces:
            message = next(self.answers)
            yield ChatGenerationChunk(message=AIMessageChunk(message.content, tool_calls=message.tool_calls))
        for _ in range(self.pieces):
            yield ChatGenerationChunk(message=AIMessageChunk("word "))


async def work() -> str:
    """Works."""
    return "worked"


def scripted(answers, pieces=0):
    """An agent whose model gives these answers, and the thread of a conversation."""
    tool = StructuredTool.from_function(coroutine=work, name="work", description="Works.")
    agent = create_agent(Scripted(answers=iter(answers), pieces=pieces), [tool], checkpointer=InMemorySaver())
    return agent, {"configurable": {"thread_id": "1"}, "recursion_limit": 1_000_000}


async def turns(count, clock):
    """Turns of one answer each."""
    agent, thread = scripted([AIMessage("Done.") for _ in range(count)])
    with clock.running():
        for _ in range(count):
            result = await agent.ainvoke({"messages": [("user", "go")]}, thread)
    expect((result["messages"][-1].content, len(result["messages"])), ("Done.", 2 * count))


async def steps(count, clock):
    """One turn of calls."""
    calls = [
        AIMessage("", tool_calls=[{"name": "work", "args": {}, "id": f"call-{number}"}]) for number in range(count)
    ]
    agent, thread = scripted([*calls, AIMessage("Done.")])
    with clock.running():
        result = await agent.ainvoke({"messages": [("user", "go")]}, thread)
    expect((result["messages"][-1].content, len(result["messages"])), ("Done.", 2 * count + 2))


async def chunks(count, clock):
    """One answer of many pieces."""
    (agent, thread), heard = scripted([], count), 0
    with clock.running():
        async for message, _ in agent.astream({"messages": [("user", "go")]}, thread, stream_mode="messages"):
            heard += message.content == "word "
    expect(heard, count)


serve(lambda job, *given: asyncio.run(job(*given)), importlib.metadata.version("langgraph"),
      turns=turns, steps=steps, chunks=chunks)  # fmt: skip
