"""The built site in a browser: it is opened from files, asks nobody for anything, and can be searched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.site.checks import faults
from tests.diagrams.browser import PROGRAM, Browser

SITE = Path(os.environ.get("TREADLE_SITE") or Path(__file__).parents[2] / "build" / "site")
PAGES = (
    "index.html",
    "tutorial/2-tools.html",
    "reference/options.html",
    "reference/api/treadle.agent.html",
    "web.html",
)

built = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site here: python docs/build.py builds it")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("no Chromium here (Debian package: chromium)")
    with Browser() as found:
        yield found


def asked(browser: Browser, since: int) -> list[str]:
    """What was asked for that is no file."""
    own = ("file:", "data:", "about:", "blob:")
    return [url for url in browser.requests(since) if not url.startswith(own)]


@built
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_asks_nobody_for_anything_and_complains_of_nothing(browser: Browser, page: str) -> None:
    since = len(browser.told)
    browser.open(SITE / page)
    assert len(browser.requests(since)) > 3
    assert asked(browser, since) == []
    assert browser.complaints(since) == []


@built
@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 800, 1400])
def test_no_page_is_wider_than_the_window(browser: Browser, width: int) -> None:
    browser.size(width, 900)
    for page in PAGES:
        browser.open(SITE / page)
        assert browser.run("document.documentElement.scrollWidth") <= width, page


@built
@pytest.mark.slow
def test_a_search_finds_what_it_is_asked_for_without_a_server(browser: Browser) -> None:
    since = len(browser.told)
    browser.open(SITE / "search.html", "?q=idempotent")
    found = browser.run(
        """new Promise(done => { const look = () => {
            const links = [...document.querySelectorAll('#search-results li a')].map(one => one.textContent);
            links.some(one => one.includes('Durability')) ? done(links.length) : setTimeout(look, 50) }; look() })"""
    )
    assert found > 1
    assert asked(browser, since) == []


@pytest.mark.parametrize(
    ("html", "told"),
    [
        ('<img src="https://elsewhere.example/x.png">', "a.html loads https://elsewhere.example/x.png"),
        ('<script src="//elsewhere.example/x.js"></script>', "a.html loads //elsewhere.example/x.js"),
        ('<img src="gone.png">', "a.html loads gone.png, which is not there"),
        ('<a href="gone.html">', "a.html leads to gone.html, which is not there"),
        ('<a href="b.html#gone">', "a.html leads to b.html#gone, where there is no such anchor"),
        ('<a href="#gone">', "a.html leads to #gone, where there is no such anchor"),
        (
            '<a href="b.html#here"><a href="#mine" id="mine"><a href="https://elsewhere.example"><img src="data:x">',
            None,
        ),
    ],
)
def test_what_leads_nowhere_or_is_loaded_from_elsewhere_is_noticed(tmp_path: Path, html: str, told: str | None) -> None:
    (tmp_path / "a.html").write_text(html, encoding="utf-8")
    (tmp_path / "b.html").write_text('<p id="here">', encoding="utf-8")
    assert list(faults(tmp_path)) == ([] if told is None else [told])
