"""The tables, and how a database comes to have them: one step per version, each in one transaction (P5)."""

from __future__ import annotations

from typing import LiteralString

from psycopg.sql import SQL, Identifier

from treadle import StoreFailure
from treadle.errors import SessionFormatUnsupported

from .link import Connection

MIGRATIONS: tuple[LiteralString, ...] = (
    """
    create table sessions (
        id text collate "C" primary key,
        header text not null,              -- the header record
        made text not null,                -- tells a session from one of the same id that was deleted
        owner text,                        -- who writes it; null: nobody
        epoch int8 not null,               -- another one with every opening for writing, ever greater: the fence (P2)
        next_seq int8 not null,            -- the seq that is due
        size int8 not null,                -- bytes of all records
        modified int8 not null             -- milliseconds since the epoch, by the server's clock
    ) with (fillfactor = 50);
    create index sessions_owner on sessions (owner) where owner is not null;
    create sequence epochs;
    create table events (
        session text collate "C" not null,
        seq int8 not null,
        epoch int8 not null,               -- under which it was written
        record text not null,              -- the event, as a line of a log
        primary key (session, seq)
    );
    """,
    """
    create table replicas (
        id text collate "C" primary key,   -- as owner of sessions; never used twice
        lease float8 not null,             -- seconds without a beat after which others bury it
        beat int8 not null default 0,      -- counted by others, on their own clocks
        dead boolean not null default false
    );
    """,
    """
    create table mailbox (
        session text collate "C" not null references sessions on delete cascade,
        id text collate "C" not null,      -- of a message, or of whatever else is asked: asked once
        number int8 not null generated always as identity,  -- the order in which a session's letters are taken
        digest text not null,              -- tells a letter from another one under the same id
        letter text,                       -- what is asked; null once it was taken
        seq int8,                          -- the event that records it: written by the same commit
        answer text,                       -- what it came to
        primary key (session, id)
    );
    create index mailbox_waiting on mailbox (session, number) where letter is not null;
    """,
)
"""What leads from each version of the tables to the next; the first one makes them."""
MIGRATING = 7_238_531
"""The key of the lock under which tables are made."""


def prepare(conn: Connection, schema: str) -> None:
    """See that the tables are there, and are of this version; openers that come together wait for each other.

    Raises:
        SessionFormatUnsupported: they are of a newer version (P5).
        StoreFailure: the database cannot hold every text.
    """
    encoding = conn.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreFailure(f"the database keeps text as {encoding}, which cannot hold every event: make one of UTF8")
    if _version(conn) == len(MIGRATIONS):
        return
    conn.execute("select pg_advisory_lock(%s)", (MIGRATING,))  # before the transaction, which sees what others made
    try:
        with conn.transaction():
            _migrate(conn, schema)
    finally:
        if not conn.closed:
            conn.execute("select pg_advisory_unlock(%s)", (MIGRATING,))


def _migrate(conn: Connection, schema: str) -> None:
    version = _version(conn)
    if version > len(MIGRATIONS):
        raise SessionFormatUnsupported(
            f"schema {schema!r} has tables of version {version}, this treadle knows {len(MIGRATIONS)} (P5): "
            "use a newer one"
        )
    if not version:
        conn.execute(SQL("create schema if not exists {}").format(Identifier(schema)))
        conn.execute("create table versions (version int4 primary key, at timestamptz not null default now())")
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        conn.execute(statements)
        conn.execute("insert into versions (version) values (%s)", (number,))


def _version(conn: Connection) -> int:
    """The version of the tables that are there, 0 for none."""
    row = conn.execute("select to_regclass('versions')").fetchone()
    if row is None or row[0] is None:
        return 0
    row = conn.execute("select coalesce(max(version), 0) from versions").fetchone()
    return row[0] if row is not None else 0
