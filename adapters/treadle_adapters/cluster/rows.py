"""The statements of replicas. Each may be asked again after its answer was lost. They run in worker threads."""

from __future__ import annotations

from typing import LiteralString

from treadle_adapters.stores.postgres import Connection

Beats = dict[str, tuple[int, float]]
"""Of each replica that is not buried: how often it has beaten, and its lease in seconds."""
Claimed = dict[str, int]
"""Sessions and their epochs."""


def register(conn: Connection, me: str, lease: float) -> None:
    """Enter a replica among those that live."""
    conn.execute("insert into replicas (id, lease) values (%s, %s) on conflict (id) do nothing", (me, lease))


def beat(conn: Connection, me: str) -> bool:
    """Say that it lives, whatever it owns; ``False`` when it was buried."""
    row = conn.execute("update replicas set beat = beat + 1 where id = %s and not dead returning 1", (me,)).fetchone()
    return row is not None


def seen(conn: Connection) -> Beats:
    """Those that are not buried."""
    return {row[0]: (row[1], row[2]) for row in conn.execute("select id, beat, lease from replicas where not dead")}


def bury(conn: Connection, replica: str, beat: int) -> bool:
    """Take a replica for dead if it has not beaten since; returns whether it is by now."""
    conn.execute("update replicas set dead = true where id = %s and beat = %s and not dead", (replica, beat))
    row = conn.execute("select dead from replicas where id = %s", (replica,)).fetchone()
    return row is None or bool(row[0])


def leave(conn: Connection, me: str) -> None:
    """Have others take over at once what it still owns."""
    conn.execute("update replicas set dead = true where id = %s", (me,))


FORGET: LiteralString = """
delete from replicas r where dead and not exists (select from sessions s where s.owner = r.id collate "default")
"""
"""With the collation of the sessions' owners, or else all sessions are read and their index is not."""


def left_behind(conn: Connection) -> list[str]:
    """Buried replicas that still own sessions. Those that own none are forgotten."""
    conn.execute(FORGET)
    return [row[0] for row in conn.execute("select id from replicas where dead order by id")]


CLAIM = """
update sessions set owner = %(me)s, epoch = nextval('epochs')
where id in (select id from sessions where owner = %(dead)s order by id limit %(count)s for no key update skip locked)
    and owner = %(dead)s
    and exists (select from replicas where id = %(dead)s and dead)
    and exists (select from replicas where id = %(me)s and not dead)
returning id, epoch
"""


def claim(conn: Connection, me: str, dead: str, count: int) -> Claimed:
    """Become the owner of sessions of a buried replica, of some that are still its own."""
    rows = conn.execute(CLAIM, {"me": me, "dead": dead, "count": count}).fetchall()
    return {row[0]: row[1] for row in rows}


def owned(conn: Connection, me: str) -> Claimed:
    """Everything that a replica owns."""
    return {row[0]: row[1] for row in conn.execute("select id, epoch from sessions where owner = %s", (me,))}


def release(conn: Connection, session_id: str, epoch: int) -> None:
    """Let anybody have a session that could not be resumed here."""
    conn.execute("update sessions set owner = null where id = %s and epoch = %s", (session_id, epoch))
