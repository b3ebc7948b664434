"""Ctrl-C at random moments of ``treadle run``, its beginning and end included: it ends, quietly, and leaves a sound log."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.chat_server import ChatServer, serving
from tests.cli.terminal import environment
from treadle_specs.logs.checker import check_file

PROGRAM = Path(__file__).with_name("interrupted.py")
MOMENTS = int(os.environ.get("TREADLE_INTERRUPTS", "14"))
"""How many interrupted runs of each kind; the long form has 1,000."""
ALLOWED = {0, 130, -2}
"""Exit statuses: it was over already, it was interrupted, or there was nothing to wind down."""
NOISE = ("Traceback", "TrioInternalError", "Exception ignored", "KeyboardInterrupt", "Error:")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as served:
        yield served


@pytest.fixture
def runs(server: ChatServer, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs the command in forks; see there."""
    env = environment(TERM="xterm", XDG_STATE_HOME=str(tmp_path / "state"), PYTHONWARNINGS="ignore")
    words = [sys.executable, str(PROGRAM), server.url]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as child:
        yield child
        assert child.stdin is not None
        child.stdin.close()


def answered(runs: subprocess.Popen[str], **job: Any) -> dict[str, Any]:
    assert runs.stdin is not None
    assert runs.stdout is not None
    runs.stdin.write(json.dumps(job) + "\n")
    runs.stdin.flush()
    return json.loads(runs.stdout.readline())


def script(server: ChatServer) -> None:
    """What a turn is: a tool call, then words in several pieces."""
    call = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "now", "arguments": "{}"}}]}
    server.answers[:] = [[call], ["One ", "two ", "three."]] * 3


@pytest.mark.slow
@pytest.mark.rule("H11", "O4", "N3")
@pytest.mark.parametrize("kind", ["prompt", "lines", "terminal"])
def test_ctrl_c_at_a_random_moment_of_a_run_ends_it_quietly_and_leaves_a_sound_log(
    kind: str, tmp_path: Path, server: ChatServer, runs: subprocess.Popen[str]
) -> None:
    chosen = random.Random(f"{kind} {MOMENTS}")
    script(server)
    whole = answered(runs, kind=kind, folder=str(tmp_path / "whole"), moments=[3.0])
    length = whole["seconds"] if kind != "terminal" else 1.0
    for number in range(MOMENTS):
        folder = tmp_path / str(number)
        moments = [chosen.random() * length * 1.1]
        if chosen.random() < 0.3:
            moments.append(moments[0] + chosen.random() ** 3 * 0.2)
        script(server)
        told = answered(runs, kind=kind, folder=str(folder), moments=moments)
        job = (moments, told)
        assert told["status"] in ALLOWED, job
        assert not any(word in told["written"] for word in NOISE), job
        at_once = "left without waiting" in told["written"]
        for log in folder.glob("*.jsonl"):
            found = check_file(log, finished=not at_once)
            assert not found.findings, (job, found.findings)
