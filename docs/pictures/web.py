"""Makes the pictures of the served page in this folder: ``python docs/pictures/web.py``. Look at what it made.

It needs the extras ``all`` and ``dev``, and Debian's ``chromium``.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.adapters.web.staged import Page, Words, stage  # noqa: E402  # found once the path is there
from tests.diagrams.browser import Browser  # noqa: E402
from treadle import Answer, Call  # noqa: E402

VIEWS = (("web-light", 1440, 820, "light"), ("web-dark", 1440, 820, "dark"), ("web-phone", 390, 780, "light"))
"""The pictures: name, width, height, and what the reader prefers."""
SAID = (
    "All 214 tests pass. The README calls it a driver core for AI agents: a pure kernel decides, and a small shell does "
    "what it says. Shall I write the release notes from the changelog?"
)
LINES = [
    f"{room:<14} {count} passed\n" for room, count in (("tests/kernel", 61), ("tests/loop", 108), ("tests/web", 45))
]


def earlier(page: Page) -> None:
    """Sessions that are over, for the list."""
    for text in ("Which tests are slow?", "Translate the changelog: שלום", "Rename the option everywhere"):
        page.say(text)
        page.sees("Turn 1: done")
        page.click("New session") if page.run("innerWidth > 700") else page.go().wait(
            "document.querySelector('#link').textContent === 'connected'"
        )


def main() -> None:
    """Take one picture per view, in the middle of an answer."""
    for name, width, height, scheme in VIEWS:
        with stage() as (server, play), Browser() as browser:
            browser.size(width, height)
            browser.media(features={"prefers-color-scheme": scheme})
            page = Page(browser, server.port)
            page.enter()
            earlier(page)
            words = Words(SAID)
            play.lines, play.talking.let, play.result = LINES, len(LINES), "".join(LINES)
            calls = [Call("read_file", {"path": "README.md"}), Call("run", {"command": "pytest -q"})]
            play.plays(
                Answer(
                    "I shall read it, and see whether the tests pass.", "They want to know two things.", calls=calls
                ),
                words,
            )
            page.say("What is README.md about, and do the tests pass?")
            page.sees("tests/web", ".tool.runs pre:last-child")
            page.run("new Promise(done => setTimeout(done, 900))")  # a tool that took a moment, in the picture
            page.say("Then say it in one sentence.", alt=True)
            page.sees("one sentence", "#waiting")
            page.run("new Promise(done => setTimeout(done, 400))")
            play.talking.let += 1
            words.let = 22
            page.sees("a pure", ".live")
            page.run("new Promise(done => setTimeout(done, 900))")
            browser.picture(HERE / f"{name}.png")
            words.let = 1_000


if __name__ == "__main__":
    main()
