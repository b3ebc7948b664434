"""Reading a session's file needs no store, changes nothing, and gives whatever can be read."""

from pathlib import Path

import pytest

from tests.diagrams.logs import HEADER, scripted
from treadle import MisuseError, SessionCorrupt
from treadle.errors import SessionFormatUnsupported
from treadle.session import encode_event, encode_header
from treadle_diagrams.log.file import LineReader, read_session

EVENTS = scripted("one-tool")
LINES = [encode_header(HEADER), *[encode_event(entry) for entry in EVENTS]]


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_bytes(data)
    return path


def test_a_whole_file_gives_header_and_events(tmp_path: Path):
    session = read_session(written(tmp_path, b"\n".join(LINES) + b"\n"))
    assert session.header == HEADER
    assert session.events == EVENTS
    assert session.trouble is None


def test_a_last_line_without_its_end_is_read(tmp_path: Path):
    session = read_session(written(tmp_path, b"\n".join(LINES)))
    assert session.events == EVENTS
    assert session.trouble is None


@pytest.mark.rule("P3")
@pytest.mark.parametrize(("tail", "told"), [(b'{"type":"turn/st', "half a line"), (b"\0" * 40, "NUL bytes")])
def test_a_torn_tail_is_left_out_and_told_and_the_file_is_not_changed(tmp_path: Path, tail: bytes, told: str):
    data = b"\n".join(LINES) + b"\n" + tail
    path = written(tmp_path, data)
    session = read_session(path)
    assert session.events == EVENTS
    assert session.torn is not None
    assert told in session.torn
    assert session.damage is None
    assert path.read_bytes() == data


@pytest.mark.rule("P3", "N6")
@pytest.mark.parametrize("line", [b"no json", b'{"type":"turn/start"}', LINES[3]])
def test_damage_before_the_end_is_told_with_its_line_and_what_lies_before_is_read(tmp_path: Path, line: bytes):
    session = read_session(written(tmp_path, b"\n".join([*LINES[:5], line, *LINES[5:]]) + b"\n"))
    assert session.events == EVENTS[:4]
    assert isinstance(session.damage, SessionCorrupt)
    assert "line 6" in str(session.trouble)


@pytest.mark.rule("S2")
def test_an_event_that_is_unknown_here_and_not_ignorable_ends_the_reading(tmp_path: Path):
    alien = b'{"type":"alien/thing","seq":4,"time":1,"data":{}}'
    session = read_session(written(tmp_path, b"\n".join([*LINES[:5], alien]) + b"\n"))
    assert session.events == EVENTS[:4]
    assert isinstance(session.damage, SessionFormatUnsupported)


@pytest.mark.parametrize("data", [b"", b"\n", b'{"type":"turn/start"}\n', b'{"type":"sess'])
def test_without_a_header_it_is_no_session(tmp_path: Path, data: bytes):
    with pytest.raises(SessionCorrupt, match="header"):
        read_session(written(tmp_path, data))


def test_a_compressed_file_is_refused_with_what_to_do(tmp_path: Path):
    path = tmp_path / "session.jsonl.zst"
    path.write_bytes(b"")
    with pytest.raises(MisuseError, match="zstd -d"):
        read_session(path)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_growing_file_gives_each_event_once_however_its_bytes_come(size: int):
    data = b"\n".join(LINES) + b"\n"
    reader = LineReader(Path("growing.jsonl"))
    taken = [entry for start in range(0, len(data), size) for entry in reader.take(data[start : start + size])]
    assert tuple(taken) == EVENTS
    assert reader.take(b"") == []
    assert reader.header == HEADER


def test_what_came_before_a_bad_line_in_the_same_bytes_is_not_lost():
    reader = LineReader(Path("growing.jsonl"))
    with pytest.raises(SessionCorrupt):
        reader.take(b"\n".join([*LINES[:3], b"no json", b""]))
    assert tuple(reader.taken()) == EVENTS[:2]
