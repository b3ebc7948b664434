"""The stateful suite: Hypothesis makes calls on an agent and lets it run a drawn while, in a drawn order (§4).

Each rule is synchronous. It makes one request and then lets the driver settle, or lets the loop run a drawn number of
ticks in a drawn order of tasks; a rig that cannot be ticked stays where it is instead.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test  # pyright: ignore[reportUnknownVariableType]  # it does not say

from ..exploration.violation import Violation
from ..run_cases import compact_gate
from .answers import answer
from .drawn import BOX, CROWD, EARLY, FEW, GATES, GOING, HEARD, HOOKED, HURRY, PICK, SETTLE, SURE, TOOLS, text
from .ledger import NEXT_STEP, NEXT_TURN, Json
from .local import LocalRig, Rig
from .oracle import Oracle
from .player import Player
from .plays import go_to_work, play
from .stakes import Stakes


class Suite(RuleBasedStateMachine):
    """Any driver behind a rig; subclasses say which."""

    make_rig: ClassVar[Any] = LocalRig
    opening: ClassVar[Any] = dict
    oracle: ClassVar[Oracle | None] = None
    lost: ClassVar[list[tuple[list[Json], BaseException]]] = []
    core: ClassVar[bool] = False
    lacks: ClassVar[frozenset[str]] = frozenset()
    store: ClassVar[str | None] = None
    record: ClassVar[Record | None] = None

    def __init__(self) -> None:
        super().__init__()
        oracle = type(self).oracle
        if oracle is not None:
            oracle.forget()
        self.player: Player | None = None
        if self.record is not None:
            self.record.begin()
        self.rig: Rig | None = None
        self.place: tempfile.TemporaryDirectory[str] | None = None
        self.names = 0
        self.sent = ""
        self.broken = self.listening = False

    @initialize(gates=st.sampled_from([FEW, GATES, HOOKED, GATES]), pool=st.sampled_from([None, None, 1, 2]),
                listening=st.sampled_from([False, False, True]))  # fmt: skip
    def open(self, gates: tuple[str, ...], pool: int | None, *, listening: bool) -> None:
        """The agent is created."""
        oracle = type(self).oracle
        with self._held():
            rig: Rig = type(self).make_rig()
            self.rig = rig
            self.player = self._player(rig, oracle.verdict if oracle is not None else lambda: None)
            kinds = [kind for kind in (gates if not self.core else ("tool",)) if kind not in self.lacks]
            limited = pool is not None and self._can("max_parallel_tool_calls")
            options = {"max_parallel_tool_calls": pool} if limited else {}
            self.listening = listening and self._can("listen")
            self.player.play({"do": "open", "session": "s1", "gates": kinds, "tools": TOOLS, "options": options,
                              **self._stored, **type(self).opening()})  # fmt: skip

    def _player(self, rig: Rig, verdict: Callable[[], None]) -> Player:
        if self.store is None:
            return Player(rig, verdict)
        self.place = tempfile.TemporaryDirectory()
        return Player(rig, verdict, type(self).make_rig, self.place.name)

    @property
    def _stored(self) -> Json:
        return {"store": {"kind": self.store, "path": "{tmp}/store"}} if self.store is not None else {}

    # --- requests -----------------------------------------------------------------------------------------------------

    @rule(box=BOX, wakeup=st.booleans(), again=st.integers(0, 9), go=GOING)
    def deliver(self, box: str, again: int, go: Any, *, wakeup: bool) -> None:
        """A message arrives; now and then with an id that was used before."""
        name = self.sent if again == 0 and self.sent else self._name()
        self.sent = name
        self._play({"do": "deliver", "message": text(name), "target": box, "wakeup": wakeup}, go)

    @precondition(lambda self: self._can("inbox") and (self._busy or len(self._pends) < CROWD))
    @rule(op=st.sampled_from(["append", "prepend", "replace", "remove", "splice", "clear"]), box=BOX, pick=PICK,
          count=st.integers(0, 2), go=GOING)  # fmt: skip
    def inbox(self, op: str, box: str, pick: int, count: int, go: Any) -> None:
        """An operation on the inbox."""
        request: Json = {"do": "inbox", "op": op}
        if op in ("append", "prepend"):
            request |= {"target": box, "message": text(self._name())}
        elif op in ("replace", "remove"):
            request["message_id"] = self._pending(pick)
            if op == "replace":
                request["message"] = text(self._name())
        elif op == "splice":
            inserted = [text(self._name()) for _ in range(pick % 2)]
            request |= {"target": box, "start": pick - 1, "delete_count": count, "inserted": inserted}
        self._play(request, go)

    @precondition(lambda self: self._has("update") and self._pends)
    @rule(action=st.sampled_from(["edit", "remove", "steer", "steer"]), pick=PICK, go=GOING)
    def update(self, action: str, pick: int, go: Any) -> None:
        """A queued message is edited, removed, or sent ahead (I9)."""
        request: Json = {"do": "update", "action": action, "message_id": self._pending(pick)}
        if action == "edit":
            request["text"] = f"edited {self._name()}"
        self._play(request, go)

    @precondition(lambda self: self._busy or self._pends)
    @rule(keep=st.booleans(), cause=st.sampled_from(["user", "parent", "hook"]), go=HURRY)
    def cancel(self, cause: str, go: Any, *, keep: bool) -> None:
        """Whatever runs is cancelled."""
        self._play({"do": "cancel", "cause": cause, "reason": "r", "keep_inbox": keep}, go)

    @precondition(lambda self: self._busy)
    @rule(keep=st.booleans(), box=BOX, ticks=st.integers(0, 3), twice=st.booleans())
    def ask_again(self, box: str, ticks: int, *, keep: bool, twice: bool) -> None:
        """A waking delivery finds the activity cancelled, perhaps twice, and not converged (D4, C2)."""
        self._play({"do": "cancel", "cause": "user", "reason": "r", "keep_inbox": keep}, ("tick", ticks, ()))
        if twice:
            self._play({"do": "cancel", "cause": "parent", "reason": "r", "keep_inbox": keep}, ("tick", 0, ()))
        self._play({"do": "deliver", "message": text(self._name()), "target": box, "wakeup": True}, SETTLE)

    @precondition(lambda self: self._idles and (self._has("reservation") or self._has("maintenance")))
    @rule(verb=st.sampled_from(["reserve", "release", "maintain", "maintain"]), wakes=st.booleans(), go=GOING)
    def hold(self, verb: str, go: Any, *, wakes: bool) -> None:
        """Something holds turns back, or no longer; a delivery may follow (D8, M1)."""
        if self._has("maintenance" if verb == "maintain" else "reservation"):
            self._play({"do": verb}, ("tick", 0, ()))
            if wakes and not self._gone:
                ask: Json = {"message": text(self._name()), "target": NEXT_TURN, "wakeup": True}
                self._play({"do": "deliver", **ask}, ("tick", 0, ()))
            self._play(None, go)

    @precondition(lambda self: self.player and len(self.player.steps) > EARLY and not self.player.monitor.disposing)
    @rule(keep=st.booleans(), sure=st.integers(0, 4), go=GOING)
    def dispose(self, sure: int, go: Any, *, keep: bool) -> None:
        """The agent is disposed, perhaps while it is being cancelled (O4)."""
        if sure == SURE and self._busy:
            self._play({"do": "cancel", "cause": "user", "reason": "r", "keep_inbox": keep}, ("tick", 0, ()))
        if sure >= SURE:
            self._play({"do": "dispose", "keep_inbox": keep}, go)

    @precondition(lambda self: self.player and self.player.gates)
    @rule(pick=PICK, choice=st.integers(0, 9), go=GOING)
    def answer(self, pick: int, choice: int, go: Any) -> None:
        """A gate is passed."""
        if self.broken:
            return
        with self._held():
            self._serve(pick, choice)
        self._play(None, go)

    @precondition(lambda self: not self._gone)
    @rule(which=st.integers(0, 9), keep=st.booleans(), choice=st.integers(0, 6))
    def stage(self, which: int, choice: int, *, keep: bool) -> None:
        """A short play brings the driver where chance seldom does."""
        if not self.broken:
            with self._held():
                play(self, which, keep=keep, choice=choice, core=self.core)

    @precondition(lambda self: self.store is not None and self.names > 0 and not self._gone)
    @rule(kill=st.booleans(), work=st.booleans(), choice=st.integers(0, 6))
    def restart(self, choice: int, *, kill: bool, work: bool) -> None:
        """What was flushed survives the process, which is closed or killed; another one resumes the session (P4)."""
        if self.broken:
            return
        with self._held():
            if work:
                go_to_work(self, choice)
            self.request({"do": "restart", "kill": kill})
            if work:
                play(self, 2, keep=False, choice=choice, core=True)

    @precondition(lambda self: self.listening)
    @rule(on=st.sampled_from(HEARD), nth=st.integers(1, 2), verb=PICK, keep=st.booleans())
    def listen(self, on: str, nth: int, verb: int, *, keep: bool) -> None:
        """A listener will call the agent, or raise (H4, H5)."""
        acts: tuple[Json, ...] = (
            {"do": "raise"},
            {"do": "cancel", "cause": "hook", "reason": "r", "keep_inbox": keep},
            {"do": "deliver", "message": text(self._name()), "target": NEXT_TURN, "wakeup": keep},
            {"do": "deliver", "message": text(self._name()), "target": NEXT_STEP, "wakeup": keep},
        )
        self._play({"do": "listen", "on": on, "nth": nth, "request": acts[verb]}, ("tick", 0, ()))

    @precondition(lambda self: self._busy)
    @rule(go=GOING)
    def run(self, go: Any) -> None:
        """The driver goes on."""
        self._play(None, go)

    # --- the end ------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """The run comes to its end, whatever state it is in, and leaves nothing behind (N7)."""
        try:
            if not self.broken and self.player is not None:
                with self._held():
                    self.player.finish()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self.player is not None:
            self.rig = self.player.rig
        if self.place is not None:
            self.place.cleanup()
        if self.rig is None:
            return
        drop: Callable[[], None] | None = getattr(self.rig, "drop", None)
        if self.broken and drop is not None:
            drop()
        else:
            with self._held():
                self.rig.stop()
        if self.record is not None and self.player is not None:
            self.record.end(self.player.monitor.stakes)

    # --- the stage of a play ------------------------------------------------------------------------------------------

    def request(self, request: Json) -> None:
        """See ``Stage``."""
        if self.player is not None:
            self.player.play(request)

    def settle(self) -> None:
        """See ``Stage``."""
        if self.player is not None:
            self.player.settle()

    def name(self) -> str:
        """See ``Stage``."""
        return self._name()

    def waiting(self) -> list[Json]:
        """See ``Stage``."""
        return self.player.gates if self.player is not None else []

    def over(self) -> bool:
        """See ``Stage``."""
        return self.broken or self._gone

    # --- pieces -------------------------------------------------------------------------------------------------------

    def _play(self, request: Json | None, go: tuple[str, Any, Any]) -> None:
        player = self.player
        assert player is not None
        if self.broken:
            return
        with self._held():
            if request is not None:
                player.play(request)
            how, much, order = go
            if how == "tick":
                if much and player.ticks:
                    player.play({"do": "tick", "count": much, "order": list(order)})
                return
            player.settle()
            for choice in much if how == "serve" else ():
                if player.gates:
                    self._serve(order, choice)
                    player.settle()

    def _serve(self, pick: int, choice: int) -> None:
        player = self.player
        assert player is not None
        gate = player.gates[pick % len(player.gates)]
        given = answer(gate, choice, self._name, core=self.core)
        player.play({"do": "pass", "gate": compact_gate(gate), **given})

    @contextmanager
    def _held(self) -> Generator[None]:
        """Remember the script of a run that breaks a rule.

        A run whose findings are recorded is over then: nothing more is asked of it, and the next one is made.
        Otherwise the finding is raised, and Hypothesis ends with the shortest script.
        """
        try:
            yield
        except Exception as error:
            self.broken = True
            steps = list(self.player.steps) if self.player is not None else []
            if self.record is not None and self.record.takes(error, steps):
                return
            type(self).lost[:] = [(steps, error)]
            raise

    def _name(self) -> str:
        self.names += 1
        return f"m{self.names}"

    def _pending(self, pick: int) -> str:
        pending = self._pends
        return pending[pick % len(pending)] if pending else f"m{pick}"

    @property
    def _pends(self) -> list[str]:
        """The ids that are pending."""
        if self.player is None:
            return []
        lists = self.player.monitor.ledger.lists
        return [*lists[NEXT_TURN], *lists[NEXT_STEP]]

    @property
    def _busy(self) -> bool:
        """Whether a turn or a maintenance task is under way."""
        return self.player is not None and (self.player.monitor.ledger.turn_open or self.player.monitor.maintaining)

    @property
    def _gone(self) -> bool:
        """Whether the agent is disposed, or about to be."""
        return self.player is not None and self.player.monitor.disposing

    @property
    def _idles(self) -> bool:
        """Whether it makes sense to hold turns back, or to let them go."""
        return not self._busy and self.names > 0

    def _has(self, feature: str) -> bool:
        return self._can(feature) and self.player is not None and feature in self.player.features

    def _can(self, word: str) -> bool:
        """Whether a verb or an option beyond the core may be drawn."""
        return not self.core and word not in self.lacks


class Record(Protocol):
    """Takes what runs find, so that one broken rule does not end the search."""

    def begin(self) -> None:
        """A run begins; raises when there were enough."""
        ...

    def end(self, stakes: Stakes) -> None:
        """A run is over."""
        ...

    def takes(self, error: BaseException, steps: list[Json]) -> bool:
        """Take what ended a run and its script; whether that is all that has to be done."""
        ...


def profile(examples: int, steps: int = 25, *, derandomize: bool = True) -> settings:
    """Settings of a run: no database, no deadline; shrinking stays on."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=derandomize,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large),
        print_blob=False,
        report_multiple_bugs=False,
    )


def run_suite(kind: type[Suite], chosen: settings) -> None:
    """Run the suite of a class.

    Raises:
        Violation: a rule is broken; ``kind.lost`` holds the shrunk script.
    """
    kind.lost.clear()
    run_state_machine_as_test(kind, settings=chosen)


__all__ = ["Suite", "Violation", "profile", "run_suite"]
