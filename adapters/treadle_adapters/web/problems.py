"""Errors as clients see them: problem documents (RFC 9457) that carry our codes."""

from __future__ import annotations

import msgspec

from treadle import TreadleError

STATUS = {
    "AGENT_BUSY": 409,
    "AGENT_DISPOSED": 409,
    "BRIDGE_CLOSED": 503,
    "DELEGATION_LIMIT": 429,
    "DUPLICATE_MESSAGE": 409,
    "DUPLICATE_SESSION": 409,
    "INVALID_DATA": 422,
    "INVALID_MESSAGE": 422,
    "MAINTENANCE_CANCELLED": 409,
    "MESSAGE_REJECTED": 409,
    "MISUSE": 400,
    "NO_STORE": 409,
    "SESSION_FORMAT_UNSUPPORTED": 409,
    "SESSION_LOCKED": 423,
    "SESSION_NOT_FOUND": 404,
    "STORE_FAILURE": 503,
}
"""The status of each code of the core that a client can cause; any other is 500."""

LONGEST = 2_000
"""Characters of a detail that are told."""


class Refused(TreadleError):
    """A request is refused; ``code`` is stable, ``status`` is what HTTP says for it."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        self.status = status
        self.code = code  # type: ignore[misc]  # an instance carries its own code
        super().__init__(detail)


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem document. ``code`` is what programs route on; ``detail`` is for people."""

    title: str
    status: int
    code: str
    detail: str


def not_there(session_id: str) -> Refused:
    """A session that is not there, or is somebody else's: both look the same."""
    return Refused(404, "SESSION_NOT_FOUND", f"there is no session {session_id[:128]!r}")


def problem_of(error: TreadleError) -> Problem:
    """The document of an error; what a client can neither cause nor mend is told without its text."""
    status = error.status if isinstance(error, Refused) else STATUS.get(error.code, 500)
    detail = str(error) if status != 500 else "the server failed; its log says more"
    return Problem(_TITLES.get(status, "Error"), status, error.code, detail[:LONGEST])


INTERNAL = Problem("Server error", 500, "INTERNAL", "the server failed; its log says more")

_TITLES = {
    400: "Bad request",
    401: "Who are you?",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Not acceptable",
    423: "Locked",
    429: "Too many",
    500: "Server error",
    502: "The agent failed",
    503: "Not now",
}
