"""The clients of one endpoint: many small pools of connections instead of a large one.

httpcore looks at every connection of a pool whenever a request begins or ends, and asks the operating system about
each idle one. With a thousand streams at once that is most of what a request costs, and a cancel waits for it.
"""

from __future__ import annotations

import ssl

import httpx
import trio
from attrs import define, field

POOL_CONNECTIONS = 64
"""How many streams share one pool; the next one opens another pool."""

KEPT_CONNECTIONS = 32
"""How many idle connections are kept for the next requests. Only the first pool outlives its streams."""

KEPT_FOR = 30.0
"""Seconds an idle connection is kept; many servers close theirs soon after."""


@define(eq=False)
class Pool:
    """One client, and how many responses of it are open."""

    client: httpx.AsyncClient
    open: int = 0


@define(eq=False)
class Pools:
    """Shares the requests of one trio run over clients made when first needed.

    Args:
        secure: whether the address needs TLS; loading the certificates takes longer than all the rest.
        transport: carries the requests of the one client made here.
    """

    secure: bool
    transport: httpx.AsyncBaseTransport | None = None
    token: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token)
    _pools: list[Pool] = field(factory=list[Pool], init=False)
    _first: trio.Lock = field(factory=trio.Lock, init=False)
    _context: ssl.SSLContext | None = field(default=None, init=False)

    async def ready(self) -> None:
        """Have what clients need made, where it is not yet.

        Once in a process that is done in a worker thread: importing what carries the requests and loading the
        certificates takes 0.15 s of computing, which would hold up every agent of the process.
        """
        if self.transport is not None or self._context is not None:
            return
        async with self._first:
            made = _MADE.get(self.secure)
            self._context = made or await trio.to_thread.run_sync(first_client, self.secure, abandon_on_cancel=True)

    async def take(self) -> Pool:
        """The pool for one more request; give it back with ``release``."""
        await self.ready()
        for pool in self._pools:
            if pool.open < POOL_CONNECTIONS or self.transport is not None:
                break
        else:
            pool = Pool(self._client())
            self._pools.append(pool)
        pool.open += 1
        return pool

    async def release(self, pool: Pool) -> None:
        """A request of ``pool`` is over. A pool that nobody uses is closed, but for the first."""
        pool.open -= 1
        if not pool.open and pool in self._pools[1:]:
            self._pools.remove(pool)
            await pool.client.aclose()

    async def aclose(self) -> None:
        """Close every client."""
        pools, self._pools = self._pools, []
        for pool in pools:
            await pool.client.aclose()

    def _client(self) -> httpx.AsyncClient:
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS, keepalive_expiry=KEPT_FOR
        )
        verify: ssl.SSLContext | bool = True if self._context is None else self._context
        return httpx.AsyncClient(transport=self.transport, verify=verify, limits=limits, timeout=httpx.Timeout(None))


_MADE: dict[bool, ssl.SSLContext] = {}
"""What TLS needs, by whether it is used; made once in a process."""


def first_client(secure: bool) -> ssl.SSLContext:
    """Import all that a request needs, and load the certificates; done once in a process. For a worker thread."""
    context = httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    httpx.AsyncClient(verify=context)
    "a".encode("idna")
    return _MADE.setdefault(secure, context)
