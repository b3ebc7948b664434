"""Makes the pictures of the served page in this folder: ``python docs/pictures/web.py``. Look at what it made.

It needs the extras ``all`` and ``dev``, and Debian's ``chromium``.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.adapters.web.served import served_in_thread  # noqa: E402  # found once the path is there
from tests.adapters.web.test_page import TOKEN, Page, Words, host_of  # noqa: E402
from tests.diagrams.browser import Browser  # noqa: E402
from treadle import Answer, Call, tool  # noqa: E402

VIEWS = (("web-light", 1100, 640, "light"), ("web-dark", 1100, 640, "dark"), ("web-phone", 390, 720, "light"))
"""The pictures: name, width, height, and what the reader prefers."""
SAID = (
    "It is the front page of a driver core for AI agents: a pure kernel decides, and a small shell does what it says."
)


async def look(path: str) -> str:
    """Read a file."""
    return f"# {path}\n\ntreadle is a driver core for AI agents, in Python on trio.\n"


def main() -> None:
    """Take one picture per view, in the middle of an answer."""
    for name, width, height, scheme in VIEWS:
        words = Words(SAID)
        host = host_of(Answer("I shall read it.", calls=[Call("look", {"path": "README.md"})]), words)
        host.tools.register(tool(look))
        with Browser() as browser, served_in_thread(host, tokens={TOKEN: None}) as server:
            browser.size(width, height)
            browser.media(features={"prefers-color-scheme": scheme})
            page = Page(browser, server)
            page.enter()
            page.say("What is README.md about?")
            words.let = 16
            page.sees("pure kernel")
            page.say("And in one sentence?", alt=True)
            page.wait("document.getElementById('waiting').innerText.includes('sentence')")
            browser.picture(HERE / f"{name}.png")
            words.let = 1_000


if __name__ == "__main__":
    main()
