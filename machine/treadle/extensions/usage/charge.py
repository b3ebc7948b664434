"""One attempt, as it is charged."""

from __future__ import annotations

from typing import Literal

import msgspec

from ...models import Usage, UserMessage
from ...session import event

UNKNOWN = "?"
"""Stands for the model where nobody has named one."""

Outcome = Literal["answered", "failed", "interrupted"]
"""How an attempt ended: with an answer, by a failure, or cut off."""


class Charge(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What one attempt used.

    Attributes:
        model: the name that was asked for.
        outcome: how it ended.
        usage: the tokens that the provider reported, ``None`` where it reported none (C5).
        guessed: what they are estimated to be where it reported none.
        step: whether it was the first attempt of its step.
    """

    model: str
    outcome: Outcome
    usage: Usage | None = None
    guessed: Usage | None = None
    step: bool = False


def charge_of_message(message: UserMessage) -> Charge | None:
    """What a model used that wrote a message beside the turns, as a summary is written; ``None`` for other messages.

    Its source tells, by attributes ``usage`` and ``model``.
    """
    usage: object = getattr(message.source, "usage", None)
    if not isinstance(usage, Usage):
        return None
    model: object = getattr(message.source, "model", None)
    return Charge(model if isinstance(model, str) else UNKNOWN, "answered", usage)


@event("usage/sub-agent")
class SubAgentUsage(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An attempt of an agent below this one: it counts here as well.

    Attributes:
        session: the session in whose log the attempt is.
        attempt_id: which attempt of it, or which message that was written beside its turns.
        charge: what it used.
    """

    session: str
    attempt_id: str
    charge: Charge
