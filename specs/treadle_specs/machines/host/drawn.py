"""What programs of the host machine are drawn from."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .answers import Said
from .sent import NEXT_STEP, NEXT_TURN

PICK = st.integers(0, 5)
BOX = st.sampled_from([NEXT_TURN, NEXT_STEP])
GOING = st.one_of(
    st.tuples(st.just("tick"), st.integers(0, 5), st.lists(st.integers(0, 3), max_size=4)),
    st.just(("settle", 0, ())),
    st.tuples(st.just("advance"), st.sampled_from([0.3, 0.5, 1.0, 3.0]), st.just(())),
)
HOW = st.fixed_dictionaries(
    {"do": st.sampled_from(["sleep", "sleep", "shield", "shield", "swallow", "raise", "tell", "tell late", "conclude",
                            "context", "stop", "stray", "quick"])},
    optional={
        "for": st.sampled_from([0.5, 0.8, 2.0, 6.0]),
        "box": BOX,
        "deny": st.sampled_from(["hook", "guard", "yes", "no", "perhaps", "unfit"]),
        "after": st.sampled_from(["block", "say"]),
        "wrap": st.just("shield"),
        "again": st.just(True),
        "side": st.booleans(),
        "raises": st.just(True),
        "same": st.just(True),
        "keep": st.booleans(),
    },
)  # fmt: skip
CALL = st.tuples(
    st.sampled_from(["alone", "side", "side", "timed", "fickle", "fickle", "thread", "delegate", "nothing", "final"]),
    HOW,
).map(lambda pair: call_of(*pair))
SAID = st.one_of(
    st.builds(Said, st.just("calls"), st.lists(CALL, min_size=1, max_size=4).map(tuple)),
    st.builds(Said, st.just("calls"), st.lists(CALL, min_size=1, max_size=3).map(tuple), slow=st.booleans()),
    st.builds(Said, st.sampled_from(["text", "cut"]), slow=st.booleans(), shielded=st.booleans()),
    st.builds(
        Said, st.sampled_from(["busy", "broken", "quota", "long"]), retry_after=st.sampled_from([None, 1.5, 9.0])
    ),
)
_BUSY: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"do": st.sampled_from(["sleep", "sleep", "shield", "quick"]), "for": st.sampled_from([0.5, 0.8, 2.0, 6.0])},
    optional={"side": st.booleans(), "raises": st.just(True), "wrap": st.just("shield")},
)
_SLOW = st.tuples(st.sampled_from(["alone", "side", "side", "timed", "fickle", "fickle"]), _BUSY)
BATCH = st.lists(_SLOW.map(lambda pair: call_of(*pair)), min_size=2, max_size=4)
"""Calls of one answer that nobody refuses, most of which take a while."""
PLAN = st.lists(SAID, max_size=3)
WARNING = st.sampled_from([0.4, 1.0, 5.0])
CROWD = 5


def call_of(name: str, how: dict[str, Any]) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """A call of a tool, with what its arguments have it do."""
    if name == "delegate":
        return name, (("raw", '{"prompt": "do it"}'),)
    how = {"box": NEXT_STEP, **how}
    return name, tuple(how.items())
