"""A session of a million events: taking it up again, what is held of it, showing it (S11).

The session has a turn of three steps and two tools in eighteen events; every hundredth turn its history is replaced by a
summary. What is measured waits for nothing, so the figures are CPU time; the stall of the loop is the CPU time that the
process spends between two looks of a task that is to look every few milliseconds.
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from functools import cache
from pathlib import Path

import trio

from treadle import (
    AgentOptions,
    Answer,
    AssistantMessage,
    Call,
    Completed,
    Host,
    ScriptedModel,
    Session,
    Text,
    ToolCall,
    tool,
)
from treadle.models import BlockEnd, BlockStart, CallConfig, Finish, Finished, Segment, TimedStream
from treadle.session import (
    AssistantMessageAdded,
    InboxSpliced,
    Replace,
    RequestContext,
    RequestHeader,
    SessionStore,
    StepEnd,
    StepStart,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
    encode_event,
    encode_header,
    new_header,
)
from treadle.words.messages import user_message
from treadle_adapters.stores.jsonl import JsonlStore

from .measure import Benchmark, Meter, Sample

EVENTS = 1_000_000
TURNS = 1_000
LONG_RESULT = "a line of a long result, as tools give them\n" * 200
OPTIONS = AgentOptions(provider="bench", model="prebuilt")
WORDS = ("This ", "answer ", "is ", "streamed ", "word ", "by ", "word, ", "as ", "answers ", "are.")


# --- subjects ---------------------------------------------------------------------------------------------------------


def turn(session: Session, number: int) -> None:
    """Add a turn of three steps, two of them with a tool."""
    commit = session.commit
    message = user_message(f"Question {number}, about as long as people type.", f"{session.id}-{number}")
    commit(InboxSpliced("next-turn", 0, 0, (message,)))
    commit(TurnStart(number))
    commit(InboxSpliced("next-turn", 0, 1))
    for step in (1, 2, 3):
        commit(StepStart(number, step, (message.id,) if step == 1 else ()))
        if step == 1:
            commit(UserMessageAdded(message))
        if step == 1 == number:
            commit(RequestHeader(CallConfig("bench", "prebuilt"), (), "initial"))
            commit(RequestContext("bench", "prebuilt"))
        call = ToolCall(f"call-{number}-{step}", "search", '{"query":"what was asked for, in words"}')
        content = (Text("".join(WORDS)), *([call] if step < 3 else []))  # the last step asks for nothing
        finish = Finish("stop" if step == 3 else "tool-calls")
        commit(AssistantMessageAdded(AssistantMessage(content, "bench"), f"{number}-{step}", finish, stream=_STREAM))
        if step < 3:
            commit(ToolCallStarted(call.call_id, call.name, call.arguments))
            commit(ToolResultAdded(call.call_id, (Text("a line of a result\n" * 16),), value={"hits": number}))
        commit(StepEnd(number, step))
    commit(TurnEnd(number, Completed()))


_STREAM = TimedStream(
    (
        Segment((1,), chunk=BlockStart(0, "text")),
        Segment(tuple(range(10)), "text-delta", 0, WORDS),
        Segment((11,), chunk=BlockEnd(0)),
        Segment((12,), chunk=Finished(Finish("stop"))),
    )
)


def compact(session: Session, number: int) -> None:
    """Replace the history by a summary."""
    shadowed = [node.seq for node in session.surface.nodes]
    summary = UserMessageAdded(user_message("What was said before, in short. " * 20, f"summary-{number}"))
    session.append(summary, surface_op=Replace(shadowed[0], shadowed[-1]), sources=shadowed)


@cache
def million() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """The session in a directory; made once, gone with the process."""
    directory = tempfile.TemporaryDirectory(prefix="treadle-bench-")
    session, number = Session(new_header("million", "/work/project")), 0
    with (Path(directory.name) / "million.jsonl").open("wb") as file:
        file.write(encode_header(session.header) + b"\n")
        while len(session) < EVENTS:
            number += 1
            turn(session, number)
            if number % 100 == 0:
                compact(session, number)
            file.writelines([encode_event(entry) + b"\n" for entry in session.held])
            session.forget(len(session))
    return directory, Path(directory.name)


def without_checkpoint() -> Path:
    """The session's directory, its checkpoint taken away."""
    _, directory = million()
    (directory / "million.checkpoint").unlink(missing_ok=True)
    return directory


async def with_checkpoint() -> Path:
    """The session's directory, with a checkpoint."""
    _, directory = million()
    if not (directory / "million.checkpoint").exists():
        await take_up(directory, Meter())
    return directory


class Beat:
    """Looks every few milliseconds how much CPU time the process has spent since it last looked."""

    worst = 0.0

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            before = time.process_time()
            await trio.sleep(0.004)
            self.worst = max(self.worst, time.process_time() - before)


async def take_up(directory: Path, meter: Meter, beat: Beat | None = None) -> None:
    """Take the session up, and let it go again."""
    async with trio.open_nursery() as nursery, Host(store=JsonlStore(directory)) as host:
        if beat is not None:
            nursery.start_soon(beat.run)
        with meter.time(1):
            handle = await host.agents.resume("million", agent_options=OPTIONS)
        assert len(handle.agent.session) >= EVENTS
        await handle.dispose(keep_inbox=True)
        nursery.cancel_scope.cancel()


# --- benchmarks -------------------------------------------------------------------------------------------------------


async def resumed_whole() -> Sample:
    """CPU seconds of a resume that reads every event, and makes a checkpoint."""
    meter = Meter()
    await take_up(without_checkpoint(), meter)
    return Sample(meter.cpu)


async def resumed_from_a_checkpoint() -> Sample:
    """CPU seconds of a resume from a checkpoint."""
    directory, meter = await with_checkpoint(), Meter()
    await take_up(directory, meter)
    return Sample(meter.cpu)


async def stall() -> Sample:
    """The longest that the loop was held up by a resume that reads every event."""
    beat = Beat()
    await take_up(without_checkpoint(), Meter(), beat)
    return Sample(beat.worst * 1e3)


async def held_of_it() -> Sample:
    """Traced bytes of the resumed session and its agent, its surface included."""
    directory = await with_checkpoint()
    async with Host(store=JsonlStore(directory)) as host:
        gc.collect()
        tracemalloc.start()
        handle = await host.agents.resume("million", agent_options=OPTIONS)
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        await handle.dispose(keep_inbox=True)
    return Sample(used / 1e6)


async def look(path: str) -> str:
    """Look at something."""
    return path + LONG_RESULT


async def held_live() -> Sample:
    """Bytes that 1,000 turns with long results add, their history included: of a stored session, and of one in memory."""
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as name:
        return Sample(await _held(JsonlStore(name, fsync="never")), await _held(None))


async def _held(store: SessionStore | None) -> float:
    answers = [answer for _ in range(TURNS) for answer in (Answer(calls=[Call("look", {"path": "x"})]), "seen")]
    async with Host(store=store) as host:
        host.models.register("bench", ScriptedModel(answers))
        host.tools.register(tool(look))
        handle = await host.agents.create(agent_options=OPTIONS)
        gc.collect()
        tracemalloc.start()
        for _ in range(TURNS):
            handle.agent.followup("what is there?")
            await handle.agent.when_idle()
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    return used / 1e6


def _command(*words: str) -> float:
    command = [sys.executable, "-m", "treadle_cli", *words]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = _children()
    subprocess.run(command, check=True, capture_output=True, env=kept)
    return _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def first_screen() -> Sample:
    """CPU seconds of the command that shows a part, the start of Python included."""
    _, directory = million()
    return Sample(_command("show", str(directory / "million.jsonl"), "--before", str(EVENTS)))


def page() -> Sample:
    """Megabytes of the page."""
    _, directory = million()
    out = directory / "page.html"
    _command("show", str(directory / "million.jsonl"), "--html", str(out))
    size = out.stat().st_size
    out.unlink()
    return Sample(size / 1e6)


BENCHMARKS = [
    Benchmark(
        "million-resume", "resuming 1,000,000 events without a checkpoint, and making one", "CPU s", 6.0,
        resumed_whole, "at-most", warm_up=False,
    ),
    Benchmark(
        "million-checkpoint", "resuming 1,000,000 events from a checkpoint", "CPU s", 1.0,
        resumed_from_a_checkpoint, "at-most",
    ),
    Benchmark(
        "million-stall", "the loop's longest stall while 1,000,000 events are read", "CPU ms", 50.0,
        stall, "at-most", warm_up=False,
    ),
    Benchmark(
        "million-held", "memory of a resumed session of 1,000,000 events, its surface included", "MB", 100.0,
        held_of_it, "at-most", warm_up=False,
    ),
    Benchmark(
        "thousand-turns", "memory of 1,000 turns with long results, their history included; floor: a session in memory",
        "MB", 0.8, held_live, warm_up=False,
    ),
    Benchmark("show-end", "`treadle show` of 1,000,000 events: a screen", "CPU s", 1.0, first_screen, "at-most"),
    Benchmark("page", "`treadle show --html` of 1,000,000 events", "MB", 20.0, page, "at-most", warm_up=False),
]  # fmt: skip
