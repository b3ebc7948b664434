"""The page as a document: all of it there without a script, nothing in it that acts."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from attrs import define, field

from tests.diagrams.logs import HEADER, Log, compacted, medley, scripted
from treadle import Failure
from treadle.models import Usage
from treadle.words import call_config as config
from treadle.words import events as ev
from treadle.words import reasons
from treadle_diagrams import session_page
from treadle_diagrams.page.data import embedded
from treadle_specs.rig.scripts import SCRIPTS

EVIL = '</script></style></title>--><script>alert(1)</script><img src=x onerror="alert(2)"> \u202e\u2028\x00\x1b[2J'
MADE_OF = """
html head meta title style body header h1 h2 p div input output button section svg path text rect circle g desc main
small b i a article footer details summary aside figure figcaption dialog dl dt dd form script tspan
"""


@define
class Seen(HTMLParser):
    """What a browser would see: tags with their attributes, and the text of each kind of element."""

    tags: list[tuple[str, dict[str, str | None]]] = field(factory=list)
    texts: list[str] = field(factory=list)
    scripts: list[str] = field(factory=list)
    styles: list[str] = field(factory=list)
    _inside: list[str] = field(factory=list)

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        where = {"script": self.scripts, "style": self.styles}.get(self._inside[-1] if self._inside else "", self.texts)
        where.append(data)


def seen(page: str) -> Seen:
    parser = Seen()
    parser.feed(page)
    parser.close()
    return parser


def policy(page: str) -> dict[str, str]:
    content = next(attrs["content"] for tag, attrs in seen(page).tags if attrs.get("http-equiv"))
    return dict(part.strip().split(" ", 1) for part in (content or "").split(";"))


def evil_log() -> Log:
    log = Log()
    log.ask(EVIL, target="next-step")
    log.add(ev.InboxSpliced("next-step", 0, 1, (), "canceled"))
    log.open(EVIL).answer(EVIL, (EVIL, EVIL), reasoning=EVIL, usage=Usage(1))
    log.tool(EVIL, EVIL, EVIL, is_error=True, code=EVIL)
    log.add(ev.AssistantAttempt("x", ev.Finish("error", Failure(EVIL, EVIL))))
    log.add(ev.RetryScheduled(1, 1, 2, 0.5, Failure(EVIL, EVIL)), ev.PresetSelected(EVIL))
    log.add(ev.RequestHeader(config.CallConfig(EVIL, EVIL), (config.ToolSchema(EVIL, EVIL, {}),), "initial"))
    return log.close(reasons.Errored(Failure(EVIL, EVIL)))


@pytest.mark.parametrize("name", SCRIPTS)
def test_there_is_one_section_per_turn_and_one_place_for_each_thing_that_is_told(name: str):
    tags = seen(session_page(HEADER, scripted(name))).tags
    turns = [entry.data.turn for entry in scripted(name) if isinstance(entry.data, ev.TurnStart)]
    assert [attrs["data-turn"] for _, attrs in tags if "data-turn" in attrs] == [str(turn) for turn in turns]
    places = [int(attrs["data-seq"] or 0) for _, attrs in tags if "data-seq" in attrs]
    surface = [entry.seq for entry in scripted(name) if entry.surface_op is not None]
    assert set(surface) <= set(places)


def test_sections_and_articles_are_closed_where_they_belong():
    for page in (session_page(HEADER, medley()), session_page(HEADER, medley()[:200]), session_page(HEADER, [])):
        transcript = page.partition('<div class="transcript">')[2].partition("<aside>")[0]
        for tag in ("section", "article", "div", "details", "svg", "p"):
            extra = 1 if tag == "div" else 0
            assert len(re.findall(rf"<{tag}[ >]", transcript)) + extra == transcript.count(f"</{tag}>"), tag


def test_no_id_is_given_twice():
    ids = [attrs["id"] for _, attrs in seen(session_page(HEADER, medley())).tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_the_transcript_stands_in_the_document_and_needs_no_script():
    page = seen(session_page(HEADER, scripted("reasoning-and-usage")))
    text = " ".join(page.texts)
    for part in ("3 + 4?", "Three and four.", "Seven.", "tokens: 12 in, 5 out, 3 reasoning", "turn 1"):
        assert part in text


@pytest.mark.rule("X3")
def test_hostile_text_makes_no_element_and_no_attribute():
    page = seen(session_page(HEADER, evil_log().events, trouble=EVIL))
    harmless = seen(session_page(HEADER, medley()))
    assert {tag for tag, _ in page.tags} <= set(MADE_OF.split())
    names = {name for _, attrs in [*page.tags] for name in attrs}
    assert not [name for name in names if name.startswith("on") or name == "style"]
    assert names <= {name for _, attrs in harmless.tags for name in attrs} | {"dir", "class"}
    assert len(page.scripts) == 2
    assert len(page.styles) == 1
    assert any("<script>alert(1)</script>" in text for text in page.texts)


@pytest.mark.rule("X3")
def test_hostile_text_is_shown_with_its_invisible_characters_written_out():
    page = session_page(HEADER, evil_log().events)
    assert not re.search("[\x00\x1b\u202e\u2028]", page)
    assert "[U+202E][U+2028]␀␛[2J" in page


@pytest.mark.rule("X3")
def test_text_in_any_script_has_its_own_direction():
    page = session_page(HEADER, Log().open("שלום").close().events)
    assert '<div class="text" dir="auto">שלום</div>' in page


def test_the_policy_admits_the_page_s_own_style_and_script_and_nothing_else():
    page = session_page(HEADER, medley())
    rules = policy(page)
    assert rules["default-src"] == "'none'"
    _, script = seen(page).scripts
    (style,) = seen(page).styles
    for name, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"


def test_nothing_is_asked_of_any_network():
    page = session_page(HEADER, medley())
    assert set(re.findall(r"https?://[^\s\"'<)]*", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"url\(|@import|<link|<iframe| src=", page)


def test_the_data_holds_every_event_with_its_time_its_type_and_its_state():
    events = scripted("cancel-in-a-tool")
    data = json.loads(seen(session_page(HEADER, events)).scripts[0])
    assert [data["types"][number] for _, number in data["events"]] == [entry.type for entry in events]
    assert data["start"] + data["events"][5][0] == events[5].time
    assert [11, "cancel_convergence", "STEP.CANCEL"] in data["states"]
    assert [span[0] for span in data["spans"]].count("cancel") == 1
    assert data["letters"][0][:4] == ["Wait for it", "you", "prompt", "entered"]
    assert data["summaries"]["8"] == "look()"


@pytest.mark.rule("X3")
def test_embedded_json_cannot_end_its_script_and_says_the_same():
    value = {EVIL: [EVIL, "]]>", "<!--", "&amp;"]}
    text = embedded(value)
    assert json.loads(text) == value
    assert not re.search("[<>&\u2028\u2029]", text)


def test_long_text_is_folded_and_whole():
    text = "".join(chr(97 + number % 26) for number in range(50_000))
    page = seen(session_page(HEADER, Log().open("hi").tool("read", "{}", text).close().events))
    shown = [part for part in page.texts if len(part) > 3000]
    assert "".join(shown) == text
    assert len(shown) == 2
    assert "46,000 more characters" in page.texts


def test_what_is_wrong_with_the_log_stands_above_it():
    assert '<p class="trouble">line 7: broken &lt;b&gt;</p>' in session_page(HEADER, [], trouble="line 7: broken <b>")


def test_a_log_that_has_not_ended_is_shown_up_to_where_it_is():
    for count in range(len(scripted("cancel-in-a-tool"))):
        page = session_page(HEADER, scripted("cancel-in-a-tool")[:count])
        assert "<main>" in page
        assert page.count("<section") == page.count("</section>")


def test_the_same_log_gives_the_same_page():
    assert session_page(HEADER, medley()) == session_page(HEADER, iter(medley()))


@pytest.mark.rule("Z1", "X3")
def test_a_summary_opens_to_what_it_stands_for_which_stands_where_it_was_said():
    log = compacted()
    page = session_page(HEADER, log)
    summary = next(entry for entry in log if entry.source_event_seqs and len(entry.source_event_seqs) > 1)
    article = page[page.index(f'id="e{summary.seq}"') :]
    article = article[: article.index("</article>")]
    assert "what it stands for: 4" in article
    for seq, said in zip(
        summary.source_event_seqs or (), ["What is wool?", "calls look", "warm", "Wool is warm."], strict=True
    ):
        assert f'<a href="#e{seq}">#{seq}</a>' in article
        assert f'id="e{seq}"' in page
        assert said in article
    assert "It is &lt;b&gt;warm" in article
    assert "<b>warm</b>" not in page
