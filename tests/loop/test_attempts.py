"""Attempts: the chunk protocol, frames, timed streams, replay data (contract §10 Q5, Q9, Q10; §12 S4)."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.stage import Gate, note, stage, talk
from treadle import (
    AgentOptions,
    Answer,
    Call,
    Failure,
    Host,
    ModelFailure,
    Reasoning,
    ScriptedModel,
    Text,
    ToolCall,
    tool,
)
from treadle.hooks import ASSISTANT_STREAM, LLM_STREAM, REQUEST, REQUEST_ERROR, FrameChunk, FrameEnd, FrameStart, Retry
from treadle.models import (
    AnswerBounds,
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    CallConfig,
    Code,
    Finish,
    Finished,
    OpaqueChunk,
    ReasoningDelta,
    TextDelta,
    TimedStream,
    Usage,
    UsageReport,
    assembly,
    clean_failure,
    describe,
)
from treadle.models.assembly import Recorder, is_blank
from treadle.session import AssistantAttempt, AssistantMessageAdded, TurnEnd
from treadle.words.failures import failure_of

STOP = Finished(Finish("stop"))


@tool
async def work() -> str:
    return "done"


# --- Q5 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        ([TextDelta(0, "x"), STOP], "block 0 never started"),
        ([BlockStart(0, "text"), BlockStart(0, "text"), STOP], "block 0 starts twice"),
        ([BlockStart(1 << 64, "text"), STOP], "no block can start"),
        ([BlockStart(0, "text"), BlockEnd(0), TextDelta(0, "x"), STOP], "block 0 has ended"),
        ([BlockStart(0, "text"), BlockEnd(0), BlockEnd(0), STOP], "block 0 has ended"),
        ([BlockStart(0, "text"), ReasoningDelta(0, "x"), STOP], "a reasoning delta for a text block"),
        ([BlockEnd(3), STOP], "block 3 never started"),
        ([OpaqueChunk({"type": "new"}), STOP], "unknown chunk OpaqueChunk"),
        (["words", STOP], "unknown chunk str"),
        ([BlockStart(0, "text"), BlockEnd(0, object()), STOP], "replay data is not JSON"),
        ([Finished(Finish("stop"), float("nan"))], "replay data is not JSON"),
    ],
)
async def test_a_stream_that_breaks_the_protocol_fails_the_attempt(chunks: list[Any], words: str) -> None:
    async with stage(chunks) as s:
        await s.ask("a")
        assert s.ends == ["error MALFORMED_RESPONSE"]
        assert words in s.errors[0].failure.message
        assert s.log[3] == "attempt"


@pytest.mark.rule("Q5")
async def test_nothing_is_read_behind_the_finish() -> None:
    read: list[str] = []

    async def more(request: Any) -> Any:
        yield BlockStart(0, "text")
        yield TextDelta(0, "x")
        yield STOP
        read.append("more")
        yield TextDelta(0, "y")

    async with stage(more) as s:
        await s.ask("a")
        assert (s.log[3], read) == ("assistant 'x'", [])
    recorder = Recorder()
    recorder.add(STOP, 0.0)
    with pytest.raises(ModelFailure, match="TextDelta after the finish"):
        recorder.add(TextDelta(0, "x"), 0.0)


@pytest.mark.rule("Q5", "C5")
async def test_a_stream_without_a_finish_is_truncated_and_no_answer() -> None:
    async with stage(talk("half", BlockStart(1, "tool-call", "c", "t"), BlockEnd(1), finish=None)) as s:
        await s.ask("a")
        assert s.ends == ["error STREAM_CLOSED"]
        assert s.log[3:5] == ["attempt", "step/end 1.1"]


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    ("finish", "code", "words"),
    [
        (Finish("error", Failure("busy", "RATE_LIMIT", 429, 2.0, "r1")), "RATE_LIMIT", "busy"),
        (Finish("error", None, "odd"), "UNKNOWN", "odd"),
        (Finish("error"), "UNKNOWN", "finished with error"),
        (Finish("aborted"), "ABORTED", "finished with aborted"),
        (Finish("content-filter", None, "violence"), "CONTENT_FILTER", "content-filter: violence"),
        (Finish("refusal"), "CONTENT_FILTER", "withheld the answer (refusal)"),
    ],
)
async def test_a_finish_that_is_a_failure_fails_the_attempt_like_an_exception(
    finish: Finish, code: str, words: str
) -> None:
    async with stage([BlockStart(0, "text"), TextDelta(0, "half"), Finished(finish)]) as s:
        await s.ask("a")
        assert s.ends == [f"error {code}"]
        assert words in s.errors[0].failure.message
        kept = s.facts(AssistantAttempt)[0].finish
        assert kept.kind == finish.kind
        assert kept.failure is not None
        assert kept.detail == finish.detail


@pytest.mark.rule("Q5", "T9")
async def test_a_raised_failure_and_a_finished_one_become_the_same_failure() -> None:
    failure = Failure("busy", Code.SERVER.value, 503, 1.5, "request 7")
    async with stage(talk(ModelFailure(failure)), [Finished(Finish("error", failure))]) as s:
        await s.ask("a")
        await s.ask("b")
        assert [fact.reason.failure for fact in s.facts(TurnEnd)] == [failure, failure]
        assert [fact.finish.failure for fact in s.facts(AssistantAttempt)] == [failure, failure]


@pytest.mark.rule("Q5")
@pytest.mark.parametrize("chunks", [[STOP], [BlockStart(0, "text"), BlockEnd(0), STOP]])
async def test_an_answer_with_nothing_in_it_is_a_failure(chunks: list[Any]) -> None:
    async with stage(chunks) as s:
        await s.ask("a")
        assert s.ends == ["error EMPTY_RESPONSE"]


@pytest.mark.rule("Q5", "S4")
async def test_an_answer_of_reasoning_only_is_recorded_and_left_out_of_history() -> None:
    async with stage(Answer(reasoning="hm"), "next") as s:
        await s.ask("a")
        assert s.facts(AssistantMessageAdded)[0].message.content == (Reasoning("hm"),)
        await s.ask("b")
        assert s.requests[1] == ["user a", "user b"]


@pytest.mark.rule("Q5")
async def test_arguments_stay_raw_text_from_end_to_end() -> None:
    raw = ' {"a" :1e2,\n"b":"\u2028"} '
    async with stage(Answer(calls=[Call("work", raw)]), tools=[work]) as s:
        await s.ask("a")
        call = s.facts(AssistantMessageAdded)[0].message.calls[0]
        assert call.arguments == raw
        assert next(m for m in s.model.requests[1].messages if m.role == "assistant").calls[0].arguments == raw  # type: ignore[union-attr]


@pytest.mark.rule("Q5")
async def test_interleaved_blocks_are_assembled_in_the_order_of_their_starts() -> None:
    chunks = [
        BlockStart(5, "tool-call", "c1", "work"),
        BlockStart(2, "text"),
        ArgumentsDelta(5, "{"),
        TextDelta(2, "he"),
        ArgumentsDelta(5, "}"),
        TextDelta(2, "llo"),
        UsageReport(Usage(1)),
        UsageReport(Usage(2)),
        Finished(Finish("tool-calls")),
    ]
    async with stage(chunks, tools=[work]) as s:
        await s.ask("a")
        fact = s.facts(AssistantMessageAdded)[0]
        assert fact.message.content == (ToolCall("c1", "work", "{}"), Text("hello"))
        assert fact.usage == Usage(2)


@pytest.mark.rule("Q5", "X3")
def test_an_answer_of_endless_calls_or_blocks_or_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MAX_BLOCKS", 3)
    recorder = Recorder(bounds=AnswerBounds(bytes=1_500, calls=2))
    for index in range(2):
        recorder.add(BlockStart(index, "tool-call", "c", "t"), 0.0)
    with pytest.raises(ModelFailure, match="more than 2 tool calls"):
        recorder.add(BlockStart(2, "tool-call", "c", "t"), 0.0)
    recorder.add(BlockStart(3, "text"), 0.0)
    with pytest.raises(ModelFailure, match="more than 3 blocks"):
        recorder.add(BlockStart(4, "text"), 0.0)
    recorder.add(TextDelta(3, "x" * 6), 0.0)
    recorder.check_size()
    recorder.check_size()
    recorder.add(UsageReport(Usage()), 0.0)
    recorder.add(TextDelta(3, "y" * 6), 0.0)
    recorder.add(TextDelta(3, "z" * 1_500), 0.0)
    with pytest.raises(ModelFailure, match=r"more than 1500 bytes.*max_answer_bytes"):
        recorder.check_size()
    assert recorder.blocks(calls=False) == (Text("x" * 6 + "y" * 6),)


@pytest.mark.slow
@pytest.mark.rule("Q5", "X3", "N7")
@pytest.mark.parametrize("framed", [True, False])
async def test_an_endless_answer_is_cut_off_and_lets_others_run(framed: bool) -> None:
    beats: list[int] = []

    async def endless(request: Any) -> Any:
        yield BlockStart(0, "text")
        while True:
            yield TextDelta(0, "x" * 40)

    async def heart() -> None:
        while True:
            beats.append(1)
            await trio.lowlevel.checkpoint()

    async with stage(endless, listen=False) as s, trio.open_nursery() as nursery:
        if framed:
            s.agent.scope.on(ASSISTANT_STREAM, lambda told: None)
        nursery.start_soon(heart)
        await s.ask("a")
        nursery.cancel_scope.cancel()
        assert s.ends == ["error MALFORMED_RESPONSE"]
        assert len(beats) > 2


@pytest.mark.rule("K3", "N1")
async def test_missing_repeated_reused_and_endless_call_ids_get_a_unique_one_before_anything_is_stored() -> None:
    ids = ["", "same", "same", "x" * 300]
    again = Answer(calls=[Call("work", id="same")])
    async with stage([*_calls(ids)], again, tools=[work]) as s:
        await s.ask("a")
        given = [call.call_id for fact in s.facts(AssistantMessageAdded) for call in fact.message.calls]
        assert given[1] == "same"
        assert len(set(given)) == 5
        assert all(one.startswith("call_") for one in (given[0], *given[2:]))


def _calls(ids: list[str]) -> list[Any]:
    out: list[Any] = []
    for index, one in enumerate(ids):
        out += [BlockStart(index, "tool-call", one, "work"), BlockEnd(index)]
    return [*out, Finished(Finish("tool-calls"))]


@pytest.mark.rule("S1", "N6", "Q9")
async def test_halves_of_characters_and_lone_surrogates_from_a_provider_are_storable() -> None:
    """The stage encodes every event strictly when it ends."""
    chunks = [
        BlockStart(0, "text"),
        TextDelta(0, "smile \ud83d"),
        TextDelta(0, "\ude00!"),
        TextDelta(0, " lone \udfff"),
        BlockEnd(0),
        BlockStart(1, "tool-call", "c\ud800", "na\ud800me"),
        BlockEnd(1),
        Finished(Finish("tool-calls", None, "detail \ud800")),
    ]
    failed = [Finished(Finish("error", Failure("bad \ud800", "CODE", None, float("inf"), "id \ud800"), "\ud800"))]
    async with stage(chunks, failed) as s:
        await s.ask("a")
        fact = s.facts(AssistantMessageAdded)[0]
        assert fact.message.text == "smile \U0001f600! lone \ufffd"
        assert fact.message.calls[0].name == "na\ufffdme"
        assert s.facts(AssistantAttempt)[0].finish.failure == Failure("bad \ufffd", "CODE", None, None, "id \ufffd")


# --- Q9 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q9")
async def test_frames_have_one_start_dense_chunks_and_one_end_that_cites_the_event() -> None:
    frames: list[Any] = []
    async with stage(Answer("one two", usage=Usage(1, 2)), listen=False) as s:
        s.agent.scope.on(ASSISTANT_STREAM, lambda told: frames.append(told.frame))
        await s.ask("a")
        start, *chunks, end = frames
        fact = s.facts(AssistantMessageAdded)[0]
        assert start == FrameStart(fact.attempt_id, 1, 1, 1)
        assert [frame.index for frame in chunks] == list(range(len(chunks)))
        seq = next(entry.seq for entry in s.agent.session.events if entry.data is fact)
        assert end == FrameEnd(fact.attempt_id, 1, len(chunks), ("assistant/message", seq))
        assert [(frame.time, frame.chunk) for frame in chunks] == fact.stream.chunks()
        assert {frame.attempt_id for frame in frames} == {s.model.requests[0].attempt_id}


@pytest.mark.rule("Q9", "H4")
async def test_the_end_frame_follows_the_event_that_commits_the_stream() -> None:
    async with stage("one") as s:
        s.agent.scope.on(ASSISTANT_STREAM, lambda told: s.told.append(f"~{type(told.frame).__name__}"))
        await s.ask("a")
        assert s.told[s.told.index("assistant 'one'") :][:2] == ["assistant 'one'", "~FrameEnd"]


@pytest.mark.rule("Q9")
async def test_the_revision_grows_per_attempt_and_restarts_with_the_agent() -> None:
    starts: list[FrameStart] = []
    model = ScriptedModel([talk(ValueError("no")), "two", "three", "four"])

    async with stage(model=model) as s:
        s.host.on(
            ASSISTANT_STREAM, lambda told: starts.append(told.frame) if isinstance(told.frame, FrameStart) else None
        )
        s.agent.scope.on(REQUEST_ERROR, lambda failed, proceed: Retry())
        await s.ask("a")
        await s.ask("b")
        other = await s.host.agents.create(agent_options=s.agent.options)
        other.agent.followup("c")
        await other.agent.when_idle()
        assert [(one.revision, one.turn, one.step) for one in starts] == [(1, 1, 1), (2, 1, 1), (3, 2, 1), (1, 1, 1)]
        assert len({one.attempt_id for one in starts}) == 4
        await other.dispose()


@pytest.mark.rule("Q9", "H6")
async def test_a_failed_attempt_ends_with_its_own_event() -> None:
    frames: list[Any] = []
    async with stage(talk("half", ModelFailure(Failure("no", "SERVER")))) as s:
        s.agent.scope.on(ASSISTANT_STREAM, lambda told: frames.append(told.frame))
        await s.ask("a")
        fact = s.facts(AssistantAttempt)[0]
        assert frames[-1].committed[0] == "assistant/attempt"
        assert len(fact.stream) == frames[-1].index == 2
        assert fact.finish == Finish("error", Failure("no", "SERVER"))


@pytest.mark.rule("Q9", "C5", "C9")
@pytest.mark.parametrize("by", ["cancel", "middleware"])
async def test_an_attempt_that_never_reached_the_provider_is_abandoned(by: str) -> None:
    frames: list[Any] = []

    def look(told: Any) -> None:
        frames.append(told.frame)
        if by == "cancel":
            s.agent.cancel()

    def fail(proposal: Any, proceed: Any) -> Any:
        raise ValueError("middleware")

    async with stage("one") as s:
        s.agent.scope.on(ASSISTANT_STREAM, look)
        if by == "middleware":
            s.agent.scope.on(LLM_STREAM, fail)
        await s.ask("a")
        assert [type(frame) for frame in frames] == [FrameStart, FrameEnd]
        assert (frames[1].index, frames[1].committed) == (0, None)
        assert "attempt" not in s.log


@pytest.mark.rule("Q9", "N5")
async def test_the_timed_stream_is_exactly_what_arrived() -> None:
    chunks = [
        BlockStart(0, "reasoning"),
        ReasoningDelta(0, "h"),
        ReasoningDelta(0, "m"),
        BlockEnd(0, {"signature": [1]}),
        BlockStart(1, "tool-call", "c1", "work"),
        ArgumentsDelta(1, "{}"),
        BlockEnd(1),
        UsageReport(Usage(1, 2)),
        Finished(Finish("tool-calls"), {"id": "m"}),
    ]
    async with stage(chunks, tools=[work]) as s:
        await s.ask("a")
        stream = s.facts(AssistantMessageAdded)[0].stream
        assert isinstance(stream, TimedStream)
        assert [chunk for _, chunk in stream.chunks()] == chunks
        assert len(stream) == len(chunks)
        times = [time for time, _ in stream.chunks()]
        assert times == sorted(times)


@pytest.mark.rule("Q9")
async def test_a_listener_that_comes_during_an_attempt_waits_for_the_next() -> None:
    gate = Gate()
    frames: list[Any] = []
    async with stage(talk(gate, "one"), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.scope.on(ASSISTANT_STREAM, lambda told: frames.append(told.frame))
        gate.open()
        await s.agent.when_idle()
        assert frames == []
        await s.ask("b")
        assert isinstance(frames[0], FrameStart)


@pytest.mark.rule("Q9", "C5")
async def test_frames_of_a_cancelled_attempt_count_what_had_arrived() -> None:
    gate = Gate()
    frames: list[Any] = []
    async with stage(talk("one ", "two", gate)) as s:
        s.agent.scope.on(ASSISTANT_STREAM, lambda told: frames.append(told.frame))
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        chunks = [frame for frame in frames if isinstance(frame, FrameChunk)]
        assert frames[-1].index == len(chunks) == 3
        assert frames[-1].committed[0] == "assistant/message"


# --- Q10 --------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q10")
async def test_replay_data_travels_with_the_message_under_the_adapters_name_and_is_a_copy() -> None:
    block, whole = {"signature": ["s"]}, {"id": "m1"}
    chunks = [BlockStart(0, "reasoning"), BlockEnd(0, block), BlockStart(1, "text"), TextDelta(1, "x"), BlockEnd(1)]
    async with stage([*chunks, Finished(Finish("stop"), whole)]) as s:
        await s.ask("a")
        block["signature"].append("changed")
        await s.ask("b")
        answer = s.model.requests[1].messages[1]
        assert answer.adapter == "scripted"  # type: ignore[union-attr]
        assert answer.replay == {"id": "m1"}  # type: ignore[union-attr]
        assert answer.content == (Reasoning("", {"signature": ["s"]}), Text("x"))


@pytest.mark.rule("Q10")
async def test_a_message_of_another_adapter_says_whose_it_is() -> None:
    class Second(ScriptedModel):
        name = "second"

    second = Second()
    async with stage([BlockStart(0, "text"), TextDelta(0, "x"), Finished(Finish("stop"), {"private": 1})]) as s:
        await s.ask("a")
        s.host.models.register("second", second)
        s.agent.scope.on(REQUEST, lambda proposal, proceed: CallConfig("second", "m"))
        await s.ask("b")
        await s.ask("c")
        assert [getattr(one, "adapter", None) for one in second.requests[1].messages] == [
            None,
            "scripted",
            None,
            "second",
            None,
        ]


# --- failures as data -------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q5", "T9", "X3")
def test_a_failure_is_described_whatever_its_exception_does() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    class Coded(Exception):
        code = "MINE"

    class Numbered(Exception):
        code = 7

    assert failure_of(Mute()) == Failure("Mute: (its text cannot be shown)")
    assert failure_of(Coded("x")) == Failure("Coded: x", "MINE")
    assert failure_of(Numbered("x")).code == "UNKNOWN"
    assert failure_of(ValueError()).message == "ValueError"
    assert failure_of(ExceptionGroup("g", [Coded("x"), Coded("y")])).code == "UNKNOWN"
    assert len(failure_of(ValueError("x" * 10_000)).message) == 2_000
    error = ValueError("loop")
    error.__cause__ = error
    assert describe(error) == "ValueError: loop"
    assert clean_failure(Failure("m", Code.SERVER)) == Failure("m", "SERVER")


def test_blank_is_what_nobody_can_see() -> None:
    assert is_blank(())
    assert is_blank((Text(" \n"), Reasoning("\t")))
    assert not is_blank((Text("x"),))
    assert not is_blank((ToolCall("c", "t"),))


@pytest.mark.rule("Q5")
async def test_a_stream_without_a_close_is_fine() -> None:
    class Bare:
        def __init__(self) -> None:
            self.left = [BlockStart(0, "text"), TextDelta(0, "bare"), STOP]

        def __aiter__(self) -> Bare:
            return self

        async def __anext__(self) -> Any:
            return self.left.pop(0)

    class Model(ScriptedModel):
        def stream(self, request: Any) -> Any:
            return Bare()

    model = Model()
    async with Host() as host:
        host.models.register("m", model)
        handle = await host.agents.create(agent_options=AgentOptions("m", "m"))
        handle.agent.followup("a")
        await handle.agent.when_idle()
        assert handle.agent.session.history()[1].text == "bare"  # type: ignore[union-attr]


@pytest.mark.rule("C5")
def test_the_first_freeze_decides_and_without_one_nothing_is_dropped() -> None:
    recorder = Recorder()
    recorder.check_size()
    recorder.add(BlockStart(0, "text"), 0.0)
    recorder.add(TextDelta(0, "one"), 0.0)
    recorder.thaw_into_past()
    assert recorder.chunks == 2
    recorder.freeze()
    recorder.add(TextDelta(0, "two"), 0.0)
    recorder.freeze()
    recorder.thaw_into_past()
    assert recorder.blocks() == (Text("one"),)


@pytest.mark.rule("Q5", "Q10")
async def test_a_thought_without_words_is_kept_only_for_what_it_replays() -> None:
    chunks = [BlockStart(0, "reasoning"), BlockEnd(0), BlockStart(1, "reasoning"), BlockEnd(1, {"s": 1})]
    async with stage([*chunks, BlockStart(2, "text"), TextDelta(2, "x"), STOP]) as s:
        await s.ask("a")
        assert s.facts(AssistantMessageAdded)[0].message.content == (Reasoning("", {"s": 1}), Text("x"))


async def test_a_script_may_be_any_async_iterable_and_may_fail_behind_its_words() -> None:
    class Bare:
        def __init__(self) -> None:
            self.left = [BlockStart(0, "text"), TextDelta(0, "bare"), STOP]

        def __aiter__(self) -> Bare:
            return self

        async def __anext__(self) -> Any:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop(0)

    endless = Bare()
    endless.left.pop()
    half = [BlockStart(0, "text"), TextDelta(0, "half")]
    async with stage(Bare(), Answer("half", failure=Failure("cut", "TRANSPORT")), endless, half) as s:
        for text in "abcd":
            await s.ask(text)
        assert s.ends == ["completed", "error TRANSPORT", "error STREAM_CLOSED", "error STREAM_CLOSED"]
