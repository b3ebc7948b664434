"""One provider's endpoint: its address, its credential, and the connections kept open to it."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import partial
from importlib import metadata
from typing import Any

import httpx
import trio

from treadle import MisuseError

from .body import ACCEPT_ENCODING, Body
from .credentials import Credential
from .pools import KEPT_CONNECTIONS, Pools
from .redaction import SHORTEST_IN_ANSWERS, Secrets, secrets_of

_SECRET_NAME = re.compile("auth|key|token|secret|passw|cookie|credential|signature", re.IGNORECASE)

STALE_CONNECTIONS = KEPT_CONNECTIONS + 1
"""How many kept connections of its pool a request may find closed."""


def user_agent() -> str:
    """What the project calls itself to servers: ``treadle/VERSION``."""
    try:
        return f"treadle/{metadata.version('treadle')}"
    except metadata.PackageNotFoundError:
        return "treadle/0"


class _ConnectionWatch:
    """httpcore's trace of one request: whether it went out over a connection that had been used before."""

    def __init__(self) -> None:
        self._connected = False
        self.reused = False

    async def __call__(self, event: str, _: Mapping[str, Any]) -> None:
        if event.startswith("connection.connect"):
            self._connected = True
        elif event.endswith("send_request_headers.started"):
            self.reused = not self._connected


class Endpoint:
    """Where one adapter's requests go. Connections are shared by all its attempts and made when first needed.

    Args:
        base_url: the address before ``/chat/completions`` and its like; a query in it is kept. Keys do not belong
            there: httpx logs addresses.
        credential: the API key.
        headers: sent with every request; their values are treated as secrets (X1).
        client: used as it is, and left open by ``aclose``.
        transport: carries the requests of the client made here.

    Raises:
        MisuseError: the address is no http(s) URL, a header cannot be sent, or both client and transport are given.
    """

    def __init__(
        self,
        base_url: str,
        credential: Credential,
        headers: Mapping[str, str] | None = None,
        *,
        client: httpx.AsyncClient | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if client is not None and transport is not None:
            raise MisuseError("give either client or transport, not both")
        self._base, login = _address(base_url)
        self._shown = str(self._base.copy_with(query=None, fragment=None))
        self._given = client
        self._transport = transport
        self._pools: Pools | None = None
        self.credential = credential
        self._headers = httpx.Headers({"User-Agent": user_agent(), "Accept-Encoding": ACCEPT_ENCODING, **login})
        for name, value in (headers or {}).items():
            _check_header(name, value)
            self._headers[name] = value
        logins = [value.removeprefix("Basic ") for value in login.values()]
        named = [*(headers or {}).items(), *self._base.params.items()]
        self._secrets = (*[value for _, value in named], *logins)
        self._told_secret = (*[value for name, value in named if _SECRET_NAME.search(name)], *logins)

    def __str__(self) -> str:
        """The address as messages may show it: without user, password and query (X1)."""
        return self._shown

    def __repr__(self) -> str:
        return f"<Endpoint {self}, {self.credential!r}>"

    @property
    def host(self) -> str:
        """The host's name."""
        return self._base.host

    def secrets(self) -> tuple[str, ...]:
        """What no text may show (X1)."""
        return (*self._secrets, *self.credential.secrets())

    def hidden(self) -> Secrets:
        """Hides secrets in errors: the key, every header that was given, and the address's query (X1)."""
        return secrets_of(self.secrets())

    def hidden_in_answers(self) -> Secrets:
        """Hides secrets in answers (X1): the key, and headers and queries whose names say that they are secret.

        Values that are words rather than secrets are left alone, or the answers would lose them.
        """
        return secrets_of(self.secrets_in_answers(), SHORTEST_IN_ANSWERS)

    def secrets_in_answers(self) -> tuple[str, ...]:
        """What ``hidden_in_answers`` hides."""
        values = (*self._told_secret, *self.credential.secrets())
        return tuple([value for value in values if len(value) >= 12 or any([each.isdigit() for each in value])])

    async def ready(self) -> None:
        """Have made what the first request of a process needs, so that no wait for the server counts it."""
        if self._given is None:
            await self._here().ready()

    async def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Body:
        """Send a request and return the response once its headers came; it is still to be read, and closed.

        ``more`` are headers of this request that replace no other.

        Neither httpx's timeouts nor redirects apply: ``IdleWatchdog`` bounds the waits, and a redirect is an answer.

        Some servers close a kept connection without a word, now and then just as it is used again. When that happens
        before a byte of the answer came, the request goes out over another connection: it is still the one attempt
        (Q6), since nothing of an answer came. A connection made for this request is given no second chance.
        """
        merged = self._headers.copy()
        merged.update(headers)
        for name, value in (more or {}).items():
            _check_header(name, value)
            merged.setdefault(name, value)
        url = self._base.copy_with(path=self._base.path.rstrip("/") + path)
        if params:
            url = url.copy_merge_params(dict(params))
        if self._given is not None:
            return Body(await self._sent(self._given, method, url, merged, content))
        pools = self._here()
        pool = await pools.take()
        try:
            response = await self._sent(pool.client, method, url, merged, content)
        except BaseException:
            with trio.CancelScope(shield=True):
                await pools.release(pool)
            raise
        return Body(response, partial(pools.release, pool))

    async def _sent(
        self, client: httpx.AsyncClient, method: str, url: httpx.URL, headers: httpx.Headers, content: bytes | None
    ) -> httpx.Response:
        for _ in range(STALE_CONNECTIONS):
            watch = _ConnectionWatch()
            request = client.build_request(
                method,
                url,
                headers=headers,
                content=content,
                timeout=httpx.Timeout(None),
                extensions={"trace": watch},
            )
            try:
                return await client.send(request, stream=True, follow_redirects=False)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if not watch.reused:
                    raise
        text = f"the server closed {STALE_CONNECTIONS} kept connections in a row"
        raise httpx.RemoteProtocolError(text)

    def _here(self) -> Pools:
        pools = self._pools
        if pools is None or pools.token is not trio.lowlevel.current_trio_token():
            pools = self._pools = Pools(self._base.scheme == "https", self._transport)  # connections die with their run
        return pools

    async def aclose(self) -> None:
        """Close the connections made here. A later request opens new ones."""
        pools, self._pools = self._pools, None
        if pools is not None:
            await pools.aclose()


def _check_header(name: str, value: str) -> None:
    if not (name + value).isascii() or not (name + value).isprintable() or not name:
        raise MisuseError(f"the value of header {name!r} cannot be sent: printable ASCII only")


def _address(base_url: str) -> tuple[httpx.URL, dict[str, str]]:
    """The address, and the header that a user and password in it stand for; httpx logs addresses as they are (X1)."""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise MisuseError(f"the base URL is not valid: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise MisuseError("the base URL must begin with http:// or https:// and name a host")
    if not url.userinfo:
        return url, {}
    login = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
    return url.copy_with(userinfo=b""), {"Authorization": f"Basic {login}"}
