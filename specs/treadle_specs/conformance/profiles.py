"""What is asked of a driver: the rules of each profile, and which of them a driver's features leave out (§7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .fair_rules import EVIDENT, FAIR, PROMISED, WITHOUT

SUITE: tuple[str, ...] = (
    *("C1", "C2", "C3", "C4", "C5", "C6", "C8", "C9", "C11", "D4", "D6", "D7", "D8", "I1", "I2", "I5", "I6", "I9"),
    *("K3", "K5", "K6", "L4", "L5", "L7", "L8", "L9", "M1", "N1", "N2", "N3", "N4", "N6", "N7", "O1", "O4", "Q1", "Q5"),
    *("T3", "T6", "T7", "T9", "T10", "T12"),
)
"""The rules that the property suite holds a driver to."""
CORE: tuple[str, ...] = tuple(
    [rule for rule in SUITE if rule not in ("C8", "D8", "I2", "I9", "K3", "L8", "M1", "N6", "T6", "T9", "T12")]
)
"""Those of them that turns, steps, tools, steering, cancel and dispose put at stake."""
RESUMED: tuple[str, ...] = ("I8", "N5", "P2", "P4")
"""Those that a session puts at stake which is closed, or whose process is killed, and resumed by another one."""
ALONE = "second-process"
"""What a rig lacks that cannot run beside another one of its kind."""
PROFILES: Mapping[str, tuple[str, ...]] = {
    "fair": tuple(FAIR),
    "core": CORE,
    "durable": (*CORE, *RESUMED),
    "full": SUITE,
}
STORES = ("sqlite", "jsonl")
"""Features: the kinds of stores that outlive a process."""
SEEN: Mapping[str, str] = {"fair": EVIDENT, "core": "N3", "durable": "N3", "full": "N3"}
"""The rule of each profile that any turn puts at stake: without it nothing was seen of the driver."""
NEEDS: Mapping[str, str] = {
    "D8": "reservation",
    "I9": "update",
    "M1": "maintenance",
    "N6": "seq",
    "T12": "request-gate",
    **PROMISED,
}
"""The feature without which there is nothing to hold a rule against."""
LACKING: Mapping[str, tuple[str, ...]] = {
    "C8": ("pre-step", "turn-stopping", "request-error"),
    "I2": ("inbox",),
    "P2": (ALONE,),
    "T12": ("request",),
    **WITHOUT,
}
"""A rule cannot be put at stake when all of these are lacking: verbs, options, kinds of gates."""
LEAST = 3
"""A rule that was at stake less often is not exercised."""


def inapplicable(profile: str, features: Iterable[str], lacks: Iterable[str]) -> dict[str, str]:
    """The rules of a profile that there is nothing to hold against in a driver, each with the reason."""
    has, without = frozenset(features), frozenset(lacks)
    left_out: dict[str, str] = {}
    for rule in PROFILES[profile]:
        if rule in NEEDS and NEEDS[rule] not in has:
            left_out[rule] = f"{NEEDS[rule]} is not promised" if rule in PROMISED else f"no {NEEDS[rule]}"
        elif rule in LACKING and without.issuperset(LACKING[rule]):
            left_out[rule] = f"no {', '.join(LACKING[rule])}"
        elif rule in RESUMED and has.isdisjoint(STORES):
            left_out[rule] = f"no {' or '.join(STORES)}"
    return left_out
