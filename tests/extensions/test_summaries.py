"""The summary that a model writes: its requests, their retries, their size, and what fails (Z4, Z7)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.extensions.windowed import Windowed, counted
from tests.stage import Gate, Stage, note, stage, talk
from treadle import Answer, Call, Failure, Host, ScriptedModel, UserMessage, message, tool
from treadle.errors import CompactionFailed, MaintenanceCancelled
from treadle.extensions.compaction import (
    COMPACTION,
    Compaction,
    CompactionMoment,
    ModelSummary,
    Summary,
    SummaryJob,
    SummarySource,
)
from treadle.models import RetryPolicy, Usage

LONG = "word " * 400


async def talked(s: Stage, turns: int, text: str = LONG) -> None:
    for number in range(turns):
        s.agent.followup(f"q{number} {text}")
        await s.agent.when_idle()


def source(s: Stage) -> SummarySource:
    found = next(one for one in s.agent.session.history() if isinstance(one, UserMessage) and "Summary" in one.text)
    assert isinstance(found.source, SummarySource)
    return found.source


@pytest.mark.rule("Z7")
async def test_the_agents_own_model_writes_it_unless_a_route_is_given_and_it_is_recorded_who_did() -> None:
    other = Windowed(50_000, summary=lambda _: Answer("By the other.", usage=Usage(input_tokens=1)))
    host = Host(checks=True)
    host.models.register("other", other)
    async with stage(model=Windowed(50_000), host=host) as s:
        undo = Compaction(keep_turns=0).install(host)
        await talked(s, 2)
        await s.agent.compact()
        told = source(s)
        assert (told.provider, told.model, told.replaced) == ("scripted", "m", 4)
        assert told.usage is not None
        assert told.usage.input_tokens
        assert 0 < told.after < told.before
        undo()
        Compaction(keep_turns=0, summarize=ModelSummary("other", "small")).install(host)
        await talked(s, 1)
        await s.agent.compact("the names")
        assert (source(s).provider, source(s).model) == ("other", "small")
        request = other.summed[0]
        assert request.config.model == "small"
        assert request.tools == ()
        assert "Pay attention to this above all: the names" in request.messages[1].text
        assert "They talked." in request.messages[1].text  # the earlier summary is part of what is summed up
        assert request.session_id != s.agent.id


@pytest.mark.rule("Z4")
async def test_what_is_too_long_for_the_summarizer_is_summed_up_in_pieces_that_fit() -> None:
    model = Windowed(4_000, summary=lambda request: f"sum {len(model.summed)}")
    host = Host(checks=True)
    host.models.register("small", model)
    Compaction(keep_turns=0, summarize=ModelSummary("small", "s")).install(host)
    async with stage(default_model := ScriptedModel(default="Done."), model=default_model, host=host) as s:
        await talked(s, 20)
        await s.agent.compact()
        assert len(model.summed) > 3
        assert model.refused == 0
        assert all(counted(one.messages) < 4_000 for one in model.summed)
        assert "sum 1" in model.summed[1].messages[1].text
        assert f"sum {len(model.summed)}" in s.agent.session.history()[0].text


@pytest.mark.rule("Z4")
async def test_a_summarizer_that_refuses_what_it_is_sent_is_sent_less() -> None:
    model = Windowed(1_500, summary=lambda _: "sum", told=False)
    host = Host(checks=True)
    host.models.register("small", model)
    Compaction(keep_turns=0, summarize=ModelSummary("small", "s")).install(host)
    async with stage("a", host=host) as s:
        await talked(s, 4)
        assert (await s.agent.compact()).replaced == 8
        assert model.refused > 0


@pytest.mark.rule("Z4")
async def test_one_that_refuses_whatever_it_is_sent_fails_in_the_end() -> None:
    host = Host(checks=True)
    host.models.register("tiny", Windowed(10, told=False))
    Compaction(keep_turns=0, summarize=ModelSummary("tiny", "s")).install(host)
    async with stage("a", host=host) as s:
        await talked(s, 2)
        with pytest.raises(CompactionFailed, match="more than 10"):
            await s.agent.compact()


@pytest.mark.rule("Z4", "Q6")
async def test_failures_are_retried_by_the_adapters_policy_and_what_all_took_is_told(
    autojump_clock: MockClock,
) -> None:
    usage = Usage(input_tokens=10, output_tokens=2)
    script = [Answer("half", usage=usage, failure=Failure("busy", "RATE_LIMIT")), Answer("whole", usage=usage)]
    model = ScriptedModel(script, retry_policy=RetryPolicy(max_retries=1, jitter=0))
    host = Host(checks=True)
    host.models.register("flaky", model)
    Compaction(keep_turns=0, summarize=ModelSummary("flaky", "s")).install(host)
    async with stage("a", host=host) as s:
        await talked(s, 1)
        began = trio.current_time()
        await s.agent.compact()
        assert trio.current_time() - began == pytest.approx(0.5)
        assert source(s).usage == Usage(input_tokens=20, output_tokens=4)
        assert "whole" in s.agent.session.history()[0].text
        model.push(Failure("busy", "RATE_LIMIT"), Failure("busy", "RATE_LIMIT"))
        await talked(s, 1)
        with pytest.raises(CompactionFailed, match="busy"):
            await s.agent.compact()


BAD: dict[str, Any] = {
    "nothing": Answer(""),
    "blank": Answer("  "),
    "only thoughts": Answer("", "hm"),
    "a call": Answer("", calls=(Call("look"),)),
    "withheld": Answer("I must not", finish="content-filter"),
    "broken": lambda request: talk("half", finish=None)(request),
    "an exception": lambda request: talk(ValueError("broken adapter"))(request),
}


@pytest.mark.rule("Z4")
@pytest.mark.parametrize("name", BAD)
async def test_an_answer_that_is_no_summary_fails_the_compaction(name: str) -> None:
    host = Host(checks=True)
    host.models.register("bad", ScriptedModel(default=BAD[name]))
    Compaction(keep_turns=0, summarize=ModelSummary("bad", "s")).install(host)
    async with stage("a", host=host) as s:
        await talked(s, 1)
        before = list(s.agent.session.events)
        with pytest.raises(CompactionFailed):
            await s.agent.compact()
        assert list(s.agent.session.events) == before


@pytest.mark.rule("Z4")
async def test_a_route_that_there_is_not_fails_the_compaction_with_its_name() -> None:
    host = Host(checks=True)
    Compaction(keep_turns=0, summarize=ModelSummary("nowhere", "s")).install(host)
    async with stage("a", host=host) as s:
        await talked(s, 1)
        with pytest.raises(CompactionFailed, match="no adapter serves provider 'nowhere'"):
            await s.agent.compact()


@pytest.mark.rule("Z4", "M4")
async def test_a_cancel_ends_the_request_for_the_summary() -> None:
    gate, closed = Gate(), trio.Event()

    async def hangs(request: Any) -> Any:
        try:
            await gate.wait()
            yield None
        finally:
            closed.set()

    host = Host(checks=True)
    host.models.register("slow", ScriptedModel(default=hangs))
    Compaction(keep_turns=0, summarize=ModelSummary("slow", "s")).install(host)
    moments: list[CompactionMoment] = []
    async with stage("a", host=host) as s:
        host.on(COMPACTION, moments.append)
        await talked(s, 1)
        running = s.agent.compact()
        await gate.reached()
        s.agent.cancel()
        with pytest.raises(MaintenanceCancelled):
            await running
        await closed.wait()
        assert [one.phase for one in moments] == ["started", "failed"]


@pytest.mark.rule("Z4")
async def test_results_and_arguments_are_told_with_their_middle_left_out() -> None:
    @tool
    async def look(at: str) -> str:
        """Look at something."""
        return "begin " + "x" * 20_000 + " end"

    model = Windowed(100_000)
    host = Host(checks=True)
    host.models.register("sums", model)
    Compaction(keep_turns=0, summarize=ModelSummary("sums", "s")).install(host)
    async with stage(
        Answer("", calls=(Call("look", {"at": "y" * 9_000}, "c1"),)), "seen", host=host, tools=[look]
    ) as s:
        s.agent.followup(note("what is there?"))
        await s.agent.when_idle()
        await s.agent.compact()
        text = model.summed[0].messages[1].text
        assert "user: what is there?" in text
        assert "calls look (c1)" in text
        assert "result of c1: begin" in text
        assert " end\n" in text
        assert text.count("characters left out") == 2
        assert len(text) < 12_000


@pytest.mark.rule("Z7")
async def test_a_function_may_tell_what_it_took() -> None:
    def sums(job: SummaryJob) -> Summary:
        return Summary("by hand", Usage(input_tokens=7), "mine", "one")

    host = Host(checks=True)
    Compaction(keep_turns=0, summarize=sums).install(host)
    async with stage("a", host=host) as s:
        s.agent.followup(message("q"))
        await s.agent.when_idle()
        await s.agent.compact()
        assert (source(s).usage, source(s).provider, source(s).model) == (Usage(input_tokens=7), "mine", "one")
