"""One run of ``treadle run``: host, agent and screen put together, and what is said in it."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from attrs import field, frozen
from rich.console import Console

import treadle
from treadle import Agent, AgentOptions, Host, Tool
from treadle.hooks import Scope
from treadle.printable import one_line

from ..exits import Exit, exit_of
from ..models.routes import Wish, route_for
from ..stores.storage import SessionChoice, session_known, session_meant, store_for
from ..terminal.turns import told_turns
from .approval import Approval
from .conversation import KEYS, Conversation, Typing
from .declared import Declared, declared_agent, extended
from .editor import IDLE, Editor, can_edit
from .equipment import Equipment
from .interrupts import Interrupts, WayOut
from .lines import lines_of, no_lines
from .narration import LogNotes, Narrator
from .screen import Screen, Stream


@frozen
class Choices:
    """What the command was asked for.

    Attributes:
        wish: which model.
        system: the system prompt.
        tools: what is offered to the model.
        max_tokens: bound on each answer.
        session: where the session is kept, and which one.
        declared: the configuration that says all of this instead.
        equipment: what the host is furnished with beside the tools.
        approves: whether all calls are approved that ask for it.
    """

    wish: Wish
    system: str = ""
    tools: tuple[Tool, ...] = ()
    max_tokens: int | None = None
    session: SessionChoice = field(factory=SessionChoice)
    declared: Declared | None = None
    equipment: tuple[Equipment, ...] = ()
    approves: bool = False


@frozen
class Partner:
    """An agent ready to be talked to. ``kept`` tells whether its session is stored."""

    host: Host
    agent: Agent
    route: str
    kept: bool


async def answer_once(choices: Choices, prompt: str) -> Exit:
    """Run one turn: the answer goes to stdout, everything else to stderr."""
    way_out = WayOut()
    interrupts = Interrupts(way_out)
    screen = _streams(way_out)
    narrator = Narrator(screen)
    async with interrupts.received():
        with way_out.scope:
            async with partner_of(choices, narrator, Approval(screen, everything=choices.approves)) as partner:
                agent = partner.agent

                def stop(_: bool) -> None:
                    if agent.status == "running" and agent.converging is None:
                        agent.cancel()
                    else:
                        way_out.leave()

                interrupts.on_interrupt = stop
                agent.followup(prompt)
                await agent.when_idle()
    return _status(way_out, narrator, exit_of(narrator.last))


async def converse(choices: Choices) -> Exit:
    """Hold a conversation until the input ends or the user leaves.

    In a terminal the line is edited and output flows above it. Otherwise lines are taken as they come, the answers go
    to stdout and everything else to stderr.
    """
    way_out = WayOut()
    if can_edit():
        editor = Editor()
        screen = Screen(editor, editor, spaced=True)
        async with editor.opened():
            narrator = await _talk(choices, way_out, screen, _edited(editor, screen), editor)
        return _status(way_out, narrator, Exit.OK)
    screen = _streams(way_out)
    narrator = await _talk(choices, way_out, screen, _plain(screen))
    return _status(way_out, narrator, exit_of(narrator.last))


async def _talk(
    choices: Choices, way_out: WayOut, screen: Screen, typing: Typing, editor: Editor | None = None
) -> Narrator:
    narrator = Narrator(screen)
    approval = Approval(screen, everything=choices.approves)
    approval.present = not typing.one_by_one
    interrupts = Interrupts(way_out, editor.give_back if editor is not None else lambda: None)
    async with interrupts.received():
        if editor is not None:
            editor.on_interrupt = interrupts.interrupt
        with way_out.scope:
            async with partner_of(choices, narrator, approval) as partner:
                conversation = Conversation(partner.agent, screen, way_out, typing, approval.answer)
                interrupts.on_interrupt = conversation.interrupt
                if editor is not None:
                    editor.on_typing = conversation.typed
                if not typing.one_by_one:
                    _welcome(screen, partner)
                conversation.attach(partner.host)
                try:
                    await conversation.listen()
                finally:
                    if not typing.one_by_one:
                        _goodbye(screen, partner)
    return narrator


def _streams(way_out: WayOut) -> Screen:
    """Answers on stdout, the rest on stderr. An answer that cannot be written is a reason to leave, told once."""

    def lost(error: OSError) -> None:
        screen.note(("✗ ", "bold red"), f"the answer cannot be written: {error.strerror or error}")
        way_out.leave(Exit.FAILED)

    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  # it was closed by whoever started this
        raise OSError("stdout is closed: the answer has nowhere to go")
    notes = Stream(Console(stderr=True, highlight=False), lambda _: None)
    screen = Screen(Stream(Console(highlight=False), lost), notes)
    return screen


def _edited(editor: Editor, screen: Screen) -> Typing:
    def entered(line: str) -> None:
        screen.note(IDLE, line.replace("\n", "\n  "))

    return Typing(editor.lines(), editor.show_working, entered, KEYS)


def _plain(screen: Screen) -> Typing:
    """Lines as they come: from a terminal that echoes by itself they may steer, from elsewhere each is a turn."""
    if sys.stdin is None:
        return Typing(no_lines(), one_by_one=True)
    lines = lines_of(sys.stdin.fileno())
    if not sys.stdin.isatty():
        return Typing(lines, one_by_one=True)

    def working(works: bool) -> None:
        if not works:
            with contextlib.suppress(OSError):
                sys.stderr.write(IDLE[0])
                sys.stderr.flush()

    return Typing(lines, working, lambda _: screen.end_line())


def _status(way_out: WayOut, narrator: Narrator, ended: Exit) -> Exit:
    """The exit status: how the way out was taken, else how the last turn ended; what was not stored is a failure."""
    if way_out.status is not None:
        return way_out.status
    return Exit.FAILED if narrator.unstored and ended is Exit.OK else ended


@asynccontextmanager
async def partner_of(choices: Choices, narrator: Narrator, approval: Approval) -> AsyncGenerator[Partner]:
    """Put host and agent together; leaving the block ends both."""
    async with AsyncExitStack() as stack:
        stack.enter_context(_logging_to(narrator.screen))
        if choices.declared is not None:
            host, agent = await stack.enter_async_context(declared_agent(choices.declared, narrator, approval))
            yield Partner(host, agent, _route_of(agent), host.store is not None)
            return
        route = await stack.enter_async_context(route_for(choices.wish))
        store = store_for(choices.session)
        if store is not None:
            await stack.enter_async_context(store)
        session_id = await session_meant(choices.session, store)
        host = await stack.enter_async_context(Host(store=store, approver=approval))
        host.models.register(route.provider, route.adapter)
        for tool in choices.tools:
            host.tools.register(tool)
        for furnish in choices.equipment:
            furnish(host)
        narrator.attach(host)
        extended(host)

        async def setup(_: Scope, agent: Agent) -> None:
            agent.system_prompt = choices.system

        options = AgentOptions(route.provider, route.model, max_tokens=choices.max_tokens)
        if session_id is None:
            handle = await host.agents.create(agent_options=options, setup=setup)
        else:
            with session_known(choices.session):
                handle = await host.agents.resume(session_id, agent_options=options, setup=setup)
        yield Partner(host, handle.agent, str(route), store is not None)


def _route_of(agent: Agent) -> str:
    options = agent.options
    return f"{options.model} ({options.provider})" if options.model is not None else "an agent without a model"


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
    screen.note(("type while it works to steer it; Ctrl-C stops the turn; /help shows more", "dim"))
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
