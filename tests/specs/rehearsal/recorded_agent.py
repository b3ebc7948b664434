"""The agent whose sessions are recorded, with tools, hooks, contexts and a sub-agent; and the changes of it that tests try."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import trio
from attrs import evolve

from treadle import (
    Agent,
    AgentOptions,
    ByHook,
    Host,
    ScriptedModel,
    Text,
    Tool,
    ToolError,
    ToolOutput,
    ToolRun,
    message,
    subagent,
    tool,
)
from treadle.hooks import (
    ASSISTANT_STREAM,
    PRE_STEP,
    PROMPT_SUBMIT,
    REQUEST,
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TOOLS_RESULT,
    TURN_STOPPING,
    Allow,
    AskCall,
    BlockPrompt,
    DenyCall,
    Enter,
    ReplaceResult,
)
from treadle.models import BlockStart, HookSource, RetryPolicy, TextDelta

PROMPT = "You keep the books of a small mill. Answer in one sentence."
OPTIONS = AgentOptions(provider="scripted", model="scripted-1", max_steps_per_turn=6, max_parallel_tool_calls=2)
POLICY = RetryPolicy(max_retries=2, base_delay=0.5, jitter=0.1)

# --- tools --------------------------------------------------------------------------------------------------------------


@tool(parallel=True)
async def search(query: str) -> dict[str, Any]:
    """Search the books."""
    await trio.sleep(len(query) / 100)
    return {"query": query, "found": [query.upper(), 7]}


@tool
async def note(text: str) -> str:
    """Write a note down."""
    await trio.sleep(0.2)
    if "illegible" in text:
        raise ToolError("the ink ran", "ILLEGIBLE")
    return f"noted: {text}"


@tool(timeout=2.0)
async def wait_for_rain() -> str:
    """Wait until it rains."""
    await trio.sleep_forever()
    return "it rains"


@tool
async def bind() -> ToolOutput:
    """Bind the book: cannot be stopped half way."""
    with trio.CancelScope(shield=True):
        await trio.sleep(1)
    return ToolOutput("bound", value={"pages": 12})


@tool(max_result_bytes=256)
async def whole_book() -> str:
    """Read the whole book."""
    await trio.lowlevel.checkpoint()
    return "flour and bran, " * 100


@tool
async def mail() -> ToolOutput:
    """Look into the mail."""
    await trio.lowlevel.checkpoint()
    return ToolOutput("two letters", contexts=[message("Dear mill,"), message("Dear miller,")])


@tool
async def burn(what: str) -> str:
    """Burn something. Has to be approved."""
    await trio.lowlevel.checkpoint()
    return f"{what} is ash"


@tool
async def nudge(text: str, run: ToolRun) -> str:
    """Say something to the running agent."""
    run.agent.steer(text)
    await trio.sleep(0.1)
    return "said"


@tool
async def close_up() -> ToolOutput:
    """Close for the day."""
    await trio.lowlevel.checkpoint()
    return ToolOutput("closed", concludes_turn=True)


async def _help_of_clerk(scope: Any, child: Agent) -> None:
    await trio.lowlevel.checkpoint()
    child.tools.register(count)
    child.system_prompt = "You are the clerk."


@tool
async def count(things: str) -> int:
    """Count things."""
    await trio.sleep(0.05)
    return len(things)


CLERK = subagent("clerk", "Have the clerk do it.", setup=_help_of_clerk, parallel=True)
TOOLS: tuple[Tool, ...] = (search, note, wait_for_rain, bind, whole_book, mail, burn, nudge, close_up, CLERK)

# --- hooks --------------------------------------------------------------------------------------------------------------


async def submitted(submission: Any, proceed: Any) -> Any:
    """Blocks what is a secret, and notes what is urgent."""
    if "secret" in submission.message.text:
        return BlockPrompt("no secrets here")
    if "urgent" in submission.message.text:
        return Allow((Text(f"{submission.message.text} (at once)"),), (message("an urgent matter"),))
    return await proceed()


async def entering(proposal: Any, proceed: Any) -> Any:
    """Adds the house rules to the first step of each third turn."""
    decision = await proceed()
    if proposal.turn % 3 or proposal.step > 1 or not isinstance(decision, Enter):
        return decision
    return Enter((*decision.messages, message("mind the house rules", source=HookSource("rules"))))


async def calling(proposal: Any, proceed: Any) -> Any:
    """Asks before anything is burnt, and lets nobody search for gold."""
    if proposal.call.name == "burn":
        return AskCall(f"burn {proposal.arguments['what']}?")
    if "gold" in str(proposal.arguments):
        return DenyCall("there is no gold", "NO_GOLD")
    return await proceed()


def guarded(proposal: Any) -> Any:
    """Keeps the cellar closed."""
    return DenyCall("the cellar is closed", "CELLAR") if "cellar" in str(proposal.arguments) else None


async def executing(proposal: Any, proceed: Any) -> Any:
    """Wraps what a search finds, and makes the best of a failed note."""
    try:
        value = await proceed()
    except ToolError as error:
        if proposal.call.name == "note":
            return ToolOutput(f"not noted: {error}", is_error=True, code="WRAPPED")
        raise
    return {"wrapped": value} if proposal.call.name == "search" else value


async def executed(outcome: Any, proceed: Any) -> Any:
    """Stamps notes, each time it sees one, and hands a receipt over."""
    if outcome.call.name != "note" or outcome.is_error:
        return await proceed()
    text = "".join([block.text for block in outcome.content])
    return ReplaceResult((Text(f"{text} [stamped]"),), additional_contexts=[message("a receipt")])


async def asking(proposal: Any, proceed: Any) -> Any:
    """Gives later turns less room."""
    config = await proceed()
    return msgspec.structs.replace(config, max_tokens=500 if proposal.turn > 1 else 1000)


class Objection:
    """Objects once to the end of a turn in which there was no answer to a question about flour."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._done = False

    async def __call__(self, stopping: Any) -> None:
        """Steer, once."""
        await trio.lowlevel.checkpoint()
        said = [one.text for one in self._agent.session.history()]
        if not self._done and any("flour?" in text for text in said):
            self._done = True
            self._agent.steer("and the flour?")


def spending(agent: Agent) -> Any:
    """Stops the turn once a result is too dear."""

    def settled(result: Any) -> None:
        if any("dear" in getattr(block, "text", "") for block in result.content):
            agent.cancel(ByHook("too dear"), keep_inbox=True)

    return settled


def listening(agent: Agent) -> Any:
    """Stops an answer in which a forbidden word is said."""

    def streamed(frame: Any) -> None:
        if "forbidden" in str(frame):
            agent.cancel(ByHook("a forbidden word"), keep_inbox=True)

    return streamed


# --- the agent ----------------------------------------------------------------------------------------------------------


class Contexts:
    """What the model is told of the day and of the weather; it changes with what was said."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def day(self, _: Any) -> str:
        """The day, which goes by with each turn."""
        return f"day {max(1, sum(entry.type == 'turn/start' for entry in self._agent.session.events))}"

    def weather(self, _: Any) -> str:
        """The weather, which never changes."""
        return "dry"


def _other_schema(given: Tool) -> Tool:
    return evolve(given, parameters={**given.parameters, "properties": {"text": {"type": "string", "maxLength": 1000}}})


def policy_of(change: str) -> RetryPolicy:
    """The policy of the model, changed in one respect."""
    policy = evolve(POLICY, max_retries=1) if change == "policy" else POLICY
    return evolve(policy, base_delay=2.0) if change == "delay" else policy


def make(change: str = "", model: Any = None) -> Any:
    """Give what furnishes a host with the agent, changed in one respect."""

    async def make_agent(host: Host) -> Any:
        host.models.register("scripted", model or ScriptedModel(["nobody is asked"], retry_policy=policy_of(change)))
        for one in TOOLS:
            if not (change == "no-tool" and one is mail):
                host.tools.register(_other_schema(one) if change == "schema" and one is note else one)
        hooks = {
            PROMPT_SUBMIT: submitted,
            PRE_STEP: entering,
            TOOLS_PRE_EXECUTE: calling,
            TOOLS_EXECUTE: executing,
            TOOLS_POST_EXECUTE: executed,
            REQUEST: asking,
        }
        for point, hook in hooks.items():
            if change != f"no-{hook.__name__}":
                host.on(point, hook)
        if change != "no-guarded":
            host.tools.guard(guarded)

        async def setup(scope: Any, agent: Agent) -> None:
            await trio.lowlevel.checkpoint()
            agent.system_prompt = PROMPT.replace("small", "large") if change == "word" else PROMPT
            contexts = Contexts(agent)
            agent.prompt.context("day", contexts.day, order=2.5 if change == "context-order" else 1)
            agent.prompt.context("weather", contexts.weather, order=2)
            if change != "no-objection":
                scope.on(TURN_STOPPING, Objection(agent))
            if change != "no-spending":
                scope.on(TOOLS_RESULT, spending(agent))
            if change != "no-listening":
                scope.on(ASSISTANT_STREAM, listening(agent))

        options = evolve(OPTIONS, max_steps_per_turn=3) if change == "steps" else OPTIONS
        return {"agent_options": options, "setup": setup}

    return make_agent


make_agent = make()
"""The agent as it is."""
other_agent = make("word")
"""The agent with another word in its system prompt."""


async def half_an_answer(_: Any) -> AsyncIterator[Any]:
    """Begin to answer, and never go on."""
    yield BlockStart(0, "text")
    yield TextDelta(0, "Half of ")
    await trio.sleep(0.5)
    yield TextDelta(0, "an answer")
    await trio.sleep_forever()
