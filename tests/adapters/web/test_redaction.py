"""Secrets are served through no door: the server's tokens, the page's cookie, and the keys of models."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.adapters.web.served import SERVERS, Server, served
from tests.adapters.web.test_streams import socket
from treadle import Answer, Call, Failure, Host, MemoryStore, ModelRequest, ScriptedModel, tool
from treadle.hooks import TOOLS_PRE_EXECUTE, AskCall
from treadle.models import BlockEnd, BlockStart, Finish, Finished, TextDelta
from treadle_adapters.models.openai_chat import OpenAIChat
from treadle_adapters.web import Limits
from treadle_adapters.web.access import cookie_for

TOKEN = "a-token-of-the-operator-0815"
KEY = "sk-live-4711-0815-abcdefgh"
SECRETS = (TOKEN, cookie_for(TOKEN), KEY)
FORMS = (*SECRETS, *[base64.b64encode(one.encode()).decode().rstrip("=") for one in SECRETS])
TALE = f"The key is {KEY}, the token is {TOKEN}, the cookie {cookie_for(TOKEN)}."

pytestmark = [pytest.mark.rule("X1"), pytest.mark.parametrize("kind", SERVERS)]


async def cut(_: ModelRequest) -> Any:
    """An answer whose secrets are cut over deltas."""
    yield BlockStart(0, "text")
    for at in range(0, len(TALE), 5):
        yield TextDelta(0, TALE[at : at + 5])
    yield BlockEnd(0)
    yield Finished(Finish("stop"))


def host_of(*script: Any, asks: bool = False) -> Host:
    async def environment() -> str:
        """Tell the environment."""
        return f"{TALE}\n{KEY[:9]}\n{KEY[9:]}\n{base64.b64encode(KEY.encode()).decode()}"

    async def ask(_: Any, go_on: Any) -> Any:
        return AskCall(f"May I tell {KEY}?") if asks else await go_on()

    host = Host(store=MemoryStore())
    host.models.register("scripted", ScriptedModel(script, pace=0.001))
    host.models.register("openai", OpenAIChat("http://127.0.0.1:9/v1", api_key=KEY))
    host.tools.register(tool(environment))
    host.on(TOOLS_PRE_EXECUTE, ask)
    return host


def check(text: str) -> None:
    """No secret stands in what was served, nor in what a client puts together of it."""
    for form in FORMS:
        assert form not in text, text
    joined = "".join(_texts(text))
    for form in FORMS:
        assert form not in joined, joined


def _texts(text: str) -> list[str]:
    """The pieces of texts in what was served: of deltas, and of recorded streams."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key in ("delta", "text", "content") and isinstance(inner, str):
                    found.append(inner)
                elif key == "texts":
                    found.extend(inner)
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    for line in [line.removeprefix("data: ") for line in text.splitlines()]:
        if line[:1] in ("{", "[") and line != "[DONE]":
            walk(json.loads(line))
    return found


async def say(server: Server, path: str, body: Any) -> str:
    async with server.client(TOKEN) as web:
        response = await web.post(path, json=body)
    check(response.text)
    return response.text


async def test_events_frames_and_resources_tell_no_secret(kind: str) -> None:
    host = host_of(cut, Answer(calls=[Call("environment", {})]), TALE, *[Failure(f"refused: {KEY}", "SERVER")] * 3)
    async with served(host, kind, tokens={TOKEN: None}, limits=Limits(gather=0.0005)) as server:
        made = json.loads(await say(server, "/api/sessions", {"message": f"My key: {KEY}"}))
        name, path = made["id"], f"/api/sessions/{made['id']}"
        listener = await server.listen(name, token=TOKEN)
        web_socket = await socket(server, TOKEN)
        await web_socket.say(watch=name)
        told: list[Any] = []
        for turn, text in enumerate(("Go on", "And on", None), 1):
            told += await listener.until(lambda one: one["event"] == "event" and one["data"]["type"] == "turn/end")
            if text is not None:
                await say(server, path + "/messages", {"text": f"{text}: {TOKEN}", "id": f"m{turn}"})
        check("\n".join(json.dumps(one["data"]) for one in told))
        frames = [chunk for one in told if one["event"] == "frames" for chunk in one["data"]["chunks"]]
        assert any("[hidden]" in chunk.get("text", "") for chunk in frames)
        ends = 0
        lines: list[str] = []
        while ends < 3:
            one = await web_socket.next()
            lines.append(json.dumps(one["data"]))
            ends += one["event"] == "event" and one["data"]["type"] == "turn/end"
        check("\n".join(lines))
        await say(server, path + "/maintenance", {"task": KEY})
        await say(server, f"/api/sessions/{KEY}/cancel", {})
        async with server.client(TOKEN) as web:
            for door in ("", path, path + "/log", path + "/events", path + "/inbox", path + "/messages/m1"):
                text = (await web.get(door if door.startswith("/api") else "/api/sessions" + door)).text
                check(text)
            log = (await web.get(path + "/log")).text
            assert log.count("[hidden]") > 10
            events = [json.loads(line) for line in log.splitlines()[1:]]
            assert [one["seq"] for one in events] == list(range(len(events)))
            for page in ("/", "/page.js", "/api/openapi.json", "/healthz"):
                check((await web.get(page)).text)


async def test_a_question_about_a_call_tells_no_secret(kind: str) -> None:
    host = host_of(Answer(calls=[Call("environment", {})]), "Done.", asks=True)
    async with served(host, kind, tokens={TOKEN: None}) as server, server.client(TOKEN) as web:
        name = json.loads(await say(server, "/api/sessions", {"message": "Go"}))["id"]
        listener = await server.listen(name, token=TOKEN)
        told = await listener.until(lambda one: one["event"] == "approvals")
        assert told[-1]["data"][0]["question"] == "May I tell [hidden]?"
        response = await web.get(f"/api/sessions/{name}/approvals")
        check(response.text)
        await say(server, f"/api/sessions/{name}/approvals/{response.json()[0]['id']}", {"approved": False})


@pytest.mark.parametrize("fails", [False, True])
async def test_no_protocol_tells_a_secret(kind: str, fails: bool) -> None:
    call = Answer(TALE, calls=[Call("environment", {})])
    turn = [call, *[Failure(f"refused: {KEY}", "SERVER")] * 3] if fails else [call, cut]
    said = {"role": "user", "content": f"My key: {KEY}"}
    async with served(host_of(*turn * 5), kind, tokens={TOKEN: None}, limits=Limits(gather=0.0005)) as server:
        for path, body in (
            ("/v1/chat/completions", {"messages": [said], "stream": True}),
            ("/v1/chat/completions", {"messages": [said]}),
            ("/v1/responses", {"input": [said], "stream": True}),
            ("/agui", {"threadId": "t", "runId": "r", "messages": [said]}),
            ("/ai-sdk/chat", {"id": "c", "messages": [{"role": "user", "id": "m", "parts": [{"type": "text", "text": KEY}]}]}),
        ):  # fmt: skip
            text = await say(server, path, body)
            assert "[hidden]" in text
