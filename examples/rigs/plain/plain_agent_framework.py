"""agent-framework-core by its public API alone: the task that awaits ``Agent.run`` is cancelled, for F4 while the model
answers, otherwise while one of two tools has finished; then the next message on the same session.

    .rigs/agent_framework/bin/python examples/rigs/plain/plain_agent_framework.py F4
"""

import asyncio
import sys

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    MessageInjectionMiddleware,
    tool,
)

requests = []
slow_began = asyncio.Event()


class Client(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **_):
        async def answer():
            requests.append([(str(one.role), one.text or [(part.type, part.call_id, str(part.result))
                                                          for part in one.contents]) for one in messages])  # fmt: skip
            if rule == "F4" and len(requests) == 1:
                await wait_long()  # the run is cancelled while the model answers
            calls = [Content.from_function_call("c1", "quick", arguments="{}"),
                     Content.from_function_call("c2", "slow", arguments="{}")]  # fmt: skip
            return ChatResponse(
                messages=[Message(role="assistant", contents=calls if len(requests) == 1 else ["done"])]
            )

        return answer()


@tool
async def quick() -> str:
    """-"""
    return "result of quick"


@tool
async def slow() -> str:
    """-"""
    await wait_long()


async def wait_long():
    slow_began.set()
    await asyncio.sleep(99)


async def main():
    agent = Agent(client=Client(), tools=[quick, slow], middleware=[MessageInjectionMiddleware()],
                  context_providers=[InMemoryHistoryProvider()],
                  require_per_service_call_history_persistence=True)  # fmt: skip
    session = agent.create_session()
    task = asyncio.create_task(agent.run("m1", session=session))
    await slow_began.wait()
    await asyncio.sleep(0.3)  # quick has long returned
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    await agent.run("m2", session=session)
    told = requests[-1]
    print("next request:", told)
    unanswered = "c1" in str(told) and not any("function_result" in str(one) for one in told)
    return {"F4": ("user", "m1") not in told, "F7": "result of quick" not in str(told), "F9": unanswered}[rule]


rule = sys.argv[1]
sys.exit(0 if asyncio.run(main()) else 1)
