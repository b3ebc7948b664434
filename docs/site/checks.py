"""What must hold of the built site: every link and anchor leads somewhere in it, and nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "source": "srcset", "iframe": "src", "link": "href", "video": "src"}
"""What a browser fetches by itself, by element."""


class _Page(HTMLParser):
    """The anchors of a page, where it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.update([given[name] for name in ("id", "name") if name in given])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADED and given.get(LOADED[tag]):
            self.loads.append(given[LOADED[tag]])


def faults(site: Path) -> Iterator[str]:
    """What is wrong with a built site, each with the page it is on."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        here = path.relative_to(site)
        for target in page.loads:
            if urlsplit(target).scheme not in ("", "data") or target.startswith("//"):
                yield f"{here} loads {target}"
            elif not target.startswith("data:") and not _place(path, target).exists():
                yield f"{here} loads {target}, which is not there"
        for target in page.links:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            place = _place(path, target)
            if not place.exists():
                yield f"{here} leads to {target}, which is not there"
            elif parts.fragment and place in pages and unquote(parts.fragment) not in pages[place].anchors:
                yield f"{here} leads to {target}, where there is no such anchor"


def _place(page: Path, target: str) -> Path:
    path = unquote(urlsplit(target).path)
    return (page.parent / path).resolve() if path else page
