"""What work costs in instructions of the processor, which no load of the machine changes: counted by valgrind.

One process imports everything and is forked for each kind and amount of work; a fork's count starts with what was counted before
it. So the price of a unit is the difference of two amounts, and neither the import nor what is done once counts. What is done every
few milliseconds would be done the more often the slower the machine is: in a fork both clocks are virtual. Two runs differ by less
than a hundredth.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import count as count_up
from itertools import cycle
from pathlib import Path

import trio
from attrs import frozen
from trio.testing import MockClock

from treadle import Host
from treadle.hooks import ASSISTANT_STREAM

from .floors import TurnFloor, bare_for, tool_loop
from .subjects import OPTIONS, Pacing, Prebuilt, Stepping, agent_of, text_answer, tool_answer, turns
from .turns import listen_everywhere

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"^(\S+) (ours|floor) (\d+) (\d+)$", re.MULTILINE)
"""What a fork tells: of which work it is, whose, how much, and its number as a process."""

Do = Callable[[int], Awaitable[None]]


@frozen
class Work:
    """Work of ours, and the floor's.

    Attributes:
        what: in a sentence.
        ours: does so many units.
        floor: the same for the floor.
        amounts: two of them; the difference counts.
    """

    what: str
    ours: Do
    floor: Do
    amounts: tuple[int, int]


# --- work -------------------------------------------------------------------------------------------------------------


async def _turns(count: int) -> None:
    async with agent_of(Prebuilt()) as agent:
        await turns(agent, count)


async def _bare_turns(count: int) -> None:
    floor = TurnFloor()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(floor.serve)
        await floor.turns(count)
        floor.stop()


async def _steps(count: int) -> None:
    async with agent_of(Stepping([tool_answer([f"call-{number}"]) for number in range(count - 1)])) as agent:
        await turns(agent, 1)


async def _chunks(count: int) -> None:
    async with agent_of(Prebuilt([text_answer("word ", count)])) as agent:
        await turns(agent, 1)


async def _heard_chunks(count: int) -> None:
    async with agent_of(Prebuilt([text_answer("word ", count)]), _listen) as agent:
        await turns(agent, 1)


async def _bare_chunks(count: int) -> None:
    stream = Prebuilt([text_answer("word ", count)]).stream(None)  # type: ignore[arg-type]  # it looks at no request
    await bare_for(stream)


async def _heard_turns(count: int) -> None:
    async with agent_of(_calling(), listen_everywhere) as agent:
        await turns(agent, count)


async def _unheard_turns(count: int) -> None:
    async with agent_of(_calling()) as agent:
        await turns(agent, count)


async def _agents(count: int) -> None:
    async with Host() as host:
        host.models.register("bench", Prebuilt())
        for _ in range(count):
            await host.agents.create(agent_options=OPTIONS)


def _listen(host: Host) -> None:
    host.on(ASSISTANT_STREAM, lambda told: None)  # noqa: ARG005 - the interface


def _calling() -> Prebuilt:
    said = text_answer("word ", 10)
    return Pacing(cycle([[*said[:-1], *tool_answer(["call"], start=1)], said]))


WORKS: Mapping[str, Work] = {
    "turn": Work("a one-step turn; floor: that of the row `turn`", _turns, _bare_turns, (20, 60)),
    "tool-step": Work("a step of a tool turn; floor: that of the row `tool-step`", _steps, tool_loop, (20, 80)),
    "chunk": Work("a chunk of a long answer; floor: the bare loop over it", _chunks, _bare_chunks, (500, 2_500)),
    "heard-chunk": Work("the same with a listener; floor: the bare loop", _heard_chunks, _bare_chunks, (500, 2_500)),
    "listeners": Work(
        "a turn of two answers and a call, three listeners on every hook point; floor: the same without",
        _heard_turns,
        _unheard_turns,
        (4, 12),
    ),
    "creation": Work("an agent made and disposed; floor: that of the row `turn`", _agents, _bare_turns, (20, 60)),
}
"""What is counted, by name."""


# --- counting ---------------------------------------------------------------------------------------------------------


def available() -> bool:
    """Whether valgrind is here."""
    return shutil.which("valgrind") is not None


def count() -> dict[str, tuple[float, float]]:
    """Instructions per unit of each work: ours, and the floor's. It takes some twenty seconds of processor time.

    Raises:
        FileNotFoundError: there is no valgrind.
        subprocess.CalledProcessError: the work failed; its errors are on stderr.
    """
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as folder:
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--log-file=/dev/null",
                   f"--cachegrind-out-file={folder}/%p", sys.executable, "-m", f"{__package__}.instructions"]  # fmt: skip
        told = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}
        ).stdout
        counted = {
            (name, side, int(amount)): _counted(Path(folder) / process)
            for name, side, amount, process in LINE.findall(told)
        }
    return {name: (_unit(counted, name, "ours"), _unit(counted, name, "floor")) for name in WORKS}


def _counted(file: Path) -> int:
    summary = re.search(r"^summary: (\d+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert summary is not None, "cachegrind has left no summary"
    return int(summary[1])


def _unit(counted: Mapping[tuple[str, str, int], int], name: str, side: str) -> float:
    few, many = WORKS[name].amounts
    return (counted[name, side, many] - counted[name, side, few]) / (many - few)


def _fork(do: Do, amount: int) -> int:
    """Do so much of the work in a process of its own; returns its number."""
    child = os.fork()
    if not child:
        status = 1
        try:
            time.time = count_up(1_700_000_000.0, 1e-6).__next__
            trio.run(do, amount, clock=MockClock(autojump_threshold=0))
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("the work failed")
    return child


def main() -> None:
    """Do each amount of each work in a fork, and tell which it was: what ``count`` runs under valgrind."""
    gc.collect()
    gc.freeze()
    for name, work in WORKS.items():
        for side, do in (("ours", work.ours), ("floor", work.floor)):
            for amount in work.amounts:
                print(name, side, amount, _fork(do, amount), flush=True)


if __name__ == "__main__":
    main()
