"""How the whole suite runs: a timeout for each test, and who shares a process when several run."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from trio._core._run import GLOBAL_RUN_CONTEXT  # there is no public way to end a run that is not its own

from tests.postgres import Server, programs
from tests.timeouts import pytest_timeout_set_timer

__all__ = ["pytest_timeout_set_timer"]

if sys.dont_write_bytecode and sys.pycache_prefix is None:
    # Nothing is to be written beside the sources; but compiling every test anew takes each process ten seconds.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    sys.pycache_prefix, sys.dont_write_bytecode = str(cache / "treadle-tests" / "bytecode"), False
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix  # and so do the processes that tests start
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

SHARED = {
    "aimock": "aimock",
    "browser": "browser",
    "llama": "llama",
    "postgres": "postgres",
    "report": "explorer",
    "verdicts": "promela",
    "walked": "promela",
}
"""Fixtures that cost seconds to make, and the group whose tests run in one process and share them."""


LONG = "TREADLE_LONG" in os.environ
"""Whether tests that are sampled run whole, however long: ``bash .ci/long``."""


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server, once for all tests that need one."""
    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL server here (Debian package: postgresql)")
    server = Server.make(found)
    yield server
    server.remove()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One process more than cores, since many tests wait; but one that is named runs here, where it can be watched."""
    return 0 if any("::" in word for word in config.args) else (os.cpu_count() or 1) + 1


def pytest_itemcollected(item: pytest.Item) -> None:
    """Who shares a process is said as soon as a test is found: later, xdist has named the groups already."""
    for name in getattr(item, "fixturenames", ()):
        if name in SHARED:
            item.add_marker(pytest.mark.xdist_group(SHARED[name]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests go first, so that no process is left with one at the end; their timeout is longer, too."""
    if not LONG and not any("::" in word for word in config.args):
        left_out = _beyond_samples(items)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(7200 if LONG else 900))


def _beyond_samples(items: list[pytest.Item]) -> set[pytest.Item]:
    """Those of tests marked ``sampled(n)`` that are not every n-th of their function."""
    out: set[pytest.Item] = set()
    counts: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("sampled")
        if marker is not None:
            function = item.nodeid.partition("[")[0]
            if counts[function] % marker.args[0]:
                out.add(item)
            counts[function] += 1
    return out


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A test that leaves a run of trio behind fails, and not the tests after it."""
    if vars(GLOBAL_RUN_CONTEXT):
        vars(GLOBAL_RUN_CONTEXT).clear()
        pytest.fail(f"{item.nodeid} left a run of trio behind")


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()
