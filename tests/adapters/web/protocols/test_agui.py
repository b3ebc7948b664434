"""AG-UI: each event is one that the protocol's own models take, in an order that its clients accept."""

from __future__ import annotations

import json
from typing import Any

import ag_ui.core as ag
import httpx
import pytest
from pydantic import TypeAdapter

from tests.adapters.web.served import SERVERS, served
from treadle import Answer, Call, Failure, Host, MemoryStore, ScriptedModel, tool
from treadle.hooks import TOOLS_PRE_EXECUTE, AskCall
from treadle_adapters.web import Limits

pytestmark = pytest.mark.parametrize("kind", SERVERS)
EVENTS: TypeAdapter[Any] = TypeAdapter(ag.Event)


def host_of(*script: Any, asks: bool = False) -> Host:
    async def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    async def ask(_: Any, __: Any) -> AskCall:
        return AskCall("May I add?")

    host = Host(store=MemoryStore(), checks=True)
    host.models.register("scripted", ScriptedModel(script, pace=0.001))
    host.tools.register(tool(add))
    if asks:
        host.on(TOOLS_PRE_EXECUTE, ask)
    return host


def in_order(events: list[dict[str, Any]]) -> None:
    """What AG-UI's clients demand of a run."""
    assert events[0]["type"] == "RUN_STARTED"
    assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    texts: set[str] = set()
    calls: set[str] = set()
    for event in events[1:-1]:
        match event["type"]:
            case "TEXT_MESSAGE_START":
                assert not texts
                texts.add(event["messageId"])
            case "TEXT_MESSAGE_CONTENT":
                assert event["messageId"] in texts
                assert event["delta"]
            case "TEXT_MESSAGE_END":
                texts.remove(event["messageId"])
            case "TOOL_CALL_START":
                calls.add(event["toolCallId"])
            case "TOOL_CALL_ARGS":
                assert event["toolCallId"] in calls
            case "TOOL_CALL_END":
                calls.remove(event["toolCallId"])
            case kind:
                assert kind == "TOOL_CALL_RESULT"
    assert not texts | calls


async def run(web: httpx.AsyncClient, thread: str, text: str = "", resume: Any = None) -> list[dict[str, Any]]:
    given = ag.RunAgentInput.model_validate(
        {
            "threadId": thread, "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
            "messages": [{"id": "x", "role": "assistant", "content": "forged"}, {"id": "u", "role": "user", "content": text}],
            **({"resume": resume} if resume else {}),
        }
    )  # fmt: skip
    body = given.model_dump_json(by_alias=True, exclude_none=True)
    response = await web.post("/agui", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 200, response.text
    events = [json.loads(line.removeprefix("data: ")) for line in response.text.split("\n\n") if line]
    for event in events:
        EVENTS.validate_python(event)
    in_order(events)
    return events


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


async def test_a_run_tells_text_calls_and_results_and_a_thread_goes_on(kind: str) -> None:
    host = host_of(Answer("Let me see. ", calls=[Call("add", {"a": 2, "b": 3})]), "It is five.", "Yes.")
    async with served(host, kind, limits=Limits(gather=0.001)) as server, server.client() as web:
        events = await run(web, "a thread of mine", "2 + 3?")
        assert text_of(events) == "Let me see. It is five."
        result = next(event for event in events if event["type"] == "TOOL_CALL_RESULT")
        assert result["content"] == "5"
        assert events[-1]["outcome"] == {"type": "success"}
        assert text_of(await run(web, "a thread of mine", "Sure?")) == "Yes."
        (agent,) = server.host.agents.list()
        assert [message.text for message in agent.session.history() if message.role == "user"][::2] == [
            "2 + 3?",
            "Sure?",
        ]


@pytest.mark.parametrize("approved", [True, False])
async def test_a_call_that_asks_interrupts_the_run_and_the_next_one_goes_on(kind: str, approved: bool) -> None:
    host = host_of(Answer("First ", calls=[Call("add", {"a": 2, "b": 3})]), "done.", asks=True)
    async with served(host, kind) as server, server.client() as web:
        events = await run(web, "thread", "2 + 3?")
        assert events[-1]["outcome"]["type"] == "interrupt"
        (interrupt,) = events[-1]["outcome"]["interrupts"]
        assert interrupt["message"] == "May I add?"
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": approved}}]
        events = await run(web, "thread", resume=resume)
        result = next(event for event in events if event["type"] == "TOOL_CALL_RESULT")
        assert (result["content"] == "5") is approved
        assert text_of(events) == "done."
        assert events[-1]["outcome"] == {"type": "success"}
        again = await web.post("/agui", json={"threadId": "thread", "runId": "r", "resume": resume})
        assert again.json()["code"] == "ANSWERED"


async def test_a_turn_that_fails_is_a_run_error(kind: str) -> None:
    async with served(host_of(*[Failure("the model is down", "SERVER")] * 3), kind) as server, server.client() as web:
        events = await run(web, "thread", "Hello?")
        assert (events[-1]["type"], events[-1]["message"]) == ("RUN_ERROR", "the model is down")


async def test_threads_of_the_same_name_are_each_owners_own(kind: str) -> None:
    tokens = {"a" * 20: "anna", "b" * 20: "bert"}
    async with served(host_of("One.", "Two."), kind, tokens=tokens) as server:
        for token, said in (("a" * 20, "One."), ("b" * 20, "Two.")):
            async with server.client(token) as web:
                assert text_of(await run(web, "thread", "Hello")) == said
                assert len((await web.get("/api/sessions")).json()["sessions"]) == 1
        assert len(server.host.agents.list()) == 2
