"""Lines that nobody edits: from pipes and files."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from treadle_cli.run.lines import LONGEST_LINE, LineSplitter, lines_of, no_lines


def test_the_splitter_keeps_what_is_not_a_whole_line_yet() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\r\ntw") == ["one"]
    assert splitter.feed(b"o\n\nlast") == ["two", ""]
    assert splitter.feed(b"") == ["last"]
    assert splitter.feed(b"") == []


def test_a_line_has_a_bound() -> None:
    (line,) = LineSplitter().feed(b"x" * (LONGEST_LINE + 10) + b"\n")
    assert len(line) == LONGEST_LINE


async def lines_from(descriptor: int) -> list[str]:
    return [line async for line in lines_of(descriptor)]


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
        async for line in lines_of(reading):
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


async def test_nothing_comes_from_the_null_device_and_from_a_closed_input() -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        assert await lines_from(descriptor) == []
    finally:
        os.close(descriptor)
    assert [line async for line in no_lines()] == []
