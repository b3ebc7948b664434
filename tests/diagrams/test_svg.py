"""The SVG as a picture: well-formed, nothing hides anything, light and dark, walks laid over it."""

import re
from collections.abc import Callable
from enum import Enum
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve, frozen

from treadle import MisuseError, State
from treadle.testing import TABLE, Trigger
from treadle_diagrams import Visit, Walk, duration, svg, walk_through
from treadle_diagrams.lifecycle.graph import graph_of
from treadle_diagrams.lifecycle.layout import PLACES, ROUTES
from treadle_diagrams.lifecycle.plan import Plan, Rect, box_of, plan_of

S, T = State, Trigger
SVG = "{http://www.w3.org/2000/svg}"
WIDEST = {move.key: "×123 1.2s" for move in graph_of().moves}


@frozen
class PluginRow:
    """A row over enums of a plugin's own."""

    source: Enum
    trigger: Enum
    dest: Enum
    verbs: tuple[Callable[..., Any], ...] = ()


class Foreign(Enum):
    REVIEW = "review"
    WAITING = "waiting <for> \"approval\" & 'more'"
    ASK = "ask"
    PING = "ping"


FOREIGN_ROWS = (
    *TABLE,
    PluginRow(S.STEP, Foreign.ASK, Foreign.REVIEW),
    PluginRow(Foreign.REVIEW, Foreign.ASK, Foreign.WAITING),
    PluginRow(Foreign.WAITING, Foreign.PING, Foreign.WAITING),
    PluginRow(Foreign.WAITING, Foreign.ASK, S.IDLE),
)


def parsed(drawn: str) -> ET.Element:
    return ET.fromstring(drawn)


def groups(drawn: str, kind: str) -> list[ET.Element]:
    return [group for group in parsed(drawn).iter(f"{SVG}g") if kind in group.get("class", "").split()]


def title_of(group: ET.Element) -> str:
    return group.findtext(f"{SVG}title") or ""


def marked(drawn: str, mark: str) -> set[str]:
    """What the labels with that mark say, as ``state: trigger``."""
    return {
        title_of(group).split(" → ")[0] for group in groups(drawn, "label") if mark in group.get("class", "").split()
    }


def clashes(plan: Plan) -> list[tuple[str, str]]:
    """The pairs of boxes and labels that overlap."""
    things = [(state, box_of(place)) for state, place in plan.places.items()]
    things += [(f"{line.arrow.source} {label.text}", label.rect) for line in plan.lines for label in line.labels]
    return [
        (one, other)
        for index, (one, rect) in enumerate(things)
        for other, against in things[index + 1 :]
        if rect.overlap(against)
    ]


# --- the layout -------------------------------------------------------------------------------------------------------


def test_every_state_and_every_arrow_of_the_table_has_its_place_chosen_by_hand():
    graph = graph_of()
    assert set(graph.states) == set(PLACES)
    assert {(arrow.source, arrow.dest) for arrow in graph.arrows} == set(ROUTES)


def test_the_happy_path_is_one_straight_row():
    path = [PLACES[state] for state in ("idle", "admission", "step", "turn_stopping")]
    assert len({place.y for place in path}) == 1
    assert [place.x for place in path] == sorted(place.x for place in path)


@pytest.mark.parametrize("suffixes", [{}, WIDEST], ids=["plain", "with counts and times"])
def test_no_label_overlaps_another_or_a_box(suffixes: dict[tuple[str, str], str]):
    assert clashes(plan_of(graph_of(), suffixes)) == []


def test_no_label_lies_on_any_arrow():
    plan = plan_of(graph_of())
    hits: list[tuple[str, str, str]] = []
    for line in plan.lines:
        for (ax, ay), (bx, by) in zip(line.route.points, line.route.points[1:], strict=False):
            leg = Rect(min(ax, bx) - 1, min(ay, by) - 1, max(ax, bx) + 1, max(ay, by) + 1)
            for other in plan.lines:
                hits += [
                    (line.arrow.source, line.arrow.dest, label.text)
                    for label in other.labels
                    if leg.overlap(label.rect)
                ]
    assert hits == []


def test_every_arrow_chosen_by_hand_runs_from_border_to_border_without_slants():
    for (source, dest), route in ROUTES.items():
        for state, (x, y) in ((source, route.points[0]), (dest, route.points[-1])):
            box = box_of(PLACES[state])
            assert x in (box.left, box.right) or y in (box.top, box.bottom), (source, dest)
            assert box.left <= x <= box.right
            assert box.top <= y <= box.bottom
        for (ax, ay), (bx, by) in zip(route.points, route.points[1:], strict=False):
            assert ax == bx or ay == by, (source, dest)


def test_no_arrow_chosen_by_hand_passes_through_a_box():
    for ends, route in ROUTES.items():
        for (ax, ay), (bx, by) in zip(route.points, route.points[1:], strict=False):
            leg = Rect(min(ax, bx) - 2, min(ay, by) - 2, max(ax, bx) + 2, max(ay, by) + 2)
            hidden = [state for state, place in PLACES.items() if state not in ends and leg.overlap(box_of(place))]
            assert hidden == [], ends


@pytest.mark.slow
def test_labels_stay_apart_when_any_one_row_leads_elsewhere():
    for index, row in enumerate(TABLE):
        for dest in State:
            rows = (*TABLE[:index], evolve(row, dest=dest), *TABLE[index + 1 :])
            assert clashes(plan_of(graph_of(rows))) == [], (row.source, row.trigger, dest)


def test_everything_lies_inside_the_sheet():
    for rows in (TABLE, FOREIGN_ROWS, FOREIGN_ROWS[-3:]):
        left, top, width, height = map(float, (parsed(svg(rows)).get("viewBox") or "").split())
        bounds = plan_of(graph_of(rows)).bounds
        assert left < bounds.left
        assert top < bounds.top
        assert left + width > bounds.right
        assert top + height > bounds.bottom


def test_states_of_plugins_get_places_of_their_own_below_the_known_ones():
    plan = plan_of(graph_of(FOREIGN_ROWS))
    foreign = [plan.places[state] for state in plan.places if state not in PLACES]
    assert len(foreign) == 2
    assert min(place.y for place in foreign) > max(place.y for place in PLACES.values())
    assert clashes(plan) == []


# --- the document -----------------------------------------------------------------------------------------------------


def test_there_is_one_arrow_per_pair_of_states_and_one_label_per_row():
    drawn = svg()
    graph = graph_of()
    assert len(groups(drawn, "label")) == len(TABLE)
    assert len(groups(drawn, "arrow")) == len(graph.arrows) + 1  # and the one that shows where an agent begins
    assert len(groups(drawn, "state")) == len(State)


def test_a_tooltip_tells_the_row_with_its_verbs():
    titles = {title_of(group) for group in groups(svg(), "label")}
    assert "step: continue → admission\nruns close_step, claim_step" in titles
    assert "step: wake → step\nruns nothing" in titles


def test_hostile_names_stay_text():
    drawn = svg(FOREIGN_ROWS)
    assert Foreign.WAITING.value in [text.text for text in parsed(drawn).iter(f"{SVG}text")]
    assert "<for>" not in drawn


def test_the_reader_s_colour_scheme_decides_unless_a_theme_is_chosen():
    assert "@media (prefers-color-scheme:dark)" in svg()
    assert "@media" not in svg(theme="dark")
    assert svg(theme="light") != svg(theme="dark")


def test_the_drawing_brings_its_own_paper_and_needs_nothing_from_outside():
    drawn = svg()
    assert parsed(drawn).find(f"{SVG}rect[@class='paper']") is not None
    assert re.findall(r"https?://", drawn) == ["http://"]  # the namespace
    assert "url(" not in drawn
    assert " id=" not in drawn


def test_an_unknown_theme_or_mark_is_refused_with_what_there_is():
    with pytest.raises(MisuseError, match="'auto', 'light' or 'dark'"):
        svg(theme="sepia")  # type: ignore[arg-type]
    with pytest.raises(MisuseError, match="'faded' or 'missed'"):
        svg(unwalked="gone")  # type: ignore[arg-type]


# --- walks ------------------------------------------------------------------------------------------------------------

WALK = walk_through([(S.IDLE, T.WAKE, 0), (S.ADMISSION, T.ENTER, 12), (S.STEP, T.WAKE, 500), (S.STEP, T.REST, 1512)])


def test_a_walk_marks_the_walked_rows_and_fades_all_others():
    drawn = svg(walked=WALK)
    walked = {"idle: wake", "admission: enter", "step: wake", "step: rest"}
    everything = {f"{row.source.value}: {row.trigger.value}" for row in TABLE}
    assert marked(drawn, "walked") == walked
    assert marked(drawn, "faded") == everything - walked
    assert marked(svg(), "walked") == marked(svg(), "faded") == set()


def test_a_walked_label_shows_count_and_time():
    labels = {title_of(group).split(" → ")[0]: "".join(group.itertext()) for group in groups(svg(walked=WALK), "label")}
    assert labels["step: rest"].endswith("rest×1 1.5s")
    assert labels["step: wake"].endswith("wake×1")
    assert labels["idle: replay"].endswith("replay")
    assert "walked never" in labels["idle: replay"]


def test_a_state_shows_the_time_spent_in_it_and_an_unvisited_one_is_faded():
    states = {title_of(group): group.get("class", "").split() for group in groups(svg(walked=WALK), "state")}
    assert "faded" not in states["step1.5s"]
    assert "faded" in states["maintenance"]


def test_a_shared_arrow_is_walked_when_one_of_its_rows_was():
    drawn = svg(walked=walk_through([(S.IDLE, T.REPLAY)]))
    assert marked(drawn, "walked") == {"idle: replay"}
    arrows = [title_of(group) for group in groups(drawn, "arrow") if "walked" in group.get("class", "").split()]
    assert [title.split("\n")[0] for title in arrows] == ["idle: wake → admission"]


def test_coverage_can_mark_what_was_missed_instead():
    drawn = svg(walked=Walk({("IDLE", "WAKE"): Visit(3), ("IDLE", "LATCH"): Visit(0)}), unwalked="missed")
    assert marked(drawn, "walked") == {"idle: wake"}
    assert "idle: latch" in marked(drawn, "missed")
    assert "walked: 3 transitions, 1 of 36 rows" in drawn


def test_a_walk_of_rows_that_the_table_lacks_is_refused_by_name():
    with pytest.raises(MisuseError, match="IDLE BOGUS"):
        svg(walked=Walk({("IDLE", "BOGUS"): Visit(1)}))


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [
        (0, "0ms"),
        (85.4, "85ms"),
        (999.4, "999ms"),
        (999.6, "1.0s"),
        (1234, "1.2s"),
        (9960, "10s"),
        (59400, "59s"),
        (59600, "1m"),
        (3_590_000, "1h"),
        (90_000_000, "1d"),
        (900_000_000, "10d"),
    ],
)
def test_times_are_told_in_few_characters(milliseconds: float, told: str):
    assert duration(milliseconds) == told
