"""google-adk behind the rig protocol: a ``Runner`` on an in-memory session, stopped by its ``abort_signal``."""

# /// script
# dependencies = ["google-adk==2.13.0"]
# ///

import asyncio
import importlib.metadata

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool, ToolContext
from google.genai import types

from treadle_specs.rigkit import FrameworkRig, ToolError, assistant, main, result, user


def told(contents):
    """The messages of a request, as the protocol has them."""
    for content in contents:
        texts = "".join([part.text for part in content.parts if part.text])
        calls = [part.function_call.id for part in content.parts if part.function_call]
        results = [part.function_response for part in content.parts if part.function_response]
        if content.role == "model":
            yield assistant(texts, calls)
        else:
            yield from [result(one.id, str(one.response)) for one in results]
            if texts:
                yield user(texts)


class Gated(BaseLlm):
    """A model whose answers come from the tester."""

    rig: object

    async def generate_content_async(self, llm_request, stream=False):
        text, calls = await self.rig.answer(told(llm_request.contents))
        parts = [types.Part(text=text)] if text else []
        parts += [types.Part(function_call=types.FunctionCall(id=call["id"], name=call["name"], args={}))
                  for call in calls]  # fmt: skip
        yield LlmResponse(content=types.Content(role="model", parts=parts))


class GoogleADK(FrameworkRig):
    name, version = "google-adk", importlib.metadata.version("google-adk")

    def open(self, tools):
        agent = LlmAgent(name="a", model=Gated(model="m", rig=self), tools=[self.body(tool["name"]) for tool in tools])
        self.runner = InMemoryRunner(agent, app_name="x")
        self.session = None

    def body(self, name):
        async def run(tool_context: ToolContext) -> dict:
            try:
                return {"result": await self.tool(tool_context.function_call_id, name)}
            except ToolError as error:
                return {"error": str(error)}

        run.__name__ = name
        run.__doc__ = "-"
        return FunctionTool(run)

    async def turn(self, text):
        if self.session is None:
            self.session = await self.runner.session_service.create_session(app_name="x", user_id="u")
        self.signal = asyncio.Event()
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for _ in self.runner.run_async(user_id="u", session_id=self.session.id, new_message=message,
                                             abort_signal=self.signal):  # fmt: skip
            pass

    def cancel(self):
        self.signal.set()


main(GoogleADK)
