"""Estimates of tokens: held to what a real tokenizer counted in recorded sessions (tests/extensions/record.py)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle import AssistantMessage, Message, MisuseError, Reasoning, Session, SystemMessage, Text, ToolCall, message
from treadle.extensions.estimates import Estimator, text_size
from treadle.models import ToolResult, ToolSchema
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    Event,
    Replace,
    RequestHeader,
    SessionHeader,
    UserMessageAdded,
    decode_event,
    new_header,
    read_header,
)

SESSIONS = Path(__file__).parent / "sessions"
RECORDED = sorted(SESSIONS.glob("*.jsonl"), key=lambda path: path.name)


def recorded(path: Path) -> tuple[SessionHeader, list[Event]]:
    first, *lines = path.read_bytes().splitlines()
    return read_header(first).header, [decode_event(line) for line in lines]


def requests(path: Path) -> Iterator[tuple[Session, tuple[ToolSchema, ...], int]]:
    """The sessions as of each request, the tools it offered, and how many tokens it was counted to have."""
    header, events = recorded(path)
    tools: tuple[ToolSchema, ...] = ()
    session = Session(header)
    for entry in events:
        if isinstance(entry.data, RequestHeader):
            tools = entry.data.tools
        if isinstance(entry.data, (AssistantMessageAdded, AssistantAttempt)) and entry.data.usage is not None:
            assert entry.data.usage.input_tokens is not None
            yield session, tools, entry.data.usage.input_tokens
        session.load([entry])


def test_there_are_recorded_sessions_of_some_length() -> None:
    assert [path.stem for path in RECORDED] == ["code", "data", "talk"]
    assert [len(list(requests(path))) for path in RECORDED] == [7, 5, 8]
    assert max(tokens for path in RECORDED for *_, tokens in requests(path)) > 2_000


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
@pytest.mark.rule("B5")
def test_after_the_first_answer_an_estimate_is_off_by_less_than_15_per_cent(path: Path) -> None:
    estimator = Estimator()
    errors: list[float] = []
    for session, tools, tokens in requests(path):
        errors.append(abs(estimator.session(session, tools) - tokens) / tokens)
        estimator.correct_session(tokens, session, tools)
    assert max(errors[1:]) < 0.15, errors


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_session_and_a_list_of_messages_are_estimated_alike(path: Path) -> None:
    by_session, by_list = Estimator(), Estimator()
    for session, tools, tokens in requests(path):
        history = list(session.history())
        assert by_session.session(session, tools) == by_list.messages(history, tools)
        by_session.correct_session(tokens, session, tools)
        by_list.correct(tokens, history, tools)


@pytest.mark.rule("B5")
def test_each_text_is_counted_once() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text.split())

    session = Session(new_header("s", "/"))
    estimator = Estimator(count)
    total = 0
    for number in range(50):
        session.append(UserMessageAdded(message(f"some {number} words", id=str(number))))
        total = estimator.session(session)
        assert estimator.session(session) == estimator.messages(session.history()) == total
    assert counted == [f"some {number} words" for number in range(50)]
    assert total == 50 * (3 + 4)  # a plugged in tokenizer's own count, and what stands around each message


def test_what_is_replaced_no_longer_counts() -> None:
    session = Session(new_header("s", "/"))
    for number in range(10):
        session.append(UserMessageAdded(message("word " * 100, id=str(number))))
    estimator = Estimator()
    whole = estimator.session(session)
    estimator.correct_session(2 * whole, session)
    assert estimator.session(session) == 2 * whole
    summary = UserMessageAdded(message("in short", id="summary"))
    session.append(summary, surface_op=Replace(0, 7), sources=range(8))
    assert estimator.session(session) == pytest.approx(2 * whole * 0.21, rel=0.1)
    session.append(UserMessageAdded(message("word " * 100, id="next")))
    assert estimator.session(session) == pytest.approx(2 * whole * 0.31, rel=0.1)
    assert len(estimator._known) <= 12


def test_a_replacement_of_equal_length_is_noticed() -> None:
    session = Session(new_header("s", "/"))
    for number in range(3):
        session.append(UserMessageAdded(message("word " * 100, id=str(number))))
    estimator = Estimator()
    before = estimator.session(session)
    session.append(UserMessageAdded(message("word", id="short")), surface_op=Replace(1, 1), sources=[1])
    assert estimator.session(session) == pytest.approx(before * 2 / 3, rel=0.05)


@pytest.mark.rule("B5")
def test_a_report_of_the_whole_is_where_the_next_estimate_begins() -> None:
    estimator = Estimator()
    first = [message("word " * 50)]
    estimator.correct(3_000, first)  # most of it stands in no message
    assert estimator.messages(first) == 3_000
    more = [*first, message("word " * 50)]
    assert estimator.messages(more) == 3_000 + 54
    estimator.correct(3_000 + 108, more)  # this tokenizer makes twice as many
    assert estimator.messages([*more, message("word " * 50)]) == 3_000 + 108 + 108


@pytest.mark.parametrize("reported", [0, -1, 1.5, True, None])
def test_a_report_that_is_none_is_refused(reported: Any) -> None:
    with pytest.raises(MisuseError, match="positive whole number"):
        Estimator().correct(reported, [])


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [("", 0, 0), ("Hello, world!", 3, 5), ("word " * 1_000, 900, 1_100), ("人工智能" * 10, 30, 50), ("1" * 30, 10, 30)],
)
def test_texts_are_estimated_for_what_they_are(text: str, least: float, most: float) -> None:
    assert least <= text_size(text) <= most


def test_a_long_text_is_estimated_by_a_sample() -> None:
    assert text_size("some words of a text, " * 200_000) == pytest.approx(200_000 * 6, rel=0.1)


def test_everything_that_is_sent_counts_and_reasoning_that_is_not_does_not() -> None:
    def size(*blocks: Any) -> int:
        return Estimator(len).messages([AssistantMessage(tuple(blocks))])

    assert size(Text("four")) == 4 + 4
    assert size(Reasoning("four")) == 4
    assert size(Reasoning("four", replay={"signature": "s"})) == 8
    assert size(ToolCall("id", "name", '{"a":1}')) == 4 + 8 + 4 + 7
    assert size(ToolResult("id", (Text("four"),))) == 4 + 8 + 4
    history: list[Message] = [SystemMessage((Text("four"),))]
    schema = ToolSchema("n", "desc", {})
    assert Estimator(len).messages(history, (schema,)) == 8 + 8 + 1 + 4 + 2
