"""``treadle run``, forked once for each line on stdin: a run costs no imports, and Ctrl-C comes at a moment of its own.

interrupted.py URL: a line of JSON names ``kind`` (``prompt``, ``lines`` or ``terminal``), ``folder`` and ``moments``, seconds from
the fork on; at each of them, while it lives, the fork gets SIGINT. The answer is how it ended and what it wrote.
"""

from __future__ import annotations

import importlib
import json
import os
import pty
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import treadle_cli

IMPORTED = (
    "certifi",
    "httpcore._backends.trio",
    "treadle_adapters.models.openai_chat",
    "treadle_adapters.stores.jsonl",
    "treadle_cli.commands",
    "treadle_cli.run.command",
)
LONG = 30.0
"""Seconds after which a run that was interrupted counts as hung."""
AGAIN = 0.5
"""Seconds after which one that goes on, as a conversation does, is interrupted again."""
LINES = b"one\ntwo\nthree\n"


def begin(kind: str, folder: str, url: str) -> tuple[int, int]:
    """Fork a run; returns its pid, and what its output can be read from."""
    words = ["treadle", "run", "--base-url", url, "--session-dir", folder]
    ours, theirs = (-1, -1) if kind == "terminal" else os.pipe()
    typed, types = os.pipe()
    pid, terminal = pty.fork() if kind == "terminal" else (os.fork(), -1)
    if pid:
        if kind == "terminal":
            os.write(terminal, b"one\r")
        else:
            os.close(theirs)
            os.write(types, LINES)
        os.close(types)
        os.close(typed)
        return pid, terminal if kind == "terminal" else ours
    if kind != "terminal":
        os.dup2(typed, 0)
        os.dup2(theirs, 1)
        os.dup2(theirs, 2)
    os.closerange(3, 64)
    sys.stdin, sys.stdout, sys.stderr = [
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    ]
    sys.argv = [*words, "one"] if kind == "prompt" else words
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ready = treadle_cli._ready

    def hear(tokens: list[str]) -> Callable[[], int]:
        """The first that the command does: from here on a Ctrl-C, one that waits included, is its own."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return ready(tokens)

    treadle_cli._ready = hear
    raise SystemExit(treadle_cli.command())


def watch(pid: int, output: int, moments: list[float]) -> dict[str, Any]:
    """Interrupt a run at its moments, and read what it writes until it has ended."""
    begun = time.monotonic()
    written = b""
    while True:
        now = time.monotonic() - begun
        if moments and now >= moments[0]:
            os.kill(pid, signal.SIGINT)
            later = moments[1:] or [now + AGAIN]
            moments = later
        if now > LONG:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return {"status": "hung", "written": written.decode("utf-8", "replace")}
        if select.select([output], [], [], max(0.0, min(0.005, moments[0] - now)))[0]:
            written += read(output)
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            while select.select([output], [], [], 0)[0] and (rest := read(output)):
                written += rest
            ended = os.waitstatus_to_exitcode(status)
            return {"status": ended, "seconds": now, "written": written.decode("utf-8", "replace")}


def read(output: int) -> bytes:
    try:
        return os.read(output, 65536)
    except OSError:  # the other side of a terminal is gone
        return b""


def serve() -> None:
    """Import what a run imports, then fork."""
    for name in IMPORTED:
        importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        job = json.loads(line)
        Path(job["folder"]).mkdir()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        pid, output = begin(job["kind"], job["folder"], sys.argv[1])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        answer = watch(pid, output, job["moments"])
        os.close(output)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
