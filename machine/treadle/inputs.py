"""What the kernel is fed: calls on the agent, and outcomes of the operation it is owed."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from .models.failures import Failure
from .models.messages import Block, ToolCall, UserMessage
from .session.events import (
    AssistantAttempt,
    AssistantMessageAdded,
    Cause,
    RequestContext,
    RequestHeader,
    SystemMessageAdded,
    Target,
    ToolResultAdded,
)

# --- calls ------------------------------------------------------------------------------------------------------------


@frozen
class Deliver:
    """A message arrives (D1). ``own``: sent by the running activity's own hooks or tools (D4)."""

    message: UserMessage
    target: Target
    wakeup: bool
    own: bool = False


@frozen
class Splice:
    """Change one pending list; coordinates as JavaScript takes them (I2)."""

    target: Target
    start: int
    delete_count: int
    inserted: tuple[UserMessage, ...] = ()


@frozen
class ReplaceMessage:
    """Put another message in the place of a pending one (I2)."""

    message_id: str
    message: UserMessage


@frozen
class RemoveMessage:
    """Take one pending message out (I2)."""

    message_id: str


@frozen
class ClearInbox:
    """Drop everything pending, next-step first (I7)."""


@frozen
class EditMessage:
    """Replace the content of a next-turn entry; id and place stay (I9)."""

    message_id: str
    content: tuple[Block, ...]


@frozen
class SteerMessage:
    """Move a next-turn entry to next-step (I9)."""

    message_id: str


@frozen
class Cancel:
    """Stop the activity, and clear the inbox unless it is kept (C1)."""

    cause: Cause
    keep_inbox: bool = False


@frozen
class BeginMaintenance:
    """Claim the idle state for a maintenance task (M1)."""


@frozen
class Reserve:
    """Hold back the next claim (D8)."""


@frozen
class Unreserve:
    """Release the reservation or the creation's hold (D8, O0)."""


@frozen
class Dispose:
    """End the agent (O4)."""

    keep_inbox: bool = False


# --- outcomes and progress of operations ------------------------------------------------------------------------------


@frozen
class Entered:
    """Admission: the step may be entered with this batch (T2). ``series`` starts a request series (Q12)."""

    messages: tuple[UserMessage, ...]
    series: bool = False


@frozen
class Refused:
    """Admission: the step was rejected. ``kept`` are companions that the turn records all the same (H10)."""

    detail: str | None = None
    kept: tuple[UserMessage, ...] = ()


@frozen
class SystemChange:
    """The system prompt, appended or in the place of the surface node ``replaces`` (Q3)."""

    data: SystemMessageAdded
    replaces: int | None = None


@frozen
class Prepared:
    """Request, progress: the call is prepared; what has to be recorded before the attempt (T1)."""

    system: tuple[SystemChange, ...] = ()
    header: RequestHeader | None = None
    context: RequestContext | None = None


@frozen
class AttemptRecorded:
    """Request, progress: an attempt ended without a whole answer (Q9, C5)."""

    fact: AssistantAttempt | AssistantMessageAdded


@frozen
class Answered:
    """Request: a whole answer arrived. ``truncated``: cut off by the output limit (T6)."""

    fact: AssistantMessageAdded
    calls: tuple[ToolCall, ...] = ()
    truncated: bool = False


@frozen
class AttemptFailed:
    """Request: the attempt failed; recovery decides (H6)."""

    failure: Failure
    error: Any = None


@frozen
class Retried:
    """Recovery: make another attempt in the same step (H6)."""


@frozen
class CallStarted:
    """Tools, progress: a call was allowed and its body starts (K5)."""

    index: int
    parallel: bool


@frozen
class CallRefused:
    """Tools, progress: a call will not run; its result follows when it is due (K5)."""

    index: int


@frozen
class CallFinished:
    """Tools, progress: a body is over; its slot is free."""

    index: int


@frozen
class CallSettled:
    """Tools, progress: the next due result, with the contexts it hands over (K5, C7).

    A call that was never started (denied, unknown, malformed) gets its ``tool/call`` here.
    """

    index: int
    result: ToolResultAdded
    contexts: tuple[UserMessage, ...] = ()


@frozen
class CallDropped:
    """Tools, progress: the call is not started any more, because the turn is being cancelled (C4)."""

    index: int


@frozen
class ToolsSettled:
    """Tools: every call has its result."""


@frozen
class Stopped:
    """Turn-stopping: all were asked; the inbox decides (T4)."""


@frozen
class Maintained:
    """Maintenance: the task is over, one way or the other (M3)."""


@frozen
class Failed:
    """Any operation: it raised, or recovery gave up (T9)."""

    failure: Failure
    error: Any = None


@frozen
class Interrupted:
    """Any operation: it let the cancellation through and has settled (C4)."""


@frozen
class Proceeded:
    """The notifications of a commit that asked to ``Proceed`` have run."""


@frozen
class Replayed:
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
