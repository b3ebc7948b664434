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
from treadle.errors import TreadleError
from treadle.extensions.usage import Prices, UsageLedger
from treadle.printable import one_line, printable
from treadle.session import encode_event
from treadle_adapters.stores import is_database
from treadle_diagrams import SessionFile, Teller, session_page
from treadle_diagrams.log.ending import read_end
from treadle_diagrams.log.entries import AnyEntry, plain
from treadle_diagrams.log.file import LineReader, read_through
from treadle_diagrams.log.summary import summary

from ..exits import Exit
from ..prices import PricesFile, prices_of
from ..private import write_private
from ..stores.database import follow_stored
from ..stores.files import Source, source_of
from ..stores.storage import sessions_directory
from .transcript import Transcript, clock_text

LONG = 1 << 20
"""Bytes from which on a session is long: a terminal is shown its end."""
SCREEN = 1 << 17
"""Bytes of a long session that a terminal is shown at a time."""
PAGE = 8 << 20
"""Bytes of a session that a page holds; it is about as large, and holds less where it would be much larger."""
LARGEST = 20_000_000
"""Bytes that a page has at most, where a part of the session can be had that is no larger."""
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
    before: int | None = None,
    whole: Annotated[bool, Parameter(name="--all", negative=())] = False,
    full: Annotated[bool, Parameter(negative=())] = False,
    prices: PricesFile = None,
    directory: Annotated[str | None, Parameter(name="--session-dir", env_var="TREADLE_SESSION_DIR")] = None,
) -> int:
    """Show a session: who said what, which tools ran, what was stopped, and what it took.

    A log that a crash has damaged is shown up to the damage; the exit status is 1 then. Nothing is changed. Of a long
    one a terminal is shown the end, and a page holds it; both say how to see what lies before.

    Args:
        log: the session's file, or its id, or its place in a database, as in `postgres://user@host/database#SESSION`; the
            newest session of the present project unless given.
        html: write a page instead: one file that needs no network, with the transcript, a waterfall, the inbox and
            the lifecycle, to be scrubbed and searched.
        follow: go on while the session does, until Ctrl-C.
        events: show the events of the log, one per line.
        as_json: one JSON object per line: the entries of the transcript, or with `--events` the events as stored.
        turn: show this turn only.
        before: of a long session, show what lies before the event of this number.
        whole: show all of a long session on a terminal as well.
        full: show long results to their end.
        prices: a TOML file with a table `[prices.MODEL]` for each model: costs are shown then.
        directory: the folder that holds sessions, or a database; the folder of the present project unless given.
    """
    found = _found(log, directory)
    if html is not None:
        if follow or events or as_json or turn is not None or whole:
            raise MisuseError("a page shows what fits: leave --follow, --events, --json, --turn and --all out")
        return _write_page(source_of(found), html, before)
    if before is not None and (follow or whole or turn is not None):
        raise MisuseError("--before shows one part of a session: leave --follow, --all and --turn out")
    teller = _Teller(_printer(events, as_json, full, prices_of(prices)), turn, events=events)
    if follow:
        return _follow(found, teller)
    paged = before is not None or (sys.stdout.isatty() and not whole and turn is None)
    source = source_of(found)
    return _show_end(source, teller, before) if paged else _show(source, teller)


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
    """How things are printed: what an event tells, entry by entry, the event itself, and what was used in the end."""

    entry: Callable[[AnyEntry], None]
    event: Callable[[Event, list[AnyEntry]], None]
    total: Callable[[UsageLedger], None]


def _printer(events: bool, as_json: bool, full: bool, prices: Prices) -> _Printer:
    console = Console(highlight=False)

    def nothing(*_: Any) -> None: ...

    def entry_json(entry: AnyEntry) -> None:
        _line(json.dumps(plain(entry), ensure_ascii=False))

    if as_json:
        return _Printer(nothing if events else entry_json, _event_json if events else nothing, nothing)
    if events:
        return _Printer(nothing, _event_line(console), nothing)
    transcript = Transcript(console, full=full, prices=prices)
    return _Printer(transcript.tell, nothing, transcript.total)


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

    def end(self) -> None:
        """Tell what the session used, where all of it was told."""
        if self._turn is None:
            self._printer.total(self._teller.used)

    def check(self) -> None:
        """Check that the turn that is meant was there.

        Raises:
            MisuseError: it was not.
        """
        if self._turn is not None and self._turn not in self._seen:
            has = f"turns {self._seen[0]} to {self._seen[len(self._seen) - 1]}" if self._seen else "no turn"
            raise MisuseError(f"the session has no turn {self._turn}; it has {has}")


def _show(source: Source, teller: _Teller) -> int:
    """Tell all there is, from the first event on as it is read."""
    session = read_through(source.path, teller.take, source.text)
    teller.check()
    teller.end()
    return _trouble(session, source.damage)


def _show_end(source: Source, teller: _Teller, before: int | None) -> int:
    long = (source.path.stat().st_size if source.text is None else len(source.text)) > LONG
    session = read_end(source.path, SCREEN if long else LONG, before, source.text)
    if session.left_out:
        sys.stderr.write(
            f"treadle: {session.left_out:,} earlier events are not shown: --before {session.left_out} shows what lies "
            "right before these, --all everything\n"
        )
    teller.take(session.events)
    if not session.left_out and before is None:
        teller.end()
    return _trouble(session, source.damage)


def _trouble(session: SessionFile, damage: TreadleError | None) -> int:
    """Tell what is wrong with a session, as it was read or as its database says."""
    found = session.damage or damage
    trouble = session.trouble or (str(damage) if damage is not None else None)
    if trouble is not None:
        sys.stderr.write(f"treadle: {printable(trouble)}\n")
    return Exit.FAILED if found is not None else Exit.OK


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


def _write_page(source: Source, out: Path, before: int | None) -> int:
    if out.exists() and source.path.exists() and out.samefile(source.path):
        raise MisuseError(f"{out} is the session itself: give --html another name")
    size = PAGE
    session = read_end(source.path, size, before, source.text)
    while len(page := _page(session)) > LARGEST and size > SCREEN:
        size //= 2
        session = read_end(source.path, size, before, source.text)
    write_private(out, page)
    if session.left_out:
        sys.stderr.write(f"treadle: {_left_out(session)}\n")
    sys.stderr.write(f"wrote {out}\n")
    return _trouble(session, source.damage)


def _page(session: SessionFile) -> bytes:
    notes = [_left_out(session)] if session.left_out else []
    notes += [session.trouble] if session.trouble is not None else []
    return session_page(session.header, session.events, "; ".join(notes) or None).encode()


def _left_out(session: SessionFile) -> str:
    before = session.left_out
    return (
        f"{before:,} earlier events are not in this page: `treadle show --html --before {before}` writes one of those"
    )
