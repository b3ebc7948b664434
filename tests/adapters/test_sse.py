"""Events come out of bytes exactly, wherever the bytes are cut."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adapters.wires import cut
from treadle import ModelFailure
from treadle_adapters.http.sse import EventReader


def read(*pieces: bytes) -> list[tuple[str, str]]:
    reader = EventReader()
    events = [event for piece in pieces for event in reader.feed(piece)]
    return [(event.event, event.data) for event in events + reader.close()]


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [("message", "a"), ("message", "b")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [("message", "a"), ("message", "b")]),
        (b"data: a\r\rdata: b\r\r", [("message", "a"), ("message", "b")]),
        (b"data:a\ndata:  b\n\n", [("message", "a\n b")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [("x", "a"), ("message", "b")]),
        (b": note\n\n:\n\nid: 1\n\nretry: 5\n\nevent: only\n\n", []),
        (b"id: 1\ndata: a\n\n: beat\n\nevent: ping\n\n", [("message", "a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("message", "a")]),
        (b"data: \xe2\x80\xa8\xe2\x80\xa9\xc2\x85\x0b\x0c\x1c\n\n", [("message", "\u2028\u2029\x85\x0b\x0c\x1c")]),
        (b"data: \xff\n\n", [("message", "\ufffd")]),
        (b"data: cut", [("message", "cut")]),
        (b"data: cut\n", [("message", "cut")]),
        (b"junk\nfield: x\n\n", []),
        (b"", []),
        (b"\xef\xbb", []),
    ],
)
def test_events_are_read_by_the_standard_at_every_cut(body: bytes, events: list[tuple[str, str]]) -> None:
    assert read(body) == events
    for place in range(len(body)):
        assert read(body[:place], b"", body[place:]) == events
    assert read(*[body[place : place + 1] for place in range(len(body))]) == events


def test_an_event_is_given_out_as_soon_as_its_blank_line_is_complete() -> None:
    for end in (b"\n", b"\r", b"\r\n"):
        assert [event.data for event in EventReader().feed(b"data: a" + end + end)] == ["a"]


@pytest.mark.slow
@given(
    st.lists(st.text("a\u2028\U0001f600 :", max_size=4), min_size=1, max_size=4),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 80), max_size=6),
)
def test_any_data_in_any_line_ends_and_any_cuts_comes_out_unchanged(
    texts: list[str], end: str, cuts: list[int]
) -> None:
    body = "".join(f"data: {text}{end}{end}" for text in texts).encode()
    places = sorted({place for place in cuts if place < len(body)})
    assert [data for _, data in read(*cut(body, places))] == [text for text in texts if text]


@pytest.mark.slow
@pytest.mark.rule("X3")
def test_one_long_line_in_many_pieces_is_linear_work() -> None:
    def cost(pieces: int) -> float:
        reader = EventReader()
        start = time.process_time()
        reader.feed(b"data: ")
        for _ in range(pieces):
            reader.feed(b"0123456789")
        assert len(reader.feed(b"\n\n")[0].data) == 10 * pieces
        return time.process_time() - start

    cost(1_000)
    assert cost(200_000) < 40 * max(cost(20_000), 0.005)


@pytest.mark.rule("X3")
def test_an_event_of_many_lines_is_bounded_and_short_events_are_not() -> None:
    reader = EventReader(limit=1_000)
    for _ in range(100):
        reader.feed(b"data: " + b"x" * 80 + b"\n\n")
    with pytest.raises(ModelFailure, match="longer than 1000 bytes"):
        reader.feed(b"data: x\n" * 200)
