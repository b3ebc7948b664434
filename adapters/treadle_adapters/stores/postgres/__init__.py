"""Sessions in PostgreSQL: one database for any number of machines, through ``psycopg`` (§13).

``PostgresStore`` is a store as any other. What stands below it: ``place`` says which database is meant, ``link`` is one
connection to it, ``tables`` makes and migrates what it holds, ``rows`` reads and changes sessions, ``append`` adds events
of many sessions in one commit, ``flusher`` gathers them, ``notices`` and ``follow`` tell others of them.
May import: the core, and the files and threads of ``stores``.
"""

from .append import Letter
from .link import Connection, Link, Reach
from .notices import Telling
from .place import SCHEMA, Place
from .rows import news
from .store import Lease, PostgresStore, owner_here

__all__ = [
    "SCHEMA",
    "Connection",
    "Lease",
    "Letter",
    "Link",
    "Place",
    "PostgresStore",
    "Reach",
    "Telling",
    "news",
    "owner_here",
]
