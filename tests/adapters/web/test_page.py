"""The page in a real browser: a session is begun, watched, steered, stopped, forked, reloaded; by one person and by several."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.adapters.web.served import Server, served_in_thread
from tests.adapters.web.staged import FORTY, TOKEN, Page, Play, Words, stage
from tests.diagrams.browser import PROGRAM, Browser
from treadle import Answer, Call

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium: apt install chromium"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.slow,
]
HOSTILE = "<img src=x onerror='window.hurt=1'><script>window.hurt=1</script> \u202eabc &amp; שלום"


@pytest.fixture(scope="module")
def staged() -> Iterator[tuple[Server, Play]]:
    with stage() as made:
        yield made


@pytest.fixture
def play(staged: tuple[Server, Play]) -> Play:
    staged[1].plays()
    return staged[1]


@pytest.fixture
def page(browser: Browser, staged: tuple[Server, Play]) -> Iterator[Page]:
    browser.size(1440, 800)
    browser.media()
    made = Page(browser, staged[0].port)
    made.enter()
    made.since = len(browser.told)
    yield made
    assert browser.complaints(made.since) == []
    made.go("/icon.svg")  # nothing of it goes on


@pytest.fixture
def tabs(browser: Browser, staged: tuple[Server, Play]) -> Iterator[Callable[[], Page]]:
    with ExitStack() as stack:
        yield lambda: Page(browser, staged[0].port, stack.enter_context(browser.opened(480, 400)))


def ask(page: Page, method: str, path: str, **body: Any) -> Any:
    """A request of another program."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=page.base, headers=headers, trust_env=False) as web:
        answer = web.request(method, path, json=body or None)
        assert answer.status_code < 300, answer.text
        return answer.json()


# --- one person -------------------------------------------------------------------------------------------------------


def test_a_session_is_begun_streams_and_survives_a_reload_in_mid_stream(
    page: Page, play: Play, browser: Browser
) -> None:
    words = Words()
    play.plays(words)
    assert page.session == ""
    page.say("Count for me")
    words.let = 20
    page.sees("word19")
    assert "word20" not in page.text()
    page.reload()
    page.sees("word19")
    page.sees("Count for me", ".user")
    assert page.run("document.querySelector('.live').getAttribute('aria-busy')") == "true"
    words.let = 1_000
    page.sees("Turn 1: done")
    assert page.run("document.querySelector('.assistant .text').textContent.trim()") == FORTY
    page.wait("document.querySelectorAll('.live').length === 0")
    page.wait("document.querySelector('#sessions a')?.textContent.startsWith('Count for me')")
    asked = {one.partition("?")[0].partition("#")[0] for one in browser.requests(page.since)}
    assert all(one.startswith((page.base + "/", "about:blank")) for one in asked)


def test_the_lifecycle_and_the_newest_turn_grow_as_it_runs(page: Page, play: Play) -> None:
    words = Words()
    play.plays(Answer("I look.", calls=[Call("read_file", {"path": "README.md"})]), words)
    now = "[...document.querySelectorAll('#lifecycle .now')].map(e => e.dataset.state).join()"
    rows = "[...document.querySelectorAll('#lanes .row > span')].map(e => e.textContent)"
    page.say("What is it about?")
    words.let = 3
    page.sees("word2")
    page.wait(f"{now} === 'step'")
    page.wait(f"{rows}.length === 7")
    spans = ["turn 1", "step 1", "model", 'read_file(path="README.md")', "step 2", "model"]
    assert page.run(rows) == [*spans, "What is it about?"]
    width = "parseFloat(document.querySelector('#lanes .b-turn').style.width)"
    took = "document.getElementById('of-turn').textContent"
    before = page.run(took)
    page.wait(f"{took} !== {json.dumps(before)}")  # time passes, and nothing else
    assert page.run(width) == 100
    page.say("And then?", alt=True)
    page.wait(f"{rows}.includes('And then?')")
    page.reload()
    page.wait(f"{rows}.length === 8")
    page.run("document.querySelectorAll('#lanes .row')[3].click()")
    page.wait("document.querySelector('.here')?.classList.contains('tool')")
    words.let = 1_000
    page.wait(f"{now} === 'idle'")
    page.wait(f"{rows}.at(0) === 'turn 2'")
    page.click("Lifecycle")
    assert page.run("document.getElementById('beside').hidden")
    page.reload()
    assert page.run("document.getElementById('beside').hidden")  # as it was left
    page.click("Lifecycle")


def test_what_waits_is_edited_sent_ahead_removed_and_the_turn_stopped(page: Page, play: Play) -> None:
    words = Words()
    play.plays(words, "Steered.", words)
    waits = "document.getElementById('waiting').innerText"
    page.say("Begin")
    words.let = 3
    page.sees("word2")
    for text in ("first", "second", "third"):
        page.say(text, alt=True)
        page.sees(text, "#waiting")
    page.click("Edit", "#waiting")
    page.wait("document.activeElement === document.querySelector('#waiting textarea')")
    page.run("document.activeElement.select()")
    page.type("changed")
    page.say("fourth", alt=True)  # what comes meanwhile leaves the edit alone
    page.wait("document.querySelectorAll('#waiting li').length === 4")
    page.click("Save", "#waiting")
    page.wait(f"{waits}.startsWith('changed')")
    page.click("Up", "#waiting")
    page.wait(f"{waits}.startsWith('second')")
    page.click("Remove", "#waiting")
    page.wait(f"!{waits}.includes('second')")
    page.sees("Dropped: second", "#transcript")
    page.click("Send ahead", "#waiting")
    page.wait("document.querySelector('#waiting em')?.textContent === 'next step'")
    page.click("Edit", "#waiting")
    page.run("document.activeElement.select()")
    page.type("changed again")
    page.press("Enter")
    page.wait(f"{waits}.startsWith('changed again')")
    page.click("Stop")
    page.sees("Turn 1: stopped")
    page.sees("cut off")
    assert page.run("document.querySelector('.text').textContent").startswith("word0 word1 word2")
    words.let = 1_000
    page.wait("document.getElementById('stop').hidden")


def test_keys_alone_do_everything_and_the_focus_is_not_lost(page: Page, play: Play) -> None:
    words = Words()
    play.plays(words)
    page.say("Begin")
    words.let = 1
    page.sees("word0")
    for text in ("first", "second"):
        page.say(text, alt=True)
        page.sees(text, "#waiting")
    focus = "document.activeElement.textContent"
    page.run("[...document.querySelectorAll('#waiting button')].find(b => b.textContent === 'Up').focus()")
    page.press("Enter")
    page.wait("document.getElementById('waiting').innerText.startsWith('second')")
    page.wait(f"['Up', 'Edit'].includes({focus})")  # the button is gone: the next one
    page.run("[...document.querySelectorAll('#waiting button')].find(b => b.textContent === 'Remove').focus()")
    page.press("Enter")
    page.wait("document.querySelectorAll('#waiting li').length === 1")
    page.wait("document.getElementById('waiting').contains(document.activeElement)")
    page.run("[...document.querySelectorAll('#waiting button')].find(b => b.textContent === 'Edit').focus()")
    page.press("Enter")
    page.wait("document.activeElement.matches('#waiting textarea')")
    page.press("Escape")  # leaves the editing alone, not the turn
    page.wait("!document.querySelector('#waiting textarea')")
    assert not page.run("document.getElementById('stop').hidden")
    page.press("Escape")
    page.sees("Turn 1: stopped")
    page.wait("document.getElementById('spoken').textContent.startsWith('Turn')")
    words.let = 1_000


def test_output_of_a_running_tool_is_seen_as_it_comes_and_after_a_reload(page: Page, play: Play) -> None:
    play.lines, play.talking.let = [f"line {number}\n" for number in range(5)], 0
    play.plays(Answer(calls=[Call("run", {"command": "the build"})]), "Built.")
    page.say("Build")
    page.sees("run", ".tool.runs")
    assert page.text(".tool pre:last-child") == ""
    play.talking.let = 2
    page.sees("line 1", ".tool pre:last-child")
    assert page.run("document.querySelector('.tool details').open")
    page.reload()
    page.sees("line 0\nline 1", ".tool pre:last-child")
    play.talking.let = 5
    page.sees("line 4", ".tool pre:last-child")
    play.talking.let = 6
    page.sees("the build: 5 lines", ".tool pre:last-child")
    page.sees("Built.")
    assert page.text(".tool .status") == "done"
    assert "line 4" not in page.text(".tool")


def test_a_session_is_forked_from_any_message_and_a_prompt_is_written_anew(page: Page, play: Play) -> None:
    play.plays("One.", "Two.", "Three.")
    page.say("First")
    page.sees("Turn 1: done")
    page.say("Second")
    page.sees("Turn 2: done")
    first = page.session
    assert page.run("[...document.querySelectorAll('.user, .assistant')].every(e => e.querySelector('.fork'))")
    page.run("document.querySelectorAll('.user .fork')[1].click()")
    page.wait(f"location.hash !== '#session={first}'")
    page.wait("document.getElementById('say').value === 'Second'")
    page.sees("Turn 1: done")
    assert ask(page, "GET", f"/api/sessions/{page.session}/inbox") == {"nextTurn": [], "nextStep": []}
    page.run("document.getElementById('say').value = ''")
    page.say("Otherwise")
    page.sees("Turn 2: done", "#transcript")
    texts = "[...document.querySelectorAll('.user p, .assistant .text')].map(e => e.textContent)"
    assert page.run(texts) == ["First", "One.", "Otherwise", "Three."]
    page.click("Fork after this turn", ".assistant")
    page.wait(f"{texts}.join() === 'First,One.'")
    page.run(f"location.hash = 'session={first}'")
    page.wait(f"{texts}.join() === 'First,One.,Second,Two.'")


def test_hostile_text_is_text_everywhere(page: Page, play: Play) -> None:
    zalgo, long = "z" + "\u0335" * 300, "x" * 300_000
    play.lines, play.talking.let = [HOSTILE], 1
    play.plays(
        Answer(HOSTILE, calls=[Call("run", {"command": HOSTILE}), Call("act", {"what": HOSTILE})], reasoning=HOSTILE),
        f"{zalgo}\n{long}\n{HOSTILE}",
        "שלום עולם\nand so on",
    )
    page.say(HOSTILE)
    page.sees("onerror", ".tool.runs pre:last-child")
    page.say(HOSTILE, alt=True)
    page.sees("onerror", "#waiting")
    play.talking.let = 2
    page.sees("onerror", "#approvals")
    page.click("Approve")
    page.sees("Turn 2: done")
    said = page.run("[...document.querySelectorAll('.assistant .text:not(.thought .text)')].map(e => e.textContent)")
    assert said == [HOSTILE, f"{zalgo}\n{long}\n{HOSTILE}", "שלום עולם\nand so on"]
    page.wait("document.getElementById('lanes').textContent.includes('onerror')")
    page.wait("document.getElementById('sessions').textContent.includes('onerror')")
    assert page.run("window.hurt") is None
    assert page.run("document.querySelectorAll('main img, main script, nav img, aside img, aside script').length") == 0
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    assert page.run("getComputedStyle([...document.querySelectorAll('.text')].at(-1)).direction") == "rtl"
    assert page.run("getComputedStyle(document.querySelector('.assistant .text')).unicodeBidi") == "plaintext"
    end = "(s => s.scrollHeight - s.scrollTop - s.clientHeight < 60)(document.getElementById('scroll'))"
    page.wait(end)  # it has followed what came
    page.run("document.querySelectorAll('#lanes .row')[0].click()")  # the turn's, which ends it
    page.run("document.getElementById('scroll').focus()")
    page.press("Home")
    page.wait("document.getElementById('scroll').scrollTop === 0")
    page.click("To the newest")
    page.wait(end)


# --- several ----------------------------------------------------------------------------------------------------------


def test_two_who_share_a_session_see_what_the_other_does(page: Page, play: Play, tabs: Callable[[], Page]) -> None:
    words = Words()
    play.plays(Answer(calls=[Call("act", {"what": "it"})]), words)
    page.say("Begin together")
    page.sees("Really act?")
    other = tabs()
    other.enter()
    other.wait("document.querySelector('#sessions a')?.textContent.startsWith('Begin together')")
    other.run("document.querySelector('#sessions a').click()")
    other.sees("Really act?", "#approvals")
    other.click("Approve")
    page.wait("document.getElementById('approvals').childElementCount === 0")
    words.let = 2
    for one in (page, other):
        one.sees("word1")
    other.say("Said by the other", alt=True)
    page.sees("Said by the other", "#waiting")
    page.click("Edit", "#waiting")
    page.run("document.activeElement.select()")
    page.type("edited by both")
    other.click("Edit", "#waiting")
    other.run("document.activeElement.select()")
    other.type("edited by the other")
    other.click("Save", "#waiting")
    other.wait("document.getElementById('waiting').innerText.startsWith('edited by the other')")
    assert page.run("document.querySelector('#waiting textarea').value") == "edited by both"
    other.click("Remove", "#waiting")
    page.wait("document.getElementById('waiting').childElementCount === 0")
    other.click("Stop")
    for one in (page, other):
        one.sees("Turn 1: stopped")
    words.let = 1_000
    page.run("window.confirm = () => true")
    page.click("Delete")
    for one in (page, other):
        one.wait("document.getElementById('title').textContent === 'New session'")
    page.since = len(page.browser.told)  # the browser itself complains where a request met the end of the session


def test_eight_tabs_follow_one_session_and_each_can_ask(page: Page, play: Play, tabs: Callable[[], Page]) -> None:
    words = Words()
    play.plays(words)
    page.say("Count for all")
    words.let = 10
    page.sees("word9")
    others = [tabs() for _ in range(7)]
    for number, one in enumerate(others):
        words.let = 11 + number
        one.call("Page.navigate", url=f"{page.base}/#session={page.session}")
    for one in (page, *others):
        one.sees("word9")
    for number, one in enumerate(others):
        one.say(f"steered by {number}")
    words.let = 1_000
    for one in (page, *others):
        one.sees("Turn 1: done", "#transcript")
        one.sees("steered by 6", "#transcript")
        one.wait("document.getElementById('newest').hidden")
    texts = "[...document.querySelectorAll('.user p, .assistant .text')].map(e => e.textContent).join('|')"
    assert len({one.run(texts) for one in (page, *others)}) == 1
    assert page.run("document.querySelector('.assistant .text').textContent.trim()") == FORTY


# --- who comes in, and how it looks -----------------------------------------------------------------------------------


def test_a_stranger_is_asked_for_a_token(page: Page, browser: Browser) -> None:
    browser.call("Network.clearBrowserCookies")
    page.go()
    page.wait("document.getElementById('door').open")
    page.run("document.getElementById('token').value = 'a-token-of-somebody-else'")
    page.click("Enter", "#door")
    page.sees("does not know this token", "#door")
    page.run(f"document.getElementById('token').value = '{TOKEN}'")
    page.click("Enter", "#door")
    page.wait("!document.getElementById('door').open")
    page.wait("document.getElementById('link').textContent === 'connected'")
    assert page.run("document.cookie") == ""
    page.since = len(browser.told)  # the browser itself complains of 401


FAINT = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const paper = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return rgba('canvas'); };
  return [...document.querySelectorAll('body *:not(svg *)')].filter((e) => e.checkVisibility({opacityProperty: true}) &&
    [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) && !e.closest('#spoken, label')).map((e) => {
      const [one, other] = [light(rgba(getComputedStyle(e).color)), light(paper(e))].sort((a, b) => b - a);
      return [(one + 0.05) / (other + 0.05), e.tagName, e.className, e.textContent.slice(0, 30)];
    }).filter(([ratio]) => ratio < 4.5);
})()"""
"""The texts whose contrast is less than what WCAG asks for (AA)."""
NAMELESS = """[...document.querySelectorAll('button, a, input, textarea, [tabindex="0"]')].filter(
    (e) => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length || e.hidden)).map((e) => e.outerHTML)"""


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (900, "dark"), (360, "light")])
def test_it_fits_every_width_can_be_read_and_names_what_can_be_used(
    page: Page, play: Play, browser: Browser, width: int, scheme: str
) -> None:
    words = Words("It is about a driver core for agents. " * 8 + "x" * 300)
    calls = [Call("read_file", {"path": "README.md"}), Call("act", {"what": "y" * 200})]
    play.plays(Answer("I shall look.", "Which file?", calls=calls), words)
    browser.size(width, 740)
    browser.media(features={"prefers-color-scheme": scheme})
    page.reload()
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    page.say("What is README.md about? " + "y" * 200)
    page.sees("Really act?")
    assert page.run(FAINT) == []
    page.click("Approve")
    words.let = 5
    page.sees("It is about")
    page.say("And " + "z" * 300, alt=True)
    page.sees("And", "#waiting")
    for _ in range(2):  # with the lifecycle beside it, and without
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
        assert page.run("document.documentElement.scrollHeight <= innerHeight")
        assert page.run(NAMELESS) == []
        assert page.run(FAINT) == []
        page.click("Lifecycle")
    page.run("(b => b.hidden || document.getElementById('look').click())(document.getElementById('beside'))")
    if width < 700:
        page.click("Sessions")
        page.wait("document.querySelector('#sessions a')?.checkVisibility()")
        page.press("Escape")
        page.wait("!document.querySelector('#sessions a')?.checkVisibility()")
    words.let = 1_000
    page.sees("Turn 2: done")
    dark = page.run("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    assert dark == (scheme == "dark")
    page.run("localStorage.clear()")


def test_a_server_that_was_given_nothing_to_draw_with_serves_the_rest(browser: Browser) -> None:
    play = Play()
    with served_in_thread(play.host, tokens={TOKEN: None}) as server:
        page = Page(browser, server.port)
        page.enter()
        page.say("Hello")
        page.sees("Turn 1: done")
        assert page.run("document.getElementById('look').hidden && document.getElementById('beside').hidden")
        assert browser.complaints(page.since) == []
        assert not [one for one in browser.requests(page.since) if one.endswith("/turn")]
