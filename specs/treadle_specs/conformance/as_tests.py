"""The conformance kit as tests; the pytest plugin has them collected when a rig is named."""

from __future__ import annotations

import importlib
from contextlib import closing
from typing import Any

from treadle_specs import run_cases
from treadle_specs.conformance.command import conform, expectations
from treadle_specs.conformance.kit import check_case
from treadle_specs.conformance.process_rig import Rigs
from treadle_specs.conformance.reporting import as_text


def pytest_generate_tests(metafunc: Any) -> None:
    """One test per packaged case."""
    if "treadle_case" not in metafunc.fixturenames:
        return
    cases: list[Any] = []
    if not metafunc.config.getoption("--treadle-core"):
        cases = [case for _, case in run_cases.selected(run_cases.own_cases())]
    metafunc.parametrize("treadle_case", cases, ids=[case["name"] for case in cases])


def test_every_rule_of_the_property_suite_holds(request: Any) -> None:
    """The property suite."""
    option = request.config.getoption
    verdict = conform(
        option("--treadle-rig"),
        profile="core" if option("--treadle-core") else "full",
        seconds=option("--treadle-seconds"),
        examples=option("--treadle-examples"),
        expected=expectations(option("--treadle-expect")),
        cases=False,
    )
    assert verdict.conforms, as_text(verdict)


def test_the_packaged_case_holds(request: Any, treadle_case: Any) -> None:
    """One packaged case."""
    pytest: Any = importlib.import_module("pytest")
    option = request.config.getoption
    with closing(Rigs(option("--treadle-rig"))) as rigs:
        result = check_case(treadle_case, rigs, expectations(option("--treadle-expect")))
    if result.outcome == "skipped":
        pytest.skip(result.message)
    if result.outcome == "expected":
        pytest.xfail(result.message)
    assert result.outcome == "ok", result.message
