"""pydantic-ai behind the rig protocol: ``Agent.iter``, ``run.cancel`` and ``run.enqueue``; the history is the caller's."""

# /// script
# dependencies = ["pydantic-ai-slim==2.68.0"]
# ///

import pydantic_ai
from pydantic_ai import Agent, RunCancelled, RunContext, ToolFailed
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from treadle_specs.rigkit import FrameworkRig, ToolError, Unsupported, assistant, main, result, user


def told(messages):
    """The messages of a request, as the protocol has them."""
    for message in messages:
        if isinstance(message, ModelResponse):
            calls = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
            text = "".join([part.content for part in message.parts if isinstance(part, TextPart)])
            if text or calls:  # adapters for providers leave an empty answer out too
                yield assistant(text, calls)
            continue
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                yield user(part.content)
            elif getattr(part, "tool_call_id", None):
                yield result(part.tool_call_id, str(part.content))


class PydanticAI(FrameworkRig):
    name, version = "pydantic-ai", pydantic_ai.__version__
    promised = ("streamed-text", "started-calls", "steer", "queue")
    run, kept = None, ()

    def open(self, tools):
        self.agent = Agent(FunctionModel(stream_function=self.stream))
        for tool in tools:
            self.agent.tool(self.body(tool["name"]), name=tool["name"], sequential=tool["mode"] == "exclusive")

    def body(self, name):
        async def named(ctx: RunContext) -> str:
            try:
                return await self.tool(ctx.tool_call_id, name)
            except ToolError as error:
                raise ToolFailed(str(error)) from error

        return named

    async def stream(self, messages, _):
        count = 0
        async for chunk in self.model(told(messages)):
            if "text" in chunk:
                yield chunk["text"]
            else:
                call, count = chunk["call"], count + 1
                yield {count: DeltaToolCall(call["name"], call["arguments"], tool_call_id=call["id"])}

    async def turn(self, text):
        try:
            async with self.agent.iter(text, message_history=self.kept) as self.run:
                async for node in self.run:
                    if Agent.is_model_request_node(node):
                        async with node.stream(self.run.ctx) as stream:
                            async for _ in stream:
                                pass
                self.kept = self.run.all_messages()
        except RunCancelled as stopped:
            self.kept = stopped.all_messages()
        finally:
            self.run = None

    def cancel(self):
        self.run.cancel() if self.run else self.task.cancel()

    def steer(self, text):
        self.enqueue(text, "asap")

    def queue(self, text):
        self.enqueue(text, "when_idle")

    def enqueue(self, text, priority):
        if self.run is None:
            raise Unsupported("there is no run to enqueue into yet")
        self.run.enqueue(text, priority=priority)


main(PydanticAI)
