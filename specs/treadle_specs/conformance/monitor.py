"""What must hold of a driver's answers: to requests, in reports, at gates (contract §2–§11).

The monitor knows what the tester did and what the rig told, and nothing else. It predicts little and checks much: what
the contract leaves open, it leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..exploration.violation import require
from .ledger import DONE, NEXT_STEP, NEXT_TURN, Intent, Json, Known, Ledger

TOOLS = ("tool", "stubborn-tool")


class Monitor:
    """Watches one agent.

    Args:
        features: words of the rig's ``hello``.
    """

    def __init__(self, features: Iterable[str] = ()) -> None:
        self.features = frozenset(features)
        self.known = Known()
        self.ledger = Ledger(self.known)
        self.texts: dict[str, str] = {}
        self.gates: list[Json] = []
        self.current = True
        self.disposing = self.gone = self.reserved = self.maintaining = False
        self.status = "idle"
        self._seen: set[str] = set()
        self._ran: set[str] = set()
        self._vanish: set[str] = set()
        self._stops = 0
        self._fatal = self._truncated = self._refused = False
        self._tools: dict[str, Json] = {}
        self._stream: list[Json] = []
        self._arrived = ""
        self._answered = self._cut = False
        self._attends: frozenset[str] = frozenset()

    # --- requests -----------------------------------------------------------------------------------------------------

    def asked(self, request: Json, reply: Json) -> None:
        """Take a request and its reply.

        Raises:
            Violation: the reply breaks a rule.
        """
        error: Json = reply.get("error") or {}
        code = error.get("code")
        require(code != "internal", "L8", "{} broke the driver: {}", request["do"], error.get("message"))
        if code == "unsupported":
            return
        taker = _REQUESTS.get(request["do"])
        if taker is not None:
            taker(self, request, reply, code)
        self.current = self.current and request["do"] in ("hello", "open", "listen", "pass", "settle")

    def expects(self, message: Json, *, wakes: bool = False, heir: str | None = None, loose: bool = False) -> None:
        """A message is on its way into the log."""
        self._vanish.discard(message["id"])
        self.texts[message["id"]] = message["text"]
        self.known.intents[message["id"]] = Intent(wakes, heir, loose)

    def _open(self, request: Json, reply: Json, code: str | None) -> None:
        require(reply.get("ok"), "O1", "the agent cannot be opened: {}", code)
        self._attends = frozenset(request.get("gates") or ())

    def _deliver(self, request: Json, reply: Json, code: str | None) -> None:
        message, accepted = request["message"], bool(reply.get("ok"))
        if self.disposing:
            require(not accepted, "L9", "{} is accepted by a disposed agent", message["id"])
        elif self.current and message["id"] not in self.known.added and not self.known.surprises:
            taken = self.ledger.taken(message["id"])
            require(accepted is not taken, "I1", "{} is taken: {}; accepted: {}", message["id"], taken, accepted)
            require(accepted or code == "duplicate-message", "I1", "{} is refused as {}", message["id"], code)
        if not accepted:
            return
        self.expects(message, wakes=request["wakeup"])
        busy = self.ledger.turn_open and self.known.cause is None
        if request["wakeup"] and not (busy and self.current):
            self.known.wake = True

    def _inbox(self, request: Json, reply: Json, code: str | None) -> None:
        op, ok = request["op"], bool(reply.get("ok"))
        if self.disposing:
            require(not ok, "L9", "an inbox operation is accepted by a disposed agent")
            return
        named = request.get("message_id")
        if self.current and named is not None and ok:
            pending = named in self.ledger.lists[NEXT_TURN] or named in self.ledger.lists[NEXT_STEP]
            require(reply.get("pending", pending) is pending, "I2", "{} pending: {}", named, not pending)
        if not ok:
            require(code == "duplicate-message", "I1", "an inbox operation is refused as {}", code)
            return
        if op != "append" and op != "prepend":
            self.known.may_drop = True
        for message in [*request.get("inserted", []), *([request["message"]] if "message" in request else [])]:
            self.expects(message, heir=named)

    def _update(self, request: Json, reply: Json, code: str | None) -> None:
        if self.disposing:
            require(reply.get("outcome") != "applied", "L9", "an update is accepted by a disposed agent")
            return
        outcome, named = reply.get("outcome"), request["message_id"]
        if self.current:
            queued = named in self.ledger.lists[NEXT_TURN]
            require(queued or outcome == "not-found", "I9", "{} is not queued, and the update is {}", named, outcome)
            if queued and request["action"] == "steer":
                live = self.ledger.turn_open and self.known.cause is None
                wanted = "applied" if live else "steer-unavailable"
                require(outcome == wanted, "I9", "steering {} is {}, not {}: {}", named, outcome, wanted, code)
        if outcome == "applied":
            if request["action"] == "edit":
                self.texts[named] = request["text"]
            self.known.may_drop = self.known.may_drop or request["action"] == "remove"

    def _cancel(self, request: Json, reply: Json, code: str | None) -> None:
        require(reply.get("ok"), "C1", "a cancel is refused: {}", code)
        if not self.disposing:
            self._stop(request.get("cause", "user"), keep=request.get("keep_inbox", False))

    def _dispose(self, request: Json, reply: Json, code: str | None) -> None:
        require(reply.get("ok"), "O4", "a dispose is refused: {}", code)
        if not self.disposing:
            self._stop("disposed", keep=request.get("keep_inbox", False))
            self.disposing, self.reserved = True, False

    def _stop(self, cause: str, *, keep: bool) -> None:
        if not keep or cause == "disposed":
            self.known.wake = False
        if not keep:
            self.known.may_drop = True
            if self.current:
                self._vanish.update(self.ledger.lists[NEXT_TURN], self.ledger.lists[NEXT_STEP])
        if self.ledger.turn_open and self.known.cause is None:
            self.known.cause, self.known.keep = cause, keep
            self._stops += 1
            self._tools = {call: answer for call, answer in self._tools.items() if answer.get("settled")}
        elif self.maintaining and not self.disposing and not self.ledger.turn_open:
            self.known.surprises = self.known.surprises or "state" not in self.features
            self._stops = -1

    def _reserve(self, request: Json, reply: Json, code: str | None) -> None:
        del request, code
        given = bool(reply.get("reserved"))
        if self.current and (self.ledger.turn_open or self.reserved or self.disposing):
            require(not given, "D8", "admission is reserved while it cannot be")
        self.reserved = self.reserved or given

    def _release(self, request: Json, reply: Json, code: str | None) -> None:
        del request, reply, code
        self.reserved = False

    def _maintain(self, request: Json, reply: Json, code: str | None) -> None:
        del request, code
        given = bool(reply.get("ok"))
        if self.current and (self.ledger.turn_open or self.reserved or self.disposing):
            require(not given, "M1", "maintenance starts while the agent is not idle")
        self.maintaining = self.maintaining or given

    def _listen(self, request: Json, reply: Json, code: str | None) -> None:
        del code
        act = request["request"]
        if not reply.get("ok"):
            return
        if act["do"] == "deliver":
            self.expects(act["message"], wakes=act["wakeup"], loose=True)
        for message in [
            *act.get("inserted", []),
            *([act["message"]] if act["do"] == "inbox" and "message" in act else []),
        ]:
            self.expects(message)
        if act["do"] != "raise":
            self.known.surprises = True

    # --- gates --------------------------------------------------------------------------------------------------------

    def _pass(self, request: Json, reply: Json, code: str | None) -> None:
        gate = next((known for known in self.gates if known["gate"] == request["gate"]), None)
        if gate is None:
            return
        if self.current and self.known.cause is None and not self.disposing and not self.known.surprises:
            require(reply.get("ok"), "C3", "a gate that waits, {}, cannot be passed: {}", gate["kind"], code)
        if not reply.get("ok"):
            return
        if "raise" in request and gate["kind"] not in (*TOOLS, "maintenance"):
            self._fatal = True
        match gate["kind"]:
            case "pre-step":
                self._admitted(gate, request.get("decide", "default"))
            case "prompt-submit":
                self._refused = self._refused or request.get("decide") == "block"
            case "turn-stopping" if request.get("steer"):
                self.expects(request["steer"], wakes=True)
            case "tool" | "stubborn-tool":
                self._settled_tool(gate, request)
            case "model":
                self._stream += request.get("chunks") or []
                self._played(request.get("end"))
            case "request-error" if request.get("action") != "retry":
                self._fatal = True
            case _:
                pass

    def _admitted(self, gate: Json, decide: Any) -> None:
        if decide == "reject":
            self._refused = True
        elif decide != "default":
            messages = decide["enter"]
            ids = [message["id"] for message in messages]
            self.known.left_out.update([one for one in gate["batch"] if one not in ids])
            self.known.added.update([one for one in ids if one not in gate["batch"]])
            self.known.rewrote = True
            for message in messages:
                self.texts[message["id"]] = message["text"]

    def _settled_tool(self, gate: Json, request: Json) -> None:
        self._tools[gate["call"]] = {"text": request.get("text", ""), "error": request.get("error", False)}
        if "raise" in request:
            self._tools[gate["call"]] = {"error": True}
        elif request.get("concludes") and not request.get("error"):
            self.known.concluding.add(gate["call"])
        for message in request.get("contexts") or []:
            self.expects(message, wakes=True)

    def _played(self, end: Any) -> None:
        self._answered = end is not None and isinstance(end, str)
        self._cut = end == "max-tokens"
        self._truncated = self._truncated or self._cut
        if isinstance(end, dict) and "request-error" not in self._attends:
            self._fatal = True

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
            case "turn/end":
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
        wanted: list[tuple[str, ...]] = []
        for entry in self.ledger.history:
            if "message" in entry:
                wanted.append(("user", self.texts.get(entry["message"], "")))
            elif entry["role"] == "assistant":
                wanted.append(("assistant", entry["text"], *entry["calls"]))
            else:
                wanted += [("result", call) for call in entry["results"]]
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


def flat(message: Json) -> list[tuple[str, ...]]:
    """A message of a request, results apart; system prompts are left out."""
    if message["role"] == "system":
        return []
    results = message.get("results") or []
    if results:
        return [("result", call) for call in results]
    if message["role"] == "assistant":
        return [("assistant", message.get("text") or "", *(message.get("calls") or []))]
    return [("user", message.get("text") or "")]


_Taker = Callable[[Monitor, Json, Json, "str | None"], None]
_REQUESTS: dict[str, _Taker] = {
    "open": Monitor._open,  # pyright: ignore[reportPrivateUsage]  # the table of the class's own methods
    "deliver": Monitor._deliver,  # pyright: ignore[reportPrivateUsage]
    "inbox": Monitor._inbox,  # pyright: ignore[reportPrivateUsage]
    "update": Monitor._update,  # pyright: ignore[reportPrivateUsage]
    "cancel": Monitor._cancel,  # pyright: ignore[reportPrivateUsage]
    "dispose": Monitor._dispose,  # pyright: ignore[reportPrivateUsage]
    "reserve": Monitor._reserve,  # pyright: ignore[reportPrivateUsage]
    "release": Monitor._release,  # pyright: ignore[reportPrivateUsage]
    "maintain": Monitor._maintain,  # pyright: ignore[reportPrivateUsage]
    "listen": Monitor._listen,  # pyright: ignore[reportPrivateUsage]
    "pass": Monitor._pass,  # pyright: ignore[reportPrivateUsage]
}
