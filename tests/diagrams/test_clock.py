"""A clock that was set back two hours in the middle of a turn: nothing took less than no time, and it is said once."""

import itertools
import re

import msgspec
import pytest

from treadle import Event
from treadle_diagrams import sequence_mermaid, sequence_svg, session_page, transcript, walk_of
from treadle_diagrams.log.clock import steadied
from treadle_diagrams.log.letters import letters_of
from treadle_diagrams.log.spans import spans_of
from treadle_specs.rig.scripts import SCRIPTS, record

HEADER, EVENTS = record(SCRIPTS["one-tool"])
HOURS = 2 * 3_600_000
NEGATIVE = re.compile(r"(?<![\w.-])-\d+(ms|s|m|h|d)\b")


def set_back(at: int) -> list[Event]:
    return [entry if entry.seq < at else msgspec.structs.replace(entry, time=entry.time - HOURS) for entry in EVENTS]


@pytest.mark.rule("S9")
@pytest.mark.parametrize("at", range(1, len(EVENTS)))
def test_a_clock_that_is_set_back_gives_no_negative_duration_and_is_told_once(at: int) -> None:
    events = set_back(at)
    times = [entry.time for entry in steadied(events)]
    assert all(one <= other for one, other in itertools.pairwise(times))
    entries = transcript(events)
    told = [entry for entry in entries if "clock was set back by 2h" in str(getattr(entry, "text", ""))]
    assert [entry.seq for entry in told] == [at]
    for entry in entries:
        for name in ("took", "waited", "first"):
            assert (getattr(entry, name, None) or 0) >= 0, entry
    for span in spans_of(events):
        assert span.end is None or span.end.time >= span.begin.time
    for letter in letters_of(events):
        assert letter.claimed is None or letter.claimed.time >= letter.accepted.time
    assert all((visit.spent or 0) >= 0 for visit in walk_of(events).visits.values())
    page = session_page(HEADER, events)
    assert page.count("clock was set back") >= 1
    for drawn in (page, sequence_svg(events), sequence_mermaid(events)):
        assert not NEGATIVE.search(re.sub("<style>.*?</style>|<script>.*?</script>", "", drawn, flags=re.DOTALL))


def test_a_clock_that_goes_on_is_left_alone() -> None:
    assert all(one is other for one, other in zip(steadied(EVENTS), EVENTS, strict=True))
