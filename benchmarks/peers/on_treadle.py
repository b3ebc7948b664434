"""treadle itself, its log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import trio
from serving import Clock, expect, serve

from treadle import Agent, AgentOptions, Host, ModelRequest, Text, Tool, ToolRun
from treadle.hooks import ASSISTANT_STREAM, AssistantStream, FrameChunk
from treadle.models import ArgumentsDelta, BlockEnd, BlockStart, Chunk, Finish, Finished, ModelInfo, TextDelta


def said(text: str, pieces: int = 1) -> list[Chunk]:
    """An answer of text."""
    return [BlockStart(0, "text"), *[TextDelta(0, text)] * pieces, BlockEnd(0), Finished(Finish("stop"))]


def asked(number: int) -> list[Chunk]:
    """An answer that calls the tool."""
    block = [BlockStart(0, "tool-call", f"call-{number}", "work"), ArgumentsDelta(0, "{}"), BlockEnd(0)]
    return [*block, Finished(Finish("tool-calls"))]


class Scripted:
    """A model whose answers are given."""

    name, retry_policy = "scripted", None

    def __init__(self, answers: Iterable[Sequence[Chunk]]) -> None:
        self.answers = iter(answers)

    async def model_info(self, model: str) -> ModelInfo:
        """Nothing is known."""
        return ModelInfo()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """The next answer."""
        for chunk in next(self.answers):
            yield chunk


async def _work(arguments: dict[str, Any], run: ToolRun) -> str:
    return "worked"


@asynccontextmanager
async def conversation(answers: Iterable[Sequence[Chunk]]) -> AsyncIterator[tuple[Host, Agent]]:
    """A conversation in which these answers are given."""
    async with Host() as host:
        host.models.register("bench", Scripted(answers))
        host.tools.register(Tool("work", "Works.", {"type": "object"}, _work))
        options = AgentOptions(provider="bench", model="m", max_steps_per_turn=1_000_000)
        yield host, (await host.agents.create(agent_options=options)).agent


def last(agent: Agent) -> str:
    """What was said last."""
    return "".join([block.text for block in agent.session.history()[-1].content if isinstance(block, Text)])


async def turns(count: int, clock: Clock) -> None:
    """Turns of one answer each."""
    async with conversation([said("Done.")] * count) as (_, agent):
        with clock.running():
            for _ in range(count):
                agent.followup("go")
                await agent.when_idle()
        expect((last(agent), len(agent.session.history())), ("Done.", 2 * count))


async def steps(count: int, clock: Clock) -> None:
    """One turn of calls."""
    answers = [*[asked(number) for number in range(count)], said("Done.")]
    async with conversation(answers) as (_, agent):
        with clock.running():
            agent.followup("go")
            await agent.when_idle()
        expect((last(agent), len(agent.session.history())), ("Done.", 2 * count + 2))


async def chunks(count: int, clock: Clock) -> None:
    """One answer of many pieces."""
    heard = 0

    def hear(told: AssistantStream) -> None:
        nonlocal heard
        if type(told.frame) is FrameChunk and type(told.frame.chunk) is TextDelta:
            heard += 1

    async with conversation([said("word ", count)]) as (host, agent):
        host.on(ASSISTANT_STREAM, hear)
        with clock.running():
            agent.followup("go")
            await agent.when_idle()
        expect(heard, count)


if __name__ == "__main__":
    serve(trio.run, version("treadle"), turns=turns, steps=steps, chunks=chunks)
