"""A host with one agent on a scripted model: everything it tells is kept, and its log is checked when the test is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from tests.invariants import check_invariants
from treadle import (
    Aborted,
    Agent,
    AgentHandle,
    AgentOptions,
    AssistantMessage,
    Blocked,
    Cause,
    EndReason,
    Errored,
    Event,
    Host,
    Message,
    ModelRequest,
    ScriptedModel,
    Text,
    Tool,
    ToolResultMessage,
    UserMessage,
    message,
)
from treadle.hooks import (
    AGENT_DISPOSED,
    AGENT_ERROR,
    AGENT_PARKED,
    AGENT_STATUS,
    CANCEL_REQUESTED,
    INBOX_CLAIMED,
    INBOX_DISCARDED,
    INBOX_INSERTED,
    INBOX_UPDATED,
    SESSION_EVENT,
    TOOLS_RESULT,
    AgentError,
)
from treadle.models import BlockEnd, BlockStart, Chunk, Finish, Finished, TextDelta
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    InboxSpliced,
    RequestHeader,
    StepEnd,
    StepStart,
    SystemMessageAdded,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
)

settled = trio.testing.wait_all_tasks_blocked
"""Run until nothing can go on by itself."""


class Gate:
    """A place where code under test waits until the test lets it go on."""

    def __init__(self) -> None:
        self._reached = trio.Event()
        self._opened = trio.Event()

    async def wait(self) -> None:
        """Wait here; for the code under test."""
        self._reached.set()
        await self._opened.wait()

    async def reached(self) -> None:
        """Wait until somebody waits here; for the test."""
        await self._reached.wait()

    def open(self) -> None:
        """Let whoever waits go on."""
        self._opened.set()


def talk(*parts: str | Gate | Chunk | BaseException, finish: str | None = "stop") -> Callable[[ModelRequest], Any]:
    """A scripted answer in parts: text, chunks, gates to wait at, an exception to raise; no finish if ``None``."""

    async def play() -> AsyncIterator[Chunk]:
        open_text = False
        for part in parts:
            if isinstance(part, str):
                if not open_text:
                    yield BlockStart(0, "text")
                    open_text = True
                yield TextDelta(0, part)
            elif isinstance(part, Gate):
                await part.wait()
            elif isinstance(part, BaseException):
                raise part
            else:
                yield part
        if finish is not None:
            if open_text:
                yield BlockEnd(0)
            yield Finished(Finish(finish))

    return lambda request: play()


def note(text: str) -> UserMessage:
    """A user message whose id is its text."""
    return message(text, id=text)


# --- one line per event or notice -------------------------------------------------------------------------------------


def reason(end: EndReason) -> str:
    match end:
        case Aborted():
            return f"aborted {cause(end.reason)}"
        case Errored():
            return f"error {end.failure.code}"
        case Blocked():
            return f"blocked {end.detail}" if end.detail else "blocked"
        case _:
            return type(end).__name__.lower().replace("maxtokens", "max-tokens")


def cause(given: Cause) -> str:
    return type(given).__name__.removeprefix("By").lower().replace("disposal", "disposed")


def line(entry: Event) -> str:
    """One event as one line."""
    write = LINES.get(type(entry.data))
    return write(entry.data) if write is not None else entry.type.removeprefix("request/")


def answer_line(data: AssistantMessageAdded) -> str:
    calls = "".join([f" +{call.call_id}" for call in data.message.calls])
    return f"assistant {data.message.text!r}{calls}{' interrupted' if data.interrupted else ''}"


def splice_line(data: InboxSpliced) -> str:
    removed = f" -{data.removed_count}" if data.removed_count else ""
    inserted = "".join([f" +{one.text}" for one in data.inserted])
    return f"inbox {data.target} @{data.start}{removed}{inserted}{' canceled' if data.outcome else ''}"


LINES: dict[type, Callable[[Any], str]] = {
    TurnStart: lambda data: f"turn/start {data.turn}",
    TurnEnd: lambda data: f"turn/end {data.turn} {reason(data.reason)}",
    StepStart: lambda data: f"step/start {data.turn}.{data.step}",
    StepEnd: lambda data: f"step/end {data.turn}.{data.step}",
    UserMessageAdded: lambda data: f"user {data.message.text}",
    SystemMessageAdded: lambda data: f"system {data.message.text!r}",
    AssistantMessageAdded: answer_line,
    AssistantAttempt: lambda data: "attempt",
    ToolCallStarted: lambda data: f"call {data.call_id}",
    ToolResultAdded: lambda data: f"result {data.call_id} {(data.code or 'error') if data.is_error else 'ok'}",
    RequestHeader: lambda data: f"header {data.reason}",
    InboxSpliced: splice_line,
}


def asked(messages: Iterable[Message]) -> list[str]:
    """The messages of a request, one line each."""
    lines: list[str] = []
    for one in messages:
        if isinstance(one, ToolResultMessage):
            lines.append(f"result {one.result.call_id}")
        elif isinstance(one, AssistantMessage):
            lines.append(f"assistant {one.text!r}" + "".join([f" +{call.call_id}" for call in one.calls]))
        else:
            lines.append(f"{one.role} {one.text}")
    return lines


NOISE = ("inbox ", "header ", "context")


class Stage:
    """One agent and what became of it."""

    def __init__(self, host: Host, model: ScriptedModel, handle: AgentHandle) -> None:
        self.host = host
        self.model = model
        self.handle = handle
        self.agent: Agent = handle.agent
        self.told: list[str] = []
        self.errors: list[AgentError] = []

    @property
    def full_log(self) -> list[str]:
        """Every event, one line each."""
        return [line(entry) for entry in self.agent.session.events]

    @property
    def log(self) -> list[str]:
        """The events of turns: inbox, header and context left out."""
        return [text for text in self.full_log if not text.startswith(NOISE)]

    @property
    def inbox_log(self) -> list[str]:
        """The recorded splices."""
        return [text.removeprefix("inbox ") for text in self.full_log if text.startswith("inbox ")]

    @property
    def ends(self) -> list[str]:
        """How the turns ended."""
        return [text.split(" ", 2)[2] for text in self.log if text.startswith("turn/end")]

    @property
    def notices(self) -> list[str]:
        """What was told besides events, in order."""
        return [text[1:] for text in self.told if text.startswith("~")]

    @property
    def requests(self) -> list[list[str]]:
        """The messages of every request, in order."""
        return [asked(request.messages) for request in self.model.requests]

    @property
    def pending(self) -> tuple[list[str], list[str]]:
        """The texts pending for the next turn and for the next step."""
        inbox = self.agent.inbox
        return [one.text for one in inbox.next_turn], [one.text for one in inbox.next_step]

    def results(self) -> dict[str, str]:
        """The text of each result, by call id."""
        return {
            entry.data.call_id: "".join([block.text for block in entry.data.content if isinstance(block, Text)])
            for entry in self.agent.session.events
            if isinstance(entry.data, ToolResultAdded)
        }

    def facts(self, kind: type[Any]) -> list[Any]:
        """The data of all events of one type."""
        return [entry.data for entry in self.agent.session.events if isinstance(entry.data, kind)]

    async def ask(self, text: str = "go") -> EndReason | None:
        """Send a follow-up whose id is its text, and wait until the agent is idle."""
        self.agent.followup(note(text))
        return await self.agent.when_idle()

    def listen(self) -> None:
        """Keep everything that is published, as lines; notices are marked with a tilde."""

        def failed(payload: AgentError) -> None:
            self.errors.append(payload)
            self.told.append(f"~error {payload.failure.code}")

        on, tell = self.host.on, self.told.append
        on(SESSION_EVENT, lambda told: tell(line(told.event)))
        on(AGENT_STATUS, lambda told: tell(f"~status {told.status}"))
        on(INBOX_INSERTED, lambda told: tell(f"~inserted {told.message.text}"))
        on(INBOX_CLAIMED, lambda told: tell(f"~claimed {told.message.text} {told.turn}"))
        on(INBOX_DISCARDED, lambda told: tell(f"~discarded {told.message.text}"))
        on(INBOX_UPDATED, lambda told: tell(f"~updated {told.message.text}"))
        on(AGENT_PARKED, lambda told: tell(f"~parked {' '.join([one.text for one in told.messages])}"))
        on(CANCEL_REQUESTED, lambda told: tell(f"~cancel-requested {cause(told.cause)}"))
        on(TOOLS_RESULT, lambda told: tell(f"~tool {told.call.call_id}"))
        on(AGENT_DISPOSED, lambda told: tell("~disposed"))
        on(AGENT_ERROR, failed)


@asynccontextmanager
async def stage(
    *script: Any,
    tools: Iterable[Tool] = (),
    model: ScriptedModel | None = None,
    host: Host | None = None,
    setup: Any = None,
    listen: bool = True,
    **options: Any,
) -> AsyncIterator[Stage]:
    """Open a host with one agent; ``options`` are those of the agent.

    When the block is over the agent is disposed and its log and requests are checked against the invariants.
    """
    model = model or ScriptedModel(script)
    async with host or Host(checks=True) as opened:
        opened.models.register("scripted", model)
        for one in tools:
            opened.tools.register(one)
        options = {"provider": "scripted", "model": "m", **options}
        handle = await opened.agents.create(agent_options=AgentOptions(**options), setup=setup)
        made = Stage(opened, model, handle)
        if listen:
            made.listen()
        yield made
        await handle.dispose(keep_inbox=True)
        own = [request for request in model.requests if request.session_id == made.agent.id]
        check_invariants(made.agent.session, own)


async def leaves(
    kind: type[BaseException], body: Callable[[Stage], Awaitable[object]], *script: Any, **options: Any
) -> Stage:
    """Run ``body`` on a stage that has to be left by raising ``kind``, soon; returns the stage."""
    kept: list[Stage] = []

    async def run() -> None:
        async with stage(*script, **options) as s:
            kept.append(s)
            await body(s)
            await trio.sleep_forever()

    with trio.fail_after(5), pytest.raises(kind):
        await run()
    return kept[0]
