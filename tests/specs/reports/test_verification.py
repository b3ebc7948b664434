"""The page about verification says what was measured, and with which command to measure it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.kernel import inputs as i
from treadle_specs.conformance.faults import FAULTS
from treadle_specs.exploration.explorer import Report
from treadle_specs.exploration.mutants import Grade
from treadle_specs.exploration.promela import LTL, Verdict, count
from treadle_specs.exploration.properties import PROPERTIES
from treadle_specs.exploration.search import Counterexample, Findings
from treadle_specs.exploration.statespace import AGENT, Seen, Space, Step
from treadle_specs.logs.forgeries import Tally
from treadle_specs.reports import verification
from treadle_specs.reports.verification import Caught, Figures, page

SEEN = Seen("idle", wanted=False, held_back=False, taken=False, replays=False)
GRAPH = Space((SEEN, SEEN), ((Step(AGENT, "Maintained", 1),), ()), (4_118, 19_598))


def figures(**changed: object) -> Figures:
    found = Findings("kernel", 54_258, 1_241_773, 21.4, complete=True, rows={("IDLE", "WAKE"): 7})
    broken = Counterexample("D4", "a wake is lost", (i.Maintained(),), held=False, max_steps=None)
    known: dict[str, object] = {
        "report": Report([found]),
        "ids": 3,
        "graph": GRAPH,
        "verdicts": [Verdict(name, 0, count(GRAPH), 9, 0.1) for name in ("safety", *LTL)],
        "caught": [Caught(FAULTS[0], broken, 0.1), Caught(FAULTS[-1], None, 0.2)],
        "grades": [Grade("STEP REST deleted", "row", {"table": "a dead end"})],
        "logs": (20, 436),
        "microseconds": 3.2,
        "changes": (Tally(6_019, ("without 45 agent/inbox/spliced",)), Tally(6_019, ("a", "b"))),
    }
    return Figures(**{**known, **changed})  # type: ignore[arg-type]


def test_the_page_names_the_command_for_each_of_its_figures() -> None:
    said = page(figures())
    for command in (
        "treadle explore --ids 3",
        "treadle export promela --check",
        "pytest tests/specs/conformance/test_planted_faults.py",
        "python -m treadle_specs.exploration.mutants --markdown",
        "treadle check LOG…",
    ):
        assert f"    {command}" in said
    assert "| kernel | 54,258 | 1,241,773 | 21.4 |" in said
    assert "Graph and spin agree." in said
    assert "of 6,019 changed logs\n6,018 are reported" in said
    assert all(known.text in said for known in PROPERTIES)


def test_the_page_hides_nothing() -> None:
    verdicts = [Verdict("safety", 1, 9, 9, 0.1)]
    grades = [Grade("STEP REST to IDLE", "target")]
    said = page(figures(verdicts=verdicts, grades=grades))
    assert "**fails**" in said
    assert "**Graph and spin differ.**" in said
    assert "survived: `STEP REST to IDLE`" in said
    assert f"outside the kernel: {FAULTS[-1].seen_by}" in said


def test_without_spin_the_page_says_that_it_was_not_measured() -> None:
    assert "Not measured: spin is not installed." in page(figures(verdicts=[], missing="spin is not installed"))


def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "measure", lambda **_: figures())
    path = tmp_path / "verification.md"
    assert verification.main(["--quick", "--write", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == page(figures())
