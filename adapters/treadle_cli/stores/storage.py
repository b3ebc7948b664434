"""Where the command keeps its sessions, and which one is meant."""

from __future__ import annotations

import shlex
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from treadle import MisuseError
from treadle.errors import SessionNotFound
from treadle.session import SessionStore


@frozen
class SessionChoice:
    """What was said about the session.

    Attributes:
        directory: where sessions lie, a folder or a database; a directory of the present project unless given.
        resume: the id of a session to go on with.
        latest: whether to go on with the newest one.
        save: whether it is kept at all.
    """

    directory: str | Path | None = None
    resume: str | None = None
    latest: bool = False
    save: bool = True

    def check(self) -> None:
        """Check that it makes sense.

        Raises:
            MisuseError: it does not.
        """
        if self.resume is not None and self.latest:
            raise MisuseError("give either --resume ID or --continue, not both")
        if not self.save and (self.resume is not None or self.latest or self.directory is not None):
            raise MisuseError("--no-save keeps no session, so none can be named with it")


def sessions_directory(directory: str | Path | None) -> Path:
    """The folder in which the sessions of the present project lie, unless ``directory`` says otherwise."""
    from treadle_adapters.stores import default_root, project_directory

    return Path(directory) if directory is not None else project_directory(default_root(), Path.cwd())


def open_where(kind: str, where: str | Path | None) -> SessionStore:
    """The store of a kind in a folder, or the database where a URL of one is given instead; to be entered.

    Raises:
        MisuseError: it is no URL of a database.
        MissingExtra: the library for it is not installed.
    """
    from treadle_adapters.stores import is_database, open_store

    from .database import open_database

    return open_database(str(where)) if is_database(where) else open_store(kind, sessions_directory(where))


def where_shown(where: str | Path | None) -> str:
    """What may be shown of where sessions lie (X1)."""
    from treadle_adapters.stores import is_database

    from .database import shown

    return shown(str(where)) if is_database(where) else str(sessions_directory(where))


def store_for(choice: SessionChoice) -> SessionStore | None:
    """The store of a run of the command, to be used as an async context manager; ``None`` keeps nothing."""
    return open_where("jsonl", choice.directory) if choice.save else None


async def session_meant(choice: SessionChoice, store: SessionStore | None) -> str | None:
    """The id of the stored session to go on with, ``None`` for a new one.

    Raises:
        MisuseError: the newest is meant, and there is none in which something was said.
    """
    if store is None or not choice.latest:
        return choice.resume
    listing = await store.list()
    for one in listing.sessions:
        if one.events != 0:
            return one.header.id
    where = where_shown(choice.directory)
    raise MisuseError(f"there is no session to continue in {where}; leave --continue out to begin one")


@contextmanager
def session_known(choice: SessionChoice) -> Generator[None]:
    """Say, where a session is meant that is not there, which command lists those that are.

    Raises:
        SessionNotFound: it is not there.
    """
    try:
        yield
    except SessionNotFound as error:
        where = where_shown(choice.directory)
        option = f" --session-dir {shlex.quote(where)}" if choice.directory is not None else ""
        raise SessionNotFound(
            f"there is no session {choice.resume!r} in {where}; `treadle sessions list{option}` lists those that are"
        ) from error
