"""What a served frame costs beside the least that the same server takes; AG-UI beside another adapter; the first frame."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from statistics import quantiles
from typing import Any

from ..measure import Benchmark, Sample
from .served import Server, server

WINDOW = float(os.environ.get("TREADLE_WEB_SECONDS", "4"))
"""Seconds for which frames are counted."""
EACH_SECOND = 2_000
"""Frames in a second, over all streams."""
RUNS, DELTAS, PACE = 40, 200, 0.02
"""Of the comparison of adapters: runs at once, deltas of each, and seconds between two deltas."""
OTHER = "TREADLE_PYDANTIC_AI"
"""The variable that names a Python with ``pydantic-ai-slim[ag-ui]`` and uvicorn."""


def per_frame(made: Server, streams: int) -> float:
    """Processor microseconds of the server for each frame that its readers get."""
    seen = 0
    begun: set[int] = set()

    def all_begun(number: int, data: bytes) -> bool:
        if b"event: frames" in data:
            begun.add(number)
        return len(begun) == streams

    def counts(_: int, data: bytes) -> bool:
        nonlocal seen
        seen += data.count(b"event: frames")
        return False

    made.read(all_begun)
    before = made.used()["cpu"]
    made.read(counts, WINDOW)
    return (made.used()["cpu"] - before) / seen * 1e6


def ours(kind: str, streams: int) -> float:
    """A paced agent with a listener each."""
    pace = streams / EACH_SECOND
    with server("agents", kind, pace=pace, deltas=1_000_000) as made:
        connection = made.connection()
        names = [made.post(connection, "/api/sessions", {})["id"] for _ in range(streams)]
        for name in names:
            made.open(f"/api/sessions/{name}/stream")
        for name in names:
            made.post(connection, f"/api/sessions/{name}/messages", {"text": "Go"})
        return per_frame(made, streams)


def floor(kind: str, streams: int) -> float:
    """A paced generator each."""
    with server("bare", kind, pace=streams / EACH_SECOND) as made:
        for _ in range(streams):
            made.open("/stream?deltas=1000000")
        return per_frame(made, streams)


def frames(kind: str, streams: int) -> Callable[[], Sample]:
    """A frame of a paced agent, against an event of a bare generator."""
    return lambda: Sample(ours(kind, streams), floor(kind, streams))


def events_of_agui(subject: str, python: str) -> float:
    """AG-UI events for each processor second, of runs that are paced alike."""
    with server(subject, "uvicorn", pace=PACE, deltas=DELTAS, python=python) as made:
        asked: Any = {
            "state": {}, "tools": [], "context": [], "forwardedProps": {},
            "messages": [{"id": "u", "role": "user", "content": "Go"}],
        }  # fmt: skip
        seen = 0
        lasts = [b""] * RUNS
        finished: set[int] = set()

        def over(number: int, data: bytes) -> bool:
            nonlocal seen
            seen += data.count(b'data: {"type"')
            lasts[number] = (lasts[number] + data)[-500:]
            if b"RUN_FINISHED" in lasts[number]:
                finished.add(number)
            return len(finished) == RUNS

        before = made.used()["cpu"]
        for number in range(RUNS):
            made.open("/agui", {"threadId": f"thread{number}", "runId": "r", **asked})
        made.read(over)
        assert len(finished) == RUNS
        return seen / (made.used()["cpu"] - before)


def agui() -> Sample:
    """Ours beside the other package's: how many times as many events."""
    return Sample(events_of_agui("agents", sys.executable) / events_of_agui("pydantic_ai", os.environ[OTHER]))


def first_frame() -> Sample:
    """Milliseconds from a message's acceptance to the first that its listener gets of the answer: the p99 of 200 turns."""
    taken: list[float] = []
    with server("agents", "hypercorn", deltas=1) as made:
        connection = made.connection()
        name = made.post(connection, "/api/sessions", {})["id"]
        made.open(f"/api/sessions/{name}/stream")
        for _ in range(200):
            began = time.perf_counter()
            made.post(connection, f"/api/sessions/{name}/messages", {"text": "Go"})
            made.read(lambda _, data: b"event: frames" in data or b'"assistant/message"' in data)
            taken.append(time.perf_counter() - began)
            made.read(lambda _, data: b'"idle"' in data, 0.05)
    cuts = quantiles(taken, n=100)
    return Sample(cuts[98] * 1e3, cuts[49] * 1e3)


BENCHMARKS = [
    Benchmark(
        f"frame, served to {streams} ({kind})",
        "a frame of a paced agent at its listener; the floor is a paced generator of Starlette's",
        "µs/frame", 1.6, frames(kind, streams), warm_up=False,
    )
    for kind in ("hypercorn", "uvicorn")
    for streams in (100, 2_000)
]  # fmt: skip
BENCHMARKS.append(
    Benchmark(
        "first frame, served",
        "from sending a message to the first that its listener gets of the answer, p99; the floor is the p50",
        "ms", 250, first_frame, "at-most", warm_up=False,
    )
)  # fmt: skip
if OTHER in os.environ:
    BENCHMARKS.append(
        Benchmark(
            "AG-UI, events beside pydantic-ai",
            "events that a processor second gives under uvicorn, as a multiple of those of the other package's adapter",
            "×", 2.0, agui, "at-least", warm_up=False,
        )
    )  # fmt: skip
