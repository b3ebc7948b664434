"""No door lets in more than any store takes: what is too large is refused or cut there, is told, and the agent goes on (X3)."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.doors import TEXTS_WITHIN, VALUES, VALUES_WITHIN
from tests.stage import note, stage
from treadle import Failure, ScriptedModel, tool
from treadle.errors import MisuseError
from treadle.hooks import REQUEST, SESSION_EVENT, SessionEventAdded
from treadle.lossless import MAX_PART_BYTES
from treadle.models import BlockEnd, BlockStart, CallConfig, Finish, Finished, ModelInfo, clean_failure
from treadle.models.routes import MAX_NAME, MAX_TOKENS
from treadle.session import RequestHeader, encode_event
from treadle.session.log import MAX_HEADER_TEXT
from treadle.words.failures import MAX_WORD

LARGE = "x" * (MAX_PART_BYTES + 1)
"""Text that no event takes."""
LONGEST = 300_000
"""How long an event may be, as JSON, after something large was offered: a result that was cut is the longest."""
CALLING = [BlockStart(0, "tool-call", "c", "work"), BlockEnd(0), Finished(Finish("tool-calls"))]

CUT = {
    "a blocked result",
    "a guard",
    "a model's failure",
    "a question",
    "a refused call",
    "a replaced execution",
    "a tool's final content",
    "an approver",
    "what a hook fails with",
    "what a renderer shows",
    "what a tool raises",
    "what a tool returns",
}
"""Doors at which text is cut, and its beginning recorded; at the others all of it is refused."""


@tool
def work() -> str:
    """Works."""
    return "worked"


async def bounded(door: Any, given: Any) -> str:
    """Enter a door and have a turn; what was recorded and told, as text."""
    async with stage(CALLING, *["done"] * 6, tools=[work]) as s:
        said: list[str] = []

        def measure(told: SessionEventAdded) -> None:
            line = encode_event(told.event)
            assert len(line) < LONGEST, told.event.type
            said.append(line.decode())

        s.host.on(SESSION_EVENT, measure)  # of its children, too
        door(s, given)
        with trio.fail_after(60):
            await s.ask()
        assert len(s.ends) == 1
        return "".join([*said, *[error.failure.message for error in s.errors]])


@pytest.mark.rule("X3", "K9", "D3", "R2", "Q5")
@pytest.mark.parametrize("door", TEXTS_WITHIN)
async def test_text_that_no_store_takes_is_refused_or_cut_at_every_door_of_a_turn(door: str) -> None:
    told = await bounded(TEXTS_WITHIN[door], LARGE)
    if door in CUT:
        assert "xxxxxxxxxx" in told
    else:
        assert "(X3" in told or "1 to 128 printable characters" in told


@pytest.mark.rule("X3", "K9", "K11", "D3", "R2", "Q5")
@pytest.mark.parametrize("door", VALUES_WITHIN)
async def test_a_value_that_no_store_takes_is_refused_at_every_door_of_a_turn(door: str) -> None:
    assert "(X3" in await bounded(VALUES_WITHIN[door], LARGE)


@pytest.mark.rule("X3", "D3", "S6")
@pytest.mark.parametrize("door", VALUES)
async def test_a_value_that_no_store_takes_is_refused_at_every_door_and_nothing_is_recorded(door: str) -> None:
    async with stage() as s:
        s.agent.inbox.append("next-turn", note("pending"))
        before = list(s.agent.session.events)
        with pytest.raises(MisuseError, match="more than the 67,108,864 that can be recorded"):
            VALUES[door](s, LARGE)
        assert list(s.agent.session.events) == before


@pytest.mark.rule("X3", "R2", "K1")
@pytest.mark.parametrize(
    "told",
    [{"description": LARGE}, {"parameters": {"type": "object", "title": LARGE}}],
    ids=["description", "schema"],
)
async def test_what_a_registered_tool_says_beyond_the_bound_ends_the_turn_and_is_not_recorded(told: Any) -> None:
    given = {"parameters": {"type": "object"}, **told}
    async with stage("never", tools=[tool(note, name="large", **given)]) as s:
        await s.ask()
        assert s.ends == ["error PROMPT_FAILED"]
        assert "what the tools say to the model is 67,1" in s.errors[0].failure.message
        assert max([len(encode_event(entry)) for entry in s.agent.session.events]) < LONGEST


@pytest.mark.rule("X3", "S8")
@pytest.mark.parametrize("field", ["cwd", "origin", "session_id", "parent_session", "agent_preset"])
async def test_a_header_beyond_its_bounds_makes_no_session(field: str) -> None:
    fields: dict[str, Any] = {field: "/" + "x" * MAX_HEADER_TEXT}
    async with stage() as s:
        with pytest.raises(MisuseError) as caught:
            await s.host.agents.create(**fields)
        assert len(str(caught.value)) < 1_000
        assert len(s.host.agents.list()) == 1


# --- what is recorded of a request and of a failure -------------------------------------------------------------------


@pytest.mark.rule("X3", "Q4")
@pytest.mark.parametrize(
    ("config", "words"),
    [
        (CallConfig("scripted", "x" * (MAX_NAME + 1)), "model is 1,001 characters, more than the 1,000"),
        (CallConfig("scripted", "m", None, "x" * (MAX_NAME + 1)), "reasoning_effort is 1,001 characters"),
        (CallConfig("x" * (MAX_NAME + 1), "m"), "provider is 1,001 characters"),
        (CallConfig("scripted", "m", MAX_TOKENS + 1), "not a larger one"),
        (CallConfig("scripted", "m", 10**5_000), "not a larger one"),
        (CallConfig("scripted", "m", -(10**9)), "not -1000000000"),
    ],
)
async def test_a_configuration_beyond_its_bounds_ends_the_turn_and_is_not_recorded(
    config: CallConfig, words: str
) -> None:
    async with stage("never") as s:
        s.agent.scope.on(REQUEST, lambda payload, follow: config)
        await s.ask()
        assert s.ends == ["error INVALID_REQUEST"]
        assert words in s.errors[0].failure.message
        assert s.facts(RequestHeader) == []


@pytest.mark.rule("X3", "Q4")
async def test_a_configuration_at_its_bounds_is_taken_and_marks_only_what_can_be_a_default() -> None:
    config = CallConfig("scripted", "x" * MAX_NAME, MAX_TOKENS, "e" * MAX_NAME, ("max_tokens", LARGE))
    async with stage("done") as s:
        s.agent.scope.on(REQUEST, lambda payload, follow: config)
        await s.ask()
        assert s.ends == ["completed"]
        (header,) = s.facts(RequestHeader)
        assert header.config.defaulted == ("max_tokens",)
        assert header.config.model == "x" * MAX_NAME


@pytest.mark.rule("X3", "Q4", "S1")
@pytest.mark.parametrize(
    "told",
    [
        ModelInfo(context_window=2**80),
        ModelInfo(context_window=-1),
        ModelInfo(context_window="large"),  # type: ignore[arg-type]
        ModelInfo(default_max_tokens=2**80),
        ModelInfo(default_reasoning_effort="x\ud83d"),
        ModelInfo(default_reasoning_effort="x" * (MAX_NAME + 1)),
        ModelInfo(system_prompt_mode="neither"),  # type: ignore[arg-type]
        None,
    ],
)
async def test_what_an_adapter_tells_of_a_model_that_no_log_holds_ends_the_turn(told: Any) -> None:
    class Telling(ScriptedModel):
        async def model_info(self, model: str) -> Any:
            return told

    async with stage(model=Telling(["never"])) as s:
        await s.ask()
        assert s.ends == ["error INVALID_REQUEST"]
        assert s.facts(RequestHeader) == []


@pytest.mark.rule("X3", "Q5", "S1")
@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("code", "C" * 1_000, "C" * MAX_WORD),
        ("request_id", "r" * 1_000, "r" * MAX_WORD),
        ("request_id", "x\ud83d", "x\ufffd"),
        ("message", "m" * 10_000, "m" * 2_000),
        ("status", 429, 429),
        ("status", 2**80, None),
        ("status", -1, None),
        ("retry_after", 1.5, 1.5),
        ("retry_after", 10**400, None),
        ("retry_after", float("inf"), None),
        ("retry_after", float("nan"), None),
        ("retry_after", True, None),
    ],
)
async def test_a_failure_of_an_adapter_is_recorded_within_its_bounds(field: str, given: Any, kept: Any) -> None:
    fields: dict[str, Any] = {"message": "broken", "code": "BROKEN", field: given}
    assert getattr(clean_failure(Failure(**fields)), field) == kept
    async with stage(Failure(**fields)) as s:
        await s.ask()
        (told,) = s.errors
        assert getattr(told.failure, field) == kept
