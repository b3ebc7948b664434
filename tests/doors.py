"""Where what others made enters a session: one list of doors, through which each rule about it is walked (D3, S1, X3).

``CALLS`` are entered by a call, which is refused there and then. ``WITHIN`` are entered by what a hook, a tool or a part
of the prompt gives while a turn runs. A door takes text; those of ``VALUES`` take any value beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from attrs import evolve

from tests.stage import Stage
from treadle import (
    Block,
    ByHook,
    Text,
    ToolError,
    ToolOutput,
    UserMessage,
    message,
    subagent,
    tool,
)
from treadle.hooks import (
    LLM_STREAM,
    PRE_STEP,
    PROMPT_SUBMIT,
    REQUEST,
    SYSTEM_PROMPT_ASSEMBLE,
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TURN_STOPPING,
    AcceptResult,
    Allow,
    AllowCall,
    AskCall,
    BlockPrompt,
    BlockResult,
    DenyCall,
    Enter,
    Prompt,
    ReplaceResult,
)
from treadle.models import (
    BLOCKS,
    SOURCES,
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    CallConfig,
    Failure,
    Finish,
    Finished,
    HookSource,
    ModelFailure,
    Source,
    TextDelta,
    ToolSchema,
)
from treadle.session import CAUSES, Cause, UserMessageAdded, event

# --- members of the vocabulary that carry any value -------------------------------------------------------------------


@BLOCKS.register
class Carrying(msgspec.Struct, Block, frozen=True, tag_field="type", tag="doors-test/block"):
    """A block that carries any value."""

    value: Any


@SOURCES.register
class From(msgspec.Struct, Source, frozen=True, tag_field="kind", tag="doors-test/source"):
    """A source that carries any value."""

    value: Any


@CAUSES.register
class Because(msgspec.Struct, Cause, frozen=True, tag_field="kind", tag="doors-test/cause"):
    """A cause that carries any value."""

    value: Any


@event("doors-test/mark")
class Mark(msgspec.Struct, frozen=True):
    """An event of a plugin that carries any value."""

    value: Any


def carrying(value: Any) -> UserMessage:
    """A message that carries any value in a block."""
    return UserMessage("carrying", (Carrying(value),))


# --- entered by a call ------------------------------------------------------------------------------------------------

Call = Callable[[Stage, Any], object]

MESSAGES: dict[str, Call] = {
    "followup": lambda s, given: s.agent.followup(given),
    "steer": lambda s, given: s.agent.steer(given),
    "inject": lambda s, given: s.agent.inject(given),
    "send": lambda s, given: s.agent.send(given, "next-step", wakeup=False),
    "inbox.append": lambda s, given: s.agent.inbox.append("next-turn", given),
    "inbox.prepend": lambda s, given: s.agent.inbox.prepend("next-turn", given),
    "inbox.replace": lambda s, given: s.agent.inbox.replace("pending", given),
    "inbox.splice": lambda s, given: s.agent.inbox.splice("next-turn", 0, 0, [given]),
}
"""Doors that take a message, or text in its place; ``pending`` is the id of one that waits."""

CALLS: dict[str, Call] = {
    **MESSAGES,
    "a message": lambda s, text: s.agent.followup(message(text)),
    "a message's id": lambda s, text: s.agent.followup(message("a", id=text)),
    "a message's source": lambda s, text: s.agent.followup(message("a", source=HookSource(text))),
    "update_inbox": lambda s, text: s.agent.update_inbox("pending", "edit", text),
    "update_inbox with blocks": lambda s, text: s.agent.update_inbox("pending", "edit", (Text("a"), Text(text))),
    "a cancel's cause": lambda s, text: s.agent.cancel(ByHook(text), keep_inbox=True),
    "an event of a plugin": lambda s, text: s.agent.session.append(Mark(text)),
    "a message of a plugin": lambda s, text: s.agent.session.append(UserMessageAdded(message(text))),
}
"""Doors that take text; each raises for text that cannot be recorded, and nothing is."""

VALUES: dict[str, Call] = {
    **{name: (lambda s, value, enter=enter: enter(s, carrying(value))) for name, enter in MESSAGES.items()},
    "a message's source": lambda s, value: s.agent.followup(message("a", source=From(value))),
    "update_inbox": lambda s, value: s.agent.update_inbox("pending", "edit", (Carrying(value),)),
    "a cancel's cause": lambda s, value: s.agent.cancel(Because(value), keep_inbox=True),
    "an event of a plugin": lambda s, value: s.agent.session.append(Mark(value)),
    "a message of a plugin": lambda s, value: s.agent.session.append(UserMessageAdded(carrying(value))),
}
"""Doors that take any value; each raises for one that cannot be recorded, and nothing is."""


# --- entered while a turn runs ----------------------------------------------------------------------------------------

Within = Callable[[Stage, Any], object]


def gives(point: Any, decide: Callable[[Any, Any], Any]) -> Within:
    """A hook's door: at ``point`` it decides by its payload and what is given."""

    def enter(s: Stage, given: Any) -> None:
        s.agent.scope.on(point, lambda payload, *_follow: decide(payload, given))

    return enter


def returns(make: Callable[[Any], Any]) -> Within:
    """The door of the tool that is called in each turn: what it returns or raises."""

    def enter(s: Stage, given: Any) -> None:
        @tool
        def work() -> Any:
            """Works."""
            made = make(given)
            if isinstance(made, Exception):
                raise made
            return made

        s.agent.tools.register(work)

    return enter


def shapes(option: str, make: Callable[[Any], Any]) -> Within:
    """The door of a function of that tool's own, which makes what is shown."""

    def enter(s: Stage, given: Any) -> None:
        def work() -> Any:
            return {"plain": 1}

        s.agent.tools.register(tool(work, **{option: lambda _: make(given)}))

    return enter


def streams(make: Callable[[Any], Any]) -> Within:
    """The model's door: what it streams instead of the script."""

    async def play(given: Any) -> Any:
        for chunk in make(given):
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    return gives(LLM_STREAM, lambda payload, given: play(given))


def approves(s: Stage, given: Any) -> None:
    """The approver's door: it is asked what the hook gives, and fails with the same."""

    def refuse(proposal: Any, question: str) -> Any:
        raise ToolError(question, given)

    s.agent.scope.on(TOOLS_PRE_EXECUTE, lambda payload, follow: AskCall(given))
    s.host.approver = refuse


def once(enter: Callable[[Stage, Any], object]) -> Within:
    """A message that enters from within, at the end of the turn."""

    def put(s: Stage, given: Any) -> None:
        done: list[bool] = []

        def stopping(payload: Any) -> None:
            if not done:
                done.append(True)
                enter(s, given)

        s.agent.scope.on(TURN_STOPPING, stopping)

    return put


def assembles(make: Callable[[Any], ToolSchema]) -> Within:
    """The door of an assemble hook that offers a tool."""
    return gives(SYSTEM_PROMPT_ASSEMBLE, lambda payload, given: Prompt("", (make(given),)))


def provides(make: Callable[[Any], ToolSchema]) -> Within:
    """The door of a provider of schemas."""

    def enter(s: Stage, given: Any) -> None:
        s.agent.prompt.tool_schemas("more", lambda assembly: [make(given)])

    return enter


def delegates(s: Stage, given: Any, setup: Callable[[Any], object] | None = None) -> None:
    """The sub-agent's door: the tool that is called in each turn hands what is given to a child."""

    async def set_up(scope: Any, child: Any) -> None:
        child.tools.restrict(allow=[])
        if setup is not None:
            setup(child)

    s.agent.tools.register(evolve(subagent("work", setup=set_up), parameters={"type": "object"}))
    s.agent.scope.on(TOOLS_PRE_EXECUTE, lambda payload, follow: AllowCall({"prompt": given}))


TEXTS_WITHIN: dict[str, Within] = {
    "a section": lambda s, text: s.agent.prompt.section("large", lambda assembly: text),
    "a context": lambda s, text: s.agent.prompt.context("large", lambda assembly: text),
    "a variable": lambda s, text: (
        s.agent.prompt.variable("v", lambda assembly: text),
        s.agent.prompt.section("s", "{{v}}"),
    ),
    "an assembled prompt": gives(SYSTEM_PROMPT_ASSEMBLE, lambda payload, text: Prompt(text)),
    "an assembled context": gives(
        SYSTEM_PROMPT_ASSEMBLE, lambda payload, text: Prompt("", (), (UserMessage("c", (Text(text),)),))
    ),
    "the reason of a blocked prompt": gives(PROMPT_SUBMIT, lambda payload, text: BlockPrompt(text)),
    "a changed prompt": gives(PROMPT_SUBMIT, lambda payload, text: Allow((Text(text),))),
    "a prompt's contexts": gives(PROMPT_SUBMIT, lambda payload, text: Allow(None, (UserMessage("c", (Text(text),)),))),
    "a step's messages": gives(
        PRE_STEP, lambda payload, text: Enter((*payload.messages, UserMessage(f"c{payload.step}", (Text(text),))))
    ),
    "an assembled tool's name": assembles(lambda text: ToolSchema(text, "More.", {"type": "object"})),
    "an assembled tool's description": assembles(lambda text: ToolSchema("more", text, {"type": "object"})),
    "an assembled tool's schema": assembles(
        lambda text: ToolSchema("more", "More.", {"type": "object", "title": text})
    ),
    "a provided tool's name": provides(lambda text: ToolSchema(text, "More.", {"type": "object"})),
    "a provided tool's description": provides(lambda text: ToolSchema("more", text, {"type": "object"})),
    "a provided tool's schema": provides(lambda text: ToolSchema("more", "More.", {"type": "object", "title": text})),
    "a sub-agent's prompt": delegates,
    "a sub-agent's persona": lambda s, text: delegates(s, "work", lambda child: child.prompt.persona(lambda _: text)),
    "a request's provider": gives(REQUEST, lambda payload, text: CallConfig(text, "m")),
    "a request's model": gives(REQUEST, lambda payload, text: CallConfig("scripted", text)),
    "a request's effort": gives(REQUEST, lambda payload, text: CallConfig("scripted", "m", None, text)),
    "what a hook fails with": gives(PRE_STEP, lambda payload, text: fail(ToolError(text, text))),
    "a model's text": streams(
        lambda text: [BlockStart(0, "text"), TextDelta(0, text), BlockEnd(0), Finished(Finish("stop"))]
    ),
    "a model's call": streams(
        lambda text: [BlockStart(0, "tool-call", text, text), BlockEnd(0), Finished(Finish("tool-calls"))]
    ),
    "a model's arguments": streams(
        lambda text: [
            BlockStart(0, "tool-call", "c", "work"),
            ArgumentsDelta(0, text),
            BlockEnd(0),
            Finished(Finish("tool-calls")),
        ]
    ),
    "a model's finish": streams(lambda text: [BlockStart(0, "text"), BlockEnd(0), Finished(Finish(text))]),
    "a model's failure": streams(lambda text: [ModelFailure(Failure(text, text, None, None, text))]),
    "what a tool returns": returns(lambda text: text),
    "what a tool shows": returns(lambda text: ToolOutput(text, code=text, value=text)),
    "a tool's contexts": returns(lambda text: ToolOutput("ok", contexts=(message(text),))),
    "what a renderer shows": shapes("render", lambda text: text),
    "a tool's final content": shapes("final_content", lambda text: (Text(text),)),
    "what a tool raises": returns(lambda text: ToolError(text, text)),
    "a refused call": gives(TOOLS_PRE_EXECUTE, lambda payload, text: DenyCall(text, text)),
    "a question": gives(TOOLS_PRE_EXECUTE, lambda payload, text: AskCall(text)),
    "an approver": approves,
    "a guard": lambda s, text: s.agent.tools.guard(lambda proposal: DenyCall(text, text)),
    "a replaced execution": gives(TOOLS_EXECUTE, lambda payload, text: text),
    "a replaced result": gives(TOOLS_POST_EXECUTE, lambda payload, text: ReplaceResult((Text(text),), text)),
    "a blocked result": gives(TOOLS_POST_EXECUTE, lambda payload, text: BlockResult(text)),
    "a result's contexts": gives(TOOLS_POST_EXECUTE, lambda payload, text: AcceptResult((message(text),))),
    "steering of the turn's end": once(lambda s, text: s.agent.steer(text)),
}
"""Doors that take text while a turn runs, in which the model calls the tool ``work``."""

VALUES_WITHIN: dict[str, Within] = {
    "a tool's schema": lambda s, value: s.agent.prompt.tool_schemas(
        "more", lambda assembly: [ToolSchema("more", "more", {"type": "object", "default": value})]
    ),
    "an assembled tool's schema": assembles(lambda value: ToolSchema("more", "", {"type": "object", "default": value})),
    "a prompt's contexts": gives(PROMPT_SUBMIT, lambda payload, value: Allow(None, (carrying(value),))),
    "a changed prompt": gives(PROMPT_SUBMIT, lambda payload, value: Allow((Carrying(value),))),
    "an assembled context": gives(SYSTEM_PROMPT_ASSEMBLE, lambda payload, value: Prompt("", (), (carrying(value),))),
    "a step's messages": gives(PRE_STEP, lambda payload, value: Enter((*payload.messages, carrying(value)))),
    "what a tool returns": returns(lambda value: {"value": value}),
    "what a tool shows": returns(lambda value: ToolOutput("ok", value=value)),
    "what a renderer shows": shapes("render", lambda value: (Carrying(value),)),
    "a tool's final content": shapes("final_content", lambda value: (Text("a"), Carrying(value))),
    "a tool's blocks": returns(lambda value: (Carrying(value),)),
    "a tool's contexts": returns(lambda value: ToolOutput("ok", contexts=(carrying(value),))),
    "a call's arguments": gives(TOOLS_PRE_EXECUTE, lambda payload, value: AllowCall({"value": value})),
    "a replaced execution": gives(TOOLS_EXECUTE, lambda payload, value: [value]),
    "a replaced value": gives(TOOLS_POST_EXECUTE, lambda payload, value: ReplaceResult(None, [value])),
    "a replaced content": gives(TOOLS_POST_EXECUTE, lambda payload, value: ReplaceResult((Carrying(value),))),
    "private data of a model's block": streams(
        lambda value: [BlockStart(0, "text"), TextDelta(0, "a"), BlockEnd(0, value), Finished(Finish("stop"))]
    ),
    "private data of a model's answer": streams(
        lambda value: [BlockStart(0, "text"), TextDelta(0, "a"), BlockEnd(0), Finished(Finish("stop"), value)]
    ),
}
"""Doors that take any value while a turn runs, in which the model calls the tool ``work``."""


def fail(error: Exception) -> Any:
    """Raise, where only an expression may stand."""
    raise error
