"""What the kernel asks for: returned values that the shell performs, in order (design: the one idea).

``Record`` and ``Begin``, ``Abort``, ``Settle``, ``Finish`` are performed at the commit, before anyone is told;
``Publish``, and the publication of each recorded event, follow in the same order (H4). ``Proceed`` and ``Reread``
come last: the kernel is fed again once the notifications of the commit have run.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen

from .models.failures import Failure
from .models.messages import ToolCall, UserMessage
from .session.events import Cause

Status = Literal["idle", "running"]

# --- fates of messages ------------------------------------------------------------------------------------------------


@frozen
class Admitted:
    """The message is in the request history of a step (D8).

    ``step`` is ``None`` when a turn that never reached a step recorded it: kept by ``keep_inbox`` (C6) or as the
    companion of a blocked prompt (H10). It is in the next request then.
    """

    turn: int
    step: int | None


@frozen
class Rejected:
    """The message ended without entering: ``discarded``, ``left-out``, ``blocked``, ``aborted`` or ``failed`` (D8)."""

    reason: str


Fate = Admitted | Rejected

# --- notices ----------------------------------------------------------------------------------------------------------


@frozen
class StatusChanged:
    """Public status flipped (L5)."""

    status: Status


@frozen
class Inserted:
    """A message entered the inbox (I4)."""

    message: UserMessage


@frozen
class Discarded:
    """A message left the inbox by an inbox operation or a cancel (I4)."""

    message: UserMessage


@frozen
class Updated:
    """A pending message was edited in place, or steered (I4, I9)."""

    message: UserMessage


@frozen
class Claimed:
    """The open turn took a message out of the inbox (I4)."""

    message: UserMessage
    turn: int


@frozen
class Parked:
    """An activity ended and left waking input behind (L3)."""

    messages: tuple[UserMessage, ...]


@frozen
class CancelRequested:
    """An activity was cancelled; told once, by the call that cancels it (C2)."""

    cause: Cause


@frozen
class ErrorReported:
    """Something failed (T9, N8). ``error`` is the exception itself where there is one."""

    turn: int
    step: int
    failure: Failure
    error: Any = None


Notice = StatusChanged | Inserted | Discarded | Updated | Claimed | Parked | CancelRequested | ErrorReported

# --- operations: at most one is owed (L7) -----------------------------------------------------------------------------


@frozen
class Admit:
    """Assemble the prompt and decide about the claimed batch (T1, T2). ``prompt`` is the claimed next-turn entry."""

    turn: int
    step: int
    batch: tuple[UserMessage, ...]
    prompt: UserMessage | None


@frozen
class Request:
    """Prepare the call and make one attempt; ``attempt`` counts from 1 within the step (T1, Q6)."""

    turn: int
    step: int
    attempt: int


@frozen
class Recover:
    """Ask whether a failed attempt is retried (H6)."""

    turn: int
    step: int
    failure: Failure
    error: Any = None


@frozen
class RunTools:
    """Run the calls of the answer (§11)."""

    turn: int
    step: int
    calls: tuple[ToolCall, ...]


@frozen
class Stop:
    """Ask whether anyone objects to the turn's end (T4)."""

    turn: int


@frozen
class Maintain:
    """Run the maintenance task (M1)."""


PROCEED = "proceed"
"""Owed in the place of an operation between two commits of one step."""

Operation = Admit | Request | Recover | RunTools | Stop | Maintain

# --- effects ----------------------------------------------------------------------------------------------------------


@frozen
class Record:
    """Append event data to the log; then tell the log's listeners. ``replaces`` names the surface node it replaces."""

    data: Any
    replaces: int | None = None


@frozen
class Publish:
    """Tell listeners."""

    notice: Notice


@frozen
class Settle:
    """A message has reached its fate (D8, I5)."""

    message_id: str
    fate: Fate


@frozen
class Begin:
    """Start the operation; its one outcome is fed back as an input."""

    operation: Operation


@frozen
class Abort:
    """Set the signal and cancel the running operation's scope (C3)."""

    cause: Cause


@frozen
class Proceed:
    """Feed ``Proceeded`` once this commit's notifications have run: the next commit of the same step follows."""


@frozen
class Reread:
    """Feed ``Replayed`` once this commit's notifications have run: a latched wake may be replayed (H4)."""


@frozen
class Finish:
    """Nothing is active any more: unwind the agent (O4)."""


Effect = Record | Publish | Settle | Begin | Abort | Proceed | Reread | Finish
