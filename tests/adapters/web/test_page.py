"""The page in a real browser: a session is begun, watched, steered, stopped, reloaded; servers die and come back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import trio

from tests.adapters.web.served import Server, served_in_thread
from tests.diagrams.browser import DEADLINE, PROGRAM, Browser
from treadle import Answer, Call, Host, MemoryStore, ModelRequest, ScriptedModel, tool
from treadle.hooks import TOOLS_PRE_EXECUTE, AskCall
from treadle.models import BlockEnd, BlockStart, Finish, Finished, TextDelta

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium: apt install chromium"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.slow,
]
TOKEN = "the-token-of-the-page"
HOSTILE = "<img src=x onerror='window.hurt=1'><script>window.hurt=1</script> \u202eabc &amp; שלום"


class Words:
    """A model whose words come when they are let go, from any thread."""

    def __init__(self, text: str = "".join(f"word{number} " for number in range(40))) -> None:
        self.words = [f"{word} " for word in text.split()]
        self.let = 0

    def __call__(self, _: ModelRequest) -> Any:
        return self._words()

    async def _words(self) -> Any:
        yield BlockStart(0, "text")
        for number, word in enumerate(self.words):
            while number >= self.let:  # noqa: ASYNC110  # it is let go from another thread
                await trio.sleep(0.002)
            yield TextDelta(0, word)
        yield BlockEnd(0)
        yield Finished(Finish("stop"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as made:
        yield made


class Page:
    """The page of a server, as a person uses it."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self.browser = browser
        self.base = f"http://127.0.0.1:{server.port}"
        self.since = len(browser.told)

    def go(self, path: str = "/") -> Page:
        for address in ("about:blank", self.base + path):
            since = len(self.browser.told)
            self.browser.call("Page.navigate", url=address)
            self.browser.until("Page.loadEventFired", since)
        return self

    def enter(self) -> Page:
        self.go(f"/#token={TOKEN}")
        self.wait("document.getElementById('link').textContent === 'connected'")
        return self

    def run(self, expression: str) -> Any:
        return self.browser.run(expression)

    def wait(self, expression: str) -> None:
        """Wait until an expression holds."""
        end = time.monotonic() + DEADLINE
        while not self.run(expression):
            assert time.monotonic() < end, (expression, self.run("document.body.innerText"))
            self.run("new Promise(done => setTimeout(done, 20))")

    def sees(self, text: str) -> None:
        self.wait(f"!!document.body?.innerText.includes({json.dumps(text)})")

    def say(self, text: str, alt: bool = False) -> None:
        self.run("document.getElementById('say').focus()")
        self.browser.type(text)
        event = f"new KeyboardEvent('keydown', {{key: 'Enter', altKey: {str(alt).lower()}, bubbles: true, cancelable: true}})"
        self.run(f"document.getElementById('say').dispatchEvent({event})")

    def press(self, label: str, within: str = "body") -> None:
        found = f"[...document.querySelectorAll('{within} button')].find(b => b.textContent === {json.dumps(label)} && b.offsetParent)"
        self.wait(f"!!{found}")
        self.run(f"{found}.click()")


def host_of(*script: Any, store: Any = None) -> Host:
    host = Host(store=store if store is not None else MemoryStore(), checks=True)
    host.models.register("scripted", ScriptedModel(script))
    return host


@pytest.fixture
def serve(browser: Browser) -> Callable[..., Any]:
    from contextlib import contextmanager

    @contextmanager
    def served(host: Host, **options: Any) -> Iterator[Page]:
        with served_in_thread(host, tokens={TOKEN: None}, **options) as server:
            browser.size(1200, 800)
            page = Page(browser, server)
            yield page
            browser.call("Page.navigate", url="about:blank")

    return served


def test_a_session_is_begun_streams_and_survives_a_reload_in_mid_stream(serve: Any, browser: Browser) -> None:
    words = Words()
    with serve(host_of(words)) as page:
        page.enter()
        assert page.run("location.hash") == ""
        page.say("Count for me")
        words.let = 20
        page.sees("word19")
        assert "word20" not in page.run("document.body.innerText")
        since = len(browser.told)
        browser.call("Page.reload")
        browser.until("Page.loadEventFired", since)
        page.sees("word19")
        page.sees("Count for me")
        words.let = 1_000
        page.sees("Turn 1: done")
        page.sees("word39")
        text = page.run("document.querySelector('.assistant .text').textContent")
        assert text == "".join(f"word{n} " for n in range(40))
        page.wait("document.querySelectorAll('.live').length === 0")
        assert page.run("document.querySelector('#sessions a').textContent").startswith("Count for me")
        assert browser.complaints(page.since) == []
        assert {one.split("?")[0].split("#")[0] for one in browser.requests(page.since)} <= {
            "about:blank", *[page.base + path for path in ("/", "/page.css", "/page.js", "/transcript.js", "/wire.js", "/icon.svg", "/api/login", "/api/sessions")],
            *[one for one in browser.requests(page.since) if one.startswith(page.base + "/api/sessions/")],
        }  # fmt: skip


def test_what_waits_is_edited_sent_ahead_removed_and_the_turn_stopped(serve: Any) -> None:
    words = Words()
    with serve(host_of(words, "Steered.", words)) as page:
        page.enter()
        page.say("Begin")
        words.let = 3
        page.sees("word2")
        for text in ("first", "second", "third"):
            page.say(text, alt=True)
            page.wait(f"document.getElementById('waiting').innerText.includes('{text}')")
        page.press("Edit", "#waiting")
        page.wait("document.activeElement === document.querySelector('#waiting textarea')")
        page.run("document.activeElement.select()")
        page.browser.type("changed")
        page.say("fourth", alt=True)  # what comes meanwhile leaves the edit alone
        page.wait("document.querySelectorAll('#waiting li').length === 4")
        page.press("Save", "#waiting")
        page.wait("document.getElementById('waiting').innerText.startsWith('changed')")
        page.press("Up", "#waiting")
        page.wait("document.getElementById('waiting').innerText.startsWith('second')")
        page.press("Remove", "#waiting")
        page.wait("!document.getElementById('waiting').innerText.includes('second')")
        page.press("Send ahead", "#waiting")
        page.wait("[...document.querySelectorAll('#waiting li')][0].querySelectorAll('button').length === 1")
        page.press("Stop")
        page.sees("Turn 1: stopped")
        page.sees("cut off")
        assert page.run("document.querySelector('.text').textContent").startswith("word0 word1 word2")


def test_a_call_that_asks_is_approved_by_a_click_and_others_see_it(serve: Any) -> None:
    async def act(what: str) -> str:
        """Do it."""
        return f"did {what}"

    async def ask(_: Any, __: Any) -> AskCall:
        return AskCall("Really act?")

    host = host_of(Answer("Well.", calls=[Call("act", {"what": HOSTILE})]), HOSTILE)
    host.tools.register(tool(act))
    host.on(TOOLS_PRE_EXECUTE, ask)
    with serve(host) as page:
        page.enter()
        page.say(HOSTILE)
        page.sees("Really act?")
        auth = {"authorization": f"Bearer {TOKEN}"}
        name = page.run("location.hash").partition("=")[2]
        asked = httpx.get(f"{page.base}/api/sessions/{name}/approvals", headers=auth, trust_env=False).json()
        assert len(asked) == 1
        page.press("Approve")
        page.sees("Turn 1: done")
        page.wait("document.getElementById('approvals').childElementCount === 0")
        assert "did" in page.run("document.querySelector('.tool pre:last-child').textContent")
        assert page.run("window.hurt") is None
        assert page.run("document.querySelectorAll('main img, main script').length") == 0
        assert page.run("[...document.querySelectorAll('.assistant .text')].at(-1).textContent") == HOSTILE
        sent = {"text": "from elsewhere"}
        httpx.post(f"{page.base}/api/sessions/{name}/messages", json=sent, headers=auth, trust_env=False)
        page.sees("from elsewhere")
        page.press("Fork here", ".end")
        page.wait(f"location.hash.length > 9 && location.hash !== '#session={name}'")
        page.sees("Turn 1: done")


def test_what_is_said_while_the_server_is_down_is_sent_once_when_it_is_back(serve: Any, browser: Browser) -> None:
    store = MemoryStore()
    with serve(host_of("One.", store=store)) as page:
        page.enter()
        page.say("First")
        page.sees("Turn 1: done")
        name = page.run("location.hash")
        port = int(page.base.rpartition(":")[2])
        browser.call("Page.navigate", url=f"{page.base}/{name}")
        page.sees("Turn 1: done")
    with served_in_thread(host_of(store=store), tokens={TOKEN: None}, port=port) as server:
        page = Page(browser, server)
        page.go(f"/{name}")
        page.sees("Turn 1: done")
    page.wait("document.getElementById('link').textContent === 'disconnected'")
    page.say("Said while nobody was there")
    page.sees("not sent yet")
    with served_in_thread(host_of("Two.", store=store), tokens={TOKEN: None}, port=port) as server:
        page.sees("Turn 2: done")
        page.sees("Two.")
        texts = page.run("[...document.querySelectorAll('.user p')].map(e => e.textContent)")
        assert texts == ["First", "Said while nobody was there"]
        page.wait("!document.body.innerText.includes('not sent yet')")
        said = [one for one in server.log(name.partition("=")[2]) if one["type"] == "user/message"]
        assert len(said) == 2


def test_a_stranger_is_asked_for_a_token(serve: Any, browser: Browser) -> None:
    with serve(host_of()) as page:
        browser.call("Network.clearBrowserCookies")
        page.go()
        page.wait("document.getElementById('door').open")
        page.run(f"document.getElementById('token').value = '{TOKEN}'")
        page.press("Enter", "#door")
        page.wait("!document.getElementById('door').open")
        page.wait("document.getElementById('link').textContent === 'connected'")
        assert page.run("document.cookie") == ""


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (360, "light")])
def test_it_fits_every_width_and_labels_what_can_be_used(serve: Any, browser: Browser, width: int, scheme: str) -> None:
    async def look(path: str) -> str:
        """Read it."""
        return "It is about a driver core.\n" * 3

    answer = Answer("I shall look.", "Which file?", calls=[Call("look", {"path": "README.md"})])
    host = host_of(answer, "It is about a driver core for agents. " * 8 + "x" * 300)
    host.tools.register(tool(look))
    with serve(host) as page:
        browser.size(width, 740)
        browser.media(features={"prefers-color-scheme": scheme})
        page.enter()
        page.say("What is README.md about? " + "y" * 200)
        page.sees("Turn 1: done")
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
        unlabelled = """[...document.querySelectorAll('button, a, input, textarea')].filter(
            e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length || e.hidden)).length"""
        assert page.run(unlabelled) == 0
        contrast = "getComputedStyle(document.body).color !== getComputedStyle(document.body).backgroundColor"
        assert page.run(contrast)
        dark = page.run("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
        assert dark == (scheme == "dark")
        if width < 700:
            page.press("Sessions")
            page.wait("document.querySelector('#sessions a').offsetParent !== null")
        browser.media()
