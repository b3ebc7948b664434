"""The statements of the mailbox. Each may be asked again after its answer was lost. They run in worker threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import LiteralString

from attrs import frozen

from treadle import DuplicateMessage, SessionNotFound
from treadle_adapters.stores.postgres import Connection

AT_ONCE = 500
"""Letters that are read together at most."""


@frozen
class Accepted:
    """A letter that is on record.

    Attributes:
        fresh: whether it was not there before.
        taken: whether it was taken already.
        owner: who owns its session and lives, ``None`` for nobody.
    """

    fresh: bool
    taken: bool
    owner: str | None


@frozen
class Waiting:
    """A letter that waits for the owner of its session. ``epoch`` is the one under which that owns it."""

    session: str
    epoch: int
    id: str
    letter: str


ACCEPT = """
with put as (
    insert into mailbox (session, id, digest, letter) select id, %(id)s, %(digest)s, %(letter)s from sessions where id = %(session)s
    on conflict (session, id) do nothing returning 1
)
select s.owner, coalesce(r.dead, false), (select count(*) from put) from sessions s left join replicas r on r.id = s.owner
where s.id = %(session)s
"""


def accept(conn: Connection, session: str, id: str, digest: str, letter: str) -> Accepted:
    """Put a letter into the mailbox, in one commit. Asked again it comes to the same.

    Raises:
        SessionNotFound: the session is not there.
        DuplicateMessage: another letter has that id.
    """
    values = {"session": session, "id": id, "digest": digest, "letter": letter}
    row = conn.execute(ACCEPT, values, prepare=True).fetchone()
    if row is None:
        raise SessionNotFound(f"no session {session!r} in database {conn.info.dbname}; list() tells which there are")
    owner, dead, fresh = row
    taken = False
    if not fresh:
        found = conn.execute(
            "select digest, letter is null from mailbox where session = %s and id = %s", (session, id)
        ).fetchone()
        if found is None:
            raise SessionNotFound(f"no session {session!r} in database {conn.info.dbname}; it was deleted meanwhile")
        if found[0] != digest:
            raise DuplicateMessage(id)
        taken = bool(found[1])
    return Accepted(bool(fresh), taken, None if dead else owner)


def notify(conn: Connection, told: Sequence[tuple[str, str]]) -> None:
    """Tell channels something, in a statement of its own: one inside a writing transaction holds up all commits."""
    channels, words = [channel for channel, _ in told], [word for _, word in told]
    conn.execute(
        "select pg_notify(channel, word) from unnest(%b::text[], %b::text[]) as t (channel, word)",
        (channels, words),
        prepare=True,
    )


WAITING: LiteralString = """
select m.session, s.epoch, m.id, m.letter from mailbox m join sessions s on s.id = m.session
where m.letter is not null and s.owner = %(me)s {some} order by m.number limit %(most)s
"""
ANY, SOME = WAITING.format(some=""), WAITING.format(some="and m.session = any(%(sessions)s)")


def waiting(conn: Connection, me: str, sessions: Iterable[str] | None, beside: int) -> list[Waiting]:
    """Letters for sessions that I own, in their order; ``beside`` more than usual, as some are under way already."""
    values = {"me": me, "sessions": list(sessions or ()), "most": AT_ONCE + beside}
    found = conn.execute(ANY if sessions is None else SOME, values, prepare=True)
    return [Waiting(*row) for row in found.fetchall()]


def unowned(conn: Connection, me: str) -> list[str]:
    """Sessions for which letters wait, and that nobody owns who lives, or that I own: they may not be open here."""
    found = conn.execute(
        "select distinct m.session from mailbox m join sessions s on s.id = m.session "
        "left join replicas r on r.id = s.owner "
        "where m.letter is not null and (s.owner is null or r.dead or s.owner = %s) limit %s",
        (me, AT_ONCE),
        prepare=True,
    )
    return [row[0] for row in found.fetchall()]


def answer(conn: Connection, session: str, id: str) -> tuple[int, str] | None:
    """Where a letter was recorded and what it came to; ``None`` while it waits.

    Raises:
        SessionNotFound: the session was deleted.
    """
    found = conn.execute(
        "select seq, answer from mailbox where session = %s and id = %s", (session, id), prepare=True
    ).fetchone()
    if found is None:
        raise SessionNotFound(f"no session {session!r} in database {conn.info.dbname}; it was deleted")
    return (int(found[0]), str(found[1])) if found[0] is not None else None


def owner(conn: Connection, session: str) -> str | None:
    """Who owns a session and lives; ``None`` for nobody.

    Raises:
        SessionNotFound: it is not there.
    """
    row = conn.execute(
        "select s.owner, coalesce(r.dead, false) from sessions s left join replicas r on r.id = s.owner where s.id = %s",
        (session,),
        prepare=True,
    ).fetchone()
    if row is None:
        raise SessionNotFound(f"no session {session!r} in database {conn.info.dbname}; list() tells which there are")
    return None if row[1] else row[0]


def some_replica(conn: Connection, but: str) -> str | None:
    """Any replica that lives and is another one; ``None`` where there is none."""
    row = conn.execute(
        "select id from replicas where not dead and id <> %s order by random() limit 1", (but,), prepare=True
    ).fetchone()
    return row[0] if row is not None else None
