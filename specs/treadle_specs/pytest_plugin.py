"""A pytest plugin: ``pytest --treadle-rig "COMMAND"`` runs the conformance kit against the driver behind a rig.

The property suite is one test, and each packaged case is one more. ``--treadle-core`` asks only for what every driver
has; ``--treadle-expect`` names rules and cases that are known to fail.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent / "conformance" / "as_tests.py"


def pytest_addoption(parser: Any) -> None:
    """The options."""
    group = parser.getgroup("treadle", "conformance of agent drivers")
    group.addoption("--treadle-rig", metavar="COMMAND", help="hold the driver behind this rig to the contract")
    group.addoption("--treadle-core", action="store_true", help="only what every driver has")
    group.addoption("--treadle-expect", default="", metavar="LIST|FILE", help="rules or cases known to fail")
    group.addoption("--treadle-seconds", type=float, default=30.0, help="for the property suite (default 30)")
    group.addoption("--treadle-examples", type=int, default=None, help="runs of the property suite at most")


def pytest_configure(config: Any) -> None:
    """Add the tests when a rig is named; they are not looked for otherwise."""
    if config.getoption("--treadle-rig"):
        config.args[:] = [str(TESTS)]
