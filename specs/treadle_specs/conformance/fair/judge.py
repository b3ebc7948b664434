"""What must hold of a driver's model requests, tool starts and status, whatever it is made of.

A broken rule is noted, and the run goes on: later breaks of it in the same run are counted, for they may follow from
the first, and no other rule is hidden by it.
"""

from __future__ import annotations

from collections import Counter

from ..ledger import NEXT_STEP, Json
from ..stakes import Stakes
from .pairing import unpaired

RUNNING, FINISHED, STOPPED = "running", "finished", "stopped"


class Judge:
    """Watches one driver.

    Attributes:
        broken: what was wrong, by rule; the first time that it was.
        masked: how often each rule was broken again.
        stakes: how often each rule was at stake.
        gates: those that wait.
        running: the status that was told last.
    """

    def __init__(self) -> None:
        self.broken: dict[str, str] = {}
        self.masked: Counter[str] = Counter()
        self.stakes = Stakes()
        self.gates: list[Json] = []
        self.running = False
        self._sent: dict[str, str] = {}
        self._owed: set[str] = set()
        self._reached: set[str] = set()
        self._ran: dict[str, str] = {}
        self._given: dict[str, str] = {}
        self._seen: set[str] = set()
        self._asked: list[str] = []
        self._partial: list[str] = []
        self._stream: str = ""
        self._steering: set[str] = set()
        self._queued: set[str] = set()
        self._cancelled = self._begins = self._stops = False

    def _hold(self, holds: bool, rule: str, message: str, *, stake: bool = True) -> None:
        self.stakes.met(rule, stake)
        if holds:
            return
        if rule in self.broken:
            self.masked[rule] += 1
        else:
            self.broken[rule] = message

    # --- what the tester did ------------------------------------------------------------------------------------------

    def asked(self, request: Json, reply: Json, gate: Json | None) -> None:
        """Take a request that was answered, with the gate that it passes; a refusal changes nothing."""
        if not reply.get("ok"):
            return
        match request["do"]:
            case "deliver":
                self._delivered(request["message"]["text"], request["target"])
            case "cancel":
                self._cancel()
            case "pass" if gate is not None:
                self._passed(gate, request)
            case _:
                pass

    def _delivered(self, text: str, box: str) -> None:
        self._sent[text] = box
        if self._cancelled:
            return  # it comes between a cancel and its end: whether that takes it along is not asked
        self._owed.add(text)
        if self.running:
            (self._steering if box == NEXT_STEP else self._queued).add(text)
        self._begins = True

    def _cancel(self) -> None:
        if not self.running and not self._begins:
            return
        self._cancelled = True
        for gate in self.gates:
            if gate["kind"] == "model":
                self._partial += [self._stream] if self._stream else []
            else:
                self._ran[gate["call"]] = STOPPED
        self._stream, self._asked = "", []
        self._owed, self._steering, self._queued = set(), set(), set()

    def _passed(self, gate: Json, given: Json) -> None:
        if gate["kind"] != "model":
            self._ran[gate["call"]] = FINISHED
            self._given[gate["call"]] = "" if given.get("error") else given.get("text", "")  # an error is worded freely
            return
        self._stream += "".join([chunk.get("text", "") for chunk in given.get("chunks", [])])
        self._asked += [chunk["call"]["id"] for chunk in given.get("chunks", []) if "call" in chunk]
        if given.get("end") is not None:
            self._stream, self._stops = "", not self._asked

    # --- what the driver shows ----------------------------------------------------------------------------------------

    def reported(self, report: Json) -> None:
        """Take what a settle tells."""
        gates, was = report["gates"], self.running
        self.running = report["status"] == "running"
        if self._cancelled:
            kinds = [gate["kind"] for gate in gates]
            self._hold(not self.running and not gates, "F5", f"it was cancelled, and is {report['status']}, at {kinds}")
        elif not was and not self._begins:
            self._hold(not self.running and not gates, "F6", f"it had ended, and is {report['status']} at {gates}")
        elif not self.running:
            left = sorted(self._owed)
            self._hold(not left, "F1", f"the run is over, and {', '.join(left)} never reached the model")
            self._owed, self._steering, self._queued = set(), set(), set()
        if self.running:
            self._hold(bool(gates), "F10", "it is running, and waits for nothing")
        self._cancelled = self._begins = False
        for gate in gates:
            if gate["gate"] not in self._seen:
                self._seen.add(gate["gate"])
                self._request(gate["messages"]) if gate["kind"] == "model" else self._started(gate["call"])
        self.gates = gates

    def _started(self, call: str) -> None:
        self._hold(call not in self._ran, "F8", f"{call} starts twice")
        self._ran[call] = RUNNING

    def _request(self, messages: list[Json]) -> None:
        fault = unpaired(messages)
        self._hold(not fault, "F9", fault, stake=any(message["calls"] for message in messages))
        idle = [call for call in self._asked if call not in self._ran]
        self._hold(not idle, "F8", f"{', '.join(idle)} never started, and the model is asked again",
                   stake=bool(self._asked))  # fmt: skip
        self._asked = []
        self._messages([one["text"] for one in messages if one["role"] == "user" and not one["results"]])
        self._calls(messages)
        told = [one["text"] for one in messages if one["role"] == "assistant"]
        for text in self._partial:
            self._hold(any(text in one for one in told), "F11", f"{text!r} had arrived, and is not in the next request")

    def _messages(self, texts: list[str]) -> None:
        known = [text for text in texts if text in self._sent]
        twice = sorted({text for text in known if known.count(text) > 1})
        self._hold(not twice, "F2", f"{', '.join(twice)} twice in one request", stake=bool(self._reached))
        places = {text: place for place, text in enumerate(self._sent)}
        for box in dict.fromkeys(self._sent.values()):
            mine = [places[text] for text in dict.fromkeys(known) if self._sent[text] == box]
            names = [text for text in known if self._sent[text] == box]
            self._hold(mine == sorted(mine), "F3", f"the order is {', '.join(names)}", stake=len(mine) > 1)
        gone = sorted(self._reached.difference(texts))
        self._hold(not gone, "F4", f"{', '.join(gone)} had reached the model, and is gone from the history",
                   stake=bool(self._reached))  # fmt: skip
        late = sorted(self._steering.difference(texts))
        self._hold(not late, "F13", f"{', '.join(late)} is not in the next request", stake=bool(self._steering))
        early = sorted(self._queued.intersection(texts)) if not self._stops else []
        self._hold(not early, "F14", f"{', '.join(early)} did not wait", stake=bool(self._queued) and not self._stops)
        self._steering.clear()
        self._queued -= set(texts)
        self._reached |= set(known)
        self._owed -= set(known)
        self._stops = False

    def _calls(self, messages: list[Json]) -> None:
        results = {call for message in messages for call in message["results"]}
        calls = {call for message in messages for call in message["calls"]}
        told = {call: text for message in messages
                for call, text in zip(message["results"], message.get("outputs", []), strict=False)}  # fmt: skip
        for call, state in self._ran.items():
            if state == FINISHED:
                self._hold(call in results, "F7", f"{call} ran to its end, and the next request has no result of it")
                given = self._given[call]
                self._hold(given in told.get(call, given), "F7", f"{call} gave {given!r}, and the model is told "
                           f"{told.get(call)!r}", stake=call in told)  # fmt: skip
            elif state == STOPPED:
                self._hold(call in calls, "F12", f"{call} had started, and the next request does not mention it")
