"""What the command's exit status says, and what to do about failures."""

from __future__ import annotations

from enum import IntEnum

from treadle import Aborted, Blocked, EndReason, Errored, Failure, MaxTokens


class Exit(IntEnum):
    """The exit statuses of ``treadle``."""

    OK = 0
    FAILED = 1
    USAGE = 2
    MAX_TOKENS = 3
    BLOCKED = 4
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


def exit_of(reason: EndReason | None) -> Exit:
    """The exit status of a turn's end; no turn at all is fine."""
    match reason:
        case Errored():
            return Exit.FAILED
        case MaxTokens():
            return Exit.MAX_TOKENS
        case Blocked():
            return Exit.BLOCKED
        case Aborted():
            return Exit.INTERRUPTED
        case _:
            return Exit.OK


_ADVICE = {
    "CONTEXT_WINDOW_EXCEEDED": "the conversation is too long for this model: begin a new session",
    "INVALID_CREDENTIAL": "check the key in the variable that --api-key-env names",
    "INVALID_REQUEST": "check --model and --base-url",
    "MISSING_CREDENTIAL": "set that variable, or name another one with --api-key-env",
    "NO_ADAPTER": "name a provider with --provider",
    "QUOTA": "the account has run out; see the provider's billing page",
    "RATE_LIMIT": "wait a moment and send it again",
    "STORE_FAILURE": "what was said since is not kept: see that there is room and that the folder can be written",
    "STEP_LIMIT": "send another message to go on",
    "TIMEOUT": "the server went silent; send it again, or check the server",
    "TRANSPORT": "is the server running, and is --base-url right?",
}


def advice_for(failure: Failure) -> str | None:
    """What a person can do about a failure, ``None`` when nothing general can be said. Keyed on codes (Q7)."""
    if failure.status == 404:
        return "the server knows no such address or model: check --base-url (it often ends in /v1) and --model"
    return _ADVICE.get(failure.code)
