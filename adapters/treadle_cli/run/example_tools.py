"""Two harmless tools, so that an agent has something to call."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from treadle import Tool, ToolError, tool


async def _now(timezone: str = "UTC") -> str:
    """Tell the date and time in a time zone, named as in Europe/Lisbon."""
    try:
        zone = UTC if timezone.upper() in ("", "UTC") else ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ToolError(f"there is no time zone {timezone!r}; use a name such as Europe/Lisbon or UTC") from error
    return datetime.now(zone).strftime("%A, %Y-%m-%d %H:%M:%S %Z")


async def _add(a: float, b: float) -> float | int:
    """Add two numbers."""
    total = a + b
    return int(total) if total == total // 1 else total


EXAMPLE_TOOLS: tuple[Tool, ...] = (
    tool(_now, name="now", parallel=True),
    tool(_add, name="add", parallel=True),
)
"""``now`` and ``add``."""
