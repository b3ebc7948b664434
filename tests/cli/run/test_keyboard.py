"""What keys do to a line, and lines from pipes and files."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from treadle_cli.run.keyboard import LONGEST_LINE, LineEditor, LineSplitter, can_edit, keys_of, typed_lines

UP, DOWN = "\x1b[A", "\x1b[B"


def typed(editor: LineEditor, keys: str) -> list[str]:
    return editor.feed(keys.encode())


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("hello", "hello"),
        ("hellp\x7fo", "hello"),
        ("x\x7f\x7f\x7fy", "y"),
        ("öl🧶\x7f", "öl"),
        ("one two three\x17", "one two "),
        ("one\x17two", "two"),
        ("all of it\x15new", "new"),
        ("a\tb", "a b"),
        ("a\x01\x02\x0c\x00b", "ab"),
        ("a\x1b[Db\x1b[1;5Cc\x1bOHd\x1bxe", "abcde"),
        ("a\x1b[200~pasted\x1b[201~", "apasted"),
        ("no end\x04", "no end"),
    ],
)
def test_keys_edit_the_line(keys: str, text: str) -> None:
    editor = LineEditor()
    assert typed(editor, keys) == []
    assert editor.text == text
    assert not editor.ended


def test_return_enters_the_line_and_several_at_once_are_several() -> None:
    editor = LineEditor()
    assert typed(editor, "one\rtwo\nthr") == ["one", "two"]
    assert typed(editor, "ee\r") == ["three"]
    assert editor.text == ""


def test_a_character_may_arrive_in_two_pieces_and_so_may_an_escape_sequence() -> None:
    editor = LineEditor()
    first, second = "ö".encode()[:1], "ö".encode()[1:]
    editor.feed(b"a" + first)
    editor.feed(second + b"\x1b")
    editor.feed(b"[")
    editor.feed(b"Db")
    assert editor.text == "aöb"


def test_up_and_down_bring_back_earlier_lines() -> None:
    editor = LineEditor()
    typed(editor, "one\rtwo\rtwo\r\r")
    for keys, text in ((UP, "two"), (UP, "one"), (UP, "one"), (DOWN, "two"), (DOWN, ""), (DOWN, "")):
        typed(editor, keys)
        assert editor.text == text
    typed(editor, UP + "!")
    assert typed(editor, "\r") == ["two!"]


def test_control_d_ends_on_an_empty_line_only() -> None:
    editor = LineEditor()
    assert typed(editor, "x\r\x04ignored\r") == ["x"]
    assert editor.ended


def test_a_line_has_a_bound() -> None:
    editor = LineEditor()
    typed(editor, "x" * (LONGEST_LINE + 10))
    assert len(editor.text) == LONGEST_LINE


def test_a_line_can_be_taken_back() -> None:
    editor = LineEditor()
    assert not editor.clear()
    typed(editor, "never mind")
    assert editor.clear()
    assert editor.text == ""


def test_the_splitter_keeps_what_is_not_a_whole_line_yet() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\r\ntw") == ["one"]
    assert splitter.feed(b"o\n\nlast") == ["two", ""]
    assert splitter.feed(b"") == ["last"]
    assert splitter.feed(b"") == []


async def lines_from(descriptor: int, editor: LineEditor | None = None) -> list[str]:
    return [line async for line in typed_lines(descriptor, editor, lambda text: None)]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


async def test_lines_come_through_a_pipe_as_they_are_written(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    got: list[str] = []

    async def read() -> None:
        async for line in typed_lines(reading, None, lambda text: None):
            got.append(line)  # noqa: PERF401  # seen as they come

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        os.write(writing, b"one\ntw")
        with trio.fail_after(10):
            while got != ["one"]:
                await trio.testing.wait_all_tasks_blocked()
        os.write(writing, b"o")
        os.close(writing)
    assert got == ["one", "two"]


async def test_lines_come_from_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\n\xff\n")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert await lines_from(descriptor) == ["one", "two", "�"]
    finally:
        os.close(descriptor)


async def test_nothing_comes_from_the_null_device() -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        assert await lines_from(descriptor) == []
    finally:
        os.close(descriptor)


async def test_an_editor_is_fed_and_told_about(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    shown: list[str] = []
    os.write(writing, b"hel")
    lines = typed_lines(reading, LineEditor(), shown.append)
    got: list[str] = []

    async def read() -> None:
        async for line in lines:
            got.append(line)  # noqa: PERF401  # seen as they come

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        with trio.fail_after(10):
            while shown != ["hel"]:
                await trio.testing.wait_all_tasks_blocked()
        os.write(writing, b"lo\r\x04")
    assert got == ["hello"]
    assert shown == ["hel", ""]


def test_a_terminal_gives_keys_one_by_one_and_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    termios = pytest.importorskip("termios")
    ours, theirs = os.openpty()
    try:
        monkeypatch.setenv("TERM", "xterm")
        assert can_edit(theirs)
        before = termios.tcgetattr(theirs)
        with keys_of(theirs) as mode:
            within = termios.tcgetattr(theirs)
            assert not within[3] & (termios.ICANON | termios.ECHO)
            assert within[3] & termios.ISIG, "Ctrl-C still interrupts"
            mode.leave()
            assert termios.tcgetattr(theirs) == before
            mode.enter()
            assert termios.tcgetattr(theirs) == within
        assert termios.tcgetattr(theirs) == before
        monkeypatch.setenv("TERM", "dumb")
        assert not can_edit(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_pipe_is_no_terminal(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert not can_edit(pipe[0])
