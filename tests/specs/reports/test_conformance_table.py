"""The table of drivers is made from saved reports, and says no more than they and the plain scripts show."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from treadle_specs.conformance.fair_rules import FAIR
from treadle_specs.reports.conformance_table import PAGE, Column, columns, main, make, page

ROOT = Path(__file__).parents[3]
RIGS = ROOT / "examples" / "rigs"
FRAMEWORKS = {path.stem.removesuffix("_rig"): path for path in sorted(RIGS.glob("*_rig.*"))}


def column(**more: Any) -> Column:
    rules = {rule: {"verdict": "held", "times": 5} for rule in FAIR}
    rules["F9"] = {"verdict": "broken", "times": 7}
    rules["F14"] = {"verdict": "not applicable: no queue", "times": 0}
    finding = {"rule": "F9", "message": "c1 unanswered", "runs": 3, "drawing": "sequenceDiagram"}
    report = {"driver": "x 1", "rules": rules, "broken": [finding], "confirmed": ["F9"], "runs": 9, "seed": 1,
              "verdict": "does not conform", "date": "2026-01-01"}  # fmt: skip
    return Column("x", report | more, {"F9": {"seen": "It is seen.", "documented": "no promise was found"}})


def test_the_page_is_made_from_the_reports() -> None:
    assert main(["--check"]) == 0


def test_each_framework_has_a_report_of_the_version_that_its_rig_names() -> None:
    drivers = {one.name: one.report["driver"] for one in columns(ROOT)}
    for name, rig in FRAMEWORKS.items():
        versions = re.findall(r"(?:==|@)(\d[\d.]+)", rig.read_text(encoding="utf-8"))
        assert drivers[name].split()[-1] in versions


def test_a_cell_says_what_became_of_its_rule() -> None:
    assert column().judged("F9") == "**broken**"
    assert column().judged("F1") == "held ×5"
    assert column().judged("F14") == "not applicable (no queue)"


@pytest.mark.parametrize("one", [column(confirmed=[]), Column("x", column().report, {})])
def test_what_no_script_shows_or_nobody_tells_of_is_not_judged(one: Column) -> None:
    assert one.judged("F9") == "not judged"
    assert one.broken == []
    assert "c1 unanswered" not in page([one])


def test_a_broken_rule_is_told_with_its_drawing_and_its_script() -> None:
    text = page([column()])
    assert "It is seen." in text
    assert "```mermaid\nsequenceDiagram\n```" in text
    assert ".rigs/x/bin/python examples/rigs/plain/plain_x.py F9" in text


def test_every_broken_rule_of_the_page_has_a_plain_script() -> None:
    for one in columns(ROOT):
        for found in one.broken:
            plain = RIGS / "plain" / f"plain_{one.name}.py"
            assert found["rule"] in plain.read_text(encoding="utf-8")


def test_nothing_is_told_of_rules_that_are_not_broken() -> None:
    told = tomllib.loads((RIGS / "broken.toml").read_text(encoding="utf-8"))
    assert set(told) <= set(FRAMEWORKS)
    assert make(ROOT).problems == []
    assert (ROOT / PAGE).is_file()
