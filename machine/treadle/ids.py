"""Identities: plain strings at run time, distinct types to a type checker."""

from __future__ import annotations

import re
from typing import NewType

import uuid_utils

from .errors import MisuseError

SessionId = NewType("SessionId", str)
"""Names one session and the agent that drives it (contract §1)."""

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


def session_id(value: str) -> SessionId:
    """Validate a session id: 1 to 128 of ``A-Z a-z 0-9 . _ -``, no leading mark, no ``..`` (X2).

    Raises:
        MisuseError: it could leave its directory or is otherwise unusable.
    """
    if not isinstance(value, str) or not _SESSION_ID.match(value) or ".." in value:  # pyright: ignore[reportUnnecessaryIsInstance]
        shown = repr(value)
        shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
        raise MisuseError(
            f"session id {shown} is not allowed (X2): use 1 to 128 letters, digits, '.', '_' or '-', "
            "starting with a letter or digit, without '..'"
        )
    return SessionId(value)


def new_id() -> str:
    """Return a fresh identity (UUID version 7: ordered by creation time)."""
    return str(uuid_utils.uuid7())
