"""What is typed: lines from a terminal, edited here, or from a pipe or file, as they come."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, contextmanager
from importlib.util import find_spec
from typing import Any

import trio
from attrs import define, field

CHUNK = 4096
LONGEST_LINE = 1_000_000
"""How many characters a line may have; the rest is dropped."""

_PLAIN = re.compile(r"[^\x00-\x1f\x7f]+")


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


@define(eq=False)
class LineEditor:
    """Edits one line from the bytes of a terminal whose keys arrive one by one.

    It knows backspace, Ctrl-W (a word), Ctrl-U (the line), up and down (earlier lines), and Ctrl-D on an empty line
    (the end). Other control keys and escape sequences do nothing.

    Attributes:
        text: the line so far.
        ended: whether Ctrl-D ended the input.
    """

    text: str = ""
    ended: bool = False
    _escape: str = ""
    _earlier: list[str] = field(factory=list[str])
    _back: int = 0
    _decode: codecs.IncrementalDecoder = field(factory=_decoder)

    def feed(self, data: bytes) -> list[str]:
        """Take bytes as typed; returns the lines that were entered."""
        entered: list[str] = []
        keys = self._decode.decode(data)
        at = 0
        while at < len(keys):
            run = None if self._escape else _PLAIN.match(keys, at)
            if run is not None:
                at = run.end()
                self._insert(run.group())
                continue
            key, at = keys[at], at + 1
            if self._escape:
                self._go_on_escape(key)
            elif key in "\r\n":
                entered.append(self._enter())
            elif key == "\x04" and not self.text:
                self.ended = True
                break
            else:
                self._key(key)
        return entered

    def clear(self) -> bool:
        """Take the line back; returns whether there was any."""
        had, self.text, self._back = bool(self.text), "", 0
        return had

    def _enter(self) -> str:
        line = self.text
        if line and (not self._earlier or self._earlier[-1] != line):
            self._earlier.append(line)
        self.clear()
        return line

    def _insert(self, text: str) -> None:
        shown = "".join([character for character in text if character.isprintable()])
        self.text += shown[: LONGEST_LINE - len(self.text)]

    def _key(self, key: str) -> None:
        match key:
            case "\x1b":
                self._escape = key
            case "\x7f" | "\x08":
                self.text = self.text[:-1]
            case "\x15":
                self.text = ""
            case "\x17":
                self.text = self.text.rstrip().rpartition(" ")[0]
                self.text += " " if self.text else ""
            case "\t":
                self._insert(" ")
            case _:
                pass

    def _go_on_escape(self, key: str) -> None:
        """``ESC [ … letter`` and ``ESC O letter`` are keys of their own; ``ESC`` and any other key is one, too."""
        self._escape += key
        if len(self._escape) == 2 and key in "[O":
            return
        if self._escape.startswith("\x1b[") and not "@" <= key <= "~" and len(self._escape) < 32:
            return
        if self._escape in ("\x1b[A", "\x1bOA"):
            self._recall(1)
        elif self._escape in ("\x1b[B", "\x1bOB"):
            self._recall(-1)
        self._escape = ""

    def _recall(self, way: int) -> None:
        self._back = min(max(self._back + way, 0), len(self._earlier))
        self.text = self._earlier[-self._back] if self._back else ""


class LineSplitter:
    """Splits bytes from a pipe or file into lines."""

    def __init__(self) -> None:
        self._decode = _decoder()
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """Take bytes; returns the lines that are complete. Empty bytes are the end: the last line is complete."""
        self._rest += self._decode.decode(data, final=not data)
        *lines, self._rest = self._rest.split("\n")
        if not data and self._rest:
            lines, self._rest = [*lines, self._rest], ""
        return [line.removesuffix("\r")[:LONGEST_LINE] for line in lines]


async def chunks_of(descriptor: int) -> AsyncGenerator[bytes]:
    """The bytes of a file descriptor as they come, until its end."""
    waits = True
    while True:
        if waits:
            try:
                await trio.lowlevel.wait_readable(descriptor)
            except OSError:
                waits = False  # a plain file, or a platform that cannot wait for one
        if waits:
            data = os.read(descriptor, CHUNK)
        else:
            data = await trio.to_thread.run_sync(os.read, descriptor, CHUNK, abandon_on_cancel=True)
        if not data:
            return
        yield data


class KeyMode:
    """Switches a terminal so that keys arrive one by one and are not echoed. Ctrl-C and Ctrl-Z still work."""

    def __init__(self, descriptor: int) -> None:
        import termios

        self._descriptor = descriptor
        self._termios: Any = termios
        self._before: list[Any] = termios.tcgetattr(descriptor)

    def enter(self) -> None:
        """Switch, also again after the process was stopped and went on."""
        termios = self._termios
        wanted = list(self._before)
        wanted[3] &= ~(termios.ICANON | termios.ECHO)
        wanted[6] = list(wanted[6])
        wanted[6][termios.VMIN], wanted[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, wanted)

    def leave(self) -> None:
        """Switch back."""
        with contextlib.suppress(self._termios.error):
            self._termios.tcsetattr(self._descriptor, self._termios.TCSADRAIN, self._before)


def can_edit(descriptor: int) -> bool:
    """Whether the descriptor is a terminal whose line can be edited and drawn here."""
    return (
        find_spec("termios") is not None
        and os.isatty(descriptor)
        and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
    )


@contextmanager
def keys_of(descriptor: int) -> Generator[KeyMode]:
    """Key by key inside the ``with`` block, as before afterwards."""
    mode = KeyMode(descriptor)
    mode.enter()
    try:
        yield mode
    finally:
        mode.leave()


async def typed_lines(
    descriptor: int, editor: LineEditor | None, changed: Callable[[str], None]
) -> AsyncGenerator[str]:
    """The lines that are entered, until the input ends.

    Args:
        descriptor: where they come from.
        editor: edits them when keys arrive one by one; without one, lines are taken as they come.
        changed: told the line so far whenever it changes.
    """
    splitter = LineSplitter()
    async with aclosing(chunks_of(descriptor)) as chunks:
        async for data in chunks:
            for line in (editor or splitter).feed(data):
                yield line
            if editor is not None:
                changed(editor.text)
                if editor.ended:
                    return
    for line in splitter.feed(b""):
        yield line
