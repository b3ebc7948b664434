"""Each code that the packages can tell is explained, and whatever tells one says its name."""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle import Failure, ModelFailure, SessionLocked, ToolError
from treadle.kernel.missing_results import TEXTS
from treadle.models import Code
from treadle_cli import main
from treadle_cli.codes import table

ROOT = Path(__file__).parents[3]
PACKAGES = ("machine/treadle", "adapters/treadle_adapters", "adapters/treadle_cli")
TELL = {
    "error_result",
    "contained",
    "Failure",
    "ToolError",
    "Refused",
    "ToolResultAdded",
    "missing_result",
    "failed",
    "_failed",
    "Problem",
}
"""What is called with a code as one of its arguments."""
WORD = re.compile(r"[A-Z][A-Z]+(_[A-Z]+)*")


def codes_in(tree: ast.AST) -> Iterator[str]:
    """The codes that a module gives to what it makes, and those of its classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for one in node.body:
                targets = (
                    one.targets
                    if isinstance(one, ast.Assign)
                    else [one.target]
                    if isinstance(one, ast.AnnAssign)
                    else []
                )
                if any(isinstance(target, ast.Name) and target.id == "code" for target in targets):
                    yield from words_in(one.value) if isinstance(one, ast.Assign | ast.AnnAssign) else ()
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in TELL:
                for given in [*node.args, *[one.value for one in node.keywords]]:
                    yield from words_in(given)


def words_in(node: ast.AST | None) -> Iterator[str]:
    for one in [node, *(ast.walk(node) if isinstance(node, ast.IfExp) else ())]:
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and WORD.fullmatch(one.value):
            yield one.value


def known() -> set[str]:
    return {entry.code for rows in table.entries().values() for entry in rows}


def told_by_the_packages() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for code in codes_in(ast.parse(path.read_text(encoding="utf-8"))):
                found.setdefault(code, str(path.relative_to(ROOT)))
    return found


def test_each_code_that_is_told_is_explained() -> None:
    told = told_by_the_packages()
    assert len(told) > 80
    assert {code: where for code, where in told.items() if code not in known()} == {}


def test_the_codes_of_failures_and_of_missing_results_are_explained() -> None:
    assert {code.value for code in Code} <= table.FAILURES.keys() | table.RAISED.keys()
    assert TEXTS.keys() <= table.RESULTS.keys()


def test_nothing_is_explained_that_nobody_tells() -> None:
    told = told_by_the_packages().keys() | {code.value for code in Code} | TEXTS.keys() | {"SPIN_MISSING", "SPIN_BROKE"}
    assert known() - told == set()


def test_each_entry_says_what_happened_and_what_to_do() -> None:
    short = [entry.code for rows in table.entries().values() for entry in rows if not (entry.meaning and entry.advice)]
    assert short == []
    page = table.page()
    assert all(f"### `{code}`\n" in page for code in known())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SessionLocked("process 7 has it"), "SESSION_LOCKED"),
        (ToolError("no such book", "NO_SUCH_BOOK"), "NO_SUCH_BOOK"),
        (ModelFailure(Failure("no key", "MISSING_CREDENTIAL")), "MISSING_CREDENTIAL"),
        (ModelFailure(Failure("slow down", Code.RATE_LIMIT)), "RATE_LIMIT"),
    ],
)
def test_a_traceback_names_the_code_and_where_it_is_explained(error: Exception, code: str) -> None:
    assert f"treadle explain {code}" in "".join(traceback.format_exception(error))
    assert code not in str(error)


def test_a_code_is_explained_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "aborted"]) == 0
    said = capsys.readouterr().out
    assert said.count("ABORTED") == 2
    assert "may have taken effect in part" in " ".join(said.split())


def test_all_codes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    assert known() <= set(capsys.readouterr().out.split())


def test_an_unknown_code_is_told_with_one_that_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "SESSION_LOCKT"]) == 2
    assert "did you mean SESSION_LOCKED?" in capsys.readouterr().err


def test_an_error_of_a_command_says_its_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["sessions", "show", "none", "--session-dir", str(tmp_path)]) != 0
    assert "treadle explain" in capsys.readouterr().err
