"""What closes a log that ends inside a turn, event by event, and what its agent goes on with (P4, I8, L4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from treadle import (
    AssistantMessage,
    Completed,
    Interrupted,
    MisuseError,
    Session,
    SessionCorrupt,
    Text,
    ToolCall,
    UserMessage,
)
from treadle.checks import closed_session, seeded_session
from treadle.kernel.missing_results import TEXTS
from treadle.models import CallConfig
from treadle.session import (
    AssistantMessageAdded,
    Event,
    InboxSpliced,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    StoredSession,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
    encode_event,
    new_header,
    repair,
)
from treadle.session.repair import EndOfLog, at_rest, end_of_log

ONE, TWO, THREE = (UserMessage(name, (Text(name),)) for name in ("one", "two", "three"))


def recorded(*data: Any) -> Sequence[Event]:
    session = Session(new_header("s", "/work", 1))
    for each in data:
        session.commit(each)
    return session.events


def put(*messages: UserMessage, target: Any = "next-turn", at: int = 0) -> InboxSpliced:
    return InboxSpliced(target, at, 0, messages)


def took(count: int = 1, target: Any = "next-turn") -> InboxSpliced:
    return InboxSpliced(target, 0, count)


def asked(*calls: str) -> AssistantMessageAdded:
    return AssistantMessageAdded(AssistantMessage(tuple(ToolCall(call, "t", "{}") for call in calls), "m"), "a1")


OPEN = (put(ONE), TurnStart(1), took())
STEP = (*OPEN, StepStart(1, 1, ("one",)))
SAID = (*STEP, UserMessageAdded(ONE))
ENDED = (*SAID, asked(), StepEnd(1, 1), TurnEnd(1, Completed()))
DONE = [StepEnd(1, 1), TurnEnd(1, Interrupted())]


def unknown(call: str) -> ToolResultAdded:
    return ToolResultAdded(call, (Text(TEXTS["TOOL_OUTCOME_UNKNOWN"]),), True, "TOOL_OUTCOME_UNKNOWN")


def not_started(call: str) -> ToolResultAdded:
    return ToolResultAdded(call, (Text(TEXTS["TOOL_NOT_STARTED"]),), True, "TOOL_NOT_STARTED")


@pytest.mark.rule("P4")
@pytest.mark.parametrize(
    ("data", "closing"),
    [
        ((), []),
        ((put(ONE),), []),
        (ENDED, []),
        ((*ENDED, put(TWO)), []),
        ((TurnStart(1),), [TurnEnd(1, Interrupted())]),
        (OPEN, [UserMessageAdded(ONE), TurnEnd(1, Interrupted())]),
        ((*OPEN, UserMessageAdded(ONE)), [TurnEnd(1, Interrupted())]),
        # a message put back is pending again and enters no history
        ((*OPEN, put(ONE)), [TurnEnd(1, Interrupted())]),
        # one that was cancelled is gone
        ((put(ONE), TurnStart(1), InboxSpliced("next-turn", 0, 1, (), "canceled")), [TurnEnd(1, Interrupted())]),
        (STEP, [UserMessageAdded(ONE), *DONE]),
        (SAID, DONE),
        # what a step left out is decided, and gone
        ((*OPEN, StepStart(1, 1)), DONE),
        # an amended message is recorded as it was amended
        ((*OPEN, StepStart(1, 1, ("one",), (UserMessage("one", ()),))), [UserMessageAdded(UserMessage("one", ())), *DONE]),
        ((*OPEN, StepStart(1, 1, ("one", "strange"))), [UserMessageAdded(ONE), *DONE]),
        # between two steps no step is open, and an ended step owes nothing
        ((*SAID, asked(), StepEnd(1, 1)), [TurnEnd(1, Interrupted())]),
        ((*STEP, StepEnd(1, 1)), [TurnEnd(1, Interrupted())]),
        # results: of calls that were dispatched nobody knows, the others were not started
        ((*SAID, asked("a", "b"), ToolCallStarted("a", "t")), [unknown("a"), not_started("b"), *DONE]),
        (
            (*SAID, asked("a", "b"), ToolCallStarted("a", "t"), ToolResultAdded("a"), ToolCallStarted("b", "t")),
            [unknown("b"), *DONE],
        ),
        ((*SAID, asked("a"), ToolCallStarted("a", "t"), ToolResultAdded("a")), DONE),
        # a result of a call that nobody asked for settles nothing
        ((*SAID, asked("a"), ToolResultAdded("z")), [not_started("a"), *DONE]),
        # results before the messages that a step owes, then claims that no step decided about
        (
            (put(ONE, TWO), TurnStart(1), took(), StepStart(1, 1, ("one",)), asked("a"), took()),
            [not_started("a"), UserMessageAdded(ONE), StepEnd(1, 1), UserMessageAdded(TWO), TurnEnd(1, Interrupted())],
        ),
        # what an answer of the step before asked for is settled; a dispatch counts for its own answer only
        (
            (*SAID, asked("a"), ToolCallStarted("a", "t"), ToolResultAdded("a"), StepEnd(1, 1), StepStart(1, 2), asked("a")),
            [not_started("a"), StepEnd(1, 2), TurnEnd(1, Interrupted())],
        ),
        (
            (*SAID, asked("a"), StepEnd(1, 1), StepStart(1, 2)),
            [StepEnd(1, 2), TurnEnd(1, Interrupted())],
        ),
        # only the last turn can be open
        ((*ENDED, put(TWO), TurnStart(2), took()), [UserMessageAdded(TWO), TurnEnd(2, Interrupted())]),
    ],
)  # fmt: skip
def test_a_turn_that_was_cut_off_is_closed_by(data: tuple[Any, ...], closing: list[Any]) -> None:
    events = recorded(*data)
    assert repair(events) == closing
    assert repair(recorded(*data, *closing)) == []


@pytest.mark.rule("I8", "L4")
@pytest.mark.parametrize(
    ("data", "turn", "pending"),
    [
        ((), 0, ([], [])),
        ((put(ONE), put(TWO, target="next-step")), 0, (["one"], ["two"])),
        ((put(ONE, TWO), took()), 0, (["two"], [])),
        (ENDED, 1, ([], [])),
        ((*ENDED, put(TWO)), 1, (["two"], [])),
        ((*ENDED, TurnStart(2), put(TWO)), 2, (["two"], [])),
        ((put(ONE, THREE), TurnStart(1), took(), put(TWO, target="next-step")), 1, (["three"], ["two"])),
        ((TurnStart(3), TurnEnd(3, Completed()), TurnStart(2), TurnEnd(2, Completed())), 3, ([], [])),
        ((TurnStart(3), TurnEnd(3, Completed()), TurnStart(2)), 3, ([], [])),
    ],
)
def test_an_agent_goes_on_with(data: tuple[Any, ...], turn: int, pending: tuple[list[str], list[str]]) -> None:
    end = end_of_log(recorded(*data))
    lists = end.inbox.next_turn, end.inbox.next_step
    assert (end.turn, tuple([[entry.message.id for entry in each] for each in lists])) == (turn, pending)
    assert not any([entry.waking for each in lists for entry in each])


@pytest.mark.rule("I6")
@pytest.mark.parametrize("data", [(TurnStart(1), took()), (took(),), (put(ONE), TurnStart(1), put(ONE))])
def test_splices_that_do_not_fold_are_damage_wherever_they_stand(data: tuple[Any, ...]) -> None:
    with pytest.raises(SessionCorrupt, match=f"event {len(data) - 1}"):
        end_of_log(recorded(*data))


HEADER = RequestHeader(CallConfig("p", "m"), (), "initial")
CONTEXT = RequestContext("p", "m")
LONG = (
    put(ONE), HEADER, TurnStart(1), took(), put(TWO, target="next-step"), StepStart(1, 1, ("one",)), UserMessageAdded(ONE),
    CONTEXT, asked("a", "b"), ToolCallStarted("a", "t"), ToolResultAdded("a"), took(target="next-step"), StepEnd(1, 1),
    StepStart(1, 2, ("two",)), UserMessageAdded(TWO), asked(), StepEnd(1, 2), TurnEnd(1, Completed()), put(THREE, ONE),
    TurnStart(2), took(), TurnEnd(2, Completed()), TurnStart(3), took(), StepStart(3, 1, ("one",)), asked("c"),
    ToolCallStarted("c", "t"),
)  # fmt: skip
"""Three turns, the last of which is open inside a call; a message that the second one claimed and no step decided about."""


def told(end: EndOfLog) -> Any:
    """Everything that is told of where a log ends."""
    last = end.end()
    lists = [[entry.message.id for entry in each] for each in (last.inbox.next_turn, last.inbox.next_step)]
    return lists, last.turn, last.closing, last.header, last.context, list(end.starts), list(end.ends)


def one_by_one(events: Sequence[Event]) -> EndOfLog:
    end = EndOfLog()
    for entry in events:
        end.take(entry)
    return end


@pytest.mark.rule("I8", "L4", "P4", "Q2")
def test_a_log_that_is_taken_in_parts_ends_where_it_does_event_by_event() -> None:
    events = list(recorded(*LONG))
    assert told(one_by_one(events))[3:5] == (HEADER, CONTEXT)
    for stop in range(len(events) + 1):
        due = told(one_by_one(events[:stop]))
        for first in range(stop + 1):
            for second in range(first, stop + 1):
                end = EndOfLog()
                for part in (events[:first], events[first:second], events[second:stop]):
                    end.take_all(part)
                assert told(end) == due, (first, second, stop)


@pytest.mark.rule("I6")
def test_a_splice_that_does_not_fold_is_damage_in_a_turn_that_has_ended_as_well() -> None:
    events = list(recorded(TurnStart(1), took(), TurnEnd(1, Completed())))
    with pytest.raises(SessionCorrupt, match="event 1"):
        EndOfLog().take_all(events)


@pytest.mark.rule("S5")
def test_a_fork_can_begin_where_no_turn_was_open_last() -> None:
    events = list(recorded(*LONG))
    rest = one_by_one(events).rest_before
    open_from: int | None = None
    for seq, entry in enumerate(events):
        assert rest(seq) == (seq if open_from is None else open_from) == at_rest(events[:seq]), seq
        if isinstance(entry.data, TurnStart):
            open_from = seq
        elif isinstance(entry.data, TurnEnd):
            open_from = None
    assert rest(len(events)) == open_from == LONG.index(TurnStart(3))
    assert one_by_one(events[:2]).rest_before(1) == 1


@pytest.mark.rule("L4", "Q2")
def test_what_stood_before_a_window_is_told_beforehand() -> None:
    end = EndOfLog()
    end.begin(7, HEADER, CONTEXT)
    end.take_all(list(recorded(put(ONE))))
    assert told(end)[1:5] == (7, [], HEADER, CONTEXT)


# --- what is asked before a log is driven on --------------------------------------------------------------------------


WHOLE_END = [UserMessageAdded(ONE), TurnEnd(1, Interrupted())]
WHOLE = (*OPEN, *WHOLE_END)
"""A turn that a crash cut off before its first step, closed: five events that break no rule."""


def whole() -> list[Event]:
    return list(recorded(*WHOLE))


def stored(events: Sequence[Event], **header: Any) -> StoredSession:
    return StoredSession(new_header("s", "/work", 1, **header), list(events), "r")


@pytest.mark.rule("P4")
def test_a_stored_log_is_closed_and_only_in_memory() -> None:
    events = list(recorded(*OPEN, put(TWO, target="next-step")))
    session, end = closed_session(stored(events))
    assert [entry.data for entry in session.events[len(events) :]] == end.closing == WHOLE_END
    assert len(events) == len(OPEN) + 1
    assert [entry.message.id for entry in end.inbox.next_step] == ["two"]


@pytest.mark.rule("P3")
def test_a_log_that_breaks_a_rule_is_refused_by_its_event_and_the_last_place_to_fork_from_is_told() -> None:
    events = list(recorded(*WHOLE, put(TWO), TurnStart(2), took(), TurnStart(3)))
    with pytest.raises(SessionCorrupt, match=r"'s': event 8 breaks a rule: .* after 6 events") as raised:
        closed_session(stored(events))
    assert raised.value.seq == 8


@pytest.mark.rule("S5")
def test_a_log_that_has_inherited_another_number_of_events_than_its_header_says_is_refused() -> None:
    events = whole()
    with pytest.raises(SessionCorrupt, match=r"S5") as raised:
        closed_session(stored(events, inherited=2))
    assert raised.value.seq == len(events)


@pytest.mark.rule("O13", "S5")
@pytest.mark.parametrize(("inherited", "marked"), [(0, False), (5, True)])
def test_a_seed_is_marked_where_all_of_it_is_inherited(inherited: int, marked: bool) -> None:
    seed = whole()
    session = seeded_session(new_header("n", "/work", 1, inherited=inherited, parent_session="s"), seed)
    assert [entry.data for entry in session.events[:5]] == [entry.data for entry in seed]
    assert [type(entry.data).__name__ for entry in session.events[5:]] == ["EndSeed"] * marked
    assert [(entry.data.inherited, entry.data.parent) for entry in session.events[5:]] == [(5, "s")] * marked


def test_nothing_is_inherited_of_an_empty_seed() -> None:
    assert list(seeded_session(new_header("n", "/work", 1), []).events) == []


@pytest.mark.rule("O13", "S5")
@pytest.mark.parametrize(
    ("inherited", "seed", "words"),
    [
        (6, lambda events: events, "6 events cannot be inherited of a seed of 5"),
        (3, lambda events: events, "5 to inherit all of it"),
        (0, lambda events: events[:3], r"ends inside .* its first 1 events can be taken"),
        (0, lambda events: events[1:], "numbered from 0"),
        (0, lambda events: [*events[:1], "no event"], "event 1 must be a treadle.Event, not str"),
        (0, lambda events: [*events, Event("turn/start", 5, 0, TurnStart(7))], r"event 5 breaks a rule.*first 5 events"),
        (0, lambda events: [*events, Event("check/strange", 5, 0, {"lone": "\ud800"})], "event 5 cannot be recorded"),
        (0, lambda events: [*events, Event("check/strange", 5, 0, {"no": math.nan})], r"event 5 cannot be recorded: .*O13"),
    ],
)  # fmt: skip
def test_a_seed_that_could_not_be_resumed_is_refused_with_what_of_it_could(
    inherited: int, seed: Any, words: str
) -> None:
    header = new_header("n", "/work", 1, inherited=inherited, parent_session="s")
    with pytest.raises(MisuseError, match=words):
        seeded_session(header, seed(whole()))


@pytest.mark.rule("O13", "X3")
def test_an_event_of_a_seed_is_measured_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max([len(encode_event(entry)) for entry in whole()])
    monkeypatch.setattr("treadle.checks.stored.MAX_EVENT_BYTES", longest)
    assert seeded_session(new_header("n", "/work", 1), whole())
    monkeypatch.setattr("treadle.checks.stored.MAX_EVENT_BYTES", longest - 1)
    with pytest.raises(MisuseError, match=f"cannot be recorded: .*it is {longest} bytes"):
        seeded_session(new_header("n", "/work", 1), whole())
