"""The walk read from a log is the walk the kernel took, as far as the log can tell."""

from collections.abc import Callable
from typing import Any

import pytest

from treadle import (
    AssistantMessage,
    ByHook,
    ByUser,
    Completed,
    Event,
    Failure,
    Interrupted,
    State,
    Text,
    ToolCall,
    UserMessage,
)
from treadle.kernel import inputs as i
from treadle.kernel.effects import Proceed, Record, Reread
from treadle.kernel.kernel import Kernel
from treadle.kernel.lifecycle import Stateful
from treadle.models import HookSource, Source
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    EndSeed,
    StepEnd,
    StepStart,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
)
from treadle.testing import TABLE, Lifecycle, Row, Trigger
from treadle.words.events import type_of
from treadle.words.messages import USER
from treadle_diagrams import passages_of, svg, walk_of

S, T = State, Trigger
FAILURE = Failure("it broke")


class Recording(Lifecycle):
    """The lifecycle, keeping what was fired."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[tuple[State, Trigger]] = []

    def fire(self, model: Stateful, trigger: Trigger) -> Row:
        row = super().fire(model, trigger)
        self.taken.append((row.source, row.trigger))
        return row


class Rig:
    """A kernel with a log; what it is fed takes ten milliseconds each."""

    def __init__(self, max_steps: int | None = None) -> None:
        self.lifecycle = Recording()
        self.kernel = Kernel(max_steps=max_steps, lifecycle=self.lifecycle)
        self.log: list[Event] = []
        self.now = 1000
        self.sent = 0

    def feed(self, *inputs: i.Input) -> "Rig":
        for given in inputs:
            self.now += 10
            self._perform(given)
        return self

    def _perform(self, given: i.Input) -> None:
        for effect in self.kernel.receive(given):
            match effect:
                case Record():
                    self.log.append(Event(type_of(effect.data).tag, len(self.log), self.now, effect.data))
                case Proceed():
                    self._perform(i.Proceeded())
                case Reread():
                    self._perform(i.Replayed())
                case _:
                    pass

    def message(self, source: Source) -> UserMessage:
        self.sent += 1
        return UserMessage(f"m{self.sent}", (Text("hello"),), source)

    def send(self, target: Any = "next-turn", *, wakeup: bool = True, source: Source = USER) -> "Rig":
        return self.feed(i.Deliver(self.message(source), target, wakeup))

    def steer(self) -> "Rig":
        return self.send("next-step")

    def enter(self) -> "Rig":
        return self.feed(i.Entered(tuple(self.kernel.claimed)))

    def answer(self, *calls: str) -> "Rig":
        asked = tuple(ToolCall(f"c{len(self.log)}{name}", name) for name in calls)
        message = AssistantMessage((Text("yes"), *asked))
        return self.feed(i.Prepared(), i.Answered(AssistantMessageAdded(message, "a"), asked))

    def run_tool(self, *, code: str | None = None, concludes: bool = False) -> "Rig":
        schedule = self.kernel.schedule
        assert schedule is not None
        index = schedule.next_settle
        result = ToolResultAdded(schedule.calls[index].call_id, (Text("done"),), code is not None, code, concludes)
        return self.feed(i.CallStarted(index, parallel=False), i.CallFinished(index), i.CallSettled(index, result))

    def cancel(self, *, keep: bool = False) -> "Rig":
        return self.feed(i.Cancel(ByUser(), keep))

    def cut_answer(self) -> "Rig":
        """A cancelled request: what arrived is recorded, and it settles."""
        cut = AssistantMessageAdded(AssistantMessage((Text("ye"),)), "a", interrupted=True)
        return self.feed(i.AttemptRecorded(cut), i.Interrupted())


SCENES: dict[str, Callable[[Rig], Rig]] = {
    "one step": lambda rig: rig.send().enter().answer().feed(i.Stopped()),
    "two turns, apart": lambda rig: (
        rig.send().enter().answer().feed(i.Stopped()).send().enter().answer().feed(i.Stopped())
    ),
    "the next turn is waiting": lambda rig: (
        rig.send().send().enter().answer().feed(i.Stopped()).enter().answer().feed(i.Stopped())
    ),
    "tools": lambda rig: (
        rig.send()
        .enter()
        .answer("x", "y")
        .run_tool()
        .run_tool()
        .feed(i.ToolsSettled())
        .enter()
        .answer()
        .feed(i.Stopped())
    ),
    "a tool concludes": lambda rig: (
        rig.send().enter().answer("x").run_tool(concludes=True).feed(i.ToolsSettled(), i.Stopped())
    ),
    "steering in a step": lambda rig: rig.send().enter().steer().answer().enter().answer().feed(i.Stopped()),
    "steering in admission": lambda rig: rig.send().steer().enter().answer().enter().answer().feed(i.Stopped()),
    "steering with tools": lambda rig: (
        rig.send().enter().answer("x").steer().run_tool().feed(i.ToolsSettled()).enter().answer().feed(i.Stopped())
    ),
    "an objection": lambda rig: (
        rig.send().enter().answer().steer().feed(i.Stopped()).enter().answer().feed(i.Stopped())
    ),
    "a hook injects": lambda rig: (
        rig.send().enter().send("next-step", wakeup=False, source=HookSource("h")).answer().feed(i.Stopped())
    ),
    "a queued message is steered": lambda rig: (
        rig.send().enter().send().feed(i.SteerMessage("m2")).answer().enter().answer().feed(i.Stopped())
    ),
    "an emptied batch": lambda rig: rig.send().feed(i.Entered(())),
    "an emptied batch with a next turn": lambda rig: (
        rig.send().send().feed(i.Entered(())).enter().answer().feed(i.Stopped())
    ),
    "an emptied batch with steering": lambda rig: (
        rig.send().steer().feed(i.Entered(())).enter().answer().feed(i.Stopped())
    ),
    "refused": lambda rig: rig.send().feed(i.Refused()),
    "failed in admission": lambda rig: rig.send().feed(i.Failed(FAILURE)),
    "failed in the request": lambda rig: (
        rig.send().enter().feed(i.Prepared(), i.AttemptRecorded(AssistantAttempt("a")), i.Failed(FAILURE))
    ),
    "failed in the next admission": lambda rig: (
        rig.send().enter().answer("x").run_tool().feed(i.ToolsSettled(), i.Failed(FAILURE))
    ),
    "failed in turn_stopping": lambda rig: rig.send().enter().answer().feed(i.Failed(FAILURE)),
    "failed in the tools": lambda rig: rig.send().enter().answer("x", "y").feed(i.Failed(FAILURE)),
    "cancelled in admission": lambda rig: rig.send().cancel().feed(i.Interrupted()),
    "cancelled in the answer": lambda rig: rig.send().enter().feed(i.Prepared()).cancel().cut_answer(),
    "cancelled before the answer": lambda rig: rig.send().enter().cancel().feed(i.Interrupted()),
    "cancelled before a tool": lambda rig: (
        rig.send().enter().answer("x").cancel().feed(i.CallDropped(0), i.ToolsSettled())
    ),
    "cancelled in turn_stopping": lambda rig: rig.send().enter().answer().cancel().feed(i.Interrupted()),
    "cancelled in the next admission": lambda rig: (
        rig.send().enter().answer("x").run_tool().feed(i.ToolsSettled()).cancel().feed(i.Interrupted())
    ),
    "cancelled by a hook, and woken later": lambda rig: (
        rig.send().enter().feed(i.Cancel(ByHook("no")), i.Interrupted()).send().enter().answer().feed(i.Stopped())
    ),
    "a wake during convergence": lambda rig: (
        rig.send().enter().feed(i.Prepared()).cancel().send().cut_answer().enter().answer().feed(i.Stopped())
    ),
    "a wake late in convergence": lambda rig: (
        rig.send()
        .enter()
        .feed(i.Prepared())
        .cancel()
        .feed(i.AttemptRecorded(AssistantAttempt("a", interrupted=True)))
        .send()
        .feed(i.Interrupted())
        .enter()
        .answer()
        .feed(i.Stopped())
    ),
    "disposed in a step": lambda rig: rig.send().enter().feed(i.Prepared(), i.Dispose()).cut_answer(),
    "disposed in turn_stopping": lambda rig: rig.send().enter().answer().feed(i.Dispose(), i.Interrupted()),
    "disposed in admission": lambda rig: rig.send().feed(i.Dispose(), i.Interrupted()),
}


@pytest.mark.parametrize("scene", SCENES)
def test_the_log_tells_exactly_the_walk_of(scene: str):
    rig = SCENES[scene](Rig())
    assert [passage[:2] for passage in passages_of(rig.log)] == rig.lifecycle.taken


@pytest.mark.rule("T11")
@pytest.mark.parametrize("steered", [True, False], ids=["steered", "with tools"])
def test_a_turn_that_reached_its_step_limit_failed_in_the_step(steered: bool):
    rig = Rig(max_steps=1).send().enter()
    rig = rig.steer().answer() if steered else rig.answer("x").run_tool().feed(i.ToolsSettled())
    assert rig.lifecycle.taken[-1] == (S.STEP, T.FAIL)
    assert [passage[:2] for passage in passages_of(rig.log)] == rig.lifecycle.taken


def test_what_leaves_no_fact_is_missing_and_everything_else_is_there():
    rig = Rig().feed(i.BeginMaintenance()).send().feed(i.Maintained()).enter().answer().feed(i.Stopped())
    rig.feed(i.BeginMaintenance(), i.Maintained(), i.Dispose())
    assert [passage[1] for passage in passages_of(rig.log)] == [T.WAKE, T.ENTER, T.REST, T.CLOSE]


def test_every_row_is_told_by_some_log_but_those_that_leave_no_fact():
    told = {passage[:2] for scene in SCENES.values() for passage in passages_of(scene(Rig()).log)}
    silent = {(S.IDLE, T.LATCH), (S.IDLE, T.MAINTAIN), (S.IDLE, T.DISPOSE), (S.CANCEL_CONVERGENCE, T.DISPOSE)}
    silent |= {(row.source, row.trigger) for row in TABLE if row.source is S.MAINTENANCE}
    assert told == {(row.source, row.trigger) for row in TABLE} - silent


def test_times_are_those_of_the_events():
    rig = SCENES["one step"](Rig())
    walk = walk_of(rig.log)
    assert walk.visits["IDLE", "WAKE"].first == 1010
    assert walk.visits["ADMISSION", "ENTER"].spent == 10
    assert walk.visits["STEP", "REST"].spent == 20


def test_what_a_fork_inherited_is_not_its_own_walk():
    log = SCENES["tools"](Rig()).log
    seed = Event("session/end-seed", len(log), 5000, EndSeed(len(log)))
    assert passages_of([*log, seed]) == ()


def test_a_turn_that_repair_closed_has_no_last_row_and_the_log_goes_on():
    log = SCENES["one step"](Rig()).log
    cut = [entry for entry in log if not isinstance(entry.data, (StepEnd, TurnEnd))]
    closed = [StepEnd(1, 1), TurnEnd(1, Interrupted())]
    repaired = [*cut, *[Event(type_of(data).tag, 90, 9000, data) for data in closed]]
    triggers = [passage.trigger for passage in passages_of([*repaired, *log])]
    assert triggers == [T.WAKE, T.ENTER, T.WAKE, T.ENTER, T.REST, T.CLOSE]


@pytest.mark.slow
def test_every_prefix_of_a_log_gives_a_walk_that_can_be_drawn():
    for scene in SCENES.values():
        log = scene(Rig()).log
        for length in range(len(log) + 1):
            svg(walked=walk_of(log[:length]))


def test_events_in_an_order_that_no_lifecycle_writes_give_no_false_rows():
    odd = [StepEnd(1, 1), StepStart(1, 1), TurnEnd(1, Completed()), TurnStart(2), TurnStart(3), StepStart(3, 1)]
    events = [Event(type_of(data).tag, seq, seq, data) for seq, data in enumerate(odd)]
    assert [passage[:2] for passage in passages_of(events)] == [(S.IDLE, T.REPLAY), (S.ADMISSION, T.ENTER)]


def test_events_of_plugins_between_those_of_the_core_change_nothing():
    for scene in SCENES.values():
        log = scene(Rig()).log
        noisy = [event for entry in log for event in (Event("my/own", 0, 0, {}, ignorable=True), entry)]
        assert passages_of(noisy) == passages_of(log)
