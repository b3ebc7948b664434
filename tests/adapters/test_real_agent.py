"""A whole agent on a real model: llama.cpp with SmolLM2-135M, on this machine."""

import pytest
import trio

from tests.adapters.agents import busy, talking
from treadle import Aborted, MaxTokens
from treadle.models import TextDelta, ToolSchema
from treadle.session import AssistantAttempt
from treadle_adapters.models.anthropic import Anthropic
from treadle_adapters.models.http_model import HTTPModel
from treadle_adapters.models.openai_chat import OpenAIChat
from treadle_adapters.models.openai_responses import OpenAIResponses

pytestmark = pytest.mark.slow

STORY = "Tell me a very long story about a river, with many chapters."

MAKERS = {
    "chat": lambda address: OpenAIChat(f"{address}/v1"),
    "messages": Anthropic,
    "responses": lambda address: OpenAIResponses(f"{address}/v1"),
}


@pytest.fixture(params=list(MAKERS))
def model(request: pytest.FixtureRequest, llama: str) -> HTTPModel:
    return MAKERS[request.param](llama)


@pytest.mark.rule("Q5", "Q9")
async def test_a_turn_of_a_real_model_streams_and_keeps_its_stream_and_tokens(model: HTTPModel) -> None:
    async with talking(model, system_prompt="Be brief.", max_tokens=16) as talk:
        await talk.ask(STORY)
        (answer,) = talk.answers
        assert answer.stream is not None
        deltas = [chunk for _, chunk in answer.stream.chunks() if isinstance(chunk, TextDelta)]
        assert len(deltas) > 5
        assert "".join([delta.text for delta in deltas]) == answer.message.text
        assert talk.chunks == len(answer.stream)
        assert answer.usage is not None
        assert answer.usage.output_tokens == 16
        assert talk.asked == [["system Be brief.", f"user {STORY}"]]


@pytest.mark.rule("S4", "Q1")
async def test_the_second_turn_of_a_real_model_has_the_first_in_its_history(model: HTTPModel) -> None:
    async with talking(model, max_tokens=8) as talk:
        await talk.ask("My name is Ada. Say hello.")
        await talk.ask("What is my name?")
        first, second = talk.answers
        assert talk.asked[1] == [
            "user My name is Ada. Say hello.",
            f"assistant {first.message.text!r}",
            "user What is my name?",
        ]
        assert first.usage is not None
        assert second.usage is not None
        assert (second.usage.input_tokens or 0) > (first.usage.input_tokens or 0) + 8


@pytest.mark.rule("C3", "C5", "N7")
async def test_a_cancelled_turn_ends_within_a_second_frees_the_server_and_keeps_its_text(
    model: HTTPModel, llama: str
) -> None:
    async with talking(model, max_tokens=1_000) as talk:
        asked = trio.current_time()
        talk.agent.followup(STORY)
        await talk.streamed(8)
        assert await busy(llama)
        began = trio.current_time()
        pace = began - asked  # what a second was to hold is more where others use the machine
        talk.agent.cancel()
        assert isinstance(await talk.agent.when_idle(), Aborted)
        assert trio.current_time() - began < 1.0 + pace
        with trio.fail_after(1.0 + pace):
            while await busy(llama):
                pass
        (answer,) = talk.answers
        assert answer.interrupted
        assert answer.message.text
        assert answer.stream is not None
        assert len(answer.stream) < 100
        assert talk.facts(AssistantAttempt) == []
        assert talk.log[-3:] == [
            f"assistant {answer.message.text!r} interrupted",
            "step/end 1.1",
            "turn/end 1 aborted user",
        ]


@pytest.mark.rule("C5", "S4")
async def test_after_a_cancel_the_partial_answer_is_history_and_the_agent_goes_on(model: HTTPModel) -> None:
    async with talking(model, max_tokens=1_000) as talk:
        talk.agent.followup(STORY)
        await talk.streamed(8)
        talk.agent.cancel()
        await talk.agent.when_idle()
        talk.agent.followup("Stop there.")
        await talk.streamed(4)
        talk.agent.cancel()
        await talk.agent.when_idle()
        partial = talk.answers[0].message.text
        assert talk.asked[1] == [f"user {STORY}", f"assistant {partial!r}", "user Stop there."]


@pytest.mark.rule("D6", "T1")
async def test_steering_in_the_middle_of_a_real_answer_is_read_by_the_next_step_of_the_same_turn(
    model: HTTPModel,
) -> None:
    async with talking(model, max_tokens=24) as talk:
        talk.agent.followup(STORY)
        await talk.streamed(6)
        talk.agent.steer("Make it about a mountain.")
        ended = await talk.agent.when_idle()
        first, _ = talk.answers
        assert talk.asked[1] == [
            f"user {STORY}",
            f"assistant {first.message.text!r}",
            "user Make it about a mountain.",
        ]
        starts = [text for text in talk.log if text.startswith(("turn/", "step/start"))]
        assert starts[:3] == ["turn/start 1", "step/start 1.1", "step/start 1.2"]
        assert len(starts) == 4
        if talk.answers[0].finish is not None and talk.answers[0].finish.kind == "max-tokens":
            assert isinstance(ended, MaxTokens)


@pytest.mark.rule("Q1")
async def test_a_real_server_accepts_the_tools_it_is_offered(model: HTTPModel) -> None:
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async with talking(model, tools=[add], max_tokens=4, max_steps_per_turn=2) as talk:
        await talk.ask("Say hello.")
        assert [type(tool) for tool in talk.requests[0].tools] == [ToolSchema]
        assert talk.answers
