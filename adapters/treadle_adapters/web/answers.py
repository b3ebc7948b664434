"""How a body is read and an answer is written: bounded, and JSON."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from treadle import TreadleError

from .limits import Limits
from .problems import INTERNAL, Problem, Refused, problem_of
from .shapes import ENCODER

CLEAN = "treadle.clean"
"""Marks a message of an answer in which no secret can stand any more."""
LOGGER = logging.getLogger("treadle.web")


def answer(value: Any, status: int = 200) -> Response:
    """An answer of JSON; bytes are JSON already."""
    body = value if isinstance(value, bytes) else ENCODER.encode(value)
    return Response(body, status, media_type="application/json")


def clean(send: Send) -> Send:
    """Mark what is sent as holding no secrets: it was made of events and frames that are redacted."""

    async def marked(message: Message) -> None:
        await send({**message, CLEAN: True} if message["type"] == "http.response.body" else message)

    return marked


def problem(error: BaseException) -> Response:
    """The answer to a request that failed; what is not ours is logged and told without its text."""
    if isinstance(error, TreadleError):
        found = problem_of(error)
        if found.status == 500:
            LOGGER.error("a request failed", exc_info=error)
    else:
        found = INTERNAL
        LOGGER.error("a request failed", exc_info=error)
    return _document(found)


def _document(found: Problem) -> Response:
    made = Response(ENCODER.encode(found), found.status, media_type="application/problem+json")
    if found.status == 401:
        made.headers["www-authenticate"] = "Bearer"
    elif found.status in (429, 503):
        made.headers["retry-after"] = "1"
    elif found.status in (408, 413):
        made.headers["connection"] = "close"  # what it still sends is not read
    return made


@asynccontextmanager
async def while_there(
    receive: Receive, every: float | None = None, pulse: Callable[[], None] | None = None
) -> AsyncGenerator[None]:
    """Go on for as long as the client is there; when it goes away, what is under way is cancelled.

    Args:
        receive: the request's.
        every: seconds after which ``pulse`` is called, again and again.
        pulse: see there.
    """
    async with anyio.create_task_group() as tasks:

        async def until_gone() -> None:
            gone = False
            while not gone:
                with anyio.move_on_after(every):
                    gone = (await receive())["type"] == "http.disconnect"
                    continue
                if pulse is not None:
                    pulse()
            tasks.cancel_scope.cancel()

        tasks.start_soon(until_gone)
        yield
        tasks.cancel_scope.cancel()


async def body_of(scope: Scope, receive: Receive, limits: Limits) -> bytes:
    """Read a request's body.

    Raises:
        Refused: it is larger, or takes longer, than may be (``TOO_LARGE``, ``TOO_SLOW``), or the client is gone.
    """
    length = Headers(scope=scope).get("content-length", "")
    if length.isdigit() and (len(length) > 18 or int(length) > limits.body):
        raise _too_large(limits)
    parts: list[bytes] = []
    size, more = 0, True
    with anyio.move_on_after(limits.body_seconds) as patience:
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "GONE", "the client went away")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limits.body:
                raise _too_large(limits)
            more = message.get("more_body", False)
    if patience.cancelled_caught:
        raise Refused(408, "TOO_SLOW", f"a body must be sent within {limits.body_seconds:g} seconds")
    return b"".join(parts)


def _too_large(limits: Limits) -> Refused:
    return Refused(413, "TOO_LARGE", f"a body may have {limits.body} bytes")
