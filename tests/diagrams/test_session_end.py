"""The end of a log is read without what lies before, and so is any part that ends before some event."""

from pathlib import Path

import pytest

from tests.diagrams.logs import HEADER, long_log
from treadle import Event, SessionCorrupt, TreadleError
from treadle.session import TurnEnd, encode_event, encode_header
from treadle_diagrams import session_page, transcript
from treadle_diagrams.log.ending import read_end
from treadle_diagrams.log.file import read_session, read_through

EVENTS = long_log(400)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    lines = [encode_header(HEADER), *[encode_event(entry) for entry in EVENTS]]
    path.write_bytes(b"".join([line + b"\n" for line in lines]))
    return path


def test_a_size_beyond_the_file_gives_all_of_it(path: Path) -> None:
    session = read_end(path, 1 << 30)
    assert (session.events, session.left_out, session.trouble) == (tuple(EVENTS), 0, None)


@pytest.mark.parametrize("size", [1, 100, 2_000, 20_000])
def test_what_is_read_is_the_end_of_the_log_from_a_turn_on(path: Path, size: int) -> None:
    session = read_end(path, size)
    first = session.left_out
    assert 0 < first < len(EVENTS)
    assert session.events == tuple(EVENTS[first:])
    assert isinstance(EVENTS[first - 1].data, TurnEnd)
    assert transcript(session.events)[0].kind == "turn"


def test_going_back_part_by_part_gives_the_whole_log(path: Path) -> None:
    parts: list[Event] = []
    before = None
    while before != 0:
        session = read_end(path, 3_000, before)
        parts[:0] = session.events
        assert len(session.events) < 200
        before = session.left_out
    assert parts == list(EVENTS)


def test_what_lies_before_any_event_is_found(path: Path) -> None:
    for before in range(1, len(EVENTS) + 3, 7):
        assert len(read_end(path, 1 << 30, before).events) == min(before, len(EVENTS))


def test_a_torn_end_is_told_and_so_is_damage(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    session = read_end(path, 3_000)
    assert session.torn is not None
    assert session.events[len(session.events) - 1].seq == len(EVENTS) - 2
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-3], b"no event\n", *lines[-3:]]))
    session = read_end(path, 3_000)
    assert isinstance(session.damage, SessionCorrupt)
    assert session.damage.line == len(lines) - 2
    path.write_bytes(b"")
    with pytest.raises(TreadleError):
        read_end(path, 3_000)


def test_a_log_is_told_piece_by_piece_as_it_is_read_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle_diagrams.log.file._PIECE", 1_000)
    for harm in (lambda data: data, lambda data: data[:-9], lambda data: data[:5_000] + b"\n" + data[5_000:]):
        path.write_bytes(harm(path.read_bytes()))
        told: list[Event] = []
        session, whole = read_through(path, told.extend), read_session(path)
        assert tuple(told) == whole.events
        assert (session.trouble, session.header) == (whole.trouble, whole.header)


def test_a_page_of_the_end_stands_by_itself(path: Path) -> None:
    session = read_end(path, 3_000)
    page = session_page(session.header, session.events, "what is left out")
    assert "what is left out" in page
    assert f'data-seq="{session.events[len(session.events) - 1].seq}"' in page
    assert f'"first":{session.left_out}' in page
