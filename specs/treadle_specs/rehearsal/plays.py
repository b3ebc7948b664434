"""What stands in for the world: models that play recorded streams, bodies that give recorded results, recorded consent.

Each waits at a gate until the conductor lets it go on, so that everything happens in the recorded order.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec
import trio
from attrs import define, field

from treadle import (
    Block,
    Event,
    Failure,
    ModelFailure,
    ModelRequest,
    Text,
    Tool,
    ToolError,
    ToolOutput,
    ToolRun,
    UserMessage,
)
from treadle.models import (
    ArgumentsDelta,
    Chunk,
    Finished,
    ModelAdapter,
    ModelInfo,
    ReasoningDelta,
    RetryPolicy,
    TextDelta,
)
from treadle.session import AssistantAttempt, AssistantMessageAdded, ToolResultAdded

_DELTAS = {"text-delta": TextDelta, "reasoning-delta": ReasoningDelta, "arguments-delta": ArgumentsDelta}
_CUT = re.compile(r"\n\[cut: (\d+) of (\d+) characters shown\]\Z")
_FILLER = "\N{LINEAR B SYLLABLE B008 A}"
"""Stands for a character that the log does not hold: it takes four bytes, as many as any."""


@define(eq=False)
class Gate:
    """A place where something waits until it is let through."""

    _changed: trio.Event = field(factory=trio.Event)

    def tell(self) -> None:
        """Have whoever waits look again."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait(self) -> None:
        """Wait until told."""
        await self._changed.wait()


# --- models -------------------------------------------------------------------------------------------------------------


def timed_chunks(data: AssistantMessageAdded | AssistantAttempt) -> list[tuple[int, Chunk]]:
    """The recorded chunks of an attempt, each with its time in milliseconds since the epoch."""
    out: list[tuple[int, Chunk]] = []
    for segment in data.stream.segments if data.stream is not None else ():
        if segment.delta is not None:
            made = _DELTAS[segment.delta]
            assert segment.index is not None
            out += [(time, made(segment.index, text)) for time, text in zip(segment.times, segment.texts, strict=True)]
        elif segment.chunk is not None:
            out.append((segment.times[0], segment.chunk))
    return out


def failure_to_raise(data: AssistantMessageAdded | AssistantAttempt) -> Failure | None:
    """What an attempt failed with, where its stream does not tell."""
    if data.finish is None or any(type(chunk) is Finished for _, chunk in timed_chunks(data)):
        return None
    return data.finish.failure


@define(eq=False)
class Play(Gate):
    """One attempt under way.

    Attributes:
        request: what it was asked with.
        seq: the number of the recorded event that it plays; ``None`` when there is none left.
        chunks: the recorded stream.
        allowed: how many of the chunks may pass.
        ended: the stream may end.
        over: it has.
        cut: it was stopped before its end.
        cut_off: it was stopped before its end when it was recorded.
    """

    request: ModelRequest = field(kw_only=True)
    seq: int | None = field(kw_only=True)
    chunks: list[tuple[int, Chunk]] = field(kw_only=True)
    failure: Failure | None = field(kw_only=True)
    allowed: int = 0
    ended: bool = False
    over: bool = False
    cut: bool = False
    cut_off: bool = False

    def allow(self, until: int | None = None) -> bool:
        """Let chunks pass, those up to a time or all; returns whether there were any."""
        most = len(self.chunks) if until is None else sum([time <= until for time, _ in self.chunks])
        if most <= self.allowed:
            return False
        self.allowed = most
        self.tell()
        return True

    def end(self) -> None:
        """Let all of it pass, and its end."""
        self.allowed, self.ended = len(self.chunks), True
        self.tell()

    async def stream(self) -> AsyncIterator[Chunk]:
        """The chunks, as they are let pass."""
        try:
            for place, (_, chunk) in enumerate(self.chunks):
                while place >= self.allowed:
                    await self.wait()
                yield chunk
            while not self.ended:
                await self.wait()
            if self.failure is not None:
                raise ModelFailure(self.failure)
        except trio.Cancelled:
            self.cut = True
            raise
        finally:
            self.over = True


class Begins(Protocol):
    """Who knows which recorded attempt is next."""

    def begin_attempt(self, request: ModelRequest, policy: RetryPolicy | None) -> Play:
        """The attempt that a request makes."""
        ...


@define(eq=False)
class RecordedModel:
    """Stands before today's adapter: its name, its policy and what it knows of models are today's, its answers recorded."""

    adapter: ModelAdapter
    begins: Begins

    @property
    def name(self) -> str:
        """See ``ModelAdapter.name``."""
        return self.adapter.name

    @property
    def retry_policy(self) -> RetryPolicy | None:
        """See ``ModelAdapter.retry_policy``."""
        return self.adapter.retry_policy

    async def model_info(self, model: str) -> ModelInfo:
        """See ``ModelAdapter.model_info``."""
        return await self.adapter.model_info(model)

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """See ``ModelAdapter.stream``."""
        return self.begins.begin_attempt(request, self.retry_policy).stream()


# --- tools --------------------------------------------------------------------------------------------------------------


@define(eq=False)
class Body(Gate):
    """The body of one call under way.

    Attributes:
        run: the call.
        result: what it is to come to, once that is let through.
        scope: shielded where the recorded body came to its own end in spite of a cancel.
    """

    tool: Tool = field(kw_only=True)
    run: ToolRun = field(kw_only=True)
    result: Event | None = None
    contexts: tuple[UserMessage, ...] = ()
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    over: bool = False

    async def execute(self) -> Any:
        """Wait, and come to the recorded result."""
        try:
            with self.scope:
                while self.result is None:
                    await self.wait()
            assert self.result is not None
            return outcome_of(self.result.data, self.tool, self.contexts)
        finally:
            self.over = True


def outcome_of(data: ToolResultAdded, tool: Tool, contexts: tuple[UserMessage, ...]) -> Any:
    """What a body returns, or raises, so that a recorded result comes of it."""
    body = data.body
    told = body if body is not None else data
    content = tuple([_uncut(block) for block in told.content])
    code, value = told.code, told.value
    if told.is_error and value is None and not contexts and len(content) == 1 and type(content[0]) is Text:
        name, colon, text = content[0].text.partition(": ")
        if colon and name.isidentifier():
            raise _raised(name, text, code)
    if code is None and not told.is_error and not told.concludes_turn and not contexts:
        return _plain(tool, content, value)
    return ToolOutput(content, told.is_error, code, value, told.concludes_turn, contexts)


def _plain(tool: Tool, content: tuple[Block, ...], value: Any) -> Any:
    """What a body returned that returned no ``ToolOutput``, as wrappers of it see it; blocks where nothing else fits."""
    text = content[0].text if len(content) == 1 and type(content[0]) is Text else None
    if text is None or tool.render is not None or (value is None and tool.output is not None):
        return content if value is None else ToolOutput(content, value=value)
    if value is not None:
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return value if shown == text else ToolOutput(content, value=value)
    try:
        decoded = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return decoded if not isinstance(decoded, str) and msgspec.json.encode(decoded).decode() == text else text


def _raised(name: str, text: str, code: str | None) -> Exception:
    """An exception that is told as a recorded one was, of the class of that name where that is a built-in one."""
    base: Any = ToolError if name == "ToolError" else getattr(builtins, name, None)
    if not (isinstance(base, type) and issubclass(base, Exception)):
        base = Exception
    try:
        error: Any = type(name, (base,), {})(text)
    except TypeError:
        error = type(name, (Exception,), {})(text)
    if str(error) != text:
        error = type(name, (Exception,), {})(text)
    error.code = code
    return error


def _uncut(block: Any) -> Any:
    """A text of which only the beginning was recorded, as long as it was, so that it is cut as it was."""
    found = _CUT.search(block.text) if type(block) is Text else None
    if found is None:
        return block
    shown, whole = int(found[1]), int(found[2])
    head = block.text[: found.start()]
    if len(head) != shown or whole < shown:
        return block
    return msgspec.structs.replace(block, text=head + _FILLER * (whole - shown))


# --- consent ------------------------------------------------------------------------------------------------------------


@define(eq=False)
class Question(Gate):
    """A call that somebody has to approve."""

    call_id: str = field(kw_only=True)
    session_id: str = field(kw_only=True)
    answer: bool | None = None

    async def answered(self) -> bool:
        """Wait for the answer."""
        while self.answer is None:
            await self.wait()
        return self.answer
