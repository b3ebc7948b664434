"""Why activities are cancelled and turns end: two open sums (C1, T7)."""

from __future__ import annotations

import msgspec

from ..sums import Opaque, OpenSum
from .failures import Failure


class Cause:
    """Why an activity was cancelled; members carry a ``kind`` tag (C1)."""

    __slots__ = ()


class OpaqueCause(Opaque, Cause):
    """A cause of a kind this process does not know."""

    __slots__ = ()


CAUSES: OpenSum[Cause] = OpenSum(Cause, OpaqueCause, "kind")
"""The causes there are; ``CAUSES.register`` adds one (S2)."""


@CAUSES.register
class ByUser(msgspec.Struct, Cause, frozen=True, gc=False, tag_field="kind", tag="user"):
    """The user pressed stop."""


@CAUSES.register
class ByParent(msgspec.Struct, Cause, frozen=True, gc=False, tag_field="kind", tag="parent"):
    """The agent that awaits this one was cancelled (O6)."""


@CAUSES.register
class ByHook(msgspec.Struct, Cause, frozen=True, gc=False, tag_field="kind", tag="hook"):
    """A hook or policy stopped it, and says why."""

    reason: str


@CAUSES.register
class ByDisposal(msgspec.Struct, Cause, frozen=True, gc=False, tag_field="kind", tag="disposed"):
    """The agent is being disposed; reserved to ``dispose`` (C1)."""


class EndReason:
    """Why a turn ended; members carry a ``kind`` tag (T7)."""

    __slots__ = ()


class OpaqueEndReason(Opaque, EndReason):
    """A reason of a kind this process does not know."""

    __slots__ = ()


END_REASONS: OpenSum[EndReason] = OpenSum(EndReason, OpaqueEndReason, "kind")
"""The end reasons there are; ``END_REASONS.register`` adds one (S2)."""


@END_REASONS.register
class Completed(msgspec.Struct, EndReason, frozen=True, gc=False, tag_field="kind", tag="completed"):
    """Nothing was owed any more."""


@END_REASONS.register
class MaxTokens(msgspec.Struct, EndReason, frozen=True, gc=False, tag_field="kind", tag="max-tokens"):
    """An answer of the turn was cut off by the output limit (T6)."""


@END_REASONS.register
class Blocked(msgspec.Struct, EndReason, frozen=True, gc=False, tag_field="kind", tag="blocked", omit_defaults=True):
    """A hook rejected the step or the prompt; ``detail`` is the prompt hook's reason (H7)."""

    detail: str | None = None


@END_REASONS.register
class Aborted(msgspec.Struct, EndReason, frozen=True, gc=False, tag_field="kind", tag="aborted"):
    """The turn was cancelled; ``reason`` is the first cause (C2)."""

    reason: Cause


@END_REASONS.register
class Errored(msgspec.Struct, EndReason, frozen=True, gc=False, tag_field="kind", tag="error"):
    """A failure ended the turn (T9)."""

    failure: Failure


@END_REASONS.register
class Interrupted(msgspec.Struct, EndReason, frozen=True, gc=False, tag_field="kind", tag="interrupted"):
    """The process died inside the turn; written by repair only (P4)."""


COMPLETED = Completed()
MAX_TOKENS = MaxTokens()
