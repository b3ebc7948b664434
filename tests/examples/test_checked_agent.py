"""The checked agent of the examples: sound as it stands, and each of its faults is found in time and named by its line."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from treadle_specs.agents import check_agent

FOLDER = Path(__file__).parents[2] / "examples" / "checked_agent"
MOST = {"sound": 60.0, "fault": 30.0}
"""Seconds of processor time."""
LINES = {
    "swallow": "await trio.sleep(2)",
    "child": 'subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220, S607  # keeps the printer awake',
    "double": "await trio.sleep(0.5)  # the airline confirms",
    "retry": 'raise KeyError(step)  # "each step is asked for once"',
    "deadlock": "await self.rested.wait()",
    "block": "time.sleep(0.1)  # noqa: ASYNC251",
    "keep": "await self.lines.acquire()",
    "approval": "await asked.wait()",
}


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("test_travel")
    finally:
        sys.path.remove(str(FOLDER))
        del sys.modules["test_travel"], sys.modules["travel"]


@pytest.mark.slow
def test_the_example_passes_all_sweeps(example: Any) -> None:
    report = check_agent(example.make_agent, example.JOURNEY, invariant=example.booked_once, outside=example.Office)
    assert report.sound
    assert {report.swept[deed] for deed in ("cancel", "dispose", "steer", "followup")} == {report.places}
    assert report.seconds < MOST["sound"], str(report)


@pytest.mark.slow
@pytest.mark.parametrize("fault", LINES)
@pytest.mark.sampled(2)
def test_a_planted_fault_is_found_and_its_line_is_named(example: Any, fault: str) -> None:
    began = time.process_time()
    make = partial(example.make_agent, fault=fault)
    report = check_agent(make, example.JOURNEY, invariant=example.booked_once, outside=example.Office, raising=False)
    assert time.process_time() - began < MOST["fault"]
    (finding,) = report.findings
    assert finding.site is not None
    assert Path(finding.site.file) == FOLDER / "travel.py"
    assert finding.site.text == LINES[fault], str(report)
    assert len(finding.scenario.turns) == 1


@pytest.mark.slow
def test_a_booking_is_doubled_by_a_death_alone(example: Any) -> None:
    make = partial(example.make_agent, fault="double")
    options: dict[str, Any] = {"invariant": example.booked_once, "outside": example.Office, "raising": False}
    report = check_agent(make, example.JOURNEY.turns[1], sweeps=["die"], **options)
    (finding,) = report.findings
    assert str(finding.disturbance).startswith("die at ")
    assert finding.site is not None
    assert finding.site.function == "Travel.book"


def test_every_fault_of_the_example_is_tried(example: Any) -> None:
    assert set(LINES) == set(example.FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize(("only", "status"), [("cancel at 8", 0), ("explode at 8", 1)])
def test_the_fixture_takes_the_options_of_the_command_line(only: str, status: int) -> None:
    words = ["-q", "-rP", "-p", "no:cacheprovider", "-p", "no:xdist", str(FOLDER / "test_travel.py"), "-k", "sound"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "--agent-only", only],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=FOLDER,
    )
    assert run.returncode == status, run.stdout + run.stderr
    assert ("2 runs in" in run.stdout) is (status == 0)
    assert ("no disturbance: 'explode at 8'" in run.stdout) is (status == 1)
