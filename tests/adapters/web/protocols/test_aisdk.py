"""The AI SDK's messages: what npm `ai` 6 and 7 make of them, and what is refused; under both servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.adapters.web.protocols.clients.node import Client, client
from tests.adapters.web.protocols.hosts import Gate, host_of
from tests.adapters.web.served import SERVERS, Server, served
from tests.adapters.web.test_streams import Paced
from treadle import Answer, Call, Failure, Host
from treadle.session import UserMessageAdded
from treadle_adapters.web import Limits

PATH = "/ai-sdk/chat"
pytestmark = pytest.mark.parametrize("kind", SERVERS)
MAJORS = pytest.mark.parametrize("package", ["ai6", "ai7"])


@asynccontextmanager
async def front_end(server: Server, package: str) -> AsyncIterator[Client]:
    address = f"http://127.0.0.1:{server.port}{PATH}"
    async with client("aisdk.mjs", package, address, server.web.token or "") as made:
        yield made


def parts(held: Any) -> list[Any]:
    """The parts of the last message, as they are told apart here."""
    message = held["messages"][-1]
    assert message["role"] == "assistant"
    keys = {"text": ("type", "text"), "dynamic-tool": ("toolName", "state", "output", "errorText")}
    return [tuple(part.get(key) for key in keys[part["type"]]) for part in message["parts"] if part["type"] in keys]


def user_texts(host: Host) -> list[str]:
    (agent,) = host.agents.list()
    added = [entry.data for entry in agent.session.events if isinstance(entry.data, UserMessageAdded)]
    return [one.message.text for one in added]


@MAJORS
async def test_a_chat_tells_texts_calls_failures_and_answers_to_what_asks(kind: str, package: str) -> None:
    add = Call("add", {"a": 2, "b": 3})
    host = host_of(
        Answer("Let me see. ", calls=[add]), "It is five.",
        Answer("Again. ", calls=[add]), "Still five.",
        Answer("Again. ", calls=[add]), "Then not.",
        Answer(calls=[Call("add", {"a": 2})]), "That was wrong.",
        *[Failure("the model is down", "SERVER")] * 3,
        asks=lambda _: len(user_texts(host)) in (2, 3),
    )  # fmt: skip
    async with served(host, kind, limits=Limits(gather=0.001)) as server, front_end(server, package) as ai:
        await ai.do("forge", text="a forged answer")
        held = await ai.do("send", text="2 + 3?")
        added = ("add", "output-available", "5", None)
        assert parts(held) == [("text", "Let me see. "), added, ("text", "It is five.")]
        assert (held["status"], held["errors"]) == ("ready", [])
        assert "forged" not in str(server.log(server.host.agents.list()[0].id))

        held = await ai.do("send", text="And asked?")
        assert parts(held)[-1][1] == "approval-requested"
        held = await ai.do("answer", approved=True)
        assert parts(held) == [("text", "Again. "), added, ("text", "Still five.")]

        await ai.do("send", text="And refused?")
        held = await ai.do("answer", approved=False)
        assert parts(held) == [("text", "Again. "), ("add", "output-denied", None, None), ("text", "Then not.")]
        assert len(held["messages"]) == 7  # each answer is one message, also where it took two requests

        held = await ai.do("send", text="And wrong?")
        assert (parts(held)[0][1], parts(held)[1]) == ("output-error", ("text", "That was wrong."))

        held = await ai.do("send", text="And broken?")
        assert (held["status"], held["errors"]) == ("error", ["the model is down"])
        assert user_texts(server.host) == ["2 + 3?", "And asked?", "And refused?", "And wrong?", "And broken?"]


@MAJORS
async def test_a_call_that_runs_while_another_asks_keeps_nobody_from_answering(kind: str, package: str) -> None:
    gate = Gate()
    calls = [Call("wait", {}), Call("add", {"a": 2, "b": 3})]
    host = host_of(Answer(calls=calls), "Both done.", asks=lambda name: name == "add", gate=gate)
    async with served(host, kind) as server, front_end(server, package) as ai:
        held = await ai.do("send", text="Both, please")
        assert [part[:2] for part in parts(held)] == [("wait", "output-available"), ("add", "approval-requested")]
        gate.opened.set()
        held = await ai.do("answer", approved=True)
        assert parts(held) == [
            ("wait", "output-available", "waited", None),
            ("add", "output-available", "5", None),
            ("text", "Both done."),
        ]


@MAJORS
async def test_who_comes_back_gets_the_whole_answer_and_a_stop_is_no_clean_end(kind: str, package: str) -> None:
    paced = Paced()
    host = host_of(paced, paced, paced)
    async with served(host, kind) as server, front_end(server, package) as ai, server.client() as web:
        assert (await web.get(f"{PATH}/chat/stream")).status_code == 204
        await ai.do("send", text="Count", waits=False)
        paced.let = 3
        while not (held := await ai.do("look"))["messages"][1:]:
            pass
        async with front_end(server, package) as other:  # a reload: it knows nothing of the answer
            await other.do("resume", waits=False)
            while not (again := await other.do("look"))["messages"]:
                pass
            assert again["messages"][0]["id"] == held["messages"][1]["id"]
            (agent,) = server.host.agents.list()
            await web.post(f"/api/sessions/{agent.id}/cancel", json={})
            while (again := await other.do("look"))["status"] not in ("ready", "error"):
                pass
            assert parts(again)[0][1].startswith("1 2 3")
        await ai.do("resume")
        assert (await ai.do("look"))["status"] == "ready"
        assert (await web.get(f"{PATH}/chat/stream")).status_code == 204


def told(response: httpx.Response) -> list[Any]:
    """The parts of a stream that ended in order."""
    assert response.status_code == 200, response.text
    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    blocks = response.text.split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-2]]


def message(text: str, name: str = "m1") -> dict[str, Any]:
    return {"id": name, "role": "user", "parts": [{"type": "text", "text": text}]}


async def test_the_answer_is_made_of_steps_and_ends_with_the_turn(kind: str) -> None:
    host = host_of(Answer("Let me see. ", calls=[Call("add", {"a": 2, "b": 3})]), "It is five.")
    async with served(host, kind) as server, server.client() as web:
        body = {"id": "chat", "messages": [message("2 + 3?")], "trigger": "submit-message"}
        found = told(await web.post(PATH, json=body))
        kinds = [part["type"] for part in found]
        assert [one for one in kinds if one != "text-delta"] == [
            "start", "start-step", "text-start", "text-end", "tool-input-available", "tool-output-available", "finish-step",
            "start-step", "text-start", "text-end", "finish-step", "finish",
        ]  # fmt: skip
        assert found[0]["messageId"] == "answer-m1"
        assert found[-1]["finishReason"] == "stop"
        again = await web.post(PATH, json=body)
        assert (again.status_code, again.json()["code"]) == (409, "DUPLICATE_MESSAGE")


@pytest.mark.parametrize(("ends", "told_as"), [("cancel", "abort"), ("fail", "error"), ("drain", "abort")])
async def test_an_answer_that_breaks_off_is_told_as_such(kind: str, ends: str, told_as: str) -> None:
    paced = Paced()
    async with served(host_of(paced), kind, drain=0) as server, server.client() as web:
        body = {"id": "chat", "messages": [message("Count")]}
        paced.let = 1
        text, ended = "", False
        async with web.stream("POST", PATH, json=body) as response:
            async for piece in response.aiter_text():
                text += piece
                if "text-delta" not in text or ended:
                    continue
                ended = True
                (agent,) = server.host.agents.list()
                if ends == "cancel":
                    async with server.client() as other:
                        await other.post(f"/api/sessions/{agent.id}/cancel", json={})
                elif ends == "fail":
                    paced.fails, paced.let = True, 2
                else:
                    server.stop.set()
        found = [json.loads(block[6:]) for block in text.split("\n\n") if block[6:7] == "{"]
        assert [part["type"] for part in found[-2:]] == ["text-end", told_as]


async def test_what_cannot_be_asked_or_answered_is_refused_with_a_code(kind: str) -> None:
    host = host_of(Answer(calls=[Call("add", {"a": 2, "b": 3})]), "Five.", asks=lambda _: True)
    async with served(host, kind) as server, server.client() as web:

        async def refused(body: Any, status: int, code: str) -> None:
            response = await web.post(PATH, json=body)
            assert (response.status_code, response.json()["code"]) == (status, code), response.text

        def answers(*given: tuple[str, Any]) -> Any:
            told = [{"state": "approval-responded", "approval": {"id": name, "approved": yes}} for name, yes in given]
            return {"id": "chat", "messages": [{"id": "a", "role": "assistant", "parts": told}]}

        file = {"type": "file", "mediaType": "image/png", "url": "data:,"}
        await refused({"id": "chat", "messages": []}, 422, "INVALID_MESSAGE")
        await refused({"id": "chat", "messages": [{"id": "s", "role": "system"}]}, 422, "INVALID_MESSAGE")
        await refused({"id": "chat", "messages": [{"id": "a", "role": "assistant"}]}, 422, "INVALID_MESSAGE")
        await refused(
            {"id": "chat", "messages": [{"id": "u", "role": "user", "parts": [file]}]}, 422, "INVALID_MESSAGE"
        )
        await refused({"id": "chat", "messages": [{"id": "u", "role": "user", "parts": []}]}, 422, "INVALID_MESSAGE")
        await refused({"messages": [message("No chat")]}, 422, "INVALID_BODY")
        await refused(answers(("nothing", True)), 404, "NOT_PENDING")

        found = told(await web.post(PATH, json={"id": "chat", "messages": [message("2 + 3?")]}))
        (asked,) = [part["approvalId"] for part in found if part["type"] == "tool-approval-request"]
        await refused(answers((asked, "maybe")), 422, "INVALID_MESSAGE")
        # one that does not wait keeps the other from being answered: it still waits afterwards
        await refused(answers((asked, True), ("nothing", True)), 404, "NOT_PENDING")
        found = told(await web.post(PATH, json=answers((f"{asked.partition('~')[0]}~{'9' * 18}", True))))
        assert [part["delta"] for part in found if part["type"] == "text-delta"] == ["Five."]
        await refused(answers((asked, True)), 409, "ANSWERED")
        assert (await web.get(f"{PATH}/nobody/of/that/name/stream")).status_code == 204
