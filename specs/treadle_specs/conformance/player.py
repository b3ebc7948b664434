"""Plays requests on a rig under the monitor's eyes, and keeps them as a script that can be replayed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from ..exploration.violation import Violation, require
from ..run_cases import compact_gate, fill
from .ledger import Json, items
from .local import TICKS, MakeRig, Rig
from .monitor import Monitor
from .profiles import ALONE

ROUNDS = 80
"""How often a run that is brought to its end may need the tester."""
SENSITIVE = frozenset({"cancel", "dispose", "update", "maintain", "reserve", "release"})
"""Verbs before which the monitor has to know where the driver stands."""
REPORTING = frozenset({"settle", "tick", "look"})


class Player:
    """One run on one rig.

    Args:
        rig: the driver; a rig that can be ticked is looked at after every request.
        verdict: raises what an oracle beside the monitor found.
        again: starts another rig, for runs that restart the driver.
        folder: takes the place of ``{tmp}`` in requests.
    """

    def __init__(
        self, rig: Rig, verdict: Callable[[], None] = lambda: None, again: MakeRig | None = None, folder: str = ""
    ) -> None:
        self.rig = rig
        self._again, self._folder = again, folder
        self._opening: Json = {}
        self.steps: list[Json] = []
        self._count = 0
        self._verdict = verdict
        hello = self._ask({"do": "hello"})
        require(hello.get("protocol") == 1, "hello", "the rig answers hello with {}", hello)
        self.features: frozenset[str] = frozenset(items(hello, "features"))
        self.ticks = TICKS in self.features
        self._alone = ALONE in items(hello, "lacks")
        self.monitor = Monitor(self.features)

    @property
    def gates(self) -> list[Json]:
        """The gates that waited at the last report."""
        return self.monitor.gates

    def play(self, step: Json) -> Json:
        """Make one request; the gate of a ``pass`` goes by its compact name, as in cases.

        Raises:
            Violation: the driver breaks a rule.
        """
        verb = step["do"]
        stopped = verb == "cancel" and self.monitor.known.cause is not None
        if verb in SENSITIVE and not self.monitor.current and not self.ticks and not stopped:
            self.play({"do": "settle"})
        if verb == "restart":
            return self._restart(step)
        self.steps.append(step)
        if verb in ("tick", "look") and not self.ticks:
            return {}
        request: Json = fill(dict(step), self._folder) if self._folder else dict(step)
        if verb == "open":
            self._opening = request
        if verb == "pass":
            request["gate"] = self._named(step["gate"])
        if verb == "settle" and not self.ticks:
            request.pop("order", None)
        reply = self._ask(request)
        self._judge(request, reply)
        if self.ticks and verb not in ("hello", "open", *REPORTING):
            self._report(self._ask({"do": "look"}), settled=False)
        self._verdict()
        return reply

    def _restart(self, step: Json) -> Json:
        """What was flushed, or closed, is acknowledged; the process ends by a close or a kill, and another one resumes."""
        require(self._again is not None, "hello", "nobody says how the driver is started again")
        assert self._again is not None
        kill = step.get("kill", False)
        self.settle()
        if kill:
            self.play({"do": "flush"})
            if not self._alone:
                self._rival(self._again())
        self.steps.append(step)
        self.rig.close(kill=kill)
        self.rig = self._again()
        self._ask({"do": "hello"})
        reply = self._ask({**self._opening, "resume": True})
        require(reply.get("ok"), "P4", "a session that was flushed cannot be resumed: {}", reply.get("error"))
        self.monitor.restarted()
        report = self._ask({"do": "settle"})
        self._report(report, settled=True)
        return report

    def _rival(self, rig: Rig) -> None:
        """While one process drives the session, another that would resume it is refused, and changes nothing (P2)."""
        try:
            for request in ({"do": "hello"}, {**self._opening, "resume": True}):
                reply = rig.ask({"id": 1, **request})
            self.monitor.stakes.require(not reply.get("ok"), "P2", "two processes drive one session", stake=True)
        finally:
            rig.close(kill=True)

    def _judge(self, request: Json, reply: Json) -> None:
        if request["do"] in REPORTING and reply.get("ok"):
            self._report(reply, settled=request["do"] == "settle")
        else:
            self.monitor.asked(request, reply)

    def _report(self, reply: Json, *, settled: bool) -> None:
        require(reply.get("ok"), "L8", "the driver broke: {}", reply.get("error"))
        self.monitor.reported(reply, settled=settled)

    def _ask(self, request: Json) -> Json:
        self._count += 1
        reply = self.rig.ask({"id": self._count, **request})
        require(reply.get("id") == self._count, "hello", "request {} is answered by {}", self._count, reply.get("id"))
        return reply

    def _named(self, name: str) -> str:
        for gate in self.gates:
            if compact_gate(gate) == name:
                return gate["gate"]
        return name

    def settle(self) -> None:
        """Let the driver go on until it needs the tester."""
        self.play({"do": "settle"})

    def finish(self) -> None:
        """Bring the run to its end: answer every gate, free what is held, dispose; everything must converge.

        Raises:
            Violation: it does not, or breaks a rule on the way.
        """
        self.settle()
        if self.monitor.reserved:
            self.play({"do": "release"})
            self.settle()
        self._run_out()
        if not self.monitor.disposing:
            self.play({"do": "dispose", "keep_inbox": True})
            self.settle()
            self._run_out()
        require(self.monitor.gone or self.monitor.known.surprises, "O4", "a disposed agent does not come to its end")
        reply = self.play({"do": "deliver", "message": {"id": "late", "text": "late"}, "target": "next-turn",
                           "wakeup": True})  # fmt: skip
        require(not reply.get("ok"), "L9", "a disposed agent accepts a delivery")

    def _run_out(self) -> None:
        for _ in range(ROUNDS):
            if not self.gates:
                return
            for gate in list(self.gates):
                self.play({"do": "pass", "gate": compact_gate(gate), **default(gate)})
            self.settle()
        raise Violation("L8", f"the run does not end after {ROUNDS} rounds")


def default(gate: Json) -> Json:
    """What lets a gate go on and asks for nothing more."""
    if gate["kind"] == "model":
        return {"chunks": [{"text": "done"}], "end": "stop"}
    return {"text": "done"} if gate["kind"] in ("tool", "stubborn-tool") else {}


def replay(rig: Rig, steps: Sequence[Json], again: MakeRig | None = None) -> Player:
    """Play the steps of a script, and bring the run to its end; the player's rig is the one to end.

    A rig that is left because of a violation is given up, too.

    Args:
        rig: the driver.
        steps: requests, and restarts.
        again: starts another rig, for scripts that restart the driver.

    Raises:
        Violation: the driver breaks a rule.
    """
    with tempfile.TemporaryDirectory() as folder:
        player = Player(rig, again=again, folder=folder)
        try:
            for step in steps:
                player.play({key: value for key, value in step.items() if key not in _CHECKS})
            player.finish()
        except BaseException:
            if player.rig is not rig:
                drop: Callable[[], None] = getattr(player.rig, "drop", player.rig.stop)
                drop()
            raise
        return player


_CHECKS: frozenset[Any] = frozenset({"ok", "code", "log", "notices"})
