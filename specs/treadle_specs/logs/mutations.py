"""Byte-level damage to a healthy session log, and what each must come to (P3).

    python -m treadle_specs.logs.mutations SOURCE.jsonl DIRECTORY

writes one damaged file per mutation. It knows lines and bytes only, so it works on the logs of any driver: a header
line and at least eight event lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

Lines = list[bytes]

TAIL = "tail"
"""A torn tail: the fragment is dropped, everything before it is kept, and the repair is told."""
KEPT = "kept"
"""A torn tail of which nothing is dropped: the last record is whole and lacks its newline."""
MIDDLE = "middle"
"""Damage before the tail: refused, with its place; nothing is rewritten."""
ACCEPTED = "accepted"
"""Reads as if nothing had happened."""
LOUD = "loud"
"""Either accepted whole or refused; never a part of it without a word."""
EMPTY = "empty"
"""A session without events."""
UNREADABLE = "unreadable"
"""Refused by every way in; a listing names it beside the others."""


@frozen
class Mutation:
    """One way to damage a log.

    Attributes:
        name: what it is called.
        fault: the kind of fault it stands for.
        expected: what must come of it.
        damage: makes the damaged bytes of a log's lines, header first.
    """

    name: str
    fault: str
    expected: str
    damage: Callable[[Lines], bytes]


MUTATIONS: dict[str, Mutation] = {}
"""All mutations, by name."""


def mutation(fault: str, expected: str) -> Callable[[Callable[[Lines], bytes]], Callable[[Lines], bytes]]:
    """Make a function a mutation."""

    def decorate(damage: Callable[[Lines], bytes]) -> Callable[[Lines], bytes]:
        name = damage.__name__.strip("_")
        MUTATIONS[name] = Mutation(name, fault, expected, damage)
        return damage

    return decorate


def mutate(data: bytes) -> dict[str, bytes]:
    """Every damaged form of a healthy log.

    Raises:
        ValueError: it is too short to be damaged in every way.
    """
    lines = data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n")
    if len(lines) < 9:
        raise ValueError("a header line and at least eight event lines are needed")
    return {name: each.damage(list(lines)) for name, each in MUTATIONS.items()}


def main(source: str, directory: str) -> None:
    """Write every damaged form of a file."""
    out = Path(directory)
    out.mkdir(parents=True, exist_ok=True)
    for name, data in mutate(Path(source).read_bytes()).items():
        (out / f"{name}.jsonl").write_bytes(data)


def _join(lines: Lines) -> bytes:
    return b"".join([line + b"\n" for line in lines])


def _insert(lines: Lines, *fresh: bytes) -> bytes:
    middle = len(lines) // 2
    return _join([*lines[:middle], *fresh, *lines[middle:]])


def _replace(lines: Lines, count: int, *fresh: bytes) -> bytes:
    middle = len(lines) // 2
    return _join([*lines[:middle], *fresh, *lines[middle + count :]])


@mutation("torn last line", TAIL)
def _torn_ascii(lines: Lines) -> bytes:
    return _join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2]


@mutation("torn last line", TAIL)
def _torn_at_brace(lines: Lines) -> bytes:
    return _join(lines[:-1]) + lines[-1][:-1]


@mutation("torn last line", TAIL)
def _torn_one_byte(lines: Lines) -> bytes:
    return _join(lines[:-1]) + lines[-1][:1]


@mutation("torn last line", TAIL)
def _torn_mid_utf8(lines: Lines) -> bytes:
    return _join(lines[:-1]) + lines[-1].rstrip(b"}") + ',"x":"\u6c49'.encode()[:-1]


@mutation("torn last line", TAIL)
def _torn_then_blank(lines: Lines) -> bytes:
    return _torn_ascii(lines) + b"\n\n"


@mutation("torn last line", TAIL)
def _torn_then_newline(lines: Lines) -> bytes:
    return _torn_ascii(lines) + b"\n"


@mutation("missing newline", KEPT)
def _no_final_newline(lines: Lines) -> bytes:
    return _join(lines)[:-1]


@mutation("run of NUL bytes", TAIL)
def _nul_tail(lines: Lines) -> bytes:
    return _join(lines) + b"\0" * 512


@mutation("run of NUL bytes", TAIL)
def _nul_tail_in_place(lines: Lines) -> bytes:
    return _join(lines[:-1]) + b"\0" * (len(lines[-1]) + 1)


@mutation("run of NUL bytes", MIDDLE)
def _nul_middle(lines: Lines) -> bytes:
    return _insert(lines, b"\0" * 300)


@mutation("two records on one line", MIDDLE)
def _glued_pair(lines: Lines) -> bytes:
    middle = len(lines) // 2
    return _replace(lines, 2, lines[middle] + lines[middle + 1])


@mutation("two records on one line", MIDDLE)
def _glued_prefix(lines: Lines) -> bytes:
    line = lines[len(lines) // 2]
    return _replace(lines, 1, line[: len(line) // 2] + line)


@mutation("bad line", MIDDLE)
def _malformed_middle(lines: Lines) -> bytes:
    line = lines[len(lines) // 2]
    return _replace(lines, 1, line[: len(line) // 2])


@mutation("numbers that do not follow", MIDDLE)
def _missing_middle(lines: Lines) -> bytes:
    return _replace(lines, 1)


@mutation("numbers that do not follow", MIDDLE)
def _swapped_middle(lines: Lines) -> bytes:
    middle = len(lines) // 2
    return _replace(lines, 2, lines[middle + 1], lines[middle])


@mutation("numbers that do not follow", MIDDLE)
def _dup_last(lines: Lines) -> bytes:
    return _join([*lines, lines[-1]])


@mutation("numbers that do not follow", MIDDLE)
def _fork_back_four(lines: Lines) -> bytes:
    return _join([*lines, *lines[-4:]])


@mutation("bad line", LOUD)
def _crlf(lines: Lines) -> bytes:
    return _join(lines).replace(b"\n", b"\r\n")


@mutation("bad line", ACCEPTED)
def _blank_lines(lines: Lines) -> bytes:
    return b"\n\n".join(lines) + b"\n\n"


@mutation("bad line", LOUD)
def _bom(lines: Lines) -> bytes:
    return b"\xef\xbb\xbf" + _join(lines)


@mutation("bad line", MIDDLE)
def _bad_utf8_in_string(lines: Lines) -> bytes:
    line = lines[len(lines) // 2]
    at = line.rfind(b'"')
    return _replace(lines, 1, line[:at] + b"\xc3\x28" + line[at:])


@mutation("bad line", EMPTY)
def _header_only(lines: Lines) -> bytes:
    return _join(lines[:1])


@mutation("bad header", UNREADABLE)
def _header_torn(lines: Lines) -> bytes:
    return lines[0][: len(lines[0]) // 2]


@mutation("bad header", UNREADABLE)
def _empty(lines: Lines) -> bytes:
    del lines
    return b""


@mutation("bad line", MIDDLE)
def _json_but_not_object(lines: Lines) -> bytes:
    return _insert(lines, b"17", b"null", b"[]")


if __name__ == "__main__":
    main(*sys.argv[1:3])
