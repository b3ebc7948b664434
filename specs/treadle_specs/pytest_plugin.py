"""A pytest plugin: ``pytest --treadle-rig "COMMAND"`` runs the conformance kit against the driver behind a rig.

The property suite is one test, and each packaged case is one more. ``--treadle-core`` asks only for what every driver
has; ``--treadle-expect`` names rules and cases that are known to fail.

The fixture ``rehearse`` runs recorded sessions again on an agent of yours and fails where something differs;
``--treadle-accept`` writes the new recordings instead.

The fixture ``agent_check`` is ``check_agent`` of ``treadle_specs.agents`` under the options of the command line:
``--agent-sweeps`` names the sweeps to make, ``--agent-only`` the one disturbance to replay, as a finding names it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent / "conformance" / "as_tests.py"


def pytest_addoption(parser: Any) -> None:
    """The options."""
    group = parser.getgroup("treadle", "conformance of agent drivers")
    group.addoption("--treadle-rig", metavar="COMMAND", help="hold the driver behind this rig to the contract")
    group.addoption("--treadle-core", action="store_true", help="only what every driver has")
    group.addoption("--treadle-expect", default="", metavar="LIST|FILE", help="rules or cases known to fail")
    group.addoption("--treadle-seconds", type=float, default=30.0, help="for the property suite (default 30)")
    group.addoption("--treadle-accept", action="store_true", help="write recordings anew that are rehearsed otherwise")
    group.addoption("--treadle-examples", type=int, default=None, help="runs of the property suite at most")
    group.addoption("--agent-sweeps", metavar="LIST", help="which sweeps agent_check makes: harm,cancel,die,…")
    group.addoption("--agent-only", metavar="DISTURBANCE", help="what agent_check replays: 'cancel at 7', say")


@pytest.fixture
def agent_check(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """``check_agent``, under the options of the command line; what it did is told with the test's output."""
    from .agents import AgentFaulty, check_agent

    chosen: dict[str, Any] = {}
    sweeps, only = request.config.getoption("--agent-sweeps"), request.config.getoption("--agent-only")
    if sweeps:
        chosen["sweeps"] = sweeps.split(",")
    if only:
        chosen["only"] = only

    def check(*args: Any, **named: Any) -> Any:
        try:
            report = check_agent(*args, **{**named, **chosen})
        except AgentFaulty as faulty:
            pytest.fail(str(faulty), pytrace=False)
        request.node.add_report_section("call", "agent check", str(report))
        return report

    return check


def pytest_configure(config: Any) -> None:
    """Add the tests when a rig is named; they are not looked for otherwise."""
    if config.getoption("--treadle-rig"):
        config.args[:] = [str(TESTS)]


@pytest.fixture
def rehearse(pytestconfig: Any) -> Callable[..., Any]:
    """Rehearse a session, or a folder of them: as ``treadle_specs.rehearsal.rehearse``, and a difference fails the test.

    Returns:
        A function of the path and ``make_agent``; it returns the ``Rehearsals``.
    """
    from .rehearsal import rehearse as run

    def checked(path: str | Path, make_agent: Any, **options: Any) -> Any:
        given = {"accept": pytestconfig.getoption("--treadle-accept"), **options}
        rehearsals = run(path, make_agent, **given)
        if not all(one.same or one.accepted for one in rehearsals.sessions):
            pytest.fail("\n".join(str(one) for one in rehearsals.sessions if not one.same), pytrace=False)
        return rehearsals

    return checked
