"""The AI SDK's UI message stream, as much of it as npm ``ai`` 6 and 7 both take: ``POST /ai-sdk/chat``, one answer per request.

A chat is a session of the owner's: one whose id it is, or the one that was made under its name. The last message is what counts:
a user's is asked, under its id; an assistant's brings the answers to calls that waited for approval, and the turn goes on. All
else that a client sends along is left alone. ``GET /ai-sdk/chat/CHAT/stream`` tells the turn under way anew, from its beginning.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..access import CALLER
from ..answers import problem
from ..api import read_body
from ..limits import Limits
from ..problems import Refused
from .following import event, follow
from .turn import Asks, Ended, Item, Result, Said, Spoken, Turn, text_of_parts
from .turns import Turns

CHAT = "/ai-sdk/chat"
HEADERS = ((b"x-vercel-ai-ui-message-stream", b"v1"),)
TOOL = {"dynamic": True, "providerExecuted": True}
"""What is said of a tool that runs here: the client neither knows nor runs it."""
STILL_RUNNING = "still running"
"""The output that stands for one that is not there yet, while the client is asked about another call."""


class Sent(msgspec.Struct, frozen=True):
    """As much of a message as is read."""

    role: str
    id: str = ""
    parts: list[dict[str, Any]] = []


class ChatAsked(msgspec.Struct, frozen=True):
    """As much of a request as is read."""

    id: str
    messages: list[Sent]


class _Answer(msgspec.Struct, frozen=True):
    id: str
    approved: bool


class Message:
    """Writes one message of the assistant: all that a turn says. See ``Form``.

    Args:
        opened_by: the id of the user's message; the answer's is made from it, so that it is the same in each request.
    """

    def __init__(self, opened_by: str) -> None:
        self._id = f"answer-{opened_by}"
        self._step: str | None = None
        self._text: str | None = None
        self._running: dict[str, None] = {}
        self.over = False

    def begin(self) -> list[bytes]:
        """See ``Form.begin``."""
        return [event({"type": "start", "messageId": self._id})]

    def take(self, item: Item) -> list[bytes]:
        """See ``Form.take``."""
        match item:
            case Said(attempt, text):
                opened = self._stepped(attempt)
                if self._text is None:
                    self._text = attempt
                    opened.append(event({"type": "text-start", "id": attempt}))
                return [*opened, event({"type": "text-delta", "id": attempt, "delta": text})]
            case Spoken(attempt, _, calls):
                return [*self._stepped(attempt), *self._closed(), *[self._called(call) for call in calls]]
            case Result(call_id):
                self._running.pop(call_id, None)
                return [event({**_outcome(item), "toolCallId": call_id})]
            case Asks():
                return self._asked(item)
            case Ended():
                return self._ended(item)

    def _stepped(self, attempt: str) -> list[bytes]:
        if self._step == attempt:
            return []
        ended, self._step = self._step is not None, attempt
        return [*self._closed(), *([event({"type": "finish-step"})] if ended else []), event({"type": "start-step"})]

    def _closed(self) -> list[bytes]:
        text, self._text = self._text, None
        return [] if text is None else [event({"type": "text-end", "id": text})]

    def _called(self, call: dict[str, Any]) -> bytes:
        name, arguments = call["callId"], call.get("arguments") or "{}"
        self._running[name] = None
        try:
            given = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            given = arguments  # as the model wrote them, which the tool will be told as well
        return event(
            {"type": "tool-input-available", "toolCallId": name, "toolName": call["name"], "input": given, **TOOL}
        )

    def _asked(self, asks: Asks) -> list[bytes]:
        """End the answer with what waits. A client answers only when no other call is open, so those get an output for now."""
        waiting = {one.call_id: asks.id_of(one) for one in asks.approvals}
        running = [name for name in self._running if name not in waiting]
        for_now = [
            event({"type": "tool-output-available", "toolCallId": name, "output": STILL_RUNNING, **TOOL})
            for name in running
        ]
        questions = [
            event({"type": "tool-approval-request", "approvalId": asked, "toolCallId": name})
            for name, asked in waiting.items()
        ]
        return [*for_now, *questions, *self._finished("tool-calls")]

    def _ended(self, ended: Ended) -> list[bytes]:
        if ended.kind == "aborted":
            return self._over([event({"type": "abort", "reason": ended.detail or ended.kind})])
        if ended.failed:
            return self._over([event({"type": "error", "errorText": ended.detail or ended.kind})])
        return self._finished("length" if ended.kind == "max-tokens" else "stop")

    def _finished(self, reason: str) -> list[bytes]:
        step = [event({"type": "finish-step"})] if self._step is not None else []
        return [*self._closed(), *self._over([*step, event({"type": "finish", "finishReason": reason})])]

    def _over(self, told: list[bytes]) -> list[bytes]:
        self.over = True
        return [*self._closed(), *told, b"data: [DONE]\n\n"]


def _outcome(result: Result) -> dict[str, Any]:
    if result.code == "NOT_APPROVED":
        return {"type": "tool-output-denied"}
    if result.is_error:
        return {"type": "tool-output-error", "errorText": result.text, **TOOL}
    return {"type": "tool-output-available", "output": result.text, **TOOL}


class AiSdk:
    """The doors."""

    def __init__(self, turns: Turns, limits: Limits) -> None:
        self._turns = turns
        self._limits = limits

    def routes(self) -> list[Route]:
        """Their routes."""
        return [
            Route(CHAT, _Door(self._chat), methods=["POST"]),
            Route(CHAT + "/{chat:path}/stream", _Door(self._again), methods=["GET"]),
        ]

    async def _chat(self, scope: Scope, receive: Receive) -> Turn:
        asked: ChatAsked = await read_body(scope, receive, self._limits, ChatAsked)
        owner, session = scope[CALLER].owner, await self._turns.named(scope[CALLER].owner, asked.id)
        last = asked.messages[-1] if asked.messages else Sent("nobody")
        if last.role == "user":
            return await self._turns.open(owner, session, text_of_parts(last.parts), last.id or None)
        answers = _answers(last.parts) if last.role == "assistant" else {}
        if not answers:
            raise Refused(
                422, "INVALID_MESSAGE", "the last message must be the user's, or answer calls: tools run here"
            )
        return await self._turns.resume(owner, session, answers)

    async def _again(self, scope: Scope, _: Receive) -> Turn | None:
        return await self._turns.under_way(scope[CALLER].owner, Request(scope).path_params["chat"])


class _Door:
    """Answers with the turn that a request finds; with 204 where it finds none."""

    def __init__(self, find: Any) -> None:
        self._find = find

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            turn = await self._find(scope, receive)
        except Exception as error:
            await problem(error)(scope, receive, send)
            return
        if turn is None:
            await Response(status_code=204)(scope, receive, send)
        else:
            await follow(turn, Message(turn.message), receive, send, HEADERS)


def _answers(parts: list[dict[str, Any]]) -> dict[str, bool]:
    """Which calls a message says are approved."""
    try:
        given = [
            msgspec.convert(part.get("approval"), _Answer)
            for part in parts
            if part.get("state") == "approval-responded"
        ]
    except msgspec.ValidationError as error:
        raise Refused(422, "INVALID_MESSAGE", f"no approval that can be read: {error}") from error
    return {one.id: one.approved for one in given}
