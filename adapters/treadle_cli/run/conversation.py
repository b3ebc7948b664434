"""A conversation at the terminal: what a typed line does, and what Ctrl-C does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from attrs import field, frozen

from treadle import Agent, AgentBusy, Host, State, TreadleError, UserMessage, message
from treadle.hooks import AGENT_STATUS, INBOX_CLAIMED, AgentStatus, InboxClaimed
from treadle.printable import one_line

from .interrupts import WayOut
from .screen import Screen

COMMANDS = {
    "/next TEXT": "queue a turn of its own, after this one",
    "/queue": "show what waits",
    "/stop": "stop the turn, as Ctrl-C does",
    "/compact": "have a summary take the place of old history; words after it say what matters",
    "/quit": "leave, as Ctrl-D does",
    "/help": "show this",
    "//TEXT": "say a text that begins with a slash",
}
"""What may be typed besides words for the agent."""

KEYS = {
    "Enter": "send: the prompt of a turn, or steering while one runs",
    "Alt-Enter": "a new line; so do Ctrl-J, and \\ at a line's end",
    "a paste": "is one message, however many lines it has",
    "Up, Down": "earlier lines; Ctrl-R searches them",
    "Ctrl-C": "take back the line, else stop the turn; twice: leave",
    "Ctrl-D": "leave, when the turn is over",
}
"""What keys do where the line is edited."""


def _nothing(_: Any) -> None: ...


@frozen
class Typing:
    """Where lines come from, and what is shown of it.

    Attributes:
        lines: the lines, until their end.
        working: told whether the agent works.
        entered: told each line before it is taken.
        keys: what keys do, for ``/help``.
        one_by_one: whether each line waits until the turn of the one before is over, so that none steers another's.
    """

    lines: AsyncGenerator[str]
    working: Callable[[bool], object] = _nothing
    entered: Callable[[str], object] = _nothing
    keys: Mapping[str, str] = field(factory=dict[str, str])
    one_by_one: bool = False


class Conversation:
    """Hands typed lines to an agent, and stops it.

    A line is the prompt of a turn when the agent is idle, and steers while it runs.

    Args:
        agent: who is talked to.
        screen: where it is shown.
        way_out: the way out.
        typing: where lines come from.
        answers: takes a line that answers a question of the agent's; returns whether it was one.
    """

    def __init__(
        self,
        agent: Agent,
        screen: Screen,
        way_out: WayOut,
        typing: Typing,
        answers: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.agent = agent
        self.screen = screen
        self._way_out = way_out
        self._typing = typing
        self._answers = answers
        self._armed = False
        self._waiting: set[str] = set()

    def attach(self, host: Host) -> None:
        """Show whether the agent works, and what waited when its time has come."""
        host.on(AGENT_STATUS, self._status)
        host.on(INBOX_CLAIMED, self._claimed)
        self._typing.working(False)

    def _status(self, changed: AgentStatus) -> None:
        if changed.agent is not self.agent:
            return
        working = changed.status != "idle"
        if not working:
            self.screen.end_turn()
        self._typing.working(working)

    def _claimed(self, claimed: InboxClaimed) -> None:
        if claimed.message.id in self._waiting:
            self._waiting.discard(claimed.message.id)
            self.screen.note(("↪ ", "green"), (_gist(claimed.message), "dim"))

    async def listen(self) -> None:
        """Take lines until they end or ``/quit``; then wait for the agent to come to rest."""
        async with aclosing(self._typing.lines) as lines:
            async for line in lines:
                self._typing.entered(line)
                if not self.take(line):
                    break
                if self._typing.one_by_one:
                    await self.agent.when_idle()
        await self.agent.when_idle()

    def take(self, line: str) -> bool:
        """Do what a line says; returns whether the conversation goes on."""
        self._armed = False
        if self._answers(line):
            return True
        word, _, rest = line.strip().partition(" ")
        match word:
            case "":
                pass
            case "/quit" | "/exit":
                return False
            case "/stop":
                self._stop()
            case "/queue":
                self._show_queue()
            case "/compact":
                self._compact(rest.strip())
            case "/help":
                for name, what in {**COMMANDS, **self._typing.keys}.items():
                    self.screen.note((f"  {name:<12}", "bold"), (what, "dim"))
            case "/next":
                self._next(rest.strip())
            case _ if word.startswith("/") and not word.startswith("//") and "/" not in word[1:]:
                self.screen.note(
                    (f"  there is no {word}; /help shows what there is, // begins a line with a slash", "dim")
                )
            case _:
                self._say(line.replace("//", "/", 1) if word.startswith("//") else line)
        return True

    def _say(self, text: str) -> None:
        agent = self.agent
        if agent.status != "running":
            self._deliver(agent.followup, text, "")
        elif agent.converging is not None:
            self._deliver(agent.steer, text, "kept until the stop is through")
        else:
            self._deliver(agent.steer, text, "steering: heard at the next step")

    def _next(self, text: str) -> None:
        if not text:
            self.screen.note(("  /next needs the text of the turn", "dim"))
            return
        busy = self.agent.status == "running"
        number = len(self.agent.inbox.next_turn) + 1
        self._deliver(self.agent.followup, text, f"queued as number {number}" if busy else "")

    def _compact(self, instructions: str) -> None:
        """Begin a compaction; what becomes of it is told by the narrator."""
        try:
            self.agent.compact(instructions or None)
        except AgentBusy:
            self.screen.note(("  it is busy: /compact when the turn is over, or /stop first", "dim"))
        except TreadleError as error:
            self.screen.note(("✗ ", "bold red"), str(error))

    def _deliver(self, send: Callable[[UserMessage], object], text: str, waits: str) -> None:
        """Deliver a line; ``waits`` says what it waits for, if it does."""
        given = message(text)
        if waits:
            self._waiting.add(given.id)
        try:
            send(given)
        except TreadleError as error:
            self.screen.note(("✗ ", "bold red"), str(error))
        else:
            if waits:
                self.screen.note((f"  {waits}", "dim"))

    def _show_queue(self) -> None:
        inbox = self.agent.inbox
        for where, messages in (("next step", inbox.next_step), ("next turn", inbox.next_turn)):
            for each in messages:
                self.screen.note((f"  {where}: ", "bold"), _gist(each))
        if not (inbox.next_step or inbox.next_turn):
            self.screen.note(("  nothing waits", "dim"))

    # --- Ctrl-C -------------------------------------------------------------------------------------------------------

    def interrupt(self, had_text: bool = False) -> None:
        """Ctrl-C: once stops the turn, twice leaves.

        Args:
            had_text: whether it took back a line that was being typed; that is all it does then, unless a turn runs.
        """
        if self._armed:
            self.screen.note(("  leaving …", "dim"))
            self._way_out.leave()
        elif self._works:
            self._armed = True
            self._stop()
        elif not had_text:
            self._armed = True
            self.screen.note(("  Ctrl-C again leaves", "dim"))

    def typed(self) -> None:
        """Something was typed: that takes back a first Ctrl-C."""
        self._armed = False

    @property
    def _works(self) -> bool:
        """Whether there is something to stop: a turn, or a compaction between turns."""
        return self.agent.status == "running" or self.agent.state is State.MAINTENANCE

    def _stop(self) -> None:
        if not self._works:
            self.screen.note(("  nothing is running", "dim"))
            return
        self.screen.end_line()
        self.agent.cancel(keep_inbox=self.agent.state is State.MAINTENANCE)  # what waits for a compaction goes on
        if self.agent.status == "running":
            self.screen.note(("  stopping …", "dim"))


def _gist(message: UserMessage) -> str:
    return one_line(message.text, 80)
