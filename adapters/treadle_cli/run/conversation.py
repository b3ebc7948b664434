"""A conversation at the terminal: what a typed line does, and what Ctrl-C does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from treadle.agent.agent import Agent
from treadle.agent.delivery import message
from treadle.errors import TreadleError
from treadle.hooks.points import AGENT_STATUS, INBOX_CLAIMED, AgentStatus, InboxClaimed
from treadle.host.host import Host
from treadle.printable import one_line
from treadle.words.messages import UserMessage

from .interrupts import WayOut
from .keyboard import LineEditor
from .screen import Screen

COMMANDS = {
    "/next TEXT": "queue a turn of its own, after this one",
    "/queue": "show what waits",
    "/stop": "stop the turn, as Ctrl-C does",
    "/quit": "leave, as Ctrl-D does",
    "/help": "show this",
}
"""What may be typed besides words for the agent."""


class Conversation:
    """Hands typed lines to an agent, and stops it.

    A line is the prompt of a turn when the agent is idle, and steers while it runs.

    Args:
        agent: who is talked to.
        screen: where it is shown.
        way_out: cancelled to leave.
        editor: the line being typed, if it is edited here.
    """

    def __init__(self, agent: Agent, screen: Screen, way_out: WayOut, editor: LineEditor | None = None) -> None:
        self.agent = agent
        self.screen = screen
        self._way_out = way_out
        self._editor = editor
        self._armed = False
        self._waiting: set[str] = set()

    def attach(self, host: Host) -> None:
        """Show the prompt whenever the agent is idle, and what waited when its time has come."""
        host.on(AGENT_STATUS, self._status)
        host.on(INBOX_CLAIMED, self._claimed)
        self.screen.ask(True)

    def _status(self, changed: AgentStatus) -> None:
        idle = changed.status == "idle"
        if idle and self.screen.edits:
            self.screen.note()
        self.screen.ask(idle)

    def _claimed(self, claimed: InboxClaimed) -> None:
        if claimed.message.id in self._waiting:
            self._waiting.discard(claimed.message.id)
            self.screen.note(("↪ ", "green"), (_gist(claimed.message), "dim"))

    async def listen(self, typed: AsyncGenerator[str]) -> None:
        """Take lines until they end or ``/quit``; then wait for the agent to come to rest."""
        async with aclosing(typed) as lines:
            async for line in lines:
                self.screen.entered(line)
                if not self.take(line):
                    break
        self.screen.ask(False)
        await self.agent.when_idle()

    def take(self, line: str) -> bool:
        """Do what a line says; returns whether the conversation goes on."""
        self._armed = False
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
            case "/help":
                for name, what in COMMANDS.items():
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

    def interrupt(self) -> None:
        """Ctrl-C: takes back a line that is being typed; once stops the turn, twice leaves."""
        had_text = self._editor is not None and self._editor.clear()
        if had_text:
            self.screen.typing("")
        if self._armed:
            self.leave()
        elif self.agent.status == "running":
            self._armed = True
            self._stop()
        elif not had_text:
            self._armed = True
            self.screen.note(("  Ctrl-C again leaves", "dim"))

    def typing(self, text: str) -> None:
        """The line being typed has changed; typing takes back a first Ctrl-C."""
        self._armed = self._armed and not text
        self.screen.typing(text)

    def leave(self) -> None:
        """Leave at once: the agent is stopped and its log closed."""
        self.screen.ask(False)
        self.screen.note(("  leaving …", "dim"))
        self._way_out.leave()

    def _stop(self) -> None:
        if self.agent.status != "running":
            self.screen.note(("  nothing is running", "dim"))
            return
        self.screen.end_line()
        self.agent.cancel()
        if self.agent.status == "running":
            self.screen.note(("  stopping …", "dim"))


def _gist(message: UserMessage) -> str:
    return one_line(message.text, 80)
