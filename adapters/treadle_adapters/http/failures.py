"""The one seam where foreign errors become failures with codes (Q5, Q7, Q14)."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, cast

import httpx
import trio
from attrs import frozen

from treadle import Failure, ModelFailure
from treadle.models import MAX_MESSAGE, Code, repair_text

from .refusals import Row, recognize
from .told import Told, is_word, told_by
from .waits import LONGEST, Wait, wait_of_body, wait_of_headers

SHOWN = 300
"""How many characters of an unexpected body a failure shows."""

SHORT_WAIT = 60.0
"""Seconds; a longer wait is told in the failure's message, and makes a limit of a day or longer terminal."""

LIMITED = (Code.RATE_LIMIT, Code.QUOTA)
"""Refusals that the reset of a limit is about."""

WAITING = (*LIMITED, Code.SERVER, Code.TIMEOUT)
"""Refusals whose body may tell a wait."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_REQUEST_IDS = ("request-id", "x-request-id", "apim-request-id", "x-amzn-requestid")


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's name for a request, if a header gives a usable one."""
    for name in _REQUEST_IDS:
        value = headers.get(name, "").strip()
        if value:
            return value[:200] if value.isascii() and value.isprintable() else None
    return None


def beginning(body: bytes | str) -> str:
    """The first characters of a body, on one line, fit for a message."""
    text = body[: SHOWN * 8].decode("utf-8", "replace") if isinstance(body, bytes) else body[: SHOWN * 8]
    text = " ".join(repair_text(text).split())
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


@frozen
class Refusal:
    """A refusal, read.

    Attributes:
        failure: what it is reported as.
        row: which row of the table says so.
        wait: how long it asks to wait, and where it says so.
    """

    failure: Failure
    row: Row
    wait: Wait | None


def failure_of_error(error: Any, status: int | None = None) -> Failure:
    """Read an error as providers write it: text, or an object with ``message``, ``code`` and ``type`` (Q7).

    Args:
        error: what stood under ``error``, or the whole object.
        status: the response's HTTP status, if that is an error.
    """
    return read_error(error, status).failure


def read_error(error: Any, status: int | None = None, headers: Mapping[str, str] = NO_HEADERS) -> Refusal:
    """Read an error as ``failure_of_error`` does, and say what decided (Q7, Q14).

    Args:
        error: what stood under ``error``, or the whole object.
        status: the response's HTTP status, if that is an error.
        headers: the response's headers, by lower-case names.
    """
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": error}
    told = told_by(fields)
    row = recognize(told, status)
    wait = _wait(row, fields, told, headers)
    code = Code.RATE_LIMIT if row.patient and wait is not None and wait.seconds <= SHORT_WAIT else row.code
    inner = fields.get("error")
    if isinstance(inner, dict) and "message" not in fields:
        fields = cast("dict[str, Any]", inner)
    elif isinstance(inner, str) and "message" not in fields:
        fields = {**fields, "message": inner}
    message = _message(fields)
    words = [str(fields[key]) for key in ("code", "type", "status") if is_word(fields.get(key))]
    where = f"HTTP {status}" if status is not None else "the provider reports"
    named = [word for word in words if word.lower() not in message.lower()]
    text = f"{where}: {message}" + (f" ({', '.join(named)})" if named else "")
    until = "" if wait is None or wait.seconds <= SHORT_WAIT else _until(wait.seconds)
    text = repair_text(text)[: MAX_MESSAGE - len(until)] + until
    seconds = None if wait is None else wait.seconds
    return Refusal(Failure(text, code.value, status, seconds, request_id(headers)), row, wait)


def _wait(row: Row, error: Any, told: Told, headers: Mapping[str, str]) -> Wait | None:
    """The wait that a refusal asks for: before another try, as far as it says so, else to the reset of a limit."""
    if not row.waits:
        return None
    of_headers = wait_of_headers(headers)
    if of_headers is not None and of_headers.exact:
        return of_headers
    of_body = wait_of_body(error, told.text, headers) if row.code in WAITING else None
    return of_body or (of_headers if row.code in LIMITED else None)


def _until(seconds: float) -> str:
    """When to come back, for people."""
    if seconds >= LONGEST:
        return "; not again within a year"
    unit, length = ("d", 86400) if seconds >= 172_800 else ("h", 3600) if seconds >= 7200 else ("min", 60)
    moment = datetime.fromtimestamp(time.time() + seconds, UTC)
    return f"; come back in {seconds / length:.0f} {unit}, at {moment:%Y-%m-%d %H:%M} UTC"


def _message(fields: dict[str, Any]) -> str:
    quoted = fields.get("metadata")
    raw = cast("dict[str, Any]", quoted).get("raw") if isinstance(quoted, dict) else None
    more = f": {beginning(raw)}" if isinstance(raw, str) and raw.strip() else ""
    for key in ("message", "detail", "msg", "error_msg", "error_message", "base_resp"):
        value = fields.get(key)
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get("status_msg", cast("dict[str, Any]", value).get("message", value))
        if isinstance(value, str) and value.strip():
            return value.strip() + more
        if value is not None and not isinstance(value, str):
            return beginning(str(cast("object", value))) + more
    return "an error without a message" + more


def failure_of_response(status: int, headers: Mapping[str, str], body: bytes, parsed: Any) -> Failure:
    """Describe a response that is not a success (Q7).

    Args:
        status: its HTTP status.
        headers: its headers, by lower-case names.
        body: the beginning of its body.
        parsed: the body as JSON, ``None`` when it is none.
    """
    return read_response(status, headers, body, parsed).failure


def read_response(status: int, headers: Mapping[str, str], body: bytes, parsed: Any) -> Refusal:
    """Read a response that is not a success as ``failure_of_response`` does, and say what decided (Q7, Q14)."""
    error: Any = parsed
    if isinstance(parsed, list) and parsed:
        error = cast("list[Any]", parsed)[0]
    elif not (isinstance(parsed, dict) and parsed):
        error = beginning(body) or "no body"
        if 300 <= status < 400:
            error = "a redirect, which is not followed; correct the base URL"
    return read_error(error, status, headers)


@contextmanager
def map_exceptions(endpoint: str) -> Generator[None]:
    """Translate what httpx, trio and the operating system raise while a request is made or read (Q7).

    Args:
        endpoint: how messages name the endpoint; free of credentials (X1).

    Raises:
        ModelFailure: TIMEOUT, TRANSPORT, MALFORMED_RESPONSE or INVALID_REQUEST.
    """
    try:
        yield
    except httpx.TimeoutException as error:
        raise _failed(endpoint, error, Code.TIMEOUT) from error
    except httpx.DecodingError as error:
        raise _failed(endpoint, error, Code.MALFORMED_RESPONSE) from error
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise _failed(endpoint, error, Code.INVALID_REQUEST) from error
    except httpx.LocalProtocolError:
        # Its text may quote a header, and a header may hold a credential (X1).
        text = f"{endpoint}: the request could not be written: a header is not valid HTTP"
        raise ModelFailure(Failure(text, Code.INVALID_REQUEST.value)) from None
    except (httpx.HTTPError, httpx.StreamError, trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
        raise _failed(endpoint, error, Code.TRANSPORT) from error


def _failed(endpoint: str, error: BaseException, code: Code) -> ModelFailure:
    text = f"{endpoint}: {type(error).__name__}: {error}" if str(error) else f"{endpoint}: {type(error).__name__}"
    return ModelFailure(Failure(repair_text(text)[:MAX_MESSAGE], code.value))
