"""The conformance kit tells right drivers from wrong ones, ours and others."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle_cli import main
from treadle_specs.conformance import command
from treadle_specs.conformance.fair_rules import FAIR
from treadle_specs.conformance.kit import Untickable, check_driver
from treadle_specs.conformance.local import LocalRig
from treadle_specs.conformance.plan import Plan
from treadle_specs.conformance.profiles import LEAST, SUITE
from treadle_specs.conformance.replays import replay_script
from treadle_specs.conformance.reporting import as_json, as_junit, as_text
from treadle_specs.conformance.verdicts import CaseResult
from treadle_specs.conformance.wrong import MUTANTS, MutantRig, mutant
from treadle_specs.exploration.violation import Violation

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TOY = f"{sys.executable} -I {ROOT / 'examples' / 'asyncio_rig.py'}"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Drivers that are wrong on purpose complain; that is not what is looked at here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [str(ROOT / folder) for folder in ("machine", "adapters", "specs", "diagrams")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))


def plan(**given: Any) -> Plan:
    return Plan(**{"examples": 60, "shrink": False, **given})


def test_our_own_driver_conforms_when_it_is_only_settled_and_every_rule_was_at_stake() -> None:
    verdict = check_driver(lambda: Untickable(LocalRig()), plan(examples=250))
    assert verdict.conforms, as_text(verdict)
    assert verdict.known.driver.startswith("treadle")
    assert {rule: times for rule in SUITE if (times := verdict.times(rule)) < LEAST} == {}
    assert not verdict.rules_that_are("not applicable")


def test_the_whole_command_exercises_every_rule_of_its_reach_on_our_own_driver(environment: None) -> None:
    verdict = command.conform(seconds=None, examples=200, seed=1)
    assert verdict.conforms, as_text(verdict)
    assert set(verdict.rules) == command.reach() - set(FAIR) - {"P2"}  # judged by the profile durable alone
    assert {rule for rule, became in verdict.rules.items() if became != "held"} == set()
    assert all(verdict.times(rule) > 0 for rule in verdict.rules)
    assert {case.outcome for case in verdict.cases} == {"ok"}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_driver_is_told_from_outside(name: str) -> None:
    verdict = check_driver(mutant(name), plan(examples=500, rounds=1), raises=False)
    assert verdict.word == "does not conform", f"{name} is not noticed"
    assert verdict.broken[0].steps


def test_a_driver_on_asyncio_that_shares_no_code_with_ours_passes_the_core_profile() -> None:
    verdict = command.conform(TOY, profile="core", seconds=None, examples=60, seed=1)
    assert verdict.conforms, as_text(verdict)
    assert verdict.known.driver == "asyncio-toy 1"


def test_a_counterexample_is_shortened_saved_and_replayed_on_the_wrong_driver_only() -> None:
    name = "a turn ends twice"
    verdict = check_driver(mutant(name), plan(rounds=1, shrink=True), raises=False)
    script = json.loads(json.dumps(verdict.broken[0].script()))
    assert len(script["steps"]) < 20
    wrong = Untickable(MutantRig(MUTANTS[name]))
    try:
        with pytest.raises(Violation, match=verdict.broken[0].rule):
            replay_script(script, wrong)
    finally:
        wrong.drop()
    rig = Untickable(LocalRig())
    replay_script(script, rig)
    rig.stop()


def test_a_broken_rule_does_not_end_the_search_and_the_runs_that_it_cut_short_are_counted() -> None:
    verdict = check_driver(mutant("a turn ends twice"), plan(), raises=False)
    assert verdict.runs == 60
    assert sum(one.times for one in verdict.broken) > len(verdict.broken)
    assert verdict.masked == sum(one.times - 1 for one in verdict.broken)
    assert verdict.of("L9") == "held"


def test_expected_failures_do_not_fail_a_run_and_those_that_did_not_happen_are_told() -> None:
    name, known = "a turn ends twice", frozenset({"N3", "M1"})
    verdict = check_driver(mutant(name), plan(expected=known, rounds=2), raises=False)
    assert verdict.of("N3") == "expected"
    assert verdict.of("L5") == "held"
    assert "M1" in verdict.surprises
    with pytest.raises(Violation):
        check_driver(mutant(name), plan())


def test_only_the_rules_that_are_asked_for_are_judged() -> None:
    name = "a turn ends twice"
    verdict = check_driver(mutant(name), plan(rules=frozenset({"L9"})), raises=False)
    assert verdict.rules == {"L9": "held"}
    assert verdict.masked > 0
    assert check_driver(mutant(name), plan(rules=frozenset({"N3"})), raises=False).of("N3") == "broken"


def test_reports_are_text_json_and_junit() -> None:
    verdict = check_driver(mutant("a turn ends twice"), plan(rounds=1), raises=False)
    verdict.cases += [CaseResult("a case", ["C1"], "failed", "<no>\x00"), CaseResult("another", ["C2"], "skipped")]
    assert "does not conform" in as_text(verdict)
    told = json.loads(json.dumps(as_json(verdict)))
    assert told["conforms"] is False
    assert told["rules"]["N3"]["verdict"] == "broken"
    suite = ET.fromstring(as_junit(verdict))
    assert len(suite.findall("testcase")) == len(told["rules"]) + 3
    assert int(suite.get("failures") or 0) == len(suite.findall("testcase/failure"))


def test_the_command_reports_and_says_by_its_status_whether_the_driver_conforms(
    tmp_path: Path, environment: None, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    options = ["--rig", TOY, "--core", "--no-corpus", "--seed", "1", "--format", "json", "--output", str(report)]
    assert main(["conform", *options, "--examples", "60"]) == 0
    told = json.loads(report.read_text())
    assert (told["conforms"], told["seed"], told["profile"]) == (True, 1, "core")
    assert main(["conform", *options, "--examples", "1"]) == 3
    assert json.loads(report.read_text())["verdict"] == "not fully exercised"
    script = tmp_path / "script.json"
    steps = [
        {"do": "deliver", "message": {"id": "m", "text": "m"}, "target": "next-turn", "wakeup": True},
        {"do": "settle"},
        {"do": "pass", "gate": "model", "chunks": [{"text": "x"}], "end": "stop"},
    ]
    script.write_text(json.dumps({"name": "one turn", "rules": [], "steps": steps}))
    assert main(["replay", str(script), "--rig", TOY]) == 0
    assert "one turn: holds" in capsys.readouterr().out


def test_a_file_of_expected_failures_may_have_remarks(tmp_path: Path) -> None:
    place = tmp_path / "expected.txt"
    place.write_text("C5  # partial text\n\n# nothing\nQ1\n")
    assert command.expectations(str(place)) == ["C5", "Q1"]
    assert command.expectations("C5, Q1") == ["C5", "Q1"]


def test_the_pytest_plugin_runs_the_kit_against_a_named_rig(environment: None, tmp_path: Path) -> None:
    options = ["--treadle-rig", TOY, "--treadle-core", "--treadle-examples", "60", "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-p", "treadle_specs.pytest_plugin", *options]
    if _installed():
        command[3:5] = []
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(point.name == "treadle" for point in entry_points(group="pytest11"))
