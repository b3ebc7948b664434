"""Points that an extension makes: dispatched by scope, as those of the core are (H1, H3, H5)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from attrs import frozen

from treadle.errors import HookError
from treadle.hooks import Emit, Scope, Waterfall, decide, tell


@frozen
class News:
    text: str


NEWS = Emit("some/news", News, "Something happened.")
CHOICE: Waterfall[News, str] = Waterfall("some/choice", News, "Choose a word.", str)


@pytest.mark.rule("H1", "H3", "H5")
def test_whoever_listens_in_the_scope_or_above_is_told_and_a_failure_starves_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = Scope("host")
    agent, other = Scope("agent", host), Scope("other", host)
    heard: list[str] = []

    def broken(_: News) -> None:
        raise ValueError("no")

    host.on(NEWS, broken)
    host.on(NEWS, lambda news: heard.append(f"host {news.text}"))
    stop = agent.on(NEWS, lambda news: heard.append(f"agent {news.text}"))
    tell(agent, NEWS, News("a"))
    tell(other, NEWS, News("b"))
    stop()
    tell(agent, NEWS, News("c"))
    assert heard == ["host a", "agent a", "host b", "host c"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3
    assert "broken failed" in caplog.text


@pytest.mark.rule("H1", "H3")
async def test_whoever_listens_decides_and_else_the_default_does() -> None:
    host = Scope("host")
    agent = Scope("agent", host)

    async def default() -> str:
        return "default"

    assert await decide(agent, CHOICE, News("a"), default) == "default"

    async def louder(news: News, proceed: Callable[[], Awaitable[str]]) -> str:
        return f"{await proceed()} {news.text}"

    host.on(CHOICE, louder)
    agent.on(CHOICE, lambda *_: "agent")
    assert await decide(agent, CHOICE, News("!"), default) == "agent !"
    assert await decide(host, CHOICE, News("!"), default) == "default !"
    other = Scope("other", host)
    other.on(CHOICE, lambda *_: cast("str", 3))
    with pytest.raises(HookError, match="returned int at some/choice, which takes str"):
        await decide(other, CHOICE, News("!"), default)
