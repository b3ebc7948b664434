"""Which database is meant, how it is connected to, and what may be shown of that (X1)."""

from __future__ import annotations

import re
from typing import Any, Self

import psycopg
from attrs import frozen
from psycopg.conninfo import conninfo_to_dict

from treadle import MisuseError

from .. import is_database

SCHEMA = "treadle"
"""The schema of the database that holds the tables, unless another is named."""
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}")
CONNECT = 5
"""Seconds within which the server has to accept a connection."""


@frozen
class Place:
    """A schema in a database.

    Attributes:
        url: as libpq takes it; may hold a password, so it is never shown.
        schema: the schema that holds the tables.
        shown: host and database, for messages.
    """

    url: str
    schema: str
    shown: str

    def __repr__(self) -> str:
        return f"<Place {self.shown}>"

    @classmethod
    def of(cls, url: str, schema: str = SCHEMA) -> Self:
        """Read a URL.

        Raises:
            MisuseError: it is none, or the schema's name is not plain; nothing of the URL is repeated (X1).
        """
        if not _SCHEMA_NAME.fullmatch(schema):
            raise MisuseError(f"a schema's name is of small letters, digits and underscores, not {schema!r}")
        if not is_database(url):
            raise MisuseError("a database is named by a URL, as in postgres://user@host/database")
        try:
            known: dict[str, Any] = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise MisuseError(
                "the URL of the database cannot be read; it is like postgres://user@host:5432/database, "
                "and what is no letter or digit in a name or password is percent-encoded"
            ) from None
        where = known.get("host") or known.get("hostaddr") or "localhost"
        port = f":{known['port']}" if known.get("port") else ""
        name = known.get("dbname") or known.get("user") or ""
        return cls(url, schema, f"postgres://{where}{port}/{name}")

    def options(self, patience: float, *, durable: bool) -> dict[str, Any]:
        """How to connect, so that nothing waits for longer than ``patience`` seconds, on either side."""
        milliseconds = max(1, int(patience * 1000))
        settings = {
            "search_path": self.schema,
            "client_encoding": "UTF8",
            "synchronous_commit": "on" if durable else "off",
            "statement_timeout": milliseconds,
            "lock_timeout": max(1, milliseconds // 2),
            "idle_in_transaction_session_timeout": milliseconds,
            "tcp_keepalives_idle": 10,
            "tcp_keepalives_interval": 3,
            "tcp_keepalives_count": 3,
        }
        given = str(conninfo_to_dict(self.url).get("options") or "")
        return {
            "autocommit": True,
            "application_name": "treadle",
            "connect_timeout": max(2, min(CONNECT, int(patience))),
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": milliseconds,
            "options": " ".join([given, *[f"-c {name}={value}" for name, value in settings.items()]]).strip(),
        }
