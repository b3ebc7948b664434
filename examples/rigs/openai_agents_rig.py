"""openai-agents behind the rig protocol: streamed runs on a ``SQLiteSession``, stopped by ``result.cancel()``."""

# /// script
# dependencies = ["openai-agents==0.24.0"]
# ///

import os

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

import agents
from agents import Agent, FunctionTool, Runner, SQLiteSession
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.testing.model import _stream_events_for_step
from openai.types.responses import ResponseTextDeltaEvent

from treadle_specs.rigkit import FrameworkRig, ToolError, assistant, main, result, user


def told(items):
    """The messages of a request, as the protocol has them."""
    messages = []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        kind, content = item.get("type", "message"), item.get("content")
        if kind == "function_call":
            if not (messages and messages[-1]["role"] == "assistant"):
                messages.append(assistant(""))
            messages[-1]["calls"].append(item["call_id"])
        elif kind == "function_call_output":
            messages.append(result(item["call_id"], str(item["output"])))
        elif item.get("role") == "user":
            messages.append(user(content if isinstance(content, str) else content[0]["text"]))
        elif item.get("role") == "assistant":
            messages.append(assistant("".join([part.get("text", "") for part in content])))
    return messages


class Gated(ScriptedModel):
    """A model whose answers come from the tester."""

    def __init__(self, rig):
        super().__init__([])
        self.rig = rig

    async def stream_response(self, system, items, *_, **__):
        text, calls, number = "", [], 0
        async for chunk in self.rig.model(told(items)):
            if "text" in chunk:
                text, number = text + chunk["text"], number + 1
                yield ResponseTextDeltaEvent(type="response.output_text.delta", delta=chunk["text"], content_index=0,
                                             item_id="m", output_index=0, logprobs=[], sequence_number=number)  # fmt: skip
            else:
                calls.append(chunk["call"])
        output = [assistant_message(text)] if text else []
        output += [function_call(call["name"], call["arguments"], call_id=call["id"]) for call in calls]
        for event in _stream_events_for_step(ModelStep(output=output), preserve_raw_usage=False):
            yield event


class OpenAIAgents(FrameworkRig):
    name, version = "openai-agents", agents.version.__version__
    running_result = None

    def open(self, tools):
        self.session = SQLiteSession("s1")
        schema = {"type": "object", "properties": {}, "additionalProperties": False, "required": []}
        made = [FunctionTool(name=tool["name"], description="", params_json_schema=schema,
                             on_invoke_tool=self.body(tool["name"])) for tool in tools]  # fmt: skip
        self.agent = Agent(name="a", model=Gated(self), tools=made)

    def body(self, name):
        async def invoke(context, arguments):
            try:
                return await self.tool(context.tool_call_id, name, arguments)
            except ToolError as error:  # as the framework does for functions of its users
                return f"An error occurred while running the tool. Please try again. Error: {error}"

        return invoke

    async def turn(self, text):
        run = self.running_result = Runner.run_streamed(self.agent, text, session=self.session)
        try:
            async for _ in run.stream_events():
                pass
            if run.run_loop_task:
                await run.run_loop_task
        finally:
            self.running_result = None

    def cancel(self):
        self.running_result.cancel() if self.running_result else self.task.cancel()


main(OpenAIAgents)
