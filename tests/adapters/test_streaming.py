"""One attempt over HTTP: silence, cancellation, connections, and what goes beyond every bound."""

import gc
import json
from contextlib import aclosing
from typing import Any

import httpx
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.adapters.wires import Loopback, MemoryTransport, Outcome, outcome, request
from treadle import MisuseError, ModelFailure
from treadle.models import AnswerBounds, BlockStart, Finished, TextDelta, UsageReport
from treadle_adapters.http import endpoint
from treadle_adapters.models.openai_chat import OpenAIChat

URL = "http://provider.test/v1"
DONE = b"data: [DONE]\n\n"


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    body = {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def text(content: str) -> bytes:
    return event({"content": content})


def answer(*pieces: bytes, **options: Any) -> MemoryTransport:
    return MemoryTransport([*pieces], **options)


def chat(transport: MemoryTransport, **options: Any) -> OpenAIChat:
    return OpenAIChat(URL, transport=transport, **options)


WHOLE = (text("hello"), event(finish="stop"), DONE)


# --- silence ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q8")
async def test_silence_after_the_first_delta_is_a_timeout_and_keeps_the_delta(autojump_clock: MockClock) -> None:
    async with chat(answer(text("th"), after="hold"), stream_idle_timeout=7.0) as model:
        start = trio.current_time()
        got = await outcome(model)
    assert (got.text, got.code) == ("th", "TIMEOUT")
    assert trio.current_time() - start == pytest.approx(7.0)


@pytest.mark.rule("Q8")
async def test_a_server_that_never_sends_headers_is_a_timeout(autojump_clock: MockClock) -> None:
    async with chat(answer(before=trio.sleep_forever), stream_idle_timeout=7.0) as model:
        got = await outcome(model)
    assert got.code == "TIMEOUT"
    assert trio.current_time() == pytest.approx(7.0)


@pytest.mark.rule("Q8")
async def test_a_slow_but_steady_stream_is_not_killed(autojump_clock: MockClock) -> None:
    pieces = [text(str(number % 10)) for number in range(200)]
    async with chat(answer(*pieces, *WHOLE, gap=0.9), stream_idle_timeout=1.0) as model:
        got = await outcome(model)
    assert got.failure is None
    assert len(got.text) == 205
    assert trio.current_time() > 180


@pytest.mark.rule("Q8")
async def test_time_that_the_consumer_takes_is_not_the_providers_silence(autojump_clock: MockClock) -> None:
    model = chat(answer(*WHOLE), stream_idle_timeout=1.0)
    chunks = []
    async with aclosing(model.stream(request())) as stream:
        async for chunk in stream:
            await trio.sleep(50)
            chunks.append(chunk)
    assert isinstance(chunks[-1], Finished)


@pytest.mark.rule("Q8")
async def test_keep_alives_count_as_bytes_for_a_while(autojump_clock: MockClock) -> None:
    beats = [b": keep-alive\n\n"] * 100
    async with chat(answer(*beats, *WHOLE, gap=9.0), stream_idle_timeout=10.0) as model:
        got = await outcome(model)
    assert got.text == "hello"


@pytest.mark.rule("Q8")
async def test_keep_alives_alone_do_not_hold_an_agent_for_ever(autojump_clock: MockClock) -> None:
    beats = [b": keep-alive\n\n"] * 10_000
    async with chat(answer(*beats, gap=9.0), stream_idle_timeout=10.0, keep_alive_timeout=100.0) as model:
        got = await outcome(model)
    assert got.code == "TIMEOUT"
    assert got.failure is not None
    assert "only keep-alives" in got.failure.message
    assert trio.current_time() == pytest.approx(100.0)


@pytest.mark.parametrize("timeouts", [{"stream_idle_timeout": 0}, {"keep_alive_timeout": -1.0}])
def test_a_timeout_that_is_not_positive_is_refused(timeouts: dict[str, float]) -> None:
    with pytest.raises(MisuseError, match="positive"):
        OpenAIChat(URL, **timeouts)  # type: ignore[arg-type]


# --- the end of an answer ---------------------------------------------------------------------------------------------


@pytest.mark.rule("Q5")
async def test_usage_comes_before_the_finish_and_nothing_after_it(autojump_clock: MockClock) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 7}
    late = b'data: {"choices":[],"usage":' + json.dumps(usage).encode() + b"}\n\n"
    async with chat(answer(text("hi"), event(finish="stop"), late, DONE, text("late"))) as model:
        got = await outcome(model)
    kinds = [type(chunk) for chunk in got.chunks]
    assert kinds.count(UsageReport) == 1
    assert kinds.index(UsageReport) < kinds.index(Finished) == len(kinds) - 1
    assert got.text == "hi"


@pytest.mark.rule("Q5")
async def test_an_answer_with_its_finish_is_whole_although_the_connection_stays_open(autojump_clock: MockClock) -> None:
    async with chat(answer(text("hi"), event(finish="stop"), after="hold")) as model:
        got = await outcome(model)
    assert (got.text, got.finish) == ("hi", "stop")
    assert trio.current_time() <= 5.0


@pytest.mark.rule("Q5")
async def test_an_answer_with_its_finish_is_whole_although_the_connection_breaks() -> None:
    async with chat(answer(text("hi"), event(finish="stop"), after="abort")) as model:
        got = await outcome(model)
    assert (got.text, got.finish) == ("hi", "stop")


@pytest.mark.rule("Q5")
async def test_a_stream_is_over_at_once_after_its_last_event(autojump_clock: MockClock) -> None:
    async with chat(answer(*WHOLE, after="hold")) as model:
        got = await outcome(model)
    assert got.finish == "stop"
    assert trio.current_time() < 1.0


@pytest.mark.rule("Q5")
async def test_a_connection_that_breaks_after_the_last_event_does_no_harm() -> None:
    async with chat(answer(*WHOLE, after="abort")) as model:
        got = await outcome(model)
    assert (got.text, got.finish) == ("hello", "stop")


@pytest.mark.rule("Q7")
async def test_a_connection_that_breaks_before_anything_came_is_a_transport_failure() -> None:
    async with chat(answer(after="abort")) as model:
        assert (await outcome(model)).code == "TRANSPORT"


@pytest.mark.rule("Q7")
async def test_a_connection_that_breaks_in_the_answer_cuts_the_stream_off() -> None:
    async with chat(answer(text("par"), after="abort")) as model:
        got = await outcome(model)
    assert (got.text, got.code) == ("par", "STREAM_CLOSED")


@pytest.mark.rule("Q7")
async def test_a_plain_stop_without_any_content_is_an_empty_response() -> None:
    async with chat(answer(event({"role": "assistant", "content": ""}), event(finish="stop"), DONE)) as model:
        assert (await outcome(model)).code == "EMPTY_RESPONSE"


@pytest.mark.rule("C5")
async def test_usage_that_arrived_is_kept_when_the_stream_fails_later() -> None:
    first = event({"content": "a"}, usage={"prompt_tokens": 5, "completion_tokens": 1})
    later = event({"content": "b"}, usage={"prompt_tokens": 5, "completion_tokens": 2})
    async with chat(answer(first, later, after="abort")) as model:
        got = await outcome(model)
    assert got.code == "STREAM_CLOSED"
    assert got.usage is not None
    assert got.usage.output_tokens == 2


@pytest.mark.rule("Q5")
async def test_whole_numbers_written_as_fractions_are_counts() -> None:
    usage = {"prompt_tokens": 11.0, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}}
    async with chat(answer(text("a"), event(finish="stop", usage=usage), DONE)) as model:
        got = await outcome(model)
    assert got.usage is not None
    assert (got.usage.input_tokens, got.usage.output_tokens, got.usage.cache_read_tokens) == (11, 7, 3)


@pytest.mark.rule("Q5")
async def test_usage_in_every_delta_is_reported_twice_at_most() -> None:
    pieces = [event({"content": "x"}, usage={"prompt_tokens": 5, "completion_tokens": n}) for n in range(1, 50)]
    async with chat(answer(*pieces, event(finish="stop"), DONE)) as model:
        got = await outcome(model)
    reports = [chunk for chunk in got.chunks if isinstance(chunk, UsageReport)]
    assert [report.usage.output_tokens for report in reports] == [1, 49]


# --- cancellation and connections -------------------------------------------------------------------------------------


@pytest.mark.rule("C3", "N7")
async def test_cancelling_in_the_middle_of_a_stream_closes_the_connection_at_once(nursery: trio.Nursery) -> None:
    server = Loopback([text("hel")], after="hold")
    async with OpenAIChat(await server.start(nursery)) as model:
        with trio.CancelScope() as scope:
            async with aclosing(model.stream(request())) as stream:
                async for chunk in stream:
                    if isinstance(chunk, TextDelta):
                        nursery.start_soon(_cancel_when_idle, scope)
        assert scope.cancelled_caught
        await server.hung_up.wait()
    nursery.cancel_scope.cancel()


async def _cancel_when_idle(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()


@pytest.mark.rule("C3", "N7")
async def test_leaving_a_stream_closes_the_connection_at_once(nursery: trio.Nursery) -> None:
    server = Loopback([text("hel")], after="hold")
    async with OpenAIChat(await server.start(nursery)) as model:
        async with aclosing(model.stream(request())) as stream:
            async for chunk in stream:
                if isinstance(chunk, TextDelta):
                    break
        await server.hung_up.wait()
    nursery.cancel_scope.cancel()


@pytest.mark.rule("C3")
async def test_cancelling_while_waiting_for_headers_closes_the_connection(nursery: trio.Nursery) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    async with OpenAIChat(f"http://127.0.0.1:{port}") as model:
        with trio.CancelScope() as scope:
            nursery.start_soon(_cancel_when_idle, scope)
            await outcome(model)
        assert scope.cancelled_caught
        accepted = await listeners[0].accept()
        while await accepted.receive_some():
            pass
        await accepted.aclose()
    await listeners[0].aclose()


@pytest.mark.rule("N7")
async def test_connections_are_used_again_and_none_is_left_behind(nursery: trio.Nursery) -> None:
    server = Loopback(WHOLE, keep=True)
    async with OpenAIChat(await server.start(nursery)) as model:
        for _ in range(5):
            assert (await outcome(model)).text == "hello"
        assert server.connections == 1
    nursery.cancel_scope.cancel()


@pytest.mark.rule("Q6")
async def test_a_kept_connection_that_the_server_closed_is_replaced(nursery: trio.Nursery) -> None:
    server = Loopback(WHOLE, keep=True, drop=1)
    async with OpenAIChat(await server.start(nursery)) as model:
        for _ in range(4):
            assert (await outcome(model)).text == "hello"
        assert server.connections == 4
    nursery.cancel_scope.cancel()


@pytest.mark.rule("Q7")
async def test_kept_connections_are_not_tried_for_ever(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "STALE_CONNECTIONS", 1)
    server = Loopback(WHOLE, keep=True, drop=1)
    async with OpenAIChat(await server.start(nursery)) as model:
        await outcome(model)
        assert (await outcome(model)).code == "TRANSPORT"
    nursery.cancel_scope.cancel()


@pytest.mark.rule("Q6", "Q7")
async def test_a_new_connection_that_the_server_closes_is_a_failed_attempt(nursery: trio.Nursery) -> None:
    server = Loopback(WHOLE, keep=True, drop=0)
    async with OpenAIChat(await server.start(nursery)) as model:
        assert (await outcome(model)).code == "TRANSPORT"
        assert server.connections == 1
    nursery.cancel_scope.cancel()


@pytest.mark.rule("N7")
@pytest.mark.filterwarnings("error::ResourceWarning")
async def test_ten_streams_that_end_in_every_way_leave_a_pool_of_two_usable(nursery: trio.Nursery) -> None:
    holding, breaking = Loopback([text("a")], after="hold"), Loopback([text("a")], after="abort")
    good = Loopback(WHOLE, keep=True)
    urls = [await server.start(nursery) for server in (holding, breaking, good)]
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=2), timeout=None) as client:
        models = [OpenAIChat(url, client=client) for url in urls]
        codes: set[str] = set()
        for number in range(10):
            model = models[number % 3]
            async with aclosing(model.stream(request())) as stream:
                try:
                    async for chunk in stream:
                        if model is models[0] and isinstance(chunk, TextDelta):
                            break
                except ModelFailure as error:
                    codes.add(error.failure.code)
        assert codes == {"STREAM_CLOSED"}
        assert (await outcome(models[2])).text == "hello"
        for model in models:
            await model.aclose()
    gc.collect()
    nursery.cancel_scope.cancel()


@pytest.mark.rule("N7")
async def test_every_body_is_closed_however_its_stream_ends() -> None:
    for pieces, after in [(WHOLE, "close"), ([text("a")], "abort"), ([b"data: {oops\n\n"], "close"), ([], "close")]:
        transport = answer(*pieces, after=after)
        async with chat(transport) as model:
            await outcome(model)
        assert transport.closed == 1


def test_one_adapter_serves_several_runs_of_trio() -> None:
    async def run() -> Outcome:
        return await outcome(model)

    transport = answer(*WHOLE)
    model = chat(transport)
    assert [trio.run(run).text for _ in range(2)] == ["hello", "hello"]
    trio.run(model.aclose)


async def test_a_client_that_was_given_stays_open() -> None:
    async with httpx.AsyncClient(transport=answer(*WHOLE)) as client:
        async with OpenAIChat(URL, client=client) as model:
            assert (await outcome(model)).text == "hello"
        assert not client.is_closed


def test_a_client_and_a_transport_cannot_both_be_given() -> None:
    with pytest.raises(MisuseError, match="not both"):
        OpenAIChat(URL, client=httpx.AsyncClient(transport=answer()), transport=answer())


@pytest.mark.rule("Q6")
async def test_a_failed_attempt_is_not_repeated_by_the_adapter() -> None:
    transport = answer(b"{}", status=503)
    async with chat(transport) as model:
        assert (await outcome(model)).code == "SERVER"
    assert len(transport.requests) == 1


# --- what providers send ----------------------------------------------------------------------------------------------


@pytest.mark.rule("S1")
async def test_halves_of_a_surrogate_pair_in_two_deltas_are_joined_in_every_kind_of_block() -> None:
    pieces = [
        event({"reasoning_content": "\ud83d"}),
        event({"reasoning_content": "\ude00"}),
        event({"content": "a\ud83d"}),
        event({"content": "\ude00b\ud83d"}),
        event({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "t", "arguments": '"\ud83d'}}]}),
        event({"tool_calls": [{"index": 0, "function": {"arguments": '\ude00"'}}]}),
        event(finish="tool_calls"),
    ]
    async with chat(answer(*pieces, DONE)) as model:
        got = await outcome(model)
    assert got.reasoning == "\U0001f600"
    assert got.text == "a\U0001f600b�"
    assert got.calls == [("c", "t", '"\U0001f600"')]
    for chunk in got.chunks:
        repr(chunk).encode("utf-8")


@pytest.mark.rule("K3")
async def test_call_ids_are_made_up_where_they_are_missing_or_given_twice() -> None:
    calls = [
        {"index": 0, "id": "same", "function": {"name": "a", "arguments": "{}"}},
        {"index": 1, "id": "same", "function": {"name": "b", "arguments": "{}"}},
        {"index": 2, "function": {"name": "c", "arguments": "{}"}},
    ]
    async with chat(answer(event({"tool_calls": calls}), event(finish="tool_calls"), DONE)) as model:
        got = await outcome(model)
    ids = [call[0] for call in got.calls]
    assert len(set(ids)) == 3
    assert all(ids)
    assert ids[0] == "same"


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        (  # the index never moves, the ids do
            [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}},
             {"index": 0, "id": "b", "function": {"name": "y", "arguments": "{}"}}],
            [("a", "x", "{}"), ("b", "y", "{}")],
        ),
        (  # arguments before the name, and the id last
            [{"index": 0, "function": {"arguments": '{"q"'}},
             {"index": 0, "id": "a", "function": {"name": "x", "arguments": ":1}"}}],
            [("a", "x", '{"q":1}')],
        ),
        (  # the value instead of its text
            [{"index": 0, "id": "a", "function": {"name": "x", "arguments": {"q": [1]}}}],
            [("a", "x", '{"q":[1]}')],
        ),
        (  # neither index nor id, one whole call after the other
            [{"function": {"name": "x", "arguments": "{}"}}, {"function": {"name": "x", "arguments": "{}"}}],
            [("", "x", "{}"), ("", "x", "{}")],
        ),
        ([{"index": "0", "id": 7, "function": None}, 5, None], [("", "", "")]),
    ],
)  # fmt: skip
async def test_calls_are_put_together_from_odd_deltas(deltas: list[Any], calls: list[tuple[str, str, str]]) -> None:
    pieces = [event({"tool_calls": [delta]}) for delta in deltas]
    async with chat(answer(*pieces, event(finish="tool_calls"), DONE)) as model:
        got = await outcome(model)
    assert got.finish == "tool-calls"
    assert [(want and found, *rest) for (found, *rest), (want, *_) in zip(got.calls, calls, strict=True)] == calls


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("stop", "stop"), ("eos", "stop"), ("length", "max-tokens"), ("model_length", "max-tokens"),
        ("content_filter", "content-filter"), ("refusal", "refusal"), ("tool_calls", "stop"), ("pause", "pause"),
        (7, "7"),
    ],
)  # fmt: skip
async def test_finish_words_become_kinds_and_unknown_ones_are_kept(word: Any, kind: str) -> None:
    async with chat(answer(text("x"), event(finish=word), DONE)) as model:
        assert (await outcome(model)).finish == kind


@pytest.mark.rule("Q5")
async def test_a_refusal_in_the_text_is_a_refusal_in_the_finish() -> None:
    async with chat(answer(event({"refusal": "I can't"}), event(finish="stop"), DONE)) as model:
        got = await outcome(model)
    assert (got.text, got.finish) == ("I can't", "refusal")


@pytest.mark.rule("Q5")
async def test_content_in_parts_and_thinking_between_it_is_read() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    pieces = [event({"content": [thought]}), event({"content": [{"type": "text", "text": "so"}]}), text("!")]
    async with chat(answer(*pieces, event(finish="stop"), DONE)) as model:
        got = await outcome(model)
    assert (got.reasoning, got.text) == ("hm", "so!")


@pytest.mark.rule("Q5")
async def test_reasoning_under_either_name_is_read_and_blocks_alternate() -> None:
    pieces = [event({"reasoning": "a", "reasoning_content": None}), text("b"), event({"reasoning_content": "c"})]
    async with chat(answer(*pieces, event(finish="stop"), DONE)) as model:
        got = await outcome(model)
    kinds = [chunk.kind for chunk in got.chunks if isinstance(chunk, BlockStart)]
    assert kinds == ["reasoning", "text", "reasoning"]
    assert (got.reasoning, got.text) == ("ac", "b")


@pytest.mark.rule("Q5")
async def test_a_function_call_of_the_old_protocol_is_a_tool_call() -> None:
    call = {"name": "look", "arguments": "{}"}
    async with chat(answer(event({"function_call": call}), event(finish="function_call"), DONE)) as model:
        got = await outcome(model)
    assert [call[1:] for call in got.calls] == [("look", "{}")]
    assert got.finish == "tool-calls"


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("X3")
async def test_an_event_without_end_is_stopped() -> None:
    async with chat(answer(b"data: ", *[b"x" * 1000] * 100)) as model:
        got = await outcome(model, request(bounds=AnswerBounds(10_000)))
    assert got.code == "MALFORMED_RESPONSE"
    assert got.failure is not None
    assert "longer than 10000 bytes" in got.failure.message


@pytest.mark.rule("X3")
async def test_an_answer_without_end_is_stopped() -> None:
    async with chat(answer(*[text("x" * 10)] * 50)) as model:
        got = await outcome(model, request(bounds=AnswerBounds(100)))
    assert got.code == "MALFORMED_RESPONSE"
    assert len(got.text) <= 100


@pytest.mark.rule("X3")
async def test_a_body_without_end_is_stopped() -> None:
    async with chat(answer(*[b": beat\n"] * 10_000)) as model:
        assert (await outcome(model, request(bounds=AnswerBounds(5_000)))).code == "MALFORMED_RESPONSE"


@pytest.mark.rule("X3")
@pytest.mark.parametrize("first", [b" ", b"<"])
async def test_a_document_without_end_is_stopped(first: bytes) -> None:
    async with chat(answer(*[first * 100] * 10_000)) as model:
        assert (await outcome(model, request(bounds=AnswerBounds(5_000)))).code == "MALFORMED_RESPONSE"


@pytest.mark.rule("X3")
async def test_thousands_of_calls_are_refused() -> None:
    pieces = [
        event({"tool_calls": [{"index": number, "id": f"c{number}", "function": {"name": "t", "arguments": "{}"}}]})
        for number in range(1_001)
    ]
    async with chat(answer(*pieces, event(finish="tool_calls"), DONE)) as model:
        got = await outcome(model)
    assert got.code == "MALFORMED_RESPONSE"
    assert got.failure is not None
    assert "1000 tool calls" in got.failure.message


@pytest.mark.rule("X3")
@pytest.mark.parametrize(
    "delta",
    [{"index": 0, "function": {"name": "n" * 600}}, {"index": 0, "function": {"arguments": "x" * 1_100_000}}],
)
async def test_a_name_or_nameless_arguments_beyond_reason_are_refused(delta: dict[str, Any]) -> None:
    async with chat(answer(event({"tool_calls": [delta]}), event(finish="tool_calls"), DONE)) as model:
        assert (await outcome(model)).code == "MALFORMED_RESPONSE"


@pytest.mark.rule("X3")
async def test_deeply_nested_events_and_arguments_do_no_harm() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    async with chat(answer(b"data: " + deep.encode() + b"\n\n")) as model:
        assert (await outcome(model)).code == "MALFORMED_RESPONSE"
    call = {"index": 0, "id": "c", "function": {"name": "t", "arguments": deep}}
    async with chat(answer(event({"tool_calls": [call]}), event(finish="tool_calls"), DONE)) as model:
        got = await outcome(model)
    assert got.calls == [("c", "t", deep)]


@pytest.mark.rule("X3")
@pytest.mark.parametrize("junk", [b"data: 5\n\n", b"data: null\n\n", b"data: {oops\n\n", b"data: [1]\n\n"])
async def test_an_event_that_is_no_json_object_is_malformed(junk: bytes) -> None:
    async with chat(answer(text("a"), junk, *WHOLE)) as model:
        got = await outcome(model)
    assert (got.text, got.code) == ("a", "MALFORMED_RESPONSE")


@pytest.mark.rule("X3")
@pytest.mark.parametrize(
    "body",
    [
        {"choices": 5}, {"choices": [5]}, {"choices": {"0": 1}}, {"choices": [{"delta": 5}]}, {"usage": 5},
        {"choices": [{"delta": {"content": 5, "reasoning": [1], "tool_calls": 7, "refusal": None}}]},
        {"usage": {"prompt_tokens": -1, "completion_tokens": "7", "prompt_tokens_details": 5}},
        {"usage": {"prompt_tokens": True, "completion_tokens": 1.5}}, {"error": None},
    ],
)  # fmt: skip
async def test_fields_of_the_wrong_kind_are_passed_over(body: dict[str, Any]) -> None:
    odd = b"data: " + json.dumps(body).encode() + b"\n\n"
    async with chat(answer(odd, *WHOLE)) as model:
        got = await outcome(model)
    assert (got.text, got.finish, got.usage) == ("hello", "stop", None)
