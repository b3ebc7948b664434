"""What listeners and hooks do when their moment comes: everything that the API allows, predicted as any other call (H4, H5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio
from attrs import define, field

from treadle import Agent, State
from treadle.hooks import (
    AGENT_ERROR,
    AGENT_PARKED,
    AGENT_STATUS,
    ASSISTANT_STREAM,
    CANCEL_REQUESTED,
    INBOX_CLAIMED,
    INBOX_DISCARDED,
    INBOX_INSERTED,
    MAINTENANCE,
    PRE_STEP,
    PROMPT_SUBMIT,
    REQUEST,
    SESSION_EVENT,
    SESSION_FLUSH,
    TOOLS_RESULT,
    TURN_STOPPING,
    BlockPrompt,
    Reject,
)

from ...exploration.violation import require
from .planned import Planned
from .surroundings import Surroundings

EVENTS = ("turn/start", "turn/end", "step/start", "step/end", "user/message", "assistant/message", "tool/call", "tool/result",
          "agent/inbox/spliced", "llm/retry", "request/header")  # fmt: skip
EACH_TURN = ("turn/start", "turn/end", "step/start", "step/end", "user/message", "assistant/message")
"""What every turn of an agent tells that is let run."""
NOTICES = {"status": AGENT_STATUS, "claimed": INBOX_CLAIMED, "inserted": INBOX_INSERTED, "discarded": INBOX_DISCARDED,
           "cancel-requested": CANCEL_REQUESTED, "parked": AGENT_PARKED, "error": AGENT_ERROR, "frame": ASSISTANT_STREAM,
           "tool settled": TOOLS_RESULT, "maintenance": MAINTENANCE}  # fmt: skip
HOOKS = {"pre-step": PRE_STEP, "request": REQUEST, "turn-stopping": TURN_STOPPING, "prompt-submit": PROMPT_SUBMIT,
         "flush": SESSION_FLUSH}  # fmt: skip
HEARD = (*EVENTS, *NOTICES)
DEEDS = ("steer", "follow", "inject", "cancel", "cancel", "keep", "maintain", "reserve", "release", "unsubscribe", "raise",
         "interrupt", "dispose")  # fmt: skip
_DELIVERED = {"steer": ("next-step", True), "follow": ("next-turn", True), "inject": ("next-step", False)}
HOOKED = ("steer", "cancel", "keep", "raise", "reject", "wait", "unsubscribe")


@define(eq=False)
class Armed:
    """Something that will be done when a listener of an agent is called the nth time from now."""

    agent_id: str
    on: str
    nth: int
    deed: str
    target: str


@define(eq=False)
class Extra:
    """A listener that can be taken out again; it hears nothing afterwards (H3)."""

    world: Surroundings
    begun: int
    disposers: list[Callable[[], None]] = field(factory=list[Callable[[], None]])
    alive: bool = True
    heard: int = 0

    def __call__(self, told: Any) -> None:
        """Hear an event, or that a turn is about to stop."""
        with self.world.noting():
            require(self.alive, "H3", "a listener that was taken out hears {}", told)
        self.heard += 1

    def end(self) -> None:
        """Take it out."""
        for dispose in self.disposers if self.alive else ():
            dispose()
        self.alive = False


class Acts:
    """What is armed in a world, and its listeners."""

    def __init__(self, world: Surroundings) -> None:
        self.world = world
        self.armed: list[Armed] = []

    def listen(self, on: Callable[[Any, Callable[..., Any]], Any]) -> None:
        """Listen at every point, behind the witness."""
        on(SESSION_EVENT, self._event)
        for name, point in NOTICES.items():
            on(point, partial(self._notice, name))
        for name in ("pre-step", "request", "prompt-submit"):
            on(HOOKS[name], self._waterfall(name))
        on(TURN_STOPPING, partial(self._serial, "turn-stopping"))
        on(SESSION_FLUSH, partial(self._serial, "flush"))

    def _event(self, told: Any) -> None:
        self.fire(told.agent, told.event.type)

    def _notice(self, name: str, told: Any) -> None:
        self.fire(told.agent, name)

    def due(self, agent: Agent, on: str) -> list[Armed]:
        """What is to be done now."""
        due: list[Armed] = []
        for one in [one for one in self.armed if one.agent_id == agent.id and one.on == on]:
            one.nth -= 1
            if one.nth <= 0:
                self.armed.remove(one)
                due.append(one)
        return due

    def fire(self, agent: Agent, on: str) -> None:
        """A notification: do what is due."""
        for one in self.due(agent, on):
            self.world.fired += 1
            self.world.depth += 1
            try:
                self._do(one, own=False)
            finally:
                self.world.depth -= 1

    def _do(self, one: Armed, *, own: bool) -> None:
        world = self.world
        actor = world.actors.get(one.target) or world.actors[one.agent_id]
        own = own and actor.id == one.agent_id
        if one.deed in _DELIVERED:
            box, wakeup = _DELIVERED[one.deed]
            actor.deliver(world.name(), box, wakeup=wakeup, own=own)
            return
        match one.deed:
            case "cancel" | "keep":
                actor.cancel("hook", keep=one.deed == "keep")
            case "maintain":
                actor.maintain("quick", 0.2)
            case "reserve":
                actor.reserve()
            case "release":
                actor.release(0)
            case "unsubscribe":
                for extra in world.extras:
                    extra.end()
            case "interrupt" if (
                trio.lowlevel.in_trio_task() or world.braced
            ):  # elsewhere the machine's own call would end
                if not world.braced:
                    world.interrupts += 1
                    self._leaves(one)
                raise KeyboardInterrupt
            case "dispose":
                actor.dispose(keep=True)
            case _:
                raise Planned("a listener")

    def _leaves(self, one: Armed) -> None:
        """Whose own task a listener ends begins nothing more (H5)."""
        agent = self.world.actors[one.agent_id].agent
        if trio.lowlevel.current_task() in list(agent.engine.awaited_tasks()):
            self.world.interrupted.add(agent.id)

    # --- hooks --------------------------------------------------------------------------------------------------------

    def _waterfall(self, name: str) -> Callable[[Any, Callable[[], Awaitable[Any]]], Awaitable[Any]]:
        async def hook(told: Any, proceed: Callable[[], Awaitable[Any]]) -> Any:
            for one in self.due(told.agent, name):
                self.world.fired += 1
                if one.deed == "wait":
                    await self._wait(told)
                elif one.deed == "reject":
                    if name == "pre-step":
                        return Reject()
                    if name == "prompt-submit":
                        return BlockPrompt("no")
                else:
                    await trio.lowlevel.checkpoint()
                    self._do(one, own=True)
            return await proceed()

        return hook

    async def _wait(self, told: Any) -> None:
        """Wait a while; whoever is cancelled meanwhile finds his signal set before anything unwinds (C3, H9)."""
        signal = getattr(told, "signal", None)
        try:
            await trio.sleep(0.5)
        except trio.Cancelled:
            if signal is not None and told.agent.state in (State.CANCEL_CONVERGENCE, State.DISPOSAL):
                with self.world.noting():
                    require(signal.cancelled, "C3", "a hook of {} unwinds, and its signal is not set", told.agent.id)
            raise

    async def _serial(self, name: str, told: Any) -> None:
        for one in self.due(told.agent, name):
            self.world.fired += 1
            if one.deed == "wait":
                await self._wait(told)
            elif one.deed != "reject":
                self._do(one, own=name != "flush")
