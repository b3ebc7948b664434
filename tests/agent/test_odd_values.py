"""Values that hooks and adapters hand over and the log could not hold, and exceptions that cannot be described."""

from __future__ import annotations

import pytest
import trio

import treadle
from tests.stage import stage
from treadle import Failure, ModelFailure
from treadle.errors import InvariantViolated
from treadle.hooks import PROMPT_SUBMIT, SESSION_FLUSH, BlockPrompt
from treadle.models import BlockEnd, BlockStart, Chunk, Finish, Finished, TextDelta, Usage, UsageReport
from treadle.session import StepEnd, decode_event, encode_event
from treadle.words.failures import failure_of


def text(*more: Chunk, kind: str = "text") -> list[Chunk]:
    start = BlockStart(0, kind)  # type: ignore[arg-type]
    return [start, TextDelta(0, "a"), BlockEnd(0), *more, Finished(Finish("stop"))]


@pytest.mark.rule("S1", "H7")
async def test_a_block_whose_reason_utf8_cannot_carry_is_recorded_repaired() -> None:
    async with stage("one") as s:
        s.agent.scope.on(PROMPT_SUBMIT, lambda _payload, _next: BlockPrompt("no \udcff.txt"))
        s.agent.followup("a")
        ended = await s.agent.when_idle()
        assert isinstance(ended, treadle.Blocked)
        assert all(decode_event(encode_event(entry)) == entry for entry in s.agent.session.events)


@pytest.mark.rule("Q5", "S1")
@pytest.mark.parametrize(
    "chunks",
    [
        text(kind="image"),
        text(UsageReport(Usage(input_tokens=12.5))),  # type: ignore[arg-type]
        [Finished(Finish("error", Failure("m", "SERVER", status="503")))],  # type: ignore[arg-type]
    ],
    ids=["a block of no kind", "half a token", "a status in text"],
)
async def test_what_an_adapter_reports_wrongly_still_reads_back(chunks: list[Chunk]) -> None:
    async with stage(chunks) as s:
        s.agent.followup("a")
        ended = await s.agent.when_idle()
        assert isinstance(ended, treadle.Errored)
        assert all(decode_event(encode_event(entry)) == entry for entry in s.agent.session.events)


@pytest.mark.rule("T9", "L8")
def test_an_exception_that_cannot_be_described_is_still_a_failure() -> None:
    class Odd(Exception):
        @property
        def code(self) -> str:
            raise RuntimeError("no code")

        def __str__(self) -> str:
            raise KeyboardInterrupt

    assert failure_of(Odd()) == Failure("Odd: (its text cannot be shown)", "UNKNOWN")


@pytest.mark.rule("Q5", "C5")
async def test_an_answer_whose_stream_fails_to_close_stands() -> None:
    class Stream:
        def __init__(self) -> None:
            self.chunks = iter(text())

        def __aiter__(self) -> Stream:
            return self

        async def __anext__(self) -> Chunk:
            return next(self.chunks)

        async def aclose(self) -> None:
            raise RuntimeError("cannot close")

    async with stage(lambda _request: Stream()) as s:
        s.model.stream = lambda request: Stream()  # type: ignore[method-assign]
        s.agent.followup("a")
        assert isinstance(await s.agent.when_idle(), treadle.Completed)


@pytest.mark.rule("L6", "P8")
async def test_a_flush_listener_that_waits_for_its_agent_is_told_at_once() -> None:
    told: list[BaseException] = []

    async def wait(flushing: object) -> None:
        try:
            await flushing.agent.when_idle()  # type: ignore[attr-defined]
        except treadle.MisuseError as error:
            told.append(error)

    async with stage("one") as s:
        s.agent.scope.on(SESSION_FLUSH, wait)
        s.agent.followup("a")
        with trio.fail_after(5):
            await s.agent.when_idle()
        assert len(told) == 1


@pytest.mark.rule("L8", "C10")
async def test_two_cancels_in_one_breath_leave_one_watch() -> None:
    async with stage("one", "two", "three") as s:
        for _ in range(3):
            s.agent.followup("a")
            s.agent.cancel(keep_inbox=True)
            await s.agent.when_idle()
            s.agent.followup("b")
            s.agent.cancel()
        await s.agent.when_idle()
        s.agent.followup("c")
        assert isinstance(await s.agent.when_idle(), treadle.Completed)


def test_a_failure_keeps_its_own_facts() -> None:
    failure = Failure("m", "RATE_LIMIT", 429, 1.5, "r")
    assert failure_of(ModelFailure(failure)) == failure


@pytest.mark.rule("N8", "T10")
async def test_with_checks_on_an_event_that_breaks_the_grammar_raises_where_it_is_written() -> None:
    async with treadle.open_agent(model=treadle.ScriptedModel(["one"]), checks=True) as agent:
        agent.followup("a")
        assert isinstance(await agent.when_idle(), treadle.Completed)
        with pytest.raises(InvariantViolated):
            agent.session.commit(StepEnd(1, 1))
