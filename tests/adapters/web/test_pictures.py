"""The log behind a drawing is followed as it grows, and from its beginning where it is another one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.diagrams.logs import Log
from treadle import Event
from treadle_adapters.web import pictures
from treadle_adapters.web.pictures import Followed


class Counting:
    """Tells which events it was given."""

    fails = False

    def __init__(self) -> None:
        self.given: list[int] = []

    def take(self, events: Iterable[Event]) -> None:
        for entry in events:
            if Counting.fails:
                raise OSError("it cannot be read")
            self.given.append(entry.seq)

    def told(self, now: int, *, attempting: bool = False) -> bytes:
        assert now > 0
        return b",".join([b"%d" % seq for seq in self.given]) + (b"!" if attempting else b"")


def followed() -> Followed:
    return Followed(Counting())


def test_each_event_is_taken_once_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "PIECE", 2)
    log, one = Log().open("go"), followed()
    assert one.tell(log.events, Counting, False) == b"0,1,2,3,4"
    log.answer("hm").close()
    assert one.tell(log.events, Counting, True) == b"0,1,2,3,4,5,6,7!"


def test_a_log_whose_end_was_lost_is_followed_from_its_beginning() -> None:
    log, one = Log().open("go"), followed()
    one.tell(log.events, Counting, False)
    shorter = log.events[:3]
    assert one.tell(shorter, Counting, False) == b"0,1,2"
    other = Log(pace=11).open("go").answer("other").events
    assert one.tell(other, Counting, False) == b"0,1,2,3,4,5"


def test_what_failed_half_way_is_followed_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    log, one = Log().open("go"), followed()
    one.tell(log.events, Counting, False)
    log.answer("hm")
    monkeypatch.setattr(Counting, "fails", True)
    with pytest.raises(OSError, match="cannot be read"):
        one.tell(log.events, Counting, False)
    monkeypatch.setattr(Counting, "fails", False)
    assert one.tell(log.events, Counting, False) == b"0,1,2,3,4,5"


def test_of_a_very_long_log_the_end_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_EVENTS", 3)
    log, one = Log().open("go"), followed()
    assert one.tell(log.events, Counting, False) == b"2,3,4"
    log.answer("hm")
    assert one.tell(log.events, Counting, False) == b"2,3,4,5"
