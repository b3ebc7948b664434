"""A turn as the answer to a request: followed, written in the form of a protocol, and told while it lasts."""

from __future__ import annotations

from typing import Any, Protocol

from starlette.types import Receive, Send

from ..answers import CLEAN, while_there
from ..shapes import ENCODER
from ..sse import HEADERS
from .turn import Item, Turn


class Form(Protocol):
    """How the items of a turn are written for one protocol.

    Attributes:
        over: whether everything was told.
    """

    over: bool

    def begin(self) -> list[bytes]:
        """What is sent first."""
        ...

    def take(self, item: Item) -> list[bytes]:
        """What one item of the turn is sent as."""
        ...


def event(data: Any, kind: str | None = None) -> bytes:
    """One server-sent event."""
    name = b"" if kind is None else b"event: " + kind.encode() + b"\n"
    return name + b"data: " + ENCODER.encode(data) + b"\n\n"


async def follow(
    turn: Turn, form: Form, receive: Receive, send: Send, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Tell a turn until its form says that it is over; a client that goes away ends the telling, not the turn.

    Args:
        turn: what is told.
        form: how.
        receive: the request's.
        send: the answer's.
        headers: sent beside those of every stream.

    Raises:
        ExceptionGroup: the log cannot be read; the server resets the connection, so that nobody takes it for an end.
    """
    async with while_there(receive):
        with turn:
            await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, *headers]})
            await _send(send, form.begin())
            while not form.over:
                told = form.take(await turn.next())
                if told:
                    await _send(send, told)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, told: list[bytes]) -> None:
    await send({"type": "http.response.body", "body": b"".join(told), "more_body": True, CLEAN: True})
