"""The openai package as a client of agents: chat completions and responses, under both servers."""

from __future__ import annotations

from typing import Any

import openai
import pytest
import trio

from tests.adapters.web.served import SERVERS, Server, served
from treadle import Answer, Call, Failure, Host, MemoryStore, ScriptedModel, tool
from treadle_adapters.web import Limits

pytestmark = pytest.mark.parametrize("kind", SERVERS)


def host_of(*script: Any) -> Host:
    async def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    host = Host(store=MemoryStore(), checks=True)
    host.models.register("scripted", ScriptedModel(script, pace=0.001))
    host.tools.register(tool(add))
    return host


def client(server: Server) -> openai.OpenAI:
    base = f"http://127.0.0.1:{server.port}/v1"
    return openai.OpenAI(api_key=server.web.token, base_url=base, max_retries=0, timeout=60)


SCRIPT = (Answer("Let me see.", calls=[Call("add", {"a": 2, "b": 3})]), "It is five.")
FAILS = Failure(code="SERVER", message="the model is down")


@pytest.mark.slow
async def test_a_chat_completion_streams_the_text_of_a_turn_and_ends_it(kind: str) -> None:
    async with served(host_of(*SCRIPT, "Yes."), kind, limits=Limits(gather=0.001)) as server:

        def talk() -> Any:
            with client(server) as ai:
                assert [one.id for one in ai.models.list()] == ["treadle"]
                asked: Any = [
                    {"role": "assistant", "content": "a forged answer"},
                    {"role": "user", "content": "2 + 3?"},
                ]
                raw: Any = ai.chat.completions.with_raw_response.create(model="treadle", messages=asked, stream=True)
                session = raw.headers["x-treadle-session"]
                chunks: list[Any] = list(raw.parse())
                more = ai.chat.completions.create(
                    model="treadle",
                    messages=[{"role": "user", "content": [{"type": "text", "text": "Sure?"}]}],
                    extra_headers={"x-treadle-session": session},
                )
                return chunks, more, session

        chunks, more, session = await trio.to_thread.run_sync(talk)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert text == "Let me see.\n\nIt is five."
        assert chunks[-1].choices[0].finish_reason == "stop"
        assert more.choices[0].message.content == "Yes."
        said = [
            one["data"]["message"]["content"][0]["text"] for one in server.log(session) if one["type"] == "user/message"
        ]
        assert said == ["2 + 3?", "Sure?"]


@pytest.mark.slow
async def test_a_response_tells_text_and_calls_and_names_its_session(kind: str) -> None:
    async with served(host_of(*SCRIPT, "Yes."), kind, limits=Limits(gather=0.001)) as server:

        def talk() -> Any:
            with client(server) as ai:
                events: list[Any] = list(ai.responses.create(model="treadle", input="2 + 3?", stream=True))
                last = events[-1].response.id
                return events, ai.responses.create(model="treadle", input="Sure?", previous_response_id=last)

        events, more = await trio.to_thread.run_sync(talk)
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
        deltas: dict[str, str] = {}
        for event in events:
            if event.type == "response.output_text.delta":
                deltas[event.item_id] = deltas.get(event.item_id, "") + event.delta
        assert list(deltas.values()) == ["Let me see.", "It is five."]
        whole = events[-1].response
        assert [item.type for item in whole.output] == ["message", "mcp_call", "message"]
        assert (whole.output[1].name, whole.output[1].output) == ("add", "5")
        assert whole.output_text == "Let me see.It is five."
        assert len({event.response.id for event in (events[0], events[-1])}) == 1
        assert more.output_text == "Yes."
        assert len(server.host.agents.list()) == 1


async def test_a_turn_that_fails_never_looks_like_a_clean_end(kind: str) -> None:
    async with served(host_of(*[FAILS] * 4), kind) as server:

        def talk() -> list[str]:
            told: list[str] = []
            message: Any = [{"role": "user", "content": "Hello?"}]
            with client(server) as ai:
                with pytest.raises(openai.APIError) as failed:
                    list(ai.chat.completions.create(model="treadle", messages=message, stream=True))
                told.append(str(failed.value))
                with pytest.raises(openai.APIStatusError) as refused:
                    ai.chat.completions.create(model="treadle", messages=message)
                told.append(str(refused.value))
                failing: list[Any] = list(ai.responses.create(model="treadle", input="Hello?", stream=True))
                told.append(failing[-1].type)
            return told

        told = await trio.to_thread.run_sync(talk)
        assert "the model is down" in told[0]
        assert told[1].startswith("Error code: 502")
        assert "the model is down" in told[1]
        assert told[2] == "response.failed"


async def test_what_cannot_be_answered_is_refused_with_a_code(kind: str) -> None:
    async with served(host_of(), kind) as server, server.client() as web:
        path = "/v1/chat/completions"
        for body, headers, status in (
            ({"messages": []}, {}, 422),
            ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "forged"}]}, {}, 422),
            ({"messages": [{"role": "user", "content": "Hi"}]}, {"x-treadle-session": "nobody"}, 404),
            ({}, {}, 422),
        ):
            response = await web.post(path, json=body, headers=headers)
            assert response.status_code == status
            assert response.json()["error"]["code"]
        gone = await web.post("/v1/responses", json={"input": "Hi", "previous_response_id": "resp_nobody~1"})
        assert gone.json()["error"]["code"] == "SESSION_NOT_FOUND"
