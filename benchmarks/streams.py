"""Many streams at once: how long a cancel takes and how late the loop is while a thousand answers come in.

Times are processor time of the loop's thread, so that they say what the work between a cancel and its end costs, whatever
else the machine does. The load is paced alike: the deltas of a second come in a second of the loop's own time, in which
it computes or has nothing to do. Seconds in which it waits for a processor would heap up deltas that a core of its own
would have worked off, and be taken for ours. So the server runs in the same loop; what it costs is counted as ours: a
system call for each delta, and a task for each new stream.
"""

from __future__ import annotations

import os
import resource
import time
from contextlib import aclosing
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

CANCELS = 400
"""Streams that are cancelled, one after the other, each followed by a new one; fewer, and one full collection were the p99."""

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
DELTA = b"%x\r\n%b\r\n" % (len(_EVENT), _EVENT)


@define
class Server:
    """Answers every request without end: the first delta at once, the others as the slot of the stream is due."""

    slots: list[set[trio.socket.SocketType]] = field(factory=lambda: [set() for _ in range(SLOTS)])
    answered: int = 0

    async def serve(self, task_status: trio.TaskStatus[int]) -> None:
        """Accept connections; starts with the port, and closes all in the end."""
        listener = trio.socket.socket()
        await listener.bind(("127.0.0.1", 0))
        listener.listen(4_096)
        task_status.started(listener.getsockname()[1])
        try:
            with listener:
                async with trio.open_nursery() as nursery:
                    while True:
                        connection, _ = await listener.accept()
                        nursery.start_soon(self._answer, connection)
        finally:
            for slot in self.slots:
                for connection in slot:
                    connection.close()

    async def _answer(self, connection: trio.socket.SocketType) -> None:
        request = b""
        try:
            while not request.endswith(b"}"):  # of the body, which is one JSON object
                got = await connection.recv(65_536)
                if not got:
                    connection.close()
                    return
                request += got
            await connection.send(HEAD + DELTA)
        except OSError:
            connection.close()
            return
        except trio.Cancelled:
            connection.close()
            raise
        self.slots[self.answered % SLOTS].add(connection)
        self.answered += 1

    async def pace(self) -> None:
        """Send the deltas that are due by the loop's own time."""
        begun, sent, each = own_time(), 0, EVERY / SLOTS
        while True:
            due = int((own_time() - begun) / each)
            for slot in range(sent, due):
                self._send(self.slots[slot % SLOTS])
            sent = max(sent, due)
            await trio.sleep(each)

    def _send(self, slot: set[trio.socket.SocketType]) -> None:
        for connection in list(slot):
            try:
                os.write(connection.fileno(), DELTA)
            except OSError:  # cancelled, as it should be
                slot.discard(connection)
                connection.close()


def own_time() -> float:
    """Seconds on the clock without those in which the calling thread was ready to run and had no processor."""
    file = os.open(
        "/proc/thread-self/schedstat", os.O_RDONLY
    )  # a third of what pathlib costs, a hundred times a second
    waited = os.read(file, 100).split()[1]
    os.close(file)
    return time.monotonic() - int(waited) / 1e9


def allow_files(streams: int) -> None:
    """Let the process open the three files that each stream takes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(3 * streams, hard)), hard))


ENOUGH = 0.9
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
    allow_files(STREAMS)
    async with trio.open_nursery() as nursery:
        server = Server()
        port = await nursery.start(server.serve)
        async with OpenAIChat(f"http://127.0.0.1:{port}") as model:
            crowd = _Crowd(model, nursery)
            nursery.start_soon(server.pace)
            await crowd.fill()
            await trio.sleep(2 * EVERY)  # what the burst of requests heaped up is over
            beats = await nursery.start(crowd.beat)
            begun, before = own_time(), crowd.deltas
            for _ in range(CANCELS):
                await crowd.replace()
            await crowd.over.wait()
            came = (crowd.deltas - before) * EVERY / STREAMS / (own_time() - begun)
            beats.cancel()
            nursery.cancel_scope.cancel()
    if came < ENOUGH:
        raise RuntimeError(f"only {came:.0%} of the deltas came: {STREAMS} streams are more than one core takes")
    return crowd


def high(values: list[float]) -> float:
    """The 99th percentile."""
    return quantiles(values, n=100)[98]


async def cancel() -> Sample:
    """From the cancel of one stream to its end."""
    return Sample(high((await _crowd()).cancels))


async def lag() -> Sample:
    """How long a task waits for its next turn."""
    return Sample(high((await _crowd()).late))


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
