"""The page in a real browser: opened from a file, scrubbed, searched, printed; it complains of nothing and asks nobody."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.diagrams.browser import PROGRAM, Browser
from tests.diagrams.logs import HEADER, Log, long_log, medley
from tests.diagrams.test_page import evil_log
from treadle import Event
from treadle.words import events as ev
from treadle_diagrams import session_page, states_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no chromium here (Debian package: chromium)"),
]

Open = Callable[..., Browser]
MEDLEY = medley()
TURNS = [entry for entry in MEDLEY if isinstance(entry.data, ev.TurnStart)]
PAINTED = "new Promise(done => requestAnimationFrame(() => setTimeout(done, 30)))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as one:
        yield one


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open the page of a log; when the test is over, nothing may have gone wrong in it and nothing have left it."""
    since = len(browser.told)
    path = tmp_path / "page.html"

    def open_it(events: Any = MEDLEY, fragment: str = "", trouble: str | None = None) -> Browser:
        path.write_text(session_page(HEADER, events, trouble), encoding="utf-8")
        browser.size(1360, 850)
        browser.media()
        browser.open(path, fragment)
        browser.run(PAINTED)
        return browser

    yield open_it
    assert browser.complaints(since) == []
    assert set(browser.requests(since)) <= {path.resolve().as_uri(), "about:blank"}


def place(browser: Browser) -> int:
    return browser.run("at")


def state(browser: Browser) -> str:
    """The state that is marked in the drawing: one, and the same as is written below the strip."""
    marked = browser.run("[...document.querySelectorAll('.lifecycle .now[data-state]')].map(e => e.dataset.state)")
    assert len(marked) == 1
    assert browser.run("document.querySelector('#where b').textContent") == marked[0]
    return marked[0]


def expected_state(events: tuple[Event, ...], seq: int) -> str:
    return ["idle", *[reached.state.value for reached in states_of(events) if reached.seq <= seq]][-1]


def test_it_opens_from_a_file_and_shows_every_turn(open_page: Open):
    page = open_page()
    assert page.run("document.querySelectorAll('section.turn').length") == len(TURNS)
    assert page.run("document.title") == "session made"
    assert page.run("document.querySelector('.facts').textContent").startswith(f"{len(TURNS)} turns · ")
    assert place(page) == len(MEDLEY) - 1


# --- scrubbing --------------------------------------------------------------------------------------------------------


def test_scrubbing_shows_the_state_at_each_event_and_dims_what_has_not_happened_yet(open_page: Open):
    page = open_page()
    for seq in range(0, len(MEDLEY), 7):
        page.run(
            f"(() => {{ const slider = $('at'); slider.value = {seq}; slider.dispatchEvent(new Event('input')); }})()"
        )
        assert place(page) == seq
        assert state(page) == expected_state(MEDLEY, seq)
        ahead = page.run("[...document.querySelectorAll('[data-seq].ahead')].map(e => Number(e.dataset.seq))")
        shown = page.run("[...document.querySelectorAll('[data-seq]:not(.ahead)')].map(e => Number(e.dataset.seq))")
        assert all(one > seq for one in ahead)
        assert all(one <= seq for one in shown)


def test_the_waterfall_follows_with_its_spans_and_its_inbox(open_page: Open):
    page = open_page()
    stopped = next(entry for entry in MEDLEY if getattr(entry.data, "code", None) == "ABORTED")
    page.run(f"go({stopped.seq})")
    names = page.run("[...document.querySelectorAll('#waterfall .row > span')].map(e => [e.className, e.textContent])")
    kinds = [kind for kind, _ in names]
    assert kinds[:3] == ["n-turn", "n-step", "n-attempt"]
    assert kinds.count("n-cancel") == 1
    assert kinds.count("n-letter") == 1
    assert ["n-letter", "Wait for it"] in names
    assert page.run("document.querySelectorAll('#waterfall .head u').length") == 1
    assert page.run("document.querySelector('#waterfall .b-cancel').getBoundingClientRect().width") > 10


def test_a_discarded_message_is_marked_in_the_inbox(open_page: Open):
    page = open_page()
    dropped = next(entry for entry in MEDLEY if getattr(entry.data, "outcome", None) == "canceled")
    page.run(f"go({dropped.seq + 1})")
    rows = page.run("[...document.querySelectorAll('#waterfall .row')].map(e => e.textContent)")
    assert "never seendiscarded" in rows


def test_keys_move_by_event_and_by_turn_and_to_both_ends(open_page: Open):
    page = open_page()
    page.press("Home")
    assert place(page) == 0
    page.press("ArrowRight")
    page.press("ArrowRight")
    page.press("ArrowLeft")
    assert place(page) == 1
    page.press("ArrowRight", shift=True)
    assert place(page) == TURNS[1].seq
    page.press("ArrowRight", shift=True)
    page.press("ArrowLeft", shift=True)
    assert place(page) == TURNS[1].seq
    page.press("End")
    assert place(page) == len(MEDLEY) - 1
    page.press("ArrowRight")
    assert place(page) == len(MEDLEY) - 1


def test_keys_work_while_the_slider_has_the_focus_and_move_it_once(open_page: Open):
    page = open_page()
    page.run("$('at').focus()")
    page.press("Home")
    page.press("ArrowRight")
    assert place(page) == 1
    assert page.run("$('at').value") == "1"


def test_space_plays_and_pauses(open_page: Open):
    page = open_page(MEDLEY[:40])
    page.press("Home")
    page.press(" ")
    page.run("new Promise(done => setTimeout(done, 500))")
    page.press(" ")
    stopped = place(page)
    assert stopped > 2
    page.run("new Promise(done => setTimeout(done, 150))")
    assert place(page) == stopped


def test_an_address_names_an_event_and_that_event_is_in_sight(open_page: Open):
    seq = TURNS[20].seq + 4
    page = open_page(fragment=f"#e{seq}")
    page.run("new Promise(done => setTimeout(done, 150))")
    assert place(page) == seq
    top, bottom, height = page.run(
        "(() => { const r = here.getBoundingClientRect(); return [r.top, r.bottom, innerHeight]; })()"
    )
    assert 0 < top < bottom < height


def test_a_click_on_what_was_said_goes_to_its_event(open_page: Open):
    page = open_page()
    page.run("document.querySelector('article.answer').click()")
    assert place(page) == next(entry.seq for entry in MEDLEY if isinstance(entry.data, ev.AssistantMessageAdded))


# --- searching --------------------------------------------------------------------------------------------------------


def search(page: Browser, words: str) -> str:
    page.press("/")
    page.type(words)
    page.run("new Promise(done => setTimeout(done, 120))")
    return page.run("$('found').textContent")


def test_search_counts_what_holds_the_text_and_goes_through_it(open_page: Open):
    page = open_page()
    assert search(page, "STEERED") == "1 of 1"
    page.press("Escape")
    assert page.run("$('found').textContent") == ""
    told = search(page, "hello?")
    assert told == "1 of 2"
    page.press("Enter")
    assert page.run("$('found').textContent") == "2 of 2"
    page.press("Enter", shift=True)
    assert page.run("$('found').textContent") == "1 of 2"
    assert page.run("CSS.highlights.get('found').size") == 1


def test_search_opens_what_is_folded(open_page: Open):
    page = open_page()
    assert search(page, "three and four") == "1 of 1"
    assert page.run("[...document.querySelectorAll('details[open]')].map(e => e.textContent)") == [
        "reasoningThree and four."
    ]


def test_a_search_for_nothing_there_says_so_and_moves_nothing(open_page: Open):
    page = open_page()
    assert search(page, "kumquat") == "none"
    assert place(page) == len(MEDLEY) - 1


def test_letters_typed_into_the_search_are_no_keys(open_page: Open):
    page = open_page()
    search(page, "t")
    page.press("t")
    assert page.run("document.documentElement.dataset.theme || ''") == ""


# --- the look ---------------------------------------------------------------------------------------------------------


def colours(page: Browser) -> tuple[str, str]:
    return (
        page.run("getComputedStyle(document.body).backgroundColor"),
        page.run("getComputedStyle(document.querySelector('.lifecycle .paper')).fill"),
    )


def test_it_follows_the_reader_s_colour_scheme_and_t_turns_it_around(open_page: Open):
    page = open_page()
    page.media(features={"prefers-color-scheme": "light"})
    assert colours(page) == ("rgb(255, 255, 255)", "rgb(255, 255, 255)")
    page.media(features={"prefers-color-scheme": "dark"})
    assert colours(page) == ("rgb(13, 17, 23)", "rgb(13, 17, 23)")
    page.press("t")
    assert colours(page) == ("rgb(255, 255, 255)", "rgb(255, 255, 255)")


def test_on_paper_it_is_light_whole_and_without_controls(open_page: Open):
    page = open_page()
    page.run("go(3)")
    page.media("print", {"prefers-color-scheme": "dark"})
    assert colours(page)[0] == "rgb(255, 255, 255)"
    assert page.run("getComputedStyle(document.querySelector('.ahead')).opacity") == "1"
    for hidden in (".scrub", ".find", ".waterfall"):
        assert page.run(f"getComputedStyle(document.querySelector('{hidden}')).display") == "none"
    assert page.run("document.querySelector('.lifecycle').getBoundingClientRect().bottom") < page.run(
        "document.querySelector('.turn').getBoundingClientRect().top"
    )


@pytest.mark.parametrize("width", [420, 900, 1360])
def test_nothing_is_wider_than_the_window(open_page: Open, width: int):
    page = open_page()
    page.size(width, 800)
    page.run(PAINTED)
    assert page.run("document.documentElement.scrollWidth") <= width


# --- hostile and long -------------------------------------------------------------------------------------------------


@pytest.mark.rule("X3")
def test_hostile_text_stays_text_and_runs_nothing(open_page: Open, browser: Browser):
    browser.call("Page.addScriptToEvaluateOnNewDocument", source="window.alert = () => { window.hurt = true; };")
    page = open_page(evil_log().events, trouble="<img src=x onerror=alert(3)>")
    for seq in range(len(evil_log().events)):
        page.run(f"go({seq})")
    assert search(page, "<script>alert(1)") != "none"
    assert page.run("window.hurt === undefined")
    assert page.run("document.querySelectorAll('img, .transcript script, .transcript style').length") == 0
    assert "<script>alert(1)</script>" in page.run("document.querySelector('article.you').textContent")


@pytest.mark.rule("X3")
def test_a_script_that_got_in_would_not_run(open_page: Open, browser: Browser):
    since = len(browser.told)
    page = open_page()
    page.run(
        "(() => { const s = document.createElement('b'); try { s.innerHTML = '<i>'; } catch (e) { window.kept = e.name; } })()"
    )
    assert page.run("window.kept") == "TypeError"
    del browser.told[since:]  # the refusal is told to the console, as it should be


@pytest.mark.rule("X3")
def test_huge_lines_are_shown_without_widening_the_page(open_page: Open):
    log = (
        Log().open("x" * 100_000).answer("y" * 1_000_000).tool("read", '{"a": "' + "z" * 90_000 + '"}', "w" * 2_000_000)
    )
    page = open_page(log.close().events)
    assert page.run("document.documentElement.scrollWidth") <= 1360


def test_ten_thousand_events_are_there_after_two_seconds_of_work_and_are_scrubbed_and_searched_at_once(
    browser: Browser, open_page: Open, tmp_path: Path
):
    events = long_log(10_000)
    open_page(events)
    began = browser.worked()
    browser.open(tmp_path / "page.html")
    browser.run(PAINTED)
    print("open", browser.worked() - began)
    assert browser.worked() - began < 2
    assert browser.run("document.querySelectorAll('section.turn').length") == events[-1].data.turn
    began = browser.worked()
    browser.run("for (let n = 0; n <= 20; n++) go(Math.round(n * last / 20)); search('question 700');")
    print("scrub", browser.worked() - began)
    assert browser.worked() - began < 2
    assert browser.run("hits.length") > 0


def test_a_turn_of_thousands_of_steps_has_a_waterfall_at_once(open_page: Open):
    log = Log().open("go")
    for number in range(1000):
        log.answer("on", ("look", "{}")).tool("look", "{}", str(number)).go_on()
    page = open_page(log.close().events)
    assert page.run("document.querySelectorAll('#waterfall .row').length") > 3000
    began = page.worked()
    page.run("drawn = null; go(4000);")
    print("fall", page.worked() - began)
    assert page.worked() - began < 1


def test_an_empty_log_opens_too(open_page: Open):
    page = open_page([])
    assert "The log is empty." in page.run("document.querySelector('.transcript').textContent")
    page.press("ArrowRight")
    page.press("Home")
