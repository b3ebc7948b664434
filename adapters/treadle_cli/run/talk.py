"""One run of ``treadle run``: host, agent and screen put together, and what is said in it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext

import trio
from attrs import field, frozen
from rich.console import Console

import treadle
from treadle import Agent, AgentOptions, Host
from treadle.hooks import Scope
from treadle.printable import one_line

from ..exits import Exit, exit_of
from ..models.routes import Wish, route_for
from ..stores.storage import SessionChoice, session_meant, store_for
from ..terminal.turns import told_turns
from .conversation import Conversation
from .declared import Declared, declared_agent
from .example_tools import EXAMPLE_TOOLS
from .interrupts import Interrupts, WayOut
from .keyboard import LineEditor, can_edit, keys_of, typed_lines
from .narration import LogNotes, Narrator
from .screen import Screen


@frozen
class Choices:
    """What the command was asked for.

    Attributes:
        wish: which model.
        system: the system prompt.
        tools: whether the example tools are offered.
        max_tokens: bound on each answer.
        session: where the session is kept, and which one.
        declared: the configuration that says all of this instead.
    """

    wish: Wish
    system: str = ""
    tools: bool = True
    max_tokens: int | None = None
    session: SessionChoice = field(factory=SessionChoice)
    declared: Declared | None = None


@frozen
class Partner:
    """An agent ready to be talked to. ``kept`` tells whether its session is stored."""

    host: Host
    agent: Agent
    route: str
    kept: bool


async def answer_once(choices: Choices, prompt: str) -> Exit:
    """Run one turn: the answer goes to stdout, everything else to stderr."""
    screen = Screen(Console(highlight=False), Console(stderr=True, highlight=False))
    narrator = Narrator(screen)
    way_out = WayOut()
    async with _interruptible(Interrupts(way_out)) as interrupts:
        with way_out.scope:
            async with _partner(choices, narrator) as partner:
                agent = partner.agent

                def stop() -> None:
                    if agent.status == "running" and agent.converging is None:
                        agent.cancel()
                    else:
                        way_out.leave()

                interrupts.on_interrupt = stop
                agent.followup(prompt)
                await agent.when_idle()
    return Exit.INTERRUPTED if way_out.taken else exit_of(narrator.last)


async def converse(choices: Choices) -> Exit:
    """Hold a conversation until the input ends or the user leaves."""
    descriptor = sys.stdin.fileno()
    console = Console(highlight=False)
    edits = console.is_terminal and can_edit(descriptor)
    editor = LineEditor() if edits else None
    echoed = console.is_terminal and os.isatty(descriptor) and not edits
    screen = Screen(console, console, edits=edits, echoed=echoed)
    narrator = Narrator(screen)
    way_out = WayOut()
    with keys_of(descriptor) if edits else nullcontext() as keys:
        async with _interruptible(Interrupts(way_out, keys)) as interrupts:
            with way_out.scope:
                async with _partner(choices, narrator) as partner:
                    conversation = Conversation(partner.agent, screen, way_out, editor)
                    interrupts.on_interrupt = conversation.interrupt
                    _welcome(screen, partner)
                    conversation.attach(partner.host)
                    try:
                        await conversation.listen(typed_lines(descriptor, editor, conversation.typing))
                    finally:
                        _goodbye(screen, partner)
    if way_out.taken:
        return Exit.INTERRUPTED
    return Exit.OK if console.is_terminal else exit_of(narrator.last)


@asynccontextmanager
async def _partner(choices: Choices, narrator: Narrator) -> AsyncGenerator[Partner]:
    async with AsyncExitStack() as stack:
        stack.enter_context(_logging_to(narrator.screen))
        if choices.declared is not None:
            host, agent = await stack.enter_async_context(declared_agent(choices.declared, narrator))
            yield Partner(host, agent, _route_of(agent), host.store is not None)
            return
        route = await stack.enter_async_context(route_for(choices.wish))
        store = store_for(choices.session)
        if store is not None:
            await stack.enter_async_context(store)
        session_id = await session_meant(choices.session, store)
        host = await stack.enter_async_context(Host(store=store))
        host.models.register(route.provider, route.adapter)
        if choices.tools:
            for tool in EXAMPLE_TOOLS:
                host.tools.register(tool)
        narrator.attach(host)

        async def setup(_: Scope, agent: Agent) -> None:
            agent.system_prompt = choices.system

        options = AgentOptions(route.provider, route.model, max_tokens=choices.max_tokens)
        if session_id is None:
            handle = await host.agents.create(agent_options=options, setup=setup)
        else:
            handle = await host.agents.resume(session_id, agent_options=options, setup=setup)
        yield Partner(host, handle.agent, str(route), store is not None)


def _route_of(agent: Agent) -> str:
    options = agent.options
    return f"{options.model} ({options.provider})" if options.model is not None else "an agent without a model"


@asynccontextmanager
async def _interruptible(interrupts: Interrupts) -> AsyncGenerator[Interrupts]:
    """Receive signals inside the block, its winding down included."""
    async with trio.open_nursery() as nursery:
        await nursery.start(interrupts.receive)
        yield interrupts
        nursery.cancel_scope.cancel()


@contextmanager
def _logging_to(screen: Screen) -> Generator[None]:
    """Show what the driver logs as notes on the screen, instead of as lines between the words."""
    logger = logging.getLogger("treadle")
    handler = LogNotes(screen)
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated


def _welcome(screen: Screen, partner: Partner) -> None:
    screen.note((f"treadle {treadle.__version__}", "bold"), f"  you talk to {partner.route}")
    screen.note(("type while it works to steer it; Ctrl-C stops the turn, twice leaves; /help shows more", "dim"))
    turns = told_turns(partner.agent.session.events)
    if turns:
        screen.note(
            (f"session {partner.agent.id} goes on after {_turns(len(turns))}; the last began: ", "dim"), turns[-1].asked
        )
    inbox = partner.agent.inbox
    for waiting in (*inbox.next_step, *inbox.next_turn):
        screen.note(("  waits for your next word: ", "dim"), one_line(waiting.text, 80))
    screen.note()


def _goodbye(screen: Screen, partner: Partner) -> None:
    if partner.kept and len(partner.agent.session):
        screen.note((f"session {partner.agent.id} is kept; go on with: treadle run --continue", "dim"))


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"
