"""The newest turn of a log that grows is told as the page of the whole log draws it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.diagrams.logs import START, Log, medley, scripted
from treadle import Event
from treadle.session import TurnEnd, TurnStart
from treadle.words import reasons
from treadle_diagrams import LivePictures
from treadle_diagrams.log.letters import letters_of
from treadle_diagrams.log.spans import spans_of
from treadle_diagrams.page.data import letter_data, span_data
from treadle_diagrams.page.growing import MOST_ROWS, GrowingTurn
from treadle_specs.rig.scripts import SCRIPTS


def told(turn: GrowingTurn, now: int = 0, **more: Any) -> Any:
    return json.loads(turn.told(now, **more))


def followed(events: tuple[Event, ...]) -> GrowingTurn:
    turn = GrowingTurn()
    turn.take(events)
    return turn


def test_of_a_log_without_a_turn_nothing_is_told():
    assert told(GrowingTurn()) == {"number": None}


@pytest.mark.parametrize("name", [*SCRIPTS, "medley"])
def test_at_every_event_it_tells_what_the_whole_log_tells_of_that_turn(name: str):
    events = medley() if name == "medley" else scripted(name)
    turn = GrowingTurn()
    for count, entry in enumerate(events, 1):
        turn.take([entry])
        if name == "medley" and not isinstance(entry.data, TurnEnd):
            continue  # each prefix costs as much as it is long
        prefix = events[:count]
        began = next((one for one in reversed(prefix) if isinstance(one.data, TurnStart)), None)
        if began is None:
            assert told(turn) == {"number": None}
            continue
        assert isinstance(began.data, TurnStart)
        found = told(turn)
        spans = [span for span in spans_of(prefix) if span.turn == began.data.turn]
        assert found["number"] == began.data.turn
        assert found["spans"] == [json.loads(json.dumps(span_data(span, began.time))) for span in spans]
        letters = [json.loads(json.dumps(letter_data(letter, began.time))) for letter in letters_of(prefix)]
        assert all(one in letters for one in found["letters"])
        missing = [one for one in letters if one not in found["letters"]]
        assert all((one[5] or one[6])[0] < began.seq for one in missing)  # gone before the turn began
        open_ = not any(isinstance(one.data, TurnEnd) for one in prefix[began.seq - prefix[0].seq :])
        assert found["open"] == open_


def test_in_pieces_of_any_size_it_tells_the_same():
    events = medley()
    turn, at, draw = GrowingTurn(), 0, random.Random(1)
    while at < len(events):
        size = draw.randrange(1, 60)
        turn.take(events[at : at + size])
        at += size
    assert told(turn) == told(followed(events))


def test_from_the_middle_of_a_log_on_it_tells_the_same_of_turns_that_begin_there():
    events = medley()
    last = max(entry.seq for entry in events if isinstance(entry.data, TurnStart))
    whole = told(followed(events))["spans"]
    for first in range(0, last + 1, 37):
        assert told(followed(events[first:]))["spans"] == whole


def test_an_open_turn_lasts_until_now_also_behind_a_clock_that_was_set_back():
    log = Log().open("go")
    events = tuple(log.events)
    began = next(entry.time for entry in events if isinstance(entry.data, TurnStart))
    assert told(followed(events), began + 5_000)["until"] == 5_000
    assert told(followed(events), 0)["until"] == events[-1].time - began  # never before what it tells
    log.now = START - 60_000
    log.answer("hm")
    back = followed(tuple(log.events))
    last = told(back, log.now)["until"]
    assert told(back, log.now + 1_000)["until"] == last + 1_000


def test_the_model_that_is_being_asked_stands_as_an_open_attempt():
    log = Log().open("go").answer("I look.", ("look", "{}")).tool("look", "{}", "seen").go_on()
    turn = followed(tuple(log.events))
    assert [span[0] for span in told(turn)["spans"]] == ["turn", "step", "attempt", "tool", "step"]
    asked = told(turn, attempting=True)["spans"][-1]
    assert (asked[0], asked[1], asked[3]) == ("attempt", "model", None)
    closed = followed(tuple(log.answer("Done.").close().events))
    assert told(closed, attempting=True) == told(closed)  # a turn that is over asks nobody


def test_of_a_turn_that_is_very_long_the_end_is_told_and_what_is_left_out_is_counted():
    log = Log().open("go")
    for number in range(200):
        log.answer("on", ("look", "{}")).tool("look", "{}", str(number)).go_on()
    events = tuple(log.answer("end").close(reasons.Completed()).events)
    found = told(followed(events))
    every = [json.loads(json.dumps(span_data(span, events[1].time))) for span in spans_of(events)]
    assert found["spans"] == [every[0], *every[-(MOST_ROWS - 1) :]]
    assert found["leftOut"] == len(every) - MOST_ROWS


def test_what_a_live_page_draws_with_loads_nothing_and_styles_by_classes_alone():
    pictures = LivePictures()
    assert pictures.lifecycle.startswith("<svg")
    assert 'data-state="idle"' in pictures.lifecycle
    assert "<style" not in pictures.lifecycle
    assert " style=" not in pictures.lifecycle
    assert "@import" not in pictures.style
    assert "url(" not in pictures.style
    assert pictures.script.rstrip().endswith("export { Lanes };")
