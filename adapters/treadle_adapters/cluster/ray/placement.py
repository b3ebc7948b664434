"""Which replica gets a session: by affinity, as long as it is not too full, and else by load. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from attrs import frozen

SLACK = 1.25
"""How many times the mean a replica may own before what has an affinity to it goes elsewhere."""


@frozen
class Load:
    """What a replica has to do.

    Attributes:
        sessions: that it owns.
        running: of these, how many are in a turn.
    """

    sessions: int = 0
    running: int = 0

    @property
    def weight(self) -> int:
        """A running session weighs as much as two at rest."""
        return self.sessions + self.running


def choose(loads: Mapping[str, Load], affinity: str | None = None) -> str:
    """The replica for one more session.

    Sessions of one affinity come together, in an order of replicas that is the affinity's own, so that few move when a
    replica comes or goes; one that owns more than ``SLACK`` times the mean is passed over. Without an affinity the one with
    the least to do gets it.

    Args:
        loads: what there is, by name.
        affinity: what sessions have in common that are to be together, a user for example.

    Raises:
        ValueError: there is no replica.
    """
    if not loads:
        raise ValueError("there is no replica to choose")
    if affinity is not None:
        full = SLACK * (sum(load.sessions for load in loads.values()) + 1) / len(loads)
        for name in sorted(loads, key=lambda name: zlib.crc32(f"{affinity}/{name}".encode()), reverse=True):
            if loads[name].sessions < max(full, 1):
                return name
    return min(sorted(loads), key=lambda name: loads[name].weight)


def moves(loads: Mapping[str, Load]) -> list[tuple[str, str, int]]:
    """What evens replicas out: from whom, to whom, and how many sessions. None is moved twice, and none in vain."""
    if not loads:
        return []
    least, more = divmod(sum(load.sessions for load in loads.values()), len(loads))
    ranked = sorted(loads, key=lambda name: (-loads[name].sessions, name))
    over = {name: loads[name].sessions - least - (rank < more) for rank, name in enumerate(ranked)}
    found: list[tuple[str, str, int]] = []
    for giver in ranked:
        for taker in reversed(ranked):
            count = min(over[giver], -over[taker])
            if count > 0:
                found.append((giver, taker, count))
                over[giver] -= count
                over[taker] += count
    return found
