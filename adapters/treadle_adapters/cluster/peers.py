"""Who is dead: beats of others are counted on this machine's own clock, so no clock of theirs or the server's matters."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from attrs import define, field

from .rows import Beats


@define
class _Seen:
    beat: int
    since: float


@define(eq=False)
class Peers:
    """What a replica has seen of the others.

    Time in which it could not look counts for nobody's death: a server that was away was away for all.

    Attributes:
        gap: seconds between two looks from which on everybody is given a whole lease again.
    """

    gap: float
    _seen: dict[str, _Seen] = field(factory=dict[str, _Seen])
    _looked: float | None = None

    def look(self, at: float, beats: Beats) -> list[tuple[str, int]]:
        """Take in beats; returns who has not beaten for a lease, with the last beat.

        Args:
            at: the moment at which they had been read: they may be as old as the question, never younger.
            beats: all that were there.
        """
        away = self._looked is not None and at - self._looked > self.gap
        self._looked = at
        dead: list[tuple[str, int]] = []
        seen = self._seen
        for replica, (beat, lease) in beats.items():
            known = seen.get(replica)
            if known is None:
                seen[replica] = _Seen(beat, at)
            elif known.beat != beat or away:
                known.beat, known.since = beat, at
            elif at - known.since >= lease:
                dead.append((replica, beat))
        for gone in seen.keys() - beats.keys() if len(seen) > len(beats) else ():
            del seen[gone]
        return dead


def in_turn(me: str, dead: Iterable[str]) -> list[str]:
    """The dead in an order of one's own: so those who take over what they left behind begin at different ones."""
    return sorted(dead, key=lambda each: zlib.crc32(f"{me}/{each}".encode()))
