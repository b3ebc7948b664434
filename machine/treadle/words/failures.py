"""What went wrong with a model call, as data (Q5, Q7)."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, cast

import msgspec

from ..errors import TreadleError
from ..lossless import repair_text

MAX_MESSAGE = 2_000
"""How many characters of a failure's message are kept (X3)."""
MAX_WORD = 256
"""How many characters of its code, and of a provider's name for a request, are kept (X3)."""


class Code(str, Enum):
    """The codes a failure is routed on (Q7)."""

    RATE_LIMIT = "RATE_LIMIT"
    SERVER = "SERVER"
    TIMEOUT = "TIMEOUT"
    TRANSPORT = "TRANSPORT"
    EMPTY_RESPONSE = "EMPTY_RESPONSE"
    MALFORMED_RESPONSE = "MALFORMED_RESPONSE"
    STREAM_CLOSED = "STREAM_CLOSED"
    CONTEXT_WINDOW_EXCEEDED = "CONTEXT_WINDOW_EXCEEDED"
    QUOTA = "QUOTA"
    INVALID_CREDENTIAL = "INVALID_CREDENTIAL"
    MISSING_CREDENTIAL = "MISSING_CREDENTIAL"
    INVALID_REQUEST = "INVALID_REQUEST"
    CONTENT_FILTER = "CONTENT_FILTER"
    ABORTED = "ABORTED"
    NO_ADAPTER = "NO_ADAPTER"
    BUDGET = "BUDGET"
    UNKNOWN = "UNKNOWN"


class Failure(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One failure: a message for people and a code for programs (Q5, Q7).

    Attributes:
        message: what happened, with its causes.
        code: one of ``Code``, or a code of a plugin's own.
        status: the HTTP status, if there was one.
        retry_after: seconds the provider asks to wait.
        request_id: the provider's name for the request.
    """

    message: str
    code: str = "UNKNOWN"
    status: int | None = None
    retry_after: float | None = None
    request_id: str | None = None


class ModelFailure(TreadleError):
    """Raised by adapters; carries the ``Failure`` that the driver records (Q5)."""

    code: ClassVar[str] = "MODEL_FAILURE"

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
        code = failure.code.value if isinstance(failure.code, Enum) else failure.code
        self.add_note(f"{code}: `treadle explain {code}` says what to do")


def failure_of(error: BaseException) -> Failure:
    """Describe an exception as a failure (T9).

    The message holds the chain of causes; the code is that of the innermost single exception of a group,
    ``UNKNOWN`` when it has none.
    """
    inner = innermost(error)
    if isinstance(inner, ModelFailure):
        return clean_failure(inner.failure)
    return Failure(describe(inner), code_of(inner, Code.UNKNOWN.value))


def code_of(error: BaseException, default: str) -> str:
    """The exception's own ``code`` if it is a short word that the log can hold, else ``default``; never raises."""
    try:
        code: object = getattr(error, "code", None)
    except BaseException:
        return default
    return clean_code(code, default)


def clean_code(code: object, default: str) -> str:
    """``code`` if it is a short word that the log can hold, else ``default``."""
    if isinstance(code, str) and 0 < len(code) <= 64 and code.isascii():
        return str.__str__(code)
    return default


def innermost(error: BaseException) -> BaseException:
    """The single exception inside groups of one (T9)."""
    while isinstance(error, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", error).exceptions
        if len(members) != 1:
            return cast("BaseException", error)
        error = members[0]
    return error


def clean_failure(failure: Failure) -> Failure:
    """Return ``failure`` with bounded text and numbers that the log can hold (S1, X3)."""
    message = repair_text(str(failure.message))[:MAX_MESSAGE]
    code = failure.code.value if isinstance(failure.code, Enum) else repair_text(str(failure.code))[:MAX_WORD]
    request_id = repair_text(str(failure.request_id))[:MAX_WORD] if failure.request_id is not None else None
    asked = failure.retry_after
    number = isinstance(asked, (int, float)) and not isinstance(asked, bool) and -1e12 < asked < 1e12
    status = failure.status if type(failure.status) is int and 0 <= failure.status < 1_000 else None
    return Failure(message, code, status, asked if number else None, request_id)


def describe(error: BaseException) -> str:
    """One line for an exception and its causes; never raises, whatever its ``__str__`` does."""
    parts: list[str] = []
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(parts) < 8:
        seen.add(id(link))
        parts.append(_one_line(link))
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return repair_text(" <- ".join(parts))[:MAX_MESSAGE]


def _one_line(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:
        text = "(its text cannot be shown)"
    name = type(error).__name__
    return f"{name}: {text}" if text else name
