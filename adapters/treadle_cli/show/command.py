"""``treadle show``: a session's transcript, its events, or a page of it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

from attrs import frozen
from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from treadle import Event, MisuseError, SessionCorrupt
from treadle.printable import one_line, printable
from treadle.session import encode_event
from treadle_adapters.stores import is_database
from treadle_diagrams import SessionFile, Teller, session_page
from treadle_diagrams.log.entries import AnyEntry, plain
from treadle_diagrams.log.file import LineReader
from treadle_diagrams.log.summary import summary

from ..exits import Exit
from ..private import write_private
from ..stores.database import follow_stored
from ..stores.files import read_file
from ..stores.storage import sessions_directory
from .transcript import Transcript, clock_text

GLANCE = 0.2
"""Seconds between looks at a file that is followed."""


def show(
    log: str | None = None,
    /,
    *,
    html: Annotated[Path | None, Parameter(alias="-o")] = None,
    follow: Annotated[bool, Parameter(alias="-f", negative=())] = False,
    events: Annotated[bool, Parameter(negative=())] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    turn: int | None = None,
    full: Annotated[bool, Parameter(negative=())] = False,
    directory: Annotated[str | None, Parameter(name="--session-dir", env_var="TREADLE_SESSION_DIR")] = None,
) -> int:
    """Show a session: who said what, which tools ran, what was stopped, and what it took.

    A log that a crash has damaged is shown up to the damage; the exit status is 1 then. Nothing is changed.

    Args:
        log: the session's file, or its id, or its place in a database, as in `postgres://user@host/database#SESSION`; the
            newest session of the present project unless given.
        html: write a page instead: one file that needs no network, with the transcript, a waterfall, the inbox and
            the lifecycle, to be scrubbed and searched.
        follow: go on while the session does, until Ctrl-C.
        events: show the events of the log, one per line.
        as_json: one JSON object per line: the entries of the transcript, or with `--events` the events as stored.
        turn: show this turn only.
        full: show long results to their end.
        directory: the folder that holds sessions, or a database; the folder of the present project unless given.
    """
    found = _found(log, directory)
    if html is not None:
        if follow or events or as_json or turn is not None:
            raise MisuseError("--html shows all there is: leave --follow, --events, --json and --turn out")
        return _write_page(found, html)
    teller = _Teller(_printer(events, as_json, full), turn, events=events)
    return _follow(found, teller) if follow else _show(found, teller)


# --- which file -------------------------------------------------------------------------------------------------------


def _found(log: str | None, directory: str | None) -> Path | str:
    """What is meant: a file or a URL, else the id of a stored session, else the newest.

    Raises:
        MisuseError: there is none.
    """
    if is_database(log):
        return str(log)
    if is_database(directory) and not (log is not None and Path(log).exists()):
        return f"{directory}#{log or ''}"
    folder = sessions_directory(directory)
    if log is None:
        stored = [path for path in folder.glob("*.jsonl*") if path.name.endswith((".jsonl", ".jsonl.zst"))]
        if not stored:
            raise MisuseError(f"there is no session in {folder}: name a file, as in `treadle show session.jsonl`")
        return max(stored, key=lambda path: path.stat().st_mtime)
    path = Path(log)
    if path.exists() or path.name != log:
        return path
    for suffix in (".jsonl", ".jsonl.zst"):
        stored_as = folder / (log + suffix)
        if stored_as.exists():
            return stored_as
    raise MisuseError(f"{log} is neither a file here nor a session in {folder}")


# --- telling ----------------------------------------------------------------------------------------------------------


@frozen
class _Printer:
    """How things are printed: what an event tells, entry by entry, and the event itself."""

    entry: Callable[[AnyEntry], None]
    event: Callable[[Event, list[AnyEntry]], None]


def _printer(events: bool, as_json: bool, full: bool) -> _Printer:
    console = Console(highlight=False)

    def nothing(*_: Any) -> None: ...

    def entry_json(entry: AnyEntry) -> None:
        _line(json.dumps(plain(entry), ensure_ascii=False))

    if as_json:
        return _Printer(nothing if events else entry_json, _event_json if events else nothing)
    if events:
        return _Printer(nothing, _event_line(console))
    return _Printer(Transcript(console, full=full).tell, nothing)


def _event_json(entry: Event, _: list[AnyEntry]) -> None:
    _line(encode_event(entry).decode())


def _line(text: str) -> None:
    """A line as it is; on a terminal nothing in it may act (X3)."""
    sys.stdout.write((printable(text) if sys.stdout.isatty() else text) + "\n")


def _event_line(console: Console) -> Callable[[Event, list[AnyEntry]], None]:

    def tell(entry: Event, told: list[AnyEntry]) -> None:
        line = Text.assemble(
            (f"{entry.seq:>6}  {clock_text(entry.time)}.{entry.time % 1000:03d}  ", "dim"),
            (f"{one_line(entry.type, 60):<20}", "bold"),
            f"  {one_line(summary(entry, told), 200)}",
        )
        line.rstrip()
        console.print(line, soft_wrap=True, markup=False, emoji=False)

    return tell


class _Teller:
    """Tells events as they come, those of one turn only if so wished."""

    def __init__(self, printer: _Printer, turn: int | None, *, events: bool) -> None:
        self._printer = printer
        self._turn = turn
        self._teller = Teller()
        self._events = events
        self._open: int | None = None
        self._seen: list[int] = []

    def take(self, events: Iterable[Event]) -> None:
        """Tell events."""
        for event in events:
            told = self._teller.take(event)
            if event.type == "turn/start":
                self._open = event.data.turn
                self._seen.append(event.data.turn)
            if self._turn is None or self._open == self._turn:
                for entry in told:
                    self._printer.entry(entry)
                self._printer.event(event, told)
            if event.type == "turn/end":
                self._open = None

    def check(self) -> None:
        """Check that the turn that is meant was there.

        Raises:
            MisuseError: it was not.
        """
        if self._turn is not None and self._turn not in self._seen:
            has = f"turns {self._seen[0]} to {self._seen[len(self._seen) - 1]}" if self._seen else "no turn"
            raise MisuseError(f"the session has no turn {self._turn}; it has {has}")


def _show(found: Path | str, teller: _Teller) -> int:
    session = read_file(found)
    teller.take(session.events)
    teller.check()
    return _trouble(session)


def _trouble(session: SessionFile) -> int:
    if session.trouble is not None:
        sys.stderr.write(f"treadle: {printable(session.trouble)}\n")
    return Exit.FAILED if session.damage is not None else Exit.OK


def _follow(found: Path | str, teller: _Teller) -> int:
    """Tell what is there, then what comes, until interrupted.

    Raises:
        MisuseError: the file is compressed, or was cut short while it was read.
        SessionCorrupt: what came is no event.
    """
    if isinstance(found, str):
        follow_stored(found, teller.take, sys.stdout.flush)
        return Exit.OK
    return _follow_file(found, teller)


def _follow_file(path: Path, teller: _Teller) -> int:
    if path.name.endswith(".zst"):
        raise MisuseError("a compressed session cannot be followed: leave --follow out")
    reader = LineReader(path)
    with path.open("rb") as file:
        while True:
            data = file.read(1 << 20)
            try:
                teller.take(reader.take(data))
            except SessionCorrupt:
                teller.take(reader.taken())
                raise
            if data:
                continue
            sys.stdout.flush()
            if path.stat().st_size < file.tell():
                raise MisuseError(f"{path} was cut short while it was read: show it again")
            time.sleep(GLANCE)


# --- the page ---------------------------------------------------------------------------------------------------------


def _write_page(found: Path | str, out: Path) -> int:
    if isinstance(found, Path) and out.exists() and out.samefile(found):
        raise MisuseError(f"{out} is the session itself: give --html another name")
    session = read_file(found)
    text = session_page(session.header, session.events, session.trouble)
    write_private(out, text.encode())
    sys.stderr.write(f"wrote {out}\n")
    return _trouble(session)
