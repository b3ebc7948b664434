"""google-adk by its public API alone: two tools, of which one has finished when the run's ``abort_signal`` is set.

.rigs/google_adk/bin/python examples/rigs/plain/plain_google_adk.py F7
"""

import asyncio
import logging
import sys

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

logging.disable(logging.CRITICAL)
requests = []
slow_began = asyncio.Event()


class Model(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        requests.append(list(llm_request.contents))
        calls = [types.Part(function_call=types.FunctionCall(id=f"c{number}", name=name, args={}))
                 for number, name in enumerate(("quick", "slow"), 1)]  # fmt: skip
        parts = calls if len(requests) == 1 else [types.Part(text="done")]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


async def quick() -> str:
    """-"""
    return "result of quick"


async def slow() -> str:
    """-"""
    slow_began.set()
    await asyncio.sleep(99)


async def main(rule):
    runner = InMemoryRunner(LlmAgent(name="a", model=Model(model="m"), tools=[quick, slow]), app_name="x")
    session = await runner.session_service.create_session(app_name="x", user_id="u")
    signal = asyncio.Event()

    async def say(text, **more):
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message, **more):
            pass

    task = asyncio.create_task(say("m1", abort_signal=signal))
    await slow_began.wait()
    await asyncio.sleep(0.3)  # quick has long returned
    signal.set()
    await task
    await say("m2")
    told = [(part.function_response.id, part.function_response.response)
            for content in requests[-1] for part in content.parts if part.function_response]  # fmt: skip
    print("results in the next request:", told)
    return {"F7": "result of quick" not in str(told)}[rule]


sys.exit(0 if asyncio.run(main(sys.argv[1])) else 1)
