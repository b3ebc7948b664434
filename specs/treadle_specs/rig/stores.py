"""The stores a rig can open; the packages that bring them are imported when they are asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from treadle import Event, MemoryStore, SessionHeader
from treadle.session import Intake, OpenSession, SessionWriter, Taken

from .protocol import Json, given, mapped, refuse

_PACKAGE = "treadle_adapters.stores"
_NEEDS = {"jsonl": (f"{_PACKAGE}.jsonl",), "sqlite": (f"{_PACKAGE}.sqlite", "apsw")}


def available() -> list[str]:
    """The kinds of durable stores that can be opened here."""
    return [kind for kind, modules in _NEEDS.items() if all([_installed(module) for module in modules])]


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


class Watched:
    """A store that lets the rig see the write paths it opens; everything else is the inner store's.

    Args:
        inner: does the work.
        writers: gets the writer of each session that is created or opened.
    """

    def __init__(self, inner: Any, writers: dict[str, SessionWriter]) -> None:
        self._inner = inner
        self._writers = writers

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> SessionWriter:
        """See ``SessionStore``."""
        writer: SessionWriter = await self._inner.create(header, events)
        self._writers[header.id] = writer
        return writer

    async def open_write(self, session_id: str) -> OpenSession:
        """See ``SessionStore``."""
        opened: OpenSession = await self._inner.open_write(session_id)
        self._writers[session_id] = opened.writer
        return opened

    async def _open_intake(self, open_intake: Any, session_id: str, intake: Intake) -> Taken:
        taken: Taken = await open_intake(session_id, intake)
        self._writers[session_id] = taken.writer
        return taken

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return partial(self._open_intake, found) if name == "open_intake" else found  # which not every store has


class Shelf:
    """Where the sessions of one or more agents are kept.

    Args:
        kind: ``memory``, ``jsonl`` or ``sqlite``.
        path: the directory of a durable store.
    """

    def __init__(self, kind: str, path: Path | None) -> None:
        self.key = (kind, path)
        self.writers: dict[str, SessionWriter] = {}
        inner = MemoryStore() if path is None else importlib.import_module(_PACKAGE).open_store(kind, path)
        self.store: Any = Watched(inner, self.writers)

    def artifact(self, session_id: str) -> Json:
        """The file that holds a session, for the reply to ``open``; nothing when there is none."""
        kind, path = self.key
        if path is None:
            return {}
        file = self.store.path_of(session_id) if kind == "jsonl" else self.store.path
        return {"artifact": str(Path(file).absolute())}


def shelf_key(request: Json) -> tuple[str, Path | None]:
    """Which store an ``open`` asks for."""
    store = mapped(request, "store", {"kind": "memory"})
    kind = given(store, "kind", str)
    if kind == "memory":
        return kind, None
    if kind not in available():
        refuse("unsupported", f"no store of kind {kind!r} is installed")
    path = given(store, "path", str)
    if not path or "\0" in path:
        refuse("invalid", f"'path' must name a directory, not {path!r}")
    return kind, Path(path).absolute()
