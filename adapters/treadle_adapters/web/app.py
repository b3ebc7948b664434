"""The application: everything behind the guard, put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import anyio
import trio
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from treadle import AgentOptions, Host
from treadle.agent import Setup
from treadle.asyncio import Bridge

from .access import CALLER, COOKIE_LIFE, Guard, Tokens, cookie_for, cookie_name, made_token
from .answers import answer, problem
from .api import SESSION, operations, routes
from .desk import Desk, Furnishing, Maintenance, Owner
from .limits import DEFAULT_LIMITS, Limits
from .messages import MessageOperations
from .openapi import document
from .page import page_files, page_routes
from .pictures import PictureOperations, Pictures
from .port import Port, port_of
from .problems import Refused
from .protocols import Agui, AiSdk, Front, Turns
from .redaction import Redaction
from .sessions import SessionOperations
from .socket import Socket
from .sse import EventStream
from .streams import Place, Stream

OPEN = ("/healthz", "/readyz", "/api/openapi.json")
"""What anybody may see, and the page."""


class Web:
    """Agents behind HTTP: an ASGI application, made by ``app``.

    Attributes:
        token: the token that was made, ``None`` where tokens were given.
        limits: what clients may take.
        operations: the table of what can be asked for.
    """

    def __init__(
        self,
        port: Port,
        furnishing: Furnishing,
        tokens: Mapping[str, Owner] | None,
        hosts: Iterable[str] | None,
        limits: Limits,
        pictures: Pictures | None,
    ) -> None:
        self.token = made_token() if tokens is None else None
        self._port = port
        self.limits = limits
        known = Tokens(tokens if tokens is not None else {str(self.token): None})
        redaction = Redaction(known.secrets, port.host)
        self._desk = Desk(port.host, furnishing, limits, redaction)
        self._attached = False
        self._attaching = anyio.Lock()
        messages = MessageOperations(self._desk)
        self.operations = operations(
            SessionOperations(self._desk),
            messages,
            None if pictures is None else PictureOperations(self._desk, pictures),
        )
        self._page = page_files(pictures)
        turns = Turns(port, self._desk, messages)
        self._protocols = [route for door in (Front, Agui, AiSdk) for route in door(turns, limits).routes()]
        inner = Starlette(routes=self._routes(), exception_handlers={404: _not_found, 405: _not_allowed})
        inner.router.redirect_slashes = False  # what is not there is not there, with a slash more or less
        self._guarded = Guard(inner, known, redaction, hosts, (*OPEN, *self._page), limits)
        self._lifespan = inner

    def _routes(self) -> list[BaseRoute]:
        return [
            Route("/healthz", self._healthy),
            Route("/readyz", self._ready),
            Route("/api/openapi.json", self._described),
            *page_routes(self._page),
            Route("/api/login", self._log_in, methods=["POST"]),
            Route("/api/logout", self._log_out, methods=["POST"]),
            Route(SESSION + "/stream", _Streams(self._port, self._desk), methods=["GET"]),
            WebSocketRoute("/api/socket", self._socket),
            *self._protocols,
            *routes(self._port, self.limits, self.operations),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or one socket."""
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        if not self._attached and self._port.host.running:
            await self._attach()
        await self._guarded(scope, receive, send)

    async def _attach(self) -> None:
        async with self._attaching:
            if not self._attached:
                await self._port.run(self._desk.attach)
                self._attached = True

    async def drain(self, seconds: float) -> None:
        """Take no new work, let running turns end for so many seconds, then tell every stream to come back.

        What is pending stays pending. To be called in the server's loop, before the server is stopped.

        Raises:
            BridgeClosed: the bridge is not open.
        """
        await self._port.run(self._drain, seconds)

    async def _drain(self, seconds: float) -> None:
        replica = self._port.host.replica
        async with trio.open_nursery() as nursery:
            if replica is not None:
                nursery.start_soon(replica.drain, seconds)
            await self._desk.drain(seconds)

    # --- doors of its own ---------------------------------------------------------------------------------------------

    async def _healthy(self, _: Request) -> Response:
        return answer({"status": "ok"})

    async def _ready(self, _: Request) -> Response:
        if self._desk.draining:
            return problem(Refused(503, "DRAINING", "the server is going down"))
        if not self._attached:
            return problem(Refused(503, "NOT_RUNNING", "the host is not running"))
        return answer({"status": "ok"})

    async def _described(self, _: Request) -> Response:
        return answer(document(self.operations))

    async def _log_in(self, request: Request) -> Response:
        """Give the page a cookie for its token."""
        token = request.scope[CALLER].token
        if token is None:
            return answer({"status": "ok"})  # it has its cookie
        made = answer({"status": "ok"})
        made.set_cookie(
            cookie_name(request.headers), cookie_for(token), max_age=COOKIE_LIFE, httponly=True, samesite="strict",
            path=request.scope.get("root_path", "") or "/", secure=request.url.scheme == "https",
        )  # fmt: skip
        return made

    async def _log_out(self, request: Request) -> Response:
        made = answer({"status": "ok"})
        made.delete_cookie(cookie_name(request.headers), path=request.scope.get("root_path", "") or "/")
        return made

    async def _socket(self, web: WebSocket) -> None:
        await Socket(web, self._port, self._desk, web.scope[CALLER].owner).serve()


class _Streams:
    """The door of streams over HTTP."""

    def __init__(self, port: Port, desk: Desk) -> None:
        self._port = port
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session, headers = scope["path_params"]["session"], Headers(scope=scope)
        try:
            at = headers.get("last-event-id") or Request(scope).query_params.get("after")
            place = Place() if at is None else Place.of(at)
            await self._port.run(self._desk.check, scope[CALLER].owner, session)
        except Exception as error:
            await problem(error)(scope, receive, send)
            return
        await EventStream(Stream(self._port, self._desk, session, place))(scope, receive, send)


async def _not_found(_: Request, __: Exception) -> Response:
    return problem(Refused(404, "NOT_FOUND", "there is nothing under this path"))


async def _not_allowed(_: Request, error: Any) -> Response:
    made = problem(Refused(405, "METHOD_NOT_ALLOWED", "this path is not for that method"))
    made.headers.update(error.headers or {})
    return made


def app(
    host: Host | Bridge,
    *,
    tokens: Mapping[str, Owner] | None = None,
    hosts: Iterable[str] | None = None,
    agent_options: AgentOptions | None = None,
    setup: Setup | None = None,
    maintenance: Maintenance | None = None,
    limits: Limits = DEFAULT_LIMITS,
    pictures: Pictures | None = None,
) -> Web:
    """Put a host's agents behind HTTP, as an ASGI application.

    Under a trio server give it the host; under uvicorn, or mounted in an asyncio product, the bridge to it. The host need
    not be entered yet, but is when the first request comes.

    Args:
        host: whose agents.
        tokens: the bearer tokens that are let in, and whose each is; an owner sees his own sessions only, and ``None``,
            the operator, all sessions of the host. Without any, one is made for the operator.
        hosts: the names under which the server may be called; those of loopback unless given.
        agent_options: the options of agents that are made or resumed; the host's defaults and the log's unless given.
        setup: as ``Agents.create`` takes it.
        maintenance: tasks between turns that clients may ask for, by name.
        limits: what clients may take.
        pictures: what the page draws the lifecycle and the newest turn with, such as ``treadle_diagrams.LivePictures()``;
            it shows neither without.

    Raises:
        MisuseError: a token is too short, or none is given.
    """
    furnishing = Furnishing(agent_options, setup, maintenance or {})
    return Web(port_of(host), furnishing, tokens, hosts, limits, pictures)
