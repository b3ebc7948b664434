"""Streams of many sessions over one WebSocket.

The client says ``{"watch": SESSION, "after": PLACE}`` and ``{"unwatch": SESSION}``; the server says each message of a stream
as ``{"session", "event", "id", "data"}``. What cannot be served is answered by the event ``problem``. When the server goes down,
the socket is closed once each of its streams has said so, with 1001: come back.
"""

from __future__ import annotations

from contextlib import suppress

import anyio
import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from treadle import TreadleError

from .desk import Desk, Owner
from .port import Port
from .problems import Refused, problem_of
from .shapes import ENCODER
from .streams import Place, Stream, Told
from .watching import Ear

EVERYTHING = ""
"""What a socket itself listens to: no session has this id, so only the end of all streams rings it."""
MALFORMED = 1007
GOING_AWAY = 1001
TOO_LARGE = 1009


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client says."""

    watch: str | None = None
    unwatch: str | None = None
    after: str | None = None


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    session: str
    event: str
    data: msgspec.Raw
    id: str | None = None


class Socket:
    """One client's socket; a slow one holds up nothing but itself."""

    def __init__(self, web: WebSocket, port: Port, desk: Desk, owner: Owner) -> None:
        self._web = web
        self._port = port
        self._desk = desk
        self._owner = owner
        self._watched: dict[str, anyio.CancelScope] = {}
        self._streams: set[Stream] = set()
        self._sending = anyio.Lock()
        self._ear = Ear(port.bell())

    async def serve(self) -> None:
        """Serve it until either side ends it."""
        await self._web.accept()
        watching = self._desk.watching
        watching.enter(EVERYTHING, self._ear)
        try:
            with suppress(WebSocketDisconnect):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._leave)
                    tasks.start_soon(self._pulse)
                    try:
                        await self._listen(tasks)
                    finally:
                        tasks.cancel_scope.cancel()
        finally:
            watching.leave(EVERYTHING, self._ear)

    async def _leave(self) -> None:
        """Close it when the server goes down: an open socket would hold the server up for as long as it may take."""
        while self._ear.closing is None or self._watched:
            await self._ear.bell.wait()
        with suppress(WebSocketDisconnect):
            await self._web.close(GOING_AWAY)

    async def _pulse(self) -> None:
        while True:
            await anyio.sleep(self._desk.limits.heartbeat)
            for stream in self._streams:
                stream.pulse()

    async def _listen(self, tasks: anyio.abc.TaskGroup) -> None:
        while True:
            given = await self._web.receive()
            if given["type"] == "websocket.disconnect":
                return
            text = given.get("text")
            if text is None or len(text) > self._desk.limits.body:
                await self._web.close(MALFORMED if text is None else TOO_LARGE)
                return
            try:
                words = msgspec.json.decode(text, type=Words)
            except (msgspec.DecodeError, UnicodeError):
                await self._web.close(MALFORMED)
                return
            if words.unwatch is not None and words.unwatch in self._watched:
                self._watched.pop(words.unwatch).cancel()
            if words.watch is not None:
                await self._begin(tasks, words.watch, words.after)

    async def _begin(self, tasks: anyio.abc.TaskGroup, session: str, after: str | None) -> None:
        try:
            place = Place() if after is None else Place.of(after)
            await self._port.run(self._desk.check, self._owner, session)
            if session not in self._watched and len(self._watched) >= self._desk.limits.watched:
                raise Refused(429, "TOO_MANY_WATCHED", "this socket watches as many sessions as it may")
        except TreadleError as error:
            await self._send(session, self._problem(error))
            return
        if session in self._watched:
            self._watched.pop(session).cancel()
        scope = self._watched[session] = anyio.CancelScope()
        tasks.start_soon(self._watch, session, place, scope)

    async def _watch(self, session: str, place: Place, scope: anyio.CancelScope) -> None:
        with scope, suppress(WebSocketDisconnect), Stream(self._port, self._desk, session, place) as stream:
            self._streams.add(stream)
            try:
                await self._tell(session, stream)
            finally:
                self._streams.remove(stream)
        if self._watched.get(session) is scope:
            del self._watched[session]
        self._ear.bell.ring()

    async def _tell(self, session: str, stream: Stream) -> None:
        over = False
        while not over:
            try:
                told = await stream.next()
            except TreadleError as error:
                told, over = [self._problem(error)], True
            over = over or (bool(told) and told[-1].event == "bye")
            for one in told:
                await self._send(session, one)

    def _problem(self, error: TreadleError) -> Told:
        return Told("problem", self._desk.redaction.body(ENCODER.encode(problem_of(error))))

    async def _send(self, session: str, told: Told) -> None:
        line = ENCODER.encode(_Line(session, told.event, msgspec.Raw(told.data), told.id))
        async with self._sending:
            if self._web.application_state is not WebSocketState.CONNECTED:
                return  # it was closed while this waited
            await self._web.send_text(line.decode())
