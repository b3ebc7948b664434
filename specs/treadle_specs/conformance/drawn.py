"""What the suite draws from: kinds of gates, tools, how far the driver runs, and how much is enough (§4)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .ledger import NEXT_STEP, NEXT_TURN, Json

GATES = ("tool", "stubborn-tool", "pre-step", "request", "request-error", "turn-stopping", "prompt-submit")
FEW = ("tool", "stubborn-tool")
HOOKED = ("tool", "pre-step", "turn-stopping", "request-error")
SETTLE: tuple[Any, ...] = ("settle", 0, ())
GOING = st.one_of(
    st.just(SETTLE),
    st.tuples(st.just("serve"), st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 3)),
    st.tuples(st.just("tick"), st.integers(0, 6), st.lists(st.integers(0, 3), max_size=3)),
)
"""How far the driver runs after a request."""
HURRY = st.one_of(st.tuples(st.just("tick"), st.integers(0, 2), st.just(())), GOING)
"""The same, after a cancel: what comes next is likely to find it converging."""
BOX = st.sampled_from([NEXT_TURN, NEXT_STEP])
PICK = st.integers(0, 3)
HEARD = ("turn/start", "step/start", "step/end", "turn/end", "assistant/message", "tool/call", "tool/result",
         "user/message", "agent/inbox/spliced", "notice:agent/status", "notice:agent/inbox/claimed",
         "notice:agent/inbox/inserted", "notice:agent/cancel-requested", "notice:agent/inbox/discarded")  # fmt: skip
CROWD = 4
"""So many pending messages are enough for an idle agent."""
SURE = 3
"""A dispose ends everything that is worth trying: it is made less often than it is drawn."""
EARLY = 7
"""How many requests come before a dispose, so that there is something to dispose of."""
TOOLS: list[Json] = [
    {"name": "t", "mode": "exclusive"},
    {"name": "p", "mode": "parallel"},
    {"name": "stubborn", "mode": "parallel"},
]


def text(name: str) -> Json:
    """A message whose text is its id."""
    return {"id": name, "text": name}
