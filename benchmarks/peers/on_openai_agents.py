"""openai-agents: `Runner.run` on a `SQLiteSession` in memory, `Runner.run_streamed` for pieces; tracing is off."""

import os

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

import asyncio

import agents
from agents import Agent, FunctionTool, Model, ModelResponse, Runner, SQLiteSession, Usage
from agents.testing import assistant_message, function_call
from openai.types.responses import Response, ResponseCompletedEvent, ResponseTextDeltaEvent
from serving import expect, serve

SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False, "required": []}


class Scripted(Model):
    """A model whose answers are given."""

    def __init__(self, answers, pieces=0):
        self.answers, self.pieces = iter(answers), pieces

    async def get_response(self, *_, **__):
        return ModelResponse(output=[next(self.answers)], usage=Usage(), response_id=None)

    async def stream_response(self, *_, **__):
        for number in range(self.pieces):
            yield ResponseTextDeltaEvent(type="response.output_text.delta", delta="word ", content_index=0, item_id="m",
                                         output_index=0, logprobs=[], sequence_number=number)  # fmt: skip
        whole = Response(id="r", created_at=0, model="m", object="response", parallel_tool_calls=True, tool_choice="auto",
                         tools=[], output=[next(self.answers)])  # fmt: skip
        yield ResponseCompletedEvent(type="response.completed", response=whole, sequence_number=self.pieces)


async def work(context, arguments):
    """The tool's body."""
    return "worked"


def scripted(answers, pieces=0):
    """An agent whose model gives these answers."""
    tool = FunctionTool(name="work", description="Works.", params_json_schema=SCHEMA, on_invoke_tool=work)
    return Agent(name="a", model=Scripted(answers, pieces), tools=[tool])


async def turns(count, clock):
    """Turns of one answer each."""
    agent, session = scripted([assistant_message("Done.") for _ in range(count)]), SQLiteSession("s")
    with clock.running():
        for _ in range(count):
            result = await Runner.run(agent, "go", session=session)
    expect((result.final_output, len(await session.get_items())), ("Done.", 2 * count))
    session.close()


async def steps(count, clock):
    """One turn of calls."""
    calls = [function_call("work", "{}", call_id=f"call-{number}") for number in range(count)]
    agent, session = scripted([*calls, assistant_message("Done.")]), SQLiteSession("s")
    with clock.running():
        result = await Runner.run(agent, "go", session=session, max_turns=count + 1)
    expect((result.final_output, len(await session.get_items())), ("Done.", 2 * count + 2))
    session.close()


async def chunks(count, clock):
    """One answer of many pieces."""
    agent, session, heard = scripted([assistant_message("word " * count)], count), SQLiteSession("s"), 0
    with clock.running():
        result = Runner.run_streamed(agent, "go", session=session)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
                heard += 1
    expect(heard, count)
    session.close()


serve(lambda job, *given: asyncio.run(job(*given)), agents.version.__version__, turns=turns, steps=steps, chunks=chunks)
