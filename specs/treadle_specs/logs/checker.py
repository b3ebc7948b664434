"""``treadle check LOG…``: read session logs and report every broken rule, with its id, event and line.

    treadle check session.jsonl
    treadle check --json sessions/*.jsonl

A log may have been written by anyone who uses this vocabulary. Its header and events are read as stores read them; what
cannot be read is reported as well, and reading goes on. A log that ends inside a turn is one whose process died or lives
still: that is told, and is a fault only with ``--finished``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from treadle import Event, SessionHeader, TreadleError
from treadle.errors import InvalidData, SessionFormatUnsupported
from treadle.session import header_of, is_blank, lines_of, torn_at
from treadle.testing import LogMonitor

from .exercise import REACH, Exercise

Json = dict[str, Any]


@frozen
class Finding:
    """One thing that is wrong: the rule, what, and where. ``line`` is counted from 1 where there are lines."""

    rule: str
    message: str
    seq: int | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = [f"line {self.line}"] if self.line is not None else []
        where += [f"event {self.seq}"] if self.seq is not None else []
        return f"{', '.join(where) or 'the log'}: [{self.rule}] {self.message}"


@define
class Checked:
    """What was found in one log.

    Attributes:
        name: the file.
        events: how many events were read.
        findings: what is wrong, in the order of the log.
        notes: what is worth knowing and is no fault.
        seconds: how long it took.
        exercised: how often each rule was at stake.
    """

    name: str
    events: int = 0
    findings: list[Finding] = field(factory=list[Finding])
    notes: list[str] = field(factory=list[str])
    seconds: float = 0.0
    unread: bool = False
    exercised: Exercise = field(factory=Exercise)

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def check_events(
    events: Iterable[Event], name: str = "log", *, header: SessionHeader | None = None, finished: bool = False
) -> Checked:
    """Check events that are at hand.

    Args:
        events: from the first one on.
        name: what the result is called.
        header: the session's, to compare what it says about a fork.
        finished: whether ending inside a turn is a fault.
    """
    return _check(((None, entry) for entry in events), Checked(name), header, finished=finished)


def check_file(path: Path, *, finished: bool = False) -> Checked:
    """Check one JSONL file: a header, then one event per line."""
    found = Checked(str(path))
    try:
        lines = lines_of(path.read_bytes())
    except OSError as error:
        found.findings.append(Finding("P6", f"cannot be read: {error.strerror or error}"))
        found.unread = True
        return found
    try:
        reader = header_of(lines)
    except TreadleError as error:
        found.findings.append(Finding(_rule(error, "S8"), str(error), line=1))
        return found
    if not is_blank(lines[-1]):
        found.notes.append(_torn(len(lines)))
    events = _events(lines, reader.event, found)
    return _check(events, found, reader.header, finished=finished)


def _events(lines: list[bytes], decode: Callable[[bytes], Event], found: Checked) -> Iterator[tuple[int | None, Event]]:
    """The events of a log with their lines. What holds none is told, and reading goes on."""
    due = -1
    for index in range(1, len(lines)):
        if is_blank(lines[index]):
            continue
        due += 1
        try:
            yield index + 1, decode(lines[index])
        except (TreadleError, RecursionError) as error:
            if isinstance(error, InvalidData) and torn_at(lines, index) is not None:
                if index < len(lines) - 1:
                    found.notes.append(_torn(index + 1))
                return
            found.findings.append(Finding(_rule(error, "N6"), str(error), due, index + 1))


def _torn(line: int) -> str:
    return f"line {line} is torn: an interrupted write, which opening for writing repairs (P3)"


def _rule(error: Exception, fallback: str) -> str:
    if isinstance(error, SessionFormatUnsupported):
        return "P5" if fallback == "S8" else "S2"
    return fallback if isinstance(error, InvalidData) else "P3"


def _check(
    events: Iterable[tuple[int | None, Event]], found: Checked, header: SessionHeader | None, *, finished: bool
) -> Checked:
    started = time.perf_counter()
    monitor = LogMonitor()
    lines: dict[int, int | None] = {}
    for line, entry in events:
        found.events += 1
        found.exercised.take(entry)
        lines[entry.seq] = line
        for breach in monitor.take(entry):
            found.findings.append(Finding(breach.rule, breach.message, breach.seq, lines.get(breach.seq, line)))
    misfit = monitor.misfit(header) if header is not None else None
    if misfit is not None:
        found.findings.append(Finding("S5", misfit))
    if monitor.unfinished is not None:
        if finished:
            found.findings.append(Finding("N3", f"the log ends inside {monitor.unfinished}"))
        else:
            found.notes.append(f"the log ends inside {monitor.unfinished}; a resume closes it (P4)")
    found.seconds = time.perf_counter() - started
    return found


# --- the command ------------------------------------------------------------------------------------------------------

Opener = Callable[[Path], tuple[SessionHeader, Iterable[Event]] | None]
"""Reads a log that is no JSONL file; ``None`` when it is not one of its kind either."""


def checked_json(found: Checked) -> Json:
    """One result as plain values."""
    findings = [{"rule": f.rule, "seq": f.seq, "line": f.line, "message": f.message} for f in found.findings]
    return {
        "log": found.name,
        "sound": found.sound,
        "events": found.events,
        "findings": findings,
        "notes": found.notes,
        "seconds": round(found.seconds, 4),
        "exercised": {rule: found.exercised[rule] for rule in REACH},
    }


def check_command(
    logs: Sequence[str],
    *,
    as_json: bool = False,
    finished: bool = False,
    openers: Sequence[Opener] = (),
    out: Callable[[str], object] = sys.stdout.write,
) -> int:
    """Check logs, tell what was found, and return the exit status: 0 when all are sound, 1 when one is not.

    Args:
        logs: files.
        as_json: tell it to programs, one object per line and log.
        finished: whether ending inside a turn is a fault.
        openers: try these first, for what is no JSONL file.
        out: where the report goes.
    """
    sound = True
    for log in logs:
        found = _check_any(Path(log), openers, finished=finished)
        sound = sound and found.sound
        if as_json:
            out(json.dumps(checked_json(found), ensure_ascii=False) + "\n")
            continue
        out(f"{found.name}: {_verdict(found)}\n")
        if found.events:
            out(f"  at stake: {_exercised(found.exercised)}\n")
        for finding in found.findings:
            out(f"  {finding}\n")
        for note in found.notes:
            out(f"  note: {note}\n")
    return 0 if sound else 1


def _verdict(found: Checked) -> str:
    if found.unread:
        return "cannot be read"
    count = len(found.findings)
    if not found.events and not count:
        return "0 events, nothing to judge"
    return f"{found.events} events, {'sound' if found.sound else '1 finding' if count == 1 else f'{count} findings'}"


def _exercised(counts: Exercise) -> str:
    never = [rule for rule in REACH if not counts[rule]]
    told = " ".join([f"{rule} ×{counts[rule]}" for rule in REACH if counts[rule]])
    return told + (f"; never: {' '.join(never)}" if never else "")


def _check_any(path: Path, openers: Sequence[Opener], *, finished: bool) -> Checked:
    for opener in openers:
        try:
            opened = opener(path)
        except (TreadleError, OSError) as error:
            return Checked(str(path), findings=[Finding("P3", str(error))])
        if opened is not None:
            header, events = opened
            return check_events(events, str(path), header=header, finished=finished)
    return check_file(path, finished=finished)
