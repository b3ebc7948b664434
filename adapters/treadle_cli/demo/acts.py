"""The six acts of the demo: what is said, and what the director does when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import define, field, frozen

from treadle.agent.agent import Agent
from treadle.agent.delivery import message
from treadle.agent.handle import AgentHandle
from treadle.models.scripted import Call, ScriptedModel
from treadle.session.log import Session
from treadle.tools.definition import Tool, tool
from treadle.words.events import decode_event, encode_event
from treadle.words.messages import UserMessage
from treadle.words.signal import Signal

from ..terminal.gutter import Gutter
from .stage import Cue, Pace, lines

STOP = "■ stop"


@define(eq=False)
class Show:
    """What every act plays with."""

    gutter: Gutter
    pace: Pace
    model: ScriptedModel
    handle: AgentHandle = field(init=False)
    booking: Cue | None = None
    undoing: Cue | None = None
    said: int = 0

    @property
    def agent(self) -> Agent:
        """The agent."""
        return self.handle.agent

    def you(self, text: str) -> UserMessage:
        """Show what the user types, as a message that is still to be delivered."""
        self.gutter.say("you", text)
        self.said += 1
        return message(text, id=f"you-{self.said}")

    async def ask(self, text: str) -> None:
        """Type a prompt and send it."""
        prompt = self.you(text)
        await self.pace.beat(0.15)
        self.agent.followup(prompt)

    def tools(self) -> tuple[Tool, ...]:
        """The tools that the script calls."""
        return tool(self._forecast, name="forecast"), tool(self._book, name="book")

    async def _forecast(self, city: str, day: str) -> str:  # noqa: ARG002  # what the model is told it may say
        """Tell the weather in a city on a day of this week."""
        await self.pace.beat(0.2)
        return "dry, 24 °C"

    async def _book(self, tour: str, day: str) -> str:  # noqa: ARG002
        """Book a tour."""
        if self.booking is None:
            await self.pace.beat(0.2)
            return "confirmed"
        booking, self.booking = self.booking, None
        try:
            await booking.reach()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                self.gutter.say("tool", "stopped half-way: taking the booking back …", "dim")
                await self.pace.beat(0.25)
                if self.undoing is not None:
                    await self.undoing.reach()
                self.gutter.say("tool", "… taken back", "dim")
            raise
        return "confirmed"


@frozen
class Act:
    """One act: its title, one line about what it shows, and what happens."""

    title: str
    what: str
    play: Callable[[Show], Awaitable[None]]


async def call_a_tool(show: Show) -> None:
    """The model calls a tool and answers with what it gave."""
    look = Call("forecast", {"city": "Lisbon", "day": "Saturday"}, "call-1")
    show.model.push(
        lines(show.pace, "Let me look that up.", look),
        lines(show.pace, "No. Saturday stays dry, with 24 °C."),
    )
    await show.ask("Will it rain in Lisbon on Saturday?")
    await show.agent.when_idle()


async def steer(show: Show) -> None:
    """The user speaks while the model does."""
    cue = Cue()
    show.model.push(
        lines(show.pace, "Gladly. In the morning you climb up to the castle, ", cue, "then over all seven hills."),
        lines(show.pace, "No climbing, then: take tram 28 up to the castle, and walk along the river after lunch."),
    )
    await show.ask("Plan my Saturday there.")
    await cue.met()
    steering = show.you("No climbing, please. I have a bad knee.")
    show.agent.steer(steering)
    await show.pace.beat(0.3)
    cue.go()
    await show.agent.when_idle()


async def stop(show: Show) -> None:
    """The user stops an answer half-way."""
    cue = Cue()
    show.model.push(lines(show.pace, "The first line opened in 1873, with cars drawn by mules. The second", cue))
    await show.ask("Tell me everything about those trams.")
    await cue.met()
    await show.pace.beat(0.2)
    show.gutter.say("you", STOP)
    show.agent.cancel()
    await show.agent.when_idle()


async def wake_while_stopping(show: Show) -> None:
    """The user stops a tool, and speaks while it still cleans up."""
    show.booking, show.undoing = Cue(), Cue()
    undoing = show.undoing
    show.model.push(
        lines(show.pace, "Booking.", Call("book", {"tour": "tram 28", "day": "Saturday"}, "call-2")),
        lines(show.pace, "Sunday it is.", Call("book", {"tour": "tram 28", "day": "Sunday"}, "call-3")),
        lines(show.pace, "Booked: tram 28, on Sunday."),
    )
    await show.ask("Book me a tour on tram 28 for Saturday.")
    await show.booking.met()
    await show.pace.beat(0.2)
    show.gutter.say("you", STOP)
    show.agent.cancel()
    await undoing.met()
    correction = show.you("I meant Sunday.")
    show.agent.followup(correction)
    await show.pace.beat(0.3)
    undoing.go()
    await show.agent.when_idle()


async def maintain(show: Show) -> None:
    """The log is read back between two turns, and a message waits for it."""
    cue = Cue()
    show.model.push(lines(show.pace, "Tram 28 on Sunday, no climbing, and dry weather."))

    async def read_back(_: Signal) -> None:
        show.gutter.say("task", "reading the session's log back …")
        await cue.reach()
        show.gutter.say("task", read_back_of(show.agent.session))

    task = show.agent.run_maintenance(read_back)
    await cue.met()
    await show.pace.beat(0.25)
    await show.ask("So what is settled?")
    await show.pace.beat(0.25)
    cue.go()
    await task
    await show.agent.when_idle()


async def end(show: Show) -> None:
    """The agent is disposed of."""
    await show.handle.dispose()


def read_back_of(session: Session) -> str:
    """Read a log back from its bytes and compare what the model would see (N5)."""
    stored = [encode_event(entry) for entry in session.events]
    again = Session(session.header, [decode_event(line) for line in stored])
    same = list(again.history()) == list(session.history())
    return f"… {len(stored)} events give {'the very same' if same else 'ANOTHER'} history of {len(again.history())} messages"


ACTS = (
    Act("A tool call", "The model asks for a tool. The driver runs it and hands the result back.", call_a_tool),
    Act("Steering", "You speak while it answers. It listens at the next step, still in the same turn.", steer),
    Act("Stopping", "You stop it in the middle of a sentence. What it said so far is kept.", stop),
    Act(
        "A word while it stops",
        "A stop waits for the tool's clean-up. What you say meanwhile is not lost.",
        wake_while_stopping,
    ),
    Act("Maintenance", "Between turns the idle agent is lent to a task. Messages wait until it is done.", maintain),
    Act("The end", "Nothing is under way any more, so it takes one step.", end),
)
"""The acts, in order."""
