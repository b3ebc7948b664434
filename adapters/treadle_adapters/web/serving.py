"""The server of ``treadle serve``: hypercorn on trio, in this process, on a socket of ours."""

from __future__ import annotations

import logging
import resource
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import trio

from treadle import MisuseError

from .app import Web
from .limits import Limits

LOGGER = logging.getLogger("treadle.web")
BACKLOG = 1_024
SPARE_FILES = 64
"""Descriptors that are needed beside those of connections."""
HEADER_SECONDS = 10.0
"""How long a client may take to send a request's header, and how long a connection may be idle."""
USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", None)


def listening(host: str, port: int, stalled: float) -> socket.socket:
    """A socket that connections inherit their patience from: a reader that takes nothing for so long is cut off.

    Raises:
        OSError: the address is taken, or none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if USER_TIMEOUT is not None:
            made.setsockopt(socket.IPPROTO_TCP, USER_TIMEOUT, int(stalled * 1000))
        made.bind((host, port))
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def check_files(limits: Limits) -> None:
    """See that there are descriptors for as many connections as may be; asks for more, and tells what is short."""
    wanted = limits.streams + limits.requests + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if most > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        LOGGER.warning(
            "%d descriptors are too few for %d streams: raise the limit (ulimit -Hn), or lower Limits(streams=…)",
            most,
            limits.streams,
        )


async def serve(
    web: Web,
    host: str,
    port: int,
    *,
    ready: Callable[[str], object],
    until: Callable[[], Awaitable[Any]],
    drain: float = 10.0,
    stalled: float = 10.0,
) -> None:
    """Serve an application until ``until`` returns; then drain it.

    Args:
        web: the application.
        host: an address of this machine.
        port: 0 takes one that is free.
        ready: told the address, once it is served.
        until: when it returns, turns that run may end, for ``drain`` seconds; then streams end, and the server.
        drain: see there.
        stalled: seconds after which a reader that takes nothing is cut off; so long the end may take beyond the drain.

    Raises:
        MisuseError: the port is none.
        OSError: the address is taken.
    """
    from hypercorn.config import Config
    from hypercorn.trio import serve as run_server  # pyright: ignore[reportUnknownVariableType]

    if not 0 <= port <= 65_535:
        raise MisuseError("a port is a number from 0 to 65535")
    check_files(web.limits)
    listener = listening(host, port, stalled)
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.backlog = BACKLOG
    config.accesslog = config.errorlog = None
    config.include_server_header = False
    config.keep_alive_timeout = HEADER_SECONDS
    config.graceful_timeout = stalled
    config.websocket_max_message_size = web.limits.body
    drained = trio.Event()
    async with trio.open_nursery() as nursery:
        served = partial(run_server, cast("Any", web), config, shutdown_trigger=drained.wait, mode="asgi")
        bound = await nursery.start(served)
        ready(bound[0])
        await until()
        await web.drain(drain)
        drained.set()
