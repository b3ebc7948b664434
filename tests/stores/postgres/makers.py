"""The PostgreSQL store as a kind of store: a schema for each directory, and how what it holds is harmed."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.postgres import Server
from tests.stores.makers import Kind, Undo
from treadle_adapters.stores.postgres import PostgresStore
from treadle_specs.kits import Faults


def schema_of(directory: Path) -> str:
    return f"t{hashlib.sha256(str(directory).encode()).hexdigest()[:16]}"


def kind_on(server: Server) -> Kind:
    """The kind of store that lies on this server."""

    def make(directory: Path) -> PostgresStore:
        return PostgresStore(server.url, schema=schema_of(directory))

    def connect(directory: Path) -> Any:
        return server.connect(schema_of(directory))

    def execute(*statements: str) -> Callable[[Path, str], None]:
        def run(directory: Path, session_id: str) -> None:
            with connect(directory) as conn:
                for statement in statements:
                    conn.execute(statement, {"id": session_id})

        return run

    def rename(directory: Path, session_id: str) -> Undo:
        execute(
            "update sessions set id = 'moved' where id = %(id)s",
            "update events set session = 'moved' where session = %(id)s",
        )(directory, session_id)
        back = execute(
            "update sessions set id = %(id)s, owner = null where id = 'moved'",
            "update events set session = %(id)s where session = 'moved'",
        )
        return lambda: back(directory, session_id)

    def copy(directory: Path, session_id: str) -> Undo:
        execute(
            "create table old_sessions as select * from sessions where id = %(id)s",
            "create table old_events as select * from events where session = %(id)s",
        )(directory, session_id)
        replace = execute(
            "delete from sessions where id = %(id)s",
            "delete from events where session = %(id)s",
            "update old_sessions set owner = null",
            "insert into sessions select * from old_sessions",
            "insert into events select * from old_events",
        )
        return lambda: replace(directory, session_id)

    @contextlib.contextmanager
    def refusing(directory: Path, trigger: str, tables: tuple[str, ...]) -> Iterator[None]:
        with connect(directory) as conn:
            conn.execute(
                "create function refuse() returns trigger language plpgsql as "
                "$$ begin raise insufficient_privilege using message = 'not permitted'; end $$"
            )
            for table in tables:
                conn.execute(f"create trigger jam before {trigger.format(table=table)}")
        try:
            yield
        finally:
            with connect(directory) as conn:
                conn.execute("drop function refuse cascade")

    def jam(directory: Path, session_id: str) -> contextlib.AbstractContextManager[None]:
        row = f"for each row when (new.session = '{session_id}')"
        return refusing(directory, f"insert on {{table}} {row} execute function refuse()", ("events",))

    def revoke(directory: Path, _: str) -> contextlib.AbstractContextManager[None]:
        change = "insert or update on {table} for each statement execute function refuse()"
        return refusing(directory, change, ("sessions", "events"))

    return Kind(
        "postgres",
        make,
        Faults(
            None,
            execute("update events set record = '{\"type\":' where session = %(id)s and seq = 3"),
            execute("update sessions set owner = null where id = %(id)s"),
            jam,
            execute("delete from events where session = %(id)s", "delete from sessions where id = %(id)s"),
            rename,
            copy,
            execute(
                "delete from events where session = %(id)s and seq >= "
                "(select next_seq / 2 from sessions where id = %(id)s)"
            ),
            revoke,
        ),
    )
