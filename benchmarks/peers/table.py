"""Drivers of agents measured in turns: each a child process, asked for the same work round by round."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median

from attrs import frozen

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / ".rigs"
INSTALL = ROOT / "examples" / "rigs" / "run.py"
"""Makes the environments; the versions are pinned by the rigs of ``examples/rigs/``."""

WORK: Mapping[str, int] = {"turns": 100, "steps": 100, "chunks": 10_000}
"""Kinds of work, and how much of each a round has."""
ROUNDS = 5


@frozen
class Peer:
    """A driver of agents.

    Attributes:
        name: of its script and its environment.
        title: how the page calls it.
        keeps: what is there after a turn, in the setting that is measured.
    """

    name: str
    title: str
    keeps: str

    @property
    def command(self) -> list[str]:
        """Starts the script in its environment."""
        script = next(HERE.glob(f"on_{self.name}.*"))
        if script.suffix == ".mjs":
            return ["node", str(script)]
        python = sys.executable if self.name == "treadle" else str(ENVIRONMENTS / self.name / "bin" / "python")
        return [python, str(script)]

    @property
    def installed(self) -> bool:
        """Whether its environment is there."""
        return self.name == "treadle" or (ENVIRONMENTS / self.name).is_dir()


PEERS = (
    Peer(
        "treadle",
        "treadle",
        "A log of every fact (message, request, chunk with its time, call, result, end), from which history, resume, pictures "
        "and checks are made; here in memory.",
    ),
    Peer(
        "agent_framework",
        "agent-framework-core",
        "The messages, in a session. No chunks, no times, no record of a run that was stopped.",
    ),
    Peer(
        "langgraph",
        "langgraph",
        "A checkpoint of the whole state per super-step, here in memory; the messages. No chunks.",
    ),
    Peer(
        "openai_agents",
        "openai-agents",
        "The items of each run in a SQLite database, here in memory. No chunks. Tracing is switched off.",
    ),
    Peer(
        "pi_agent_core",
        "pi-agent-core",
        "The messages, in an array. No log. It runs on Node.js, compiled as it runs; all others on CPython.",
    ),
    Peer(
        "pydantic_ai",
        "pydantic-ai",
        "Nothing by itself: a run returns its messages, and the caller hands them to the next. No chunks.",
    ),
)
"""All of them, treadle first."""


@frozen
class Standing:
    """What one driver reached.

    Attributes:
        peer: the name of its script.
        version: as it says.
        rates: units per second of processor time, by kind of work; the median of the rounds.
    """

    peer: str
    version: str
    rates: dict[str, float]


class Runner:
    """The child process of one driver.

    Raises:
        RuntimeError: it does not start, or did not do what it was to do; its errors are on stderr.
    """

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._process = subprocess.Popen(peer.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self._read()

    def seconds(self, kind: str, amount: int) -> float:
        """Processor time of so much work."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {amount}\n")
        self._process.stdin.flush()
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise RuntimeError(f"{' '.join(self.peer.command)} has ended with status {self._process.returncode}")
        return line.strip()

    def close(self) -> None:
        """End the process, and wait for its end."""
        self._process.kill()
        self._process.communicate()


def install(peers: Iterable[Peer] = PEERS) -> None:
    """Make the environments that are not there, from the package registries.

    Raises:
        subprocess.CalledProcessError: an install failed.
    """
    names = [peer.name for peer in peers if peer.name != "treadle"]
    subprocess.run([sys.executable, str(INSTALL), "--install", *names], check=True)


def compare(peers: Sequence[Peer], rounds: int = ROUNDS, work: Mapping[str, int] = WORK) -> list[Standing]:
    """Measure these drivers, one after the other in each round; a round of each is thrown away first.

    Raises:
        RuntimeError: one does not start, or did not do what it was to do.
    """
    with ExitStack() as stack:
        runners = [stack.enter_context(closing(Runner(peer))) for peer in peers]
        spent: dict[tuple[str, str], list[float]] = {}
        for number in range(rounds + 1):
            for kind, amount in work.items():
                for runner in runners:
                    seconds = runner.seconds(kind, amount)
                    if number:
                        spent.setdefault((runner.peer.name, kind), []).append(amount / seconds)
        return [
            Standing(runner.peer.name, runner.version, {kind: median(spent[runner.peer.name, kind]) for kind in work})
            for runner in runners
        ]
