"""Sweeps: deterministic and exhaustive where chance is weak (§5).

A scenario is a list of requests. It is run once to count its ticks; then once per tick with something done exactly
there: a cancel, a dispose, a delivery. Between two ticks lies every checkpoint of the driver's one task. Other sweeps
re-enter from every notification, and let every call fail once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from treadle import Agent
from treadle.hooks import Emit, Serial
from treadle.hooks import points as p
from treadle.session import memory

from ..exploration.violation import Violation
from ..rig import hooks, model
from ..rig.seat import NOTED
from .drawn import FEW, GATES, TOOLS, text
from .ledger import NEXT_STEP, NEXT_TURN, Json
from .local import LocalRig
from .player import Player

Scenario = tuple[Json, ...]
SETTLE: Json = {"do": "settle"}


def _ask(name: str, box: str = NEXT_TURN, *, wakes: bool = True) -> Json:
    return {"do": "deliver", "message": text(name), "target": box, "wakeup": wakes}


def _pass(gate: str, **answer: Any) -> tuple[Json, Json]:
    return {"do": "pass", "gate": gate, **answer}, SETTLE


def _open(*gates: str) -> Json:
    return {"do": "open", "session": "s1", "gates": list(gates), "tools": TOOLS}


def _call(call: str, tool: str) -> Json:
    return {"call": {"id": call, "name": tool, "arguments": "{}"}}


SCENARIOS: dict[str, Scenario] = {
    "two prompts": (
        _open(),
        *(_ask("m1"), _ask("m2"), SETTLE),
        *_pass("model", chunks=[{"text": "one"}], end="stop"),
        *_pass("model", chunks=[{"text": "two"}], end="stop"),
    ),
    "tools": (
        _open(*FEW),
        *(_ask("m1"), SETTLE),
        *_pass("model", chunks=[_call("c1", "p"), _call("c2", "p"), _call("c3", "t")], end="tool-calls"),
        *_pass("tool c2", text="second"),
        *_pass("tool c1", contexts=[text("x1")]),
        *_pass("tool c3", concludes=True),
        *_pass("model", chunks=[{"text": "done"}], end="stop"),
    ),
    "every hook": (
        _open(*GATES),
        *(_ask("m1", NEXT_STEP, wakes=False), _ask("m2"), SETTLE),
        *_pass("prompt-submit"),
        *_pass("pre-step"),
        *_pass("request"),
        *_pass("model", chunks=[{"text": "no"}], end={"error": {"code": "SERVER", "message": "no"}}),
        *_pass("request-error", action="retry"),
        *_pass("request"),
        *_pass("model", chunks=[{"text": "yes"}], end="stop"),
        *_pass("turn-stopping", steer=text("m3")),
        *_pass("pre-step"),
        *_pass("request"),
        *_pass("model", chunks=[{"text": "well"}], end="stop"),
        *_pass("turn-stopping"),
    ),
    "streaming and steering": (
        _open("stubborn-tool"),
        *(_ask("m1"), SETTLE),
        *_pass("model", chunks=[{"text": "half"}], end=None),
        *(_ask("m2", NEXT_STEP), SETTLE),
        *_pass("model", chunks=[_call("c1", "stubborn")], end="tool-calls"),
        *(_ask("m3", NEXT_STEP, wakes=False), SETTLE),
        *_pass("stubborn-tool c1", text="at last"),
        *_pass("model", chunks=[{"text": "end"}], end="max-tokens"),
    ),
    "maintenance": (
        _open(),
        *({"do": "maintain"}, SETTLE, _ask("m1"), SETTLE),
        *_pass("maintenance"),
        *_pass("model", chunks=[{"text": "one"}], end="stop"),
        *({"do": "reserve"}, _ask("m2"), SETTLE, {"do": "release"}, SETTLE),
        *_pass("model", chunks=[{"text": "two"}], end="stop"),
    ),
}
"""What is swept: between them they take every kind of operation."""


class _Sweep:
    """One run of a scenario with something done at one place."""

    def __init__(self, scenario: Scenario, verdict: Callable[[], None], opening: Callable[[], Json]) -> None:
        self.rig = LocalRig()
        self.scenario, self.opening = scenario, opening
        self.player = Player(self.rig, verdict)
        self.ticks = 0

    def run(self, act: Json | None = None, at: int = -1) -> None:
        """Play everything; before tick number ``at``, do ``act``. Then bring the run to its end."""
        try:
            for step in self.scenario:
                if step["do"] == "open":
                    self.player.play({**step, **self.opening()})
                elif step["do"] == "settle":
                    self._settle(act, at)
                elif step["do"] != "pass" or any(True for _ in self._waiting(step["gate"])):
                    self.player.play(step)
            self.player.finish()
        except BaseException:
            self.rig.drop()
            raise
        self.rig.stop()

    def _waiting(self, name: str) -> Iterator[Json]:
        kind, _, call = name.partition(" ")
        return (gate for gate in self.player.gates if gate["kind"] == kind and call in ("", gate.get("call")))

    def _settle(self, act: Json | None, at: int) -> None:
        while not self.rig.desk.stepper.quiescent:
            self._there(act, at)
            self.player.play({"do": "tick", "count": 1})
            self.ticks += 1
        self._there(act, at)
        self.ticks += 1
        self.player.settle()

    def _there(self, act: Json | None, at: int) -> None:
        if act is not None and self.ticks == at:
            self.player.play(act)


def _nothing() -> None:
    """No oracle beside the monitor."""


def sweep(
    scenario: Scenario, act: Json, verdict: Callable[[], None] = _nothing, opening: Callable[[], Json] = dict
) -> int:
    """Run a scenario once per tick, with ``act`` done exactly there; returns how often.

    Raises:
        Violation: a rule is broken; the text says at which tick.
    """
    counted = _Sweep(scenario, verdict, opening)
    counted.run()
    for at in range(counted.ticks):
        try:
            _Sweep(scenario, verdict, opening).run(act, at)
        except Violation as broken:
            raise Violation(broken.rule, f"{act} at tick {at}: {broken.message}") from broken
    return counted.ticks


# --- re-entering from every notification ------------------------------------------------------------------------------

HEARD = (
    *("turn/start", "step/start", "user/message", "assistant/message", "tool/call", "tool/result", "step/end"),
    *("turn/end", "agent/inbox/spliced", "request/header", "assistant/attempt"),
    *(f"notice:{point.name}" for point in NOTED),
)
"""Everything that a listener can hear in these scenarios."""
ENTERING: tuple[Json, ...] = (
    _ask("r1"),
    _ask("r1", NEXT_STEP),
    _ask("r1", NEXT_STEP, wakes=False),
    {"do": "cancel", "cause": "hook", "reason": "r"},
    {"do": "cancel", "cause": "hook", "reason": "r", "keep_inbox": True},
    {"do": "dispose"},
    {"do": "inbox", "op": "splice", "target": NEXT_TURN, "start": 0, "delete_count": 1, "inserted": [text("r1")]},
    {"do": "raise"},
)
"""What it does then."""


def reenter(scenario: Scenario, verdict: Callable[[], None] = _nothing) -> int:
    """Run a scenario once per notification and act of a listener, at its first and second time; returns how often.

    Raises:
        Violation: a rule is broken; the text says where.
    """
    runs = 0
    for on in HEARD:
        for act in ENTERING:
            for nth in (1, 2):
                listening: Json = {"do": "listen", "on": on, "nth": nth, "request": act}
                try:
                    _Sweep((scenario[0], listening, *scenario[1:]), verdict, dict).run()
                except Violation as broken:
                    raise Violation(broken.rule, f"{act} at {on} {nth}: {broken.message}") from broken
                runs += 1
    return runs


# --- failing every call once ------------------------------------------------------------------------------------------


class Blow(BaseException):
    """Something that nobody should raise, raised by hand."""


FAILING: tuple[Any, ...] = (
    *(p.PROMPT_SUBMIT, p.PRE_STEP, p.REQUEST, p.REQUEST_ERROR, p.TURN_STOPPING, p.LLM_STREAM),
    *(p.SYSTEM_PROMPT_ASSEMBLE, p.TOOLS_PRE_EXECUTE, p.TOOLS_EXECUTE, p.TOOLS_POST_EXECUTE, p.SESSION_FLUSH),
    *NOTED,
    *(p.SESSION_EVENT, p.ASSISTANT_STREAM, p.TOOLS_RESULT),
)
"""The points whose listeners fail."""
ERRORS: tuple[type[BaseException], ...] = (ValueError, Blow)


CALLS: tuple[tuple[Any, str], ...] = (
    (memory._Sink, "write"),  # pyright: ignore[reportPrivateUsage]  # where a store's writes end
    (model.ChunkWriter, "write"),
    (model.ChunkWriter, "end"),
    (model.GatedModel, "model_info"),
    (hooks, "output"),
)
"""What else fails: a store's write, an adapter before, in and after its stream, and a tool's body."""


def fail_every_call(
    scenario: Scenario, verdict: Callable[[], None] = _nothing, opening: Callable[[], Json] = dict
) -> int:
    """Let everything that is called fail once, at each of its calls, with each kind of error; returns how often.

    Raises:
        Violation: a rule is broken; the text says where.
    """
    runs = 0
    places: list[tuple[str, Callable[..., _Failing]]] = [(point.name, _listening(point)) for point in FAILING]
    places += [(name, _calling(owner, name)) for owner, name in CALLS]
    for name, failing in places:
        for error in ERRORS:
            at = 0
            while at >= 0:
                at += 1
                run = failing(scenario, verdict, opening, error, at)
                try:
                    run.run()
                except Violation as broken:
                    raise Violation(broken.rule, f"{error.__name__} at {name} {at}: {broken.message}") from broken
                runs += 1
                at = at if run.failed else -1
    return runs


def _listening(point: Any) -> Callable[..., _Failing]:
    return lambda *args: _FailingListener(point, *args)


def _calling(owner: Any, name: str) -> Callable[..., _Failing]:
    return lambda *args: _FailingCall(owner, name, *args)


class _Failing(_Sweep):
    """A run in which one call fails."""

    def __init__(
        self,
        scenario: Scenario,
        verdict: Callable[[], None],
        opening: Callable[[], Json],
        error: type[BaseException],
        nth: int,
    ) -> None:
        super().__init__(scenario, verdict, opening)
        self.failed = False
        self.player.monitor.known.surprises = True
        self._error, self._left = error, nth

    def count(self) -> None:
        """One more call; the chosen one fails."""
        self._left -= 1
        if self._left == 0:
            self.failed = True
            raise self._error("by hand")


class _FailingListener(_Failing):
    """A listener of one point fails."""

    def __init__(self, point: Any, *args: Any) -> None:
        super().__init__(*args)
        self._point = point

    def run(self, act: Json | None = None, at: int = -1) -> None:
        """Play everything; the listener fails once."""
        self.player.play({**self.scenario[0], **self.opening()})
        agent: Agent = self.rig.desk.agents[0]
        waterfall = not isinstance(self._point, (Emit, Serial))
        agent.scope.on(self._point, self._in_turn if waterfall else self._told)
        self.scenario = self.scenario[1:]
        super().run(act, at)

    def _told(self, payload: Any) -> None:
        del payload
        self.count()

    async def _in_turn(self, payload: Any, go_on: Callable[[], Any]) -> Any:
        del payload
        self.count()
        return await go_on()


class _FailingCall(_Failing):
    """A function of the rig or of its store fails."""

    def __init__(self, owner: Any, name: str, *args: Any) -> None:
        super().__init__(*args)
        self._owner, self._name = owner, name

    def run(self, act: Json | None = None, at: int = -1) -> None:
        """Play everything; the function fails once."""
        real = getattr(self._owner, self._name)

        def failing(*args: Any, **options: Any) -> Any:
            self.count()
            return real(*args, **options)

        setattr(self._owner, self._name, failing)
        try:
            super().run(act, at)
        finally:
            setattr(self._owner, self._name, real)
