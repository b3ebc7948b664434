"""One turn, followed from the message that opens it to its end: what the protocols of front ends are made of."""

from __future__ import annotations

from collections import deque
from typing import Any, Self

import msgspec
from attrs import define, field, frozen

from ...approvals import Approval
from ..messages import MessageOperations
from ..port import Port
from ..problems import Refused
from ..sessions import Asked
from ..streams import Stream, Told


@frozen
class Said:
    """More of the answer's text. ``attempt`` names the message of the assistant that it belongs to."""

    attempt: str
    text: str


@frozen
class Spoken:
    """A message of the assistant is whole, all its text was said, and these calls are asked for."""

    attempt: str
    text: str
    calls: tuple[dict[str, Any], ...]


@frozen
class Result:
    """A tool has come to its result."""

    call_id: str
    text: str
    is_error: bool
    code: str | None


@frozen
class Ended:
    """The turn is over. ``kind`` is the reason's; ``detail`` says what failed, where something did."""

    kind: str
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether it must not look like a clean end."""
        return self.kind not in ("completed", "max-tokens")


@frozen
class Asks:
    """Calls wait for approval; all of them.

    Attributes:
        told: the number of the event before which everything was told.
    """

    approvals: tuple[Approval, ...]
    told: int

    def id_of(self, approval: Approval) -> str:
        """The id under which a client answers: it also names the place from which its next request goes on."""
        return f"{approval.id}~{self.told}"


Item = Said | Spoken | Result | Asks | Ended


def text_of_parts(content: Any) -> str:
    """The text of a message's content, as front ends send it: text, or parts of text.

    Raises:
        Refused: it is neither; a part that is left out would be lost without a word.
    """
    if isinstance(content, str):
        return content
    try:
        parts = msgspec.convert(content, list[_Part])
    except msgspec.ValidationError as error:
        raise Refused(422, "INVALID_MESSAGE", f"no content that can be read: {error}") from error
    if not parts:
        raise Refused(422, "INVALID_MESSAGE", "this message says nothing: give it text")
    for part in parts:
        if part.text is None:
            raise Refused(422, "INVALID_MESSAGE", f"only text can be read here: leave parts of {part.type[:64]!r} out")
    return "".join([part.text or "" for part in parts])


class _Part(msgspec.Struct, frozen=True):
    type: str = "an unknown type"
    text: str | None = None


@define(eq=False)
class _Speaking:
    """The text of the live attempt that was said so far, and which of its blocks are text."""

    attempt: str
    said: str = ""
    texts: set[int] = field(factory=lambda: set[int]())


class Turn:
    """Follows one turn. Use it as a context manager, in the server's loop.

    Args:
        port: the host.
        messages: tells what became of the message.
        asked: names the session, and the message that opens the turn.
        stream: the session's stream, from before the message was delivered, or from a place in the turn on.
        begun: whether the stream begins in the turn.
    """

    def __init__(
        self, port: Port, messages: MessageOperations, asked: Asked, stream: Stream, *, begun: bool = False
    ) -> None:
        self._port = port
        self._messages = messages
        self._asked = asked
        self._stream = stream
        self._items: deque[Item] = deque()
        self._mine = begun
        self._speaking: _Speaking | None = None

    @property
    def message(self) -> str:
        """The id of the message that opens the turn."""
        return self._asked.path["message"]

    def __enter__(self) -> Self:
        self._stream.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.__exit__()

    async def next(self) -> Item:
        """What comes next; ``Ended`` is the last.

        Raises:
            TreadleError: the log cannot be read.
        """
        while not self._items:
            for told in await self._stream.next():
                await self._take(told)
        return self._items.popleft()

    async def _take(self, told: Told) -> None:
        data = msgspec.json.decode(told.data)
        match told.event:
            case "event":
                self._event(data["type"], data["data"])
            case "frames" if self._mine:
                self._frames(data)
            case "gone" if self._speaking is not None and self._speaking.attempt == data["attemptId"]:
                self._lost(self._speaking)
            case "state" if not self._mine and data["status"] != "running":
                fate = await self._port.run(self._messages.fate, self._asked)
                if fate.fate == "rejected":
                    self._items.append(Ended("rejected", f"the message got no turn: {fate.reason}"))
            case "approvals" if data:
                self._items.append(Asks(msgspec.convert(data, tuple[Approval, ...]), self._stream.place.next))
            case "bye":
                self._items.append(Ended(data["reason"], "this stream ends before the turn does; read the session"))
            case _:
                pass

    def _event(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "user/message" and data["message"]["id"] == self.message:
            self._mine = True
        elif not self._mine:
            return
        elif kind == "assistant/message":
            self._spoken(data)
        elif kind == "assistant/attempt" and self._speaking is not None:
            self._lost(self._speaking)
        elif kind == "tool/result":
            text = "".join([block.get("text", "") for block in data.get("content", ())])
            self._items.append(Result(data["callId"], text, data.get("isError", False), data.get("code")))
        elif kind == "turn/end":
            reason = data["reason"]
            detail = reason.get("failure", {}).get("message") or reason.get("detail") or ""
            self._items.append(Ended(reason["kind"], detail))

    def _frames(self, data: dict[str, Any]) -> None:
        speaking = self._speaking
        if speaking is None or speaking.attempt != data["attemptId"]:
            speaking = self._speaking = _Speaking(data["attemptId"])
        texts: list[str] = []
        for chunk in data["chunks"]:
            if chunk["type"] == "block-start" and chunk["kind"] == "text":
                speaking.texts.add(chunk["index"])
            elif chunk["type"] == "text-delta" and chunk["index"] in speaking.texts:
                texts.append(chunk["text"])
        self._say(speaking, "".join(texts))

    def _say(self, speaking: _Speaking, text: str) -> None:
        if text:
            speaking.said += text
            self._items.append(Said(speaking.attempt, text))

    def _spoken(self, data: dict[str, Any]) -> None:
        """Say what of the message was not said live, which may be all of it."""
        content = data["message"]["content"]
        whole = "".join([block["text"] for block in content if block["type"] == "text"])
        speaking, self._speaking = self._speaking or _Speaking(data["attemptId"]), None
        if not whole.startswith(speaking.said):
            self._lost(speaking)
            return
        self._say(speaking, whole[len(speaking.said) :])
        calls = tuple([block for block in content if block["type"] == "tool-call"])
        self._items.append(Spoken(speaking.attempt, whole, calls))

    def _lost(self, speaking: _Speaking) -> None:
        """An attempt is over and its text stands nowhere: what was told of it cannot be taken back, so this answer fails."""
        self._speaking = None
        if speaking.said:
            self._items.append(Ended("attempt-lost", "the answer broke off and was begun anew; read the session"))
