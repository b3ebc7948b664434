"""Links of pages that lead out of `docs/`: to a page of the site where one shows that file, else the words alone.

The pages are read in the repository as well, where such a link leads to the file. One that leads nowhere is a warning, and
warnings are errors.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

SHOWN = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "specs/treadle_specs/PROTOCOL.md": "reference/rig-protocol.md",
    "specs/treadle_specs/contract.md": "contract.md",
    "examples": "examples.md",
}
"""What of the repository stands on which page of the site."""

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s#]+)((?:#[^)\s]*)?)\)")
SHOWS = re.compile(r"<!-- shows: (\S+) -->")
"""How a page begins that shows a file of the repository."""
OPTIONAL = re.compile(r"^\? (\S+)$", re.MULTILINE)
"""An entry of a table of contents that stands there if there is such a page."""

log = logging.getLogger(__name__)


def rewritten(text: str, page: Path, origin: Path | None = None) -> str:
    """The text of a page, as the site shows it.

    Args:
        text: what is written.
        page: the page's own place below ``docs``.
        origin: the file that links are relative to, where the page shows another one.
    """

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found.groups()
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        place = Path(os.path.normpath((origin or page).parent / target))
        if origin is None and place.is_relative_to(DOCS):
            return found[0]
        if not place.exists():
            log.warning("a link leads nowhere: %s", target, location=str(page))
            return words
        shown = shown_as(place)
        return f"[{words}]({os.path.relpath(shown, page.parent)}{anchor})" if shown else words

    return LINK.sub(link, text)


def shown_as(place: Path) -> Path | None:
    """The page of the site that shows a file or folder, if there is one."""
    if place.is_relative_to(DOCS):
        return place if place.is_file() else None
    name = str(place.relative_to(ROOT))
    name = "examples" if name.startswith("examples/") else name
    return DOCS / SHOWN[name] if name in SHOWN else None


def read(app: Sphinx, name: str, content: list[str]) -> None:
    """Rewrite a page as it is read; one that shows a file of the repository is replaced by it."""
    page = Path(str(app.env.doc2path(name)))
    shown = SHOWS.match(content[0])
    if shown is None:
        content[0] = rewritten(
            OPTIONAL.sub(lambda found: found[1] if found[1] in app.env.found_docs else "", content[0]), page
        )
        return
    origin = Path(os.path.normpath(page.parent / shown[1]))
    app.env.note_dependency(str(origin), docname=name)
    content[0] = rewritten(origin.read_text(encoding="utf-8"), page, origin)


def copy_pictures(app: Sphinx, failed: Exception | None) -> None:
    """Lay the pictures where pages that name them in HTML look for them."""
    if failed is None:
        shutil.copytree(
            DOCS / "pictures",
            app.outdir / "pictures",
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("*.py", "__pycache__"),
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("source-read", read)
    app.connect("build-finished", copy_pictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
