"""The AG-UI protocol: ``POST /agui``, one run per request, approvals as interrupts.

A thread is a session of the owner's: one whose id it is, or the one that was made under its name. The last user message is what
is asked; the rest of what a client sends along is left alone. A call that waits for approval ends the run with an interrupt;
the next run answers it in ``resume``, with ``{"approved": true}`` or otherwise, and goes on with the turn.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
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

VERSION = "1.0"
"""The version of the protocol that is spoken."""


class Answered(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAsked(msgspec.Struct, frozen=True, rename="camel"):
    """As much of a run's input as is read."""

    thread_id: str
    run_id: str
    messages: list[dict[str, Any]] = []
    resume: list[Answered] | None = None


class Run:
    """Writes one run: everything that is opened is closed, and nothing follows the end. See ``Form``."""

    def __init__(self, thread: str, run: str) -> None:
        self._names = {"threadId": thread, "runId": run}
        self._text: str | None = None
        self.over = False

    def begin(self) -> list[bytes]:
        """See ``Form.begin``."""
        return [_event("RUN_STARTED", **self._names, protocolVersion=VERSION)]

    def take(self, item: Item) -> list[bytes]:
        """See ``Form.take``."""
        match item:
            case Said(attempt, text):
                opened = [] if self._text == attempt else [*self._closed(), self._open(attempt)]
                return [*opened, _event("TEXT_MESSAGE_CONTENT", messageId=attempt, delta=text)]
            case Spoken(attempt, text, calls):
                parent = {"parentMessageId": attempt} if text else {}
                return [*self._closed(), *[told for call in calls for told in _call(call, parent)]]
            case Result(call_id, text):
                told = {"messageId": f"result-{call_id}", "toolCallId": call_id, "content": text, "role": "tool"}
                return [_event("TOOL_CALL_RESULT", **told)]
            case Asks(approvals):
                interrupts = [
                    {"id": item.id_of(one), "reason": "tool_call", "message": one.question, "toolCallId": one.call_id}
                    for one in approvals
                ]
                return self._finished({"type": "interrupt", "interrupts": interrupts})
            case Ended("aborted"):
                return self._finished({"type": "cancelled"})
            case Ended(kind, detail) if item.failed:
                self.over = True
                return [*self._closed(), _event("RUN_ERROR", message=detail or kind, code=kind)]
            case Ended():
                return self._finished({"type": "success"})

    def _open(self, attempt: str) -> bytes:
        self._text = attempt
        return _event("TEXT_MESSAGE_START", messageId=attempt, role="assistant")

    def _closed(self) -> list[bytes]:
        attempt, self._text = self._text, None
        return [] if attempt is None else [_event("TEXT_MESSAGE_END", messageId=attempt)]

    def _finished(self, outcome: dict[str, Any]) -> list[bytes]:
        self.over = True
        return [*self._closed(), _event("RUN_FINISHED", **self._names, outcome=outcome)]


def _call(call: dict[str, Any], parent: dict[str, str]) -> list[bytes]:
    name = call["callId"]
    return [
        _event("TOOL_CALL_START", toolCallId=name, toolCallName=call["name"], **parent),
        *([_event("TOOL_CALL_ARGS", toolCallId=name, delta=call["arguments"])] if call.get("arguments") else []),
        _event("TOOL_CALL_END", toolCallId=name),
    ]


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields})


class Agui:
    """The door."""

    def __init__(self, turns: Turns, limits: Limits) -> None:
        self._turns = turns
        self._limits = limits

    def routes(self) -> list[Route]:
        """Its route."""
        return [Route("/agui", self, methods=["POST"])]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one run."""
        try:
            asked: RunAsked = await read_body(scope, receive, self._limits, RunAsked)
            turn = await self._begun(asked, scope)
        except Exception as error:
            await problem(error)(scope, receive, send)
            return
        await follow(turn, Run(asked.thread_id, asked.run_id), receive, send)

    async def _begun(self, asked: RunAsked, scope: Scope) -> Turn:
        owner = scope[CALLER].owner
        session = await self._turns.named(owner, asked.thread_id)
        if asked.resume:
            return await self._turns.resume(owner, session, {one.interrupt_id: _approves(one) for one in asked.resume})
        last = asked.messages[-1] if asked.messages else {}
        if last.get("role") != "user":
            raise Refused(422, "INVALID_MESSAGE", "the last message must be the user's: tools run here")
        return await self._turns.open(owner, session, text_of_parts(last.get("content")))


def _approves(given: Answered) -> bool:
    payload: Any = given.payload
    return given.status == "resolved" and isinstance(payload, dict) and payload.get("approved") is True  # pyright: ignore[reportUnknownMemberType]
