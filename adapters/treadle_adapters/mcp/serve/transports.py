"""Where a served agent is reached: on our own stdin and stdout, or over streamable HTTP on this machine."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import anyio
import trio
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from treadle import MisuseError

from ..stdio import Lines

LARGEST_MESSAGE = 16 * 1024 * 1024
"""Bytes that a message of a client may have."""


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client on stdin and stdout, until it closes our stdin. What else is printed goes to stderr.

    Raises:
        MisuseError: stdin or stdout is closed.
    """
    async with _own_streams() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


@asynccontextmanager
async def _own_streams() -> AsyncGenerator[tuple[Any, Any]]:
    if sys.stdin is None or sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by whoever started this
        raise MisuseError("serving on stdin and stdout needs both; or serve over HTTP")
    sys.stdout.flush()
    wire = os.dup(1)
    os.dup2(2, 1)  # so that nothing else gets between the messages
    try:
        source, sink = trio.lowlevel.FdStream(os.dup(0)), trio.lowlevel.FdStream(os.dup(wire))
        to_us, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writing, from_us = anyio.create_memory_object_stream[SessionMessage](0)
        async with source, sink, trio.open_nursery() as nursery, to_us, reading, writing, from_us:
            nursery.start_soon(_read, source, to_us)
            nursery.start_soon(_write, sink, from_us)
            yield reading, writing
            nursery.cancel_scope.cancel()
    finally:
        os.dup2(wire, 1)
        os.close(wire)
        for descriptor in (0, 1):  # other processes may hold these pipes as well, and do not expect this
            os.set_blocking(descriptor, True)


async def _read(source: trio.lowlevel.FdStream, target: Any) -> None:
    lines = Lines(LARGEST_MESSAGE)
    async with target:
        async for chunk in source:
            for line in lines.feed(bytes(chunk)):
                if line is None:
                    return  # too long to be taken, and nothing to answer: this client is not served any more
                if isinstance(line, SessionMessage):
                    continue
                try:
                    message: Any = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                except ValueError as error:
                    message = error
                await target.send(message)


async def _write(sink: trio.lowlevel.FdStream, messages: Any) -> None:
    try:
        async for message in messages:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await sink.send_all(line.encode("utf-8", "replace") + b"\n")
    except trio.BrokenResourceError:
        await messages.aclose()


def check_local(host: str) -> str:
    """An address of this machine only: nobody is asked who he is.

    Raises:
        MisuseError: others could reach it.
    """
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise MisuseError(f"{host} could be reached by others, and nobody is asked who he is: serve on 127.0.0.1")
    return host


async def serve_http(
    server: Server[Any], host: str, port: int, *, ready: Callable[[str], object], until: Callable[[], Awaitable[Any]]
) -> None:
    """Serve any number of clients over streamable HTTP, at ``/mcp``.

    Args:
        server: the server.
        host: an address of this machine.
        port: 0 takes one that is free.
        ready: told the address, once it is served.
        until: serves until this returns.

    Raises:
        MisuseError: others could reach that address.
        OSError: it is taken.
    """
    from hypercorn.config import Config
    from hypercorn.trio import serve  # pyright: ignore[reportUnknownVariableType]

    config = Config()
    config.bind = [f"{check_local(host)}:{port}"]
    config.graceful_timeout = 1.0
    config.accesslog = config.errorlog = None
    app = server.streamable_http_app(host=host, max_request_body_size=LARGEST_MESSAGE)
    async with trio.open_nursery() as nursery:
        run = partial(serve, cast("Any", app), config, shutdown_trigger=until, mode="asgi")
        bound = await nursery.start(run)
        ready(f"{bound[0]}/mcp")
