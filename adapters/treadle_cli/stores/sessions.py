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

from treadle import SessionCorrupt, TreadleError
from treadle.checks import closed_session
from treadle.errors import SessionFormatUnsupported
from treadle.extensions.usage import USAGE, Prices, Spent
from treadle.loop.durability import reopen
from treadle.printable import one_line, printable
from treadle.session import Listed, Listing, SessionStore, StoredSession, encode_event, encode_header, new_id

from ..exits import Exit
from ..prices import PricesFile, cost_text, prices_of, spent_text
from .storage import open_where

WHERE = Group("Where", sort_key=1)
Kind = Annotated[Literal["jsonl", "sqlite"], Parameter(name="--store", group=WHERE)]
Directory = Annotated[str | None, Parameter(name="--session-dir", group=WHERE, env_var="TREADLE_SESSION_DIR")]


def list_sessions(
    *,
    usage: Annotated[bool, Parameter(negative=())] = False,
    prices: PricesFile = None,
    kind: Kind = "jsonl",
    directory: Directory = None,
) -> int:
    """List the sessions of a project, newest first, and name the files that cannot be read.

    Written to a pipe, each session is a line: id, time, events, bytes, title, with tabs between; with `--usage` attempts,
    tokens in, cached and out, and cost stand before the title.

    Args:
        usage: say what each session used, its sub-agents included; each is read whole for that.
        prices: a TOML file with a table `[prices.MODEL]` for each model: costs are shown then.
        kind: what holds the sessions.
        directory: the folder that holds them, or a database, as in `postgres://user@host/database`; the folder of the
            present project unless given.
    """
    known = prices_of(prices)

    async def look(store: SessionStore) -> tuple[Listing, dict[str, Spent]]:
        listing = await store.list()
        ids = [one.header.id for one in listing.sessions] if usage else []
        return listing, {name: await _used(store, name) for name in ids}

    listing, used = _within(kind, directory, look)
    rows = [_columns(one, [_spent_columns(used[one.header.id], known)] if usage else []) for one in listing.sessions]
    console = Console()
    if console.is_terminal:
        console.print(_table(rows, usage) if rows else "no sessions here")
    else:
        for row in rows:
            sys.stdout.write("\t".join(row) + "\n")
    for bad in listing.unreadable:
        _note(f"{bad.name}: {bad.error}")
    return Exit.FAILED if listing.unreadable else Exit.OK


def show_session(
    session: str,
    *,
    first: int = 0,
    count: int | None = None,
    prices: PricesFile = None,
    kind: Kind = "jsonl",
    directory: Directory = None,
) -> int:
    """Show the header and the raw events of a session, one JSON object per line. Nothing is changed.

    What it used, and its sub-agents, is said on stderr.

    Of a damaged session everything before the damage is shown; the exit status is 1 then.

    Args:
        session: its id.
        first: the number of the first event to show; the header is left out unless it is 0.
        count: how many events to show.
        prices: a TOML file with a table `[prices.MODEL]` for each model: costs are shown then.
        kind: what holds the sessions.
        directory: the folder that holds them, or a database, as in `postgres://user@host/database`; the folder of the
            present project unless given.
    """
    known = prices_of(prices)
    stored = _within(kind, directory, lambda store: store.inspect(session))
    events = stored.events[first : None if count is None else first + count]
    lines = [encode_header(stored.header)] if first == 0 else []
    lines += [encode_event(entry) for entry in events]
    on_terminal = sys.stdout.isatty()
    for line in lines:
        text = line.decode()
        sys.stdout.write((printable(text) if on_terminal else text) + "\n")
    used = USAGE.over(stored.events)
    if used.tree.attempts:
        _note(f"used: {spent_text(used.own, known)}")
    if used.below.attempts:
        _note(f"with sub-agents: {spent_text(used.tree, known)}")
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


async def _used(store: SessionStore, name: str) -> Spent:
    """What a session used and those below it; nothing where it cannot be read."""
    try:
        return USAGE.over((await store.inspect(name)).events).tree
    except TreadleError:
        return Spent()


def _columns(one: Listed, more: list[tuple[str, ...]]) -> tuple[str, ...]:
    when = datetime.fromtimestamp(one.modified / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    events = "?" if one.events is None else str(one.events)
    return one.header.id, when, events, str(one.size), *sum(more, ()), one_line(one.title, 80)


def _spent_columns(spent: Spent, prices: Prices) -> tuple[str, ...]:
    usage = spent.usage
    counts = (spent.attempts, usage.input_tokens or 0, usage.cache_read_tokens or 0, usage.output_tokens or 0)
    return *[str(count) for count in counts], cost_text(spent.cost(prices))


def _table(rows: list[tuple[str, ...]], usage: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    heads = ("id", "written", "events", "bytes", *(("attempts", "in", "cached", "out", "cost") if usage else ()))
    for at, name in enumerate(heads):
        widest = max(map(cell_len, [name, *[row[at] for row in rows]]))  # what is copied from here is never cut
        table.add_column(name, justify="right" if at > 1 else "left", no_wrap=True, min_width=widest)
    table.add_column("begins with", overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*[Text(column) for column in row])
    return table


def _note(text: str) -> None:
    sys.stderr.write(one_line(text, 1_000) + "\n")


__all__ = ["fork_session", "list_sessions", "repair_session", "show_session", "verify_sessions"]
