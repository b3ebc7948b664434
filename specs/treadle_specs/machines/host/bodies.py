"""The bodies of the tools: what each was told to do, and what became of it (K1, K5, K6, K8, O7)."""

from __future__ import annotations

import contextvars
from typing import Any

import trio
from attrs import define, field

from treadle import Agent
from treadle.agent import current_initiator, message
from treadle.session import ToolCallStarted
from treadle.tools import ToolOutput, ToolRun

from ...exploration.violation import require
from .planned import Planned
from .surroundings import Surroundings

SLACK = 1e-6
"""Seconds that sums of virtual times may be off."""
TIMEOUT = 1.0
"""Seconds that the tool ``timed`` has."""


@define(eq=False)
class Body:
    """One call: what became of it, by stamps of the world's counter and by virtual time.

    Attributes:
        parallel: the mode it was last classified as.
        asked: the stamp of that.
        recorded: the stamp at which its ``tool/call`` was told.
        called: the time of that; its time limit counts from then on.
        value: what its body returned.
        let_through: whether it let a cancellation through.
        shielded: whether it does not hear of one.
        blocked: whether post-execute keeps its result from the model.
    """

    call_id: str
    name: str
    parallel: bool = False
    asked: int = 0
    cleared: int = 0
    recorded: int = 0
    called: float = 0.0
    began: float | None = None
    ended: float | None = None
    over: int = 0
    value: str | None = None
    raised: bool = False
    late: bool = False
    let_through: bool = False
    shielded: bool = False
    blocked: bool = False
    denied: bool = False


@define(eq=False)
class Step:
    """The calls of one step, and what ran when."""

    bodies: dict[str, Body] = field(factory=dict[str, Body])
    last_finish: int = 0


class Bodies:
    """What every tool does, and what is known of every call."""

    def __init__(self, world: Surroundings) -> None:
        self.world = world
        self.steps: dict[tuple[str, int, int], Step] = {}
        self.stamp = 0

    def next_stamp(self) -> int:
        """A number that grows with everything that happens."""
        self.stamp += 1
        return self.stamp

    def step_of(self, agent: Agent, turn: int, step: int) -> Step:
        """What is known of a step."""
        return self.steps.setdefault((agent.id, turn, step), Step())

    def _body(self, step: Step, call_id: str, name: str) -> Body:
        return step.bodies.setdefault(call_id, Body(call_id, name))

    # --- bodies -------------------------------------------------------------------------------------------------------

    async def body(self, arguments: dict[str, Any], run: ToolRun) -> Any:
        """Do what the arguments say."""
        with self.world.noting():
            body = self._begins(run)
            body.shielded = arguments.get("do") == "shield" or arguments.get("wrap") == "shield"
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
        if body.name == "timed" and not body.shielded and body.began is not None:
            with self.world.noting():
                spent = body.ended - body.called
                require(spent <= TIMEOUT + SLACK, "K1", "a body with {} s was over after {} s", TIMEOUT, spent)

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
            case "tell" | "tell late" | "stray" | "stop":
                await self._reach(arguments, run, actor)
            case "conclude":
                return ToolOutput(value, concludes_turn=True)
            case "context":
                extra = message(f"context of {run.call.call_id}", id=self.world.name())
                return ToolOutput(value, contexts=(extra,))
            case _:
                pass
        return value

    def _stray(self, run: ToolRun, seconds: float, box: Any) -> None:
        """Leave something running that delivers later, in the body's own context; its own it is in this turn only (O7)."""
        kernel, actor = run.agent.engine.kernel, self.world.actor_of(run.agent)

        async def later() -> None:
            await trio.sleep(seconds)
            if not actor.witness.gone:
                own = kernel.turn_open and kernel.turn == run.turn
                actor.deliver(self.world.name(), box, wakeup=True, own=own)

        trio.lowlevel.spawn_system_task(later, context=contextvars.copy_context())

    async def _reach(self, arguments: dict[str, Any], run: ToolRun, actor: Any) -> None:
        """Deliver to the body's own agent, now or later, or cancel it."""
        match arguments["do"]:
            case "tell":
                actor.deliver(self.world.name(), arguments["box"], wakeup=True, own=True)
            case "tell late":
                try:
                    await trio.sleep(arguments.get("for", 0.5))
                except trio.Cancelled:
                    actor.deliver(self.world.name(), arguments["box"], wakeup=True, own=True)
                    raise
            case "stray":
                self._stray(run, arguments.get("for", 0.5), arguments["box"])
            case "stop":
                actor.cancel(keep=bool(arguments.get("keep")))
            case _:
                pass
