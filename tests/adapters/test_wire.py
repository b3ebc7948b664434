"""Recorded bodies of real providers give exactly what they mean, however the network cuts them."""

import json
from collections.abc import Callable

import httpx
import pytest
import trio
from trio.testing import MockClock

from tests.adapters.wires import Body, Loopback, Outcome, bodies, cut, memory, outcome
from treadle.models.adapter import RETRIED_CODES
from treadle.models.assembly import Recorder
from treadle_adapters.models.anthropic import Anthropic
from treadle_adapters.models.decoding import Reply
from treadle_adapters.models.deepseek import DeepSeek
from treadle_adapters.models.http_model import HTTPModel
from treadle_adapters.models.openai_chat import OpenAIChat

MAKERS: dict[str, Callable[..., HTTPModel]] = {"openai": OpenAIChat, "deepseek": DeepSeek, "anthropic": Anthropic}
STOPS = {"stop": "stop", "tool_calls": "tool-calls", "length": "max-tokens"}
ERRORS = {
    "truncated": {"STREAM_CLOSED", "EMPTY_RESPONSE"},
    "idle_timeout": {"TIMEOUT"},
    "overloaded": {"SERVER"},
    "invalid_request": {"INVALID_REQUEST"},
}
BODIES = bodies(*MAKERS)
NAMES = [body.name for body in BODIES]


def model(body: Body, url: str = "http://provider.test/v1", transport: httpx.AsyncBaseTransport | None = None):
    return MAKERS[body.proto](url, stream_idle_timeout=0.3, transport=transport)


def check(body: Body, got: Outcome) -> None:
    expect = body.expect
    assert got.text == expect["text"]
    assert got.reasoning == expect["reasoning"]
    calls = [(call["id"], call["name"], call["arguments"]) for call in expect["tool_calls"]]
    found = [(call_id, name, arguments or "{}") for call_id, name, arguments in got.calls]
    if calls and calls[0][0] == "<synthesised>":
        assert found[0][0]
        found[0] = ("<synthesised>", *found[0][1:])
    assert found == calls
    if expect["usage"] is not None:
        assert got.usage is not None
        assert [got.usage.input_tokens, got.usage.output_tokens] == expect["usage"]
    elif b'"usage":{' not in body.data:
        assert got.usage is None
    check_end(body, got)


def check_end(body: Body, got: Outcome) -> None:
    stop, error = body.expect["stop"], body.expect["error"]
    if error is not None:
        assert got.finish is None
        assert got.failure is not None
        assert got.code in ERRORS.get(error, {got.code})
        if "retryable" in body.expect:
            assert (got.code in RETRIED_CODES) is body.expect["retryable"]
        assert body.expect.get("code", "") in got.failure.message
        return
    assert got.failure is None
    if stop == "<not plain stop>":
        assert got.finish not in (None, "stop", "tool-calls")
    elif stop == "content_filter":
        assert got.finish in ("content-filter", "refusal")
    else:
        assert got.finish == STOPS[stop]


@pytest.mark.rule("Q5", "Q7")
@pytest.mark.parametrize("body", BODIES, ids=NAMES)
async def test_a_recorded_body_over_a_socket_gives_what_it_means(
    body: Body, nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    server = Loopback(body.pieces(), body.status, body.headers, body.after)
    async with model(body, await server.start(nursery)) as adapter:
        check(body, await outcome(adapter))
    nursery.cancel_scope.cancel()


@pytest.fixture(autouse=True)
def clock(mock_clock: MockClock) -> None:
    # The pause lets data that is on its way through the kernel arrive before time jumps; nothing sleeps in real time.
    mock_clock.autojump_threshold = 0.02


@pytest.mark.rule("Q5", "X3")
@pytest.mark.parametrize("body", BODIES, ids=NAMES)
async def test_a_body_cut_into_single_bytes_means_the_same(body: Body, mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0
    data = body.data
    async with model(body, transport=memory(body, cut(data, range(1, len(data))))) as adapter:
        check(body, await outcome(adapter))


@pytest.mark.slow
@pytest.mark.rule("Q5")
@pytest.mark.parametrize("body", BODIES, ids=NAMES)
async def test_a_body_cut_anywhere_means_the_same(body: Body, mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0
    transport = memory(body)
    async with model(body, transport=transport) as adapter:
        for place in range(1, len(body.data)):
            transport.pieces = cut(body.data, [place])
            check(body, await outcome(adapter))


@pytest.mark.slow
@pytest.mark.rule("Q5", "Q7")
@pytest.mark.parametrize("body", [body for body in BODIES if body.status == 200 and not body.name.endswith("gz")])
async def test_a_body_that_ends_too_early_is_never_taken_for_a_whole_answer(body: Body) -> None:
    adapter = model(body)
    whole = assemble(adapter, body.data)
    for place in range(len(body.data)):
        got = assemble(adapter, body.data[:place])
        if got.finish is None:
            assert got.failure is not None
        else:
            assert whole.failure is None
            assert (got.text, got.reasoning, got.finish) == (whole.text, whole.reasoning, whole.finish)
            assert [call[1:] for call in got.calls] == [call[1:] for call in whole.calls]


def assemble(adapter: HTTPModel, data: bytes) -> Outcome:
    recorder, reply = Recorder(), Reply(adapter._decoder())
    reply.feed(data)
    reply.close()
    for chunk in reply.take():
        recorder.add(chunk, 0.0)
    finish = recorder.finish.kind if recorder.finish is not None else None
    failure = reply.failure.failure if reply.failure is not None else None
    return Outcome(recorder.blocks(), [], finish, recorder.usage, failure)


def test_every_recorded_body_is_listed_once() -> None:
    listed = [body.name for body in bodies()]
    assert len(listed) == len(set(listed)) == 68
    assert all((json.dumps(body.expect) and body.data is not None) for body in bodies())
