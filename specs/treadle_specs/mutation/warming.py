"""The process that is forked for each change: tests are loaded, and were run once, so that it is known what each reaches.

It is a plugin of pytest that takes the place of its loop. The first run is measured by ``coverage``; a test that fails
there is left out and named, since it would kill everything. Then a change is tried on the tests that reach its line, the
quickest first.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen
from coverage import Coverage

from .judging import Say, Verdict, judge
from .ledger import equivalent
from .operators import Mutant, mutants
from .parts import ROOT, SOURCES, Part
from .swapping import Living, living, swap

SLOW = 1.0
"""Seconds of processor time above which a test is too dear to be run for each change."""
BATCH = 16
"""So many are tried before the time is looked at."""


@frozen
class Task:
    """How much of a part is tried.

    Attributes:
        sample: how many mutants; all of them when ``None``.
        seed: of the sample.
        seconds: of processor time, after which no further one is begun.
        every: ask every layer, also when one has noticed.
        jobs: processes.
        only: text that a mutant's place has to contain.
        quick: only the part's own tests, and its layers.
        tests: only tests.
    """

    part: Part
    sample: int | None = None
    seed: int = 0
    seconds: float = 3600.0
    every: bool = False
    jobs: int = 1
    only: str = ""
    quick: bool = False
    tests: bool = False

    def possible(self) -> list[Mutant]:
        """Every mutant inside a function; where the code of modules is concerned, other tests look at it."""
        found = [each for file in self.part.sources() for each in mutants(SOURCES, file)]
        return [each for each in found if each.outermost is not None and self.only in str(each)]

    def chosen(self) -> list[Mutant]:
        """The sample. A change of the sources exchanges those of its mutants only that it concerns."""

        def lot(mutant: Mutant) -> bytes:
            return hashlib.sha256(repr((self.seed, mutant.key)).encode()).digest()

        return sorted(self.possible(), key=lot)[: self.sample]

    def rooms(self) -> list[str]:
        """The tests to load."""
        return [f"tests/{room}" for room in (*self.part.rooms, *(() if self.quick else self.part.others))]


@frozen
class Run:
    """What was done for a task.

    Attributes:
        possible: how many mutants the part has in its functions.
        verdicts: of those that were tried.
        left_out: tests that fail without any change.
    """

    task: Task
    possible: int
    verdicts: list[Verdict]
    left_out: list[str]


@define
class Warm:
    """The plugin: runs the tests once, then tries the changes."""

    tasks: Sequence[Task]
    told: Callable[[Verdict], object]
    runs: list[Run] = field(factory=list[Run])
    spent: dict[str, float] = field(factory=dict[str, float])
    failed: list[str] = field(factory=list[str])
    reach: dict[str, dict[int, list[str]]] = field(factory=dict[str, dict[int, list[str]]])
    items: dict[str, Any] = field(factory=dict[str, Any])
    functions: Living = field(factory=lambda: {})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what failed."""
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests: learn what they reach, then try the changes."""
        self.items = {item.nodeid: item for item in session.items}
        self._learn(session.items)
        left_out = sorted(set(self.failed))
        for name in left_out:
            del self.items[name]
        self.failed.clear()
        self.functions = living(SOURCES)
        for task in self.tasks:
            chosen = task.chosen()
            verdicts = self._tried(task, chosen)
            self.runs.append(Run(task, len(task.possible()), verdicts, left_out))
        return True

    def _learn(self, items: Sequence[pytest.Item]) -> None:
        cover = Coverage(data_file=None, config_file=False, include=[f"{SOURCES}/*"])
        cover.start()
        for at, item in enumerate(items):
            cover.switch_context(item.nodeid)
            began = time.process_time()
            run(item, items[at + 1] if at + 1 < len(items) else None)
            self.spent[item.nodeid] = time.process_time() - began
        cover.stop()
        data = cover.get_data()
        for task in self.tasks:
            for file in task.part.sources():
                self.reach[file] = data.contexts_by_lineno(str(SOURCES / file))

    # --- trying -------------------------------------------------------------------------------------------------------

    def _tried(self, task: Task, chosen: Sequence[Mutant]) -> list[Verdict]:
        """Try them in processes that are forked of this one; each of those forks again for each change."""
        verdicts: list[Verdict] = []
        SHARED["warm"], SHARED["task"] = self, task
        with ProcessPoolExecutor(task.jobs, get_context("fork")) as pool:
            for at in range(0, len(chosen), BATCH):
                for verdict in pool.map(_tried_there, chosen[at : at + BATCH]):
                    verdicts.append(verdict)
                    self.told(verdict)
                if sum(each.seconds for each in verdicts) >= task.seconds:
                    break
        return verdicts

    def tried(self, task: Task, mutant: Mutant) -> Verdict:
        """Put one change on trial."""
        return judge(mutant, lambda say: self._trial(task, mutant, say))

    def _trial(self, task: Task, mutant: Mutant, say: Say) -> None:
        say("layer", "swap")
        if not swap(SOURCES, mutant, self.functions):
            raise LookupError(f"nothing in this process holds {mutant}")
        own, others = self._reaching(task.part, mutant)
        layers: list[tuple[str, Callable[[], str | None]]] = [
            ("own tests", lambda: self._tests(own, say)),
            ("other tests", lambda: self._tests(others, say)),
            *(() if task.tests or (equivalent(mutant) and not task.every) else task.part.layers),
        ]
        for name, layer in layers:
            say("layer", name)
            try:
                noticed = layer()
            except BaseException as error:
                noticed = f"{type(error).__name__}: {error}"
            if noticed is not None:
                say("killed", noticed)
                if not task.every:
                    return

    def _reaching(self, part: Part, mutant: Mutant) -> tuple[list[str], list[str]]:
        """The tests that reach the line of a change, its own and others, quick ones first."""
        lines = self.reach[mutant.file]
        first = mutant.outermost[1] if mutant.outermost is not None else mutant.line
        # a line inside a statement of many lines may have no mark of its own
        near = next((at for at in range(mutant.line, first - 1, -1) if lines.get(at)), first)
        names = [name for name in lines.get(near, []) if name in self.items and self.spent[name] < SLOW]
        names.sort(key=lambda name: self.spent[name])
        rooms = tuple(f"tests/{room}" for room in part.rooms)
        own = [name for name in names if name.startswith(rooms)]
        return own, [name for name in names if not name.startswith(rooms)]

    def _tests(self, names: Sequence[str], say: Say) -> str | None:
        self.failed.clear()
        for at, name in enumerate(names):
            say("test", name)
            run(self.items[name], self.items[names[at + 1]] if at + 1 < len(names) else None)
            if self.failed:
                return name
        return None


SHARED: dict[str, Any] = {}
"""What a forked process finds by name."""


def _tried_there(mutant: Mutant) -> Verdict:
    return SHARED["warm"].tried(SHARED["task"], mutant)


def run(item: Any, following: Any) -> None:
    """One test, by pytest's own protocol."""
    item.ihook.pytest_runtest_protocol(item=item, nextitem=following)


def warmed(tasks: Sequence[Task], told: Callable[[Verdict], object]) -> list[Run]:
    """Load the tests of these parts, run them once, and try the changes.

    Raises:
        FileNotFoundError: there are no tests: this is no checkout.
        RuntimeError: they could not be loaded.
    """
    if not (ROOT / "tests").is_dir():
        raise FileNotFoundError(f"there are no tests at {ROOT}: mutation needs a checkout that is installed editable")
    rooms = dict.fromkeys([room for task in tasks for room in task.rooms()])
    rooms = [room for room in rooms if not any(room != other and Path(other) in Path(room).parents for other in rooms)]
    warm = Warm(tasks, told)
    said = io.StringIO()
    options = ["--rootdir", str(ROOT), "--override-ini", "addopts=", "--import-mode=importlib", "-m", "not slow"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # this module was loaded before pytest began
    os.chdir(ROOT)
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    with contextlib.redirect_stdout(said):
        pytest.main(["-q", "-p", "no:cacheprovider", "-n", "0", *options, *rooms], plugins=[warm])
    if len(warm.runs) < len(tasks):
        raise RuntimeError(f"the tests could not be loaded:\n{said.getvalue()[-4000:]}")
    return warm.runs
