"""A server over streamable HTTP: the SDK's transport, with bounds on what is read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client

from .servers import HTTPServer
from .wire import NOT_SENT


@asynccontextmanager
async def http(server: HTTPServer) -> AsyncGenerator[tuple[Any, Any]]:
    """Speak with a server until the block is left."""
    limits = server.limits
    timeout = httpx2.Timeout(limits.start_seconds, read=None)  # calls have their own time, and streams of news any
    # What is packed could unpack to any length: nothing packed is asked for, and none is taken.
    headers = {"accept-encoding": "identity", **server.headers}
    auth = server.auth() if server.auth is not None else None
    carrier = Bounded(httpx2.AsyncHTTPTransport(trust_env=False), limits.message_bytes)
    async with (
        httpx2.AsyncClient(transport=carrier, headers=headers, timeout=timeout, auth=auth) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=limits.message_bytes) as streams,
    ):
        yield streams


class Bounded(httpx2.AsyncBaseTransport):
    """Reads no document longer than a bound. Streams of events have their own, for each event.

    What goes wrong with one request is told as its answer, so that it costs no other one.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, most: int) -> None:
        self._inner = inner
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See ``httpx2.AsyncBaseTransport``."""
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            return _told(request, NOT_SENT, f"it cannot be reached: {error}")
        except httpx2.TransportError as error:
            return _told(request, types.CONNECTION_CLOSED, str(error) or type(error).__name__)
        packed = response.headers.pop("content-encoding", None)
        if packed not in (None, "identity"):
            await response.aclose()
            return _told(request, types.CONNECTION_CLOSED, f"it packed its answer ({packed}), which nobody asked for")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            stream = cast("httpx2.AsyncByteStream", response.stream)
            response.stream = _BoundedStream(stream, self._most)
        return response

    async def aclose(self) -> None:
        """See ``httpx2.AsyncBaseTransport``."""
        await self._inner.aclose()


def _told(request: httpx2.Request, code: int, message: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(502, json=error, request=request)


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner = inner
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                self._left -= len(chunk)
                if self._left < 0:
                    raise httpx2.StreamError("the document is longer than is taken")
                yield chunk
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"the document broke off: {error or type(error).__name__}") from error

    async def aclose(self) -> None:
        await self._inner.aclose()
