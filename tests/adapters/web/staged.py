"""The page of a server in a real browser, as a person uses it; what is served plays what a test tells it to."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio

from tests.adapters.web.served import Server, served_in_thread
from tests.diagrams.browser import DEADLINE, Browser
from treadle import Host, MemoryStore, ModelRequest, ScriptedModel, tool
from treadle.hooks import TOOLS_PRE_EXECUTE, AllowCall, AskCall, tell
from treadle.models import BlockEnd, BlockStart, Finish, Finished, TextDelta
from treadle.tools import ToolRun
from treadle_adapters.progress import TOOL_PROGRESS, ToolProgress
from treadle_diagrams import LivePictures

TOKEN = "the-token-of-the-page"
FORTY = " ".join([f"word{number}" for number in range(40)])


class Gate:
    """Lets through one piece after another, from any thread."""

    def __init__(self) -> None:
        self.let = 0

    async def reach(self, number: int) -> None:
        """Wait until so many were let through."""
        while number > self.let:  # noqa: ASYNC110  # it is opened from another thread
            await trio.sleep(0.002)


class Words(Gate):
    """An answer whose words come when they are let go."""

    def __init__(self, text: str = FORTY) -> None:
        super().__init__()
        self.words = [f"{word} " for word in text.split(" ")]

    def __call__(self, _: ModelRequest) -> Any:
        """Play it."""
        return self._words()

    async def _words(self) -> Any:
        yield BlockStart(0, "text")
        for number, word in enumerate(self.words):
            await self.reach(number + 1)
            yield TextDelta(0, word)
        yield BlockEnd(0)
        yield Finished(Finish("stop"))


class Play:
    """What the served agents play: answers from any thread, and tools.

    Attributes:
        lines: what ``run`` puts out; a gate, ``talking``, lets them go and then the result.
        result: of ``run``; how many lines they were unless given.
    """

    def __init__(self, store: Any = None) -> None:
        self._answers: deque[Any] = deque()
        self.lines: list[str] = []
        self.talking = Gate()
        self.result = ""
        self.host = Host(store=store if store is not None else MemoryStore(), checks=True)
        self.host.models.register("scripted", ScriptedModel(default=self._next))
        for made in (self.act, self.read_file, self.run):
            self.host.tools.register(tool(made))
        self.host.on(TOOLS_PRE_EXECUTE, self._ask)

    def plays(self, *answers: Any) -> None:
        """What is answered next; whatever was left is forgotten."""
        self._answers = deque(answers)

    def _next(self, _: ModelRequest) -> Any:
        return self._answers.popleft() if self._answers else "Done."

    async def act(self, what: str) -> str:
        """Do it; it is asked first."""
        return f"did {what}"

    async def read_file(self, path: str) -> str:
        """Read a file."""
        return f"# {path}\n\ntreadle is a driver core for AI agents, in Python on trio.\n"

    async def run(self, run: ToolRun, command: str) -> str:
        """Run something that puts out lines."""
        for number, line in enumerate(self.lines):
            await self.talking.reach(number + 1)
            tell(run.agent.scope, TOOL_PROGRESS, ToolProgress(run.agent, run.call, line))
        await self.talking.reach(len(self.lines) + 1)
        return self.result or f"{command}: {len(self.lines)} lines"

    async def _ask(self, proposal: Any, _: Any) -> AskCall | AllowCall:
        return AskCall("Really act?") if proposal.call.name == "act" else AllowCall()


class Page:
    """One page of a server."""

    def __init__(self, browser: Browser, port: int, tab: str | None = None) -> None:
        self.browser = browser
        self.base = f"http://127.0.0.1:{port}"
        self.tab = tab or browser.page
        self.since = len(browser.told)

    def call(self, method: str, **params: Any) -> Any:
        """Call the DevTools protocol."""
        with self.browser.on(self.tab):
            return self.browser.call(method, **params)

    def go(self, path: str = "/") -> Page:
        """Open a path anew."""
        with self.browser.on(self.tab):
            for address in ("about:blank", self.base + path):
                since = len(self.browser.told)
                self.browser.call("Page.navigate", url=address)
                self.browser.until("Page.loadEventFired", since)
        return self

    def reload(self) -> None:
        """As a person reloads."""
        with self.browser.on(self.tab):
            since = len(self.browser.told)
            self.browser.call("Page.reload")
            self.browser.until("Page.loadEventFired", since)

    def enter(self, path: str = "/") -> Page:
        """Open it with the token."""
        self.go(f"{path}#token={TOKEN}")
        self.wait("document.getElementById('link').textContent === 'connected'")
        return self

    @property
    def session(self) -> str:
        """The id of the session that is shown."""
        return self.run("new URLSearchParams(location.hash.slice(1)).get('session') ?? ''")

    def run(self, expression: str) -> Any:
        """The value of an expression."""
        with self.browser.on(self.tab):
            return self.browser.run(expression)

    def wait(self, expression: str) -> None:
        """Wait until an expression holds."""
        end = time.monotonic() + DEADLINE
        while not self.run(expression):
            assert time.monotonic() < end, (expression, self.run("document.body.innerText"))
            self.run("new Promise(done => setTimeout(done, 20))")

    def text(self, place: str = "body") -> str:
        """What is to be read in a place."""
        return self.run(f"document.querySelector({json.dumps(place)})?.innerText ?? ''")

    def sees(self, text: str, place: str = "body") -> None:
        """Wait until a text stands in a place; a transcript's also where it has not been scrolled to yet."""
        what = "textContent" if place == "#transcript" else "innerText"
        self.wait(f"!!document.querySelector({json.dumps(place)})?.{what}.includes({json.dumps(text)})")

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        with self.browser.on(self.tab):
            self.browser.type(text)

    def press(self, key: str) -> None:
        """Press a key."""
        with self.browser.on(self.tab):
            self.browser.press(key)

    def say(self, text: str, alt: bool = False) -> None:
        """Write a message and send it, or queue it."""
        self.run("document.getElementById('say').focus()")
        self.type(text)
        event = f"new KeyboardEvent('keydown', {{key: 'Enter', altKey: {str(alt).lower()}, bubbles: true, cancelable: true}})"
        self.run(f"document.getElementById('say').dispatchEvent({event})")

    def click(self, label: str, within: str = "body") -> None:
        """Click a button that can be seen."""
        found = f"[...document.querySelectorAll('{within} button')].find(b => b.textContent === {json.dumps(label)} && b.offsetParent)"
        self.wait(f"!!{found}")
        self.run(f"{found}.click()")


@contextmanager
def stage(store: Any = None, **options: Any) -> Iterator[tuple[Server, Play]]:
    """A server whose agents play what they are told, with pictures."""
    play = Play(store)
    with served_in_thread(play.host, tokens={TOKEN: None}, pictures=LivePictures(), **options) as server:
        yield server, play
