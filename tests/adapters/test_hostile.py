"""Servers that mean harm, over a real socket: each ends within the bound, and holds up neither the loop nor a cancel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from tests.adapters.hostile import QUICK, SHAPES, Told
from treadle.models import DEFAULT_BOUNDS

MEMORY = 200_000_000
"""Bytes that a process may take while it meets one of them."""

STEP = 0.1
"""Seconds of processor time that one step of the loop may take, and that a cancel may take to settle."""

SMALL = 1024 * 1024
"""The bound on an answer in the short form; the long form has the default."""

LONG = bool(os.environ.get("TREADLE_HOSTILE"))
"""Whether every shape is met at the default bound and cancelled at six moments, which takes an hour."""

OTHERS = list(SHAPES) if LONG else [name for name in SHAPES if name not in QUICK]
MET = 1 if LONG else 8
"""How many shapes a process meets, one after the other."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    command = [sys.executable, "-m", "tests.adapters.hostile", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.kill()


def meetings(port: int, size: int, moments: str, *names: str) -> list[Told]:
    command = [sys.executable, "-m", "tests.adapters.hostile", "probe", str(port), str(size), moments, *names]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found = [msgspec.json.decode(line, type=Told) for line in done.stdout.splitlines()]
    assert len(found) == len(names) * len(moments.split(","))
    return found


def check(told: Told, size: int) -> None:
    """What holds of every meeting, whatever the server did."""
    assert told.peak < MEMORY, told
    assert told.longest < STEP, told
    assert told.settled < STEP, told
    assert told.largest < 2 * size + 100_000, told
    if told.moment:
        assert told.end in ("aborted", "error", "completed"), told
    else:
        ends = SHAPES[told.shape].ends
        assert told.end == ends or (ends == "any" and told.end in ("error", "completed")), told
        assert told.message or told.end != "error", told


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rule("X3", "C5", "N7")
@pytest.mark.parametrize("name", QUICK)
def test_a_hostile_stream_ends_within_the_bound_and_a_cancel_settles_at_once(name: str, port: int) -> None:
    for told in meetings(port, SMALL, "0,60", name):
        check(told, SMALL)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.rule("X3", "C5", "N7")
@pytest.mark.parametrize(
    "names", [OTHERS[at : at + MET] for at in range(0, len(OTHERS), MET)], ids=lambda names: names[0]
)
def test_every_hostile_stream_ends_within_the_bound(names: list[str], port: int) -> None:
    size, moments = (DEFAULT_BOUNDS.bytes, "0,1,10,40,200,1000") if LONG else (SMALL // 4, "0")
    for told in meetings(port, size, moments, *names):
        check(told, size)


def test_the_table_has_the_shapes_of_the_field() -> None:
    assert len(SHAPES) >= 80
    assert set(QUICK) <= set(SHAPES)
