"""The page: what a browser is given. No build step, no other server, no inline code."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..pictures import Pictures

HTML, CSS, SCRIPT, SVG = "text/html", "text/css", "text/javascript", "image/svg+xml"
FILES = {
    "/": ("index.html", HTML),
    "/icon.svg": ("icon.svg", SVG),
    "/page.css": ("page.css", CSS),
    "/page.js": ("page.js", SCRIPT),
    "/beside.js": ("beside.js", SCRIPT),
    "/sessions.js": ("sessions.js", SCRIPT),
    "/transcript.js": ("transcript.js", SCRIPT),
    "/waiting.js": ("waiting.js", SCRIPT),
    "/wire.js": ("wire.js", SCRIPT),
}
"""What is served under which path, and as what."""
LIFECYCLE = "<!-- the lifecycle -->"
"""Where the page has the drawing; without one, nothing stands there."""


@cache
def _content(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def page_files(pictures: Pictures | None) -> Mapping[str, tuple[str, str]]:
    """What the page is made of, by path: each file's text and its media type."""
    made = {path: (_content(name), media) for path, (name, media) in FILES.items()}
    made["/drawing.css"] = (pictures.style if pictures is not None else "", CSS)
    made["/drawing.js"] = (pictures.script if pictures is not None else "", SCRIPT)
    index, media = made["/"]
    made["/"] = (index.replace(LIFECYCLE, pictures.lifecycle if pictures is not None else ""), media)
    return made


def page_routes(made: Mapping[str, tuple[str, str]]) -> list[Route]:
    """The routes of the page; they hold nothing of anybody's, so anybody may see them."""

    def route(path: str, text: str, media: str) -> Route:
        async def send(_: Request) -> Response:
            headers = {"content-type": f"{media}; charset=utf-8", "cache-control": "no-cache"}
            return Response(text, headers=headers)

        return Route(path, send)

    return [route(path, text, media) for path, (text, media) in made.items()]
