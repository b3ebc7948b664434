"""The stateful suite over the whole driver, on two stores."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle.testing import TABLE
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_specs.conformance.local import LocalRig
from treadle_specs.conformance.oracle import Oracle
from treadle_specs.conformance.stateful import Suite, profile, run_suite

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Listeners that raise on purpose are logged; that is not what is looked at here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def suite_with(oracle: Oracle, **members: Any) -> type[Suite]:
    return type("Watched", (Suite,), {"oracle": oracle, "lost": [], **members})


@pytest.mark.rule("N1", "N2", "N3", "N4", "N6", "N7", "N8", "I5", "I6", "L5", "C2", "C9", "D4", "D5", "O4")
def test_whatever_is_called_and_however_tasks_are_ordered_every_promise_holds(record_property: Any) -> None:
    oracle = Oracle()
    with oracle.installed():
        run_suite(suite_with(oracle), profile(400, 30))
    met = {(row.source.name, row.trigger.name): oracle.pairs[row.source.name, row.trigger.name] for row in TABLE}
    record_property("commits", oracle.commits)
    record_property("pairs", {f"{state} {trigger}": times for (state, trigger), times in met.items()})
    missed = [pair for pair, times in met.items() if not times]
    assert len(missed) <= 6, f"rows that were never taken: {missed}"
    assert oracle.commits > 5_000


@pytest.mark.rule("N5", "N6", "P1", "I6")
def test_the_same_holds_on_a_jsonl_store_and_what_it_holds_is_what_was_live() -> None:
    oracle, places = Oracle(), []
    with tempfile.TemporaryDirectory() as folder:

        def opening() -> dict[str, Any]:
            places.append(Path(folder) / f"run-{len(places)}")
            return {"store": {"kind": "jsonl", "path": str(places[-1])}}

        class Kept(LocalRig):
            def stop(self) -> None:
                live = [list(agent.session.events) for agent in self.desk.agents]
                super().stop()
                for events in live:
                    assert _stored(places[-1]) == events

        with oracle.installed():
            run_suite(suite_with(oracle, opening=opening, make_rig=Kept), profile(25, 20))


def _stored(place: Path) -> list[Any]:
    import trio

    async def load() -> list[Any]:
        async with JsonlStore(place) as store:
            return list((await store.open_read("s1")).events)

    return trio.run(load)


@pytest.mark.rule("D4", "L1")
def test_the_same_examples_are_made_in_every_run() -> None:
    counts = []
    for _ in range(2):
        oracle = Oracle()
        with oracle.installed():
            run_suite(suite_with(oracle), profile(15, 15))
        counts.append((oracle.commits, dict(oracle.pairs)))
    assert counts[0] == counts[1]
