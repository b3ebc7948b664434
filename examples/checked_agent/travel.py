"""A travel agent with four tools, two hooks and a sub-agent; and eight faults, each behind its name.

Without a fault it is what a careful author writes. Each fault is one line or two that somebody wrote in a hurry.
"""

import subprocess
import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio
from attrs import define, field

from treadle import AgentOptions, Host, subagent, tool
from treadle.hooks import (
    AGENT_STATUS,
    LLM_STREAM,
    TOOLS_PRE_EXECUTE,
    TURN_STOPPING,
    AskCall,
    StreamProposal,
    ToolProposal,
    TurnIsStopping,
)

FAULTS = ("swallow", "child", "double", "retry", "deadlock", "block", "keep", "approval")


@define
class Office:
    """What outlives the process: the airline's bookings, and the desk at which people approve them."""

    bookings: list[str] = field(factory=list)


class Travel:
    """The agent's tools and hooks."""

    def __init__(self, office: Office, host: Host, fault: str = "") -> None:
        self.office, self.host, self.fault = office, host, fault
        self.lines = trio.CapacityLimiter(2)  # as many searches as the airline takes at once
        self.attempts: dict[tuple[str, int, int], int] = {}
        self.rested = trio.Event()

    # --- tools ----------------------------------------------------------------------------------------------------

    async def search(self, place: str) -> str:
        """Search flights to a place."""
        if self.fault == "swallow":
            try:
                await trio.sleep(2)
            except BaseException:
                return "The airline does not answer."
        if self.fault == "keep":
            await self.lines.acquire()
            await trio.sleep(2)
            self.lines.release()
        else:
            async with self.lines:
                await trio.sleep(2)
        return f"There is a flight to {place} at nine."

    def convert(self, euros: float) -> str:
        """Convert euros to crowns."""
        return f"{euros * 11:g} crowns"

    async def book(self, flight: str) -> str:
        """Book a flight."""
        if self.fault == "block":
            time.sleep(0.1)  # noqa: ASYNC251
        await trio.sleep(0.5)
        if self.fault == "double" or flight not in self.office.bookings:
            self.office.bookings.append(flight)
        await trio.sleep(0.5)  # the airline confirms
        return f"{flight} is booked."

    async def ticket(self, flight: str) -> str:
        """Print a ticket; returns its size."""
        if self.fault == "child":
            subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220, S607  # keeps the printer awake
        printed = await trio.run_process(["wc", "-c"], stdin=flight.encode(), capture_stdout=True)
        return printed.stdout.decode().strip()

    # --- hooks ----------------------------------------------------------------------------------------------------

    async def ask_first(self, proposal: ToolProposal, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """Nothing is booked without somebody's word."""
        if proposal.call.name == "book":
            return AskCall(f"Book {proposal.arguments['flight']}?")
        return await proceed()

    async def meter(self, proposal: StreamProposal, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """Count the attempts of each step."""
        step = proposal.agent.id, proposal.turn, proposal.step
        if self.fault == "retry" and step in self.attempts:
            raise KeyError(step)  # "each step is asked for once"
        self.attempts[step] = self.attempts.get(step, 0) + 1
        return await proceed()

    async def say_goodbye(self, _: TurnIsStopping) -> None:
        """Wait until the agent is idle, inside of its turn: it never is."""
        await self.rested.wait()

    async def approve(self, _: ToolProposal, question: str) -> bool:
        """Show a dialogue; the clerk says yes after a while."""
        answered = trio.Event()
        scope = trio.CancelScope()

        async def dialogue() -> None:
            with scope:
                while not answered.is_set():
                    await asked.wait()
                    answered.set()

        asked = trio.Event()
        self.host.spawn(dialogue, question)
        try:
            await trio.sleep(3)
            asked.set()
            await answered.wait()
        finally:
            if self.fault != "approval":
                scope.cancel()
        return True


def make_agent(host: Host, office: Office, fault: str = "") -> AgentOptions:
    """Furnish a host with the travel agent."""
    travel = Travel(office, host, fault)
    host.tools.register(tool(travel.search, parallel=True, timeout=60))
    host.tools.register(tool(travel.convert))
    host.tools.register(tool(travel.book))
    host.tools.register(tool(travel.ticket))
    host.tools.register(subagent("research", "Have a place looked into."))
    host.approver = travel.approve
    host.on(TOOLS_PRE_EXECUTE, travel.ask_first)
    host.on(LLM_STREAM, travel.meter)
    host.prompt.persona("You book journeys.")
    if fault == "deadlock":
        host.on(AGENT_STATUS, lambda told: travel.rested.set() if told.status == "idle" else None)
        host.on(TURN_STOPPING, travel.say_goodbye)
    return AgentOptions(provider="any", model="small")
