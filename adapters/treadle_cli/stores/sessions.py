"""``treadle sessions``: list what is stored, show raw events, fork, verify, repair (P3, P4, P6, S5)."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
import trio
from cyclopts import Group, Parameter
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from treadle import SessionCorrupt
from treadle.checks import closed_session
from treadle.errors import SessionFormatUnsupported
from treadle.loop.durability import reopen
from treadle.printable import one_line, printable
from treadle.session import Listed, Listing, SessionStore, StoredSession, encode_event, encode_header, new_id

from ..exits import Exit
from .storage import open_where

WHERE = Group("Where", sort_key=1)
Kind = Annotated[Literal["jsonl", "sqlite"], Parameter(name="--store", group=WHERE)]
Directory = Annotated[str | None, Parameter(name="--session-dir", group=WHERE, env_var="TREADLE_SESSION_DIR")]


def list_sessions(*, kind: Kind = "jsonl", directory: Directory = None) -> int:
    """List the sessions of a project, newest first, and name the files that cannot be read.

    Written to a pipe, each session is a line: id, time, events, bytes, title, with tabs between.

    Args:
        kind: what holds the sessions.
        directory: the folder that holds them, or a database, as in `postgres://user@host/database`; the folder of the
            present project unless given.
    """
    listing = _within(kind, directory, lambda store: store.list())
    console = Console()
    if console.is_terminal:
        console.print(_table(listing) if listing.sessions else "no sessions here")
    else:
        for one in listing.sessions:
            sys.stdout.write("\t".join(_columns(one)) + "\n")
    for bad in listing.unreadable:
        _note(f"{bad.name}: {bad.error}")
    return Exit.FAILED if listing.unreadable else Exit.OK


def show_session(
    session: str, *, first: int = 0, count: int | None = None, kind: Kind = "jsonl", directory: Directory = None
) -> int:
    """Show the header and the raw events of a session, one JSON object per line. Nothing is changed.

    Of a damaged session everything before the damage is shown; the exit status is 1 then.

    Args:
        session: its id.
        first: the number of the first event to show; the header is left out unless it is 0.
        count: how many events to show.
        kind: what holds the sessions.
        directory: the folder that holds them, or a database, as in `postgres://user@host/database`; the folder of the
            present project unless given.
    """
    stored = _within(kind, directory, lambda store: store.inspect(session))
    events = stored.events[first : None if count is None else first + count]
    lines = [encode_header(stored.header)] if first == 0 else []
    lines += [encode_event(entry) for entry in events]
    on_terminal = sys.stdout.isatty()
    for line in lines:
        text = line.decode()
        sys.stdout.write((printable(text) if on_terminal else text) + "\n")
    for trouble in (stored.torn, stored.damage):
        if trouble is not None:
            _note(str(trouble))
    return Exit.FAILED if stored.damage is not None else Exit.OK


def fork_session(
    session: str,
    *,
    new: Annotated[str | None, Parameter(name="--as")] = None,
    upto: int | None = None,
    kind: Kind = "jsonl",
    directory: Directory = None,
) -> int:
    """Make a new session that begins with the events of another, and print its id.

    Args:
        session: the id of the one that is forked; it is not changed.
        new: the new session's id; made up unless given.
        upto: how many events it inherits, outside an open turn; all unless given.
        kind: what holds the sessions.
        directory: the folder that holds them, or a database, as in `postgres://user@host/database`; the folder of the
            present project unless given.
    """
    header = _within(kind, directory, lambda store: store.fork(session, new or new_id(), upto))
    sys.stdout.write(f"{header.id}\n")
    _note(f"{header.id} begins with {header.inherited} events of {session}")
    return Exit.OK


def verify_sessions(*sessions: str, kind: Kind = "jsonl", directory: Directory = None) -> int:
    """Read sessions whole and say what is wrong with them. Nothing is changed.

    The exit status is 1 when one is damaged. A torn tail or an open turn is no damage: it is mended when the session is
    resumed.

    Args:
        sessions: their ids; all that are stored unless given.
        kind: what holds the sessions.
        directory: the folder that holds them, or a database, as in `postgres://user@host/database`; the folder of the
            present project unless given.
    """

    async def look(store: SessionStore) -> list[tuple[str, str, bool]]:
        listing = await store.list()
        names = list(sessions) or [one.header.id for one in listing.sessions]
        found = [await _verified(store, name) for name in names]
        bad = [] if sessions else [(each.name, str(each.error), False) for each in listing.unreadable]
        return [*found, *bad]

    found = _within(kind, directory, look)
    for name, said, _ in found:
        sys.stdout.write(f"{one_line(name)}: {one_line(said, 500)}\n")
    return Exit.OK if all(good for _, _, good in found) else Exit.FAILED


async def _verified(store: SessionStore, name: str) -> tuple[str, str, bool]:
    try:
        stored = await store.inspect(name)
        if stored.damage is not None:
            return name, f"damaged after {len(stored.events)} events: {stored.damage}", False
        closing = len(closed_session(stored)[1].closing)
    except (SessionCorrupt, SessionFormatUnsupported) as error:
        return name, str(error), False
    said = f"{len(stored.events)} events"
    if stored.torn is not None:
        said += f"; {stored.torn}"
    if closing:
        said += f"; a turn is open, which {closing} events close when the session is resumed"
    return name, said, True


def repair_session(
    session: str,
    *,
    prefix: Annotated[str | None, Parameter(name="--prefix-as")] = None,
    kind: Kind = "jsonl",
    directory: Directory = None,
) -> int:
    """Mend what a crash left: cut off a torn tail, close the open turn.

    Damage before the tail is never rewritten. With `--prefix-as` the readable part before it is kept as a session of
    another id.

    Args:
        session: its id.
        prefix: the id of a new session that gets the events before the damage.
        kind: what holds the sessions.
        directory: the folder that holds them, or a database, as in `postgres://user@host/database`; the folder of the
            present project unless given.
    """

    async def mend(store: SessionStore) -> str:
        if prefix is not None:
            await _keep_prefix(store, await store.inspect(session), prefix)
        opened = await reopen(store, prefix or session)
        await opened.writer.close()
        recovery = opened.recovery
        said = f"{prefix or session}: {len(opened.session)} events"
        if recovery.torn is not None:
            said += f"; cut off: {recovery.torn}"
        if recovery.appended:
            said += f"; {recovery.appended} events closed the open turn"
        return said

    _note(_within(kind, directory, mend))
    return Exit.OK


async def _keep_prefix(store: SessionStore, stored: StoredSession, name: str) -> None:
    header = msgspec.structs.replace(stored.header, id=name, parent_session=stored.header.id)
    writer = await store.create(header, stored.events)
    await writer.close()


# --- what the commands share ------------------------------------------------------------------------------------------


def _within(kind: str, directory: str | None, ask: Callable[[SessionStore], Awaitable[Any]]) -> Any:
    """Ask a store something, in a run of its own."""

    async def run() -> Any:
        async with open_where(kind, directory) as store:
            return await ask(store)

    return trio.run(run)


def _columns(one: Listed) -> tuple[str, str, str, str, str]:
    when = datetime.fromtimestamp(one.modified / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return one.header.id, when, "?" if one.events is None else str(one.events), str(one.size), one_line(one.title, 80)


def _table(listing: Listing) -> Table:
    rows = [_columns(one) for one in listing.sessions]
    table = Table(box=None, pad_edge=False)
    for at, name in enumerate(("id", "written", "events", "bytes")):
        widest = max(map(cell_len, [name, *[row[at] for row in rows]]))  # what is copied from here is never cut
        table.add_column(name, justify="right" if at > 1 else "left", no_wrap=True, min_width=widest)
    table.add_column("begins with", overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*[Text(column) for column in row])
    return table


def _note(text: str) -> None:
    sys.stderr.write(one_line(text, 1_000) + "\n")


__all__ = ["fork_session", "list_sessions", "repair_session", "show_session", "verify_sessions"]
