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


def _joined(lines: Lines) -> bytes:
    return b"".join([line + b"\n" for line in lines])


def _replaced(lines: Lines, count: int, *fresh: bytes) -> bytes:
    """With ``count`` lines from the middle on replaced."""
    middle = len(lines) // 2
    return _joined([*lines[:middle], *fresh, *lines[middle + count :]])


def _middle(lines: Lines) -> bytes:
    return lines[len(lines) // 2]


def _half(line: bytes) -> bytes:
    return line[: len(line) // 2]


def _torn(lines: Lines, tail: bytes) -> bytes:
    """With other bytes instead of the last line."""
    return _joined(lines[:-1]) + tail


def _glued_pair(lines: Lines) -> bytes:
    middle = len(lines) // 2
    return _replaced(lines, 2, lines[middle] + lines[middle + 1])


def _swapped_middle(lines: Lines) -> bytes:
    middle = len(lines) // 2
    return _replaced(lines, 2, lines[middle + 1], lines[middle])


def _bad_utf8_in_string(lines: Lines) -> bytes:
    line = _middle(lines)
    at = line.rfind(b'"')
    return _replaced(lines, 1, line[:at] + b"\xc3\x28" + line[at:])


_CUT = ',"x":"\u6c49'.encode()[:-1]
"""A text that breaks off within a character."""
TORN, NULS, GLUED = "torn last line", "run of NUL bytes", "two records on one line"
BAD, NUMBERS, HEADER = "bad line", "numbers that do not follow", "bad header"

# fmt: off
MUTATIONS: dict[str, Mutation] = {each.name: each for each in (
    Mutation("torn_ascii",          TORN,    TAIL,       lambda log: _torn(log, _half(log[-1]))),
    Mutation("torn_at_brace",       TORN,    TAIL,       lambda log: _torn(log, log[-1][:-1])),
    Mutation("torn_one_byte",       TORN,    TAIL,       lambda log: _torn(log, log[-1][:1])),
    Mutation("torn_mid_utf8",       TORN,    TAIL,       lambda log: _torn(log, log[-1].rstrip(b"}") + _CUT)),
    Mutation("torn_then_blank",     TORN,    TAIL,       lambda log: _torn(log, _half(log[-1]) + b"\n\n")),
    Mutation("torn_then_newline",   TORN,    TAIL,       lambda log: _torn(log, _half(log[-1]) + b"\n")),
    Mutation("no_final_newline",    "missing newline", KEPT, lambda log: _torn(log, log[-1])),
    Mutation("nul_tail",            NULS,    TAIL,       lambda log: _joined(log) + b"\0" * 512),
    Mutation("nul_tail_in_place",   NULS,    TAIL,       lambda log: _torn(log, b"\0" * (len(log[-1]) + 1))),
    Mutation("nul_middle",          NULS,    MIDDLE,     lambda log: _replaced(log, 0, b"\0" * 300)),
    Mutation("glued_pair",          GLUED,   MIDDLE,     _glued_pair),
    Mutation("glued_prefix",        GLUED,   MIDDLE,     lambda log: _replaced(log, 1, _half(_middle(log)) + _middle(log))),
    Mutation("malformed_middle",    BAD,     MIDDLE,     lambda log: _replaced(log, 1, _half(_middle(log)))),
    Mutation("missing_middle",      NUMBERS, MIDDLE,     lambda log: _replaced(log, 1)),
    Mutation("swapped_middle",      NUMBERS, MIDDLE,     _swapped_middle),
    Mutation("dup_last",            NUMBERS, MIDDLE,     lambda log: _joined([*log, log[-1]])),
    Mutation("fork_back_four",      NUMBERS, MIDDLE,     lambda log: _joined([*log, *log[-4:]])),
    Mutation("crlf",                BAD,     LOUD,       lambda log: _joined(log).replace(b"\n", b"\r\n")),
    Mutation("blank_lines",         BAD,     ACCEPTED,   lambda log: b"\n\n".join(log) + b"\n\n"),
    Mutation("bom",                 BAD,     LOUD,       lambda log: b"\xef\xbb\xbf" + _joined(log)),
    Mutation("bad_utf8_in_string",  BAD,     MIDDLE,     _bad_utf8_in_string),
    Mutation("header_only",         BAD,     EMPTY,      lambda log: _joined(log[:1])),
    Mutation("header_torn",         HEADER,  UNREADABLE, lambda log: _half(log[0])),
    Mutation("empty",               HEADER,  UNREADABLE, lambda _: b""),
    Mutation("json_but_not_object", BAD,     MIDDLE,     lambda log: _replaced(log, 0, b"17", b"null", b"[]")),
)}
# fmt: on
"""All mutations, by name."""


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


if __name__ == "__main__":
    main(*sys.argv[1:3])
