"""langchain's ``create_agent`` by its public API alone: two tools, of which one has finished when the task that awaits
``ainvoke`` is cancelled; then the next message on the same thread.

    .rigs/langgraph/bin/python examples/rigs/plain/plain_langgraph.py F9
"""

import asyncio
import sys

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

requests = []
slow_began = asyncio.Event()


class Model(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, *_, **__):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **_):
        requests.append(messages)
        calls = [{"name": "quick", "args": {}, "id": "c1"}, {"name": "slow", "args": {}, "id": "c2"}]
        answer = AIMessage("", tool_calls=calls) if len(requests) == 1 else AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=answer)])


@tool
async def quick() -> str:
    """-"""
    return "result of quick"


@tool
async def slow() -> str:
    """-"""
    slow_began.set()
    await asyncio.sleep(99)


async def main(rule):
    agent = create_agent(Model(), [quick, slow], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    task = asyncio.create_task(agent.ainvoke({"messages": [("user", "m1")]}, thread))
    await slow_began.wait()
    await asyncio.sleep(0.5)  # quick has long returned
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    await agent.ainvoke({"messages": [("user", "m2")]}, thread)
    told = [(one.type, one.content or [call["id"] for call in one.tool_calls]) for one in requests[-1]]
    print("next request:", told)
    return {"F7": "result of quick" not in str(told), "F9": told[-2:] == [("ai", ["c1", "c2"]), ("human", "m2")]}[rule]


sys.exit(0 if asyncio.run(main(sys.argv[1])) else 1)
