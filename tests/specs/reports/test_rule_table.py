"""The pages that are made from the contract, the tests' markers, and the hook points."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.hooks import POINTS
from treadle_specs.reports import hook_catalogue, rule_table
from treadle_specs.reports.generated import ROOT
from treadle_specs.reports.rule_table import Rule, page, problems, read_contract, read_tests

CONTRACT = """# The contract

Words.

## 5 Turns

| a table | is no rule |

- **T1** One | two,
  and more.
- **T2** Another.

Words that belong to no rule.
## 12 Log

- **S1** Logged.
"""
TESTS = """
import pytest
pytestmark = pytest.mark.rule("S1")

@pytest.mark.rule("T1", "S1")
@pytest.mark.parametrize("x", [1])
async def test_a_thing_holds(x): ...

def test_without_a_marker_of_its_own(): ...

class TestMore:
    pytestmark = [pytest.mark.slow, pytest.mark.rule("T1")]

    @pytest.mark.rule(f"made {1}")
    def test_in_a_class(self): ...

    def helper(self): ...

def helper(): ...
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "contract.md").write_text(CONTRACT, encoding="utf-8")
    monkeypatch.setattr(rule_table, "CONTRACT", tmp_path / "contract.md")
    (tmp_path / "tests" / "sub").mkdir(parents=True)
    (tmp_path / "tests" / "sub" / "test_it.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def test_the_contract_is_read_rule_by_rule() -> None:
    sections, rules = read_contract(CONTRACT)
    assert sections == {5: "Turns", 12: "Log"}
    assert rules == [Rule("T1", "One | two, and more.", 5), Rule("T2", "Another.", 5), Rule("S1", "Logged.", 12)]
    assert [rule.required for rule in rules] == [True, True, False]


@pytest.mark.parametrize("wrong", ["## 1 A\n- **T1** a\n- **T1** b\n", "- **T1** outside\n"])
def test_a_contract_with_a_rule_twice_or_outside_any_section_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="T1 stands twice, or outside"):
        read_contract(wrong)


def test_markers_are_read_from_functions_classes_and_modules(root: Path) -> None:
    assert [(test.path, test.name, test.rules) for test in read_tests(root / "tests")] == [
        ("tests/sub/test_it.py", "test_a_thing_holds", ("S1", "T1")),
        ("tests/sub/test_it.py", "test_without_a_marker_of_its_own", ("S1",)),
        ("tests/sub/test_it.py", "test_in_a_class", ("S1", "T1")),
    ]


def test_a_rule_without_a_test_and_a_marker_without_a_rule_are_problems(root: Path) -> None:
    _, rules = read_contract(CONTRACT)
    tests = read_tests(root / "tests")
    assert problems(rules, tests) == ["T2 is held by no test: Another."]
    assert problems(rules[2:], tests)[0] == "tests/sub/test_it.py: test_a_thing_holds cites T1, which is no rule"


def test_the_page_has_a_row_per_rule_with_the_tests_that_hold_it(root: Path) -> None:
    sections, rules = read_contract(CONTRACT)
    text = page(sections, rules, read_tests(root / "tests"))
    assert (
        "| **T1** | One \\| two, and more. | [test_it.py](../tests/sub/test_it.py): a thing holds; in a class |" in text
    )
    assert "| **T2** | Another. |  |" in text


def test_the_check_fails_on_a_stale_page_and_on_a_rule_without_a_test(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rule_table.main(["--check", "--root", str(root)]) == 1
    assert "docs/contract.md is stale" in capsys.readouterr().out
    assert rule_table.main(["--write", "--root", str(root)]) == 0
    assert rule_table.main(["--check", "--root", str(root)]) == 1
    told = capsys.readouterr().out
    assert "T2 is held by no test" in told
    assert told.endswith("2 of 3 rules are held by 3 tests\n")
    more = root / "tests" / "test_more.py"
    more.write_text('import pytest\n@pytest.mark.rule("T2")\ndef test_two(): ...\n', encoding="utf-8")
    rule_table.main(["--write", "--root", str(root)])
    assert rule_table.main(["--check", "--root", str(root)]) == 0


@pytest.mark.slow
def test_every_rule_of_one_agent_is_held_by_a_test_and_no_test_cites_a_rule_that_is_none() -> None:
    _, rules = read_contract(rule_table.CONTRACT.read_text(encoding="utf-8"))
    assert len(rules) > 130
    assert problems(rules, read_tests(ROOT / "tests")) == []


def test_the_catalogue_of_hooks_lists_every_point_with_its_fields_and_answers() -> None:
    text = hook_catalogue.page()
    assert all(f"### `{point.name}`" in text for point in POINTS)
    assert "| `prior` | `tuple[Failure, ...]` | failures of earlier attempts of this step, oldest first. |" in text
    assert "Payload: `StepProposal`. Answers: `Enter`, `Reject`." in text
    assert "| `DenyCall` | `reason: str`, `code: str` |" in text
    assert "Answers: `Retry`, `None`." in text
    assert "Answers: `anything`." in text


def test_the_catalogue_is_checked_against_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hook_catalogue.main(["--check", "--root", str(tmp_path)]) == 1
    assert "docs/hooks.md is stale" in capsys.readouterr().out
    assert hook_catalogue.main(["--write", "--root", str(tmp_path)]) == 0
    assert hook_catalogue.main(["--check", "--root", str(tmp_path)]) == 0
