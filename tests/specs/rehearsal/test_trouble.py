"""What cannot be rehearsed is told with what to do, and does not keep others from being rehearsed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.specs.rehearsal.recorded_agent import make_agent
from treadle import Host, MisuseError, ScriptedModel
from treadle_specs.rehearsal import rehearse

SESSIONS = Path(__file__).parent / "sessions"
SESSION = SESSIONS / "three-days.jsonl"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "there is nothing"),
        (b"not a log\n", "no session log"),
        (b'{"type": "something"}\n', "no session log"),
        (b'{"type":"session","formatVersion":0,"id":"a","createdAt":1,"cwd":"/"}\n', "format"),
        (b'{"type":"session","formatVersion":99,"id":"a","createdAt":1,"cwd":"/"}\n', "newer"),
    ],
)
def test_what_is_no_log_is_told(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    (one,) = rehearse(path, make_agent).sessions
    assert one.trouble is not None
    assert said in one.trouble
    assert "bad.jsonl" in str(one)
    assert not one.same


def test_damage_in_the_middle_is_told_with_its_line(tmp_path: Path) -> None:
    lines = SESSION.read_bytes().splitlines(keepends=True)
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(b"".join([*lines[:4], b"{]\n", *lines[5:]]))
    (one,) = rehearse(path, make_agent).sessions
    assert one.trouble is not None
    assert "5" in one.trouble


def test_a_bad_file_does_not_keep_the_others_from_being_rehearsed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"not a log\n")
    (tmp_path / "b.jsonl").write_bytes(SESSION.read_bytes())
    first, second = rehearse(tmp_path, make_agent).sessions
    assert first.trouble is not None
    assert second.same


def test_a_path_that_is_not_there_and_an_empty_folder_are_misuse(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="there is no file"):
        rehearse(tmp_path / "none.jsonl", make_agent)
    with pytest.raises(MisuseError, match="holds no recorded session"):
        rehearse(tmp_path, make_agent)


def test_a_maker_that_raises_is_told() -> None:
    def make(_: Host) -> None:
        raise KeyError("no such table")

    (one,) = rehearse(SESSION, make).sessions
    assert one.trouble is not None
    assert "making the agent failed: KeyError: 'no such table'" in one.trouble


def test_a_maker_that_returns_something_else_is_told() -> None:
    (one,) = rehearse(SESSION, lambda _: 7).sessions
    assert one.trouble is not None
    assert "it returned int" in one.trouble


def test_a_maker_that_takes_something_else_is_told() -> None:
    (one,) = rehearse(SESSION, lambda: None).sessions  # type: ignore[arg-type, misc]  # pyright: ignore[reportArgumentType]
    assert one.trouble is not None
    assert "positional argument" in one.trouble


def test_a_route_that_nobody_serves_is_told() -> None:
    def make(host: Host) -> None:
        host.models.register("another", ScriptedModel())

    (one,) = rehearse(SESSION, make).sessions
    assert one.trouble is not None
    assert "no adapter serves provider 'scripted' (known: another)" in one.trouble


def test_a_report_fails_a_test_that_checks_it() -> None:
    with pytest.raises(AssertionError, match="making the agent failed"):
        rehearse(SESSION, lambda _: 7).check()
