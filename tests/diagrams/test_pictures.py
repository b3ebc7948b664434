"""The pictures of the README: they are there, they stand alone, and what makes them still works."""

import importlib.util
import re
import stat
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from tests.diagrams.logs import HEADER, scripted
from treadle_diagrams.log.file import SessionFile

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
DRAWN = sorted(PICTURES.glob("*.svg"))


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """What makes the pictures, as a module."""
    spec = importlib.util.spec_from_file_location("make_pictures", PICTURES / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_that_a_page_shows_is_there_and_none_lies_about():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [readme, *[path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]]
    shown = {name for page in pages for name in re.findall(r"pictures/([\w-]+\.(?:svg|png))", page)}
    there = {path.name for path in PICTURES.iterdir() if path.suffix in (".svg", ".png")}
    assert shown == there
    for path in re.findall(r"(?:src|srcset)=\"([^\"]+)\"|!\[[^]]*\]\(([^)]+)\)", readme):
        assert (ROOT / (path[0] or path[1])).is_file(), path


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.name)
def test_a_drawn_picture_needs_nothing_from_outside(path: Path):
    text = path.read_text(encoding="utf-8")
    ET.fromstring(text)
    assert not re.search(r"@font-face|@import|<image|href=|url\(['\"]?http", text)


PHOTOGRAPHS = {"page-dark", "page-light", "phoenix", "web-dark", "web-light", "web-phone"}


def test_photographs_are_small_enough_for_a_readme():
    photographs = sorted(PICTURES.glob("*.png"))
    assert {path.stem for path in photographs} == PHOTOGRAPHS
    assert all(20_000 < path.stat().st_size < 500_000 for path in photographs)


def test_the_terminal_s_picture_can_be_made_of_any_session(maker: ModuleType):
    session = SessionFile(Path("made.jsonl"), HEADER, scripted("one-tool"))
    drawn = maker.terminal(session)
    told = "".join(ET.fromstring(drawn).itertext()).replace("\xa0", " ")
    assert 'look(what="a door")' in told
    assert "@font-face" not in drawn


def test_the_pictures_can_be_read_by_everybody():
    assert all(path.stat().st_mode & stat.S_IROTH for path in PICTURES.iterdir() if path.is_file())
