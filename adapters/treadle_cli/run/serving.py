"""``treadle mcp serve``: an agent as a server of tools."""

from __future__ import annotations

import sys

import trio
from rich.console import Console

from treadle import MisuseError
from treadle_adapters.mcp.serve import check_local, serve_http, serve_stdio, served

from ..exits import Exit
from .approval import Approval
from .command import choices_of
from .interrupts import Interrupts, WayOut
from .narration import Narrator
from .options import AgentWords, ConfigWords, ModelWords, SessionWords
from .screen import Screen, Stream
from .talk import Choices, partner_of


def serve(
    *,
    http: int | None = None,
    host: str = "127.0.0.1",
    agent: AgentWords = AgentWords(),
    model: ModelWords = ModelWords(),
    session: SessionWords = SessionWords(),
    config: ConfigWords = ConfigWords(),
) -> int:
    """Serve an agent to clients that speak the Model Context Protocol.

    They prompt it, steer it, stop it, and ask how it is: each by a tool. On stdin and stdout unless `--http` is given; what it
    does is told on stderr. The agent is chosen and furnished as for `treadle run`. Nobody is there to approve calls that
    ask for it: they are refused unless `--yes` is given.

    Args:
        http: the port on which streamable HTTP is served at /mcp; 0 takes one that is free.
        host: an address of this machine.
        agent: what the agent is told, and what it can do.
        model: which model answers.
        session: where the session is kept, and which one.
        config: a configuration that says all of this instead.
    """
    if http is not None and not 0 <= http <= 65_535:
        raise MisuseError("--http takes a port from 0 to 65535")
    check_local(host)
    return trio.run(_serve, choices_of(agent, model, session, config), host, http)


async def _serve(choices: Choices, host: str, port: int | None) -> Exit:
    way_out = WayOut()
    notes = Stream(Console(file=sys.stderr, highlight=False), lambda _: None)
    screen = Screen(notes, notes)
    async with Interrupts(way_out).received():
        with way_out.scope:
            approval = Approval(screen, everything=choices.approves)
            async with partner_of(choices, Narrator(screen), approval) as partner:
                server = served(partner.agent)
                if port is None:
                    await serve_stdio(server)
                else:
                    await serve_http(
                        server, host, port, ready=lambda url: screen.note(f"served at {url}"), until=trio.sleep_forever
                    )
    return way_out.status if way_out.status is not None else Exit.OK
