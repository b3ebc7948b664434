"""``treadle models --explain``: what an error of a server would be taken for, and why (Q7, Q14)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from treadle.errors import MisuseError
from treadle.loop.retry import delay_of
from treadle.models import RetryPolicy
from treadle.printable import one_line

from ..exits import Exit
from ..extras import extra_for

if TYPE_CHECKING:
    from treadle_adapters.http.failures import Refusal

LONGEST_FILE = 1024 * 1024
"""How many bytes of a file are read (X3)."""


def explain(file: Path, status: int | None, protocol: str | None) -> int:
    """Say what the errors in a file would be taken for.

    Args:
        file: JSON with ``status``, ``headers``, ``body`` and ``protocol``, or a list of such, or a body as it came.
        status: the HTTP status of a body as it came; without one the error stood inside a stream.
        protocol: the protocol that it came in.

    Raises:
        MisuseError: the file cannot be read.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(LONGEST_FILE)
    except OSError as error:
        raise MisuseError(f"{file} cannot be read: {error.strerror or error}") from error
    found = _json(content)
    cases: list[Any] = cast("list[Any]", found) if isinstance(found, list) else [found]
    if not cases or not all([_is_case(case) for case in cases]):
        cases = [{"status": status, "protocol": protocol, "body": content if found is None else found}]
    for number, case in enumerate(cases):
        sys.stdout.write("\n" if number else "")
        sys.stdout.writelines(
            [f"{name:<9} {one_line(text, 400)}\n" for name, text in _explained(case, status, protocol)]
        )
    return Exit.OK


def _json(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _is_case(value: Any) -> bool:
    return isinstance(value, dict) and "body" in value


def _explained(case: dict[str, Any], status: int | None, protocol: str | None) -> list[tuple[str, str]]:
    given = case.get("status", status)
    refusal = _read(given if isinstance(given, int) else None, case.get("headers"), case["body"])
    failure, wait = refusal.failure, refusal.wait
    delay = delay_of(RetryPolicy(), 0, failure, 0.5)
    said = [str(case[name]) for name in ("server",) if case.get(name)] + [str(case.get("protocol") or protocol or "")]
    return [
        ("from", ", ".join([text for text in said if text]) or "not said"),
        ("code", failure.code),
        ("retry", "no" if delay is None else f"yes, after {delay:.3g} s"),
        ("wait", "none told" if wait is None else f"{wait.seconds:.3g} s, told by {wait.source}"),
        ("row", refusal.row.name),
        ("seen at", refusal.row.seen),
        ("message", failure.message),
    ]


def _read(status: int | None, headers: Any, body: Any) -> Refusal:
    with extra_for("models over HTTP need", "models"):
        from treadle_adapters.http.failures import read_error, read_response
    lowered: dict[str, str] = {}
    if isinstance(headers, dict):
        lowered = {str(name).lower(): str(value) for name, value in cast("dict[Any, Any]", headers).items()}
    raw = body if isinstance(body, bytes) else body.encode("utf-8", "replace") if isinstance(body, str) else b""
    parsed = _json(raw) if raw else body
    if status is None or status < 300:
        return read_error(raw.decode("utf-8", "replace") if parsed is None else parsed, None, lowered)
    return read_response(status, lowered, raw, parsed)
