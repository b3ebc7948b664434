"""Tools whose bodies do what their arguments say, and the rules of the pipeline held at each of their moments (§11)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from attrs import define, field

from treadle import Agent, Event, State
from treadle.agent import current_initiator, message
from treadle.hooks import AllowCall, DenyCall, ToolProposal
from treadle.session import ToolCallStarted, ToolResultAdded
from treadle.tools import Tool, ToolOutput, ToolRun

from ...exploration.violation import require
from .planned import Planned
from .surroundings import Surroundings

TIMEOUT = 1.0
"""Seconds that the tool ``timed`` has."""
SCHEMA: dict[str, Any] = {"type": "object"}
MODES = {"alone": False, "side": True, "timed": True, "thread": True, "delegate": True, "fickle": None}
"""The tools, and whether their calls overlap; the classifier of ``fickle`` changes its mind."""


@define(eq=False)
class Body:
    """One call: what became of it, by stamps of the world's counter and by virtual time.

    Attributes:
        parallel: the mode it was last classified as.
        asked: the stamp of that.
        recorded: the stamp at which its ``tool/call`` was told.
        value: what its body returned.
        let_through: whether it let a cancellation through.
    """

    call_id: str
    name: str
    parallel: bool = False
    asked: int = 0
    cleared: int = 0
    recorded: int = 0
    began: float | None = None
    ended: float | None = None
    over: int = 0
    value: str | None = None
    raised: bool = False
    late: bool = False
    let_through: bool = False
    denied: bool = False


@define(eq=False)
class Step:
    """The calls of one step, and what ran when."""

    bodies: dict[str, Body] = field(factory=dict[str, Body])
    last_finish: int = 0


class Crew:
    """Every tool of a world, and what is known of every call."""

    def __init__(self, world: Surroundings) -> None:
        self.world = world
        self.steps: dict[tuple[str, int, int], Step] = {}
        self.stamp = 0
        self.moods: list[bool] = []
        self.asked: dict[str, tuple[bool, int]] = {}

    def tools(self) -> list[Tool]:
        """The tools that every agent has."""
        return [
            Tool("alone", "runs alone", SCHEMA, self.body),
            Tool("side", "runs beside others", SCHEMA, self.body, parallel=True),
            Tool("timed", "has a second", SCHEMA, self.body, parallel=True, timeout=TIMEOUT),
            Tool("thread", "computes", SCHEMA, self.in_thread, parallel=True),
            Tool("fickle", "changes its mind", SCHEMA, self.body, parallel=self.classify),
        ]

    def next_stamp(self) -> int:
        """A number that grows with everything that happens."""
        self.stamp += 1
        return self.stamp

    def step_of(self, agent: Agent, turn: int, step: int) -> Step:
        """What is known of a step."""
        return self.steps.setdefault((agent.id, turn, step), Step())

    # --- what the pipeline asks ---------------------------------------------------------------------------------------

    def classify(self, arguments: dict[str, Any]) -> Any:
        """The classifier of ``fickle``: answers as drawn, and raises at times; only ``True`` is parallel (K4)."""
        mood = self.moods.pop(0) if self.moods else arguments.get("side", False)
        self.asked[str(arguments.get("id"))] = (mood is True, self.next_stamp())
        if arguments.get("raises") and mood is not True:
            raise ValueError("undecided")
        return mood

    async def pre_execute(self, proposal: ToolProposal, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """Pre-execute: once per call, in the model's order (K5)."""
        with self.world.noting():
            self._cleared(proposal)
        await trio.lowlevel.checkpoint()
        if proposal.arguments.get("deny") == "hook":
            return DenyCall("the hook says no")
        decision = await proceed()
        if proposal.arguments.get("again"):
            return AllowCall({**proposal.arguments, "again": False})
        return decision

    async def guard(self, proposal: ToolProposal) -> DenyCall | None:
        """A guard; it can only deny (K2)."""
        await trio.lowlevel.checkpoint()
        return DenyCall("the guard says no") if proposal.arguments.get("deny") == "guard" else None

    async def wrap(self, proposal: ToolProposal, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """A wrapper; it may shield itself: no body starts after a cancel all the same (C10)."""
        try:
            if proposal.arguments.get("wrap") == "shield":
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.5)
                    return await proceed()
            return await proceed()
        finally:
            step = self.step_of(proposal.agent, proposal.turn, proposal.step)
            step.last_finish = step.bodies[proposal.call.call_id].over = self.next_stamp()

    async def post_execute(self, outcome: Any, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """Post-execute, in the model's order (K5)."""
        with self.world.noting():
            step = self.step_of(outcome.agent, outcome.turn, outcome.step)
            order = list(step.bodies)
            done = [one.call_id for one in step.bodies.values() if one.late]
            index = order.index(outcome.call.call_id)
            require(not done or order.index(done[-1]) < index, "K5", "post-execute ran out of order: {}", done)
            step.bodies[outcome.call.call_id].late = True
        return await proceed()

    def _cleared(self, proposal: ToolProposal) -> None:
        step = self.step_of(proposal.agent, proposal.turn, proposal.step)
        body = self._body(step, proposal.call.call_id, proposal.call.name)
        require(not body.cleared, "K5", "pre-execute ran twice for {}", body.call_id)
        body.cleared = self.next_stamp()
        body.denied = "deny" in proposal.arguments

    def _body(self, step: Step, call_id: str, name: str) -> Body:
        return step.bodies.setdefault(call_id, Body(call_id, name))

    # --- what is told -------------------------------------------------------------------------------------------------

    def told(self, agent: Agent, entry: Event, turn: int, step: int) -> None:
        """An event of the agent was told: the moment at which a call starts, or has its result."""
        data = entry.data
        if isinstance(data, ToolCallStarted):
            self._starts(agent, data, turn, step)
        elif isinstance(data, ToolResultAdded):
            self._settled(data, self.step_of(agent, turn, step))

    def _starts(self, agent: Agent, data: ToolCallStarted, turn: int, number: int) -> None:
        step = self.step_of(agent, turn, number)
        body = self._body(step, data.call_id, data.name)
        if body.denied or not body.cleared:
            return  # its result is recorded with it: it was refused
        mode = MODES.get(data.name, False)
        body.recorded = self.next_stamp()
        if agent.state is not State.STEP:
            body.over = body.recorded
            return  # it is dropped: a cancel came first (C4)
        if mode is None:
            mode, body.asked = self.asked[data.call_id]
            require(body.asked >= step.last_finish, "K4", "{} is not asked again before it starts", data.call_id)
        body.parallel = mode
        running = [one for one in step.bodies.values() if one.recorded and not one.over and one is not body]
        limit = agent.options.max_parallel_tool_calls
        require(not running or body.parallel, "K4", "{} runs alone and starts beside others", data.name)
        require(all(one.parallel for one in running), "K4", "{} starts beside one that runs alone", data.name)
        require(len(running) < limit, "K4", "{} calls run, and {} may", len(running) + 1, limit)

    def _settled(self, data: ToolResultAdded, step: Step) -> None:
        """A result is what the body came to (C4, K6)."""
        body = step.bodies.get(data.call_id)
        if body is None:
            return
        text = "".join([getattr(block, "text", "") for block in data.content])
        if body.recorded and not data.is_error and body.name != "delegate":
            require(body.value is not None and body.value in text, "K6", "{} gives {!r}", body.call_id, text)
        if body.value is not None and not body.raised:
            require(body.value in text, "K6", "what {} returned was replaced by {!r}", body.call_id, text)
        if data.code == "ABORTED":
            require(body.let_through or body.value is None, "C4", "{} was not stopped", body.call_id)
        if data.code == "ABORTED_BEFORE_DISPATCH":
            require(body.began is None, "C4", "{} ran, and is said not to have started", body.call_id)
        if data.code == "TOOL_TIMEOUT":
            spent = (body.ended or 0.0) - (body.began or 0.0)
            require(body.name == "timed" and spent >= TIMEOUT, "K1", "{} timed out after {}", body.call_id, spent)
        if body.denied:
            require(data.is_error and body.began is None, "K2", "{} was denied, and ran", body.call_id)

    # --- bodies -------------------------------------------------------------------------------------------------------

    async def body(self, arguments: dict[str, Any], run: ToolRun) -> Any:
        """Do what the arguments say."""
        with self.world.noting():
            body = self._begins(run)
        try:
            returned = await self._do(arguments, run)
        except trio.Cancelled:
            body.let_through = True
            raise
        except Exception:
            body.raised = True
            raise
        else:
            shown = returned.content if isinstance(returned, ToolOutput) else returned
            body.value = str(shown)
            return returned
        finally:
            self._ends(body)

    def in_thread(self, arguments: dict[str, Any], run: ToolRun) -> str:
        """Compute in a worker thread; context variables reach it (K8)."""
        host = self.world.host

        def begin() -> Body:
            with self.world.noting():
                return self._begins(run)

        body = host.from_thread(begin)
        with self.world.noting():
            require(current_initiator() is run.agent, "K8", "the initiator does not reach a thread")
        if arguments.get("do") == "raise":
            body.raised = True
            host.from_thread(self._ends, body)
            raise Planned("broken")
        body.value = f"computed {run.call.call_id}"
        host.from_thread(self._ends, body)
        return body.value

    def _begins(self, run: ToolRun) -> Body:
        step = self.step_of(run.agent, run.turn, run.step)
        body = self._body(step, run.call.call_id, run.call.name)
        events = run.agent.session.events
        recorded = [
            one.seq for one in events if isinstance(one.data, ToolCallStarted) and one.data.call_id == body.call_id
        ]
        require(recorded, "K5", "the body of {} begins before its tool/call is recorded", body.call_id)
        require(body.recorded, "K5", "the body of {} begins, and it was refused or not told of", body.call_id)
        require(body.began is None, "K6", "the body of {} begins twice", body.call_id)
        # a thread may begin in the moment of a cancel: it was started before
        require(
            not run.signal.cancelled or body.name == "thread",
            "K6",
            "the body of {} begins after the cancel",
            body.call_id,
        )
        require(current_initiator() is run.agent, "O7", "a body of {} runs as {}", run.agent.id, current_initiator())
        self.world.storage.hold_written(run.agent.id, recorded[-1])
        body.began = self.world.bench.now
        return body

    def _ends(self, body: Body) -> None:
        body.ended = self.world.bench.now
        if body.name == "timed" and body.let_through and body.began is not None:
            with self.world.noting():
                spent = body.ended - body.began
                require(spent <= TIMEOUT + 1e-6, "K1", "a body with {} s was stopped after {} s", TIMEOUT, spent)

    async def _do(self, arguments: dict[str, Any], run: ToolRun) -> Any:
        actor, value, seconds = (
            self.world.actor_of(run.agent),
            f"value of {run.call.call_id}",
            arguments.get("for", 0.5),
        )
        match arguments.get("do"):
            case "sleep":
                await trio.sleep(seconds)
            case "shield":
                with trio.CancelScope(shield=True):
                    await trio.sleep(seconds)
            case "swallow":
                try:
                    await trio.sleep(seconds)
                except trio.Cancelled:
                    return value
            case "raise":
                await trio.lowlevel.checkpoint()
                raise Planned("broken")
            case "tell":
                actor.deliver(self.world.name(), arguments["box"], wakeup=True, own=True)
            case "tell late":
                try:
                    await trio.sleep(seconds)
                except trio.Cancelled:
                    actor.deliver(self.world.name(), arguments["box"], wakeup=True, own=True)
                    raise
            case "conclude":
                return ToolOutput(value, concludes_turn=True)
            case "context":
                extra = message(f"context of {run.call.call_id}", id=self.world.name())
                return ToolOutput(value, contexts=(extra,))
            case "stop":
                actor.cancel(keep=bool(arguments.get("keep")))
            case _:
                pass
        return value
