"""What a tester asked of a driver and answered at its gates, and what must hold of the replies (contract §3–§8).

The monitor knows what the tester did and what the rig told, and nothing else. It predicts little and checks much: what
the contract leaves open, it leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .ledger import NEXT_STEP, NEXT_TURN, Intent, Json, Known, Ledger, items

TOOLS = ("tool", "stubborn-tool")
CANCEL_WINS = frozenset({"pre-step", "turn-stopping", "request-error"})
"""Kinds of gates at which a cancel in one breath with the answer wins (C8)."""


class Requests:
    """The requests made of one agent, and what they let one expect of it.

    Args:
        features: words of the rig's ``hello``.
    """

    def __init__(self, features: Iterable[str] = ()) -> None:
        self.features = frozenset(features)
        self.known = Known()
        self.ledger = Ledger(self.known)
        self.stakes = self.ledger.stakes
        self.texts: dict[str, str] = {}
        self.gates: list[Json] = []
        self.current = True
        self.disposing = self.gone = self.reserved = self.maintaining = False
        self.status = "idle"
        self._seen: set[str] = set()
        self._ran: set[str] = set()
        self._vanish: set[str] = set()
        self._passed: set[str] = set()
        self._accepted: set[str] = set()
        self._stops = 0
        self._fatal = self._truncated = self._refused = False
        self._tools: dict[str, Json] = {}
        self._before: dict[str, str] = {}
        self._stream: list[Json] = []
        self._arrived = ""
        self._answered = self._cut = False
        self._attends: frozenset[str] = frozenset()
        self.resuming = self._reloaded = False

    # --- requests -----------------------------------------------------------------------------------------------------

    def asked(self, request: Json, reply: Json) -> None:
        """Take a request and its reply.

        Raises:
            Violation: the reply breaks a rule.
        """
        error: Json = reply.get("error", {})
        code = error.get("code")
        self.stakes.require(code != "internal", "L8", "{} broke the driver: {}", request["do"], error.get("message"))
        if code == "unsupported":
            return
        taker = _REQUESTS.get(request["do"])
        if taker is not None:
            taker(self, request, reply, code)
        self.current = self.current and request["do"] in ("hello", "open", "listen", "pass", "settle")

    def expects(self, message: Json, *, wakes: bool = False, heir: str | None = None, latches: bool = False) -> None:
        """A message is on its way into the log."""
        self._vanish.discard(message["id"])
        self.texts[message["id"]] = message["text"]
        self.known.intents[message["id"]] = Intent(wakes, heir, latches)

    def _open(self, request: Json, reply: Json, code: str | None) -> None:
        self.stakes.require(reply.get("ok"), "O1", "the agent cannot be opened: {}", code, stake=True)
        self._attends = frozenset(items(request, "gates"))

    def _deliver(self, request: Json, reply: Json, code: str | None) -> None:
        message, accepted = request["message"], bool(reply.get("ok"))
        if self.disposing:
            self.stakes.require(not accepted, "L9", "{} is accepted by a disposed agent", message["id"], stake=True)
        elif self.current and message["id"] not in self.known.added and not self.known.surprises:
            taken = self.ledger.taken(message["id"])
            self.stakes.require(accepted is not taken, "I1", "{} is taken: {}; accepted: {}", message["id"], taken, accepted,
                                stake=taken)  # fmt: skip
            self.stakes.require(
                accepted or code == "duplicate-message", "I1", "{} is refused as {}", message["id"], code
            )
        if not accepted:
            return
        self.expects(message, wakes=request["wakeup"], latches=request["wakeup"])
        self._accepted.add(message["id"])
        busy = self.ledger.turn_open and self.known.cause is None
        self.stakes.met("D4", request["wakeup"] and self.ledger.turn_open and not busy)

    def _inbox(self, request: Json, reply: Json, code: str | None) -> None:
        op, ok = request["op"], bool(reply.get("ok"))
        if self.disposing:
            self.stakes.require(not ok, "L9", "an inbox operation is accepted by a disposed agent", stake=True)
            return
        named = request.get("message_id")
        if self.current and named is not None and ok:
            pending = named in self.ledger.lists[NEXT_TURN] or named in self.ledger.lists[NEXT_STEP]
            self.stakes.require(
                reply.get("pending", pending) is pending, "I2", "{} pending: {}", named, not pending, stake=True
            )
        if not ok:
            self.stakes.require(code == "duplicate-message", "I1", "an inbox operation is refused as {}", code)
            return
        if op != "append" and op != "prepend":
            self.known.may_drop = True
        for message in [*request.get("inserted", []), *([request["message"]] if "message" in request else [])]:
            self.expects(message, heir=named)

    def _update(self, request: Json, reply: Json, code: str | None) -> None:
        if self.disposing:
            self.stakes.require(reply.get("outcome") != "applied", "L9", "an update is accepted by a disposed agent")
            return
        outcome, named = reply.get("outcome"), request["message_id"]
        if self.current:
            queued = named in self.ledger.lists[NEXT_TURN]
            self.stakes.require(queued or outcome == "not-found", "I9", "{} is not queued, and the update is {}", named, outcome,
                                stake=True)  # fmt: skip
            if queued and request["action"] == "steer":
                live = self.ledger.turn_open and self.known.cause is None
                wanted = "applied" if live else "steer-unavailable"
                self.stakes.require(outcome == wanted, "I9", "steering {} is {}, not {}: {}", named, outcome, wanted, code,
                                    stake=True)  # fmt: skip
        if outcome == "applied":
            if request["action"] == "edit":
                self.texts[named] = request["text"]
            self.known.may_drop = self.known.may_drop or request["action"] == "remove"

    def _cancel(self, request: Json, reply: Json, code: str | None) -> None:
        idle = not self.ledger.turn_open and not self.disposing
        self.stakes.require(reply.get("ok"), "C1", "a cancel is refused: {}", code, stake=idle)
        self.known.cancels += 1
        if not self.disposing:
            self._stop(request.get("cause", "user"), keep=request.get("keep_inbox", False))

    def _dispose(self, request: Json, reply: Json, code: str | None) -> None:
        self.stakes.require(reply.get("ok"), "O4", "a dispose is refused: {}", code, stake=True)
        if not self.disposing:
            self._stop("disposed", keep=request.get("keep_inbox", False))
            self.disposing, self.reserved = True, False
            self.known.held = False

    def _stop(self, cause: str, *, keep: bool) -> None:
        if not keep or cause == "disposed":
            self.known.wake = False
        if not keep:
            self.known.may_drop = True
            if self.current:
                self._vanish.update(self.ledger.lists[NEXT_TURN], self.ledger.lists[NEXT_STEP])
        self.known.again = self.known.again or (self.ledger.turn_open and self.known.cause is not None)
        if self.ledger.turn_open and self.known.cause is None:
            self._endangered()
            self.known.cause, self.known.keep = cause, keep
            self._stops += 1
            self.texts |= self._before
            self._tools = {call: answer for call, answer in self._tools.items() if answer.get("settled")}
        elif self.maintaining and not self.disposing and not self.ledger.turn_open:
            self.known.surprises = self.known.surprises or "state" not in self.features
            self._stops = -1

    def _endangered(self) -> None:
        """What a driver could do wrong now that its turn is cancelled."""
        asking = any(gate["kind"] == "model" for gate in self.gates)
        self.stakes.met("C9", not asking)
        self.stakes.met("K6", len(self.ledger.asked) > 1 and not self._ran.issuperset(self.ledger.asked))
        self.known.raced = self.known.raced or bool(self._passed & CANCEL_WINS)

    def _reserve(self, request: Json, reply: Json, code: str | None) -> None:
        del request, code
        given = bool(reply.get("reserved"))
        if self.current and (self.ledger.turn_open or self.reserved or self.disposing):
            self.stakes.require(not given, "D8", "admission is reserved while it cannot be", stake=True)
        self.reserved = self.reserved or given
        self.known.held = self.reserved

    def _release(self, request: Json, reply: Json, code: str | None) -> None:
        del request, reply, code
        self.reserved = self.known.held = False

    def _maintain(self, request: Json, reply: Json, code: str | None) -> None:
        del request, code
        given = bool(reply.get("ok"))
        if self.current and (self.ledger.turn_open or self.reserved or self.disposing):
            self.stakes.require(not given, "M1", "maintenance starts while the agent is not idle", stake=True)
        self.maintaining = self.maintaining or given

    def _listen(self, request: Json, reply: Json, code: str | None) -> None:
        del code
        act = request["request"]
        if not reply.get("ok"):
            return
        if act["do"] == "deliver":
            self.expects(act["message"], wakes=act["wakeup"], latches=act["wakeup"])
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
            self.stakes.require(
                reply.get("ok"), "C3", "a gate that waits, {}, cannot be passed: {}", gate["kind"], code
            )
        if not reply.get("ok"):
            return
        self.gates = [known for known in self.gates if known is not gate]
        self._passed.add(gate["kind"])
        self.known.unprepared = self.known.unprepared or (gate["kind"] == "request" and "raise" in request)
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
                self._stream += items(request, "chunks")
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
                name: str = message["id"]
                self._before[name] = self.texts[name] if name in self.texts else str(message["text"])
                self.texts[message["id"]] = message["text"]

    def _settled_tool(self, gate: Json, request: Json) -> None:
        self._tools[gate["call"]] = {"text": request.get("text", ""), "error": request.get("error", False)}
        if "raise" in request:
            self._tools[gate["call"]] = {"error": True}
        elif request.get("concludes") and not request.get("error"):
            self.known.concluding.add(gate["call"])
        for message in items(request, "contexts"):
            self.expects(message, wakes=True)

    def _played(self, end: Any) -> None:
        self._answered = end is not None and isinstance(end, str)
        self._cut = end == "max-tokens"
        asked = [chunk["call"]["id"] for chunk in self._stream if "call" in chunk]
        self.known.alike = "" in asked or len(set(asked)) < len(asked)
        self._truncated = self._truncated or self._cut
        if isinstance(end, dict) and "request-error" not in self._attends:
            self._fatal = True


_Taker = Callable[[Requests, Json, Json, "str | None"], None]
_REQUESTS: dict[str, _Taker] = {
    "open": Requests._open,  # pyright: ignore[reportPrivateUsage]  # the table of the class's own methods
    "deliver": Requests._deliver,  # pyright: ignore[reportPrivateUsage]
    "inbox": Requests._inbox,  # pyright: ignore[reportPrivateUsage]
    "update": Requests._update,  # pyright: ignore[reportPrivateUsage]
    "cancel": Requests._cancel,  # pyright: ignore[reportPrivateUsage]
    "dispose": Requests._dispose,  # pyright: ignore[reportPrivateUsage]
    "reserve": Requests._reserve,  # pyright: ignore[reportPrivateUsage]
    "release": Requests._release,  # pyright: ignore[reportPrivateUsage]
    "maintain": Requests._maintain,  # pyright: ignore[reportPrivateUsage]
    "listen": Requests._listen,  # pyright: ignore[reportPrivateUsage]
    "pass": Requests._pass,  # pyright: ignore[reportPrivateUsage]
}
