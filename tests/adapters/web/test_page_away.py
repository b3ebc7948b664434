"""The page while its server is away: restarted, killed, or out of reach. What was written is sent once, what was lost is told."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.adapters.web.staged import FORTY, Page, Words, stage
from tests.diagrams.browser import PROGRAM, Browser
from treadle import MemoryStore

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium: apt install chromium"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.slow,
]
STATUS = "document.getElementById('link').textContent"
SAID = "[...document.querySelectorAll('.user p, .assistant .text')].map(e => e.textContent.trim())"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    browser.size(1440, 800)
    browser.media()
    yield Page(browser, 0)
    browser.call(
        "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
    )
    browser.call("Page.navigate", url="about:blank")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def mortal(folder: Path, port: int, says: str) -> Iterator[None]:
    """A server that is killed when the block ends."""
    command = [sys.executable, "-m", "tests.adapters.web.mortal", str(folder), str(port), says]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("http://127.0.0.1:")
            yield
        finally:
            process.kill()


def test_a_server_that_is_restarted_gets_what_was_written_meanwhile_once(page: Page) -> None:
    store, port = MemoryStore(), free_port()
    page.base = f"http://127.0.0.1:{port}"
    with stage(store, port=port) as (_, play):
        play.plays("One.")
        page.enter()
        page.say("First")
        page.sees("Turn 1: done")
    page.wait(f"{STATUS} === 'disconnected'")
    session = page.session
    page.say("Thought better of")
    page.say("Said while nobody was there")
    page.wait("document.querySelectorAll('#waiting .unsent').length === 2")
    page.click("Remove", "#waiting")
    page.wait("document.querySelectorAll('#waiting .unsent').length === 1")
    assert page.text("#trouble") == ""  # it is no trouble: it will be sent
    with stage(store, port=port) as (server, play):
        play.plays("Two.")
        page.go(f"/#session={session}")  # whether it was sent by then or not
        page.sees("Turn 2: done", "#transcript")
        assert page.run(SAID) == ["First", "One.", "Said while nobody was there", "Two."]
        page.wait("!document.body.innerText.includes('not sent yet')")
        assert [one["type"] for one in server.log(page.session)].count("user/message") == 2


def test_after_a_kill_in_mid_stream_what_was_lost_is_told_and_the_session_goes_on(page: Page, tmp_path: Path) -> None:
    port = free_port()
    page.base = f"http://127.0.0.1:{port}"
    with mortal(tmp_path, port, "hang"):
        page.enter()
        page.say("Tell me")
        page.sees("Half of what", ".live")
        page.run("document.getElementById('say').value = 'a draft'")
        page.run("document.getElementById('say').dispatchEvent(new Event('input'))")
    page.wait(f"{STATUS} === 'disconnected'")
    with mortal(tmp_path, port, "Whole again."):
        page.sees("What was being said here was lost", "#transcript")
        page.wait("document.querySelectorAll('.live').length === 0")
        page.sees("at rest", "#state")
        page.reload()
        page.sees("Tell me", "#transcript")
        assert page.run("document.getElementById('say').value") == "a draft"
        page.run("document.getElementById('say').select()")
        page.say("Go on")
        page.sees("Turn 2: done", "#transcript")
        page.sees("Turn 1: interrupted by a crash", "#transcript")
        assert page.run(SAID) == ["Tell me", "Go on", "Whole again."]


def test_a_page_that_was_out_of_reach_has_everything_when_it_is_back(page: Page, browser: Browser) -> None:
    with stage() as (server, play):
        words = Words()
        page.base = f"http://127.0.0.1:{server.port}"
        play.plays(words, "Steered.")
        page.enter()
        page.say("Count")
        words.let = 10
        page.sees("word9", ".live")
        browser.call(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
        )
        page.wait(f"{STATUS} === 'disconnected'")
        words.let = 30
        page.say("Said out of reach")
        page.sees("not sent yet", "#waiting")
        assert "word10" not in page.text()
        browser.call(
            "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )
        page.wait(f"{STATUS} === 'connected'")
        page.sees("word29", ".live")
        page.sees("next step", "#waiting")
        words.let = 1_000
        page.sees("Turn 1: done", "#transcript")
        assert page.run(SAID) == ["Count", FORTY, "Said out of reach", "Steered."]
        assert [one["type"] for one in server.log(page.session)].count("user/message") == 2
