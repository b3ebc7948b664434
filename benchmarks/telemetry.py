"""What telemetry costs: a turn with it on, and spans of a long log."""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import msgspec
from opentelemetry.sdk.trace import TracerProvider

from treadle import Host
from treadle.session import encode_event, encode_header
from treadle_adapters.telemetry import Telemetry
from treadle_cli.telemetry.export import export_otlp
from treadle_specs.rig.scripts import SCRIPTS, record

from .measure import SLICES, Benchmark, Pair, Sample
from .subjects import Pacing, Prebuilt, agent_of, text_answer, tool_answer, turns

EVENTS = 100_000
"""How long the exported log is."""


async def _turns(prepare: Callable[[Host], object] | None) -> Sample:
    """Turns of a host that is watched, against those of one that is not."""
    pair = Pair()
    watch = None if prepare is None else lambda host: (prepare(host), None)[1]
    async with agent_of(_calling(), watch) as ours, agent_of(_calling()) as floor:
        await turns(ours, 20)
        await turns(floor, 20)
        for _ in range(SLICES):
            with pair.ours.time(60):
                await turns(ours, 60)
            with pair.floor.time(60):
                await turns(floor, 60)
    return pair.sample()


def _calling() -> Prebuilt:
    """A model that says ten words, and asks for one call in every other answer; repeated call ids are made unique."""
    said = text_answer("word ", 10)
    return Pacing(cycle([[*said[:-1], *tool_answer(["call"], start=1)], said]))


async def off() -> Sample:
    """Telemetry is installed and taken back again."""
    return await _turns(lambda host: Telemetry().install(host)())


async def api_only() -> Sample:
    """Telemetry is on, and the program has no SDK."""
    return await _turns(Telemetry().install)


async def no_exporter() -> Sample:
    """Telemetry is on with an SDK that makes spans and gives them to nobody."""
    telemetry = Telemetry(tracer_provider=TracerProvider())
    sample = await _turns(telemetry.install)
    telemetry.close()
    return sample


def export() -> Sample:
    """``treadle export otlp`` of a log of 100,000 events, from file to file; in seconds."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        log, out = Path(folder) / "log.jsonl", Path(folder) / "spans.jsonl"
        log.write_bytes(_long_log())
        began = time.process_time()
        export_otlp([str(log)], out=out)
        taken = time.process_time() - began
        assert out.read_bytes().count(b'"traceId"') > EVENTS // 4, "there are fewer spans than the log tells"
    return Sample(taken)


def _long_log() -> bytes:
    """The turns of a scripted session, over and over."""
    header, events = record(SCRIPTS["several-steps"])
    many = [msgspec.structs.replace(events[seq % len(events)], seq=seq) for seq in range(EVENTS)]
    return b"\n".join([encode_header(header), *map(encode_event, many)]) + b"\n"


BENCHMARKS: list[Benchmark] = [
    Benchmark(
        "telemetry-off",
        "a turn of two answers of ten words, one with a tool call, in a host where telemetry was installed and taken "
        "back; floor: a host that never had it",
        "µs/turn",
        1.05,
        off,
    ),
    Benchmark(
        "telemetry",
        "the same turn with telemetry on, in a program without an SDK, which is what has no exporter; floor: the same "
        "without telemetry",
        "µs/turn",
        1.3,
        api_only,
    ),
    Benchmark(
        "telemetry-sdk",
        "the same turn with telemetry on and an SDK that makes all spans for nobody; floor: the same without telemetry",
        "µs/turn",
        2.2,
        no_exporter,
    ),
    Benchmark(
        "export-otlp",
        "`treadle export otlp` of 100,000 events, from file to file",
        "s",
        5.0,
        export,
        "at-most",
        warm_up=False,
    ),
]
"""The benchmarks of this module."""
