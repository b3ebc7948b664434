"""What releases are made of: notes of fragments, archives that are the same each time, what they bring along."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import treadle
from docs.site import extras

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_of_ci", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def repository(folder: Path, **fragments: str) -> Path:
    (folder / "changes").mkdir()
    (folder / "changes" / "README.md").write_text("How.", encoding="utf-8")
    for name, text in fragments.items():
        (folder / "changes" / f"{name.replace('__', '.')}.md").write_text(text, encoding="utf-8")
    old = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A loom.\n\n## [0.1.0] – 2026-01-01\n\n### Added\n\n- All.\n"
    (folder / "CHANGELOG.md").write_text(old, encoding="utf-8")
    return folder


def test_the_version_is_that_of_the_core() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "machine/treadle/__init__.py"
    assert treadle.__version__.count(".") == 2


def test_fragments_become_a_section(release: ModuleType, tmp_path: Path) -> None:
    root = repository(tmp_path, shuttle__fixed="The shuttle\nstays.\n", heddle__added="A heddle.")
    release.notes(root, "0.2.0", "2026-12-01")
    assert (root / "CHANGELOG.md").read_text(encoding="utf-8") == (
        "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] – 2026-12-01\n\n### Added\n\n- A loom.\n- A heddle.\n\n"
        "### Fixed\n\n- The shuttle\n  stays.\n\n## [0.1.0] – 2026-01-01\n\n### Added\n\n- All.\n"
    )
    assert [path.name for path in (root / "changes").iterdir()] == ["README.md"]


def test_a_fragment_of_no_kind_is_told_and_nothing_is_changed(release: ModuleType, tmp_path: Path) -> None:
    root = repository(tmp_path, heddle__add="A heddle.")
    before = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match="not 'add'"):
        release.notes(root, "0.2.0", "2026-12-01")
    assert (root / "CHANGELOG.md").read_text(encoding="utf-8") == before


def test_the_fragments_that_wait_are_of_known_kinds(release: ModuleType) -> None:
    names = [path.name for path in (ROOT / "changes").glob("*.md") if path.name != "README.md"]
    assert [name for name in names if name.split(".")[-2] not in release.KINDS] == []


@pytest.mark.slow
def test_built_twice_archive_and_wheel_are_equal(release: ModuleType, tmp_path: Path) -> None:
    made = release.build(ROOT, tmp_path / "dist")
    assert sorted([path.suffix for path in made]) == [".gz", ".whl"]
    assert all(path.stat().st_size > 100_000 for path in made)


@pytest.mark.slow
def test_builds_that_differ_are_told(release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(words: list[str], **options: object) -> object:
        if "hatchling" in words:
            folder = Path(words[-1])
            folder.mkdir(exist_ok=True)
            (folder / "x.whl").write_text(str(folder), encoding="utf-8")
        return type("Done", (), {"stdout": "1"})

    monkeypatch.setattr(release.subprocess, "run", build)
    with pytest.raises(SystemExit, match=r"differ: x\.whl"):
        release.build(ROOT, tmp_path / "dist")


@pytest.mark.slow
def test_the_bill_of_materials_names_what_is_installed(release: ModuleType, tmp_path: Path) -> None:
    release.materials(sys.executable, tmp_path / "bill.json")
    bill = json.loads((tmp_path / "bill.json").read_text(encoding="utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    assert {"trio", "attrs", "msgspec"} <= {one["name"].lower() for one in bill["components"]}


def test_every_extra_is_measured() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(declared) - {"dev", "docs", "ray"} == set(extras.IMPORTED) - {""}
    kept = json.loads(extras.KEPT.read_text(encoding="utf-8"))
    assert set(kept["extras"]) == set(extras.IMPORTED) == set(extras.FOR)
    assert "| `models` |" in extras.page()


@pytest.mark.skipif(shutil.which("uv") is None, reason="no uv here")
def test_a_python_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert extras.measured(tmp_path / "none.whl", "", "3.99") is None
