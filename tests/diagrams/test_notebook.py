"""What a notebook shows of an agent, a session and the lifecycle."""

import builtins
import importlib
from xml.etree import ElementTree as ET

import pytest

from tests.diagrams.logs import HEADER, Log, long_log, scripted
from tests.stage import stage
from treadle import Session
from treadle.testing import LIFECYCLE, TABLE, Lifecycle
from treadle_diagrams import svg

SVG = "{http://www.w3.org/2000/svg}"


def html(shown: object) -> str:
    drawn = shown._repr_html_()  # type: ignore[attr-defined]  # the notebook's protocol
    ET.fromstring(drawn.replace("&nbsp;", " "))
    assert "<script" not in drawn
    return drawn


def test_the_lifecycle_shows_its_own_rows():
    assert LIFECYCLE._repr_svg_() == svg()
    fewer = [row for row in TABLE if row.trigger.name != "LATCH"]
    drawn = Lifecycle(fewer)._repr_svg_()
    assert drawn == svg(fewer) != svg()


def test_a_session_shows_its_turns_and_the_path_it_walked():
    drawn = html(Session(HEADER, scripted("cancel-while-streaming")))
    assert "session made" in drawn
    assert "<td>Tell me</td>" in drawn
    assert "stopped by the user" in drawn
    assert 'class="label walked" data-move="STEP.CANCEL"' in drawn


def test_an_empty_session_is_shown_without_a_table():
    assert "<table>" not in html(Session(HEADER))


def test_of_a_long_session_the_last_turns_are_listed():
    drawn = html(Session(HEADER, long_log(400)))
    assert "earlier turns" in drawn
    assert drawn.count("<tr>") == 13


@pytest.mark.rule("X3")
def test_hostile_text_stays_text():
    log = Log().open("<script>alert(1)</script> \u202e<b>").answer("yes").close()
    drawn = html(Session(HEADER, log.events))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in drawn
    assert "\u202e" not in drawn


async def test_an_agent_shows_its_state_and_what_waits_for_it():
    async with stage("Hello.") as scene:
        agent = scene.agent
        agent.inject("by the way <i>")
        drawn = html(agent)
        assert "waiting for the next step" in drawn
        assert "by the way &lt;i&gt;" in drawn
        assert 'class="state rest now" data-state="idle"' in drawn
        agent.followup("hello")
        assert 'class="state run now" data-state="admission"' in html(agent)
        await agent.when_idle()
        assert "<td>completed</td>" in html(agent)


def test_without_the_drawings_there_is_no_picture_and_no_error(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str):
        raise ModuleNotFoundError(f"No module named {name!r}", name="treadle_diagrams")

    monkeypatch.setattr(importlib, "import_module", missing)
    assert LIFECYCLE._repr_svg_() is None
    assert Session(HEADER)._repr_html_() is None


def test_a_library_that_the_drawings_lack_is_not_hidden(monkeypatch: pytest.MonkeyPatch):
    def broken(name: str):
        raise ModuleNotFoundError("No module named 'attrs'", name="attrs")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError):
        LIFECYCLE._repr_svg_()


def test_the_core_names_the_drawings_nowhere_but_at_call_time(monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []
    real = builtins.__import__

    def watched(name, *rest):
        seen.append(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", watched)
    importlib.reload(importlib.import_module("treadle.pictures"))
    assert [name for name in seen if name.startswith("treadle_diagrams")] == []
