"""How long a provider asks to wait, in whatever header, field or sentence it says so (Q5, Q7, Q14)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from attrs import frozen

LONGEST = 31_536_000.0
"""Seconds; a longer wait is cut to this, one year. Any policy treats both alike: as terminal (Q6)."""

FIELDS = {
    "retrydelay": 1.0,  # google.rpc.RetryInfo
    "retry_after": 1.0,
    "retryafter": 1.0,
    "retry-after": 1.0,
    "retry_after_seconds": 1.0,
    "retryafterseconds": 1.0,
    "retry_after_ms": 0.001,
    "retryafterms": 0.001,
    "retry-after-ms": 0.001,
    "resets_in_seconds": 1.0,
    "reset_after": 1.0,
    "reset_seconds": 1.0,
    "resets_at": 1.0,
    "reset_at": 1.0,
    "resetsat": 1.0,
    "resetat": 1.0,
}
"""Fields of a body that tell a wait or the moment of its end, by how many seconds their unit is."""

_UNITS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "millisecond": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hr": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0,
}  # fmt: skip
_NUMBER = re.compile(r"\d{1,400}(?:\.\d{0,40})?|\.\d{1,40}", re.ASCII)
_PIECE = (
    r"(\d{1,15}(?:\.\d{1,20})?)\s?(ns|us|µs|ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
)
_DURATION = re.compile(rf"(?:{_PIECE}[\s,]*(?:and\s)?)+(?![a-z0-9])", re.IGNORECASE)
_PIECES = re.compile(_PIECE, re.IGNORECASE)
_ASKED = re.compile(
    r"(?:try again|retry|retrying|retried|wait|resets?|available again|come back|trying again)"
    r"(?: again)?(?: (?:after|in|for|at least))?:? (?:about |another |approximately )?"
    rf"(?={_PIECE}(?![a-z]))",
    re.IGNORECASE,
)
_UNTIL = re.compile(
    r"(?:access on|reset(?:s)? (?:on|at)|try again (?:on|at|after)|until|available (?:on|at|again at))\s+"
    r"(\d{4}-\d\d-\d\d(?:[T ]| at )\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})? ?(?:Z|UTC|[+-]\d\d:?\d\d))",
    re.IGNORECASE,
)
_RESET = re.compile(r"rate-?limit.*reset|reset.*rate-?limit")
_DRAFT = re.compile(r"(?:^|[,;]\s*)(reset|t|remaining|r)=(\d{1,12}(?:\.\d{1,9})?)")


@frozen
class Wait:
    """A wait that a provider asks for.

    Attributes:
        seconds: how long, at most ``LONGEST``.
        source: where it says so, for people.
        exact: whether it was told as the wait before another try, and not only as the time of some limit's reset.
    """

    seconds: float
    source: str
    exact: bool = True


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that ``retry-after-ms`` or ``Retry-After`` ask to wait; ``None`` for none, negative or junk.

    Whole and fractional seconds and HTTP dates are read; a date that has passed gives 0. Dates count from the
    response's own ``Date`` where it has one, so that a wrong clock here does not matter.

    Args:
        headers: the response's headers, looked up by lower-case names.
        now: seconds since the epoch, instead of the clock.
    """
    found = _of_retry_after(headers, _clock(headers, now))
    return None if found is None else found.seconds


def wait_of_headers(headers: Mapping[str, str], now: float | None = None) -> Wait | None:
    """The wait that headers tell: ``Retry-After`` first, else the latest reset of the limits that are used up.

    A reset whose limit has something remaining is not what the refusal is about. Where no header says what remains,
    the earliest reset is taken: waiting for more than is needed is worse than one more refusal.
    """
    since = _clock(headers, now)
    return _of_retry_after(headers, since) or _of_resets(headers, since)


def wait_of_body(body: Any, message: str, headers: Mapping[str, str], now: float | None = None) -> Wait | None:
    """The wait that a body tells: in a field, in headers that it quotes, or in its sentence."""
    since = _clock(headers, now)
    fallback: Wait | None = None
    for name, value in _fields(body):
        unit = FIELDS.get(name.lower())
        if unit is not None and (seconds := seconds_of(str(value), since, unit)) is not None:
            return Wait(seconds, f"the body's {name}")
        if isinstance(value, dict) and name.lower() == "headers":
            quoted = {str(key).lower(): str(inner) for key, inner in cast("dict[Any, Any]", value).items()}
            found = _of_retry_after(quoted, since) or _of_resets(quoted, since)
            fallback = fallback or (None if found is None else Wait(found.seconds, f"the body's {found.source}"))
    return fallback or _of_sentence(message, since)


def seconds_of(text: str, since: float, unit: float = 1.0) -> float | None:
    """How long a value asks to wait.

    Read are numbers (seconds, or seconds, milliseconds, … since the epoch where they are so large), durations like
    ``1m30.5s``, ``PT34S`` and ``2 minutes``, and moments in RFC 3339 or as an HTTP date.

    Args:
        text: the value.
        since: seconds since the epoch from which moments count.
        unit: how many seconds a plain number's unit is.
    """
    text = text.strip()
    if not text or len(text) > 400:
        return None
    if _NUMBER.fullmatch(text):
        number = float(text)
        for large, scale in ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3), (1e9, 1.0)):
            if large <= number < 1e19:
                return min(max(number * scale - since, 0.0), LONGEST)
        return min(number * unit, LONGEST)
    lowered = text.lower().removeprefix("pt")
    if _DURATION.fullmatch(lowered):
        return _duration(lowered)
    until = _moment(text)
    return None if until is None else min(max(until - since, 0.0), LONGEST)


def _duration(text: str) -> float:
    pieces = [(float(number), unit.lower()) for number, unit in _PIECES.findall(text)]
    return min(sum([number * (_UNITS.get(unit) or _UNITS[unit.rstrip("s")]) for number, unit in pieces]), LONGEST)


def _moment(text: str) -> float | None:
    """A moment as seconds since the epoch; without a zone it is UTC."""
    if len(text) > 64:
        return None
    try:
        found = datetime.fromisoformat(text) if text[:4].isdigit() and "-" in text else parsedate_to_datetime(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _clock(headers: Mapping[str, str], now: float | None) -> float:
    told = _moment(headers.get("date", "").strip())
    if told is not None:
        return told
    return time.time() if now is None else now


def _of_retry_after(headers: Mapping[str, str], since: float) -> Wait | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0), ("x-retry-after", 1.0)):
        seconds = seconds_of(headers.get(name, ""), since, unit)
        if seconds is not None:
            return Wait(seconds, f"header {name}")
    return None


def _of_resets(headers: Mapping[str, str], since: float) -> Wait | None:
    used_up: list[Wait] = []
    unknown: list[Wait] = []
    for name, value in headers.items():
        lowered = name.lower()
        if lowered in ("ratelimit", "x-ratelimit"):  # "limit=5, remaining=0, reset=7", or of late "name";r=0;t=7
            fields = dict(_DRAFT.findall(value))
            reset, left = fields.get("reset", fields.get("t")), fields.get("remaining", fields.get("r"))
        elif _RESET.search(lowered):
            reset, left = value, _remaining(headers, lowered)
        else:
            continue
        seconds = seconds_of(reset or "", since, 0.001 if lowered.endswith("-ms") else 1.0)
        if seconds is None:
            continue
        wait = Wait(seconds, f"header {lowered}", exact=False)
        if left is None:
            unknown.append(wait)
        elif _is_used_up(left):
            used_up.append(wait)
    if used_up:
        return max(used_up, key=lambda wait: wait.seconds)
    return min(unknown, key=lambda wait: wait.seconds, default=None)


def _remaining(headers: Mapping[str, str], reset: str) -> str | None:
    """What remains of the limit that a reset header is about."""
    for word in ("remaining", "status"):
        left = headers.get(reset.replace("reset", word))
        if left is not None:
            return left
    return None


def _is_used_up(left: str) -> bool:
    left = left.strip()
    return float(left) <= 0 if _NUMBER.fullmatch(left) else left.lower() in ("rejected", "exceeded", "-1")


def _of_sentence(message: str, since: float) -> Wait | None:
    asked = _ASKED.search(message)
    if asked is not None:
        duration = _DURATION.match(message, asked.end())
        if duration is not None:
            return Wait(_duration(duration.group()), "the message")
    until = _UNTIL.search(message)
    if until is not None:
        text = re.sub(r" at |(?<=\d) (?=\d\d:)", "T", until.group(1)).upper().replace(" ", "").replace("UTC", "Z")
        moment = _moment(text)
        if moment is not None:
            return Wait(min(max(moment - since, 0.0), LONGEST), "the message")
    return None


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """All named values inside a body, as far as a body of a refusal is read."""
    level, seen = [value], 0
    for _ in range(8):
        following: list[Any] = []
        for item in level:
            pairs: list[tuple[Any, Any]] = []
            if isinstance(item, dict):
                pairs = list(cast("dict[Any, Any]", item).items())
            elif isinstance(item, list):
                pairs = [("", inner) for inner in cast("list[Any]", item)]
            for name, inner in pairs:
                seen += 1
                if seen > 500:
                    return
                yield str(name), inner
                following.append(inner)
        level = following
