"""What the kernel asks for: returned values that the shell performs, in order (design: the one idea).

``Record`` and ``Begin``, ``Abort``, ``Settle``, ``Finish`` are performed at the commit, before anyone is told;
``Publish``, and the publication of each recorded event, follow in the same order (H4). ``Proceed`` and ``Reread``
come last: the kernel is fed again once the notifications of the commit have run.

Effects and inputs are made by the dozen in every step, so they are msgspec structs, which cost an eighth of attrs
classes; those that may carry an exception stay visible to the garbage collector. The hot paths compare classes: a miss
of ``isinstance`` asks the metaclass of structs, at ten times the cost. What is compared so is final.
"""

from __future__ import annotations

from typing import Any, Literal, final

import msgspec

from ..words.failures import Failure
from ..words.messages import ToolCall, UserMessage
from ..words.reasons import Cause

Status = Literal["idle", "running"]
"""Whether an agent is at rest; all of its life is told as one or the other (L5)."""

# --- fates of messages ------------------------------------------------------------------------------------------------


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """The message is in the request history of a step.

    ``step`` is ``None`` when a turn that never reached a step recorded it: kept by ``keep_inbox``, or as the companion
    of a blocked prompt. It is in the next request then (D8, C6, H10).
    """

    turn: int
    step: int | None


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """The message ended without entering: ``discarded``, ``left-out``, ``blocked``, ``aborted`` or ``failed`` (D8)."""

    reason: str


Fate = Admitted | Rejected

# --- notices ----------------------------------------------------------------------------------------------------------


class StatusChanged(msgspec.Struct, frozen=True, gc=False):
    """Public status flipped (L5)."""

    status: Status


class Inserted(msgspec.Struct, frozen=True, gc=False):
    """A message entered the inbox (I4)."""

    message: UserMessage


class Discarded(msgspec.Struct, frozen=True, gc=False):
    """A message left the inbox by an inbox operation or a cancel (I4)."""

    message: UserMessage


class Updated(msgspec.Struct, frozen=True, gc=False):
    """A pending message was edited in place, or steered (I4, I9)."""

    message: UserMessage


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """The open turn took a message out of the inbox (I4)."""

    message: UserMessage
    turn: int


class Parked(msgspec.Struct, frozen=True, gc=False):
    """An activity ended and left waking input behind (L3)."""

    messages: tuple[UserMessage, ...]


class CancelRequested(msgspec.Struct, frozen=True, gc=False):
    """An activity was cancelled; told once, by the call that cancels it (C2)."""

    cause: Cause


class ErrorReported(msgspec.Struct, frozen=True):
    """Something failed (T9, N8). ``error`` is the exception itself where there is one."""

    turn: int
    step: int
    failure: Failure
    error: Any = None


Notice = StatusChanged | Inserted | Discarded | Updated | Claimed | Parked | CancelRequested | ErrorReported

# --- operations: at most one is owed (L7) -----------------------------------------------------------------------------


class Admit(msgspec.Struct, frozen=True, gc=False):
    """Assemble the prompt and decide about the claimed batch (T1, T2). ``prompt`` is the claimed next-turn entry."""

    turn: int
    step: int
    batch: tuple[UserMessage, ...]
    prompt: UserMessage | None


class Request(msgspec.Struct, frozen=True, gc=False):
    """Prepare the call and make one attempt; ``attempt`` counts from 1 within the step (T1, Q6)."""

    turn: int
    step: int
    attempt: int


class Recover(msgspec.Struct, frozen=True):
    """Ask whether a failed attempt is retried (H6)."""

    turn: int
    step: int
    failure: Failure
    error: Any = None


class RunTools(msgspec.Struct, frozen=True, gc=False):
    """Run the calls of the answer (§11)."""

    turn: int
    step: int
    calls: tuple[ToolCall, ...]


class Stop(msgspec.Struct, frozen=True, gc=False):
    """Ask whether anyone objects to the turn's end (T4)."""

    turn: int


class Maintain(msgspec.Struct, frozen=True, gc=False):
    """Run the maintenance task (M1)."""


PROCEED = "proceed"
"""Owed in the place of an operation between two commits of one step."""

Operation = Admit | Request | Recover | RunTools | Stop | Maintain

# --- effects ----------------------------------------------------------------------------------------------------------


@final
class Record(msgspec.Struct, frozen=True, gc=False):
    """Append event data to the log; then tell the log's listeners. ``replaces`` names the surface node it replaces."""

    data: Any
    replaces: int | None = None


@final
class Publish(msgspec.Struct, frozen=True):
    """Tell listeners."""

    notice: Notice


class Settle(msgspec.Struct, frozen=True, gc=False):
    """A message has reached its fate (D8, I5)."""

    message_id: str
    fate: Fate


@final
class Begin(msgspec.Struct, frozen=True):
    """Start the operation; its one outcome is fed back as an input."""

    operation: Operation


class Abort(msgspec.Struct, frozen=True, gc=False):
    """Set the signal and cancel the running operation's scope (C3)."""

    cause: Cause


class Proceed(msgspec.Struct, frozen=True, gc=False):
    """Feed ``Proceeded`` once this commit's notifications have run: the next commit of the same step follows."""


class Reread(msgspec.Struct, frozen=True, gc=False):
    """Feed ``Replayed`` once this commit's notifications have run: a latched wake may be replayed (H4)."""


class Finish(msgspec.Struct, frozen=True, gc=False):
    """Nothing is active any more: unwind the agent (O4)."""


Effect = Record | Publish | Settle | Begin | Abort | Proceed | Reread | Finish
