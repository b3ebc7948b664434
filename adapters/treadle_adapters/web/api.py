"""The resources: one table of operations, from which the routes and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from attrs import frozen
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..approvals import Approval
from .access import CALLER
from .answers import answer, body_of, clean, problem
from .limits import Limits
from .messages import MessageOperations
from .pictures import PictureOperations
from .port import Port
from .problems import Refused
from .sessions import Asked, SessionOperations
from .shapes import (
    AnswerTo,
    Applied,
    Cancelling,
    Delivery,
    Edit,
    ForkAt,
    InboxView,
    MaintenanceAsked,
    MessageFate,
    NewSession,
    Order,
    SessionList,
    SessionView,
)

SESSION = "/api/sessions/{session}"


@frozen
class Operation:
    """One operation of the interface.

    Attributes:
        run: does it, in the host's thread; its docstring says what it is.
        takes: the type of the body, ``None`` without one.
        gives: the type of the answer; ``bytes`` is JSON that is not described further.
        status: of an answer.
        query: the parameters of the query that it reads.
        media: the media type of an answer.
    """

    method: str
    path: str
    run: Callable[[Asked], Awaitable[Any]]
    takes: type | None = None
    gives: Any = Applied
    status: int = 200
    query: tuple[str, ...] = ()
    media: str = "application/json"


def operations(s: SessionOperations, m: MessageOperations, p: PictureOperations | None = None) -> tuple[Operation, ...]:
    """The table; without pictures, what they need is not in it."""
    # fmt: off
    drawn = () if p is None else (
        Operation("GET",    SESSION + "/turn",            p.turn,    None,       bytes),
    )
    return (*drawn,
        Operation("GET",    "/api/sessions",              s.list,    None,       SessionList, query=("limit", "after")),
        Operation("POST",   "/api/sessions",              s.create,  NewSession, SessionView, 201),
        Operation("GET",    SESSION,                      s.get,     None,       SessionView),
        Operation("DELETE", SESSION,                      s.delete),
        Operation("POST",   SESSION + "/fork",            s.fork,    ForkAt,     SessionView, 201),
        Operation("GET",    SESSION + "/log",             s.log,     None,       bytes, media="application/jsonl"),
        Operation("GET",    SESSION + "/events",          s.events,  None,       bytes, query=("from", "limit")),
        Operation("POST",   SESSION + "/cancel",          s.cancel,  Cancelling, SessionView),
        Operation("POST",   SESSION + "/maintenance",     s.maintain, MaintenanceAsked),
        Operation("GET",    SESSION + "/approvals",       s.pending_approvals, None, tuple[Approval, ...]),
        Operation("POST",   SESSION + "/approvals/{approval}", s.answer, AnswerTo, Approval),
        Operation("POST",   SESSION + "/messages",        m.deliver, Delivery,   MessageFate, 202),
        Operation("GET",    SESSION + "/messages/{message}", m.fate, None,       MessageFate, query=("wait",)),
        Operation("GET",    SESSION + "/inbox",           m.inbox,   None,       InboxView),
        Operation("PUT",    SESSION + "/inbox",           m.reorder, Order,      InboxView),
        Operation("PATCH",  SESSION + "/inbox/{message}", m.edit,    Edit,       InboxView),
        Operation("DELETE", SESSION + "/inbox/{message}", m.remove,  None,       InboxView),
        Operation("POST",   SESSION + "/inbox/{message}/steer", m.send_ahead, None, InboxView),
    )
    # fmt: on


@frozen
class Endpoint:
    """One path: reads a request, has the operation of its method done, and writes the answer."""

    port: Port
    limits: Limits
    by_method: dict[str, Operation]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            response = await self._answered(scope, receive)
        except Exception as error:
            response = problem(error)
        by_events = self.by_method["GET"].gives is bytes if scope["method"] == "GET" else False
        await response(scope, receive, clean(send) if by_events else send)

    async def _answered(self, scope: Scope, receive: Receive) -> Any:
        operation = self.by_method["GET" if scope["method"] == "HEAD" else scope["method"]]
        body = None
        if operation.takes is not None:
            body = await read_body(scope, receive, self.limits, operation.takes)
        request = Request(scope)
        asked = Asked(scope[CALLER].owner, request.path_params, dict(request.query_params), body)
        given = await self.port.run(operation.run, asked)
        made = answer(given, operation.status)
        made.headers["content-type"] = operation.media
        return made


async def read_body(scope: Scope, receive: Receive, limits: Limits, kind: Any) -> Any:
    """Read a body of JSON; an empty one is an empty object.

    Raises:
        Refused: it is too large or too slow, of another media type, or does not fit ``kind``.
    """
    raw = await body_of(scope, receive, limits)
    media = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    if raw and media != "application/json":
        raise Refused(415, "NOT_JSON", "send JSON, as application/json")
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise Refused(422, "INVALID_BODY", str(error)) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Refused(400, "NOT_JSON", f"the body is no JSON: {error}") from error


def routes(port: Port, limits: Limits, table: tuple[Operation, ...]) -> list[Route]:
    """The routes of the table."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in table:
        paths.setdefault(operation.path, {})[operation.method] = operation
    return [
        Route(path, Endpoint(port, limits, by_method), methods=list(by_method)) for path, by_method in paths.items()
    ]
