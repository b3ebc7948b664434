"""One agent under test, and what is told about it since the last settle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import Agent, AgentHandle, AgentOptions, Event
from treadle.hooks import (
    AGENT_DISPOSED,
    AGENT_ERROR,
    AGENT_PARKED,
    AGENT_STATUS,
    CANCEL_REQUESTED,
    INBOX_CLAIMED,
    INBOX_DISCARDED,
    INBOX_INSERTED,
    INBOX_UPDATED,
    POINTS,
    SESSION_EVENT,
    Emit,
    Scope,
)

from .gates import GateFailure, Gates
from .hooks import Hooks
from .protocol import ALWAYS_WAITING, GATE_KINDS, Json, listed, mapped, objects, refuse
from .report import event_told, notice_told

NOTED: tuple[Emit[Any], ...] = (
    *(AGENT_STATUS, INBOX_INSERTED, INBOX_CLAIMED, INBOX_DISCARDED, INBOX_UPDATED),
    *(AGENT_PARKED, AGENT_ERROR, CANCEL_REQUESTED, AGENT_DISPOSED),
)
_HEARABLE = {point.name: point for point in POINTS if isinstance(point, Emit)}


class Seat:
    """An agent under test.

    Args:
        number: tells agents of one rig apart.
        request: the ``open`` request.
        gates: where its work waits.
        count: gives the next running number of a publication.
    """

    def __init__(self, number: int, request: Json, gates: Gates, count: Callable[[], int]) -> None:
        self.number = number
        self.handle: AgentHandle | None = None
        self.release: Callable[[], None] | None = None
        self.seen = 0
        self._loaded = 0
        self._gates = gates
        self._count = count
        self._at: dict[int, int] = {}
        self._calls: dict[str, int] = {}
        self._notices: list[Json] = []
        self._place = (0, 0, 0)
        self.options = _options(request)
        self._hooks = Hooks(gates, number, _gate_kinds(request))
        self._tools = self._hooks.tools(objects(request, "tools"), self._calls.get)

    @property
    def agent(self) -> Agent:
        """The agent; there is one as soon as it was opened."""
        assert self.handle is not None
        return self.handle.agent

    def opened(self, handle: AgentHandle) -> None:
        """The agent is there. What this process appended to a stored session is told at the first settle."""
        self.handle = handle
        recovery = handle.recovery
        self.seen = self._loaded - (recovery.appended if recovery is not None else 0)

    # --- listening ----------------------------------------------------------------------------------------------------

    async def setup(self, scope: Scope, agent: Agent) -> None:
        """Register everything before the agent is published."""
        self._loaded = len(agent.session)
        scope.on(SESSION_EVENT, lambda payload: self._heard_event(payload.event))
        for point in NOTED:
            scope.on(point, lambda payload, point=point: self._heard(point, payload))
        self._hooks.register(scope, agent)
        for tool in self._tools:
            agent.tools.register(tool)

    def _heard_event(self, event: Event) -> None:
        number = self._at[event.seq] = self._count()
        data = event.data
        if event.type == "step/start":
            self._place = (data.turn, data.step, 0)
        elif event.type == "tool/call":
            self._calls[data.call_id] = number

    def _heard(self, point: Emit[Any], payload: Any) -> None:
        self._notices.append({**notice_told(point.name, payload), "at": self._count()})

    def attempt(self) -> Json:
        """Another attempt of the open step begins; says which."""
        turn, step, attempt = self._place
        self._place = (turn, step, attempt + 1)
        return {"turn": turn, "step": step, "attempt": attempt + 1}

    def listen(self, on: str, nth: int, act: Callable[[], None] | None) -> None:
        """When the nth such thing is published, act inside the listener; without an act, raise."""
        name = on.removeprefix("notice:")
        point: Emit[Any] = SESSION_EVENT
        if name != on:
            if name not in _HEARABLE:
                refuse("unsupported", f"no notification is named {name!r}")
            point = _HEARABLE[name]
        left = nth

        def heard(payload: Any) -> None:
            nonlocal left
            if point is SESSION_EVENT and name == on and payload.event.type != on:
                return
            left -= 1
            if left:
                return
            if act is None:
                raise GateFailure("the tester made this listener raise")
            act()

        self.agent.scope.on(point, heard)

    # --- reporting ----------------------------------------------------------------------------------------------------

    def report(self) -> Json:
        """What ``settle`` tells; what was told is forgotten."""
        agent = self.agent
        events = [event_told(event, self._at.pop(event.seq, None)) for event in agent.session.events[self.seen :]]
        self.seen = len(agent.session)
        notices, self._notices = self._notices, []
        return {
            "status": agent.status,
            "state": agent.state.value,
            "inbox": {
                "next-turn": [message.id for message in agent.inbox.next_turn],
                "next-step": [message.id for message in agent.inbox.next_step],
            },
            "events": events,
            "notices": notices,
            "gates": self._gates.report(self.number),
        }


def _gate_kinds(request: Json) -> frozenset[str]:
    kinds = listed(request, "gates")
    for kind in kinds:
        if kind not in GATE_KINDS:
            refuse("unsupported", f"there is no gate of kind {kind!r}")
    return ALWAYS_WAITING | frozenset(kinds)


def _options(request: Json) -> AgentOptions:
    options = mapped(request, "options", {})
    known = {"max_parallel_tool_calls", "max_steps_per_turn"}
    for name in options:
        if name not in known:
            refuse("unsupported", f"there is no option {name!r}")
    chosen = {name: value for name, value in options.items() if value is not None}
    return AgentOptions(provider="rig", model="rig", **chosen)
