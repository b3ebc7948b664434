"""Who may come in: hosts, origins, tokens, cookies, and how many at once. Everything else of the application stands behind it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from http.cookies import CookieError, SimpleCookie
from typing import Any, Literal
from urllib.parse import urlsplit

from attrs import frozen
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treadle import MisuseError

from .answers import CLEAN, problem
from .desk import Owner
from .limits import Limits
from .problems import Refused
from .redaction import Redaction

CALLER = "treadle.caller"
"""Where a request's scope holds its ``Caller``."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
SHORTEST_TOKEN = 16
COOKIE_LIFE = 30 * 24 * 3600
"""Seconds that a browser keeps the page's cookie."""

SECURITY: tuple[tuple[str, str], ...] = (
    (
        "content-security-policy",
        (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
)


@frozen
class Caller:
    """Who sent a request.

    Attributes:
        owner: whose token it has.
        token: the token itself, where it was sent as one; ``None`` where the page's cookie stands for it.
    """

    owner: Owner
    token: str | None = None


class Tokens:
    """The tokens that are let in, and whose each is.

    Attributes:
        secrets: the tokens, and the cookies that stand for them.

    Raises:
        MisuseError: a token is shorter than 16 characters, or none is given.
    """

    def __init__(self, owners: Mapping[str, Owner]) -> None:
        if not owners:
            raise MisuseError("give at least one token, or None to have one made")
        if any([len(token) < SHORTEST_TOKEN or not token.isascii() for token in owners]):
            raise MisuseError(
                f"a token needs {SHORTEST_TOKEN} characters of ASCII or more; secrets.token_urlsafe() makes one"
            )
        self.secrets = (*owners, *map(cookie_for, owners))
        self._by_token = {_digest(token): owner for token, owner in owners.items()}
        self._by_cookie = {_digest(cookie_for(token)): owner for token, owner in owners.items()}

    def caller(self, headers: Headers, cookie: str) -> tuple[Caller, Literal["token", "cookie"]] | None:
        """Who sent these headers, and by what that is known; ``None`` for a stranger.

        Args:
            headers: the request's.
            cookie: the name of the page's cookie.
        """
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind:
            found = self._by_token.get(_digest(token.strip()), _STRANGER) if kind.lower() == "bearer" else _STRANGER
            return None if found is _STRANGER else (Caller(found, token.strip()), "token")
        found = self._by_cookie.get(_digest(_cookie(headers, cookie)), _STRANGER)
        return None if found is _STRANGER else (Caller(found), "cookie")


_STRANGER: Any = object()


def made_token() -> str:
    """A fresh token."""
    return secrets.token_urlsafe(32)


def cookie_for(token: str) -> str:
    """The cookie that stands for a token: it opens the page's doors after a restart as well, and does not tell the token."""
    return hmac.new(token.encode(), b"treadle page", hashlib.sha256).hexdigest()


def cookie_name(headers: Headers) -> str:
    """The page's cookie, named by the port: browsers send cookies to every port of a host."""
    return f"treadle-{urlsplit('//' + headers.get('host', '')).port or 0}"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


class Guard:
    """An ASGI application behind which only known callers come, and not too many at once.

    Args:
        inner: what is guarded.
        tokens: who is let in.
        redaction: hides secrets in what is answered.
        hosts: the names under which the server may be called; loopback's unless given.
        open: paths that anybody may see.
        limits: how many requests and streams there may be.
    """

    def __init__(
        self,
        inner: ASGIApp,
        tokens: Tokens,
        redaction: Redaction,
        hosts: Iterable[str] | None,
        open: Iterable[str],
        limits: Limits,
    ) -> None:
        self._inner = inner
        self._tokens = tokens
        self._redaction = redaction
        self._hosts = frozenset(map(str.lower, hosts if hosts is not None else LOOPBACK))
        self._open = frozenset(open)
        self._limits = limits
        self._requests = 0
        self._streams = 0
        self._owned: dict[Owner, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or one socket."""
        headers = Headers(scope=scope)
        sealed = _sealed(send, self._redaction) if scope["type"] == "http" else send
        try:
            self._check_sender(scope, headers)
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            found = self._tokens.caller(headers, cookie_name(headers))
            if path not in self._open:
                if found is None:
                    raise Refused(401, "UNAUTHORIZED", "send the token as 'Authorization: Bearer TOKEN'")
                if found[1] == "cookie":
                    _check_same_origin(scope, headers)
                scope[CALLER] = found[0]
            async with self._counted(scope, path, found[0].owner if found is not None else None):
                await self._inner(scope, receive, sealed)
        except Refused as refused:
            await _refuse(refused, scope, receive, sealed)

    def _check_sender(self, scope: Scope, headers: Headers) -> None:
        """See that the server is meant, and that no page of somebody else's sent it."""
        host = headers.get("host", "")
        try:
            name = urlsplit("//" + host).hostname or ""
            _ = urlsplit("//" + host).port
        except ValueError:
            name = ""
        if name.lower() not in self._hosts or len(headers.getlist("host")) != 1:
            raise Refused(
                421, "WRONG_HOST", "this server is not called by that name; name it in hosts=… if it is yours"
            )
        origin = headers.get("origin")
        if origin is not None and not _same(origin, host):
            raise Refused(403, "WRONG_ORIGIN", "pages of other origins may not use this server")
        site = headers.get("sec-fetch-site")
        if site not in (None, "same-origin", "none") or (site == "none" and not _reads(scope)):
            raise Refused(403, "WRONG_ORIGIN", "pages of other origins may not use this server")

    @asynccontextmanager
    async def _counted(self, scope: Scope, path: str, owner: Owner) -> AsyncGenerator[None]:
        streams = scope["type"] == "websocket" or path.endswith("/stream")
        limits = self._limits
        if streams:
            if self._streams >= limits.streams or self._owned.get(owner, 0) >= limits.streams_per_owner:
                raise Refused(
                    429, "TOO_MANY_STREAMS", "as many streams are open as may be; close some, or use one socket"
                )
            self._streams += 1
            self._owned[owner] = self._owned.get(owner, 0) + 1
        else:
            if self._requests >= limits.requests:
                raise Refused(503, "TOO_MANY_REQUESTS", "as many requests are under way as may be; try again")
            self._requests += 1
        try:
            yield
        finally:
            if streams:
                self._streams -= 1
                self._owned[owner] -= 1
                if not self._owned[owner]:
                    del self._owned[owner]
            else:
                self._requests -= 1


def _same(origin: str, host: str) -> bool:
    try:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _reads(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] in ("GET", "HEAD")


def _check_same_origin(scope: Scope, headers: Headers) -> None:
    """What changes something by the page's cookie must say that the page sent it; a browser always does."""
    if not _reads(scope) and headers.get("origin") is None and headers.get("sec-fetch-site") != "same-origin":
        raise Refused(403, "WRONG_ORIGIN", "a request with the page's cookie must name its origin")


def _sealed(send: Send, redaction: Redaction) -> Send:
    """Add the security headers to whatever is answered, and hide secrets in it."""
    held: list[Message] = []

    async def sealed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY:
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
            if "content-length" in headers:
                held.append(message)  # until the length is known
                return
        elif not message.pop(CLEAN, False) and message.get("body"):
            hidden = redaction.body(message["body"])
            if held and hidden is not message["body"]:
                MutableHeaders(scope=held[0])["content-length"] = str(len(hidden))
            message["body"] = hidden
        if held:
            await send(held.pop())
        await send(message)

    return sealed


async def _refuse(refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": refused.code})
    else:
        await problem(refused)(scope, receive, send)
