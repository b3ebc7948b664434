"""Every error that treadle raises on purpose.

Each says whose fault it is and what to do next. ``code`` is stable: route on it, never on the text (Q7).
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AgentBusy",
    "AgentDisposed",
    "BridgeClosed",
    "BudgetReached",
    "CompactionFailed",
    "ConfigError",
    "DelegationLimit",
    "DuplicateMessage",
    "DuplicateSession",
    "HookError",
    "InvalidData",
    "InvalidMessage",
    "InvalidTrigger",
    "InvariantViolated",
    "LeaseLost",
    "MaintenanceCancelled",
    "MessageRejected",
    "MisuseError",
    "NoFactory",
    "NoStore",
    "ParentCancelled",
    "PresetError",
    "PromptError",
    "ScopeClosed",
    "SessionCorrupt",
    "SessionFormatUnsupported",
    "SessionLocked",
    "SessionNotFound",
    "StoreFailure",
    "StreamOverrun",
    "ToolError",
    "TreadleError",
]


class TreadleError(Exception):
    """Base of all errors of treadle; ``code`` is a stable, machine-readable word, and a traceback shows it."""

    code: ClassVar[str] = "TREADLE"

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.add_note(f"{self.code}: `treadle explain {self.code}` says what to do")


class MisuseError(TreadleError):
    """The caller used the interface against its contract; nothing was changed."""

    code = "MISUSE"


class InvalidMessage(MisuseError):
    """A message or its content was refused before it was accepted; nothing was changed (D3)."""

    code = "INVALID_MESSAGE"


class InvalidData(MisuseError):
    """A value cannot be held losslessly as JSON (S1). ``path`` names where in the value."""

    code = "INVALID_DATA"

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class DuplicateMessage(MisuseError):
    """A message id is pending, claimed by the open turn, or recorded in the history (I1)."""

    code = "DUPLICATE_MESSAGE"

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"message id {message_id!r} is already pending, claimed or recorded in this session (I1); "
            "send the message under a new id"
        )
        self.message_id = message_id


class InvalidTrigger(TreadleError):
    """The lifecycle table has no row for a trigger in the present state: a programming error (L1)."""

    code = "INVALID_TRIGGER"


class AgentBusy(TreadleError):
    """The agent is not truly idle, so the call cannot be served now; await ``when_idle()`` and call again (M1, D8)."""

    code = "AGENT_BUSY"


class AgentDisposed(TreadleError):
    """The agent is being or has been disposed; nothing is accepted any more (L9)."""

    code = "AGENT_DISPOSED"


class MessageRejected(TreadleError):
    """What ``ask`` sent got no turn: it was discarded, or parked behind a turn that failed; ``reason`` says which (D8)."""

    code = "MESSAGE_REJECTED"

    def __init__(self, message_id: str, reason: str) -> None:
        super().__init__(f"message {message_id!r} got no turn of its own: {reason}")
        self.message_id = message_id
        self.reason = reason


class ParentCancelled(TreadleError):
    """An agent's own tool or hook would create a child although its turn has been cancelled (O6)."""

    code = "PARENT_CANCELLED"


class ScopeClosed(TreadleError):
    """A registration was made through a scope that has ended (O5)."""

    code = "SCOPE_CLOSED"


class DuplicateSession(TreadleError):
    """An agent or session of that id is live already (O2)."""

    code = "DUPLICATE_SESSION"


class NoFactory(TreadleError):
    """No agent factory is set, so agents can be neither created nor resumed (O14)."""

    code = "NO_FACTORY"


class NoStore(TreadleError):
    """Resuming needs a session store, and the host has none (O13)."""

    code = "NO_STORE"


class SessionNotFound(TreadleError):
    """The store holds no session of that id (O13)."""

    code = "SESSION_NOT_FOUND"


class BridgeClosed(TreadleError):
    """The bridge to the host's thread is not open, or was closed while an answer was waited for."""

    code = "BRIDGE_CLOSED"


class StreamOverrun(TreadleError):
    """A reader of live frames was so slow that frames were lost; the log has the whole answer."""

    code = "STREAM_OVERRUN"


class CompactionFailed(TreadleError):
    """No summary could be made of old history; nothing was changed (Z4)."""

    code = "COMPACTION_FAILED"


class ConfigError(TreadleError):
    """A configuration, profile or preset file is wrong; the text names file, place and what to do (O8)."""

    code = "CONFIG_ERROR"


class DelegationLimit(TreadleError):
    """A child agent would stand deeper below its root, or beside more live ones, than the host allows (O6)."""

    code = "DELEGATION_LIMIT"


class SessionCorrupt(TreadleError):
    """A stored or loaded session does not hold together (P3, I6).

    ``seq`` names the event; of stored sessions ``path`` and ``line`` (from 1) name the place. Where numbers do not
    follow, ``expected`` and ``found`` are both.
    """

    code = "SESSION_CORRUPT"

    def __init__(
        self,
        message: str,
        seq: int | None = None,
        *,
        path: str | None = None,
        line: int | None = None,
        expected: int | None = None,
        found: int | None = None,
    ) -> None:
        place = f"{path}, line {line}: " if path is not None and line is not None else ""
        super().__init__(place + message)
        self.seq = seq
        self.path = path
        self.line = line
        self.expected = expected
        self.found = found


class SessionFormatUnsupported(TreadleError):
    """The session was written in a format, or with event types, that this version does not know (P5, S2)."""

    code = "SESSION_FORMAT_UNSUPPORTED"


class SessionLocked(TreadleError):
    """Another process writes this session; the text names the owner (P2)."""

    code = "SESSION_LOCKED"


class LeaseLost(SessionLocked):
    """This process may own sessions no longer, or not this one; others may go on with them, and it writes nothing (P2)."""

    code = "LEASE_LOST"


class StoreFailure(TreadleError):
    """Records could not be made durable; they are kept in memory and the failure is visible (P1, N8)."""

    code = "STORE_FAILURE"


class MaintenanceCancelled(TreadleError):
    """A maintenance task was cancelled through ``cancel``; ``cause`` is the object given there (M3)."""

    code = "MAINTENANCE_CANCELLED"

    def __init__(self, cause: object) -> None:
        super().__init__(f"the maintenance task was cancelled: {cause}")
        self.cause = cause


class PresetError(TreadleError):
    """A preset is not there, or is broken; the text holds its diagnosis (O9)."""

    code = "PRESET_ERROR"


class PromptError(TreadleError):
    """The system prompt could not be assembled: a variable is missing, or a provider failed (R2)."""

    code = "PROMPT_FAILED"


class HookError(TreadleError):
    """A hook returned something that its hook point does not take (H1)."""

    code = "HOOK_ERROR"


class InvariantViolated(TreadleError):
    """A checker switched on by ``Host(checks=True)`` found a broken rule; ``rule`` names it."""

    code = "INVARIANT_VIOLATED"

    def __init__(self, rule: str, message: str, seq: int | None = None) -> None:
        super().__init__(f"[{rule}] {message}" + (f" (seq {seq})" if seq is not None else ""))
        self.rule = rule
        self.seq = seq


class BudgetReached(TreadleError):
    """A budget is spent: the turn that would go beyond it ends with this (B1).

    Attributes:
        account: whose budget: ``turn``, ``session`` or ``host``.
        limit: what is limited, as ``Limits`` names it.
        bound: the limit.
        amount: what was reached.
        session: the session whose turn or own budget it is; the one that asked, where it is the host's.
    """

    code = "BUDGET"

    def __init__(self, account: str, limit: str, bound: float, amount: float, session: str) -> None:
        what = limit.replace("_", " ")
        super().__init__(
            f"the {account}'s budget of {bound:,g} {what} is reached: {amount:,.6g} (session {session}); "
            "give it more where the budgets are made, or begin anew (B1)"
        )
        self.account = account
        self.limit = limit
        self.bound = bound
        self.amount = amount
        self.session = session


class ToolError(TreadleError):
    """Raise it from a tool to give the result your own ``code`` (K3).

    Args:
        message: what the model reads.
        code: the result's code, ``TOOL_FAILED`` unless given.
    """

    code = "TOOL_FAILED"

    def __init__(self, message: str, code: str | None = None) -> None:
        if code is not None:
            self.code = code  # type: ignore[misc]  # an instance may carry its own code
        super().__init__(message)
