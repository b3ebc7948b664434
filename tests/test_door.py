"""The doors of the core: what each exports, that this is what the page tells, and that nobody goes round them."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import treadle
from treadle_specs.reports import public_names
from treadle_specs.reports.public_names import DAILY, THEMES, meaning

ROOT = Path(__file__).parent.parent
DOORS = (DAILY, *THEMES)
GUESTS = [*(ROOT / "examples").glob("*.py"), *(ROOT / "adapters" / "treadle_adapters").rglob("*.py")]


def door(name: str) -> ModuleType:
    return importlib.import_module(name)


def bound(module: ModuleType) -> set[str]:
    """The public names that a module's own text brings from the core, or makes."""
    found: set[str] = set()
    for node in ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            names = {alias.asname or alias.name for alias in node.names}
            found |= set(door(f"{module.__name__}.{node.module}").__all__) if names == {"*"} else names
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {name for name in found if not name.startswith("_") and not isinstance(getattr(module, name), ModuleType)}


def imports_of_core(text: str) -> set[tuple[str, str]]:
    """Pairs of module and name that a text takes from the core."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and not node.level]
    found = {(node.module or "", alias.name) for node in nodes for alias in node.names}
    return {(module, name) for module, name in found if module.partition(".")[0] == "treadle"}


@pytest.mark.parametrize("name", DOORS)
def test_a_door_says_what_it_is_and_exports_exactly_what_it_brings(name: str) -> None:
    module = door(name)
    assert module.__doc__
    assert len(module.__all__) == len(set(module.__all__))
    assert set(module.__all__) == bound(module)


@pytest.mark.parametrize("name", DOORS)
def test_every_public_name_is_explained(name: str) -> None:
    module = door(name)
    assert [public for public in module.__all__ if len(meaning(module, public).split()) < 2] == []


@pytest.mark.parametrize("name", DOORS)
def test_no_explanation_is_a_rule_id_alone(name: str) -> None:
    module = door(name)
    bare = re.compile(r"(See )?\(?[A-Z]\d+(, [A-Z]\d+)*\)?\.?")
    assert [public for public in module.__all__ if bare.fullmatch(meaning(module, public))] == []


def test_a_name_is_in_one_theme_and_what_is_used_daily_is_the_same_object() -> None:
    homes: dict[str, str] = {}
    for theme in THEMES:
        for public in door(theme).__all__:
            assert public not in homes, f"{public} is in {homes[public]} and in {theme}"
            homes[public] = theme
    for public in treadle.__all__:
        assert public not in homes or getattr(treadle, public) is getattr(door(homes[public]), public)


def test_what_is_used_daily_fits_on_a_page() -> None:
    assert len(treadle.__all__) <= 65


def test_the_page_tells_of_every_public_name() -> None:
    told = (ROOT / public_names.PAGE).read_text(encoding="utf-8")
    sections = {part.partition("`")[0]: part for part in told.split("\n## `")[1:]}
    assert list(sections) == list(DOORS)
    for name, part in sections.items():
        assert re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) == list(door(name).__all__)
    assert told == public_names.page()


@pytest.mark.slow
def test_the_page_is_checked_against_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert public_names.main(["--check", "--root", str(tmp_path)]) == 1
    assert "docs/public-names.md is stale" in capsys.readouterr().out
    assert public_names.main(["--write", "--root", str(tmp_path)]) == 0
    assert public_names.main(["--check", "--root", str(tmp_path)]) == 0


@pytest.mark.parametrize("path", GUESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_adapters_and_examples_come_in_by_the_doors(path: Path) -> None:
    taken = imports_of_core(path.read_text(encoding="utf-8"))
    assert {
        (module, name) for module, name in taken if module not in DOORS or name not in door(module).__all__
    } == set()


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["adapters", "benchmarks", "diagrams", "docs", "examples", "specs", "tests"])
def test_what_a_door_exports_is_taken_from_there(folder: str) -> None:
    exports = {(public, id(getattr(door(name), public))) for name in DOORS for public in door(name).__all__}
    for path in sorted((ROOT / folder).rglob("*.py")):
        taken = imports_of_core(path.read_text(encoding="utf-8"))
        inner = {(module, name) for module, name in taken if module not in DOORS}
        past = {(module, name) for module, name in inner if (name, id(getattr(door(module), name, None))) in exports}
        assert past == set(), path


def test_the_readme_comes_in_by_the_doors() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        assert {name for name in re.findall(r"\btreadle\.(\w+)", block) if name not in treadle.__all__} == set()
        assert {module for module, _ in imports_of_core(block)} <= set(DOORS)


@pytest.mark.slow
def test_the_doors_that_a_program_may_not_need_are_not_opened_for_it() -> None:
    asked = "import sys, treadle; print(*[name for name in ('asyncio', 'presets', 'testing') if 'treadle.' + name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.split() == []
