"""A provider in memory that checks every request by strict rules and answers at random, well or badly."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import httpx
import trio
from attrs import define, field, frozen

from tests.adapters.strict_rules import check_chat, check_messages, read

Protocol = Literal["chat", "messages"]
WORDS = ["so", " ", "ja\u2028", "\U0001f600", "the end.", "\n\n", '"quoted"', "\u00e9"]
ARGUMENTS = ['{"n": 1}', '{"n": 2}', "{}", "", '{"n": ', "[]", "nonsense", '{"n": "x"}', '{"n": 1, "n": 2}', "null"]
NAMES = ["quick", "quick", "slow", "slow", "solo", "fails", "ends", "adds", "missing", "no name!"]


@frozen
class Reply:
    """One random answer: what it says and how it ends."""

    text: str
    thought: str
    calls: list[tuple[str, str, str]]
    finish: Literal["stop", "calls", "length", "refused", "cut", "broken", "odd"]


@define
class StrictServer(httpx.AsyncBaseTransport):
    """Checks requests, and answers; a broken rule is kept in ``faults`` and raised."""

    protocol: Protocol
    chance: random.Random
    requests: list[dict[str, Any]] = field(factory=list)
    faults: list[str] = field(factory=list)
    signatures: set[tuple[str, str]] = field(factory=set)
    open: int = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            body = read(await request.aread())
            self.requests.append(body)
            if self.protocol == "chat":
                check_chat(body)
            else:
                check_messages(body, self.signatures)
        except Exception as error:
            self.faults.append(f"{type(error).__name__}: {error}")
            raise
        await trio.sleep(self.chance.choice([0, 0, 0.1, 1]))
        if self.chance.random() < 0.12:
            return self._refused(request)
        pieces = self._chat(self._reply()) if self.protocol == "chat" else self._messages(self._reply())
        headers = {"Content-Type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=_Stream(self, list(pieces)), request=request)

    def _refused(self, request: httpx.Request) -> httpx.Response:
        status = self.chance.choice([429, 429, 500, 503, 529, 400])
        headers = {"Retry-After": self.chance.choice(["1", "0", "2.5", "60"])} if status == 429 else {}
        return httpx.Response(status, headers=headers, json={"error": {"message": "no"}}, request=request)

    def _reply(self) -> Reply:
        chance = self.chance
        calls: list[tuple[str, str, str]] = []
        if chance.random() < 0.55:
            for number in range(chance.choice([1, 1, 2, 3, 4])):
                call_id = chance.choice([f"call_{len(self.requests)}_{number}"] * 6 + ["same", "", "bad id!" * 20])
                calls.append((call_id, chance.choice(NAMES), chance.choice(ARGUMENTS)))
        text = "".join(chance.choices(WORDS, k=chance.choice([0, 0, 1, 3, 8])))
        thought = "".join(chance.choices(WORDS, k=3)) if chance.random() < 0.4 else ""
        usual: list[Any] = ["calls" if calls else "stop"] * 16
        return Reply(text, thought, calls, chance.choice([*usual, "length", "refused", "cut", "broken", "odd"]))

    # --- chat completions -----------------------------------------------------------------------------------------

    def _chat(self, reply: Reply) -> Iterator[bytes]:
        def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
            return _data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        yield event({"role": "assistant", "content": ""})
        if reply.thought:
            yield event({"reasoning_content": reply.thought})
        for word in _split(reply.text):
            yield event({"content": word})
        for index, (call_id, name, arguments) in enumerate(reply.calls):
            yield event({"tool_calls": [{"index": index, "id": call_id, "function": {"name": name, "arguments": ""}}]})
            for part in _split(arguments):
                yield event({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        if reply.finish == "broken":
            yield _data({"error": {"message": "overloaded", "code": 503}})
        if reply.finish in ("cut", "broken"):
            return
        words = {"calls": "tool_calls", "refused": "content_filter", "odd": "mystery"}
        yield event({}, words.get(reply.finish, reply.finish))
        yield _data({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
        yield b"data: [DONE]\n\n"

    # --- messages -------------------------------------------------------------------------------------------------

    def _messages(self, reply: Reply) -> Iterator[bytes]:
        usage = {"input_tokens": 3, "output_tokens": 0}
        yield _event({"type": "message_start", "message": {"role": "assistant", "content": [], "usage": usage}})
        for index, block in enumerate(self._blocks(reply)):
            yield _event({"type": "content_block_start", "index": index, "content_block": block[0]})
            for delta in block[1:]:
                yield _event({"type": "content_block_delta", "index": index, "delta": delta})
            yield _event({"type": "content_block_stop", "index": index})
        if reply.finish == "broken":
            yield _event({"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}})
        if reply.finish in ("cut", "broken"):
            return
        words = {
            "stop": "end_turn",
            "calls": "tool_use",
            "length": "max_tokens",
            "refused": "refusal",
            "odd": "mystery",
        }
        delta = {"stop_reason": words[reply.finish]}
        yield _event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}})
        yield _event({"type": "message_stop"})

    def _blocks(self, reply: Reply) -> Iterator[list[dict[str, Any]]]:
        if reply.thought:
            signature = f"signed-{len(self.signatures)}=="
            self.signatures.add((reply.thought, signature))
            yield [
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": reply.thought},
                {"type": "signature_delta", "signature": signature},
            ]
        if reply.text:
            deltas = [{"type": "text_delta", "text": word} for word in _split(reply.text)]
            yield [{"type": "text", "text": ""}, *deltas]
        for call_id, name, arguments in reply.calls:
            parts = [{"type": "input_json_delta", "partial_json": part} for part in _split(arguments)]
            yield [{"type": "tool_use", "id": call_id, "name": name, "input": {}}, *parts]


@define
class _Stream(httpx.AsyncByteStream):
    server: StrictServer
    pieces: list[bytes]
    opened: bool = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.opened = True
        self.server.open += 1
        for piece in self.pieces:
            await trio.sleep(self.server.chance.choice([0, 0, 0, 0.05]))
            yield piece

    async def aclose(self) -> None:
        if self.opened:
            self.opened = False
            self.server.open -= 1


def _split(text: str) -> Iterator[str]:
    for start in range(0, len(text), 4):
        yield text[start : start + 4]


def _data(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _event(body: dict[str, Any]) -> bytes:
    return f"event: {body['type']}\n".encode() + _data(body)
