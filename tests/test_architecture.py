"""The map of the house is true: what it names is there, and its drawing is as old as the imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from docs import rooms

ROOT = Path(__file__).parents[1]
CORE = ROOT / "machine" / "treadle"
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
NAMED = re.compile(r"`([\w./-]+\.(?:py|md|json|svg)|\w[\w.-]*/[\w./-]*(?=`(?!\]\()))(?:: ([\w.]+))?`")
"""Files, and what in them; folders, where they are not links."""
LINKED = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def places(path: str) -> list[Path]:
    """Where a page means: in the core, or in the repository."""
    return [place for place in (CORE / path, ROOT / path) if place.exists()]


def names_in(tree: ast.AST) -> Iterator[str]:
    """What a module defines, and what its classes define, by dotted name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{name}" for name in names_in(node))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


@cache
def defined(path: Path) -> frozenset[str]:
    return frozenset(names_in(ast.parse(path.read_text(encoding="utf-8"))))


def missing(text: str) -> list[str]:
    """What a page names and nobody finds."""
    gone: list[str] = []
    for path, name in NAMED.findall(text):
        found = [place for place in places(path) if place.suffix == ".py" or not name]
        if not any(not name or name in defined(place) for place in found):
            gone.append(f"{path}: {name}" if name else path)
    return gone


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_path_and_every_function_that_a_page_names_is_there(page: str) -> None:
    assert NAMED.findall(text_of(page))
    assert missing(text_of(page)) == []


@pytest.mark.parametrize("page", [*PAGES, "README.md"])
def test_every_link_leads_somewhere(page: str) -> None:
    text = text_of(page)
    titles = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"(?m)^#+ (.*)$", text)}
    for target, anchor in LINKED.findall(text):
        if not target:
            assert anchor in titles
        elif "://" not in target:
            assert ((ROOT / page).parent / target).exists(), target


def test_a_link_that_names_a_file_or_a_room_leads_there() -> None:
    named = re.findall(r"\[`([\w./-]+?)/?(?:: [\w.]+)?`\]\(([^)]*)\)", text_of("docs/architecture.md"))
    assert len(named) > 40
    assert [path for path, target in named if not target.endswith(f"/{path}")] == []


def test_names_that_are_gone_are_noticed() -> None:
    assert missing("`kernel/kernel.py: Kernel.receive`, `kernel/`, `docs/rooms.py: draw`") == []
    wrong = "`kernel/kernel.py: Kernel.decide`, `kernel/nothing.py`, `attic/`, `docs/rooms.py: receive`"
    assert missing(wrong) == [
        "kernel/kernel.py: Kernel.decide",
        "kernel/nothing.py",
        "attic/",
        "docs/rooms.py: receive",
    ]


@pytest.mark.parametrize("room", sorted(path.parent.name for path in CORE.glob("*/__init__.py")))
def test_every_room_of_the_core_has_its_line(room: str) -> None:
    assert f"\n| [`{room}/`](" in text_of("docs/architecture.md")


# --- the drawing ------------------------------------------------------------------------------------------------------


def house(tmp_path: Path, **modules: str) -> rooms.House:
    for name, text in modules.items():
        path = tmp_path / "treadle" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")
    (tmp_path / "treadle" / "__init__.py").touch()
    return rooms.read([tmp_path])


def arrows(tmp_path: Path, **modules: str) -> rooms.Graph:
    given = rooms.Rules(frozenset(), (("treadle.low.named", "treadle.high.agent"),))
    return rooms.rooms(house(tmp_path, **modules), given)[1]


@pytest.mark.slow
def test_the_drawing_is_as_old_as_the_imports() -> None:
    assert rooms.main(["--check"]) == 0


@pytest.mark.parametrize(
    "written",
    [
        "from ..high import agent",
        "from ..high.agent import Agent",
        "from .. import high",
        "import treadle.high.agent",
        "from treadle.high.agent import Agent",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..high.agent import Agent",
        "def late():\n    from ..high.agent import Agent",
    ],
)
def test_an_import_is_drawn_wherever_it_is_written(tmp_path: Path, written: str) -> None:
    assert arrows(tmp_path, high__agent="class Agent: ...", low__words=written)["low"] == {"high"}


def test_a_circle_for_typing_alone_cannot_be_drawn(tmp_path: Path) -> None:
    typing = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..high.agent import Agent"
    found = arrows(tmp_path, high__agent="from ..low import words", low__words=typing)
    with pytest.raises(ValueError, match="circle"):
        rooms.floors(found)


def test_only_what_the_contract_excepts_is_left_out(tmp_path: Path) -> None:
    up = "from ..high.agent import Agent"
    found = arrows(tmp_path, high__agent="class Agent: ...", low__named=up, low__words="")
    assert found["low"] == set()


def test_an_arrow_that_a_longer_way_says_is_left_out() -> None:
    assert rooms.shown({"top": {"middle", "low"}, "middle": {"low"}, "low": set()}) == {
        "top": {"middle"},
        "middle": {"low"},
        "low": set(),
    }
