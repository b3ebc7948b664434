"""How long a provider asks to wait (Q5, Q7)."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

LONGEST = 31_536_000.0
"""Seconds; a longer wait is cut to this, one year. Any policy treats both alike: as terminal (Q6)."""

_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that ``retry-after-ms`` or ``Retry-After`` ask to wait; ``None`` for none, negative or junk.

    Whole and fractional seconds and HTTP dates are read; a date that has passed gives 0. Dates count from the
    response's own ``Date`` where it has one, so that a wrong clock here does not matter.

    Args:
        headers: the response's headers, looked up by lower-case names.
        now: seconds since the epoch, instead of the clock.
    """
    millis = _seconds(headers.get("retry-after-ms", ""))
    if millis is not None:
        return min(millis / 1000, LONGEST)
    value = headers.get("retry-after", "").strip()
    seconds = _seconds(value)
    if seconds is not None:
        return min(seconds, LONGEST)
    until = _date(value)
    if until is None:
        return None
    since = _date(headers.get("date", ""))
    if since is None:
        since = time.time() if now is None else now
    return min(max(until - since, 0.0), LONGEST)


def _seconds(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text.strip()) else None


def _date(text: str) -> float | None:
    if not text or len(text) > 64:
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
