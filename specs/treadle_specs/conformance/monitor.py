"""What must hold of a driver's reports: its log, its notifications, its gates (contract §2–§11).

The monitor knows what the tester did and what the rig told, and nothing else. It predicts little and checks much: what
the contract leaves open, it leaves open.
"""

from __future__ import annotations

from .histories import derived, flat
from .ledger import DONE, NEXT_STEP, NEXT_TURN, Json
from .requests import TOOLS, Requests


class Monitor(Requests):
    """Watches one agent."""

    def restarted(self) -> None:
        """Another process resumed the session: what the one before knew, and no log tells, is gone (I3, P4)."""
        known, ledger = self.known, self.ledger
        self.stakes.met("I8", any(ledger.lists.values()))
        self.stakes.met("P4", ledger.turn_open)
        ledger.pressing.clear()
        known.cause, known.keep, known.wake, known.held = None, False, False, False
        self.disposing = self.gone = self.reserved = self.maintaining = False
        self.status, self.gates = "idle", []
        for forgotten in (self._seen, self._vanish, self._passed, self._accepted, self._tools, self._before):
            forgotten.clear()
        self._forget_stream()
        self._stops = 0
        self._fatal = self._truncated = self._refused = False
        known.resumed = self.resuming = self._reloaded = True

    def _repaired(self, report: Json) -> None:
        """What the first report after a resume tells: the open turn is closed, and nothing else happens (P4, I8)."""
        require = self.stakes.require
        for event in report["events"]:
            require(event["type"] != "turn/start", "I8", "a resume starts turn {}", event.get("turn"))
            require(event["type"] != "tool/call", "P4", "a resume runs {} again", event.get("call"))
            if event["type"] == "tool/result":
                require(event.get("error"), "P4", "{} was not over, and its result is no error", event["call"])
        ends = [event["reason"] for event in report["events"] if event["type"] == "turn/end"]
        require(not self.ledger.turn_open, "P4", "the turn that the process left open is not closed")
        require(ends in ([], ["interrupted"]), "P4", "the turn that the process left open ends {}", ends)
        pending, wanted = report["inbox"], self.ledger.lists
        require(pending == wanted, "I8", "the inbox is {}, and was {}", pending, wanted)
        self.known.resumed = self.resuming = False

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
            self.stakes.require(not self.gone, "O4", "{} follows the end of the agent", event["type"])
            self.ledger.take(event)
            self._event(event)
        if self.resuming:
            self._repaired(report)
        for target, pending in report["inbox"].items():
            self.stakes.require(pending == self.ledger.lists[target], "I6", "{} is {}, and the log folds to {}", target, pending,
                    self.ledger.lists[target], stake=bool(pending))  # fmt: skip
        self._notices(report)
        lost = self._accepted - self.ledger.entered
        self.stakes.require(not lost, "I5", "{} is accepted, and no event tells of it", sorted(lost))
        self._accepted.clear()
        running = report["status"] == "running"
        self.stakes.require(running is self.ledger.turn_open, "L5", "status {} while a turn is open: {}", report["status"],
                self.ledger.turn_open)  # fmt: skip
        kept = self._vanish.intersection([*self.ledger.lists[NEXT_TURN], *self.ledger.lists[NEXT_STEP]])
        self.stakes.require(not kept, "C3", "{} outlives a cancel that clears the inbox", sorted(kept),
                            stake=bool(self._vanish))  # fmt: skip
        self._vanish.clear()
        self._passed.clear()
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
        self.stakes.met("T7", reason != "completed")
        self.stakes.met("T9", self._fatal and known.cause is None)
        if not known.surprises:
            self.stakes.require(
                reason != "error" or self._fatal, "T7", "the turn ends with an error that nobody caused"
            )
            self.stakes.require(
                reason != "blocked" or self._refused, "T7", "the turn ends blocked, and nobody blocked it"
            )
            if reason in DONE:
                self.stakes.require(not self._fatal, "T9", "the turn ends {}, and something failed", reason)
                wanted = "max-tokens" if self._truncated else "completed"
                self.stakes.require(
                    reason == wanted, "T6", "the turn ends {}, not {}", reason, wanted, stake=self._truncated
                )
            if reason == "aborted":
                self.stakes.require(
                    not self._arrived.strip(), "C5", "the text that had arrived is lost: {}", self._arrived
                )
        self._fatal = self._truncated = self._refused = False
        self._forget_stream()

    def _result(self, event: Json) -> None:
        given = self._tools.get(event["call"])
        if given is None or self.known.surprises:
            return
        error = bool(event.get("error"))
        self.stakes.require(error is given["error"], "K6", "the result of {} is an error: {}", event["call"], error,
                            stake=self.known.cause is not None)  # fmt: skip
        if "text" in given:
            self.stakes.require(event.get("text", given["text"]) == given["text"], "K6", "the result of {} is {}, not {}",
                    event["call"], event.get("text"), given["text"])  # fmt: skip

    def _message(self, event: Json) -> None:
        text = "".join([chunk["text"] for chunk in self._stream if "text" in chunk])
        if not self.known.surprises:
            if self.known.cause is None:
                self.stakes.require(self._answered, "Q5", "an answer is recorded before its end")
                self.stakes.require(
                    event.get("text", text) == text,
                    "Q5",
                    "the answer is {}, not {}",
                    event.get("text"),
                    text,
                    stake=True,
                )
                self._asked_for(event)
            else:
                arrived = (event.get("text") or "").startswith(self._arrived)
                self.stakes.require(arrived, "C5", "{} had arrived, and {} is kept", self._arrived, event.get("text"),
                                    stake=bool(self._arrived))  # fmt: skip
        self._forget_stream()

    def _asked_for(self, event: Json) -> None:
        """Whether an answer asks for what the model asked for; calls named alike, or not at all, get new names (K3)."""
        given: list[str] = [] if self._cut else [chunk["call"]["id"] for chunk in self._stream if "call" in chunk]
        calls = event.get("calls", given)
        same = calls == given
        if self.known.alike:
            same = len(calls) == len(given) and all(one in ("", new) or given.count(one) > 1
                                                    for one, new in zip(given, calls, strict=True))  # fmt: skip
        self.stakes.require(same, "Q5", "it asks for {}, not {}", calls, given)

    def _forget_stream(self) -> None:
        self._stream, self._arrived = [], ""
        self._answered = self._cut = self.known.alike = False

    def _notices(self, report: Json) -> None:
        stops = 0
        for notice in report["notices"]:
            name = notice["name"]
            if name == "agent/status":
                self.stakes.require(
                    notice["status"] != self.status, "L5", "status {} is told twice", notice["status"], stake=True
                )
                self.status = notice["status"]
            elif name == "agent/cancel-requested":
                stops += 1
            elif name == "agent/disposed":
                self.stakes.require(
                    self.disposing or self.known.surprises, "O4", "the agent is disposed, and nobody asked for it"
                )
                self.gone = True
        self.stakes.require(
            self.status == report["status"], "L5", "status {} is told, and it is {}", self.status, report["status"]
        )
        if self._stops >= 0 and not self.known.surprises:
            self.stakes.require(
                stops == self._stops, "C2", "cancel-requested is told {} times, not {}", stops, self._stops
            )
        self._stops = 0

    def _attend(self, gates: list[Json]) -> None:
        """The gates that wait now."""
        single = [gate["kind"] for gate in gates if gate["kind"] not in TOOLS]
        self.stakes.require(len(single) + (len(gates) > len(single)) <= 1, "L7", "two operations wait: {}", gates,
                            stake=bool(gates) and any(self.ledger.lists.values()))  # fmt: skip
        stopped = self.known.cause is not None or self.disposing
        for gate in gates:
            if gate["gate"] in self._seen:
                continue
            self._seen.add(gate["gate"])
            kind = gate["kind"]
            rule = "C9" if kind == "model" else "K6" if kind in TOOLS else "C4"
            self.stakes.require(not stopped, rule, "a {} starts after a cancel", kind)
            if kind != "maintenance":
                self.stakes.require(self.ledger.turn_open, "L7", "a {} waits, and no turn is open", kind)
            if kind == "model":
                self._request(gate)
            elif kind in TOOLS:
                call = gate["call"]
                self.stakes.require(call in self.ledger.asked, "K5", "{} runs, and nobody asks for it", call)
                self.stakes.require(call not in self._ran, "K5", "{} runs twice", call)
                self._ran.add(call)
        self.gates = gates

    def _request(self, gate: Json) -> None:
        """A model request holds what the log says, and nothing else (Q1, N1)."""
        self.stakes.require(self.ledger.step_open, "T10", "a request is made outside a step")
        self._forget_stream()
        asked = [entry for message in gate["messages"] for entry in flat(message)]
        wanted = derived(self.ledger.history, self.texts)
        rule = "N5" if self._reloaded else "Q1"
        self._reloaded = False
        self.stakes.require(
            asked == wanted, rule, "the request is {}, and the log says {}", asked, wanted, stake=len(wanted) > 1
        )
        self.stakes.met("N1", any(entry[0] == "result" for entry in wanted))

    def _rests(self, report: Json) -> None:
        """What must hold when nothing can go on without the tester."""
        known, ledger = self.known, self.ledger
        stubborn = any(gate["kind"] == "stubborn-tool" for gate in self.gates)
        self.maintaining = any(gate["kind"] == "maintenance" for gate in self.gates)
        for answer in self._tools.values():
            answer["settled"] = True
        self._arrived = "".join([chunk["text"] for chunk in self._stream if "text" in chunk])
        if ledger.turn_open:
            self.stakes.require(self.gates, "N7", "the agent runs, and nothing waits: it is stuck")
            self.stakes.require(known.cause is None or stubborn, "C4", "a cancelled turn does not end")
        elif not self.maintaining and not self.reserved and not self.disposing and not known.surprises:
            self.stakes.require(not known.wake, "D4", "a wake is lost: {} is pending, and no turn starts", ledger.lists)
        if self.disposing and not stubborn:
            self.stakes.require(self.gone, "O4", "a disposed agent does not come to its end", stake=True)
            self.stakes.met("N7")
        elif not ledger.turn_open:
            self.stakes.met("D8", self.reserved and known.wake)
            self.stakes.met("D7", any(ledger.lists.values()) and not known.wake)
        if "state" in self.features and not self.gates:
            self.stakes.require(report["state"] in ("idle", "disposed"), "N7", "the agent rests in {}", report["state"])
