"""Ctrl-C at random moments of a plain trio program, on every store, and of an asyncio one over a bridge: it ends, soundly."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from treadle import Agent, Answer, Call, ScriptedModel, State, open_agent, tool
from treadle.hooks import PRE_STEP, SESSION_EVENT
from treadle.session import StoredSession
from treadle_adapters.stores import open_store
from treadle_specs.logs.checker import check_events

PROGRAM = Path(__file__).with_name("interrupted.py")
MOMENTS = int(os.environ.get("TREADLE_INTERRUPTS", "14"))
"""How many interrupts per store; the long form has 1,000."""


@pytest.fixture
def programs() -> Iterator[subprocess.Popen[str]]:
    """Runs the program in forks of itself; see there."""
    with subprocess.Popen([sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        yield child
        assert child.stdin is not None
        child.stdin.close()


def stored(kind: str, path: Path) -> StoredSession:
    async def read() -> StoredSession:
        async with open_store(kind, path) as store:
            return await store.inspect("s")

    return trio.run(read)


@pytest.mark.slow
@pytest.mark.rule("H11", "O4", "N3")
@pytest.mark.parametrize("kind", ["memory", "jsonl", "sqlite", "bridge"])
def test_ctrl_c_at_a_random_moment_ends_the_program_and_leaves_a_sound_log(
    kind: str, tmp_path: Path, programs: subprocess.Popen[str]
) -> None:
    chosen = random.Random(f"{kind} {MOMENTS}")
    assert programs.stdin is not None
    assert programs.stdout is not None
    for number in range(MOMENTS):
        path = tmp_path / str(number)
        path.mkdir()
        job = {"store": kind, "path": str(path), "work": chosen.random() ** 2 * 0.1}
        programs.stdin.write(json.dumps(job) + "\n")
        programs.stdin.flush()
        answer = json.loads(programs.stdout.readline())
        assert answer == {"ended": "interrupted", "stderr": ""}, job
        if kind in ("jsonl", "sqlite"):
            session = stored(kind, path)
            found = check_events(session.events, header=session.header, finished=True)
            assert not found.findings, job
            assert session.torn is None


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.rule("H11", "H5", "N3")
@pytest.mark.parametrize("where", ["tool", "hook", "listener"])
def test_ctrl_c_reaches_a_tool_or_listener_that_computes(where: str) -> None:
    beyond: list[str] = []
    agents: list[Agent] = []

    def compute(*_: object) -> None:
        interrupt()
        beyond.append("not interrupted")

    @tool
    async def work() -> None:
        compute()

    async def decide(_: object, proceed: Any) -> Any:
        compute()
        return await proceed()

    async def main() -> None:
        async with open_agent(model=ScriptedModel([Answer(calls=[Call("work")])], default="x"), tools=[work]) as agent:
            agents.append(agent)
            if where == "hook":
                agent.scope.on(PRE_STEP, decide)
            elif where == "listener":
                agent.scope.on(SESSION_EVENT, lambda _: compute())
            agent.followup("go")
            await agent.when_idle()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert beyond == []
    assert agents[0].session.events[-1].type == "turn/end"


@pytest.mark.rule("H11", "O4")
def test_ctrl_c_while_the_host_is_left_waits_until_everything_is_wound_down() -> None:
    done: list[str] = []
    agents: list[Agent] = []

    async def clean_up() -> None:
        interrupt()
        for _ in range(20):
            await trio.lowlevel.checkpoint()
            interrupt()
        done.append("cleaned up")

    async def main() -> None:
        async with open_agent(model=ScriptedModel(["x"])) as agent:
            agents.append(agent)
            agent.scope.defer(clean_up)
            await agent.ask("go")

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert done == ["cleaned up"]
    assert agents[0].state is State.DISPOSED
