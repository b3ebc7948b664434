"""What the checks of ``check_model`` work with: the means given, a bench of adapters, attempts played to their end."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field, frozen

from treadle import AssistantMessage, Failure, Message, ModelFailure, ModelRequest, Signal
from treadle.models import CallConfig, Chunk, Finished, ModelAdapter, ToolSchema
from treadle.models.assembly import Recorder
from treadle.words.messages import user_message

ModelMaker = Callable[[], ModelAdapter]
"""Makes a fresh adapter, whose provider answers every request with some text."""
AT_ONCE = 1.0
"""Seconds within which a cancelled attempt has to be over."""
MODEL = "check"
"""The model that requests name unless ``Means`` says otherwise."""


@frozen
class Means:
    """What the kit may use besides the maker. Each maker returns a fresh adapter.

    Attributes:
        model: the model's id in all requests.
        calling: its provider answers with at least one tool call.
        refusing: its provider answers every request with an error.
        cut: its provider breaks the answer off before its finish.
        silent: its provider accepts a request and never says a word.
        idle_timeout: after how many seconds ``silent`` has to give up; time is virtual.
        held: how many connections, or whatever else an attempt takes hold of, an adapter has in use.
        virtual_time: run every check in virtual time; not for adapters that use a real network.
    """

    model: str = MODEL
    calling: ModelMaker | None = None
    refusing: ModelMaker | None = None
    cut: ModelMaker | None = None
    silent: ModelMaker | None = None
    idle_timeout: float = 300.0
    held: Callable[[ModelAdapter], int] | None = None
    virtual_time: bool = False


@define
class Outcome:
    """What came of one attempt.

    Attributes:
        chunks: everything it gave, in order.
        recorder: what the driver would have assembled of it.
        failure: what it failed with, raised or in its finish.
    """

    chunks: list[Chunk] = field(factory=list[Chunk])
    recorder: Recorder = field(factory=Recorder)
    failure: Failure | None = None

    def message(self, adapter: ModelAdapter) -> AssistantMessage:
        """The answer as the history holds it."""
        return AssistantMessage(self.recorder.blocks(), adapter.name, self.recorder.finish_replay)


@frozen
class Bench:
    """What a check works with."""

    make: ModelMaker
    means: Means
    _made: list[ModelAdapter] = field(factory=list[ModelAdapter])

    def model(self, make: ModelMaker | None = None) -> ModelAdapter:
        """A fresh adapter, closed when the check is over."""
        adapter = (make or self.make)()
        self._made.append(adapter)
        return adapter

    def request(self, *messages: Message, tools: tuple[ToolSchema, ...] = ()) -> ModelRequest:
        """A request; without messages, one short question."""
        asked = list(messages) or [user_message("Say a few words.", "kit-1")]
        config = CallConfig(provider="kit", model=self.means.model, max_tokens=256)
        return ModelRequest(config, asked, tools, f"kit-attempt-{next(_NUMBERS)}", "kit-session", Signal())

    def held(self, adapter: ModelAdapter) -> int:
        """What the adapter has in use, 0 where that cannot be told."""
        return self.means.held(adapter) if self.means.held is not None else 0

    async def close(self) -> None:
        """Close the adapters that can be closed."""
        for adapter in self._made:
            close: Callable[[], Awaitable[None]] | None = getattr(adapter, "aclose", None)
            if close is not None:
                await close()


_NUMBERS = itertools.count(1)
Check = Callable[[Bench], Any]


@asynccontextmanager
async def streaming(adapter: ModelAdapter, request: ModelRequest) -> AsyncGenerator[AsyncIterator[Chunk]]:
    """One attempt's stream, closed at the end of the block as the driver closes it."""
    stream = adapter.stream(request)
    try:
        yield stream
    finally:
        close: Callable[[], Awaitable[None]] | None = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def play(adapter: ModelAdapter, request: ModelRequest) -> Outcome:
    """Run one attempt until its stream is exhausted, and record it as the driver would (Q5).

    Raises:
        ModelFailure: the stream breaks the chunk protocol.
    """
    out = Outcome()
    async with streaming(adapter, request) as stream:
        while True:
            try:
                chunk = await anext(stream)
            except StopAsyncIteration:
                break
            except ModelFailure as error:
                out.failure = error.failure
                break
            out.recorder.add(chunk, 0.0)
            out.chunks.append(chunk)
    finish = out.recorder.finish
    if finish is not None and finish.kind in ("error", "aborted"):
        assert out.failure is None, "a failure in the finish is not raised as well"
        out.failure = finish.failure or Failure(finish.detail or finish.kind)
    return out


async def answered(adapter: ModelAdapter, request: ModelRequest) -> Outcome:
    """Run one attempt that has to succeed.

    Raises:
        AssertionError: it failed, or gave no finish.
    """
    out = await play(adapter, request)
    assert out.failure is None, f"the attempt failed: {out.failure}"
    assert out.chunks, "the stream is empty"
    assert type(out.chunks[len(out.chunks) - 1]) is Finished, f"the last chunk is no finish: {out.chunks[-1:]}"
    return out
