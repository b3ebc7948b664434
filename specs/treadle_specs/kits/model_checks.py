"""The checks of ``check_model``: each holds an adapter to one promise."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import msgspec
import trio

from treadle import AssistantMessage, Block, Failure, Reasoning, Text, ToolCall, ToolResultMessage
from treadle.models import (
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    Code,
    Finished,
    ModelAdapter,
    ModelInfo,
    ReasoningDelta,
    RetryPolicy,
    TextDelta,
    ToolResult,
    ToolSchema,
    Usage,
    UsageReport,
)
from treadle.words.messages import user_message

from .model_bench import AT_ONCE, Bench, Check, Outcome, answered, play, streaming

TOOLS = (
    ToolSchema("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}}),
    ToolSchema("now", "Tell the time.", {"type": "object", "properties": {}}),
)
"""What calling models are offered."""
JUNK: tuple[Any, ...] = (None, 3, "x", [], {}, {"type": 1}, {"type": "thinking", "signature": None}, [{"id": []}])
"""What no adapter writes as replay data."""


# --- what it is -------------------------------------------------------------------------------------------------------


async def it_is_an_adapter(bench: Bench) -> None:
    """Q4, Q6, Q10: it has a name, a policy or none, and facts about a model that do not change."""
    adapter = bench.model()
    assert isinstance(adapter, ModelAdapter), f"{type(adapter).__name__} lacks name, retry_policy, model_info or stream"  # pyright: ignore[reportUnnecessaryIsInstance]
    assert type(adapter.name) is str, adapter.name
    assert adapter.name, "the name is empty"
    assert adapter.retry_policy is None or isinstance(adapter.retry_policy, RetryPolicy)  # pyright: ignore[reportUnnecessaryIsInstance]
    info = await adapter.model_info(bench.means.model)
    assert isinstance(info, ModelInfo), info  # pyright: ignore[reportUnnecessaryIsInstance]
    assert info == await adapter.model_info(bench.means.model)
    assert bench.model().name == adapter.name, "two adapters of one make have different names"


# --- the stream of an answer (Q5) -------------------------------------------------------------------------------------


async def an_answer_keeps_the_block_protocol(bench: Bench) -> None:
    """Q5: each block starts once, gets deltas of its own kind only, and ends before the finish."""
    _blocks_are_whole(await answered(bench.model(), bench.request()))


async def an_answer_has_content(bench: Bench) -> None:
    """Q5, Q7: an answer that succeeds holds text, reasoning or a call; nothing at all is an EMPTY_RESPONSE."""
    out = await answered(bench.model(), bench.request())
    assert out.recorder.blocks(), "the answer is empty"


async def one_finish_comes_last(bench: Bench) -> None:
    """Q5: there is exactly one finish, and nothing comes after it."""
    out = await answered(bench.model(), bench.request())
    finishes = [number for number, chunk in enumerate(out.chunks) if type(chunk) is Finished]
    assert finishes == [len(out.chunks) - 1], finishes


async def usage_comes_before_the_finish(bench: Bench) -> None:
    """Q5, C5: tokens are reported before the finish, as whole numbers; what was not reported is absent."""
    out = await answered(bench.model(), bench.request())
    for chunk in out.chunks:
        if type(chunk) is UsageReport:
            _counts(chunk.usage)


async def calls_keep_their_raw_text(bench: Bench) -> None:
    """Q5: a call's id and name come with its start, its arguments as text, and the finish says so."""
    out = await answered(bench.model(bench.means.calling), bench.request(tools=TOOLS))
    _blocks_are_whole(out)
    calls = [block for block in out.recorder.blocks() if type(block) is ToolCall]
    assert calls, "there is no tool call in the answer"
    assert all([type(call.arguments) is str for call in calls])
    assert all([call.name for call in calls]), "a call has no name"
    ids = [call.call_id for call in calls if call.call_id]
    assert len(ids) == len(set(ids)), f"two calls have one id: {ids}"
    finish = out.recorder.finish
    assert finish is not None
    assert finish.kind == "tool-calls", f"an answer with calls finished with {finish.kind!r}"


# --- failures (Q5, Q7) ------------------------------------------------------------------------------------------------


async def a_refusal_is_one_failure(bench: Bench) -> None:
    """Q5, Q7: an error of the provider is raised as ``ModelFailure``, or is the finish, with a message and a code."""
    out = await play(bench.model(bench.means.refusing), bench.request())
    assert out.failure is not None, "the attempt succeeded"
    _told(out.failure)
    assert not [chunk for chunk in out.chunks if type(chunk) is Finished and chunk.finish.kind == "stop"]


async def a_failed_attempt_leaves_nothing_in_use(bench: Bench) -> None:
    """Q5, Q6: after a failure everything is released, and the next attempt fails alike."""
    adapter = bench.model(bench.means.refusing)
    first = await play(adapter, bench.request())
    assert bench.held(adapter) == 0, "a failed attempt kept its connection"
    second = await play(adapter, bench.request())
    assert first.failure is not None
    assert second.failure is not None
    assert second.failure.code == first.failure.code


async def an_answer_that_breaks_off_is_no_success(bench: Bench) -> None:
    """Q5, Q7: a stream that the provider did not finish is a failure, or has no finish; what came is kept."""
    adapter = bench.model(bench.means.cut)
    out = await play(adapter, bench.request())
    if out.failure is None:
        assert out.recorder.finish is None, f"it finished with {out.recorder.finish}"
    else:
        _told(out.failure)
    assert bench.held(adapter) == 0, "an attempt that broke off kept its connection"


async def silence_is_a_timeout(bench: Bench) -> None:
    """Q8: a provider that says nothing is given up after the idle timeout, with code TIMEOUT."""
    adapter = bench.model(bench.means.silent)
    began = trio.current_time()
    out = await play(adapter, bench.request())
    waited, due = trio.current_time() - began, bench.means.idle_timeout
    assert out.failure is not None, "the attempt ended without a failure"
    assert out.failure.code == Code.TIMEOUT.value, out.failure
    assert 0.9 * due <= waited <= 1.1 * due + 1, f"it gave up after {waited} s instead of {due} s"
    assert bench.held(adapter) == 0, "the connection is still in use"


# --- ending it early --------------------------------------------------------------------------------------------------


async def cancelling_ends_it_at_once(bench: Bench) -> None:
    """C3, N7: a cancelled attempt is over within a second and releases its connection; the adapter stays usable."""
    adapter = bench.model()
    began = trio.current_time()
    with trio.CancelScope() as scope:
        async with streaming(adapter, bench.request()) as stream:
            async for chunk in stream:
                if type(chunk) is TextDelta or type(chunk) is ReasoningDelta:
                    began = trio.current_time()
                    scope.cancel()
    _ended(bench, adapter, began)
    await answered(adapter, bench.request())


async def cancelling_before_the_first_word_ends_it_at_once(bench: Bench) -> None:
    """C3, N7: an attempt that waits for its provider can be cancelled as well."""
    adapter = bench.model(bench.means.silent)
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await play(adapter, bench.request())

        nursery.start_soon(run)
        await trio.sleep(bench.means.idle_timeout / 10)
        began = trio.current_time()
        nursery.cancel_scope.cancel()
    _ended(bench, adapter, began)


async def leaving_releases_it(bench: Bench) -> None:
    """Q5: a stream that is left after its first chunk and closed releases its connection; the adapter stays usable."""
    adapter = bench.model()
    began = trio.current_time()
    async with streaming(adapter, bench.request()) as stream:
        async for _ in stream:
            began = trio.current_time()
            break
    _ended(bench, adapter, began)
    await answered(adapter, bench.request())


async def an_answer_releases_its_connection(bench: Bench) -> None:
    """Q5: after the finish nothing is in use."""
    adapter = bench.model()
    for _ in range(3):
        await answered(adapter, bench.request())
        assert bench.held(adapter) == 0, "a finished attempt kept its connection"


# --- requests ---------------------------------------------------------------------------------------------------------


async def attempts_at_once_do_not_mix(bench: Bench) -> None:
    """Q5: one adapter serves several attempts at the same time, each with a whole stream of its own."""
    adapter = bench.model()
    outcomes: list[Outcome] = []

    async def run() -> None:
        outcomes.append(await answered(adapter, bench.request()))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(run)
    for out in outcomes:
        _blocks_are_whole(out)


async def a_request_is_left_as_it_was(bench: Bench) -> None:
    """Q1: the adapter reads the request and changes nothing of it."""
    request = bench.request(user_message("one", "kit-1"), AssistantMessage((Text("two"),)), user_message("3", "kit-2"))
    messages, before = list(request.messages), copy(request)
    await answered(bench.model(), request)
    assert list(request.messages) == messages
    assert (request.config, request.tools) == (before.config, before.tools)


async def its_answer_can_be_handed_back(bench: Bench) -> None:
    """Q10: replay data is JSON, and the next request of the same history succeeds with it, also after a reload."""
    adapter = bench.model()
    first = user_message("Say a few words.", "kit-1")
    message = (await answered(adapter, bench.request(first))).message(adapter)
    again = [_reloaded(block) for block in message.content]
    replay: Any = msgspec.json.decode(msgspec.json.encode(message.replay))
    for given in (message, AssistantMessage(tuple(again), adapter.name, replay)):
        await answered(adapter, bench.request(first, given, user_message("And more.", "kit-2")))


async def calls_and_results_can_be_handed_back(bench: Bench) -> None:
    """Q5, S4: an answer with calls, and their results, make a request that the adapter can send."""
    adapter = bench.model(bench.means.calling)
    first = user_message("Use a tool.", "kit-1")
    message = (await answered(adapter, bench.request(first, tools=TOOLS))).message(adapter)
    results = [ToolResultMessage((ToolResult(call.call_id, (Text("3"),)),)) for call in message.calls]
    await answered(adapter, bench.request(first, message, *results, tools=TOOLS))


async def damaged_replay_data_costs_its_message_only(bench: Bench) -> None:
    """Q10: replay data that is not what the adapter wrote never fails the request."""
    adapter = bench.model()
    for junk in JUNK:
        damaged = AssistantMessage((Reasoning("hm", junk), Text("yes")), adapter.name, junk)
        foreign = AssistantMessage((Reasoning("hm", junk), Text("no")), "another-adapter", junk)
        asked = [user_message("a", "kit-1"), damaged, user_message("b", "kit-2"), foreign, user_message("c", "kit-3")]
        await answered(adapter, bench.request(*asked))


# --- parts of checks --------------------------------------------------------------------------------------------------

_KINDS: dict[type, str] = {TextDelta: "text", ReasoningDelta: "reasoning", ArgumentsDelta: "tool-call"}


def _blocks_are_whole(out: Outcome) -> None:
    """The recorder refuses what starts twice, is of the wrong kind or comes late; ends are asked for here."""
    open_blocks: dict[int, str] = {}
    for chunk in out.chunks:
        if type(chunk) is BlockStart:
            open_blocks[chunk.index] = chunk.kind
        elif type(chunk) is BlockEnd:
            del open_blocks[chunk.index]
        elif type(chunk) is TextDelta or type(chunk) is ReasoningDelta or type(chunk) is ArgumentsDelta:
            assert open_blocks.get(chunk.index) == _KINDS[type(chunk)], chunk
            assert type(chunk.text) is str, chunk
        elif type(chunk) is Finished:
            assert not open_blocks, f"blocks {sorted(open_blocks)} are open at the finish"


def _counts(usage: Usage) -> None:
    for name in usage.__struct_fields__:
        count = getattr(usage, name)
        assert count is None or (type(count) is int and count >= 0), f"{name} is {count!r}"


def _told(failure: Failure) -> None:
    assert failure.message.strip(), "the failure has no message"
    assert isinstance(failure.code, str), failure.code  # pyright: ignore[reportUnnecessaryIsInstance]
    assert failure.code, "the failure has no code"
    assert failure.retry_after is None or (math.isfinite(failure.retry_after) and failure.retry_after >= 0), failure


def _ended(bench: Bench, adapter: ModelAdapter, began: float) -> None:
    took = trio.current_time() - began
    assert took < AT_ONCE, f"it took {took:.1f} s to end"
    assert bench.held(adapter) == 0, "the connection is still in use"


def _reloaded(block: Block) -> Block:
    return msgspec.json.decode(msgspec.json.encode(block), type=type(block))


CHECKS: tuple[Check, ...] = (
    it_is_an_adapter,
    an_answer_keeps_the_block_protocol,
    an_answer_has_content,
    one_finish_comes_last,
    usage_comes_before_the_finish,
    calls_keep_their_raw_text,
    a_refusal_is_one_failure,
    a_failed_attempt_leaves_nothing_in_use,
    an_answer_that_breaks_off_is_no_success,
    silence_is_a_timeout,
    cancelling_ends_it_at_once,
    cancelling_before_the_first_word_ends_it_at_once,
    leaving_releases_it,
    an_answer_releases_its_connection,
    attempts_at_once_do_not_mix,
    a_request_is_left_as_it_was,
    its_answer_can_be_handed_back,
    calls_and_results_can_be_handed_back,
    damaged_replay_data_costs_its_message_only,
)
"""Every check, in order."""

NEEDS: dict[Check, str] = {
    calls_keep_their_raw_text: "calling",
    calls_and_results_can_be_handed_back: "calling",
    a_refusal_is_one_failure: "refusing",
    a_failed_attempt_leaves_nothing_in_use: "refusing",
    an_answer_that_breaks_off_is_no_success: "cut",
    silence_is_a_timeout: "silent",
    cancelling_before_the_first_word_ends_it_at_once: "silent",
}
"""The field of ``Means`` that a check needs."""

VIRTUAL: tuple[Check, ...] = (silence_is_a_timeout, cancelling_before_the_first_word_ends_it_at_once)
"""The checks that run in virtual time always."""
