"""agent-framework-core: `Agent.run` on a session with an `InMemoryHistoryProvider`, `stream=True` for pieces."""

import asyncio
import importlib.metadata

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    InMemoryHistoryProvider,
    Message,
)
from serving import expect, serve


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A client whose answers are given; each has an id, as one without is taken for the same that was said before."""

    def __init__(self, answers, pieces=0, calls=0):
        super().__init__()
        self.function_invocation_configuration["max_iterations"] = calls + 1
        self.answers, self.pieces = enumerate(answers), pieces

    def _inner_get_response(self, *, messages, stream, options, **_):
        async def answer():
            number, content = next(self.answers)
            return ChatResponse(messages=[Message(role="assistant", contents=[content], message_id=f"a{number}")])

        async def pieces():
            for _ in range(self.pieces):
                yield ChatResponseUpdate(role="assistant", contents=[Content.from_text("word ")])

        return self._build_response_stream(pieces()) if stream else answer()


async def work() -> str:
    """Works."""
    return "worked"


def scripted(answers, pieces=0, calls=0):
    """An agent whose client gives these answers, and the session of a conversation."""
    tool = FunctionTool(name="work", description="Works.", func=work)
    agent = Agent(client=Scripted(answers, pieces, calls), tools=[tool], context_providers=[InMemoryHistoryProvider()])
    return agent, agent.create_session()


async def turns(count, clock):
    """Turns of one answer each."""
    agent, session = scripted([Content.from_text("Done.") for _ in range(count)])
    with clock.running():
        for number in range(count):
            asked = Message(role="user", contents=["go"], message_id=f"u{number}")
            result = await agent.run(asked, session=session)
    expect((result.text, len(session.state["in_memory"]["messages"])), ("Done.", 2 * count))


async def steps(count, clock):
    """One turn of calls."""
    calls = [Content.from_function_call(f"call-{number}", "work", arguments="{}") for number in range(count)]
    agent, session = scripted([*calls, Content.from_text("Done.")], calls=count)
    with clock.running():
        result = await agent.run("go", session=session)
    expect((result.text, len(session.state["in_memory"]["messages"])), ("Done.", 2 * count + 2))


async def chunks(count, clock):
    """One answer of many pieces."""
    (agent, session), heard = scripted([], count), 0
    with clock.running():
        async for update in agent.run("go", session=session, stream=True):
            heard += update.text == "word "
    expect(heard, count)


serve(lambda job, *given: asyncio.run(job(*given)), importlib.metadata.version("agent-framework-core"),
      turns=turns, steps=steps, chunks=chunks)  # fmt: skip
