"""The protocol's side of a rig: verbs, gates, listeners, the two inbox lists, and what ``settle`` reports."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

from .on_asyncio import OnAsyncio
from .refusals import Refused, Unsupported

Json = dict[str, Any]


class Engine(Protocol):
    """The event loop of a driver: it runs inside ``settle`` and nowhere else."""

    def call(self, function: Callable[[], Any]) -> Any:
        """Call synchronous code as if it ran in the loop; nothing else runs meanwhile."""
        ...

    def spawn(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Start a task; it begins when the loop runs."""
        ...

    def signal(self) -> Any:
        """Something with ``set()``, and ``wait()`` to be awaited."""
        ...

    async def pause(self) -> None:
        """Let others go on."""
        ...

    def settle(self, waits: Callable[[], bool]) -> None:
        """Run until nothing but an open gate can go on; ``waits`` says whether one is open."""
        ...


class Gate:
    """A place where the driver waits for the tester."""

    def __init__(self, facts: Json, signal: Any) -> None:
        self.facts, self._signal = facts, signal
        self.answer: Json | None = None

    @property
    def open(self) -> bool:
        """Whether it still waits."""
        return self.answer is None

    def let_go(self, answer: Json) -> None:
        """Answer it; the driver goes on when the loop runs."""
        self.answer = answer
        self._signal.set()

    async def wait(self) -> Json:
        """The answer."""
        await self._signal.wait()
        return self.answer or {}


class Rig:
    """A rig whose driver tells its own events: subclasses add the verbs ``do_…``, and call ``log`` and ``note``.

    Attributes:
        name: of the driver.
        version: of the driver.
        features: words of ``hello``; ``reset`` is told by itself.
        lacks: verbs, options, kinds of gates and abilities that the driver does not have.
        gate_kinds: what may be listed in ``open``.
        boxes: the ids that are pending, by list.
        running: what ``settle`` tells as status.
    """

    name = version = ""
    features: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    gate_kinds: tuple[str, ...] = ("model", "tool")

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine: Engine = engine or OnAsyncio()
        self.events: list[Json] = []
        self.notices: list[Json] = []
        self.gates: dict[str, Gate] = {}
        self.boxes: dict[str, list[str]] = {"next-turn": [], "next-step": []}
        self.running = False
        self._gates_made = 0
        self._heard: list[tuple[str, int, Json]] = []
        self._hidden: set[str] = set()

    # --- for the driver -----------------------------------------------------------------------------------------------

    def log(self, kind: str, **fields: Any) -> None:
        """A durable event."""
        self.events.append({"type": kind, **fields})
        self._publish(kind)

    def note(self, name: str, **fields: Any) -> None:
        """A notification; ``agent/`` is put before its name."""
        self.notices.append({"name": f"agent/{name}", **fields})
        self._publish(f"notice:agent/{name}")

    def splice(
        self, box: str, start: int, removed: int, inserted: Iterable[str] = (), outcome: str | None = None
    ) -> list[str]:
        """Change one list of the inbox, and tell it; returns what was taken out.

        Args:
            box: ``next-turn`` or ``next-step``.
            start: where.
            removed: how many are taken out there.
            inserted: ids that are put in there.
            outcome: ``canceled`` when they are dropped, none when they are claimed.
        """
        new, gone = list(inserted), self.boxes[box][start : start + removed]
        if gone or new:
            self.boxes[box][start : start + removed] = new
            self.log("agent/inbox/spliced", target=box, start=start, removed=len(gone), inserted=new, outcome=outcome)
        for one in new:
            self.note("inbox/inserted", message=one)
        for one in gone:
            self.note("inbox/discarded" if outcome else "inbox/claimed", message=one)
        return gone

    async def gate(self, kind: str, *, name: str = "", **facts: Any) -> Json:
        """Wait for the tester; a cancelled wait takes the gate away.

        Args:
            kind: of gate.
            name: of an earlier gate that waits again, a fresh one unless given.
            facts: what is reported of it; ``as_name`` stands for a fact called ``name``.
        """
        if not name:
            self._gates_made += 1
            name = f"g{self._gates_made}"
        if "as_name" in facts:
            facts["name"] = facts.pop("as_name")
        one = self.gates[name] = Gate({"gate": name, "kind": kind, **facts}, self.engine.signal())
        try:
            return {**await one.wait(), "gate": name}
        finally:
            if self.gates.get(name) is one:
                del self.gates[name]

    def hide_gates(self) -> None:
        """What waits now is being cancelled: no gate of it can be passed any more."""
        self._hidden |= set(self.gates)

    def _publish(self, word: str) -> None:
        for place, (on, left, request) in enumerate(self._heard):
            if on == word:
                self._heard[place] = (on, left - 1, request)
                if left == 1 and request.get("do") != "raise":  # what a listener raises is contained
                    with contextlib.suppress(Refused):
                        self._verb(request)(request)

    # --- verbs --------------------------------------------------------------------------------------------------------

    def apply(self, request: Json) -> Json:
        """Apply one request; returns the fields of its reply.

        Raises:
            Refused: it changes nothing.
        """
        verb = self._verb(request)
        if request["do"] in ("settle", "flush", "close"):
            return verb(request) or {}
        return self.engine.call(lambda: verb(request)) or {}

    def _verb(self, request: Json) -> Callable[[Json], Json | None]:
        verb = getattr(self, f"do_{request.get('do')}", None)
        if verb is None:
            raise Unsupported(f"no verb {request.get('do')}")
        return verb

    def do_hello(self, _: Json) -> Json:
        """Who it is."""
        driver = {"name": self.name, "version": self.version}
        return {"protocol": 1, "driver": driver, "features": [*self.features, "reset"], "lacks": [*self.lacks]}

    def do_open(self, request: Json) -> None:
        """Begin; a kind of gate that is unknown is refused."""
        if strange := [kind for kind in request.get("gates", []) if kind not in self.gate_kinds]:
            raise Unsupported(f"no gate of kind {', '.join(strange)}")

    def do_listen(self, request: Json) -> None:
        """A request is made when something is published."""
        self._heard.append((request["on"], request.get("nth", 1), request["request"]))

    def do_settle(self, _: Json) -> Json:
        """Run until nothing but a gate can go on, and report."""
        self.engine.settle(lambda: any(gate.open for gate in self.gates.values()))
        self._hidden.clear()
        events, notices = self.events, self.notices
        self.events, self.notices = [], []
        waiting = [gate.facts for gate in self.gates.values() if gate.open]
        return {"status": "running" if self.running else "idle", "state": None, "events": events, "notices": notices,
                "inbox": {box: [*pending] for box, pending in self.boxes.items()}, "gates": waiting}  # fmt: skip

    def do_pass(self, request: Json) -> None:
        """Let a gate go on."""
        name = request.get("gate", "")
        gate = self.gates.get(name)
        if gate is None or not gate.open or name in self._hidden:
            raise Refused("no-such-gate", f"no gate {name} waits")
        gate.let_go(request)

    def do_flush(self, _: Json) -> None:
        """Everything is kept in memory."""

    def do_close(self, _: Json) -> None:
        """The process ends, or the next run begins."""
