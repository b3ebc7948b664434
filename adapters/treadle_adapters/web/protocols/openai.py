"""An agent in front of clients of OpenAI's: ``/v1/chat/completions``, ``/v1/responses``, ``/v1/models``.

The last user message is what is asked; the history that a client sends along is left alone. A request begins a session unless
it names one: by the header ``x-treadle-session``, or for responses by ``previous_response_id``. Tools are the agent's and run
here: responses tell their calls as ``mcp_call`` items, which ask nothing of the client; chat completions tell the text alone.
"""

from __future__ import annotations

from time import time
from typing import Any, Protocol

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response as Answered
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from treadle.session import new_id

from ..access import CALLER
from ..answers import answer, problem, while_there
from ..api import read_body
from ..limits import Limits
from ..problems import Problem, Refused
from .following import Form, event, follow
from .turn import Asks, Ended, Item, Said, Spoken, Turn, text_of_parts
from .turn import Result as ToolResult
from .turns import Turns

MODEL = "treadle"
SESSION_HEADER = "x-treadle-session"


class ChatAsked(msgspec.Struct, frozen=True):
    """As much of a request for a chat completion as is read."""

    messages: list[dict[str, Any]]
    model: str = MODEL
    stream: bool = False


class ResponseAsked(msgspec.Struct, frozen=True):
    """As much of a request for a response as is read."""

    input: str | list[dict[str, Any]]
    model: str = MODEL
    stream: bool = False
    previous_response_id: str | None = None


class Whole(Form, Protocol):
    """A form that can also be told as one document."""

    def whole(self) -> Any:
        """The answer as one document, once the turn has ended."""
        ...


def asked_text(messages: str | list[dict[str, Any]]) -> str:
    """The text of the last message, which must be the user's.

    Raises:
        Refused: there is none.
    """
    if isinstance(messages, str):
        return messages
    last = messages[-1] if messages else {}
    content = last.get("content")
    if last.get("role") != "user" or content is None:
        raise Refused(
            422, "INVALID_MESSAGE", "the last message must be the user's: tools run here, and answer by themselves"
        )
    if isinstance(content, str):
        return content
    return text_of_parts(content)


class Front:
    """The doors."""

    def __init__(self, turns: Turns, limits: Limits) -> None:
        self._turns = turns
        self._limits = limits

    def routes(self) -> list[Route]:
        """Their routes."""
        doors: tuple[tuple[str, str, Any], ...] = (
            ("GET", "/v1/models", self._models),
            ("POST", "/v1/chat/completions", self._chat),
            ("POST", "/v1/responses", self._respond),
        )
        return [Route(path, _Door(run), methods=[method]) for method, path, run in doors]

    async def _models(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = {"id": MODEL, "object": "model", "created": 0, "owned_by": "treadle"}
        await answer({"object": "list", "data": [known]})(scope, receive, send)

    async def _chat(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked: ChatAsked = await read_body(scope, receive, self._limits, ChatAsked)
        text, owner = asked_text(asked.messages), scope[CALLER].owner
        session = await self._turns.session(owner, Headers(scope=scope).get(SESSION_HEADER))
        turn = await self._turns.open(owner, session, text)
        await _answer(turn, Chat(asked.model), session, scope, receive, send, streams=asked.stream)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked: ResponseAsked = await read_body(scope, receive, self._limits, ResponseAsked)
        text, owner = asked_text(asked.input), scope[CALLER].owner
        wanted = Headers(scope=scope).get(SESSION_HEADER)
        if asked.previous_response_id is not None:
            wanted = asked.previous_response_id.removeprefix("resp_").partition("~")[0]
        session = await self._turns.session(owner, wanted)
        turn = await self._turns.open(owner, session, text)
        await _answer(turn, Response(asked.model, session), session, scope, receive, send, streams=asked.stream)


class _Door:
    """Tells what is refused before an answer has begun."""

    def __init__(self, run: Any) -> None:
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._run(scope, receive, watched)
        except Exception as error:
            if begun:
                raise  # the server resets the connection: nobody takes it for an end
            await refused(error)(scope, receive, send)


def refused(error: Exception) -> Answered:
    """The answer to a request that failed, as clients of this protocol read it."""
    made = problem(error)
    told = msgspec.json.decode(bytes(made.body), type=Problem)
    kind = "server_error" if told.status >= 500 else "invalid_request_error"
    fields = {"message": told.detail, "type": kind, "param": None, "code": told.code}
    return answer({"error": fields}, told.status)


async def _answer(
    turn: Turn, form: Whole, session: str, scope: Scope, receive: Receive, send: Send, *, streams: bool
) -> None:
    """Follow a turn and answer; a client that goes away ends the answer, not the turn."""
    if streams:
        await follow(turn, form, receive, send, ((SESSION_HEADER.encode(), session.encode()),))
        return
    async with while_there(receive):
        with turn:
            item: Item | None = None
            while not isinstance(item, Ended):
                item = await turn.next()
                form.take(item)
        if item.failed:
            await refused(Refused(502, "TURN_FAILED", item.detail or item.kind))(scope, receive, send)
        else:
            made = answer(form.whole())
            made.headers[SESSION_HEADER] = session
            await made(scope, receive, send)


class Chat:
    """Chat completions. See ``Whole``."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id = f"chatcmpl-{new_id()}"
        self._created = int(time())
        self._texts: list[str] = []
        self._attempt: str | None = None
        self._finish = "stop"
        self.over = False

    def begin(self) -> list[bytes]:
        """See ``Form.begin``."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def take(self, item: Item) -> list[bytes]:
        """See ``Form.take``."""
        match item:
            case Said(attempt, text):
                apart = "\n\n" if self._attempt not in (None, attempt) else ""  # what was said before a tool ran
                self._attempt = attempt
                self._texts.append(apart + text)
                return [self._chunk({"content": apart + text})]
            case Ended() if item.failed:
                self.over = True
                error = {"message": item.detail or item.kind, "type": "server_error", "code": item.kind}
                return [event({"error": error})]
            case Ended(kind):
                self.over = True
                self._finish = "length" if kind == "max-tokens" else "stop"
                return [self._chunk({}, self._finish), b"data: [DONE]\n\n"]
            case _:
                return []

    def whole(self) -> Any:
        """See ``Whole.whole``."""
        message = {"role": "assistant", "content": "".join(self._texts), "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": self._finish, "logprobs": None}
        return {**self._head("chat.completion"), "choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return event({**self._head("chat.completion.chunk"), "choices": [choice]})


class Response:
    """Responses. See ``Whole``. A response's id names its session, so that the next one can go on with it."""

    def __init__(self, model: str, session: str) -> None:
        self._model = model
        self._id = f"resp_{session}~{new_id()}"
        self._created = int(time())
        self._number = 0
        self._output: list[dict[str, Any]] = []
        self._open: str | None = None
        self._calls: dict[str, int] = {}
        self._status = "in_progress"
        self._error: dict[str, Any] | None = None
        self.over = False

    def begin(self) -> list[bytes]:
        """See ``Form.begin``."""
        return [self._told("response.created", response=self.whole())]

    def take(self, item: Item) -> list[bytes]:
        """See ``Form.take``."""
        match item:
            case Said(attempt, text):
                return self._said(attempt, text)
            case Spoken(attempt, text, calls):
                closed = self._closed(text) if self._open == attempt else []
                return [*closed, *[told for call in calls for told in self._called(call)]]
            case ToolResult():
                return self._settled(item)
            case Ended():
                return self._ended(item)
            case Asks():
                return []  # whoever watches the session answers; this client cannot

    def whole(self) -> Any:
        """See ``Whole.whole``."""
        incomplete = {"reason": "max_output_tokens"} if self._status == "incomplete" else None
        return {
            "id": self._id, "object": "response", "created_at": self._created, "model": self._model,
            "status": self._status, "error": self._error, "incomplete_details": incomplete, "output": self._output,
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "instructions": None, "metadata": {},
        }  # fmt: skip

    def _told(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return event({"type": kind, "sequence_number": number, **fields}, kind)

    def _said(self, attempt: str, text: str) -> list[bytes]:
        out: list[bytes] = []
        if self._open != attempt:
            self._open = attempt
            item: dict[str, Any] = {
                "id": f"msg_{attempt}",
                "type": "message",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
            self._output.append(item)
            out += [
                self._told("response.output_item.added", output_index=len(self._output) - 1, item=item),
                self._told("response.content_part.added", **self._place(), part=_part("")),
            ]
        return [*out, self._told("response.output_text.delta", **self._place(), delta=text, logprobs=[])]

    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self._open}", "output_index": len(self._output) - 1, "content_index": 0}

    def _closed(self, text: str) -> list[bytes]:
        place = self._place()
        at = place["output_index"]
        item = self._output[at] = {**self._output[at], "status": "completed", "content": [_part(text)]}
        self._open = None
        return [
            self._told("response.output_text.done", **place, text=text, logprobs=[]),
            self._told("response.content_part.done", **place, part=_part(text)),
            self._told("response.output_item.done", output_index=at, item=item),
        ]

    def _called(self, call: dict[str, Any]) -> list[bytes]:
        item = {
            "id": f"mcp_{call['callId']}", "type": "mcp_call", "server_label": MODEL, "name": call["name"],
            "arguments": call.get("arguments", ""), "output": None, "error": None,
        }  # fmt: skip
        self._calls[call["callId"]] = len(self._output)
        self._output.append(item)
        return [self._told("response.output_item.added", output_index=len(self._output) - 1, item=item)]

    def _settled(self, result: ToolResult) -> list[bytes]:
        at = self._calls.pop(result.call_id, None)
        if at is None:
            return []
        outcome = {"error": result.text} if result.is_error else {"output": result.text}
        item = self._output[at] = {**self._output[at], **outcome}
        return [self._told("response.output_item.done", output_index=at, item=item)]

    def _ended(self, ended: Ended) -> list[bytes]:
        self.over = True
        if ended.failed:
            self._status = "failed"
            self._error = {"code": "server_error", "message": ended.detail or ended.kind}
            return [self._told("response.failed", response=self.whole())]
        self._status = "incomplete" if ended.kind == "max-tokens" else "completed"
        return [self._told(f"response.{self._status}", response=self.whole())]


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
