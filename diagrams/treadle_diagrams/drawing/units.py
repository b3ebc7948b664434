"""Times and counts as people read them."""

from __future__ import annotations


def duration(milliseconds: float) -> str:
    """A time as a few characters: ``0ms``, ``85ms``, ``1.2s``, ``34s``, ``5m``, ``2h``, ``3d``."""
    seconds = milliseconds / 1000
    if round(milliseconds) < 1000:
        return f"{milliseconds:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    for unit, size, limit in (("s", 1, 60), ("m", 60, 60), ("h", 3600, 24)):
        if round(seconds / size) < limit:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds / 86400:.0f}d"


def counted(count: int, what: str) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")
