"""openai-agents by its public API alone: two tools, of which one has finished when the streamed run is cancelled.

.rigs/openai_agents/bin/python examples/rigs/plain/plain_openai_agents.py F7
"""

import os

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

import asyncio
import sys

from agents import Agent, Runner, SQLiteSession, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call


async def drain(run):
    async for _ in run.stream_events():
        pass


async def main(rule):
    session, slow_began = SQLiteSession("s"), asyncio.Event()

    @function_tool
    async def quick() -> str:
        return "result of quick"

    @function_tool
    async def slow() -> str:
        slow_began.set()
        await asyncio.sleep(99)

    both = [function_call("quick", "{}", call_id="c1"), function_call("slow", "{}", call_id="c2")]
    model = ScriptedModel([ModelStep(output=both), ModelStep(output=[assistant_message("done")])])
    agent = Agent(name="a", model=model, tools=[quick, slow])
    run = Runner.run_streamed(agent, "m1", session=session)
    task = asyncio.create_task(drain(run))
    await slow_began.wait()
    await asyncio.sleep(0.3)  # quick has long returned
    run.cancel()
    await task
    await drain(Runner.run_streamed(agent, "m2", session=session))
    request = str(model.calls[-1].input)
    print("next request:", request)
    return {"F7": "result of quick" not in request}[rule]


sys.exit(0 if asyncio.run(main(sys.argv[1])) else 1)
