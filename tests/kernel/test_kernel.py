"""The kernel by itself: what it refuses, and that it can be copied (contract §2 L1, L7; design: the one idea)."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.stage import note
from treadle import AssistantMessage, ByUser, Failure, MisuseError, State, ToolCall
from treadle.errors import InvalidTrigger
from treadle.kernel import inputs as i
from treadle.kernel.effects import PROCEED, Admit, Begin, Record, Request, Stop
from treadle.kernel.kernel import Kernel
from treadle.session import AssistantAttempt, AssistantMessageAdded, ToolResultAdded, TurnEnd

ANSWER = AssistantMessageAdded(AssistantMessage(()), "a")
CALLS = (ToolCall("c1", "t"), ToolCall("c2", "t"))
FAILURE = Failure("no")


def feed(kernel: Kernel, *inputs: i.Input) -> list[Any]:
    return [effect for given in inputs for effect in kernel.receive(given)]


def in_admission() -> Kernel:
    kernel = Kernel()
    feed(kernel, i.Deliver(note("a"), "next-turn", True))
    return kernel


def in_request() -> Kernel:
    kernel = in_admission()
    feed(kernel, i.Entered((note("a"),)), i.Prepared())
    return kernel


def in_tools() -> Kernel:
    kernel = in_request()
    feed(kernel, i.Answered(ANSWER, CALLS))
    return kernel


def in_stopping() -> Kernel:
    kernel = in_request()
    feed(kernel, i.Answered(ANSWER), i.Proceeded())
    return kernel


def in_recovery() -> Kernel:
    kernel = in_request()
    feed(kernel, i.AttemptFailed(FAILURE))
    return kernel


def in_maintenance() -> Kernel:
    kernel = Kernel()
    feed(kernel, i.BeginMaintenance())
    return kernel


def between_commits() -> Kernel:
    kernel = in_request()
    feed(kernel, i.Answered(ANSWER))
    return kernel


PLACES = {
    "idle": Kernel,
    "admission": in_admission,
    "request": in_request,
    "tools": in_tools,
    "stopping": in_stopping,
    "recovery": in_recovery,
    "maintenance": in_maintenance,
    "between commits": between_commits,
}
OUTCOMES: dict[str, tuple[i.Input, set[str]]] = {
    "Entered": (i.Entered(()), {"admission"}),
    "Refused": (i.Refused(), {"admission"}),
    "Answered": (i.Answered(ANSWER), {"request"}),
    "AttemptFailed": (i.AttemptFailed(FAILURE), {"request"}),
    "Retried": (i.Retried(), {"recovery"}),
    "ToolsSettled": (i.ToolsSettled(), set()),
    "Stopped": (i.Stopped(), {"stopping"}),
    "Maintained": (i.Maintained(), {"maintenance"}),
    "Failed": (i.Failed(FAILURE), {"admission", "request", "tools", "stopping", "recovery"}),
    "Interrupted": (i.Interrupted(), set()),
    "Proceeded": (i.Proceeded(), {"between commits"}),
    "Prepared": (i.Prepared(), {"request"}),
    "AttemptRecorded": (i.AttemptRecorded(AssistantAttempt("a")), {"request"}),
    "CallStarted": (i.CallStarted(0, True), {"tools"}),
    "CallRefused": (i.CallRefused(0), {"tools"}),
    "CallFinished": (i.CallFinished(0), set()),
    "CallSettled": (i.CallSettled(0, ToolResultAdded("c1")), {"tools"}),
    "CallDropped": (i.CallDropped(0), set()),
}


@pytest.mark.rule("L1", "L7")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", OUTCOMES)
def test_an_outcome_that_is_not_owed_is_refused_and_changes_nothing(name: str, place: str) -> None:
    given, fits = OUTCOMES[name]
    kernel = PLACES[place]()
    before = kernel.state, kernel.owed, kernel.turn_open, kernel.step_open
    if place in fits:
        kernel.receive(given)
        return
    with pytest.raises(InvalidTrigger):
        kernel.receive(given)
    assert (kernel.state, kernel.owed, kernel.turn_open, kernel.step_open) == before


@pytest.mark.rule("L7")
def test_every_input_is_one_of_the_closed_union() -> None:
    assert {type(given).__name__ for given, _ in OUTCOMES.values()} | {
        "Deliver",
        "Splice",
        "ReplaceMessage",
        "RemoveMessage",
        "ClearInbox",
        "EditMessage",
        "SteerMessage",
        "Cancel",
        "BeginMaintenance",
        "Reserve",
        "Unreserve",
        "Dispose",
        "Replayed",
    } == {kind.__name__ for kind in get_args(i.Input)}


@pytest.mark.rule("L7")
def test_a_second_operation_beside_one_that_is_owed_is_refused() -> None:
    kernel = in_admission()
    with pytest.raises(InvalidTrigger, match="second operation beside"):
        kernel.begin(Stop(1))


@pytest.mark.rule("L7")
@pytest.mark.parametrize(
    ("place", "operation"),
    [(in_admission, Admit), (in_request, Request), (in_stopping, Stop)],
)
def test_at_most_one_operation_is_owed_and_it_is_begun_once(place: Any, operation: type) -> None:
    kernel = place()
    assert isinstance(kernel.owed, operation)
    assert between_commits().owed is PROCEED


@pytest.mark.rule("I9")
def test_editing_or_steering_what_is_not_queued_is_a_misuse_of_the_kernel() -> None:
    kernel = in_admission()
    for given in (i.EditMessage("none", ()), i.SteerMessage("none")):
        with pytest.raises(MisuseError, match="no next-turn entry"):
            kernel.receive(given)
    idle = Kernel()
    feed(idle, i.Deliver(note("q"), "next-turn", False))
    with pytest.raises(MisuseError, match="no open turn accepts steering"):
        idle.receive(i.SteerMessage("q"))


@pytest.mark.rule("K6", "C4")
def test_no_call_starts_while_the_turn_is_being_cancelled() -> None:
    kernel = in_tools()
    feed(kernel, i.Cancel(ByUser()))
    with pytest.raises(InvalidTrigger, match="K6"):
        kernel.receive(i.CallStarted(0, False))
    effects = feed(kernel, i.CallDropped(0), i.CallDropped(1), i.Interrupted())
    codes = [effect.data.code for effect in effects if isinstance(effect, Record) and hasattr(effect.data, "code")]
    assert codes == ["ABORTED_BEFORE_DISPATCH", "ABORTED_BEFORE_DISPATCH"]
    assert kernel.state is State.IDLE


@pytest.mark.rule("C6", "T1")
def test_what_was_prepared_before_a_cancel_is_not_recorded_after_it() -> None:
    kernel = in_admission()
    feed(kernel, i.Entered((note("a"),)), i.Cancel(ByUser()))
    assert kernel.receive(i.Prepared()) == ()


@pytest.mark.rule("O4", "L9")
def test_a_second_disposal_and_a_replay_after_the_end_do_nothing() -> None:
    kernel = Kernel()
    feed(kernel, i.Dispose())
    assert kernel.state is State.DISPOSED
    assert feed(kernel, i.Dispose(), i.Replayed(), i.Cancel(ByUser())) == []


@pytest.mark.rule("L1", "C2")
def test_a_disposal_during_convergence_keeps_the_first_cause() -> None:
    kernel = in_request()
    feed(kernel, i.Cancel(ByUser()), i.Dispose())
    effects = feed(kernel, i.Interrupted())
    end = next(effect.data for effect in effects if isinstance(effect, Record) and isinstance(effect.data, TurnEnd))
    assert end.reason.reason == ByUser()  # type: ignore[attr-defined]
    assert kernel.state is State.DISPOSED


def test_a_copy_goes_its_own_way() -> None:
    kernel = in_tools()
    feed(kernel, i.Deliver(note("s"), "next-step", True))
    twin = kernel.copy()
    feed(twin, i.CallStarted(0, False), i.RemoveMessage("s"), i.Deliver(note("t"), "next-turn", False))
    assert (list(kernel.inbox.ids), list(twin.inbox.ids)) == (["s"], ["t"])
    assert kernel.schedule is not None
    assert twin.schedule is not None
    assert (kernel.schedule.running, twin.schedule.running) == (0, 1)
    third = twin.copy()
    feed(third, i.CallFinished(0), i.CallSettled(0, ToolResultAdded("c1")))
    assert third.copy().schedule.next_settle == 1  # type: ignore[union-attr]
    assert not any(isinstance(effect, Begin) for effect in kernel.receive(i.ClearInbox()))
    assert in_admission().copy().schedule is None


@pytest.mark.rule("C4", "K6")
@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        (i.RETURNED, None, ""),
        (i.LetThrough(started=True), "ABORTED", "It may have taken effect in part"),
        (i.LetThrough(started=False), "ABORTED_BEFORE_DISPATCH", "Nothing was done"),
        (i.TimedOut(1.5), "TOOL_TIMEOUT", "stopped after 1.5 s"),
    ],
)
def test_which_result_stands_for_a_body_follows_from_how_it_ended(
    ending: i.Ending, code: str | None, said: str, cancelled: bool
) -> None:
    kernel = in_tools()
    feed(kernel, i.CallStarted(0, False), *([i.Cancel(ByUser())] if cancelled else []))
    assert feed(kernel, i.CallFinished(0, ending)) == []
    assert kernel.schedule is not None
    chosen = kernel.schedule.stand_ins.get(0)
    if code is None:
        assert chosen is None
        return
    assert chosen is not None
    assert (chosen.call_id, chosen.is_error, chosen.code) == (kernel.schedule.calls[0].call_id, True, code)
    assert said in chosen.content[0].text  # type: ignore[union-attr]
    assert kernel.copy().schedule.stand_ins == {0: chosen}  # type: ignore[union-attr]


@pytest.mark.rule("C4", "K7")
def test_a_fault_while_tools_converge_still_answers_every_call() -> None:
    kernel = in_tools()
    feed(kernel, i.CallStarted(0, True), i.Cancel(ByUser()))
    effects = feed(kernel, i.Failed(FAILURE))
    codes = [effect.data.code for effect in effects if isinstance(effect, Record) and hasattr(effect.data, "code")]
    assert codes == ["TOOL_OUTCOME_UNKNOWN", "ABORTED_BEFORE_DISPATCH"]
    assert kernel.state is State.IDLE
