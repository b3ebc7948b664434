"""What the repository itself promises: its folders, its packaging, and who imports whom."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "treadle": "machine",
    "treadle_adapters": "adapters",
    "treadle_cli": "adapters",
    "treadle_specs": "specs",
    "treadle_diagrams": "diagrams",
}
FOLDERS = list(dict.fromkeys(PACKAGES.values()))
KERNEL = sorted(path.stem for path in (ROOT / "machine" / "treadle" / "kernel").glob("[!_]*.py"))
IMPURE = {"trio", "time", "datetime", "uuid", "uuid_utils", "random", "secrets", "threading"}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def imported_packages(path: Path) -> set[str]:
    """Top-level names of all absolute imports of a file, those inside functions included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_folder_is_itself_a_package_and_shadows_one_of_that_name(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists()


@pytest.mark.parametrize(("package", "folder"), PACKAGES.items())
def test_each_package_lies_in_its_folder_and_is_typed(package: str, folder: str) -> None:
    assert (ROOT / folder / package / "__init__.py").is_file()
    assert (ROOT / folder / package / "py.typed").is_file()


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_holds_these_packages_only(folder: str) -> None:
    found = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
    assert found == {package for package, where in PACKAGES.items() if where == folder}


def test_the_wheel_ships_exactly_these_packages() -> None:
    wheel = project()["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == [f"{folder}/{package}" for package, folder in PACKAGES.items()]


def test_import_contracts_cover_exactly_these_packages() -> None:
    assert project()["tool"]["importlinter"]["root_packages"] == list(PACKAGES)


def test_types_and_tests_find_the_packages_without_an_install() -> None:
    tools = project()["tool"]
    assert tools["pyright"]["extraPaths"] == FOLDERS
    assert tools["pytest"]["pythonpath"][: len(FOLDERS)] == FOLDERS
    assert all(f"/{folder}" in tools["mypy"]["mypy_path"] for folder in FOLDERS)


def test_the_extra_named_all_asks_for_every_extra_of_users() -> None:
    extras = project()["project"]["optional-dependencies"]
    aside = ("all", "dev", "docs", "ray")  # Ray is large, and not for every platform
    users = [name for name in extras if name not in aside]
    assert extras["all"] == [f"treadle[{','.join(users)}]"]


def test_every_dependency_is_explained() -> None:
    told = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    meta = project()["project"]
    wanted = meta["dependencies"] + [item for extra in meta["optional-dependencies"].values() for item in extra]
    names = {item.partition(">")[0].partition("[")[0] for item in wanted} - {"treadle"}
    assert {name for name in names if f"`{name}`" not in told} == set()


@pytest.mark.parametrize("module", KERNEL)
def test_the_kernel_imports_no_loop_no_clock_and_no_chance(module: str) -> None:
    path = ROOT / "machine" / "treadle" / "kernel" / f"{module}.py"
    assert imported_packages(path) & IMPURE == set()


def test_the_contract_for_the_kernel_lists_the_modules_tested_here() -> None:
    contracts = {item["id"]: item for item in project()["tool"]["importlinter"]["contracts"]}
    assert contracts["kernel"]["source_modules"] == [f"treadle.kernel.{module}" for module in KERNEL]


def test_the_kernel_test_sees_imports_that_hide_in_functions(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text("from .x import y\ndef f():\n    import time.sub\n    from random import choice\n")
    assert imported_packages(sample) == {"time", "random"}


@pytest.mark.slow
def test_a_message_walks_through_few_files_until_the_model_is_asked() -> None:
    script = ROOT / "docs" / "follow_message.py"
    told = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout.splitlines()
    files, switches, calls = [int(word) for word in told[-1].split() if word.isdigit()]
    assert files <= 16, told[-1]
    assert switches <= 45, told[-1]
    assert calls == len(told) - 1
    assert told[0].split() == ["agent/agent.py", "Agent.followup"]
