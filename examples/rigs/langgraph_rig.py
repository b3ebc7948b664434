"""langchain's ``create_agent`` on langgraph behind the rig protocol: a thread with a checkpointer, stopped by cancelling
the task that awaits ``ainvoke``."""

# /// script
# dependencies = ["langchain==1.5.2", "langgraph==1.2.24"]
# ///

import importlib.metadata

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from typing_extensions import Annotated

from treadle_specs.rigkit import FrameworkRig, ToolError, assistant, main, result, user


def told(messages):
    """The messages of a request, as the protocol has them."""
    for message in messages:
        if message.type == "human":
            yield user(message.content)
        elif message.type == "ai":
            yield assistant(message.content, [call["id"] for call in message.tool_calls])
        elif message.type == "tool":
            yield result(message.tool_call_id, str(message.content))


class Gated(BaseChatModel):
    """A model whose answers come from the tester."""

    rig: object

    @property
    def _llm_type(self):
        return "gated"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, *_, **__):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **_):
        text, calls = await self.rig.answer(told(messages))
        asked = [{"name": call["name"], "args": {}, "id": call["id"]} for call in calls]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, tool_calls=asked))])


class LangGraph(FrameworkRig):
    name, version = "langgraph", importlib.metadata.version("langgraph")
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}

    def open(self, tools):
        made = [StructuredTool.from_function(coroutine=self.body(tool["name"]), name=tool["name"], description="-",
                                             handle_tool_error=True) for tool in tools]  # fmt: skip
        self.agent = create_agent(Gated(rig=self), made, checkpointer=InMemorySaver())

    def body(self, name):
        async def run(call: Annotated[str, InjectedToolCallId]) -> str:
            try:
                return await self.tool(call, name)
            except ToolError as error:
                raise ToolException(str(error)) from error

        return run

    async def turn(self, text):
        await self.agent.ainvoke({"messages": [("user", text)]}, self.thread)

    def cancel(self):
        self.task.cancel()


main(LangGraph)
