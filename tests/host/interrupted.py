"""A plain trio program, or an asyncio one over a bridge, that loops turns until Ctrl-C; for each line on stdin, a forked one of it runs.

child.py: a line of JSON names ``store``, ``path`` and ``work``; after ``work`` seconds of processor time from its
first turn on the fork interrupts itself. The answer is how it ended and what it wrote to stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import trio

from treadle import AgentOptions, Answer, Call, Host, ScriptedModel, tool
from treadle.asyncio import Bridge
from treadle.hooks import AGENT_STATUS, SESSION_EVENT, TURN_STOPPING
from treadle_adapters.stores import open_store

LONG = 20
"""Seconds after which a program that was interrupted counts as hung."""


class Interrupter:
    """Sends this process SIGINT once it has worked for a while after its first turn."""

    def __init__(self, work: float) -> None:
        self._work = work
        self._seen = threading.Event()
        self.sent = False
        threading.Thread(target=self._wait, daemon=True).start()

    @trio.lowlevel.enable_ki_protection
    def see(self, _: object) -> None:
        """A turn is under way. Protected: an interrupted ``threading.Event`` may stay locked for ever."""
        self._seen.set()

    def _wait(self) -> None:
        self._seen.wait()
        begun, tick = time.process_time(), threading.Event()
        while time.process_time() - begun < self._work:
            tick.wait(0.0002)
        self.sent = True
        os.kill(os.getpid(), signal.SIGINT)


@tool
async def look(word: str) -> str:
    """Look something up."""
    await trio.lowlevel.checkpoint()
    return word.upper()


@tool
def count(word: str) -> int:
    """Count in a worker thread."""
    return len(word)


async def told(_: object) -> None:
    await trio.lowlevel.checkpoint()


async def program(kind: str, path: str, interrupter: Interrupter) -> None:
    model = ScriptedModel()
    async with open_store(kind, path) as store, Host(store=store) as host:
        host.models.register("scripted", model)
        host.tools.register(look)
        host.tools.register(count)
        host.on(SESSION_EVENT, interrupter.see)
        host.on(AGENT_STATUS, told)
        host.on(TURN_STOPPING, told)
        handle = await host.agents.create(session_id="s", agent_options=AgentOptions("scripted", "m"))
        async with handle as agent:
            while True:
                model.push(Answer("let me see", calls=[Call("look", {"word": "a"}), Call("count", {"word": "b"})]))
                model.push("done")
                agent.followup("go")
                await agent.when_idle()


async def bridged_program(interrupter: Interrupter) -> None:
    model = ScriptedModel()
    host = Host()
    host.models.register("scripted", model)
    host.tools.register(count)
    async with Bridge(host) as bridge:

        @bridge.tool
        async def look(word: str) -> str:
            """Look something up."""
            await asyncio.sleep(0)
            return word.upper()

        await bridge.tools.register(look)
        await bridge.on(SESSION_EVENT, interrupter.see)
        async with await bridge.agents.create(agent_options=AgentOptions("scripted", "m")) as agent:
            while True:
                model.push(Answer("let me see", calls=[Call("look", {"word": "a"}), Call("count", {"word": "b"})]))
                model.push("done")
                await agent.ask("go")


def run(kind: str, path: str, work: float) -> str:
    """Run the program to its end; returns how it ended."""
    interrupter = Interrupter(work)
    try:
        if kind == "bridge":
            asyncio.run(bridged_program(interrupter))
        else:
            trio.run(program, kind, path, interrupter)
    except KeyboardInterrupt:
        return "interrupted"
    except BaseException:
        return traceback.format_exc()
    return "returned"


def forked(job: dict[str, Any]) -> None:
    """Run one program in this fork, and leave its end in a file."""
    errors = os.open(job["path"] + ".stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(errors, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ended = run(job["store"], job["path"], job["work"])
    Path(job["path"] + ".ended").write_text(ended)
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if not pid:
            forked(job)
        begun = time.monotonic()
        done = 0
        while not done and time.monotonic() - begun < LONG:
            done, _ = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.001)
        if not done:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        ended = Path(job["path"] + ".ended")
        errors = Path(job["path"] + ".stderr")
        answer = {
            "ended": ended.read_text() if ended.exists() else "hung" if not done else "died",
            "stderr": errors.read_text() if errors.exists() else "",
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
