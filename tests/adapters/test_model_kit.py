"""The adapter kit on every adapter that ships, and on adapters that break a promise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trio
from attrs import evolve, frozen

from tests.adapters.wires import Body, MemoryTransport, bodies
from treadle import Answer, Call, Failure, ModelRequest, ScriptedModel
from treadle.models import (
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    Finished,
    ModelAdapter,
    ModelInfo,
    ReasoningDelta,
    TextDelta,
    Usage,
    UsageReport,
)
from treadle_adapters.models.anthropic import Anthropic
from treadle_adapters.models.deepseek import DeepSeek
from treadle_adapters.models.http_model import HTTPModel
from treadle_adapters.models.openai_chat import OpenAIChat
from treadle_adapters.models.openai_responses import OpenAIResponses
from treadle_specs.kits import Means, check_model
from treadle_specs.kits.model import checks_for, run_check
from treadle_specs.kits.model_bench import Check

URL = "http://provider.test/v1"
IDLE = 7.0
BODIES: dict[str, Body] = {body.name: body for body in bodies()}


@frozen
class Kind:
    """One adapter and how each of its providers answers."""

    name: str
    make: Callable[[], ModelAdapter]
    means: Means


def held(adapter: ModelAdapter) -> int:
    transport = adapter.transport  # type: ignore[attr-defined]
    return transport.opened - transport.closed


RESPONSES = b"""data: {"type":"response.created","response":{"id":"r"}}

data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m"}}

data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"some words"}

data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[{"type":"output_text","text":"some words"}]}}

"""
RESPONSES_END = b"""data: {"type":"response.completed","response":{"id":"r","status":"completed","usage":{"input_tokens":3,"output_tokens":2}}}

"""
RESPONSES_CALL = b"""data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"f","call_id":"c1","name":"add","arguments":""}}

data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\\"a\\":1}"}

data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"f","call_id":"c1","name":"add","arguments":"{\\"a\\":1}"}}

"""


def over_http(name: str, adapter: Callable[..., HTTPModel], answer: bytes, calling: bytes, cut: bytes) -> Kind:
    def maker(*pieces: bytes, **options: Any) -> Callable[[], ModelAdapter]:
        def make() -> ModelAdapter:
            transport = MemoryTransport(pieces, **options)
            made = adapter(URL, transport=transport, stream_idle_timeout=IDLE)
            made.transport = transport  # type: ignore[attr-defined]
            return made

        return make

    return Kind(
        name,
        maker(answer[:200], answer[200:]),
        Means(
            calling=maker(calling),
            refusing=maker(b'{"error":{"message":"no"}}', status=500),
            cut=maker(cut),
            silent=maker(before=trio.sleep_forever),
            idle_timeout=IDLE,
            held=held,
            virtual_time=True,
        ),
    )


def data(name: str) -> bytes:
    return BODIES[name].data


def scripted(*script: Any) -> Callable[[], ModelAdapter]:
    return lambda: ScriptedModel(default=script[0])


SCRIPTED = Kind(
    "scripted",
    scripted(Answer("some words", "a thought", usage=Usage(3, 2))),
    Means(
        calling=scripted(Answer("", calls=(Call("add", {"a": 1}), Call("now", "")))),
        refusing=scripted(Failure("no", "SERVER")),
        cut=scripted([BlockStart(0, "text"), TextDelta(0, "so")]),
    ),
)

KINDS = [
    SCRIPTED,
    over_http(
        "chat",
        OpenAIChat,
        data("usage_chunk_empty_choices.sse"),
        data("two_identical_calls.sse"),
        data("eof_text_no_finish.sse"),
    ),
    over_http(
        "deepseek",
        DeepSeek,
        data("deepseek_keepalive_then_answer.sse"),
        data("deepseek_reasoning_then_call.sse"),
        data("eof_role_only.sse"),
    ),
    over_http(
        "anthropic",
        Anthropic,
        data("anthropic_plain.sse"),
        data("anthropic_thinking_tool_roundtrip.sse"),
        data("anthropic_eof_no_message_stop.sse"),
    ),
    over_http("responses", OpenAIResponses, RESPONSES + RESPONSES_END, RESPONSES_CALL + RESPONSES_END, RESPONSES),
]
CASES = [
    pytest.param(kind, check, id=f"{kind.name}-{check.__name__}") for kind in KINDS for check in checks_for(kind.means)
]


@pytest.mark.rule("Q5", "Q8", "Q10")
@pytest.mark.parametrize(("kind", "check"), CASES)
def test_an_adapter_keeps_each_promise(kind: Kind, check: Check) -> None:
    run_check(check, kind.make, kind.means)


def test_the_whole_kit_runs_at_once() -> None:
    check_model(SCRIPTED.make, SCRIPTED.means)


# --- adapters that break a promise ------------------------------------------------------------------------------------

WORDS = [BlockStart(0, "text"), TextDelta(0, "hi"), BlockEnd(0)]
END = Finished(Finish("stop"))


class Broken(ScriptedModel):
    """Plays prebuilt chunks as they are."""

    def __init__(self, *chunks: Chunk) -> None:
        super().__init__(default=list(chunks))


class Stubborn(Broken):
    """Does not let itself be cancelled."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        for chunk in WORDS:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            yield chunk
        yield END


class Forgetful(Broken):
    """Says something else about a model each time."""

    asked = 0

    async def model_info(self, model: str) -> ModelInfo:
        self.asked += 1
        return ModelInfo(context_window=self.asked)


class Meddling(Broken):
    """Writes into the request's messages."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        request.messages.clear()  # type: ignore[attr-defined]
        async for chunk in super().stream(request):
            yield chunk


class OneAtATime(Broken):
    """Mixes up attempts that are made at the same time."""

    busy = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        if self.busy:
            return
        self.busy = True
        try:
            for chunk in (*WORDS, END):
                await trio.lowlevel.checkpoint()
                yield chunk
        finally:
            self.busy = False


class Picky(Broken):
    """Fails a whole request for damaged replay data."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        for message in request.messages:
            if getattr(message, "replay", None) is not None:
                raise TypeError("replay")
        async for chunk in super().stream(request):
            yield chunk


CALL = [BlockStart(0, "tool-call", "c", "add"), ArgumentsDelta(0, "{}"), BlockEnd(0)]


# A check, and an adapter that it has to find out.
BROKEN: list[tuple[str, Callable[[], ModelAdapter]]] = [
    ("it_is_an_adapter", lambda: Forgetful(*WORDS, END)),
    ("an_answer_keeps_the_block_protocol", lambda: Broken(BlockStart(0, "text"), TextDelta(0, "hi"), END)),
    ("an_answer_keeps_the_block_protocol", lambda: Broken(TextDelta(0, "hi"), END)),
    ("an_answer_keeps_the_block_protocol", lambda: Broken(BlockStart(0, "text"), ReasoningDelta(0, "hi"), END)),
    ("an_answer_keeps_the_block_protocol", lambda: Broken(*WORDS, TextDelta(0, "late"), END)),
    ("an_answer_has_content", lambda: Broken(END)),
    ("one_finish_comes_last", lambda: Broken(*WORDS, END, END)),
    ("one_finish_comes_last", lambda: Broken(*WORDS)),
    ("usage_comes_before_the_finish", lambda: Broken(*WORDS, END, UsageReport(Usage(1, 1)))),
    ("usage_comes_before_the_finish", lambda: Broken(*WORDS, UsageReport(Usage(-1, 1)), END)),
    ("calls_keep_their_raw_text", lambda: Broken(*WORDS, Finished(Finish("tool-calls")))),
    ("calls_keep_their_raw_text", lambda: Broken(*CALL, END)),
    ("a_refusal_is_one_failure", lambda: Broken(*WORDS, END)),
    ("a_refusal_is_one_failure", lambda: Broken(Finished(Finish("error", Failure(" "))))),
    ("a_failed_attempt_leaves_nothing_in_use", lambda: Broken(*WORDS, END)),
    ("an_answer_that_breaks_off_is_no_success", lambda: Broken(*WORDS, END)),
    ("silence_is_a_timeout", lambda: Broken(*WORDS, END)),
    ("cancelling_ends_it_at_once", Stubborn),
    ("leaving_releases_it", Broken),
    ("attempts_at_once_do_not_mix", OneAtATime),
    ("a_request_is_left_as_it_was", lambda: Meddling(*WORDS, END)),
    ("its_answer_can_be_handed_back", lambda: Broken(*WORDS, Finished(Finish("stop"), object()))),
    ("damaged_replay_data_costs_its_message_only", lambda: Picky(*WORDS, END)),
]


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    ("check", "make"), [pytest.param(*row, id=f"{number}-{row[0]}") for number, row in enumerate(BROKEN)]
)
def test_the_kit_finds_a_broken_promise(check: str, make: Callable[[], ModelAdapter]) -> None:
    means = Means(calling=make, refusing=make, cut=make, silent=make, virtual_time=True)
    found = {one.__name__: one for one in checks_for(means)}
    with pytest.raises(AssertionError, match=f"^{check}: "):
        run_check(found[check], make, means)


@pytest.mark.rule("N7")
def test_the_kit_finds_a_connection_that_is_kept() -> None:
    means = evolve(SCRIPTED.means, held=lambda adapter: 1)
    failed = []
    for check in checks_for(means):
        try:
            run_check(check, SCRIPTED.make, means)
        except AssertionError:
            failed.append(check.__name__)
    assert failed == [
        "a_failed_attempt_leaves_nothing_in_use",
        "an_answer_that_breaks_off_is_no_success",
        "cancelling_ends_it_at_once",
        "leaving_releases_it",
        "an_answer_releases_its_connection",
    ]
