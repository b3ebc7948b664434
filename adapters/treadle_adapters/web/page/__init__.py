"""The page: what a browser is given. No build step, no other server, no inline code."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/transcript.js": ("transcript.js", "text/javascript; charset=utf-8"),
    "/wire.js": ("wire.js", "text/javascript; charset=utf-8"),
}
"""What is served under which path, and as what."""


@cache
def _content(name: str) -> bytes:
    return files(__name__).joinpath(name).read_bytes()


def page_routes() -> list[Route]:
    """The routes of the page; they hold nothing of anybody's, so anybody may see them."""

    def route(path: str, name: str, media: str) -> Route:
        async def send(_: Request) -> Response:
            return Response(_content(name), headers={"content-type": media, "cache-control": "no-cache"})

        return Route(path, send)

    return [route(path, name, media) for path, (name, media) in FILES.items()]
