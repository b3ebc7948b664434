"""What has become dearer is told, and nothing else fails."""

from __future__ import annotations

import pytest

from benchmarks import instructions
from benchmarks.landed.comparison import compare, dearer

from .figures import figures

LANDED = {"turn": (400.0, 100.0)}


@pytest.fixture(autouse=True)
def _valgrind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instructions, "available", lambda: True)


@pytest.mark.parametrize(("ours", "floor"), [(459.0, 100.0), (400.0, 88.0), (300.0, 100.0), (800.0, 200.0)])
def test_what_costs_hardly_more_or_less_passes(ours: float, floor: float) -> None:
    assert dearer(LANDED, {"turn": (ours, floor)}) == []


@pytest.mark.parametrize(("ours", "floor"), [(461.0, 100.0), (400.0, 86.0)])
def test_what_costs_more_by_its_floor_is_told(ours: float, floor: float) -> None:
    [told] = dearer(LANDED, {"turn": (ours, floor)})
    assert told.startswith("turn costs 4.6")
    assert "the 4.00 × that landed" in told


def test_what_is_counted_and_what_landed_are_the_same_work() -> None:
    assert dearer(LANDED, {}) == ["turn has landed and is counted no more: land the figures anew"]
    assert dearer({}, LANDED) == ["turn is counted and has not landed: land it"]


def test_what_seems_dearer_is_counted_once_more() -> None:
    counts = [{"turn": (500.0, 100.0)}, {"turn": (410.0, 100.0)}]
    amiss, notes = compare(figures(), lambda: counts.pop(0))
    assert (amiss, counts) == ([], [])
    assert notes == ["turn           4.10 × its floor,   4.00 × landed"]


def test_what_is_dearer_twice_fails_and_says_what_to_do() -> None:
    amiss, _ = compare(figures(), lambda: {"turn": (500.0, 100.0)})
    assert len(amiss) == 2
    assert "python -m benchmarks.landed --measure" in amiss[1]


def test_figures_of_another_interpreter_are_not_compared() -> None:
    def count() -> dict[str, tuple[float, float]]:
        raise AssertionError("nothing is to be counted")

    amiss, [told] = compare(figures("CPython 2.7.18"), count)
    assert amiss == []
    assert "not compared: the figures are those of CPython 2.7.18" in told


def test_without_valgrind_nothing_is_compared_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instructions, "available", lambda: False)
    amiss, [told] = compare(figures(), dict)
    assert amiss == []
    assert "valgrind" in told
