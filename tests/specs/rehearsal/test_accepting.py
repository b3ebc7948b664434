"""Accepting writes the new recording whole, or leaves the old one as it was."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.specs.rehearsal.recorded_agent import make
from treadle_specs.logs.checker import check_file
from treadle_specs.rehearsal import accepting, rehearse

SESSIONS = Path(__file__).parent / "sessions"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the recorded sessions."""
    return Path(shutil.copytree(SESSIONS, tmp_path / "sessions"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", ["word", "schema", "context-order", "no-asking", "delay", "no-executed", "no-objection"]
)
def test_what_is_accepted_is_sound_and_rehearsed_without_a_difference(change: str, folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    told = rehearse(folder, make(change), accept=True)
    changed = [one for one in told.sessions if one.difference is not None]
    assert changed
    assert [str(one) for one in told.sessions if one.trouble is not None and "not accepted" not in one.trouble] == []
    for one in changed:
        assert one.accepted
        assert one.path.read_bytes() != before[one.path.name]
        assert check_file(one.path).sound
        rehearse(one.path, make(change)).check()
    for one in told.sessions:
        if one.same and not one.with_parent:
            assert one.path.read_bytes() == before[one.path.name]
    assert sorted(path.name for path in folder.iterdir()) == sorted(before)


def test_what_was_the_same_stays_byte_for_byte_and_times_are_kept(folder: Path) -> None:
    path = folder / "hooks-at-work.jsonl"
    before = path.read_bytes().splitlines()
    (one,) = rehearse(path, make("no-objection"), accept=True).sessions
    assert one.difference is not None
    after = path.read_bytes().splitlines()
    assert after[: one.difference.seq + 1] == before[: one.difference.seq + 1]
    times = [json.loads(line)["time"] for line in after[1:]]
    assert times == sorted(times)
    assert set(times) <= {json.loads(line)["time"] for line in before[1:]}


def test_a_session_that_died_and_was_resumed_is_accepted_over_all_its_lives(folder: Path) -> None:
    path = folder / "died-in-tools.jsonl"
    (one,) = rehearse(path, make("word"), accept=True).sessions
    assert one.accepted == (path,)
    text = path.read_text(encoding="utf-8")
    assert "large mill" in text
    assert "small mill" not in text
    assert "TOOL_OUTCOME_UNKNOWN" in text
    rehearse(path, make("word")).check()


def test_nothing_is_written_where_the_agent_asks_for_more_than_was_recorded(folder: Path) -> None:
    """Without the guard a call runs for which there is no result but the refusal; with more steps an answer is missing."""
    path = folder / "hooks-at-work.jsonl"
    before = path.read_bytes()
    (one,) = rehearse(path, make("no-submitted"), accept=True).sessions
    assert one.trouble is not None
    assert "not accepted" in one.trouble
    assert "was not recorded" in one.trouble
    assert path.read_bytes() == before


def test_a_write_that_fails_leaves_the_old_recording(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "three-days.jsonl"
    before = {each.name: each.read_bytes() for each in folder.iterdir()}

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(accepting.os, "fsync", full)
    (one,) = rehearse(path, make("word"), accept=True).sessions
    assert one.trouble is not None
    assert "No space left" in one.trouble
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before


def test_a_compressed_recording_is_not_overwritten(folder: Path) -> None:
    plain = folder / "three-days.jsonl"
    packed = plain.rename(folder / "three-days.jsonl.zst")

    def opener(path: Path) -> object:
        from treadle_specs.rehearsal import read_recording

        read = read_recording(path)
        return read.header, read.events

    (one,) = rehearse(packed, make("word"), accept=True, openers=(opener,)).sessions  # type: ignore[arg-type]
    assert one.trouble is not None
    assert "unpack it first" in one.trouble
