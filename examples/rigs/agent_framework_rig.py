"""agent-framework-core behind the rig protocol: ``Agent.run`` on a session, stopped by cancelling the task that awaits it."""

# /// script
# dependencies = ["agent-framework-core==1.23.0"]
# ///

import contextvars
import importlib.metadata

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    InMemoryHistoryProvider,
    Message,
    MessageInjectionMiddleware,
    function_middleware,
)

from treadle_specs.rigkit import FrameworkRig, ToolError, assistant, main, result, user


def told(messages):
    """The messages of a request, as the protocol has them."""
    for message in messages:
        calls = [one.call_id for one in message.contents if one.type == "function_call"]
        results = [one for one in message.contents if one.type == "function_result"]
        if results:
            yield from [result(one.call_id, str(one.result)) for one in results]
        elif str(message.role) == "user":
            yield user(message.text)
        elif str(message.role) == "assistant":
            yield assistant(message.text, calls)


class Gated(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A client whose answers come from the tester."""

    def __init__(self, rig):
        super().__init__()
        self.rig = rig

    def _inner_get_response(self, *, messages, stream, options, **_):
        async def answer():
            text, calls = await self.rig.answer(told(messages))
            contents = [text] if text else []
            contents += [Content.from_function_call(call["id"], call["name"], arguments="{}") for call in calls]
            return ChatResponse(messages=[Message(role="assistant", contents=contents)])

        return answer()


CALL: contextvars.ContextVar[str] = contextvars.ContextVar("call")


@function_middleware
async def remember(context, call_next):
    """A function does not learn the id of its call, and middleware does."""
    CALL.set(context.metadata["call_id"])
    await call_next()


class AgentFramework(FrameworkRig):
    name, version = "agent-framework-core", importlib.metadata.version("agent-framework-core")
    promised = ("steer",)

    def open(self, tools):
        self.injection = MessageInjectionMiddleware()
        made = [FunctionTool(name=tool["name"], description="-", func=self.body(tool["name"])) for tool in tools]
        self.agent = Agent(client=Gated(self), tools=made, middleware=[self.injection, remember],
                           context_providers=[InMemoryHistoryProvider()],  # as injected messages need it
                           require_per_service_call_history_persistence=True)  # fmt: skip
        self.session = self.agent.create_session()

    def body(self, name):
        async def run() -> str:
            try:
                return await self.tool(CALL.get(), name)
            except ToolError as error:
                raise RuntimeError(str(error)) from error

        return run

    async def turn(self, text):
        await self.agent.run(text, session=self.session)

    def steer(self, text):
        self.injection.enqueue_messages(self.session, text)

    def cancel(self):
        self.task.cancel()


main(AgentFramework)
