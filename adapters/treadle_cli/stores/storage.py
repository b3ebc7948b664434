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
        directory: where sessions lie; a directory of the present project unless given.
        resume: the id of a session to go on with.
        latest: whether to go on with the newest one.
        save: whether it is kept at all.
    """

    directory: Path | None = None
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


def sessions_directory(directory: Path | None) -> Path:
    """Where the sessions of the present project lie, unless ``directory`` says otherwise."""
    from treadle_adapters.stores import default_root, project_directory

    return directory if directory is not None else project_directory(default_root(), Path.cwd())


def store_for(choice: SessionChoice) -> SessionStore | None:
    """The store of a run of the command, to be used as an async context manager; ``None`` keeps nothing."""
    from treadle_adapters.stores import open_store

    return open_store("jsonl", sessions_directory(choice.directory)) if choice.save else None


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
    where = sessions_directory(choice.directory)
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
        option = f" --session-dir {shlex.quote(str(choice.directory))}" if choice.directory is not None else ""
        where = sessions_directory(choice.directory)
        raise SessionNotFound(
            f"there is no session {choice.resume!r} in {where}; `treadle sessions list{option}` lists those that are"
        ) from error
