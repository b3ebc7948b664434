"""``treadle rig-check``: one short session with a rig under construction, explained step by step.

    treadle rig-check --rig "node rig.js"

Each line says what was asked, and what the rig did or still lacks; below a lack stands what the rig wrote to stderr
before, and whether the fair profile asks it, too. The exit status is 0 when the core is there, 1 when something of
it is missing, and 3 when the rig breaks the protocol.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from attrs import define

from ..protocol.fault import RigFault
from ..protocol.process import TIMEOUT_S, RigProcess
from .drawn import TOOLS, text
from .ledger import Json, items
from .process_rig import Rigs
from .survey import code_of, survey


@define
class Step:
    """What one step showed.

    Attributes:
        name: what was looked at.
        lacks: what is not as the protocol has it; empty when all is.
        says: what the protocol says of it, or what was seen.
        fair: whether the fair profile asks it, too.
        stderr: the last lines that the rig wrote there, when they are new.
    """

    name: str
    lacks: str
    says: str
    fair: bool = True
    stderr: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.lacks:
            return f"ok     {self.name}" + (f": {self.says}" if self.says else "")
        lines = [f"LACKS  {self.name}: {self.lacks}", f"       the protocol: {self.says}"]
        lines += [] if self.fair else ["       asked from profile core on, not by fair"]
        return "\n".join([*lines, *(f"       stderr: {line}" for line in self.stderr)])


@define
class Walk:
    """A session with a rig, and what it waits for."""

    rig: RigProcess
    report: Json

    def ask(self, request: Json) -> Json:
        """The reply to one request."""
        return self.rig.ask(request)

    def settle(self) -> Json:
        """Let the driver run; the report."""
        reply = self.rig.ask({"do": "settle"})
        self.report = reply if reply["ok"] else {}
        return reply

    def gate(self, kind: str) -> Json | None:
        """A gate of some kind that waits."""
        return next((gate for gate in items(self.report, "gates") if gate["kind"] == kind), None)

    def passed(self, kind: str, **answer: Any) -> Json:
        """Let a gate of some kind go on, and the driver run."""
        gate = self.gate(kind)
        reply = self.ask({"do": "pass", "gate": gate["gate"] if gate is not None else kind, **answer})
        self.settle()
        return reply

    def lacks_events(self, *wanted: str) -> str:
        """What is missing of some types of events in the last report."""
        told = [event["type"] for event in items(self.report, "events")]
        missing = [kind for kind in wanted if kind not in told]
        return f"no {', '.join(missing)} among the events; told: {', '.join(told) or 'none'}" if missing else ""


Check = Callable[[Walk], str]
"""Does something, and says what is lacking."""


def _hello(walk: Walk) -> str:
    reply = walk.ask({"do": "hello"})
    return "" if reply["ok"] else f"it is refused: {reply['error']}"


def _open(walk: Walk) -> str:
    reply = walk.ask({"do": "open", "session": "s1", "gates": ["tool"], "tools": TOOLS, "options": {}})
    return "" if reply["ok"] else f"it is refused: {reply['error']}"


def _deliver(walk: Walk) -> str:
    reply = _wake(walk, "m1")
    if not reply["ok"]:
        return f"it is refused: {reply['error']}"
    walk.settle()
    return ""


def _turn_events(walk: Walk) -> str:
    return walk.lacks_events("turn/start", "step/start", "user/message")


def _wake(walk: Walk, name: str) -> Json:
    return walk.ask({"do": "deliver", "message": text(name), "target": "next-turn", "wakeup": True})


def _waits(walk: Walk) -> str:
    gate = walk.gate("model")
    if gate is None:
        return f"no gate of kind model waits after a waking delivery; gates: {items(walk.report, 'gates')}"
    if walk.report["status"] != "running":
        return "the status is idle while a turn is under way"
    said = [message.get("text") for message in gate["messages"] if message["role"] == "user"]
    return "" if said == ["m1"] else f"the request should hold the user's message 'm1', and holds {said}"


def _calls(walk: Walk) -> str:
    call = {"call": {"id": "c1", "name": "t", "arguments": "{}"}}
    walk.passed("model", chunks=[{"text": "so"}, call], end="tool-calls")
    return "" if walk.gate("tool") is not None else "no gate of kind tool waits, and `open` asked for them"


def _call_events(walk: Walk) -> str:
    return walk.lacks_events("assistant/message", "tool/call")


def _results(walk: Walk) -> str:
    walk.passed("tool", text="ok")
    gate = walk.gate("model")
    if gate is None:
        return "no further request is made once the call has its result"
    known = [call for message in gate["messages"] for call in items(message, "results")]
    return "" if "c1" in known else "the next request does not hold the result"


def _result_events(walk: Walk) -> str:
    return walk.lacks_events("tool/result")


def _ends(walk: Walk) -> str:
    walk.passed("model", chunks=[{"text": "done"}], end="stop")
    return "" if walk.report.get("status") == "idle" else "it stays running"


def _end_events(walk: Walk) -> str:
    return walk.lacks_events("step/end", "turn/end")


def _refuses_twice(walk: Walk) -> str:
    code = code_of(_wake(walk, "m1"))
    return "" if code == "duplicate-message" else f"an id that is recorded is {code or 'accepted'}"


def _cancel(walk: Walk) -> str:
    _wake(walk, "m2")
    walk.settle()
    reply = walk.ask({"do": "cancel", "cause": "user", "reason": "", "keep_inbox": False})
    if code_of(reply) == "unsupported":
        return ""  # the fair profile lets a driver lack it; the next step tells
    if not reply["ok"]:
        return f"it is refused: {reply['error']}"
    walk.settle()
    if walk.report.get("status") != "idle":
        return "it stays running"
    return "" if not items(walk.report, "gates") else "a gate of the cancelled turn still waits"


def _cancel_events(walk: Walk) -> str:
    ends = [event for event in items(walk.report, "events") if event["type"] == "turn/end"]
    if not ends or ends[-1]["reason"] != "aborted":
        return f"the turn does not end aborted, but: {ends or 'not at all'}"
    return ""


def _no_gate(walk: Walk) -> str:
    code = code_of(walk.ask({"do": "pass", "gate": "no-such", "chunks": [], "end": "stop"}))
    return "" if code == "no-such-gate" else f"passing a gate that does not wait is {code or 'accepted'}"


def _no_verb(walk: Walk) -> str:
    code = code_of(walk.ask({"do": "no-such-verb"}))
    return "" if code == "unsupported" else f"a verb that nobody knows is {code or 'accepted'}"


def _dispose(walk: Walk) -> str:
    reply = walk.ask({"do": "dispose"})
    if not reply["ok"]:
        return f"it is refused: {reply['error']}"
    walk.settle()
    gone = any(notice["name"] == "agent/disposed" for notice in items(walk.report, "notices"))
    if not gone:
        return "no notice agent/disposed"
    code = code_of(_wake(walk, "m3"))
    return "" if code == "disposed" else f"a delivery after it is {code or 'accepted'}"


def _close(walk: Walk) -> str:
    reply = walk.ask({"do": "close"})
    if not reply["ok"]:
        return f"it is refused: {reply['error']}"
    status = walk.rig.exit_status()
    return "" if status == 0 else f"the process ends with status {status}"


STEPS: tuple[tuple[str, Check, bool, str], ...] = (
    ("hello", _hello, True, "`hello` tells `protocol` 1, `driver` and `features`"),
    ("open", _open, True, "`open` creates the agent with the tools it is given; kinds in `gates` wait for the tester"),
    ("deliver", _deliver, True, "a waking delivery is accepted while the agent is idle"),
    ("a model gate", _waits, True, "a model request waits at a gate that tells `messages`, and the status is running"),
    ("deliver, settle", _turn_events, False, "a waking delivery opens a turn, and `settle` tells its events in order"),
    ("pass with a call", _calls, True, "a gate of kind `model` streams `chunks`; a call in them starts the tool"),
    ("events of a call", _call_events, False, "the answer and the call are recorded"),
    ("pass a tool gate", _results, True, "the next request holds the result"),
    ("the event of a result", _result_events, False, "the result is recorded"),
    ("the turn's end", _ends, True, "an answer that asks for nothing ends the turn, and the status is idle"),
    ("events of the turn's end", _end_events, False, "the end of the step and of the turn are recorded"),
    ("an id again", _refuses_twice, False, "an id that is pending, claimed or recorded is `duplicate-message`"),
    ("cancel", _cancel, True, "after a cancel and a settle the status is idle, and no gate waits"),
    ("the event of a cancel", _cancel_events, False, "a cancelled turn ends `aborted` in the next settle"),
    ("a gate that is not there", _no_gate, True, "passing a gate that does not wait answers `no-such-gate`"),
    ("a verb that is not there", _no_verb, True, "a verb that the driver lacks answers `unsupported`"),
    ("dispose", _dispose, False, "`agent/disposed` is told, and later deliveries are refused as `disposed`"),
    ("close", _close, True, "`close` is answered, and the process ends with status 0"),
)
"""Each step's name, its check, whether the fair profile asks it too, and what the protocol says."""


def check_rig(command: str, timeout: float = TIMEOUT_S) -> Iterator[Step]:
    """Walk the session; a step whose ground is missing is told as lacking, too.

    Raises:
        RigFault: the rig does not keep to the protocol.
    """
    walk, told = Walk(RigProcess(command, timeout=timeout), {}), ()
    try:
        for name, check, fair, says in STEPS:
            lacks = check(walk)
            words = walk.rig.last_words() if lacks else told
            yield Step(name, lacks, says if lacks else "", fair, words if words != told else ())
            told = words
            if lacks and name in ("hello", "open"):
                return
    finally:
        walk.rig.drop()
    known = survey(Rigs(command, timeout, reuse=False).make)
    if known.fault is not None:
        raise known.fault
    yield Step("beyond the core", "", f"features {_words(known.features)}; lacks {_words(known.lacks)}")


def _words(words: frozenset[str]) -> str:
    return ", ".join(sorted(words)) or "none"


def tell(command: str, timeout: float = TIMEOUT_S) -> int:
    """Print each step as it is made; returns the exit status."""
    lacking: list[Step] = []
    try:
        for step in check_rig(command, timeout):
            lacking += [step] if step.lacks else []
            sys.stdout.write(f"{step}\n")
    except RigFault as fault:
        sys.stdout.write(f"FAULT  {fault}\n")
        return 3
    sys.stdout.write(f"{_summary(lacking)}\n")
    return 1 if lacking else 0


def _summary(lacking: list[Step]) -> str:
    if not lacking:
        return "the core is there: try `treadle conform --profile core`"
    told = "1 step lacks something" if len(lacking) == 1 else f"{len(lacking)} steps lack something"
    if any(step.fair for step in lacking):
        return told
    return f"{told} of the core; what the fair profile asks is there: try `treadle conform --profile fair`"
