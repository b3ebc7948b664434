"""What is done to a run, and where: one disturbance per run, with a text form that replays it."""

from __future__ import annotations

import re
from typing import Literal, get_args

from attrs import frozen

from treadle import MisuseError

Deed = Literal["cancel", "dispose", "steer", "followup", "die"]
"""What is done at a place: between two batches of tasks."""
DEEDS: tuple[Deed, ...] = get_args(Deed)
Harm = Literal["fail", "twice", "refuse", "break", "hang", "slow"]
"""How a call goes wrong; a model's attempt may also fail with the one after it, be refused for good,
or break off after its first chunk."""
HARMS: tuple[Harm, ...] = get_args(Harm)

_PLACED = re.compile(rf"({'|'.join(DEEDS)}) at (\d+)(?: with (\d+) events)?")
_HARMED = re.compile(rf"({'|'.join(HARMS)}) (tool|hook|listener|model|store)(?: (\S+))? (\d+)")
_ORDERED = re.compile(r"order (\d+)")


@frozen
class Placed:
    """Something is done at one place of a run.

    Attributes:
        deed: what.
        at: the number of the place, from 0: one before each batch of tasks, and one whenever all wait.
        kept: how many events of the agent's session survive a death; what the store held unless given.
    """

    deed: Deed
    at: int
    kept: int | None = None

    def __str__(self) -> str:
        return f"{self.deed} at {self.at}" + (f" with {self.kept} events" if self.kept is not None else "")


@frozen
class Harmed:
    """One call goes wrong: the ``nth`` call, from 1, of a tool, a hook, the model or the store.

    A hook that is only told, and cannot be waited for, is a ``listener``.
    """

    harm: Harm
    kind: str
    name: str
    nth: int

    def __str__(self) -> str:
        return " ".join([self.harm, self.kind, *([self.name] if self.name else []), str(self.nth)])


@frozen
class Ordered:
    """Tasks that can run at the same time do so in another order, drawn by a seed."""

    seed: int

    def __str__(self) -> str:
        return f"order {self.seed}"


@frozen
class Undisturbed:
    """Nothing is done."""

    def __str__(self) -> str:
        return "nothing"


Disturbance = Placed | Harmed | Ordered | Undisturbed
NOTHING = Undisturbed()


def disturbance_of(text: str) -> Disturbance:
    """Read the text form of a disturbance.

    Raises:
        MisuseError: it is none.
    """
    if text == "nothing":
        return NOTHING
    if found := _PLACED.fullmatch(text):
        deed, at, kept = found.groups()
        return Placed(next(one for one in DEEDS if one == deed), int(at), int(kept) if kept else None)
    if found := _HARMED.fullmatch(text):
        harm, kind, name, nth = found.groups()
        return Harmed(next(one for one in HARMS if one == harm), kind, name or "", int(nth))
    if found := _ORDERED.fullmatch(text):
        return Ordered(int(found.group(1)))
    raise MisuseError(
        f"no disturbance: {text!r}; one is 'cancel at 12', 'die at 7 with 5 events', 'fail tool search 1', 'order 3'"
    )
