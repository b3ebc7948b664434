"""Many streams at once: how long a cancel takes and how late the loop is while a thousand answers come in.

The server is a process of its own. Times are processor time of the loop's thread, so that they say what the work
between a cancel and its end costs, whatever else the machine does. The load is paced alike: the deltas of a second come
in a second of the loop's own time, in which it computes or has nothing to do. Seconds in which it waits for a processor
would heap up deltas that a core of its own would have worked off, and be taken for ours.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from contextlib import aclosing
from pathlib import Path
from statistics import quantiles

import trio
from attrs import define, field

from treadle import ModelRequest, Signal
from treadle.models import CallConfig
from treadle.words.messages import user_message
from treadle_adapters.models.openai_chat import OpenAIChat

from .measure import Benchmark, Sample

STREAMS = int(os.environ.get("TREADLE_STREAMS", "1000"))
"""Answers that come in at the same time."""

EVERY = 0.5
"""Seconds between two deltas of one answer."""

SLOTS = 50
"""Parts of that time; each has its share of the streams, whose deltas come together."""

CANCELS = 150
"""Streams that are cancelled, one after the other, each followed by a new one."""

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
DELTA = b"%x\r\n%b\r\n" % (len(_EVENT), _EVENT)


@define
class _Server:
    """Answers every request without end; each byte on its stdin is one slot, whose streams get a delta."""

    slots: list[set[asyncio.StreamWriter]] = field(factory=lambda: [set() for _ in range(SLOTS)])
    answered: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request: its first delta comes at once, the others with its slot."""
        slot = self.slots[self.answered % SLOTS]
        self.answered += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
            writer.write(HEAD + DELTA)
            slot.add(writer)
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # cancelled, as it should be
        finally:
            slot.discard(writer)
            writer.close()

    async def pace(self) -> None:
        """Send deltas as slots are due, until stdin ends."""
        ticks = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(ticks), sys.stdin)
        at = 0
        while due := await ticks.read(SLOTS):
            for _ in due:
                for writer in self.slots[at % SLOTS]:
                    writer.write(DELTA)
                at += 1


async def _serve() -> None:
    serving = _Server()
    server = await asyncio.start_server(serving.answer, "127.0.0.1", 0, backlog=2 * STREAMS)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await serving.pace()


def own_time() -> float:
    """Seconds on the clock without those in which the calling thread was ready to run and had no processor."""
    waited = Path("/proc/thread-self/schedstat").read_text().split()[1]
    return time.monotonic() - int(waited) / 1e9


def _allow_files() -> None:
    """Each stream is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(3 * STREAMS, hard)), hard))


_ENOUGH = 0.9
"""The share of the deltas without which a figure tells of a smaller load than it says."""


@define
class _Crowd:
    """The streams that are open, and what was measured of them, in milliseconds of processor time."""

    model: OpenAIChat
    nursery: trio.Nursery
    open: list[trio.CancelScope] = field(factory=list[trio.CancelScope])
    cancels: list[float] = field(factory=list[float])
    late: list[float] = field(factory=list[float])
    deltas: int = 0
    over: trio.Event = field(factory=trio.Event)
    _cancelled: dict[trio.CancelScope, float] = field(factory=dict[trio.CancelScope, float])

    async def fill(self) -> None:
        """Open the streams, a few at a time, and wait until each brings something."""
        while len(self.open) < STREAMS:
            ready = [trio.Event() for _ in range(50)]
            for event in ready:
                self.nursery.start_soon(self._stream, event)
            for event in ready:
                await event.wait()

    async def pace(self, server: trio.abc.SendStream) -> None:
        """Have the server send what is due."""
        begun, told, each = own_time(), 0, EVERY / SLOTS
        while True:
            due = int((own_time() - begun) / each)
            if due > told:
                await server.send_all(b"." * (due - told))
                told = due
            await trio.sleep(each)

    async def replace(self) -> None:
        """Cancel the oldest stream, and open another one."""
        scope = self.open.pop(0)
        self._cancelled[scope] = time.thread_time()
        scope.cancel()
        self.nursery.start_soon(self._stream, trio.Event())
        await trio.sleep(0.01)

    async def beat(self, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        """Note how long everybody else takes between two turns of one task."""
        with trio.CancelScope() as scope:
            task_status.started(scope)
            while True:
                before = time.thread_time()
                await trio.lowlevel.checkpoint()
                self.late.append(1_000 * (time.thread_time() - before))
                await trio.sleep(0.002)

    async def _stream(self, ready: trio.Event) -> None:
        request = ModelRequest(CallConfig("p", "m"), [user_message("go", "u")], (), "a", "s", Signal())
        with trio.CancelScope() as scope:
            async with aclosing(self.model.stream(request)) as chunks:
                async for _ in chunks:
                    self.deltas += 1
                    if not ready.is_set():
                        ready.set()
                        self.open.append(scope)
        if scope in self._cancelled:  # not so at the end, when all are cancelled at once
            self.cancels.append(1_000 * (time.thread_time() - self._cancelled.pop(scope)))
            if len(self.cancels) == CANCELS:
                self.over.set()


async def _crowd() -> _Crowd:
    _allow_files()
    server = await trio.lowlevel.open_process(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None
    port = int(await server.stdout.receive_some())
    try:
        async with OpenAIChat(f"http://127.0.0.1:{port}") as model, trio.open_nursery() as nursery:
            crowd = _Crowd(model, nursery)
            nursery.start_soon(crowd.pace, server.stdin)
            await crowd.fill()
            beats = await nursery.start(crowd.beat)
            begun, before = own_time(), crowd.deltas
            for _ in range(CANCELS):
                await crowd.replace()
            await crowd.over.wait()
            came = (crowd.deltas - before) * EVERY / STREAMS / (own_time() - begun)
            if came < _ENOUGH:
                print(f"only {came:.0%} of the deltas came: the server has too little of a processor", file=sys.stderr)
            beats.cancel()
            nursery.cancel_scope.cancel()
    finally:
        server.kill()
    return crowd


def _high(values: list[float]) -> float:
    return quantiles(values, n=100)[98]


async def cancel() -> Sample:
    """From the cancel of one stream to its end."""
    return Sample(_high((await _crowd()).cancels))


async def lag() -> Sample:
    """How long a task waits for its next turn."""
    return Sample(_high((await _crowd()).late))


BENCHMARKS = [
    Benchmark(
        "many-streams-cancel",
        f"p99 of a cancel among {STREAMS} streams of {1 / EVERY:g} deltas a second each",
        "CPU ms",
        100,
        cancel,
        "at-most",
        warm_up=False,
    ),
    Benchmark(
        "many-streams-lag",
        f"p99 of the loop's lag under the same {STREAMS} streams",
        "CPU ms",
        100,
        lag,
        "at-most",
        warm_up=False,
    ),
]

if __name__ == "__main__":
    asyncio.run(_serve())
