"""One turn, followed from the message that opens it to its end: what the protocols of front ends are made of.

Only what a client adds is taken from it. The history is the session's; whatever else it sends of one is left alone.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

import msgspec
from attrs import define, field, frozen

from treadle import DuplicateSession, MisuseError
from treadle.session import new_id, session_id

from .approvals import Approval
from .desk import Desk, Owner
from .messages import MessageOperations
from .port import Port
from .problems import Refused
from .sessions import Asked
from .shapes import Delivery
from .streams import Place, Stream, Told


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
    """Calls wait for approval; all of them."""

    approvals: tuple[Approval, ...]


Item = Said | Spoken | Result | Asks | Ended


def text_of_parts(content: Any) -> str:
    """The text of a message's content, as front ends send it: text, or parts of which some are text."""
    if isinstance(content, str):
        return content
    try:
        parts = msgspec.convert(content, list[_Part])
    except msgspec.ValidationError as error:
        raise Refused(422, "INVALID_MESSAGE", f"no content that can be read: {error}") from error
    return "".join([part.text for part in parts])


class _Part(msgspec.Struct, frozen=True):
    text: str = ""


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
        asked: names the session, and the message that opens the turn; without one it is the turn under way.
        stream: the session's stream, from before the message was delivered.
    """

    def __init__(self, port: Port, messages: MessageOperations, asked: Asked, stream: Stream) -> None:
        self._port = port
        self._messages = messages
        self._asked = asked
        self._stream = stream
        self._items: deque[Item] = deque()
        self._mine = "message" not in asked.path
        self._speaking: _Speaking | None = None

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
                self._items.append(Asks(msgspec.convert(data, tuple[Approval, ...])))
            case "bye":
                self._items.append(Ended(data["reason"], "this stream ends before the turn does; read the session"))
            case _:
                pass

    def _event(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "user/message" and data["message"]["id"] == self._asked.path.get("message"):
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


class Turns:
    """Opens turns for the protocols."""

    def __init__(self, port: Port, desk: Desk, messages: MessageOperations) -> None:
        self._port = port
        self._desk = desk
        self._messages = messages

    async def session(self, owner: Owner, wanted: str | None) -> str:
        """The id of the session that a client means: one that is there, or a new one where it names none.

        Raises:
            Refused: the one that it names is not there.
        """
        if wanted is not None:
            await self._port.run(self._desk.check, owner, wanted)
            return wanted

        async def make() -> str:
            return (await self._desk.created(owner)).id

        return await self._port.run(make)

    async def named(self, owner: Owner, wanted: str) -> str:
        """The session that a client's own name for it means: one of the owner's by its id, else the one made under that name.

        Raises:
            TreadleError: it cannot be made.
        """
        digest = hashlib.sha256(f"{'' if owner is None else owner}\0{wanted}".encode("utf-8", "replace")).hexdigest()
        own = f"named-{digest[:40]}"

        async def find() -> str:
            for name in (wanted, own):
                with suppress(Refused):
                    await self._desk.check(owner, name)
                    return name
            try:
                return (await self._desk.created(owner, session_id=own)).id
            except DuplicateSession:  # made meanwhile, by another request for the same name
                return own

        return await self._port.run(find)

    async def resume(self, owner: Owner, session: str, answers: Mapping[str, bool]) -> Turn:
        """Answer calls that wait for approval, and follow the turn that they belong to.

        Raises:
            Refused: one was answered before, or does not wait.
        """

        async def answer() -> Place:
            await self._desk.check(owner, session)
            agent = await self._desk.opened(owner, session)
            log = agent.session.events
            place = Place(len(log), log[-1].time if len(log) else None)
            for name, approved in answers.items():
                self._desk.approvals.answer(session, name, approved)
            return place

        place = await self._port.run(answer)
        asked = Asked(owner, {"session": session})
        return Turn(self._port, self._messages, asked, Stream(self._port, self._desk, session, place))

    async def open(self, owner: Owner, session: str, text: str, message_id: str | None = None) -> Turn:
        """Follow up in a session, and follow the turn that answers.

        Raises:
            Refused: the message was delivered before, or the server is being drained.
            TreadleError: it cannot be delivered.
        """
        try:
            session_id(session)
        except MisuseError as error:
            raise Refused(404, "SESSION_NOT_FOUND", "there is no such session") from error
        name = message_id or new_id()

        async def deliver() -> Place:
            agent = await self._desk.opened(owner, session)
            log = agent.session.events
            place = Place(len(log), log[-1].time if len(log) else None)
            given = await self._messages.deliver(Asked(owner, {"session": session}, body=Delivery(name, text)))
            if given.duplicate:
                raise Refused(409, "DUPLICATE_MESSAGE", "this message was delivered before")
            return place

        place = await self._port.run(deliver)
        asked = Asked(owner, {"session": session, "message": name})
        return Turn(self._port, self._messages, asked, Stream(self._port, self._desk, session, place))
