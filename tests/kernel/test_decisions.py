"""Where the contract had to choose: one test for each choice, on the kernel by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.test_kernel import ANSWER, FAILURE, feed, in_admission, in_request, in_tools
from tests.stage import message, note
from treadle import AgentBusy, ByUser, State
from treadle.errors import InvalidTrigger
from treadle.kernel import inputs as i
from treadle.kernel.effects import Discarded, ErrorReported, Inserted, Parked, Publish, Record, Updated
from treadle.kernel.kernel import Kernel
from treadle.session import ToolResultAdded


def told(effects: list[Any]) -> list[str]:
    """Records and notices in order: the event's or notice's name, and the message's id where there is one."""
    out: list[str] = []
    for effect in effects:
        said = effect.data if isinstance(effect, Record) else effect.notice if isinstance(effect, Publish) else None
        if said is not None:
            about = getattr(said, "message", None)
            out.append(type(said).__name__ + (f" {about.id}" if about is not None else ""))
    return out


def waking(kernel: Kernel) -> list[str]:
    return [entry.message.id for entry in (*kernel.inbox.next_step, *kernel.inbox.next_turn) if entry.waking]


def parked(effects: list[Any]) -> list[list[str]]:
    notices = [effect.notice for effect in effects if isinstance(effect, Publish)]
    return [[one.id for one in notice.messages] for notice in notices if isinstance(notice, Parked)]


@pytest.mark.rule("I3", "L3")
def test_what_an_inbox_operation_puts_into_next_turn_wakes_nothing_and_is_never_parked() -> None:
    kernel = in_admission()
    feed(kernel, i.Splice("next-turn", 0, 0, (note("q"),)))
    assert parked(feed(kernel, i.Failed(FAILURE))) == []
    assert (kernel.state, waking(kernel)) == (State.IDLE, [])


@pytest.mark.rule("D5")
def test_a_latch_that_lost_its_last_message_does_not_come_back_with_another() -> None:
    kernel = Kernel()
    feed(kernel, i.BeginMaintenance(), i.Deliver(note("a"), "next-turn", True))
    assert kernel.latched
    feed(kernel, i.RemoveMessage("a"), i.Splice("next-turn", 0, 0, (note("b"),)), i.Maintained())
    assert (kernel.latched, kernel.state) == (False, State.IDLE)


@pytest.mark.rule("C7", "D7")
def test_a_context_recorded_during_convergence_is_passive_and_not_parked() -> None:
    kernel = in_tools()
    feed(kernel, i.CallStarted(0, True), i.CallFinished(0), i.Cancel(ByUser()))
    feed(kernel, i.CallSettled(0, ToolResultAdded("c1"), (note("context"),)))
    effects = feed(kernel, i.CallDropped(1), i.Interrupted(), i.Replayed())
    assert parked(effects) == []
    assert ([entry.message.id for entry in kernel.inbox.next_step], waking(kernel)) == (["context"], [])


@pytest.mark.rule("K7", "C4", "P4")
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_call_that_was_never_started_has_its_call_in_the_log_only_under_a_cancel(cancelled: bool) -> None:
    kernel = in_tools()
    feed(kernel, i.CallStarted(0, True), *([i.Cancel(ByUser())] if cancelled else []))
    data = [effect.data for effect in feed(kernel, i.Failed(FAILURE)) if isinstance(effect, Record)]
    results = [(one.call_id, one.code) for one in data if isinstance(one, ToolResultAdded)]
    second = "ABORTED_BEFORE_DISPATCH" if cancelled else "TOOL_NOT_STARTED"
    assert results == [("c1", "TOOL_OUTCOME_UNKNOWN"), ("c2", second)]
    assert ("ToolCallStarted" in [type(one).__name__ for one in data]) is cancelled


@pytest.mark.rule("L1", "T9")
def test_a_failure_during_convergence_is_told_after_what_is_settled_and_before_the_turn_s_end() -> None:
    kernel = in_tools()
    feed(kernel, i.Cancel(ByUser()))
    said = told(feed(kernel, i.Failed(FAILURE)))
    assert said[-4:] == ["StepEnd", "ErrorReported", "TurnEnd", "StatusChanged"]
    assert "ToolResultAdded" in said[:-4]


@pytest.mark.rule("L1", "T9", "C6")
def test_a_failure_of_a_cancelled_admission_is_told_after_the_batch_that_is_kept() -> None:
    kernel = in_admission()
    feed(kernel, i.Cancel(ByUser(), keep_inbox=True))
    effects = feed(kernel, i.Failed(FAILURE))
    assert told(effects)[:3] == ["UserMessageAdded a", "ErrorReported", "TurnEnd"]
    (error,) = [one.notice for one in effects if isinstance(one, Publish) and isinstance(one.notice, ErrorReported)]
    assert (error.turn, error.step) == (1, 1)


@pytest.mark.rule("C3", "I7", "C1")
@pytest.mark.parametrize("given", [i.ClearInbox(), i.Cancel(ByUser()), i.Dispose()])
def test_two_lists_are_cleared_in_one_way_both_records_and_then_the_notices(given: i.Input) -> None:
    kernel = Kernel()
    feed(kernel, i.Deliver(note("s"), "next-step", False), i.Deliver(note("t"), "next-turn", False))
    assert told(feed(kernel, given)) == ["InboxSpliced", "InboxSpliced", "Discarded s", "Discarded t"]


@pytest.mark.rule("I4")
def test_a_splice_that_keeps_an_id_tells_an_update_only_of_a_message_that_is_another_one() -> None:
    kernel = Kernel()
    feed(kernel, *(i.Deliver(note(name), "next-turn", False) for name in "abc"))
    effects = feed(kernel, i.Splice("next-turn", 0, 3, (note("b"), message("again", id="a"), note("new"))))
    notices = [one.notice for one in effects if isinstance(one, Publish)]
    assert notices == [Discarded(note("c")), Updated(message("again", id="a")), Inserted(note("new"))]
    assert told(feed(kernel, i.Splice("next-turn", 0, 2, (message("again", id="a"), note("b"))))) == ["InboxSpliced"]


def reserved_with_waking_input() -> tuple[Kernel, list[Any]]:
    """Reserved between a convergence and its replay, with waking input that nothing latches any more."""
    kernel = in_request()
    feed(kernel, i.Deliver(note("s"), "next-step", True), i.Cancel(ByUser(), keep_inbox=True), i.Interrupted())
    return kernel, feed(kernel, i.Reserve(), i.Replayed())


@pytest.mark.rule("L3", "D8")
def test_what_is_left_behind_is_told_at_the_release_and_never_while_admission_is_reserved() -> None:
    kernel, meanwhile = reserved_with_waking_input()
    assert parked(meanwhile) == []
    assert parked(feed(kernel, i.Unreserve())) == [["s"]]


@pytest.mark.rule("L3", "D8")
def test_a_release_that_opens_the_latched_turn_tells_of_nothing_parked() -> None:
    kernel, _ = reserved_with_waking_input()
    effects = feed(kernel, i.Deliver(note("t"), "next-turn", True), i.Unreserve())
    assert (parked(effects), kernel.state) == ([], State.ADMISSION)


@pytest.mark.rule("M1", "D8")
def test_nothing_can_be_reserved_while_a_replay_is_due() -> None:
    kernel = in_request()
    feed(kernel, i.Cancel(ByUser()), i.Deliver(note("b"), "next-turn", True), i.Interrupted())
    for given in (i.Reserve(), i.BeginMaintenance()):
        with pytest.raises(AgentBusy):
            kernel.receive(given)
    feed(kernel, i.Replayed())
    assert kernel.state is State.ADMISSION


def at_turn_end() -> Kernel:
    """A turn that has nothing left to do, while a message waits for the next one; admission is reserved ahead."""
    kernel = in_request()
    feed(kernel, i.Deliver(note("t"), "next-turn", True), i.Reserve(ahead=True), i.Answered(ANSWER), i.Proceeded())
    return kernel


@pytest.mark.rule("D8")
def test_a_reservation_ahead_lets_the_turn_end_and_no_further_one_opens_before_the_release() -> None:
    kernel = at_turn_end()
    feed(kernel, i.Stopped())
    assert (kernel.state, kernel.latched, waking(kernel)) == (State.IDLE, True, ["t"])
    assert not kernel.quiet
    feed(kernel, i.Unreserve())
    assert (kernel.state, waking(kernel)) == (State.ADMISSION, [])


@pytest.mark.rule("D8")
def test_a_reservation_ahead_that_is_released_before_the_turn_ends_holds_nothing_back() -> None:
    kernel = at_turn_end()
    feed(kernel, i.Unreserve(), i.Stopped())
    assert (kernel.state, waking(kernel)) == (State.ADMISSION, [])


@pytest.mark.rule("D8")
def test_what_a_turn_held_ahead_leaves_is_kept_by_a_dispose() -> None:
    kernel = at_turn_end()
    effects = feed(kernel, i.Stopped(), i.Dispose(keep_inbox=True))
    assert (kernel.state, waking(kernel)) == (State.DISPOSED, ["t"])
    assert not [one for one in told(effects) if one.startswith(("TurnStart", "InboxSpliced", "Discarded"))]


@pytest.mark.rule("D8")
def test_admission_is_reserved_ahead_once_and_of_a_turn_alone() -> None:
    reserved, maintaining, leaving, plain = in_request(), Kernel(), in_request(), in_request()
    feed(reserved, i.Reserve(ahead=True))
    feed(maintaining, i.BeginMaintenance())
    feed(leaving, i.Dispose())
    for kernel in (reserved, maintaining, leaving):
        with pytest.raises(AgentBusy):
            kernel.receive(i.Reserve(ahead=True))
    with pytest.raises(AgentBusy):
        plain.receive(i.Reserve())
    idle = Kernel()
    feed(idle, i.Reserve(ahead=True))
    assert idle.reserved


@pytest.mark.rule("M3")
def test_a_maintenance_task_that_failed_is_over_like_any_other() -> None:
    kernel = Kernel()
    feed(kernel, i.BeginMaintenance())
    with pytest.raises(InvalidTrigger):
        kernel.receive(i.Failed(FAILURE))
    feed(kernel, i.Maintained())
    assert kernel.state is State.IDLE
