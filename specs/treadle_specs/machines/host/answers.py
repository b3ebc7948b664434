"""What the model says next, as drawn; and every request it is sent, held to the log (N1, Q1, C9)."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import trio
from attrs import frozen

from treadle import Answer, Call, Failure, ModelFailure, ModelRequest, State
from treadle.errors import InvariantViolated
from treadle.models import Chunk, ModelInfo, RetryPolicy, SystemMessage
from treadle.models.scripted import chunks_of
from treadle.testing import check_request

from ...exploration.violation import Violation, require
from .surroundings import Surroundings

POLICY = RetryPolicy(max_retries=2, base_delay=0.5, max_delay=4.0, jitter=0.0)
PAUSE = 0.4
REFUSALS = {"busy": "RATE_LIMIT", "broken": "SERVER", "quota": "QUOTA", "long": "CONTEXT_WINDOW_EXCEEDED"}
"""The answers that fail, and their codes."""


@frozen
class Said:
    """One answer: text, calls of tools with what they are to do, or a failure; perhaps slowly, and deaf to a cancel."""

    kind: str = "text"
    calls: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = ()
    slow: bool = False
    retry_after: float | None = None
    shielded: bool = False


class Route:
    """What is registered for the model; another one each time."""

    name = "machine"
    retry_policy = POLICY

    def __init__(self, model: Model) -> None:
        self.model = model

    async def model_info(self, model: str) -> ModelInfo:
        """See ``ModelAdapter``."""
        return ModelInfo(context_window=1000 if model == "small" else 2000)

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """See ``ModelAdapter``."""
        self.model.hold_route(self)
        return self.model.stream(request)


class Model:
    """The model of a world; one instance serves all agents.

    Attributes:
        given: by agent, how many chunks of its latest attempt were delivered.
    """

    name = "machine"

    def __init__(self, world: Surroundings) -> None:
        self.world = world
        self.plans: dict[str, deque[Said]] = {}
        self.given: dict[str, int] = {}
        self._route: Route | None = None
        self._disconnect: Callable[[], object] | None = None

    def connect(self) -> None:
        """Register it, in the place of what was registered before."""
        if self._disconnect is not None:
            self._disconnect()
        self._route = Route(self)
        self._disconnect = self.world.host.models.register(self.name, self._route)

    def hold_route(self, route: Route) -> None:
        """Requests go to what is registered (Q4)."""
        with self.world.noting():
            require(route is self._route, "Q4", "a request goes to a model that was taken out")

    def plan(self, agent_id: str, said: list[Said]) -> None:
        """What an agent's next attempts are answered."""
        self.plans.setdefault(agent_id, deque()).extend(said)

    def first(self, agent_id: str, said: Said) -> None:
        """What an agent's very next attempt is answered."""
        self.plans.setdefault(agent_id, deque()).appendleft(said)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """See ``ModelAdapter``."""
        with self.world.noting():
            self._hold(request)
        plan = self.plans.get(request.session_id)
        said = plan.popleft() if plan else Said()
        self.given[request.session_id] = 0
        if said.slow:
            await trio.sleep(PAUSE)
        failing = said.kind in REFUSALS
        for chunk in chunks_of(self._answer(said)):
            self.given[request.session_id] += 1
            yield chunk
            if said.slow:
                with trio.CancelScope(shield=said.shielded):
                    await trio.sleep(PAUSE)
        if failing:
            code = REFUSALS[said.kind]
            raise ModelFailure(Failure("not now", code, retry_after=said.retry_after))

    def _answer(self, said: Said) -> Answer:
        if said.kind == "calls":
            return Answer("I call.", calls=tuple([self._call(name, dict(how)) for name, how in said.calls]))
        if said.kind == "cut":
            return Answer("I was cut", finish="max-tokens")
        if said.kind in REFUSALS:
            return Answer("half an ans", failure=Failure("not now"))
        return Answer("Done.")

    def _call(self, tool: str, how: dict[str, Any]) -> Call:
        name = f"c{self.world.name()}" if tool != "alone" or not how.pop("same", False) else "the same"
        arguments: Any = how.pop("raw") if "raw" in how else {**how, "id": name}
        return Call(tool, arguments, name)

    def _hold(self, request: ModelRequest) -> None:
        actor = self.world.actors[request.session_id]
        agent = actor.agent
        require(agent.state is State.STEP, "C9", "a request of {} starts in {}", agent.id, agent.state)
        require(agent.id not in self.world.interrupted, "H5", "{} goes on, and was interrupted", agent.id)
        require(not request.signal.cancelled, "C9", "a request of {} starts after a cancel", agent.id)
        try:
            check_request(agent.session, request)
        except InvariantViolated as wrong:
            raise Violation("Q1", f"{wrong}") from wrong
        held = self.world.revisions.of.get(agent)
        brands = [one.name for one in request.tools if one.name.startswith("brand")]
        due = [f"brand{held.number}"] if held is not None else []
        require(brands == due, "O9", "{} is offered {}, and holds {}", agent.id, brands, due)
        persona = "".join([m.text for m in request.messages if isinstance(m, SystemMessage)])
        if held is not None:
            require(f"number {held.number}." in persona, "R3", "{} is told {!r}", agent.id, persona)
