"""What is too large to be stored is refused at the door through which it would come, and nothing of it is recorded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doors import CALLS
from tests.stage import Stage, note, stage
from treadle import ToolOutput, message, tool
from treadle.errors import InvalidData, MisuseError
from treadle.hooks import PRE_STEP, PROMPT_SUBMIT, Allow, Enter
from treadle.lossless import MAX_EVENT_BYTES, MAX_PART_BYTES, check_bytes
from treadle.models import AnswerBounds, BlockEnd, BlockStart, Finish, Finished, TextDelta
from treadle.models.bounds import LARGEST_ANSWER
from treadle.session import encode_event
from treadle.words.messages import check_batch

LARGE = "x" * (MAX_PART_BYTES + 1)
"""Text that no event takes."""


@pytest.mark.rule("X3", "D3", "S6")
@pytest.mark.parametrize("door", [door for door in CALLS if door != "a message's id"])
async def test_what_no_store_takes_is_refused_at_every_door_and_nothing_is_recorded(door: str) -> None:
    async with stage() as s:
        s.agent.inbox.append("next-turn", note("pending"))
        before = list(s.agent.session.events)
        with pytest.raises((MisuseError, InvalidData), match=r"more than the 67,108,864 that can be recorded"):
            CALLS[door](s, LARGE)
        assert list(s.agent.session.events) == before


def nothing() -> None:
    """Does nothing."""


@tool
def large() -> Any:
    """Gives more than can be recorded."""
    return ToolOutput("ok", value=LARGE)


async def enter_more(proposal: Any, follow: Any) -> Any:
    return Enter((*proposal.messages, message(LARGE)))


async def add_context(proposal: Any, follow: Any) -> Any:
    return Allow(additional_contexts=(message(LARGE),))


@pytest.mark.rule("X3", "T9")
@pytest.mark.parametrize(("point", "hook"), [(PRE_STEP, enter_more), (PROMPT_SUBMIT, add_context)])
async def test_messages_of_hooks_that_no_store_takes_end_the_turn_and_are_not_recorded(point: Any, hook: Any) -> None:
    async with stage("never") as s:
        s.agent.scope.on(point, hook)
        await s.ask()
        assert s.ends[0].startswith("error")
        assert largest(s) < 10_000


@pytest.mark.rule("X3", "R2")
async def test_a_system_prompt_that_no_store_takes_ends_the_turn_and_is_not_recorded() -> None:
    async with stage("never") as s:
        s.agent.prompt.section("large", LARGE)
        await s.ask()
        assert s.ends[0].startswith("error")
        assert largest(s) < 10_000


@pytest.mark.rule("X3", "K9")
async def test_a_result_that_no_store_takes_is_an_error_result() -> None:
    calls = [BlockStart(0, "tool-call", "c", "large"), BlockEnd(0), Finished(Finish("tool-calls"))]
    async with stage(calls, "done", tools=[large]) as s:
        await s.ask()
        assert "cannot be shown" in s.results()["c"]
        assert largest(s) < 10_000


@pytest.mark.rule("X3", "Q5")
@pytest.mark.parametrize(
    "chunks",
    [
        [TextDelta(0, LARGE), BlockEnd(0), Finished(Finish("stop"))],
        [TextDelta(0, "a"), BlockEnd(0, {"private": LARGE}), Finished(Finish("stop"))],
        [TextDelta(0, "a"), BlockEnd(0), Finished(Finish("stop"), {"private": LARGE})],
        [TextDelta(0, "a"), BlockEnd(0), BlockStart(1, "tool-call", "c", LARGE), Finished(Finish("tool-calls"))],
    ],
    ids=["text", "private data of a block", "private data of the answer", "a name"],
)
async def test_an_answer_beyond_its_bound_fails_and_what_lies_beyond_is_not_recorded(chunks: list[Any]) -> None:
    async with stage([BlockStart(0, "text"), *chunks]) as s:
        await s.ask()
        assert s.ends == ["error MALFORMED_RESPONSE"]
        assert "max_answer_bytes" in s.errors[0].failure.message
        assert largest(s) < 10_000


@pytest.mark.rule("X3", "Q5")
async def test_one_option_raises_the_bound_of_an_answer() -> None:
    text = "x" * (9 * 1024 * 1024)
    chunks = [BlockStart(0, "text"), TextDelta(0, text), BlockEnd(0), Finished(Finish("stop"))]
    async with stage(chunks, max_answer_bytes=16 * 1024 * 1024) as s:
        await s.ask()
        assert s.ends == ["completed"]


@pytest.mark.rule("X3")
def test_bounds_that_a_store_could_not_keep_are_refused() -> None:
    with pytest.raises(MisuseError, match="max_answer_bytes"):
        AnswerBounds(bytes=LARGEST_ANSWER + 1)
    with pytest.raises(MisuseError, match="max_answer_seconds"):
        AnswerBounds(seconds=0)
    with pytest.raises(MisuseError, match="max_result_bytes"):
        tool(max_result_bytes=MAX_PART_BYTES)(nothing)
    with pytest.raises(InvalidData, match="more than"):
        check_bytes(MAX_EVENT_BYTES + 1, "an event", MAX_EVENT_BYTES)


@pytest.mark.rule("X3", "D3")
def test_messages_recorded_together_fit_into_one_event() -> None:
    half = message("x" * (MAX_PART_BYTES // 2))
    check_batch([half] * 10)
    with pytest.raises(MisuseError, match="a batch of 20 messages"):
        check_batch([half] * 20)


def largest(s: Stage) -> int:
    """The length of the longest event recorded, as a store would have it."""
    return max([len(encode_event(entry)) for entry in s.agent.session.events])
