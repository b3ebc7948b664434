"""What the tester does in one run of the fair profile, drawn by chance."""

from __future__ import annotations

import random

from ..ledger import NEXT_STEP, NEXT_TURN, Json

LEAST_STEPS = 6
CALLS = (("t",), ("p", "p"), ("p", "t"), ("p", "p", "t"))
"""The tools that an answer asks for, several in one answer more often than not."""
IN_ONE_BREATH = 0.3
"""How often a delivery is followed by the next request before the driver runs."""


class Drawer:
    """Draws the next request.

    Args:
        seed: of the run.
        lacks: what the driver does not have is not drawn.
    """

    def __init__(self, seed: int, lacks: frozenset[str]) -> None:
        self._random = random.Random(seed)  # noqa: S311 (no secret)
        self._lacks = lacks
        self._names = 0
        self._streams = ""

    def steps(self, most: int) -> int:
        """How many requests the run has."""
        return self._random.randint(LEAST_STEPS, max(LEAST_STEPS, most))

    def name(self, letter: str) -> str:
        """A fresh name."""
        self._names += 1
        return f"{letter}{self._names}"

    def next(self, gates: list[Json], *, running: bool) -> list[Json]:
        """The next requests; a settle ends what happens in one breath."""
        words = ["deliver"] if not running else [word for word in ("pass", "pass", "pass", "cancel", "steer", "queue")
                                                 if word not in self._lacks]  # fmt: skip
        match self._random.choice(words):
            case "deliver" | "queue":
                return self._delivery(NEXT_TURN)
            case "steer":
                return self._delivery(NEXT_STEP)
            case "cancel":
                self._streams = ""
                return [{"do": "cancel", "cause": "user"}, {"do": "settle"}, {"do": "settle"}]
            case _:
                return self._passes(gates)

    def _delivery(self, box: str) -> list[Json]:
        name = self.name("m")
        request: Json = {"do": "deliver", "message": {"id": name, "text": name}, "target": box, "wakeup": True}
        return [request] if self._random.random() < IN_ONE_BREATH else [request, {"do": "settle"}]

    def _passes(self, gates: list[Json]) -> list[Json]:
        if not gates:
            return [{"do": "settle"}]
        gate = self._random.choice(gates)
        given = self._answer(gate["gate"]) if gate["kind"] == "model" else self._result(gate["call"])
        return [{"do": "pass", **given}, {"do": "settle"}]

    def _result(self, call: str) -> Json:
        given: Json = {"text": f"result of {call}"}
        if self._random.random() < 0.2 and "error" not in self._lacks:
            given["error"] = True
        return {"gate": f"tool {call}", **given}

    def _answer(self, gate: str) -> Json:
        text: Json = {"text": f"{self.name('a')} "}
        calls: list[Json] = [{"call": {"id": self.name("c"), "name": tool, "arguments": "{}"}}
                             for tool in self._random.choice(CALLS)]  # fmt: skip
        begun = self._streams == gate
        self._streams = ""
        match self._random.randint(0, 5):
            case 0 | 1:
                return {"gate": "model", "chunks": [text], "end": "stop"}
            case 2 | 3:
                return {"gate": "model", "chunks": [text, *calls], "end": "tool-calls"}
            case 4 if not begun:
                return {"gate": "model", "chunks": calls, "end": "tool-calls"}
            case _:
                self._streams = gate
                return {"gate": "model", "chunks": [text], "end": None}
