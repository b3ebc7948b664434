"""What no caller may send: the kernel refuses it, says why, and is as it was (contract L1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import asdict

from tests.kernel.test_kernel import ANSWER, CALLS, feed, in_admission, in_request, in_tools
from tests.stage import message, note
from treadle import ByDisposal, ByUser, MisuseError
from treadle.errors import DuplicateMessage, InvalidTrigger
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.session import AssistantAttempt, ToolResultAdded

FIRST, SECOND = ToolResultAdded("c1"), ToolResultAdded("c2")


def known(kernel: Kernel) -> dict[str, Any]:
    """All that the kernel knows, as values."""
    return {name: value for name, value in asdict(kernel).items() if name not in ("lifecycle", "out")}


def after(start: Callable[[], Kernel], *inputs: i.Input) -> Kernel:
    kernel = start()
    feed(kernel, *inputs)
    return kernel


def in_step() -> Kernel:
    return after(in_admission, i.Entered((note("a"),)))


def converging() -> Kernel:
    return after(in_tools, i.Cancel(ByUser()))


def next_admission() -> Kernel:
    """A second step is proposed with ``b``; ``a`` is recorded, ``p`` is pending."""
    return after(
        in_request,
        *(i.Deliver(note("b"), "next-step", True), i.Deliver(note("p"), "next-turn", True)),
        *(i.Answered(ANSWER), i.Proceeded()),
    )


ONE_STARTED = (i.CallStarted(0, True),)
ONE_FINISHED = (*ONE_STARTED, i.CallFinished(0))

WRONG: dict[str, tuple[Kernel, i.Input, type[Exception], str]] = {
    "a drop of a finished call": (after(in_tools, *ONE_FINISHED, i.Cancel(ByUser())), i.CallDropped(0), InvalidTrigger, "K6"),
    "a drop of a running call": (after(in_tools, *ONE_STARTED, i.Cancel(ByUser())), i.CallDropped(0), InvalidTrigger, "K5"),
    "a drop of a settled call": (after(converging, i.CallDropped(0)), i.CallDropped(0), InvalidTrigger, "K5"),
    "a drop out of order": (converging(), i.CallDropped(1), InvalidTrigger, "K5"),
    "a drop without a cancel": (in_tools(), i.CallDropped(0), InvalidTrigger, "C4"),
    "a release of nothing": (Kernel(), i.Unreserve(), InvalidTrigger, "D8"),
    "a second release": (after(Kernel, i.Reserve(), i.Unreserve()), i.Unreserve(), InvalidTrigger, "D8"),
    "a release of what a dispose dropped": (after(Kernel, i.Reserve(), i.Dispose()), i.Unreserve(), InvalidTrigger, "D8"),
    "a release before a replay": (
        after(Kernel, *(i.BeginMaintenance(), i.Cancel(ByUser()), i.Deliver(note("a"), "next-turn", True), i.Maintained())),
        i.Unreserve(),
        InvalidTrigger,
        "D8",
    ),
    "a truncated answer with calls": (in_request(), i.Answered(ANSWER, CALLS, truncated=True), InvalidTrigger, "T6"),
    "an answer to what was not prepared": (in_step(), i.Answered(ANSWER), InvalidTrigger, "T1"),
    "an attempt at what was not prepared": (in_step(), i.AttemptRecorded(AssistantAttempt("a")), InvalidTrigger, "T1"),
    "a batch with a pending message": (next_admission(), i.Entered((note("b"), note("p"))), DuplicateMessage, "I1"),
    "a batch with a message twice": (next_admission(), i.Entered((note("b"), note("b"))), DuplicateMessage, "I1"),
    "a batch with a recorded message": (next_admission(), i.Entered((note("a"), note("b"))), DuplicateMessage, "I1"),
    "a batch of the wrong kind under a cancel": (
        after(next_admission, i.Cancel(ByUser())), i.Entered((note("a"),)), DuplicateMessage, "I1",
    ),
    "a companion that was not claimed": (in_admission(), i.Refused("no", (note("z"),)), InvalidTrigger, "H10"),
    "a companion kept twice": (in_admission(), i.Refused("no", (note("a"), note("a"))), InvalidTrigger, "H10"),
    "a cancel by disposal": (in_request(), i.Cancel(ByDisposal()), MisuseError, "C1"),
    "a cancel by disposal while idle": (Kernel(), i.Cancel(ByDisposal(), keep_inbox=True), MisuseError, "C1"),
    "the result of another call": (after(in_tools, *ONE_FINISHED), i.CallSettled(0, SECOND), InvalidTrigger, "K5"),
    "a result out of order": (after(in_tools, i.CallRefused(0), i.CallRefused(1)), i.CallSettled(1, SECOND), InvalidTrigger, "K5"),
    "a result of a running call": (after(in_tools, *ONE_STARTED), i.CallSettled(0, FIRST), InvalidTrigger, "K5"),
    "a result of no call": (in_tools(), i.CallSettled(2, FIRST), InvalidTrigger, "K5"),
    "the end of no call": (in_tools(), i.CallFinished(2), InvalidTrigger, "K5"),
    "the end of a call counted from behind": (after(in_tools, *ONE_STARTED), i.CallFinished(-2), InvalidTrigger, "K5"),
    "a refusal out of order": (in_tools(), i.CallRefused(1), InvalidTrigger, "K5"),
    "a start while a result is due": (after(in_tools, *ONE_FINISHED), i.CallStarted(1, True), InvalidTrigger, "K5"),
    "a failed maintenance": (after(Kernel, i.BeginMaintenance()), i.Failed(None), InvalidTrigger, "L7"),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.rule("L1", "K5", "K6", "C1", "C4", "D8", "H10", "I1", "M3", "T1", "T6")
@pytest.mark.parametrize("name", WRONG)
def test_what_no_caller_may_send_is_refused_and_changes_nothing(name: str) -> None:
    start, given, error, rule = WRONG[name]
    kernel = start.copy()
    before = known(kernel)
    with pytest.raises(error, match=rule):
        kernel.receive(given)
    assert known(kernel) == before


@pytest.mark.rule("T2", "H10")
def test_a_batch_may_be_changed_reordered_and_added_to() -> None:
    kernel = next_admission()
    feed(kernel, i.Entered((note("new"), message("changed", id="b"))))
    assert [message.id for message in kernel.accepted] == ["new", "b"]
