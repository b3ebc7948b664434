"""Random walks of the kernel that a tester can bring about, and the log that each must leave."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from typing import Any

from treadle import ByDisposal, Event, TreadleError
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.kernel.schedule import FINISHED, REFUSED
from treadle.words.events import type_of
from treadle_specs import run_cases
from treadle_specs.exploration.alphabet import CALLS, Alphabet
from treadle_specs.exploration.lockstep import Pair, beginning, follow
from treadle_specs.exploration.renaming import renamed
from treadle_specs.exploration.rig_script import ASKED, ATTEMPTED, NO_REQUEST, PREPARED
from treadle_specs.exploration.vocabulary import ATTEMPT
from treadle_specs.rig.desk import Desk
from treadle_specs.rig.report import event_told
from treadle_specs.rig.wire import serve

Json = dict[str, Any]


class Walk:
    """A walk so far: kernel and model, and how far the owed request is."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.phase = pair, NO_REQUEST

    def step(self, given: i.Input) -> None:
        before, self.pair = self.pair, follow(self.pair, given) or self.pair
        owed = self.pair.kernel.owed
        if not isinstance(owed, fx.Request):
            self.phase = NO_REQUEST
        elif owed is not before.kernel.owed:
            self.phase = ASKED
        elif isinstance(given, i.Prepared):
            self.phase = PREPARED if self.pair.kernel.cause is None else NO_REQUEST
        elif isinstance(given, i.AttemptRecorded):
            self.phase = ATTEMPTED


def random_walk(chance: random.Random, start: Kernel, length: int) -> list[i.Input]:
    """Inputs from a kernel on, of those that a tester can bring about."""
    alphabet = Alphabet(3, calls=chance.choice([1, 1, 2]), strays=False)
    walk = Walk(beginning(start.max_steps, start.pool))
    inputs: list[i.Input] = []
    while len(inputs) < length or walk.pair.reread or walk.pair.kernel.owed is fx.PROCEED:
        given = _pick(chance, walk, alphabet, wind_down=len(inputs) >= length)
        inputs.append(given)
        walk.step(given)
    return inputs


def _pick(chance: random.Random, walk: Walk, alphabet: Alphabet, *, wind_down: bool) -> i.Input:
    pair = walk.pair
    possible = [given for given in alphabet.inputs(pair.model, reread=pair.reread) if reproducible(walk, given)]
    own = [given for given in possible if type(given) not in CALLS]
    if own and (wind_down or chance.random() < 0.55):
        return chance.choice(own)
    kinds: dict[type, list[i.Input]] = {}
    for given in possible:
        if type(given) in CALLS and not _between_body_and_result(pair):
            kinds.setdefault(type(given), []).append(given)
    if not kinds:
        return chance.choice(own)
    weights = [6.0 if kind is i.Deliver else 0.5 if kind is i.Dispose else 1.0 for kind in kinds]
    return chance.choice(kinds[chance.choices(list(kinds), weights)[0]])


def _between_body_and_result(pair: Pair) -> bool:
    """A tester has no way to call between the end of a tool's body and its result, or after maintenance."""
    schedule = pair.kernel.schedule
    due = schedule is not None and not schedule.done and schedule.status[schedule.next_settle] in (FINISHED, REFUSED)
    return due or (pair.reread and pair.kernel.last_reason is None)


def reproducible(walk: Walk, given: Any) -> bool:
    """Whether a tester can make this the next input."""
    kernel, kind = walk.pair.kernel, type(given)
    if kind not in CALLS:
        try:
            kernel.copy().receive(given)
        except TreadleError:
            return False
    match kernel.owed:
        case _ if kind is i.Deliver:
            return not given.own
        case _ if kind is i.Unreserve:
            return kernel.reserved
        case _ if kind is i.Cancel:
            return not isinstance(given.cause, ByDisposal)
        case fx.Request() if kind not in CALLS:
            return _attempted(walk, given)
        case fx.RunTools() if kind not in CALLS:
            return _scheduled(kernel, given)
        case fx.Admit() if kind is i.Refused and given.kept:
            return len(given.kept) == len(kernel.claimed) - 1
        case _:
            return True


def _attempted(walk: Walk, given: Any) -> bool:
    kind = type(given)
    if walk.phase == ASKED:
        return kind in (i.Prepared, i.Failed, i.Interrupted)
    if walk.phase == PREPARED and kind is i.AttemptRecorded:
        return given.fact is ATTEMPT
    if walk.phase == PREPARED:
        return kind is i.Answered and walk.pair.kernel.cause is None
    return kind in (i.AttemptFailed, i.Interrupted)


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
