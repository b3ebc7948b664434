"""What running tools put out is told while they run: to those who watch, who join later, and who come back."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.adapters.web.served import SERVERS, Listener, Server, event_of, served
from tests.adapters.web.test_streams import host_of, session
from treadle import Answer, Call, Host, tool
from treadle.hooks import tell
from treadle.tools import ToolRun
from treadle_adapters.progress import TOOL_PROGRESS, ToolProgress
from treadle_adapters.web import Limits


class Talkative:
    """A tool that puts out what it is given, from any thread, and ends on ``None``."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    async def run(self, run: ToolRun, name: str) -> str:
        """Talk."""
        at = 0
        while True:
            while at >= len(self.given):  # noqa: ASYNC110  # it is given from another thread
                await trio.sleep(0.002)
            news, at = self.given[at], at + 1
            if news is None:
                return f"{name} is over"
            text, done, total = (news, None, None) if isinstance(news, str) else news
            tell(run.agent.scope, TOOL_PROGRESS, ToolProgress(run.agent, run.call, text, done, total))


def talking() -> tuple[Host, Talkative]:
    talkative = Talkative()
    host = host_of(Answer(calls=[Call("talk", {"name": "it"})]), "Well.")
    host.tools.register(tool(talkative.run, name="talk"))
    return host, talkative


class Screen:
    """The output of the calls of a session, as a client shows it."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.text: dict[str, str] = {}
        self.left_out: dict[str, int] = {}
        self.far: tuple[Any, Any] = (None, None)

    async def until(self, text: str) -> None:
        """Follow until some call shows a text."""
        while not any(text in shown for shown in self.text.values()):
            told = await self.listener.next()
            assert told is not None
            if told["event"] != "output":
                continue
            data = told["data"]
            call, start = data["callId"], data["from"]
            assert told["id"] is None  # it is no place to go on from
            if start != self.left_out.get(call, 0) + len(self.text.get(call, "")):
                self.text[call], self.left_out[call] = "", start
            self.text[call] = self.text.get(call, "") + data["text"]
            self.far = (data["done"], data["total"])


async def screen(server: Server, name: str, after: str | None = None) -> Screen:
    return Screen(await server.listen(name, after))


@pytest.mark.parametrize("kind", SERVERS)
async def test_output_is_told_as_it_comes_and_from_its_beginning_to_who_joins(kind: str) -> None:
    host, talkative = talking()
    async with served(host, kind) as server:
        name = await session(server, "Go")
        first = await screen(server, name)
        talkative.given += ["one\n", "two\n"]
        await first.until("two\n")
        second = await screen(server, name)
        await second.until("two\n")
        talkative.given.append("three\n")
        for one in (first, second):
            await one.until("three\n")
            assert list(one.text.values()) == ["one\ntwo\nthree\n"]
        talkative.given.append(None)
        told = await first.listener.until(event_of("turn/end"))
        assert "output" not in [one["event"] for one in told]  # the result is what counts
        results = [one["data"]["data"] for one in told if one["data"].get("type") == "tool/result"]
        assert [one["content"][0]["text"] for one in results] == ["it is over"]
        late = await server.listen(name)
        told = await late.until(lambda one: one["event"] == "state")
        assert "output" not in [one["event"] for one in told]


async def test_how_far_a_call_is_is_told_with_its_words_on_lines_of_their_own() -> None:
    host, talkative = talking()
    async with served(host) as server:
        shown = await screen(server, await session(server, "Go"))
        talkative.given += [("half", 1.0, 2.0), ("nearly", 1.5, None)]
        await shown.until("half\nnearly\n")
        assert shown.far == (1.5, None)
        talkative.given.append(None)


async def test_of_endless_output_the_end_is_kept_and_what_was_left_out_is_counted() -> None:
    host, talkative = talking()
    async with served(host, limits=Limits(output=1_000)) as server:
        name = await session(server, "Go")
        shown = await screen(server, name)
        talkative.given += [f"line {number:05}\n" for number in range(2_000)]
        await shown.until("line 01999\n")
        late = await screen(server, name)
        await late.until("line 01999\n")
        for one in (shown, late):
            (text,), (left_out,) = one.text.values(), one.left_out.values()
            assert left_out + len(text) == 2_000 * 11
        assert len(next(iter(late.text.values()))) == 1_000
        talkative.given.append(None)


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_secret_that_a_tool_puts_out_is_hidden_also_where_it_is_cut(kind: str) -> None:
    token = "a-token-of-this-server-0123456789"
    host, talkative = talking()
    async with served(host, kind, tokens={token: None}, limits=Limits(gather=0.0005)) as server:
        async with server.client(token) as web:
            name = (await web.post("/api/sessions", json={"message": "Talk"})).json()["id"]
        shown = Screen(await server.listen(name, token=token))
        talkative.given += ["It is ", token[:9], token[9:20], token[20:], " and no more."]
        await shown.until("no more.")
        assert list(shown.text.values()) == ["It is [hidden] and no more."]
        talkative.given.append(None)
