"""The conformance kit as tests; the pytest plugin has them collected when a rig is named."""

from __future__ import annotations

import importlib
from typing import Any

from treadle_specs import run_cases
from treadle_specs.conformance.command import expectations
from treadle_specs.conformance.kit import ProcessRig, check_case, check_driver


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
    command = option("--treadle-rig")
    check_driver(
        lambda: ProcessRig(command),
        examples=option("--treadle-examples"),
        core=option("--treadle-core"),
        expected=expectations(option("--treadle-expect")),
    )


def test_the_packaged_case_holds(request: Any, treadle_case: Any) -> None:
    """One packaged case."""
    pytest: Any = importlib.import_module("pytest")
    option = request.config.getoption
    result = check_case(treadle_case, option("--treadle-rig"), expectations(option("--treadle-expect")))
    if result.outcome == "skipped":
        pytest.skip(result.message)
    if result.outcome == "expected":
        pytest.xfail(result.message)
    assert result.outcome == "ok", result.message
