"""The versions of the log format, and how an older log is read (P5).

``FORMAT_VERSION`` grows by one when a reader of the last version would misread the new one: a core type or field is
removed, renamed, or means something else. A new optional field or a new ignorable type needs no new version. Whoever
raises it adds the ``Step`` that leads from the version before; the chain then begins at ``FIRST_VERSION`` and has no
gap. A step changes what an event says, never how many events there are: their numbers are identities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from ..errors import SessionFormatUnsupported
from .log import FORMAT_VERSION

Json = dict[str, Any]

FIRST_VERSION = 1
"""The oldest version that can be read."""


@frozen
class Step:
    """Leads from one version to the next.

    Attributes:
        header: changes a decoded header.
        event: changes one decoded event; it keeps ``seq``.
    """

    header: Callable[[Json], Json]
    event: Callable[[Json], Json]


STEPS: dict[int, Step] = {}
"""By the version that a step leads away from. The format is at its first version: there is nothing to lead away from."""


@frozen
class Chain:
    """All steps from one version to the current one."""

    steps: tuple[Step, ...]

    def header(self, raw: Json) -> Json:
        """A header of the old version, as the current version writes it."""
        for step in self.steps:
            raw = step.header(raw)
        return raw

    def event(self, raw: Json) -> Json:
        """An event of the old version, as the current version writes it."""
        for step in self.steps:
            raw = step.event(raw)
        return raw


def chain_from(version: int, *, current: int = FORMAT_VERSION, steps: Mapping[int, Step] = STEPS) -> Chain:
    """The chain that leads from ``version`` to ``current``; empty when they are the same.

    Raises:
        SessionFormatUnsupported: the version is newer, or no chain of steps leads from it (P5).
    """
    if version > current:
        raise SessionFormatUnsupported(
            f"the session has format {version}, and this treadle knows formats up to {current} (P5): use a newer treadle"
        )
    found: list[Step] = []
    for number in range(version, current):
        step = steps.get(number)
        if step is None:
            raise SessionFormatUnsupported(
                f"the session has format {version}, and no upgrade leads from format {number} to {number + 1} (P5): "
                "open it once with a treadle that knows both"
            )
        found.append(step)
    if version < FIRST_VERSION and not found:
        raise SessionFormatUnsupported(f"the session has format {version}; the first format is {FIRST_VERSION} (P5)")
    return Chain(tuple(found))
