"""A sequence of kernel inputs as a case for the rig: what a tester would do to bring a driver there.

Every message gets an id of its own, because a real session never takes an id twice. Calls made while the driver would
be running, between two commits, become listeners on what was published last. What no tester can cause, such as a fault
of the tool scheduler, is left out and named in ``left_out``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from treadle import ByParent, UserMessage
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.words.events import type_of

from .alphabet import CALLS
from .renaming import renamed

Json = dict[str, Any]

GATES = ["model", "tool", "stubborn-tool", "pre-step", "request", "request-error", "turn-stopping", "maintenance"]
_UNKNOWN_TOOL = "nobody"
NO_REQUEST, ASKED, PREPARED, ATTEMPTED = 0, 1, 2, 3
"""How far the owed request is: nothing yet, asked for, prepared, or with an attempt recorded (T1)."""


def rig_case(name: str, rules: Sequence[str], inputs: Sequence[i.Input], start: Kernel) -> Json:
    """Write inputs as one case, in the format of ``cases/*.json``.

    Args:
        name: of the case.
        rules: what it is about.
        inputs: from the empty agent on.
        start: that agent's kernel; it is not changed.
    """
    return Script(inputs, start).case(name, rules)


class Script:
    """Plays the inputs on a kernel of its own, and notes what a tester does meanwhile.

    Args:
        inputs: from the empty agent on; ids may repeat.
        start: that agent's kernel; it is not changed.
    """

    def __init__(self, inputs: Sequence[i.Input], start: Kernel) -> None:
        self._inputs = renamed(inputs, start)
        self._kernel = start.copy()
        self._modes = _tool_modes(self._inputs)
        self._submits = any(type(given) is i.Refused and given.detail for given in self._inputs)
        self._steps: list[Json] = []
        self._published: Counter[str] = Counter()
        self._anchor: tuple[str, int] | None = None
        self._busy = False
        self._answers = 0
        self._phase = NO_REQUEST
        self.left_out: list[str] = ["what happens during creation"] if start.held else []

    def case(self, name: str, rules: Sequence[str]) -> Json:
        """The whole case."""
        for at, given in enumerate(self._inputs):
            self._note(at, given)
        if not self._steps or self._steps[-1]["do"] != "settle":
            self._settle()
        tools = sorted({(tool, mode) for tool, mode in self._modes.values() if tool != _UNKNOWN_TOOL})
        opening: Json = {
            "gates": [*GATES, *(["prompt-submit"] if self._submits else [])],
            "tools": [{"name": tool, "mode": mode} for tool, mode in tools],
        }
        if self._kernel.max_steps is not None:
            opening["options"] = {"max_steps_per_turn": self._kernel.max_steps}
        case: Json = {"name": name, "rules": list(rules), "open": opening, "steps": self._steps}
        if self.left_out:
            case["left_out"] = self.left_out
        return case

    # --- one input ----------------------------------------------------------------------------------------------------

    def _note(self, at: int, given: i.Input) -> None:
        request = call_request(given)
        if request is None and not self._taken(given):
            self.left_out.append(f"{type(given).__name__}, which nobody owes")
        elif request is None:
            self._outcome(at, given)
            self._follow(given)
        elif self._busy and self._anchor is not None:
            on, nth = self._anchor
            request = {"do": "listen", "on": on, "nth": nth, "request": request}
            self._steps.insert(len(self._steps) - 1, request)
        else:
            self._steps.append(request)
        if request is None or self._follow(given):
            return
        if request["do"] == "update":
            self._steps.remove(request)
        elif request["do"] not in ("reserve", "listen"):
            request["ok"] = False

    def _taken(self, given: i.Input) -> bool:
        try:
            self._kernel.copy().receive(given)
        except Exception:
            return False
        return True

    def _follow(self, given: i.Input) -> bool:
        """Feed the own kernel; returns whether it took the input."""
        try:
            effects = self._kernel.receive(given)
        except Exception:
            return False
        for effect in effects:
            if type(effect) is fx.Record:
                tag = type_of(effect.data).tag
                self._published[tag] += 1
                if type(given) not in CALLS:
                    self._anchor = (tag, self._published[tag])
            elif type(effect) is fx.Begin and type(effect.operation) is fx.Request:
                self._phase = ASKED
        if type(given) in CALLS:
            return True
        if type(given) is i.Prepared:
            self._phase = PREPARED
        elif type(given) is i.AttemptRecorded:
            self._phase = ATTEMPTED
        self._busy = self._runs(effects)
        return True

    def _runs(self, effects: tuple[fx.Effect, ...]) -> bool:
        """Whether the driver goes on by itself now, so that only a listener can come between."""
        kernel = self._kernel
        if kernel.owed is fx.PROCEED or (effects and type(effects[-1]) is fx.Reread):
            return True
        if type(kernel.owed) is fx.Request:
            return self._phase == ATTEMPTED
        return kernel.schedule is not None and kernel.schedule.running == 0

    def _settle(self) -> None:
        self._steps.append({"do": "settle"})
        self._published.clear()
        self._anchor = None

    def _pass(self, gate: str, **answer: Any) -> None:
        self._settle()
        self._steps.append({"do": "pass", "gate": gate, **answer})
        self._settle()

    # --- outcomes -----------------------------------------------------------------------------------------------------

    def _outcome(self, at: int, given: i.Input) -> None:
        owed: Any = self._kernel.owed
        cancelled = self._kernel.cause is not None
        match owed:
            case fx.RunTools():
                self._tools(at, given, cancelled=cancelled)
            case _ if cancelled or given in (i.Proceeded(), i.Replayed()):
                if not self._busy and type(given) is not i.Prepared:
                    self._settle()
            case fx.Admit():
                self._admission(owed, given)
            case fx.Request():
                self._request(given)
            case fx.Recover():
                self._pass("request-error", action="retry" if type(given) is i.Retried else None)
            case fx.Stop():
                self._pass("turn-stopping", **_raising(given))
            case _:
                self._pass("maintenance", result=None)

    def _admission(self, owed: fx.Admit, given: Any) -> None:
        if self._submits and owed.prompt is not None:
            blocks = type(given) is i.Refused and given.detail is not None
            self._pass("prompt-submit", decide="block" if blocks else "allow")
            if blocks:
                return
        match given:
            case i.Refused():
                self._pass("pre-step", decide="reject")
            case i.Failed():
                self._pass("pre-step", **_raising(given))
            case _:
                same = given.messages == owed.batch
                self._pass("pre-step", decide="default" if same else {"enter": [_shown(m) for m in given.messages]})

    def _request(self, given: Any) -> None:
        match given:
            case i.Prepared():
                self._pass("request")
            case i.Failed() if self._phase == ASKED:
                self._pass("request", **_raising(given))
            case i.Answered() | i.AttemptRecorded() if self._phase == ASKED:
                self._pass("request")
                self._phase = PREPARED
                self._request(given)
            case i.Answered():
                chunks: list[Json] = [{"text": given.fact.message.text}]
                for index, call in enumerate(given.calls):
                    name = self._modes.get((self._answers, index), ("idle", "exclusive"))[0]
                    chunks.append({"call": {"id": call.call_id, "name": name, "arguments": "{}"}})
                end = "max-tokens" if given.truncated else "tool-calls" if given.calls else "stop"
                self._pass("model", chunks=chunks, end=end)
                self._answers += 1
            case i.AttemptRecorded():
                self._pass("model", chunks=[], end={"error": {"code": "SERVER", "message": "it broke"}})
            case _:
                pass

    def _tools(self, at: int, given: Any, *, cancelled: bool) -> None:
        match given:
            case i.CallFinished(ending=i.LetThrough(started=True)):
                pass  # the cancellation itself opens the gate of a tool that is not stubborn
            case i.CallFinished() if type(given.ending) is not i.Returned:
                self.left_out.append("a body that never began, or whose time was up")
            case i.CallFinished():
                settled = self._settled(at, given.index)
                name = self._modes.get((self._answers - 1, given.index), ("idle", ""))[0]
                gate = "stubborn-tool" if name.startswith("stubborn") else "tool"
                self._pass(f"{gate} {self._call_id(given.index)}", **_tool_answer(settled))
            case i.Failed() if not cancelled:
                self.left_out.append("a fault of the tool scheduler")
            case _:
                pass

    def _call_id(self, index: int) -> str:
        schedule = self._kernel.schedule
        assert schedule is not None
        return schedule.calls[index].call_id

    def _settled(self, at: int, index: int) -> i.CallSettled | None:
        for given in self._inputs[at:]:
            if type(given) is i.CallSettled and given.index == index:
                return given
            if type(given) is i.ToolsSettled or type(given) is i.Interrupted:
                return None
        return None


def _tool_answer(settled: i.CallSettled | None) -> Json:
    if settled is None:
        return {"text": "done"}
    answer: Json = {"text": "done", "error": settled.result.is_error, "concludes": settled.result.concludes_turn}
    if settled.contexts:
        answer["contexts"] = [_shown(message) for message in settled.contexts]
    return answer


def _raising(given: Any) -> Json:
    return {"raise": "it broke"} if type(given) is i.Failed else {}


def _tool_modes(inputs: Sequence[i.Input]) -> dict[tuple[int, int], tuple[str, str]]:
    """Name and mode of the tool that each call of each answer needs, read from what happens to the call later."""
    modes: dict[tuple[int, int], tuple[str, str]] = {}
    answers, cancelled = -1, False
    for given in inputs:
        match given:
            case i.Answered():
                answers, cancelled = answers + 1, False
            case i.Cancel() | i.Dispose():
                cancelled = True
            case i.CallStarted():
                mode = "parallel" if given.parallel else "exclusive"
                modes[answers, given.index] = (mode, mode)
            case i.CallRefused():
                modes[answers, given.index] = (_UNKNOWN_TOOL, "exclusive")
            case i.CallFinished(ending=i.Returned()) if cancelled and (answers, given.index) in modes:
                mode = modes[answers, given.index][1]
                modes[answers, given.index] = (f"stubborn-{mode}", mode)
            case _:
                pass
    return modes


# --- calls ------------------------------------------------------------------------------------------------------------


def call_request(given: i.Input) -> Json | None:
    """The request by which a tester makes a call, ``None`` when the input is no call."""
    match given:
        case i.Deliver():
            return {"do": "deliver", "message": _shown(given.message), "target": given.target, "wakeup": given.wakeup}
        case i.Cancel():
            cause = "parent" if isinstance(given.cause, ByParent) else "user"
            return {"do": "cancel", "cause": cause, "keep_inbox": given.keep_inbox}
        case i.Dispose():
            return {"do": "dispose", "keep_inbox": given.keep_inbox}
        case i.BeginMaintenance():
            return {"do": "maintain"}
        case i.Reserve():
            return {"do": "reserve"}
        case i.Unreserve():
            return {"do": "release"}
        case _:
            return _inbox_request(given)


def _inbox_request(given: i.Input) -> Json | None:
    match given:
        case i.Splice():
            place = {"target": given.target, "start": given.start, "delete_count": given.delete_count}
            return {"do": "inbox", "op": "splice", **place, "inserted": [_shown(m) for m in given.inserted]}
        case i.ReplaceMessage():
            return {"do": "inbox", "op": "replace", "message_id": given.message_id, "message": _shown(given.message)}
        case i.RemoveMessage():
            return {"do": "inbox", "op": "remove", "message_id": given.message_id}
        case i.ClearInbox():
            return {"do": "inbox", "op": "clear"}
        case i.EditMessage():
            text = "".join([getattr(block, "text", "") for block in given.content])
            return {"do": "update", "message_id": given.message_id, "action": "edit", "text": text}
        case i.SteerMessage():
            return {"do": "update", "message_id": given.message_id, "action": "steer"}
        case _:
            return None


def _shown(message: UserMessage) -> Json:
    return {"id": message.id, "text": message.text}
