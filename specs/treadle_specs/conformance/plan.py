"""What a conformance run is asked to do (§7)."""

from __future__ import annotations

from attrs import frozen

from ..protocol.process import TIMEOUT_S
from .profiles import LEAST, PROFILES


@frozen
class Plan:
    """How a driver is searched.

    Attributes:
        profile: whose rules it is held to: a word of ``PROFILES``.
        seconds: wall time for the search and the shortening of what it finds; no bound when ``None``.
        examples: runs at most; no bound when ``None``.
        seed: where the drawing begins.
        rules: hold it to these alone, if any are named.
        expected: rules and names of cases that are known to fail.
        steps: requests per run.
        shrink: shorten what is found.
        rounds: different broken rules to look for; no bound when ``None``.
        least: how often a rule has to be at stake to be exercised.
        timeout: seconds that a rig has for one reply.
        jobs: processes that search at the same time.
    """

    profile: str = "full"
    seconds: float | None = None
    examples: int | None = None
    seed: int = 0
    rules: frozenset[str] = frozenset()
    expected: frozenset[str] = frozenset()
    steps: int = 25
    shrink: bool = True
    rounds: int | None = None
    least: int = LEAST
    timeout: float = TIMEOUT_S
    jobs: int = 1

    def __attrs_post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise ValueError(f"there is no profile {self.profile!r}: {', '.join(PROFILES)}")
        if self.seconds is None and self.examples is None:
            raise ValueError("a search is bounded by seconds or by examples")

    @property
    def core(self) -> bool:
        """Whether only what every driver has is asked for."""
        return self.profile != "full"
