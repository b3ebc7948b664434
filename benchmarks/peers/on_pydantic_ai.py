"""pydantic-ai: `Agent.run` with the history of the run before, `Agent.run_stream` for pieces."""

import asyncio

import pydantic_ai
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage
from serving import expect, serve

UNBOUNDED = UsageLimits(request_limit=None)


def scripted(answers, pieces=0):
    """An agent whose model gives these answers; they tell their usage, so that the model estimates none."""
    given = iter(answers)

    async def answer(messages, info):
        return ModelResponse(parts=[next(given)], usage=RequestUsage(input_tokens=1, output_tokens=1))

    async def stream(messages, info):
        for _ in range(pieces):
            yield "word "

    agent = Agent(FunctionModel(answer, stream_function=stream))

    @agent.tool_plain
    async def work() -> str:
        """Works."""
        return "worked"

    return agent


async def turns(count, clock):
    """Turns of one answer each."""
    agent, history = scripted([TextPart("Done.") for _ in range(count)]), []
    with clock.running():
        for _ in range(count):
            result = await agent.run("go", message_history=history, usage_limits=UNBOUNDED)
            history = result.all_messages()
    expect((result.output, len(history)), ("Done.", 2 * count))


async def steps(count, clock):
    """One turn of calls."""
    calls = [ToolCallPart("work", "{}", tool_call_id=f"call-{number}") for number in range(count)]
    agent = scripted([*calls, TextPart("Done.")])
    with clock.running():
        result = await agent.run("go", usage_limits=UNBOUNDED)
    expect((result.output, len(result.all_messages())), ("Done.", 2 * count + 2))


async def chunks(count, clock):
    """One answer of many pieces."""
    agent, heard = scripted([], count), 0
    with clock.running():
        async with agent.run_stream("go") as result:
            async for piece in result.stream_text(delta=True, debounce_by=None):
                heard += len(piece)
    expect(heard, 5 * count)


serve(lambda work, *given: asyncio.run(work(*given)), pydantic_ai.__version__, turns=turns, steps=steps, chunks=chunks)
