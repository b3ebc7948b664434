"""What the benchmarks drive: minimal models with prebuilt chunks, one tool, and a host with an agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from treadle import Agent, AgentOptions, Host, ModelRequest, Tool, ToolRun
from treadle.models import ArgumentsDelta, BlockEnd, BlockStart, Chunk, Finish, Finished, ModelInfo, TextDelta

INFO = ModelInfo()
OPTIONS = AgentOptions(provider="bench", model="prebuilt", max_steps_per_turn=None)


def text_answer(text: str = "Done.", chunks: int = 1) -> list[Chunk]:
    """The chunks of an answer of text."""
    return [BlockStart(0, "text"), *[TextDelta(0, text) for _ in range(chunks)], BlockEnd(0), Finished(Finish("stop"))]


def tool_answer(ids: Iterable[str], start: int = 0) -> list[Chunk]:
    """The chunks of an answer that calls the ``work`` tool once under each id; blocks are numbered from ``start``."""
    out: list[Chunk] = []
    for index, name in enumerate(ids, start):
        out += [BlockStart(index, "tool-call", name, "work"), ArgumentsDelta(index, "{}"), BlockEnd(index)]
    return [*out, Finished(Finish("tool-calls"))]


TEXT = text_answer()


class Prebuilt:
    """A model of the least cost: every answer is a list of chunks made beforehand.

    Args:
        answers: one list per attempt; afterwards, and when there are none, the model says ``TEXT``.
    """

    name = "prebuilt"
    retry_policy = None

    def __init__(self, answers: Iterable[Sequence[Chunk]] = ()) -> None:
        self._answers = iter(answers)

    async def model_info(self, model: str) -> ModelInfo:  # noqa: ARG002 - the interface
        """Nothing is known."""
        return INFO

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:  # noqa: ARG002 - the interface
        """Yield the next answer without ever waiting."""
        for chunk in next(self._answers, TEXT):
            yield chunk


class Stepping(Prebuilt):
    """A prebuilt model with one checkpoint per attempt, which can be held between attempts."""

    def __init__(self, answers: Iterable[Sequence[Chunk]] = ()) -> None:
        super().__init__(answers)
        self._allowed: float = float("inf")
        self._go = trio.Event()
        self._held = trio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:  # noqa: ARG002 - the interface
        """Yield the next answer after one checkpoint, once allowed to."""
        if self._allowed <= 0:
            self._held.set()
            await self._go.wait()
            self._go = trio.Event()
        self._allowed -= 1
        await trio.lowlevel.checkpoint()
        for chunk in next(self._answers, TEXT):
            yield chunk

    def hold(self, after: int) -> None:
        """Let ``after`` attempts through, then hold."""
        self._allowed = after

    async def held(self) -> None:
        """Wait until the model holds."""
        await self._held.wait()

    async def advance(self, attempts: int) -> None:
        """Let so many attempts through, and wait until the next one is held."""
        self._held = trio.Event()
        self._allowed = attempts
        self._go.set()
        await self._held.wait()

    def release(self) -> None:
        """Hold no more."""
        self._allowed = float("inf")
        self._go.set()


class Pacing(Prebuilt):
    """A prebuilt model with one checkpoint per chunk, as a network adapter at its fastest."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:  # noqa: ARG002 - the interface
        """Yield the next answer, pausing before each chunk."""
        for chunk in next(self._answers, TEXT):
            await trio.lowlevel.checkpoint()
            yield chunk


async def _work(arguments: dict[str, Any], run: ToolRun) -> str:  # noqa: ARG001 - the interface
    await trio.lowlevel.checkpoint()
    return "worked"


WORK = Tool("work", "Works.", {"type": "object"}, _work, parallel=True)
"""A tool whose body is one checkpoint."""


@asynccontextmanager
async def agent_of(model: Prebuilt, prepare: Callable[[Host], None] | None = None) -> AsyncIterator[Agent]:
    """A host with one agent on a model, and the ``work`` tool."""
    async with Host() as host:
        host.models.register("bench", model)
        host.tools.register(WORK)
        if prepare is not None:
            prepare(host)
        handle = await host.agents.create(agent_options=OPTIONS)
        yield handle.agent


async def turns(agent: Agent, count: int) -> None:
    """So many turns, each delivered when the one before is over."""
    for _ in range(count):
        agent.followup("go")
        await agent.when_idle()
