"""Faults of streaming adapters that users met elsewhere: each test is named after the fault that must not happen here."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from tests.adapters.agents import Talk, talking
from tests.adapters.wires import Body, bodies, memory
from treadle import Completed, Errored, MaxTokens, Retries, Tool
from treadle.session import (
    AssistantAttempt,
    RetryScheduled,
    ToolCallStarted,
    ToolResultAdded,
    decode_event,
    encode_event,
)
from treadle_adapters.models.anthropic import Anthropic
from treadle_adapters.models.deepseek import DeepSeek
from treadle_adapters.models.http_model import HTTPModel
from treadle_adapters.models.openai_chat import OpenAIChat

URL = "http://provider.test/v1"
BODIES: dict[str, Body] = {body.name: body for body in bodies()}
MAKERS: dict[str, Callable[..., HTTPModel]] = {"openai": OpenAIChat, "deepseek": DeepSeek, "anthropic": Anthropic}
FINE = {"openai": "crlf.sse", "deepseek": "deepseek_keepalive_then_answer.sse", "anthropic": "anthropic_plain.sse"}


@define
class Replays(httpx.AsyncBaseTransport):
    """Answers with recorded bodies, one after the other; the last one for ever."""

    names: list[str]
    requests: list[dict[str, Any]] = field(factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(json.loads(await request.aread()))
        name = self.names.pop(0) if len(self.names) > 1 else self.names[0]
        return await memory(BODIES[name]).handle_async_request(request)


@define
class Played:
    """What came of a turn on recorded bodies."""

    talk: Talk
    wire: Replays
    ran: list[tuple[str, dict[str, Any]]]

    @property
    def texts(self) -> list[str]:
        return [answer.message.text for answer in self.talk.answers]

    @property
    def last(self) -> list[dict[str, Any]]:
        """The messages of the latest request."""
        return self.wire.requests[-1]["messages"]

    def results(self) -> list[ToolResultAdded]:
        return self.talk.facts(ToolResultAdded)


@asynccontextmanager
async def played(
    *names: str, then: bool = True, model: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[Played]:
    """Send one prompt to an agent whose provider answers with these bodies, and with a good one afterwards."""
    proto = BODIES[names[0]].proto
    wire = Replays([*names, *([FINE[proto]] if then else [])])
    ran: list[tuple[str, dict[str, Any]]] = []
    adapter = MAKERS[proto](URL, transport=wire, **{"stream_idle_timeout": 5.0, **(model or {})})
    host = {"retries": Retries(lambda: 0.5)}
    async with talking(adapter, tools=tools(ran), host=host, **options) as talk:
        with trio.fail_after(600):
            await talk.ask("go")
        yield Played(talk, wire, ran)
        for entry in talk.agent.session.events:
            assert decode_event(encode_event(entry)) == entry


def tools(ran: list[tuple[str, dict[str, Any]]]) -> list[Tool]:
    def make(name: str, parameters: dict[str, Any]) -> Tool:
        async def execute(arguments: dict[str, Any], run: Any) -> str:
            ran.append((name, arguments))
            return "done"

        return Tool(name, name, parameters, execute)

    names = ("look", "list", "read_it", "once", "tick", "now", "say", "wipe")
    needs_text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return [*[make(name, {"type": "object"}) for name in names], make("write", needs_text)]


def ended(got: Played) -> Any:
    return got.talk.agent.session.events[-1].data.reason  # type: ignore[attr-defined]


# --- reading the stream -----------------------------------------------------------------------------------------------


@pytest.mark.rule("Q5")
async def test_connections_are_returned_after_the_streams_end_also_across_turns(autojump_clock: MockClock) -> None:
    transport = memory(BODIES["crlf.sse"])
    async with talking(OpenAIChat(URL, transport=transport)) as talk:
        for number in range(10):
            await talk.ask(f"turn {number}")
    assert (len(transport.requests), transport.opened, transport.closed) == (10, 10, 10)


TEXTS = [
    ("unicode separators do not cut a data line", "u2028_in_data.sse", "one\u2028two\u2029three\u0085four"),
    (
        "a character split between reads stays whole",
        "utf8_every_byte.sse",
        "na\u00efve \u6c49\u5b57 \U0001f30d fin",
    ),
    ("crlf ends a line", "crlf.sse", "line ends"),
    ("a cut between cr and lf adds no line", "crlf_cut_between_cr_and_lf.sse", "line ends"),
    ("cr alone ends a line", "cr_only.sse", "old mac"),
    ("comment lines are no data", "comments_and_heartbeats.sse", "AB"),
    ("keep-alives before the answer are no data", "deepseek_keepalive_then_answer.sse", "ok"),
    ("a blank line after id or retry is no event", "id_retry_then_blank.sse", "slow answer"),
    ("data without a space and over several lines", "no_space_and_multiline_data.sse", "joined"),
    ("a byte order mark is skipped", "bom_first.sse", "bom"),
    ("a compressed stream is read", "gzip.sse.gz", "squeezed"),
    ("a finish without DONE is a success", "no_done_after_finish.sse", "fine"),
    ("a last event without a blank line counts", "last_event_without_blank_line.sse", "tail"),
    ("halves of a surrogate pair in two deltas join", "surrogate_halves_in_two_deltas.sse", "hi \U0001f600!"),
]


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(("name", "text"), [pytest.param(*row[1:], id=row[0]) for row in TEXTS])
async def test_the_text_of_a_turn_is_exact(name: str, text: str, autojump_clock: MockClock) -> None:
    async with played(name, then=False) as got:
        assert got.texts == [text]
        assert isinstance(ended(got), Completed)
        assert got.talk.facts(AssistantAttempt) == []


@pytest.mark.rule("Q5")
@pytest.mark.parametrize("name", ["usage_chunk_empty_choices.sse", "empty_choices_first_and_nulls.sse"])
async def test_usage_after_the_finish_and_null_fields_are_not_lost(name: str, autojump_clock: MockClock) -> None:
    async with played(name, then=False) as got:
        (answer,) = got.talk.answers
        assert answer.usage is not None
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 7)


@pytest.mark.rule("Q5")
async def test_a_socket_kept_open_after_the_end_does_not_hold_the_turn(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    async with played("done_then_open_connection.sse", then=False) as got:
        assert trio.current_time() - began < 1
        assert isinstance(ended(got), Completed)


# --- tool calls -------------------------------------------------------------------------------------------------------

CALLS = [
    ("calls without an index in one delta", "noindex_two_calls_one_delta.sse", ["look", "list"]),
    ("continuations without an index", "noindex_continuations.sse", ["look", "list"]),
    ("indexes with a gap", "index_gap_and_late_start.sse", ["look", "list"]),
    ("interleaved indexes", "interleaved_indexes.sse", ["look", "list"]),
    ("id and name in every chunk", "id_and_name_every_chunk.sse", ["read_it"]),
    ("a name in fragments", "name_in_fragments.sse", ["read_it"]),
    ("a finish sent twice", "double_finish_chunk.sse", ["once"]),
    ("a plain stop although there are calls", "finish_stop_with_tool_calls.sse", ["look"]),
    ("two equal calls", "two_identical_calls.sse", ["tick", "tick"]),
    ("empty arguments", "empty_arguments_string.sse", ["now"]),
    ("missing arguments", "arguments_key_missing_or_null.sse", ["now"]),
    ("no input of a call", "anthropic_zero_arg_tool.sse", ["now"]),
    ("an empty piece of input", "anthropic_empty_partial_json.sse", ["now"]),
    ("escapes cut between deltas", "args_cut_inside_escapes.sse", ["say"]),
]


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(("name", "ran"), [pytest.param(*row[1:], id=row[0]) for row in CALLS])
async def test_each_call_runs_once_with_its_own_arguments(name: str, ran: list[str], autojump_clock: MockClock) -> None:
    async with played(name) as got:
        assert [call[0] for call in got.ran] == ran
        wanted = [json.loads(call["arguments"] or "{}") for call in BODIES[name].expect["tool_calls"]]
        assert [call[1] for call in got.ran] == wanted
        assert [result.is_error for result in got.results()] == [False] * len(ran)
        assert len(got.wire.requests) == 2


@pytest.mark.rule("Q5")
async def test_empty_arguments_for_a_tool_that_needs_some_are_an_error_result(autojump_clock: MockClock) -> None:
    body = BODIES["empty_arguments_string.sse"].data.replace(b'"now"', b'"write"')
    answers = [body, BODIES["crlf.sse"].data]

    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=answers.pop(0))

    ran: list[Any] = []
    async with talking(OpenAIChat(URL, transport=httpx.MockTransport(respond)), tools=tools(ran)) as talk:
        assert isinstance(await talk.ask("go"), Completed)
        (result,) = talk.facts(ToolResultAdded)
        assert (ran, result.is_error) == ([], True)


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    "name",
    [
        "length_text.sse",
        "length_mid_tool_args.sse",
        "length_args_happen_to_parse.sse",
        "anthropic_max_tokens_mid_tool.sse",
    ],
)
async def test_no_call_of_an_answer_that_met_the_output_limit_runs(name: str, autojump_clock: MockClock) -> None:
    async with played(name, then=False) as got:
        assert isinstance(ended(got), MaxTokens)
        assert (got.ran, len(got.wire.requests)) == ([], 1)
        assert got.talk.facts(ToolCallStarted) == []


@pytest.mark.rule("Q5")
async def test_arguments_cut_off_under_a_normal_finish_do_not_run_and_do_not_poison_requests(
    autojump_clock: MockClock,
) -> None:
    async with played("tool_calls_finish_but_truncated_args.sse") as got:
        assert got.ran == []
        (result,) = got.results()
        assert result.is_error
        assert "limit" not in got.last[-1]["content"]
        assert isinstance(json.loads(got.last[-2]["tool_calls"][0]["function"]["arguments"]), dict)
        assert isinstance(ended(got), Completed)


@pytest.mark.rule("Q5")
async def test_a_call_without_id_and_name_gets_an_id_and_a_readable_error(autojump_clock: MockClock) -> None:
    async with played("empty_id_and_name.sse") as got:
        (result,) = got.results()
        assert result.is_error
        assert result.call_id
        call, answer = got.last[-2]["tool_calls"][0], got.last[-1]
        assert call["id"]
        assert call["id"] == answer["tool_call_id"]
        assert call["function"]["name"]
        assert len(got.wire.requests) == 2


# --- ends that are none -----------------------------------------------------------------------------------------------


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    "name",
    [
        "eof_text_no_finish.sse",
        "eof_role_only.sse",
        "eof_mid_tool_args.sse",
        "eof_complete_looking_args.sse",
        "eof_mid_line.sse",
        "empty_body.sse",
        "anthropic_eof_no_message_stop.sse",
        "error_as_field_name.sse",
    ],
)
async def test_a_stream_without_a_finish_is_no_success_and_no_call_of_it_runs(
    name: str, autojump_clock: MockClock
) -> None:
    async with played(name, then=False) as got:
        reason = ended(got)
        assert isinstance(reason, Errored)
        assert reason.failure.code in ("STREAM_CLOSED", "EMPTY_RESPONSE")
        assert (got.ran, got.talk.answers) == ([], [])
        tried = len(got.talk.facts(AssistantAttempt))
        assert tried == len(got.wire.requests) == 1 + len(got.talk.facts(RetryScheduled))


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    ("name", "retried"),
    [
        ("error_object_only.sse", False),
        ("error_string_only.sse", None),
        ("error_after_text.sse", None),
        ("event_error_line.sse", None),
        ("plain_json_error_with_event_stream_type.json", None),
        ("html_502_page.sse", None),
    ],
)
async def test_an_error_under_status_200_is_no_empty_success(
    name: str, retried: bool | None, autojump_clock: MockClock
) -> None:
    async with played(name, then=False) as got:
        reason = ended(got)
        assert isinstance(reason, Errored)
        assert reason.failure.message.strip()
        assert got.talk.answers == []
        if retried is not None:
            assert bool(got.talk.facts(RetryScheduled)) is retried


@pytest.mark.rule("Q5")
async def test_a_plain_completion_under_status_200_is_read_whole(autojump_clock: MockClock) -> None:
    async with played("plain_json_completion.json", then=False) as got:
        assert got.texts == ["not streamed"]


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    ("name", "retried"),
    [("anthropic_overloaded_before_output.sse", True), ("r529_anthropic.json", True), ("r400_anthropic.json", False)],
)
async def test_an_overload_is_retried_in_the_stream_and_as_a_status_and_a_bad_request_is_not(
    name: str, retried: bool, autojump_clock: MockClock
) -> None:
    async with played(name) as got:
        assert len(got.talk.facts(RetryScheduled)) == (1 if retried else 0)
        assert isinstance(ended(got), Completed if retried else Errored)
        assert got.texts == (["hello"] if retried else [])


@pytest.mark.rule("Q5")
async def test_silence_between_chunks_ends_the_attempt_and_the_next_one_answers(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    async with played("stall_after_first_delta.sse") as got:
        assert trio.current_time() - began == pytest.approx(5.5, abs=0.2)
        (wait,) = got.talk.facts(RetryScheduled)
        assert wait.failure.code == "TIMEOUT"
        assert got.texts == ["line ends"]


@pytest.mark.rule("Q5")
@pytest.mark.parametrize("name", ["content_filter_empty.sse", "anthropic_refusal.sse"])
async def test_a_withheld_answer_is_no_empty_success_and_is_not_retried(name: str, autojump_clock: MockClock) -> None:
    async with played(name, then=False) as got:
        reason = ended(got)
        assert isinstance(reason, Errored)
        assert reason.failure.code == "CONTENT_FILTER"
        assert len(got.wire.requests) == 1


@pytest.mark.rule("Q5")
async def test_an_unknown_finish_keeps_its_word_and_the_answer(autojump_clock: MockClock) -> None:
    async with played("unknown_finish_reason.sse", then=False) as got:
        (answer,) = got.talk.answers
        assert answer.message.text == "ok"
        assert answer.finish is not None
        assert answer.finish.kind not in ("stop", "tool-calls")
        assert len(got.wire.requests) == 1


# --- what goes back ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q5")
@pytest.mark.parametrize("echo", ["calls", "never"])
async def test_deepseeks_reasoning_comes_back_beside_calls_as_it_was_or_not_at_all(
    echo: str, autojump_clock: MockClock
) -> None:
    name = "deepseek_reasoning_then_call.sse"
    async with played(name, model={"reasoning_echo": echo}) as got:
        answer = got.last[-2]
        assert answer.get("reasoning_content") == (BODIES[name].expect["reasoning"] if echo == "calls" else None)
        assert answer["content"] == "Looking."
        assert got.last[-1]["tool_call_id"] == answer["tool_calls"][0]["id"]


@pytest.mark.rule("Q5")
async def test_signed_thinking_goes_back_unaltered_before_its_call(autojump_clock: MockClock) -> None:
    async with played("anthropic_thinking_tool_roundtrip.sse") as got:
        content = got.last[1]["content"]
        assert [block["type"] for block in content] == ["thinking", "redacted_thinking", "text", "tool_use"]
        assert content[0]["thinking"] == BODIES["anthropic_thinking_tool_roundtrip.sse"].expect["reasoning"]
        assert content[0]["signature"]


@pytest.mark.rule("Q5")
async def test_calls_without_text_go_back_with_null_content(autojump_clock: MockClock) -> None:
    async with played("content_null_tool_only.sse") as got:
        assert got.last[-2]["content"] is None
        assert got.last[-2]["tool_calls"]


@pytest.mark.rule("Q5")
async def test_an_answer_of_reasoning_alone_does_not_poison_the_next_request(autojump_clock: MockClock) -> None:
    async with played("reasoning_only.sse") as got:
        await got.talk.ask("more")
        assert [message["role"] for message in got.last] == ["user", "user"]
        assert got.talk.answers[0].message.text == ""
