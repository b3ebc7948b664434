"""The stores a rig can open; the packages that bring them are imported when they are asked for."""

from __future__ import annotations

import importlib.util

from .protocol import Json, given, mapped, refuse


def available() -> list[str]:
    """The kinds of durable stores that can be opened here."""
    return []


def check_store(request: Json) -> None:
    """Refuse a store that cannot be opened here."""
    store = mapped(request, "store", {"kind": "memory"})
    kind = given(store, "kind", str)
    if kind != "memory" and kind not in available():
        refuse("unsupported", f"no store of kind {kind!r} is installed")


def installed(module: str) -> bool:
    """Whether a module can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False
