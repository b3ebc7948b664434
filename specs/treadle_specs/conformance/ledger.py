"""What must hold of a log, event by event, as the rig protocol tells it (contract §3, §5, §15).

The ledger keeps the fold of the inbox, the open turn and step, and where every message is. It believes nothing but the
events; what a tester knows besides (which delivery wakes, which answer left a message out) it is told beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from .stakes import Stakes

Json = dict[str, Any]
NEXT_TURN, NEXT_STEP = "next-turn", "next-step"
DONE = ("completed", "max-tokens")


def items(record: Json, key: str) -> list[Any]:
    """The list under a key; empty when it is absent or null."""
    found: list[Any] | None = record.get(key)
    return list(found) if found else []


@define
class Intent:
    """What the tester knows of a message before it is in the log.

    Attributes:
        wakes: it comes by a delivery that may start the driver; in next-step it presses.
        heir: it takes the place of this message, and presses if that one did.
        latches: it is delivered from outside: while no turn runs uncancelled, its wake is kept (D4).
    """

    wakes: bool = False
    heir: str | None = None
    latches: bool = False


@define
class Known:
    """What the tester did that a log does not say, and that explains what is in it.

    Attributes:
        intents: by message id.
        left_out: claimed ids that a pre-step answer left out (T2).
        added: ids that a pre-step answer brought in (T2).
        concluding: calls whose result ends the turn (T5).
        may_drop: a call that may drop pending messages was made since the last report.
        surprises: a listener may cancel, dispose or drop at any time.
        cause: why the open turn is being cancelled (C2).
        keep: that cancel keeps the claimed batch (C6).
        rewrote: a pre-step answer of this turn changed its batch.
        resumed: the log is that of an earlier process: what it knew is not known here.
        wake: a wake was accepted that has not opened its turn yet (L2, D4).
        again: the open turn was cancelled more than once (C2).
        raced: it was cancelled in one breath with the answer of a hook (C8).
        cancels: how many cancels were made.
        alike: an answer asked for calls that are named alike, or not at all (K3).
        unprepared: preparing the open step's request failed (T12).
        held: admission is reserved (D8).
    """

    intents: dict[str, Intent] = field(factory=dict[str, Intent])
    left_out: set[str] = field(factory=set[str])
    added: set[str] = field(factory=set[str])
    concluding: set[str] = field(factory=set[str])
    may_drop: bool = False
    surprises: bool = False
    cause: str | None = None
    keep: bool = False
    rewrote: bool = False
    resumed: bool = False
    wake: bool = False
    again: bool = False
    raced: bool = False
    cancels: int = 0
    alike: bool = False
    unprepared: bool = False
    held: bool = False


@define
class Ledger:
    """The state of one session, as its log tells it."""

    known: Known = field(factory=Known)
    stakes: Stakes = field(factory=Stakes)
    seq: int = 0
    turn: int = 0
    step: int = 0
    turn_open: bool = False
    step_open: bool = False
    must_open: bool = False
    lists: dict[str, list[str]] = field(factory=lambda: {NEXT_TURN: [], NEXT_STEP: []})
    pressing: set[str] = field(factory=set[str])
    entered: set[str] = field(factory=set[str])
    claimed: list[str] = field(factory=list[str])
    prompted: bool = False
    pressed: bool = False
    owes: bool = False
    asked: list[str] = field(factory=list[str])
    called: set[str] = field(factory=set[str])
    recorded: dict[str, str] = field(factory=dict[str, str])
    history: list[Json] = field(factory=list[Json])
    results: dict[str, Json] = field(factory=dict[str, Json])
    ends: list[Json] = field(factory=list[Json])
    moving: tuple[str, bool] | None = None

    def take(self, event: Json) -> None:
        """Take the next event.

        Raises:
            Violation: it breaks a rule.
        """
        kind = event["type"]
        if "seq" in event:
            self.stakes.require(
                event["seq"] == self.seq, "N6", "event {} where {} is due", event["seq"], self.seq, stake=True
            )
        self.seq += 1
        if self.must_open:
            self.stakes.require(
                kind == "turn/start", "D6", "{} follows the end of a turn while a prompt is queued", kind, stake=True
            )
            self.must_open = False
        if self.moving is not None and not (
            kind == "agent/inbox/spliced" and event.get("inserted") == [self.moving[0]]
        ):
            self.stakes.require(self.moving[1], "I5", "{} is taken out of next-turn, and goes nowhere", self.moving[0])
            self.moving = None
        taker = _TAKERS.get(kind)
        if taker is not None:
            taker(self, event)

    @property
    def usable(self) -> bool:
        """Whether a latched wake would find work (D5)."""
        return bool(self.lists[NEXT_TURN] or self.pressing.intersection(self.lists[NEXT_STEP]))

    def taken(self, message_id: str) -> bool:
        """Whether an id is pending, claimed by the open turn, or recorded (I1)."""
        pending = message_id in self.lists[NEXT_TURN] or message_id in self.lists[NEXT_STEP]
        return pending or message_id in self.claimed or message_id in self.recorded

    # --- turns and steps ----------------------------------------------------------------------------------------------

    def _turn_start(self, event: Json) -> None:
        later = self.turn > 0
        require = self.stakes.require
        require(not self.turn_open, "T10", "turn {} starts inside turn {}", event["turn"], self.turn, stake=later)
        require(event["turn"] == self.turn + 1, "L4", "turn {} after turn {}", event["turn"], self.turn, stake=later)
        self.stakes.met("L8", any(end["reason"] == "error" for end in self.ends))
        if not self.known.surprises:
            require(not self.known.held, "D8", "turn {} starts while admission is reserved", event["turn"])
        chained = bool(self.ends) and self.ends[-1]["at"] == self.seq - 1 and self.ends[-1]["reason"] in DONE
        if not self.known.surprises and not self.known.resumed and not (chained and self.lists[NEXT_TURN]):
            require(self.known.wake, "D7", "turn {} starts without a wake", event["turn"])
            self.known.wake = False
        self.turn, self.step, self.turn_open = event["turn"], 0, True
        self.prompted = self.pressed = self.owes = False
        self.claimed.clear()
        self.known.rewrote = False

    def _turn_end(self, event: Json) -> None:
        turn, reason = event["turn"], event["reason"]
        require = self.stakes.require
        require(self.turn_open, "N3", "turn {} ends, and none is open", turn, stake=True)
        require(turn == self.turn, "N3", "turn {} ends inside turn {}", turn, self.turn)
        require(not self.step_open, "T10", "turn {} ends inside its step {}", turn, self.step)
        cause = self.known.cause
        self.stakes.met("N4")
        if cause is not None:
            self.stakes.met("C4")
            self.stakes.met("N7")
            raced = self.known.raced
            require(reason == "aborted", "C8", "turn {} ends {} after a cancel", turn, reason, stake=raced)
            told = event.get("cause")
            first = told in (cause, None) or self.known.surprises
            again = self.known.again
            require(first, "C2", "turn {} is aborted by {}, and was cancelled by {}", turn, told, cause, stake=again)
        elif not self.known.surprises and not self.known.resumed:
            spared = self.known.cancels > 0
            require(reason != "aborted", "C11", "turn {} is aborted, and nobody cancelled", turn, stake=spared)
        self._fates(reason)
        if reason in DONE:
            due = self.pressing.intersection(self.lists[NEXT_STEP])
            self.stakes.met("D7", bool(self.lists[NEXT_STEP]))
            require(not due, "D6", "turn {} ends {}, and {} presses", turn, reason, sorted(due))
            require(not self.owes, "T3", "turn {} ends {} while results are owed to the model", turn, reason)
            self.must_open = bool(self.lists[NEXT_TURN]) and not self.known.surprises
        self.ends.append({**event, "at": self.seq})
        self.turn_open, self.step = False, 0
        self.known.cause, self.known.keep = None, False
        self.known.again = self.known.raced = self.known.unprepared = False
        self.known.left_out.clear()
        self.claimed.clear()

    def _fates(self, reason: str) -> None:
        """Whether everything that the turn claimed met its fate (I5, N2)."""
        lost = [one for one in self.claimed if one not in self.recorded and one not in self.known.left_out]
        if reason in DONE or (reason == "aborted" and self.known.keep and not self.known.surprises):
            rule = "C6" if reason == "aborted" else "N2"
            self.stakes.require(not lost, rule, "turn {} ends {}, and {} is lost", self.turn, reason, lost,
                                stake=bool(self.claimed))  # fmt: skip

    def _step_start(self, event: Json) -> None:
        self._in_turn(event)
        self.stakes.require(not self.step_open, "T10", "step {} starts inside step {}", event["step"], self.step)
        self.stakes.require(event["step"] == self.step + 1, "L4", "step {} after step {}", event["step"], self.step,
                            stake=self.step > 0)  # fmt: skip
        cancelled = self.known.cause is not None
        self.stakes.require(not cancelled, "C4", "step {} starts after a cancel", event["step"])
        self.stakes.met("T3", self.owes)
        if self.step:
            self.stakes.require(
                self.owes or self.pressed, "D7", "step {} starts, and nothing asked for it", event["step"]
            )
        self.step, self.step_open = event["step"], True
        self.owes = self.pressed = False

    def _step_end(self, event: Json) -> None:
        self._in_step(event)
        self.stakes.require(event["step"] == self.step, "T10", "step {} ends inside step {}", event["step"], self.step,
                            stake=True)  # fmt: skip
        self.stakes.require(not self.asked, "N1", "step {} ends, and {} have no result", self.step, self.asked,
                            stake=bool(self.called))  # fmt: skip
        if self.known.cause is None and not self.known.surprises and not self.known.resumed:
            lost = [one for one in self.claimed if one not in self.recorded and one not in self.known.left_out]
            self.stakes.require(not lost, "T12", "step {} ends, and {} is not recorded", self.step, lost,
                                stake=self.known.unprepared)  # fmt: skip
        self.step_open = False

    def _in_turn(self, event: Json) -> None:
        self.stakes.require(self.turn_open, "N4", "{} outside a turn", event["type"])
        if "turn" in event:
            self.stakes.require(
                event["turn"] == self.turn, "N4", "{} of turn {} in turn {}", event["type"], event["turn"], self.turn
            )

    def _in_step(self, event: Json) -> None:
        self._in_turn(event)
        self.stakes.require(self.step_open, "T10", "{} outside a step", event["type"])

    # --- what enters the history --------------------------------------------------------------------------------------

    def _user_message(self, event: Json) -> None:
        self._in_turn(event)
        message = event["message"]
        self.stakes.require(not self.asked, "N1", "{} comes between calls and results {}", message, self.asked)
        self.stakes.require(message not in self.recorded, "N2", "{} enters the history twice", message, stake=True)
        before = [one for one in self.claimed if one not in self.recorded and one not in self.known.left_out]
        if message in self.claimed:
            if not self.known.rewrote:
                self.stakes.require(before[:1] == [message], "I5", "{} enters before {}", message, before[:1],
                                    stake=len(before) > 1)  # fmt: skip
        else:
            ours = message in self.known.intents and message not in self.known.added
            self.stakes.require(not ours, "I5", "{} enters the history, and was not claimed", message)
        self.recorded[message] = f"{self.turn}.{self.step}"
        self.history.append({"role": "user", "message": message})

    def _answer(self, event: Json) -> None:
        self._in_step(event)
        calls = items(event, "calls")
        self.stakes.require(not self.asked, "N1", "an answer comes while {} have no result", self.asked)
        self.stakes.require(len(set(calls)) == len(calls), "K3", "two calls of one answer are named alike: {}", calls,
                            stake=self.known.alike)  # fmt: skip
        self.asked, self.called = list(calls), set()
        self.owes = bool(calls)
        if event.get("text") or event.get("reasoning") or calls:
            self.history.append({"role": "assistant", "text": event.get("text") or "", "calls": calls})

    def _tool_call(self, event: Json) -> None:
        self._in_step(event)
        call = event["call"]
        self.stakes.require(call in self.asked, "N1", "{} is called, and nobody asks for it", call)
        self.stakes.require(call not in self.called, "K5", "{} is called twice", call)
        self.called.add(call)

    def _tool_result(self, event: Json) -> None:
        self._in_step(event)
        call = event["call"]
        self.stakes.require(self.asked[:1] == [call], "K5", "a result of {}, and {} are due", call, self.asked,
                            stake=len(self.asked) > 1)  # fmt: skip
        self.asked.pop(0)
        if call in self.known.concluding and not event.get("error"):
            self.owes = False
        self.results[call] = event
        self.history.append({"role": "user", "results": [call]})

    # --- the inbox ----------------------------------------------------------------------------------------------------

    def _spliced(self, event: Json) -> None:
        pending = self.lists[event["target"]]
        start, count = event["start"], event.get("removed") or 0
        inserted: list[str] = items(event, "inserted")
        fits = 0 <= start <= len(pending) and 0 <= count <= len(pending) - start
        self.stakes.require(fits, "I6", "a splice at {} removing {} does not fit {}", start, count, pending,
                            stake=bool(pending))  # fmt: skip
        self.stakes.require(count or inserted, "I2", "a splice that changes nothing is recorded")
        removed = pending[start : start + count]
        if self.moving is not None:
            moved, claimed = self.moving
            if claimed:
                self.claimed.remove(moved)
                self.prompted = False
            self.pressing.add(moved)
            self.moving = None
        for one in inserted:
            elsewhere = self.taken(one) and one not in removed
            self.stakes.require(not elsewhere, "I1", "{} is inserted, and is there already", one)
        pending[start : start + count] = inserted
        self.entered.update(inserted)
        gone = [one for one in removed if one not in inserted]
        if event.get("outcome") is not None:
            explained = self.known.may_drop or self.known.surprises or self.known.resumed
            self.stakes.require(explained, "I5", "{} are discarded, and nobody asked for that", gone)
            self._inherit(event["target"], inserted, removed)
            self.pressing.difference_update(gone)
        elif gone:
            self._claim(event["target"], start, gone, pending)
        else:
            self._inherit(event["target"], inserted, removed)
        self.known.wake = self.known.wake and self.usable

    def _inherit(self, target: str, inserted: list[str], removed: list[str]) -> None:
        for one in inserted:
            intent = self.known.intents.get(one, Intent())
            busy = self.turn_open and self.known.cause is None
            self.known.wake = self.known.wake or (intent.latches and not busy and one not in removed)
            inherits = intent.heir in removed and intent.heir in self.pressing
            if target == NEXT_STEP and (inherits or (intent.wakes and one not in removed)):
                self.pressing.add(one)

    def _claim(self, target: str, start: int, gone: list[str], left: list[str]) -> None:
        """A claim, or the first half of a move to next-step (I9)."""
        if target == NEXT_TURN and len(gone) == 1:
            claims = start == 0 and self.turn_open and not (self.step or self.prompted or self.known.cause)
            self.moving = gone[0], claims
            if not claims:
                return
        self.stakes.require(self.turn_open, "I5", "{} are claimed outside a turn", gone)
        self.stakes.require(not self.step_open, "I5", "{} are claimed inside a step", gone)
        cancelled = self.known.cause is not None
        self.stakes.require(not cancelled, "C4", "{} are claimed after a cancel", gone)
        self.stakes.require(start == 0, "I5", "{} are claimed from the middle", gone)
        if target == NEXT_STEP:
            self.stakes.require(not left, "I5", "{} are claimed, and {} left behind", gone, left)
        else:
            self.stakes.require(len(gone) == 1, "I5", "{} are claimed for one turn", gone)
            self.prompted = True
        steered = bool(self.pressing.intersection(gone))
        self.stakes.met("D6", steered and self.step > 0)
        self.stakes.met("I5", len(gone) > 1 or bool(left))
        self.pressed = self.pressed or steered
        self.pressing.difference_update(gone)
        self.claimed += gone


_TAKERS: dict[str, Callable[[Ledger, Json], None]] = {
    "turn/start": Ledger._turn_start,  # pyright: ignore[reportPrivateUsage]  # the table of the class's own methods
    "turn/end": Ledger._turn_end,  # pyright: ignore[reportPrivateUsage]
    "step/start": Ledger._step_start,  # pyright: ignore[reportPrivateUsage]
    "step/end": Ledger._step_end,  # pyright: ignore[reportPrivateUsage]
    "user/message": Ledger._user_message,  # pyright: ignore[reportPrivateUsage]
    "assistant/message": Ledger._answer,  # pyright: ignore[reportPrivateUsage]
    "assistant/attempt": Ledger._in_step,  # pyright: ignore[reportPrivateUsage]
    "tool/call": Ledger._tool_call,  # pyright: ignore[reportPrivateUsage]
    "tool/result": Ledger._tool_result,  # pyright: ignore[reportPrivateUsage]
    "agent/inbox/spliced": Ledger._spliced,  # pyright: ignore[reportPrivateUsage]
}
