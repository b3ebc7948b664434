"""The contract as a page: every rule, its text, and the tests that hold it.

    python -m treadle_specs.reports.rule_table --write      # docs/contract.md
    python -m treadle_specs.reports.rule_table --check      # exit status 1 when the page is stale or a rule is not held

The texts come from ``contract.md`` of this package, the tests from the ``pytest.mark.rule`` markers under
``tests/``, read without running anything.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .generated import Made, cell, serve

CONTRACT = Path(__file__).resolve().parents[1] / "contract.md"
PAGE = "docs/contract.md"

REQUIRED_SECTIONS = frozenset({5, 6, 7, 9, 11, 15})
"""Sections in which every rule must be held by a test."""
REQUIRED_RULES = frozenset({"Q1", "Q2", "Q3", "Q4", "Q9", "Q10", "Q11", "Q12"})
"""Rules of other sections that must be held as well."""

INTRODUCTION = (
    "What the driver promises, rule by rule, with the tests that would fail if it did not. "
    "Generated: change `specs/treadle_specs/contract.md` or the tests, then run "
    "`python -m treadle_specs.reports.rule_table --write`."
)

_RULE = re.compile(r"- \*\*([A-Z]\d+)\*\* (.*)")
_SECTION = re.compile(r"## (\d+) (.*)")


class Rule(NamedTuple):
    """One rule of the contract."""

    id: str
    text: str
    section: int

    @property
    def required(self) -> bool:
        """Whether a missing test fails the check."""
        return self.section in REQUIRED_SECTIONS or self.id in REQUIRED_RULES


class Held(NamedTuple):
    """One test that says which rules it holds."""

    path: str
    name: str
    rules: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The test's name, read aloud."""
        return self.name.removeprefix("test_").replace("_", " ")


def read_contract(text: str) -> tuple[dict[int, str], list[Rule]]:
    """Read the contract: the titles of its sections by number, and its rules in order.

    Raises:
        ValueError: a rule's id appears twice, or stands outside any section.
    """
    sections: dict[int, str] = {}
    rules: dict[str, Rule] = {}
    section, current = 0, ""
    for line in text.splitlines():
        if heading := _SECTION.match(line):
            section, current = int(heading[1]), ""
            sections[section] = heading[2]
        elif begun := _RULE.match(line):
            current = begun[1]
            if current in rules or not section:
                raise ValueError(f"rule {current} stands twice, or outside any section")
            rules[current] = Rule(current, begun[2], section)
        elif current and line.startswith("  ") and line.strip():
            rules[current] = rules[current]._replace(text=f"{rules[current].text} {line.strip()}")
        else:
            current = ""
    return sections, list(rules.values())


def read_tests(folder: Path) -> list[Held]:
    """Read the markers of all tests below a folder, in the order of path and line."""
    found: list[Held] = []
    for path in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        own = tuple(_module_rules(tree.body))
        found += _marked(tree.body, path.relative_to(folder.parent).as_posix(), own)
    return found


def _marked(body: list[ast.stmt], path: str, outer: tuple[str, ...]) -> Iterator[Held]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            rules = (*outer, *_module_rules(node.body), *_rules_of(node.decorator_list))
            yield from _marked(node.body, path, rules)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            rules = (*outer, *_rules_of(node.decorator_list))
            if rules:
                yield Held(path, node.name, tuple(dict.fromkeys(rules)))


def _module_rules(body: list[ast.stmt]) -> Iterator[str]:
    """Rules that a ``pytestmark`` gives to everything in a module or class."""
    for node in body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
        ):
            marks = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]
            yield from _rules_of(marks)


def _rules_of(marks: Iterable[ast.expr]) -> Iterator[str]:
    for mark in marks:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.rule":
            for given in mark.args:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield given.value


def page(sections: dict[int, str], rules: list[Rule], tests: list[Held]) -> str:
    """Write the page."""
    lines = ["# The contract, and what holds it", "", INTRODUCTION]
    for number, title in sections.items():
        own = [rule for rule in rules if rule.section == number]
        if own:
            lines += ["", f"## {number} {title}", "", "| rule | promise | tests |", "| --- | --- | --- |"]
            lines += [f"| **{rule.id}** | {cell(rule.text)} | {_tests_cell(rule, tests)} |" for rule in own]
    return "\n".join(lines) + "\n"


def _tests_cell(rule: Rule, tests: list[Held]) -> str:
    files: dict[str, list[str]] = {}
    for test in tests:
        if rule.id in test.rules:
            files.setdefault(test.path, []).append(test.sentence)
    return "<br>".join([f"[{Path(path).name}](../{path}): {cell('; '.join(names))}" for path, names in files.items()])


def problems(rules: list[Rule], tests: list[Held]) -> list[str]:
    """What is wrong besides a stale page: rules that must be held and are not, and markers that cite no rule."""
    known = {rule.id for rule in rules}
    held = {rule for test in tests for rule in test.rules}
    missing = [
        f"{rule.id} is held by no test: {rule.text[:80]}" for rule in rules if rule.required and rule.id not in held
    ]
    unknown = [
        f"{test.path}: {test.name} cites {rule}, which is no rule"
        for test in tests
        for rule in test.rules
        if rule not in known
    ]
    return missing + unknown


def made(root: Path) -> Made:
    """The page of a repository, and what is wrong with its tests."""
    sections, rules = read_contract(CONTRACT.read_text(encoding="utf-8"))
    tests = read_tests(root / "tests")
    held = sum(any(rule.id in test.rules for test in tests) for rule in rules)
    told = f"{held} of {len(rules)} rules are held by {len(tests)} tests"
    return Made(page(sections, rules, tests), problems(rules, tests), [told])


def main(arguments: list[str] | None = None) -> int:
    """Write or check the page; returns the exit status."""
    return serve("treadle_specs.reports.rule_table", PAGE, made, arguments)


if __name__ == "__main__":
    sys.exit(main())
