"""The one seam where foreign errors become failures with codes (Q5, Q7)."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import httpx
import trio

from treadle import Failure, ModelFailure
from treadle.models import MAX_MESSAGE, Code, repair_text

from .retry_after import retry_after

SHOWN = 300
"""How many characters of an unexpected body a failure shows."""

STATUSES = {
    400: Code.INVALID_REQUEST,
    401: Code.INVALID_CREDENTIAL,
    402: Code.QUOTA,
    403: Code.INVALID_CREDENTIAL,
    404: Code.INVALID_REQUEST,
    407: Code.INVALID_CREDENTIAL,
    408: Code.TIMEOUT,
    409: Code.SERVER,  # a lock of the provider's; both vendors' own clients try it again
    413: Code.CONTEXT_WINDOW_EXCEEDED,  # the remedy is the same: a shorter history
    425: Code.SERVER,
    429: Code.RATE_LIMIT,
    451: Code.CONTENT_FILTER,
    504: Code.TIMEOUT,
    522: Code.TIMEOUT,
    524: Code.TIMEOUT,
}
"""HTTP statuses that do not follow from their class: other 4xx are INVALID_REQUEST, other 5xx are SERVER (Q7)."""

WORDS = {
    "context_length_exceeded": Code.CONTEXT_WINDOW_EXCEEDED,
    "context_window_exceeded": Code.CONTEXT_WINDOW_EXCEEDED,
    "exceed_context_size_error": Code.CONTEXT_WINDOW_EXCEEDED,
    "model_context_window_exceeded": Code.CONTEXT_WINDOW_EXCEEDED,
    "request_too_large": Code.CONTEXT_WINDOW_EXCEEDED,
    "string_above_max_length": Code.CONTEXT_WINDOW_EXCEEDED,
    "billing_error": Code.QUOTA,
    "billing_hard_limit_reached": Code.QUOTA,
    "billing_not_active": Code.QUOTA,
    "insufficient_balance": Code.QUOTA,
    "insufficient_quota": Code.QUOTA,
    "quota_exceeded": Code.QUOTA,
    "rate_limit_error": Code.RATE_LIMIT,
    "rate_limit_exceeded": Code.RATE_LIMIT,
    "too_many_requests": Code.RATE_LIMIT,
    "account_deactivated": Code.INVALID_CREDENTIAL,
    "authentication_error": Code.INVALID_CREDENTIAL,
    "invalid_api_key": Code.INVALID_CREDENTIAL,
    "permission_denied": Code.INVALID_CREDENTIAL,
    "permission_error": Code.INVALID_CREDENTIAL,
    "content_filter": Code.CONTENT_FILTER,
    "content_policy_violation": Code.CONTENT_FILTER,
    "responsibleaipolicyviolation": Code.CONTENT_FILTER,
    "image_content_policy_violation": Code.CONTENT_FILTER,
    "engine_overloaded": Code.SERVER,
    "engine_overloaded_error": Code.SERVER,
    "overloaded": Code.SERVER,
    "overloaded_error": Code.SERVER,
    "service_unavailable": Code.SERVER,
    "slow_down": Code.RATE_LIMIT,
    "unavailable_error": Code.SERVER,
    "timeout": Code.TIMEOUT,
    "timeout_error": Code.TIMEOUT,
    "request_timeout": Code.TIMEOUT,
}
"""What providers write under ``code`` or ``type`` and means one thing whatever the status is (Q7)."""

GENERAL_WORDS = {
    "api_error": Code.SERVER,
    "internal_error": Code.SERVER,
    "internal_server_error": Code.SERVER,
    "internalservererror": Code.SERVER,
    "server_error": Code.SERVER,
    "badrequesterror": Code.INVALID_REQUEST,
    "invalid_prompt": Code.INVALID_REQUEST,
    "invalid_request": Code.INVALID_REQUEST,
    "invalid_request_error": Code.INVALID_REQUEST,
    "model_not_found": Code.INVALID_REQUEST,
    "not_found_error": Code.INVALID_REQUEST,
    "requests": Code.RATE_LIMIT,
    "tokens": Code.RATE_LIMIT,
}
"""Words so general that the status, where there is one, says more."""

# Some servers (Anthropic, vLLM) tell this case from other invalid requests by their sentence alone. Prose only ever
# refines INVALID_REQUEST, never another code.
_TOO_LONG = re.compile(
    r"maximum context length|prompt is too long|context window|exceeds? the (?:available )?context|context size",
    re.IGNORECASE,
)

_REQUEST_IDS = ("request-id", "x-request-id", "apim-request-id", "x-amzn-requestid")


def code_of_status(status: int) -> Code:
    """The code of an HTTP error status (Q7)."""
    found = STATUSES.get(status)
    if found is not None:
        return found
    if status >= 500:
        return Code.SERVER
    return Code.INVALID_REQUEST if status >= 300 else Code.MALFORMED_RESPONSE


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


def failure_of_error(error: Any, status: int | None = None) -> Failure:
    """Read an error as providers write it: text, or an object with ``message``, ``code`` and ``type``.

    The code comes from ``code`` or ``type`` where one is known, else from the HTTP status, else from a status that
    stands in for a code (Q7).

    Args:
        error: what stood under ``error``, or the whole object.
        status: the response's HTTP status, if that is an error.
    """
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": error}
    inner = fields.get("error")
    if isinstance(inner, dict) and "message" not in fields:
        fields = cast("dict[str, Any]", inner)
    elif isinstance(inner, str) and "message" not in fields:
        fields = {**fields, "message": inner}
    words = [str(fields[key]) for key in ("code", "type", "status") if _is_word(fields.get(key))]
    message = _message(fields)
    code = _code(words, status, message)
    where = f"HTTP {status}" if status is not None else "the provider reports"
    named = [word for word in words if word.lower() not in message.lower()]
    text = f"{where}: {message}" + (f" ({', '.join(named)})" if named else "")
    return Failure(repair_text(text)[:MAX_MESSAGE], code.value, status)


def _is_word(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return False
    return bool(value) and len(str(value)) <= 100


def _message(fields: dict[str, Any]) -> str:
    for key in ("message", "detail", "msg", "error_msg"):
        value = fields.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if value is not None and not isinstance(value, str):
            return beginning(str(value))
    return "an error without a message"


def _code(words: list[str], status: int | None, message: str) -> Code:
    lowered = [word.lower() for word in words]
    for word in lowered:
        if word in WORDS:
            return WORDS[word]
    numbers = [int(word) for word in lowered if word.isascii() and word.isdigit() and 400 <= int(word) < 600]
    general = [GENERAL_WORDS[word] for word in lowered if word in GENERAL_WORDS]
    code = Code.UNKNOWN
    if status is not None:
        code = code_of_status(status)
    elif general:
        code = general[0]
    elif numbers:
        code = code_of_status(numbers[0])
    if code is Code.INVALID_REQUEST and _TOO_LONG.search(message):
        return Code.CONTEXT_WINDOW_EXCEEDED
    return code


def failure_of_response(status: int, headers: Mapping[str, str], body: bytes, parsed: Any) -> Failure:
    """Describe a response that is not a success (Q7).

    Args:
        status: its HTTP status.
        headers: its headers, by lower-case names.
        body: the beginning of its body.
        parsed: the body as JSON, ``None`` when it is none.
    """
    if isinstance(parsed, dict) and parsed:
        failure = failure_of_error(parsed, status)
    elif isinstance(parsed, list) and parsed:
        failure = failure_of_error(cast("list[Any]", parsed)[0], status)
    else:
        shown = beginning(body)
        if 300 <= status < 400:
            shown = "a redirect, which is not followed; correct the base URL"
        failure = failure_of_error(shown or "no body", status)
    return Failure(failure.message, failure.code, status, retry_after(headers), request_id(headers))


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
