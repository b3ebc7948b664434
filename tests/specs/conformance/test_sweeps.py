"""Sweeps: something happens at every tick, at every notification, at every call of a set of scenarios."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from treadle_specs.conformance.oracle import Oracle
from treadle_specs.conformance.stakes import Stakes
from treadle_specs.conformance.sweeps import CALLS, FAILING, SCENARIOS, fail_every_call, reenter, sweep

pytestmark = pytest.mark.slow

each_scenario = pytest.mark.parametrize("name", SCENARIOS)
ASKS = ("next-turn", "next-step")


@pytest.fixture
def verdict() -> Iterator[Any]:
    """The kernel's own semantics watch; afterwards no thread and no file is left."""
    logging.disable(logging.CRITICAL)
    oracle = Oracle()
    gc.collect()
    before = threading.active_count(), _open_files()
    with oracle.installed():
        yield oracle.verdict
    logging.disable(logging.NOTSET)
    gc.collect()
    assert threading.active_count() <= before[0]
    assert _open_files() <= before[1]


def _open_files() -> int:
    place = Path("/proc/self/fd")
    return len(list(place.iterdir())) if place.exists() else 0


@each_scenario
@pytest.mark.parametrize("keep", [False, True], ids=["clears", "keeps"])
@pytest.mark.rule("C3", "C4", "C5", "C6", "C9", "C10", "N7", "K6")
def test_a_cancel_at_any_checkpoint_converges_and_loses_nothing(name: str, keep: bool, verdict: Any) -> None:
    stakes = Stakes()
    runs = sweep(SCENARIOS[name], {"do": "cancel", "cause": "user", "keep_inbox": keep}, verdict, stakes=stakes)
    assert runs > 5
    assert min(stakes[rule] for rule in ("C4", "C9", "N4", "N7")) > 0


@each_scenario
@pytest.mark.parametrize("keep", [False, True], ids=["clears", "keeps"])
@pytest.mark.rule("O4", "L9", "N7")
def test_a_dispose_at_any_checkpoint_comes_to_its_end(name: str, keep: bool, verdict: Any) -> None:
    stakes = Stakes()
    assert sweep(SCENARIOS[name], {"do": "dispose", "keep_inbox": keep}, verdict, stakes=stakes) > 5
    assert min(stakes[rule] for rule in ("O4", "L9", "N7")) > 5


@each_scenario
@pytest.mark.parametrize("box", ASKS)
@pytest.mark.rule("D1", "D2", "D6", "L2", "I5")
def test_a_delivery_at_any_checkpoint_reaches_exactly_one_fate(name: str, box: str, verdict: Any) -> None:
    act = {"do": "deliver", "message": {"id": "z1", "text": "z1"}, "target": box, "wakeup": True}
    assert sweep(SCENARIOS[name], act, verdict) > 5


@pytest.mark.rule("C3", "N5", "N6", "P1")
def test_a_cancel_at_any_checkpoint_does_the_same_on_a_jsonl_store(tmp_path: Path) -> None:
    numbers = count()

    def opening() -> dict[str, Any]:
        return {"store": {"kind": "jsonl", "path": str(tmp_path / str(next(numbers)))}}

    assert sweep(SCENARIOS["tools"], {"do": "cancel", "cause": "user"}, opening=opening) > 5


@each_scenario
@pytest.mark.rule("H4", "H5", "C9", "L8")
def test_a_listener_may_call_back_into_the_agent_at_any_notification(name: str, verdict: Any) -> None:
    assert reenter(SCENARIOS[name], verdict) > 100


@each_scenario
@pytest.mark.rule("L8", "N8", "T9", "H5", "P8")
def test_whatever_fails_once_the_log_stays_sound_and_the_agent_usable(name: str, verdict: Any) -> None:
    assert fail_every_call(SCENARIOS[name], verdict) > 2 * (len(FAILING) + len(CALLS))
