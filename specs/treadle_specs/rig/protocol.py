"""The words of the rig protocol: requests are read strictly, refusals carry a code."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar, cast

from treadle import (
    AgentBusy,
    AgentDisposed,
    ByHook,
    ByParent,
    ByUser,
    Cause,
    DuplicateMessage,
    DuplicateSession,
    MisuseError,
    SessionCorrupt,
    SessionLocked,
    SessionNotFound,
    Text,
    TreadleError,
    UserMessage,
)
from treadle.errors import NoStore, ScopeClosed, SessionFormatUnsupported
from treadle.models import Source, UserSource

Json = dict[str, Any]
T = TypeVar("T")

PROTOCOL = 1
FEATURES = ("state", "maintenance", "reservation", "update", "at", "seq", "request-gate", "reset")
ALWAYS_WAITING = frozenset({"model", "maintenance"})
GATE_KINDS = ALWAYS_WAITING | {
    *("tool", "stubborn-tool", "pre-step", "request"),
    *("prompt-submit", "turn-stopping", "request-error"),
}
TYPED = UserSource()
_MISSING: Any = object()


class Refusal(Exception):
    """A request that cannot be served; it changed nothing."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def refuse(code: str, message: str) -> NoReturn:
    """Refuse the request."""
    raise Refusal(code, message)


_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (DuplicateMessage, "duplicate-message"),
    (AgentBusy, "busy"),
    (AgentDisposed, "disposed"),
    (ScopeClosed, "disposed"),
    (SessionLocked, "busy"),
    (NoStore, "unsupported"),
    (SessionCorrupt, "invalid"),
    (SessionFormatUnsupported, "invalid"),
    (DuplicateSession, "invalid"),
    (MisuseError, "invalid"),
    (SessionNotFound, "not-found"),
)


def refusal_of(error: BaseException) -> Refusal:
    """What the tester is told about an error of the driver."""
    if isinstance(error, Refusal):
        return error
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Refusal(code, str(error))
    name = error.code if isinstance(error, TreadleError) else type(error).__name__
    return Refusal("internal", f"{name}: {error}")


# --- reading requests -------------------------------------------------------------------------------------------------


def given(request: Json, key: str, kind: type[T], default: T | Any = _MISSING) -> T:
    """The value under ``key``, of exactly that type; the default when it is absent."""
    value = request.get(key, _MISSING)
    if value is _MISSING:
        if default is _MISSING:
            refuse("invalid", f"{key!r} is missing")
        return cast("T", default)
    if type(value) is not kind:
        refuse("invalid", f"{key!r} must be of type {kind.__name__}, not {value!r}")
    return cast("T", value)


def one_of(request: Json, key: str, words: tuple[str, ...], default: Any = _MISSING) -> str:
    """The word under ``key``, one of ``words``."""
    word = given(request, key, str, default)
    if word not in words:
        refuse("invalid", f"{key!r} must be one of {', '.join(words)}, not {word!r}")
    return word


def listed(request: Json, key: str) -> list[Any]:
    """The list under ``key``; empty when it is absent."""
    return cast("list[Any]", given(request, key, list, []))


def mapped(request: Json, key: str, default: Any = _MISSING) -> Json:
    """The object under ``key``."""
    return cast("Json", given(request, key, dict, default))


def objects(request: Json, key: str) -> list[Json]:
    """The list of objects under ``key``; empty when it is absent."""
    items = listed(request, key)
    for item in items:
        if type(item) is not dict:
            refuse("invalid", f"{key!r} must hold objects, not {item!r}")
    return items


def message_of(raw: object, source: Source = TYPED) -> UserMessage:
    """A message as the protocol writes it: ``{"id", "text"}``."""
    if type(raw) is not dict:
        refuse("invalid", f"a message is an object with id and text, not {raw!r}")
    fields = cast("Json", raw)
    return UserMessage(given(fields, "id", str), (Text(given(fields, "text", str)),), source)


def messages_of(request: Json, key: str, source: Source = TYPED) -> tuple[UserMessage, ...]:
    """The list of messages under ``key``."""
    return tuple([message_of(raw, source) for raw in objects(request, key)])


def cause_of(request: Json) -> Cause:
    """Why a request cancels."""
    match one_of(request, "cause", ("user", "parent", "hook"), "user"):
        case "user":
            return ByUser()
        case "parent":
            return ByParent()
        case _:
            return ByHook(given(request, "reason", str, ""))
