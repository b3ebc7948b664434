"""What the kernel is fed: calls on the agent, and outcomes of the operation it is owed."""

from __future__ import annotations

from typing import Any, final

import msgspec

from ..words.events import (
    AssistantAttempt,
    AssistantMessageAdded,
    RequestContext,
    RequestHeader,
    SystemMessageAdded,
    Target,
    ToolResultAdded,
)
from ..words.failures import Failure
from ..words.messages import Block, ToolCall, UserMessage
from ..words.reasons import Cause

# --- calls ------------------------------------------------------------------------------------------------------------


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """A message arrives (D1). ``own``: sent by the running activity's own hooks or tools (D4)."""

    message: UserMessage
    target: Target
    wakeup: bool
    own: bool = False


class Splice(msgspec.Struct, frozen=True, gc=False):
    """Change one pending list; coordinates as JavaScript takes them (I2)."""

    target: Target
    start: int
    delete_count: int
    inserted: tuple[UserMessage, ...] = ()


class ReplaceMessage(msgspec.Struct, frozen=True, gc=False):
    """Put another message in the place of a pending one (I2)."""

    message_id: str
    message: UserMessage


class RemoveMessage(msgspec.Struct, frozen=True, gc=False):
    """Take one pending message out (I2)."""

    message_id: str


class ClearInbox(msgspec.Struct, frozen=True, gc=False):
    """Drop everything pending, next-step first (I7)."""


class EditMessage(msgspec.Struct, frozen=True, gc=False):
    """Replace the content of a next-turn entry; id and place stay (I9)."""

    message_id: str
    content: tuple[Block, ...]


class SteerMessage(msgspec.Struct, frozen=True, gc=False):
    """Move a next-turn entry to next-step (I9)."""

    message_id: str


class Cancel(msgspec.Struct, frozen=True, gc=False):
    """Stop the activity, and clear the inbox unless it is kept (C1)."""

    cause: Cause
    keep_inbox: bool = False


class BeginMaintenance(msgspec.Struct, frozen=True, gc=False):
    """Claim the idle state for a maintenance task (M1)."""


class Reserve(msgspec.Struct, frozen=True, gc=False):
    """Hold back the next claim (D8). ``ahead``: also during a turn, which goes on to its own end."""

    ahead: bool = False


class Unreserve(msgspec.Struct, frozen=True, gc=False):
    """Release the reservation or the creation's hold (D8, O0)."""


class Dispose(msgspec.Struct, frozen=True, gc=False):
    """End the agent (O4)."""

    keep_inbox: bool = False


# --- outcomes and progress of operations ------------------------------------------------------------------------------


class Entered(msgspec.Struct, frozen=True, gc=False):
    """Admission: the step may be entered with this batch (T2). ``series`` starts a request series (Q12)."""

    messages: tuple[UserMessage, ...]
    series: bool = False


class Refused(msgspec.Struct, frozen=True, gc=False):
    """Admission: the step was rejected. ``kept`` are companions that the turn records all the same (H10)."""

    detail: str | None = None
    kept: tuple[UserMessage, ...] = ()


class SystemChange(msgspec.Struct, frozen=True, gc=False):
    """The system prompt, appended or in the place of the surface node ``replaces`` (Q3)."""

    data: SystemMessageAdded
    replaces: int | None = None


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """Request, progress: the call is prepared; what has to be recorded before the attempt (T1)."""

    system: tuple[SystemChange, ...] = ()
    header: RequestHeader | None = None
    context: RequestContext | None = None


@final
class AttemptRecorded(msgspec.Struct, frozen=True, gc=False):
    """Request, progress: an attempt ended without a whole answer (Q9, C5)."""

    fact: AssistantAttempt | AssistantMessageAdded


@final
class Answered(msgspec.Struct, frozen=True, gc=False):
    """Request: a whole answer arrived. ``truncated``: cut off by the output limit, and therefore without calls (T6)."""

    fact: AssistantMessageAdded
    calls: tuple[ToolCall, ...] = ()
    truncated: bool = False


class AttemptFailed(msgspec.Struct, frozen=True):
    """Request: the attempt failed; recovery decides (H6)."""

    failure: Failure
    error: Any = None


class Retried(msgspec.Struct, frozen=True, gc=False):
    """Recovery: make another attempt in the same step (H6)."""


class CallStarted(msgspec.Struct, frozen=True, gc=False):
    """Tools, progress: a call was allowed and its body starts (K5)."""

    index: int
    parallel: bool


class CallRefused(msgspec.Struct, frozen=True, gc=False):
    """Tools, progress: a call will not run; its result follows when it is due (K5)."""

    index: int


class Returned(msgspec.Struct, frozen=True, gc=False):
    """The body came to its own end: whatever it returned or raised is its result."""


class LetThrough(msgspec.Struct, frozen=True, gc=False):
    """The body let the cancellation through. ``started``: after its first statement, not before it."""

    started: bool


class TimedOut(msgspec.Struct, frozen=True, gc=False):
    """The body was stopped because its own time was up."""

    seconds: float


Ending = Returned | LetThrough | TimedOut
"""How the body of a call ended. Which result stands for it is the kernel's choice: ``Schedule.stand_ins``."""

RETURNED = Returned()


class CallFinished(msgspec.Struct, frozen=True, gc=False):
    """Tools, progress: a body is over; its slot is free."""

    index: int
    ending: Ending = RETURNED


class CallSettled(msgspec.Struct, frozen=True, gc=False):
    """Tools, progress: the next due result, with the contexts it hands over (K5, C7).

    A call that was never started (denied, unknown, malformed) gets its ``tool/call`` here.
    """

    index: int
    result: ToolResultAdded
    contexts: tuple[UserMessage, ...] = ()


class CallDropped(msgspec.Struct, frozen=True, gc=False):
    """Tools, progress: the call is not started any more, because the turn is being cancelled (C4)."""

    index: int


class ToolsSettled(msgspec.Struct, frozen=True, gc=False):
    """Tools: every call has its result."""


class Stopped(msgspec.Struct, frozen=True, gc=False):
    """Turn-stopping: all were asked; the inbox decides (T4)."""


class Maintained(msgspec.Struct, frozen=True, gc=False):
    """Maintenance: the task is over, one way or the other (M3)."""


class Failed(msgspec.Struct, frozen=True):
    """Any operation but maintenance, whose failure is its caller's (M3): it raised, or recovery gave up (T9)."""

    failure: Failure
    error: Any = None


@final
class Interrupted(msgspec.Struct, frozen=True, gc=False):
    """Any operation: it let the cancellation through and has settled (C4)."""


@final
class Proceeded(msgspec.Struct, frozen=True, gc=False):
    """The notifications of a commit that asked to ``Proceed`` have run."""


@final
class Replayed(msgspec.Struct, frozen=True, gc=False):
    """The notifications of a commit that asked to ``Reread`` have run."""


Call = (
    Deliver
    | Splice
    | ReplaceMessage
    | RemoveMessage
    | ClearInbox
    | EditMessage
    | SteerMessage
    | Cancel
    | BeginMaintenance
    | Reserve
    | Unreserve
    | Dispose
)
Progress = Prepared | AttemptRecorded | CallStarted | CallRefused | CallFinished | CallSettled | CallDropped
Outcome = (
    Entered | Refused | Answered | AttemptFailed | Retried | ToolsSettled | Stopped | Maintained | Failed | Interrupted
)
Input = Call | Progress | Outcome | Proceeded | Replayed
