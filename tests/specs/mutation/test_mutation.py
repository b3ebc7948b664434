"""The mutation of code: what is changed, that the change is in force, who is blamed, and that a hang is noticed."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio

from treadle_specs.mutation import judging
from treadle_specs.mutation.figures import figures, merged, saved, score, table
from treadle_specs.mutation.judging import Say, Verdict, judge
from treadle_specs.mutation.ledger import Equivalent, entries, entry_of, equivalent, stale, survivors, wrong
from treadle_specs.mutation.operators import Mutant, mutants
from treadle_specs.mutation.parts import PARTS, ROOT, SOURCES
from treadle_specs.mutation.swapping import living, swap
from treadle_specs.mutation.warming import Run, Task

TOY = '''\
"""A module."""

import trio

LIMIT = 3


class Box:
    """A box."""

    def __init__(self, size: int = LIMIT) -> None:
        self.size = size

    @trio.lowlevel.enable_ki_protection
    def fits(self, n: int) -> bool:
        if n < 0 and self.size:
            raise ValueError("not so few: 0")
        return n <= self.size

    def label(self) -> str:
        return f"{self.size} of" + "max"


def several():
    def inner(n):
        return n + 1

    return [inner(n) for n in (1, 2)]


class Small(Box):
    def label(self) -> str:
        return super().label() + "!"


def protected() -> bool:
    return trio.lowlevel.currently_ki_protected()
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = tmp_path / "toy.py"
    path.write_text(TOY, encoding="utf-8")
    made = importlib.util.spec_from_file_location("toy_of_mutation", path)
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    monkeypatch.setitem(sys.modules, "toy_of_mutation", module)
    made.loader.exec_module(module)
    return module


def of(module: ModuleType) -> tuple[Path, dict[str, Mutant]]:
    folder = Path(str(module.__file__)).parent
    return folder, {f"{mutant.function} {mutant.change}": mutant for mutant in mutants(folder, "toy.py")}


# --- what is changed --------------------------------------------------------------------------------------------------


def test_decisions_are_changed_and_what_people_read_is_not(toy: ModuleType) -> None:
    _, found = of(toy)
    assert {
        "Box.fits n < 0 -> n <= 0",
        "Box.fits n < 0 and self.size -> n < 0 or self.size",
        "Box.fits n < 0 and self.size -> self.size",
        "Box.fits n < 0 and self.size -> True",
        "Box.fits 0 -> 1",
        "Box.fits raise ValueError('not so few: 0') -> pass",
        "Box.fits return n <= self.size -> return None",
        "Box.__init__ self.size = size -> pass",
        "Box.label 'max' -> 'maxXX'",
        "several.inner n + 1 -> n - 1",
        " 3 -> 4",
    } <= set(found)
    words = [mutant.change for mutant in found.values() if mutant.operator == "constant" and "'" in mutant.change]
    assert words == ["'max' -> 'maxXX'", "'!' -> '!XX'"]


def test_each_change_has_a_name_of_its_own_that_a_line_above_does_not_alter(toy: ModuleType, tmp_path: Path) -> None:
    _, found = of(toy)
    moved = tmp_path / "moved"
    moved.mkdir()
    (moved / "toy.py").write_text("# one more line\n" + TOY, encoding="utf-8")
    again = mutants(moved, "toy.py")
    assert len({mutant.key for mutant in again}) == len(again)
    assert {mutant.key for mutant in again} == {mutant.key for mutant in found.values()}
    assert {mutant.line for mutant in again} != {mutant.line for mutant in found.values()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "call", "before", "after"),
    [
        ("Box.fits n <= self.size -> n < self.size", lambda toy: toy.Box(2).fits(2), True, False),
        ("Box.fits n < 0 and self.size -> False", lambda toy: toy.Box(2).fits(1), True, True),
        ("Box.label 'max' -> 'maxXX'", lambda toy: toy.Box(2).label(), "2 ofmax", "2 ofmaxXX"),
        ("Small.label return super().label() + '!' -> return None", lambda toy: toy.Small(2).label(), "2 ofmax!", None),
        ("several.inner n + 1 -> n - 1", lambda toy: toy.several(), [2, 3], [0, 1]),
    ],
)
def test_a_change_is_in_force_in_the_functions_that_are_there(
    toy: ModuleType, change: str, call: Any, before: object, after: object
) -> None:
    folder, found = of(toy)
    functions = living(folder)
    assert call(toy) == before
    assert swap(folder, found[change], functions) == 1
    assert call(toy) == after


@pytest.mark.slow
def test_a_function_that_is_protected_from_interrupts_stays_so(toy: ModuleType) -> None:
    folder, found = of(toy)
    assert swap(folder, found["Box.fits n <= self.size -> n < self.size"], living(folder)) == 1

    class Size:
        def __gt__(self, _other: object) -> bool:
            return toy.protected()

    async def protects() -> bool:
        return toy.Box(Size()).fits(1)

    assert trio.run(protects) is True


@pytest.mark.slow
def test_what_runs_at_import_is_in_no_function(toy: ModuleType) -> None:
    folder, found = of(toy)
    assert found[" 3 -> 4"].outermost is None
    assert swap(folder, found[" 3 -> 4"], living(folder)) == 0


# --- on trial ---------------------------------------------------------------------------------------------------------

MUTANT = Mutant("toy.py", "f", "compare", "a -> b", "a", 0, 1, ("f", 1))


def say_layers(*layers: tuple[str, str | None]) -> Any:
    def trial(say: Say) -> None:
        for layer, noticed in layers:
            say("layer", layer)
            if noticed is not None:
                say("killed", noticed)

    return trial


def test_the_layer_that_noticed_is_named() -> None:
    verdict = judge(MUTANT, say_layers(("tests", None), ("explorer", "[L1] seen"), ("machine", None)))
    assert verdict.killed == {"explorer": "[L1] seen"}
    assert verdict.tried == ("tests", "explorer", "machine")
    assert judge(MUTANT, say_layers(("tests", None))).killed == {}


def test_whatever_a_trial_raises_is_noticed_and_so_is_a_process_that_dies() -> None:
    def raises(say: Say) -> None:
        say("layer", "tests")
        raise SystemExit(3)

    def dies(say: Say) -> None:
        say("layer", "tests")
        os._exit(0)

    assert judge(MUTANT, raises).killed == {"tests": "SystemExit: 3"}
    assert judge(MUTANT, dies).killed == {"tests": "the process died in tests"}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
@pytest.mark.parametrize("how", ["sleeps", "computes"])
def test_a_process_that_hangs_is_given_up(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "ASLEEP", 2)
    monkeypatch.setattr(judging, "COMPUTING", 0.2)

    def hangs(say: Say) -> None:
        say("layer", "tests")
        say("test", "test_a")
        while True:
            if how == "sleeps":
                time.sleep(1000)

    assert judge(MUTANT, hangs).killed == {"tests": "hangs in test_a"}


@pytest.mark.slow
def test_a_process_that_is_slow_and_goes_on_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "ASLEEP", 2)
    monkeypatch.setattr(judging, "COMPUTING", 60.0)

    def slow(say: Say) -> None:
        say("layer", "tests")
        until = time.process_time() + 0.6
        while time.process_time() < until:
            pass

    assert judge(MUTANT, slow).killed == {}


# --- the parts and the ledger -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_part_has_its_sources_and_its_tests() -> None:
    for part in PARTS:
        assert Task(part).possible()
        for room in (*part.rooms, *part.others):
            assert (ROOT / "tests" / room).exists(), room
    loop = {f"loop/{path.name}" for path in (SOURCES / "loop").glob("*.py")}
    named = {file for part in PARTS for file in part.sources()}
    assert loop - named == {"loop/__init__.py", "loop/services.py", "loop/surroundings.py"}  # they decide nothing


@pytest.mark.slow
def test_a_sample_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    part = PARTS[0]
    first = Task(part, sample=10).chosen()
    assert first == Task(part, sample=10).chosen() == Task(part, sample=20).chosen()[:10]
    assert first != Task(part, sample=10, seed=1).chosen()


def test_the_ledger_fits_the_sources_and_gives_reasons() -> None:
    assert stale(entries()) == []
    assert all([len(entry.reason) > 20 for entry in entries()])
    assert len({entry.key for entry in entries()}) == len(entries())


@pytest.mark.slow
def test_an_entry_that_fits_nothing_is_stale_and_one_that_is_noticed_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, other = Task(PARTS[0]).possible()[:2]
    good = Equivalent(**entry_of(mutant, "it makes no difference"))
    old = Equivalent(**{**entry_of(other, "it is gone since"), "change": "there is no such -> change"})
    assert stale([good, old]) == [old]
    monkeypatch.setattr("treadle_specs.mutation.ledger.entries", lambda: (good,))
    assert equivalent(mutant)
    assert not equivalent(other)
    noticed, unnoticed = {"tests": "test_a"}, dict[str, str]()
    assert wrong([Verdict(mutant, noticed, (), 0.0)])
    assert not wrong([Verdict(mutant, unnoticed, (), 0.0), Verdict(other, noticed, (), 0.0)])
    assert survivors([Verdict(mutant, unnoticed, (), 0.0), Verdict(other, unnoticed, (), 0.0)]) == [other]


def test_figures_count_by_layer_and_are_kept_by_part(tmp_path: Path) -> None:
    mutant = Task(PARTS[0]).possible()[0]
    verdicts = [
        Verdict(mutant, {"own tests": "test_a"}, ("swap", "own tests"), 0.1),
        Verdict(mutant, {"explorer": "hangs in explorer"}, ("swap", "own tests", "explorer"), 0.2),
        Verdict(mutant, {}, ("swap", "own tests", "explorer"), 0.3),
    ]
    found = figures(Run(Task(PARTS[0]), 3, verdicts, []))
    assert (found["tried"], found["killed"], found["hanging"], len(found["survivors"])) == (3, 2, 1, 1)
    assert found["first"] == {"own tests": 1, "explorer": 1}
    assert found["seen"] == {"own tests": [1, 2], "explorer": [1, 1]}
    assert score(found) == pytest.approx(2 / 3)
    assert "| kernel | 3 | all | 2 | 1 | 0 | 1 | 66.7% |" in table([found])
    kept = tmp_path / "figures.json"
    saved(kept, {"loop": {"part": "loop"}})
    saved(kept, merged(kept, [Run(Task(PARTS[0]), 3, verdicts, [])]))
    assert list(json.loads(kept.read_text(encoding="utf-8"))) == ["loop", "kernel"]
