"""Two writers of one session, stopped and going on at any line: nobody loses what was acknowledged, and one writes (P2)."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.stores.makers import COMPRESSED, JSONL, SQLITE, Kind
from treadle_adapters.stores import locks, sqlite_link
from treadle_adapters.stores.sqlite import SqliteStore
from treadle_specs.machines.leases.sweep import Meeting, sweep

MODULES = tuple(
    [f"treadle_adapters.stores.{name}" for name in ("locks", "files", "jsonl", "sqlite_tables", "sqlite_link")]
)
ON_DISK = pytest.mark.parametrize("kind", [JSONL, COMPRESSED, SQLITE], ids=str)
ACTS = pytest.mark.parametrize("act", ["open", "append", "close"])


def busy() -> bool:
    """Whether this process is opening a file or a database."""
    return locks._OPENING.locked() or sqlite_link._MAKING.locked()


def make(kind: Kind):
    if kind is SQLITE:
        return lambda directory: SqliteStore(directory / "sessions.sqlite", busy=0.02)
    return kind.make


def steal(kind: Kind):
    def take(directory: Path, session_id: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            assert kind.faults.steal is not None
            kind.faults.steal(directory, session_id)

    return take


@pytest.mark.rule("P2", "N6")
@ON_DISK
@ACTS
@pytest.mark.parametrize("stolen", [False, True], ids=["locked", "stolen"])
def test_two_writers_that_stop_anywhere_lose_nothing(kind: Kind, act: str, stolen: bool) -> None:
    meeting = Meeting(make(kind), MODULES, steal(kind) if stolen else None, busy)
    assert sweep(meeting, act, "append", step=13, start=5) > 0


@pytest.mark.slow
@pytest.mark.rule("P2", "N6")
@ON_DISK
@ACTS
@pytest.mark.parametrize("other", ["append", "close"])
@pytest.mark.parametrize("stolen", [False, True], ids=["locked", "stolen"])
def test_two_writers_that_stop_at_any_line_lose_nothing(kind: Kind, act: str, other: str, stolen: bool) -> None:
    meeting = Meeting(make(kind), MODULES, steal(kind) if stolen else None, busy)
    assert sweep(meeting, act, other) > 20
