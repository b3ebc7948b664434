"""What must hold of a driver's reports: its log, its notifications, its gates (contract §2–§11).

The monitor knows what the tester did and what the rig told, and nothing else. It predicts little and checks much: what
the contract leaves open, it leaves open.
"""

from __future__ import annotations

from ..exploration.violation import require
from .histories import derived, flat
from .ledger import DONE, NEXT_STEP, NEXT_TURN, Json
from .requests import TOOLS, Requests


class Monitor(Requests):
    """Watches one agent."""

    # --- reports ------------------------------------------------------------------------------------------------------

    def reported(self, report: Json, *, settled: bool = True) -> None:
        """Take a report.

        Args:
            report: as ``settle`` gives it.
            settled: the driver cannot go on without the tester.

        Raises:
            Violation: something in it breaks a rule.
        """
        for event in report["events"]:
            require(not self.gone, "O4", "{} follows the end of the agent", event["type"])
            self.ledger.take(event)
            self._event(event)
        for target, pending in report["inbox"].items():
            require(pending == self.ledger.lists[target], "I6", "{} is {}, and the log folds to {}", target, pending,
                    self.ledger.lists[target])  # fmt: skip
        self._notices(report)
        running = report["status"] == "running"
        require(running is self.ledger.turn_open, "L5", "status {} while a turn is open: {}", report["status"],
                self.ledger.turn_open)  # fmt: skip
        kept = self._vanish.intersection([*self.ledger.lists[NEXT_TURN], *self.ledger.lists[NEXT_STEP]])
        require(not kept, "C3", "{} outlives a cancel that clears the inbox", sorted(kept))
        self._vanish.clear()
        self.known.may_drop = False
        self.current = True
        if not self.ledger.usable:
            self.known.wake = False
        self._attend(report["gates"])
        if settled:
            self._rests(report)

    def _event(self, event: Json) -> None:
        match event["type"]:
            case "step/start":
                self._before.clear()
            case "turn/end":
                self._before.clear()
                self._ended(event["reason"])
            case "tool/result":
                self._result(event)
            case "assistant/message":
                self._message(event)
            case "assistant/attempt":
                self._forget_stream()
            case _:
                pass

    def _ended(self, reason: str) -> None:
        known = self.known
        if not known.surprises:
            require(reason != "error" or self._fatal, "T7", "the turn ends with an error that nobody caused")
            require(reason != "blocked" or self._refused, "T7", "the turn ends blocked, and nobody blocked it")
            if reason in DONE:
                require(not self._fatal, "T9", "the turn ends {}, and something failed", reason)
                wanted = "max-tokens" if self._truncated else "completed"
                require(reason == wanted, "T6", "the turn ends {}, not {}", reason, wanted)
            if reason == "aborted":
                require(not self._arrived.strip(), "C5", "the text that had arrived is lost: {}", self._arrived)
        self._fatal = self._truncated = self._refused = False
        self._forget_stream()

    def _result(self, event: Json) -> None:
        given = self._tools.get(event["call"])
        if given is None or self.known.surprises:
            return
        error = bool(event.get("error"))
        require(error is given["error"], "K6", "the result of {} is an error: {}", event["call"], error)
        if "text" in given:
            require(event.get("text", given["text"]) == given["text"], "K6", "the result of {} is {}, not {}",
                    event["call"], event.get("text"), given["text"])  # fmt: skip

    def _message(self, event: Json) -> None:
        text = "".join([chunk["text"] for chunk in self._stream if "text" in chunk])
        if not self.known.surprises:
            if self.known.cause is None:
                require(self._answered, "Q5", "an answer is recorded before its end")
                require(event.get("text", text) == text, "Q5", "the answer is {}, not {}", event.get("text"), text)
                calls = [] if self._cut else [chunk["call"]["id"] for chunk in self._stream if "call" in chunk]
                require(event.get("calls", calls) == calls, "Q5", "it asks for {}, not {}", event.get("calls"), calls)
            else:
                arrived = (event.get("text") or "").startswith(self._arrived)
                require(arrived, "C5", "{} had arrived, and {} is kept", self._arrived, event.get("text"))
        self._forget_stream()

    def _forget_stream(self) -> None:
        self._stream, self._arrived = [], ""
        self._answered = self._cut = False

    def _notices(self, report: Json) -> None:
        stops = 0
        for notice in report["notices"]:
            name = notice["name"]
            if name == "agent/status":
                require(notice["status"] != self.status, "L5", "status {} is told twice", notice["status"])
                self.status = notice["status"]
            elif name == "agent/cancel-requested":
                stops += 1
            elif name == "agent/disposed":
                require(self.disposing or self.known.surprises, "O4", "the agent is disposed, and nobody asked for it")
                self.gone = True
        require(self.status == report["status"], "L5", "status {} is told, and it is {}", self.status, report["status"])
        if self._stops >= 0 and not self.known.surprises:
            require(stops == self._stops, "C2", "cancel-requested is told {} times, not {}", stops, self._stops)
        self._stops = 0

    def _attend(self, gates: list[Json]) -> None:
        """The gates that wait now."""
        single = [gate["kind"] for gate in gates if gate["kind"] not in TOOLS]
        require(len(single) + (len(gates) > len(single)) <= 1, "L7", "two operations wait: {}", gates)
        stopped = self.known.cause is not None or self.disposing
        for gate in gates:
            if gate["gate"] in self._seen:
                continue
            self._seen.add(gate["gate"])
            kind = gate["kind"]
            rule = "C9" if kind == "model" else "K6" if kind in TOOLS else "C4"
            require(not stopped, rule, "a {} starts after a cancel", kind)
            if kind != "maintenance":
                require(self.ledger.turn_open, "L7", "a {} waits, and no turn is open", kind)
            if kind == "model":
                self._request(gate)
            elif kind in TOOLS:
                call = gate["call"]
                require(call in self.ledger.asked, "K5", "{} runs, and nobody asks for it", call)
                require(call not in self._ran, "K5", "{} runs twice", call)
                self._ran.add(call)
        self.gates = gates

    def _request(self, gate: Json) -> None:
        """A model request holds what the log says, and nothing else (Q1, N1)."""
        require(self.ledger.step_open, "T10", "a request is made outside a step")
        self._forget_stream()
        asked = [entry for message in gate["messages"] for entry in flat(message)]
        wanted = derived(self.ledger.history, self.texts)
        require(asked == wanted, "Q1", "the request is {}, and the log says {}", asked, wanted)

    def _rests(self, report: Json) -> None:
        """What must hold when nothing can go on without the tester."""
        known, ledger = self.known, self.ledger
        stubborn = any(gate["kind"] == "stubborn-tool" for gate in self.gates)
        self.maintaining = any(gate["kind"] == "maintenance" for gate in self.gates)
        for answer in self._tools.values():
            answer["settled"] = True
        self._arrived = "".join([chunk["text"] for chunk in self._stream if "text" in chunk])
        if ledger.turn_open:
            require(self.gates, "N7", "the agent runs, and nothing waits: it is stuck")
            require(known.cause is None or stubborn, "C4", "a cancelled turn does not end")
        elif not self.maintaining and not self.reserved and not self.disposing and not known.surprises:
            require(not known.wake, "D4", "a wake is lost: {} is pending, and no turn starts", ledger.lists)
        if self.disposing and not stubborn:
            require(self.gone, "O4", "a disposed agent does not come to its end")
        if "state" in self.features and not self.gates:
            require(report["state"] in ("idle", "disposed"), "N7", "the agent rests in {}", report["state"])
