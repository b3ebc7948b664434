"""Session stores: JSONL files, the default, SQLite, and PostgreSQL for many machines (§13)."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any, Literal

from treadle import MemoryStore, MisuseError
from treadle.session import SessionStore

StoreKind = Literal["jsonl", "sqlite", "postgres", "memory"]
DATABASE = "sessions.sqlite"
"""The file that an SQLite store uses in a directory it is given."""


def is_database(name: object) -> bool:
    """Whether what names a store is the URL of a PostgreSQL database, as in ``postgres://user@host/database``."""
    return str(name).startswith(("postgres://", "postgresql://"))


def open_store(
    kind: str, path: str | Path, *, fsync: Literal["always", "flush", "never"] = "flush", **options: Any
) -> SessionStore:
    """Open a store; use it as an async context manager, or close it.

    Args:
        kind: ``jsonl``, ``sqlite``, ``postgres`` or ``memory``.
        path: the directory that holds the sessions; made when the first one is stored. Of ``postgres`` the URL of the
            database; ``memory`` does without.
        fsync: when records go to disk (P7).
        **options: those of ``PostgresStore``.

    Raises:
        MisuseError: there is no such kind, or it takes no such option, or the URL is none.
    """
    if kind == "postgres":
        from .postgres import PostgresStore

        return PostgresStore(str(path), fsync=fsync, **options)
    if options:
        raise MisuseError(f"a store of kind {kind!r} takes no {', '.join(options)}")
    if kind == "jsonl":
        from .jsonl import JsonlStore

        return JsonlStore(path, fsync=fsync)
    if kind == "sqlite":
        from .sqlite import SqliteStore

        return SqliteStore(Path(path) / DATABASE, fsync=fsync)
    if kind == "memory":
        return MemoryStore()
    raise MisuseError(f"store kind must be 'jsonl', 'sqlite', 'postgres' or 'memory', not {kind!r}")


def project_directory(root: str | Path, cwd: str | Path) -> Path:
    """Where the sessions of a project lie: one directory below ``root`` per working directory, named after it."""
    whole = str(Path(cwd).resolve())
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(whole).name).strip(".-")[:40] or "root"
    return Path(root) / f"{name}-{hashlib.sha256(whole.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def default_root() -> Path:
    """Where sessions lie unless told otherwise: ``$XDG_STATE_HOME/treadle/sessions`` or its usual place."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return base / "treadle" / "sessions"
