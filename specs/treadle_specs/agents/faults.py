"""Which calls there are, counted by who is called, and the one of them that goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import trio

from .disturbance import Harm, Harmed
from .sites import Site

SLOW = 20.0
"""Virtual seconds that a slow call takes longer."""


class Injected(RuntimeError):
    """What a call that fails for the check raises."""


class Faults:
    """Counts the calls of one run; the chosen one is harmed.

    Args:
        chosen: which, and how.
        strike: told when it is reached.

    Attributes:
        calls: how often each was called, by kind and name.
        sites: where what was called is defined, where that is the user's code.
        struck: whether the chosen call was reached.
        hanging: whether a call hangs now, for the check.
    """

    def __init__(self, chosen: Harmed | None = None, strike: Callable[[], None] = lambda: None) -> None:
        self._strike = strike
        self.chosen = chosen
        self.calls: Counter[tuple[str, str]] = Counter()
        self.sites: dict[tuple[str, str], Site] = {}
        self.struck = False
        self.hanging = False

    def due(self, kind: str, name: str, site: Site | None = None) -> Harm | None:
        """Count one call; returns how it is harmed, ``None`` when it is left alone."""
        key = (kind, name)
        self.calls[key] += 1
        if site is not None:
            self.sites[key] = site
        chosen = self.chosen
        if chosen is None or (chosen.kind, chosen.name) != key:
            return None
        nth = self.calls[key] - (chosen.harm == "twice" and self.struck)
        if nth != chosen.nth:
            return None
        if not self.struck:
            self.struck = True
            self._strike()
        return chosen.harm

    async def hang(self) -> None:
        """Wait until somebody cancels it."""
        self.hanging = True
        try:
            await trio.sleep_forever()
        finally:
            self.hanging = False

    async def dawdle(self) -> None:
        """Take a while."""
        await trio.sleep(SLOW)

    async def before(self, harm: Harm | None) -> None:
        """Do to a call what is due before it runs.

        Raises:
            Injected: it fails.
        """
        match harm:
            case "hang":
                await self.hang()
            case "slow":
                await self.dawdle()
            case "fail":
                raise Injected("this call fails, for the check")
            case _:
                pass
