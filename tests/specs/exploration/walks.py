"""Random walks of the kernel that a tester can bring about, and the log that each must leave."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from typing import Any

from treadle import Event
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.kernel.schedule import FINISHED, REFUSED
from treadle.words.events import type_of
from treadle_specs import run_cases
from treadle_specs.exploration.alphabet import CALLS, Alphabet
from treadle_specs.exploration.node import ASKED, PREPARED, Node
from treadle_specs.exploration.renaming import renamed
from treadle_specs.exploration.search import follow
from treadle_specs.exploration.vocabulary import ATTEMPT
from treadle_specs.rig.desk import Desk
from treadle_specs.rig.report import event_told
from treadle_specs.rig.wire import serve

Json = dict[str, Any]


def random_walk(chance: random.Random, start: Kernel, length: int) -> list[i.Input]:
    """Inputs from a kernel on, of those that a tester can bring about."""
    alphabet = Alphabet(3, calls=chance.choice([1, 1, 2]))
    node = Node(start.copy())
    inputs: list[i.Input] = []
    while len(inputs) < length or node.reread or node.kernel.owed is fx.PROCEED:
        given = _pick(chance, node, alphabet, wind_down=len(inputs) >= length)
        inputs.append(given)
        node = follow(node, given) or node
    return inputs


def _pick(chance: random.Random, node: Node, alphabet: Alphabet, *, wind_down: bool) -> i.Input:
    possible = [given for given in alphabet.inputs(node) if reproducible(node, given)]
    own = [given for given in possible if type(given) not in CALLS]
    if own and (wind_down or chance.random() < 0.55):
        return chance.choice(own)
    kinds: dict[type, list[i.Input]] = {}
    for given in possible:
        if type(given) in CALLS and not _between_body_and_result(node):
            kinds.setdefault(type(given), []).append(given)
    if not kinds:
        return chance.choice(own)
    weights = [6.0 if kind is i.Deliver else 0.5 if kind is i.Dispose else 1.0 for kind in kinds]
    return chance.choice(kinds[chance.choices(list(kinds), weights)[0]])


def _between_body_and_result(node: Node) -> bool:
    """A tester has no way to call between the end of a tool's body and its result, or after maintenance."""
    schedule = node.kernel.schedule
    due = schedule is not None and not schedule.done and schedule.status[schedule.next_settle] in (FINISHED, REFUSED)
    return due or (node.reread and node.kernel.last_reason is None)


def reproducible(node: Node, given: Any) -> bool:
    """Whether a tester can make this the next input."""
    kernel, kind = node.kernel, type(given)
    if kind is i.Deliver:
        return not given.own
    match kernel.owed:
        case fx.Request() if kind not in CALLS:
            return _attempted(node, given)
        case fx.RunTools() if kind not in CALLS:
            return _scheduled(kernel, given)
        case _:
            return True


def _attempted(node: Node, given: Any) -> bool:
    if type(given) is i.Failed:
        return node.phase == ASKED
    if node.phase != PREPARED:
        return True
    if type(given) is i.AttemptRecorded:
        return given.fact is ATTEMPT
    return node.kernel.cause is None


def _scheduled(kernel: Kernel, given: Any) -> bool:
    schedule = kernel.schedule
    assert schedule is not None
    kind = type(given)
    if schedule.done:
        return kind is i.ToolsSettled
    status = schedule.status[schedule.next_settle]
    if status in (FINISHED, REFUSED):
        return kind is i.CallSettled and (status == FINISHED or not (given.contexts or given.result.concludes_turn))
    if kind is i.CallStarted:
        return not given.parallel
    if kind is i.CallRefused:
        return schedule.running == 0
    return kind in (i.CallFinished, i.CallDropped)


# --- logs -------------------------------------------------------------------------------------------------------------


def expected_log(inputs: Sequence[i.Input], start: Kernel) -> list[str]:
    """The compact events that the kernel wants recorded."""
    kernel, log = start.copy(), []
    for given in renamed(inputs, start):
        try:
            effects = kernel.receive(given)
        except Exception:
            continue
        for effect in effects:
            if isinstance(effect, fx.Record):
                tag = type_of(effect.data).tag
                if tag not in run_cases.HIDDEN:
                    log.append(run_cases.compact_event(event_told(Event(tag, 0, 0, effect.data), None)))
    return log


def reduced(log: list[str]) -> list[str]:
    """Compact events without what a tool or a failure says."""
    out: list[str] = []
    for line in log:
        words = line.split()
        if words[0] == "result":
            words = words[:2]
        elif words[0] == "turn/end" and words[2] == "error":
            words = words[:3]
        out.append(" ".join(words))
    return out


def play(case: Json) -> tuple[list[str], Json]:
    """Play a case on the rig, in this process; returns the compact log and the last settle's reply."""
    desk, log, gates, last = Desk(), [], [], {}
    try:
        for given in [{"do": "hello"}, {"do": "open", "session": "s1", **case["open"]}, *case["steps"]]:
            step = dict(given)
            wanted = step.pop("ok", True)
            if step["do"] == "pass":
                waiting = {run_cases.compact_gate(gate): gate["gate"] for gate in gates}
                assert step["gate"] in waiting, f"no gate {step['gate']} among {list(waiting)}"
                step["gate"] = waiting[step["gate"]]
            reply = _ask(desk, step)
            assert reply["ok"] is wanted, f"{step} answered {reply}"
            if step["do"] == "settle":
                gates, last = reply["gates"], reply
                log += [run_cases.compact_event(event) for event in run_cases.shown_events(reply)]
        return log, last
    finally:
        desk.leave()


def _ask(desk: Desk, request: Json) -> Json:
    replies = io.BytesIO()
    serve(desk, io.BytesIO(json.dumps({"id": 1, **request}).encode() + b"\n"), replies)
    return json.loads(replies.getvalue())
