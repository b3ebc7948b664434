"""Chunks of long answers, heard by nobody and by a frame listener."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

from treadle import Host
from treadle.hooks import ASSISTANT_STREAM, AssistantStream

from .floors import bare_for
from .measure import Benchmark, Pair, Sample
from .subjects import Pacing, Prebuilt, agent_of, text_answer, turns

CHUNKS, SLICES = 50_000, 3
ANSWER = text_answer("word ", CHUNKS)


async def _against_bare_for(kind: type[Prebuilt], chunks: int, prepare: Callable[[Host], None] | None = None) -> Sample:
    pair = Pair()
    answer = ANSWER if chunks == CHUNKS else text_answer("word ", chunks)
    async with AsyncExitStack() as stack:
        for _ in range(SLICES):
            agent = await stack.enter_async_context(agent_of(kind([answer]), prepare))
            bare = kind([answer])
            with pair.ours.time(chunks):
                await turns(agent, 1)
            with pair.floor.time(chunks):
                await bare_for(bare.stream(None))  # type: ignore[arg-type]  # it looks at no request
    return pair.sample()


async def prebuilt_chunks() -> Sample:
    """A long answer that never waits."""
    return await _against_bare_for(Prebuilt, CHUNKS)


async def paced_chunks() -> Sample:
    """A long answer with a checkpoint before every chunk."""
    return await _against_bare_for(Pacing, CHUNKS // 5)


async def heard_chunks() -> Sample:
    """A long answer that never waits, each chunk told to one listener."""
    return await _against_bare_for(Prebuilt, CHUNKS, _listening)


def _listening(host: Host) -> None:
    host.on(ASSISTANT_STREAM, _hear)


def _hear(told: AssistantStream) -> None:  # noqa: ARG001 - the interface
    return


BENCHMARKS: list[Benchmark] = [
    Benchmark(
        "chunk",
        "a chunk of a 50,000-chunk answer made beforehand; floor: the bare async for over the same stream",
        "µs/chunk",
        6.0,
        prebuilt_chunks,
    ),
    Benchmark(
        "heard-chunk",
        "a chunk of that answer, told to a listener; floor: the bare async for over the same stream",
        "µs/chunk",
        22.0,
        heard_chunks,
    ),
    Benchmark(
        "paced-chunk",
        "a chunk of a model that checkpoints before each; floor: the bare async for over the same stream",
        "µs/chunk",
        1.5,
        paced_chunks,
    ),
]
"""The benchmarks of this module."""
