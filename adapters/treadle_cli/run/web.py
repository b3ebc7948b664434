"""``treadle serve``: agents behind HTTP, for programs and for a browser."""

from __future__ import annotations

import ipaddress
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import trio
from attrs import frozen

from treadle import Agent, AgentOptions, Host, MisuseError
from treadle.hooks import Scope
from treadle_adapters.stores import is_database
from treadle_adapters.web import Web, app, serve

from ..exits import Exit
from ..models.routes import route_for
from ..stores.database import replica_on
from ..stores.storage import store_for
from .command import choices_of
from .declared import PARTS, TABLES, extended
from .options import AgentWords, ConfigWords, ModelWords, SessionWords
from .talk import Choices
from .tools import find_modules_in

PORT = 8321


@frozen
class Place:
    """Where is served.

    Attributes:
        host: the address.
        port: the port; 0 takes one that is free.
        names: the names under which the server may be called beside those of loopback.
        token: the token that is given; one is made without.
        drain: seconds that running turns are given at the end.
    """

    host: str
    port: int
    names: tuple[str, ...]
    token: str | None
    drain: float

    def check(self) -> None:
        """See that nobody from elsewhere comes in by default.

        Raises:
            MisuseError: the address could be reached by others, and it was not said how they come in.
        """
        if not 0 <= self.port <= 65_535:
            raise MisuseError("--port takes a port from 0 to 65535")
        if self.drain < 0:
            raise MisuseError("--drain takes seconds")
        if not _is_local(self.host) and (self.token is None or not self.names):
            raise MisuseError(
                f"{self.host} can be reached by others: give a token in TREADLE_WEB_TOKEN, and --name for each name "
                "under which they call the server; or serve on 127.0.0.1"
            )


def serve_web(
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    name: tuple[str, ...] = (),
    drain: float = 10.0,
    agent: AgentWords = AgentWords(),
    model: ModelWords = ModelWords(),
    session: SessionWords = SessionWords(),
    config: ConfigWords = ConfigWords(),
) -> int:
    """Serve agents over HTTP: sessions, messages, approvals and streams, for programs and for a browser.

    The address and a token are printed; open the address in a browser, or send the token as `Authorization: Bearer TOKEN`.
    The token is made anew each time unless TREADLE_WEB_TOKEN holds one. Agents are chosen and furnished as for `treadle run`;
    calls that ask for approval wait until somebody answers them. What the interface is: /api/openapi.json.

    With `--session-dir postgres://…` the server is one of many on that database: each takes messages for every session, and
    goes on with those of one that died. SIGTERM, or Ctrl-C once, ends it in order: turns that run are given time, what waits is kept, streams are told to come
    back; the exit status is 0.

    Args:
        host: an address of this machine; others than loopback's need a token of yours and `--name`.
        port: the port; 0 takes one that is free.
        name: a name under which the server may be called, beside those of loopback; may be given several times.
        drain: seconds that running turns are given at the end.
        agent: what agents are told, and what they can do.
        model: which model answers.
        session: where sessions are kept.
        config: a configuration that says all of this instead.
    """
    place = Place(host, port, name, os.environ.get("TREADLE_WEB_TOKEN") or None, drain)
    place.check()
    choices = choices_of(agent, model, session, config)
    if choices.session.resume is not None or choices.session.latest:
        raise MisuseError("all sessions of the folder are served: leave --resume and --continue out")
    return trio.run(_serve, choices, place)


async def _serve(choices: Choices, place: Place) -> Exit:
    ending = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(_signals, ending)
        async with _host(choices) as (host, extras):
            tokens = None if place.token is None else {place.token: None}
            names = ("localhost", "127.0.0.1", "::1", *place.names)
            web = app(host, tokens=tokens, hosts=names, **extras)
            await serve(
                web, place.host, place.port, ready=lambda url: _tell(url, web), until=ending.wait, drain=place.drain
            )
        nursery.cancel_scope.cancel()
    return Exit.OK


def _tell(url: str, web: Web) -> None:
    print(f"served at {url}/#token={web.token}" if web.token is not None else f"served at {url}/", flush=True)
    print(
        "the token opens everything: keep the address to yourself; Ctrl-C ends the server", file=sys.stderr, flush=True
    )


async def _signals(ending: trio.Event, task_status: trio.TaskStatus[None]) -> None:
    """End in order at the first signal, at once at the second."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            if ending.is_set():
                os._exit(128 + number)
            ending.set()


@asynccontextmanager
async def _host(choices: Choices) -> AsyncGenerator[tuple[Host, dict[str, Any]]]:
    """The host, entered, and what its agents are made with."""

    async def approve(_: object, __: str) -> bool:
        return True

    approver = approve if choices.approves else None
    async with AsyncExitStack() as stack:
        if choices.declared is not None:
            find_modules_in(choices.declared.path.parent)
            declared = Host.from_config(choices.declared.path, parts=PARTS, tables=TABLES, approver=approver)
            extended(declared)
            yield await stack.enter_async_context(declared), {}
            return
        route = await stack.enter_async_context(route_for(choices.wish))

        async def setup(_: Scope, agent: Agent) -> None:
            agent.system_prompt = choices.system

        options = AgentOptions(route.provider, route.model, max_tokens=choices.max_tokens)
        where = choices.session.directory
        if is_database(where):
            made = Host(replica=replica_on(str(where), agent_options=options, setup=setup), approver=approver)
        else:
            store = store_for(choices.session)
            made = Host(store=await stack.enter_async_context(store) if store is not None else None, approver=approver)
        host = await stack.enter_async_context(made)
        host.models.register(route.provider, route.adapter)
        for tool in choices.tools:
            host.tools.register(tool)
        for furnish in choices.equipment:
            furnish(host)
        extended(host)
        yield host, {"agent_options": options, "setup": setup}


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
