"""What a model over HTTP costs beside the network: reading its stream, and writing its requests."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence

import httpx

from treadle import AssistantMessage, Message, ModelRequest, Signal, SystemMessage, Text, ToolCall, ToolResultMessage
from treadle.models import CallConfig, TextDelta, ToolResult, ToolSchema
from treadle.words.messages import user_message
from treadle_adapters.models.openai_chat import OpenAIChat

from .measure import SLICES, Benchmark, Pair, Sample

DELTAS = 20_000
"""Text deltas of one answer."""

READ = 16_384
"""Bytes that one read of a busy connection brings."""

STEP = 500
"""The step whose request is built."""

SPAN = 20
"""How many steps around it are timed."""


class _Memory(httpx.AsyncByteStream):
    def __init__(self, reads: Sequence[bytes]) -> None:
        self._reads = reads

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for read in self._reads:
            yield read


class _MemoryTransport(httpx.AsyncBaseTransport):
    """Answers with prepared reads."""

    def __init__(self, reads: Sequence[bytes]) -> None:
        self._reads = reads

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        headers = {"Content-Type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=_Memory(self._reads), request=request)


def _events() -> list[bytes]:
    """An answer of many small deltas, with the envelope that OpenAI sends around each."""
    bodies = [{"delta": {"content": f" w{number % 97}"}, "finish_reason": None} for number in range(DELTAS)]
    bodies.append({"delta": {}, "finish_reason": "stop"})
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
    choices = [{"index": 0, "logprobs": None, **body} for body in bodies]
    lines = [json.dumps({**frame, "choices": [choice]}, separators=(",", ":")) for choice in choices]
    return [f"data: {line}\n\n".encode() for line in [*lines, "[DONE]"]]


def _request(messages: Sequence[Message], tools: tuple[ToolSchema, ...] = ()) -> ModelRequest:
    config = CallConfig(provider="p", model="m", max_tokens=1_000)
    return ModelRequest(config, messages, tools, "attempt", "session", Signal())


async def _deltas_per_second(reads: Sequence[bytes]) -> Sample:
    """Text deltas that come out of an adapter per CPU second."""
    count = 0
    async with OpenAIChat("http://memory.test", transport=_MemoryTransport(reads)) as model:
        start = time.process_time()
        async for chunk in model.stream(_request([user_message("go", "u")])):
            if type(chunk) is TextDelta:
                count += 1
        took = time.process_time() - start
    assert count == DELTAS
    return Sample(count / took)


async def stream_in_reads() -> Sample:
    """A fast answer: many events in each read."""
    body = b"".join(_events())
    return await _deltas_per_second([body[start : start + READ] for start in range(0, len(body), READ)])


async def stream_by_event() -> Sample:
    """A slow answer: each event comes by itself, and the watchdog is armed for each."""
    return await _deltas_per_second(_events())


def _tool_turn(steps: int) -> list[Message]:
    history: list[Message] = [SystemMessage((Text("Be brief." * 50),)), user_message("Find it." * 20, "u")]
    for number in range(steps):
        call = ToolCall(f"call_{number:06}", "read_file", f'{{"path":"src/module_{number}.py","lines":200}}')
        told = ToolResult(call.call_id, (Text(f"{number}: a line of a file\n" * 40),))
        history += [AssistantMessage((Text("Next file."), call)), ToolResultMessage((told,))]
    return history


def body_of_step() -> Sample:
    """The request's body of step 500 of a tool turn; the floor joins its messages, encoded already."""
    pair = Pair()
    tools = (ToolSchema("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),)
    for _ in range(SLICES):
        model, history = OpenAIChat("http://memory.test"), _tool_turn(STEP + SPAN)
        first = len(_tool_turn(STEP - SPAN))
        body = model._body(_request(history[:first], tools))  # what is measured is this alone
        requests = [_request(history[:end], tools) for end in range(first + 2, len(history) + 1, 2)]
        with pair.ours.time(len(requests)):
            for request in requests:
                body = model._body(request)
        messages = [json.dumps(message).encode() for message in json.loads(body)["messages"]]
        head, tail = body[:100], body[-150:]
        with pair.floor.time(len(requests)):
            for request in requests:
                b"".join([head, b",".join(messages[: len(request.messages)]), tail])
    return pair.sample()


BENCHMARKS = [
    Benchmark(
        "sse-to-chunks",
        f"text deltas out of an adapter over a memory transport, in reads of {READ} bytes",
        "deltas/CPU s",
        150_000,
        stream_in_reads,
        "at-least",
    ),
    Benchmark(
        "sse-to-chunks-singly",
        "the same with each event in a read of its own, as a slow answer comes",
        "deltas/CPU s",
        50_000,
        stream_by_event,
        "at-least",
    ),
    Benchmark(
        f"body-of-step-{STEP}",
        f"the request's body of step {STEP} of a tool turn; the floor joins its messages, encoded already",
        "µs/body",
        1.5,
        body_of_step,
    ),
]
