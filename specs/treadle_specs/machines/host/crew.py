"""Tools whose bodies do what their arguments say, and the rules of the pipeline held at each of their moments (§11)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from treadle import Agent, Event, State, Text
from treadle.agent import message
from treadle.hooks import AcceptResult, AllowCall, AskCall, BlockResult, DenyCall, ToolProposal
from treadle.session import InboxSpliced, ToolCallStarted, ToolResultAdded
from treadle.tools import Tool

from ...exploration.violation import require
from .bodies import SLACK, TIMEOUT, Bodies, Step
from .surroundings import Surroundings

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"for": {"type": "number"}}}
LIMIT = 300
"""Bytes that a result of the tool ``final`` may have."""
MODES = {"final": False, "alone": False, "side": True, "timed": True, "thread": True, "delegate": True, "fickle": None}
"""The tools, and whether their calls overlap; the classifier of ``fickle`` changes its mind."""


VERDICTS: dict[str, Any] = {"yes": True, "no": False, "perhaps": "perhaps"}
"""What the approver says to a call that needs approval."""


class Crew(Bodies):
    """Every tool of a world, and what is known of every call."""

    def __init__(self, world: Surroundings) -> None:
        super().__init__(world)
        self.moods: list[bool] = []
        self.asked: dict[str, tuple[bool, int]] = {}
        self.awaited: list[tuple[str, str]] = []

    def tools(self) -> list[Tool]:
        """The tools that every agent has."""
        return [
            Tool("alone", "runs alone", SCHEMA, self.body),
            Tool("final", "has the last word", SCHEMA, self.body, final_content=self.last_word, max_result_bytes=LIMIT),
            Tool("side", "runs beside others", SCHEMA, self.body, parallel=True),
            Tool("timed", "has a second", SCHEMA, self.body, parallel=True, timeout=TIMEOUT),
            Tool("thread", "computes", SCHEMA, self.in_thread, parallel=True),
            Tool("fickle", "changes its mind", SCHEMA, self.body, parallel=self.classify),
        ]

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
        if proposal.arguments.get("deny") in VERDICTS:
            return AskCall(f"{proposal.arguments['deny']}?")
        decision = await proceed()
        if proposal.arguments.get("deny") == "unfit":
            return AllowCall({**proposal.arguments, "for": "ever"})
        if proposal.arguments.get("again"):
            return AllowCall({**proposal.arguments, "again": False})
        return decision

    async def approve(self, proposal: ToolProposal, question: str) -> Any:
        """The approver; only ``True`` approves (K2)."""
        await trio.lowlevel.checkpoint()
        with self.world.noting():
            require(question == f"{proposal.arguments['deny']}?", "K2", "{!r} is asked", question)
        return VERDICTS[proposal.arguments["deny"]]

    async def guard(self, proposal: ToolProposal) -> DenyCall | None:
        """A guard; it can only deny (K2)."""
        with self.world.noting():
            refused = proposal.arguments.get("deny", "") in (*VERDICTS, "hook", "unfit")
            approved = VERDICTS.get(proposal.arguments.get("deny", "")) is True
            require(approved or not refused, "K2", "a guard is asked of {}, which was refused", proposal.call.call_id)
            changed = approved or not proposal.arguments.get("again")
            require(changed, "K2", "a guard sees other arguments than will run")
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
        if (how := outcome.arguments.get("after")) is not None:
            extra = message(f"said after {outcome.call.call_id}", id=self.world.name())
            if outcome.agent.state is State.STEP:
                self.awaited.append((outcome.call.call_id, extra.id))
            if how == "block":
                return BlockResult("never mind", (extra,))
            return AcceptResult((extra,))
        return await proceed()

    def last_word(self, content: Any) -> Any:
        """The final content of ``final``: longer than may be recorded (K9)."""
        return (Text(f"final {'x' * 3 * LIMIT} of {len(content)}"),)

    def result_told(self, told: Any) -> None:
        """``tools/result``: behind the event, which holds the same (H4, K5)."""
        with self.world.noting():
            held = [
                entry
                for entry in told.agent.session.events
                if isinstance(entry.data, ToolResultAdded) and entry.data.call_id == told.call.call_id
            ]
            require(held, "H4", "the result of {} is told before it is recorded", told.call.call_id)
            require(
                held[-1].data.content == told.content, "K5", "the result of {} is told otherwise", told.call.call_id
            )
            heard = self.world.actors[told.agent.id].witness.heard
            require(heard > held[-1].seq, "H4", "the result of {} is told before its event", told.call.call_id)

    def _cleared(self, proposal: ToolProposal) -> None:
        step = self.step_of(proposal.agent, proposal.turn, proposal.step)
        body = self._body(step, proposal.call.call_id, proposal.call.name)
        require(not body.cleared, "K5", "pre-execute ran twice for {}", body.call_id)
        body.cleared = self.next_stamp()
        body.denied = VERDICTS.get(proposal.arguments.get("deny", "")) is not True and "deny" in proposal.arguments
        body.blocked = proposal.arguments.get("after") == "block"

    # --- what is told -------------------------------------------------------------------------------------------------

    def told(self, agent: Agent, entry: Event, turn: int, step: int) -> None:
        """An event of the agent was told: the moment at which a call starts, or has its result."""
        data = entry.data
        if isinstance(data, ToolCallStarted):
            self._starts(agent, data, turn, step)
        elif isinstance(data, ToolResultAdded):
            self._settled(data, self.step_of(agent, turn, step))
            self._handed_over(agent, entry.seq, data.call_id)

    def _starts(self, agent: Agent, data: ToolCallStarted, turn: int, number: int) -> None:
        step = self.step_of(agent, turn, number)
        body = self._body(step, data.call_id, data.name)
        if body.denied or not body.cleared:
            return  # its result is recorded with it: it was refused
        mode = MODES.get(data.name, False)
        body.recorded, body.called = self.next_stamp(), self.world.bench.now
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
        if body.name == "final" and body.late:
            shown = text.partition("\n[cut")[0]
            require(0 < len(shown) <= LIMIT, "K9", "{} bytes are recorded of {}", len(shown), body.call_id)
            require(body.blocked or shown.startswith("final"), "K2", "{!r} is not the last word", text)
            return
        if body.blocked and body.late:
            return
        if body.recorded and not data.is_error and body.name != "delegate":
            require(body.value is not None and body.value in text, "K6", "{} gives {!r}", body.call_id, text)
        if body.value is not None and not body.raised:
            require(body.value in text, "K6", "what {} returned was replaced by {!r}", body.call_id, text)
        if data.code == "ABORTED":
            require(body.let_through or body.value is None, "C4", "{} was not stopped", body.call_id)
        if data.code == "ABORTED_BEFORE_DISPATCH":
            require(body.began is None, "C4", "{} ran, and is said not to have started", body.call_id)
        if data.code == "TOOL_TIMEOUT":
            spent = self.world.bench.now - body.called
            require(
                body.name == "timed" and spent >= TIMEOUT - SLACK, "K1", "{} timed out after {}", body.call_id, spent
            )
        if body.denied:
            require(data.is_error and body.began is None, "K2", "{} was denied, and ran", body.call_id)

    def _handed_over(self, agent: Agent, seq: int, call_id: str) -> None:
        """What was said beside a result is pending right after it (K11)."""
        for due in [one for one in self.awaited if one[0] == call_id]:
            self.awaited.remove(due)
            later = [entry.data for entry in agent.session.events[seq:] if isinstance(entry.data, InboxSpliced)]
            there = due[1] in [one.id for data in later for one in data.inserted]
            over = agent.state in (State.DISPOSAL, State.DISPOSED)
            require(there or over, "K11", "what was said after {} is not handed over", call_id)
