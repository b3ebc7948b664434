"""The messages, facts and causes that exploration feeds the kernel: small, fixed, and shared between states."""

from __future__ import annotations

from treadle import AssistantMessage, ByParent, ByUser, Failure, SystemMessage, Text, ToolCall, UserMessage
from treadle.models import CallConfig
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    RequestContext,
    RequestHeader,
    SystemMessageAdded,
    ToolResultAdded,
)
from treadle.words.messages import user_message

FAILURE = Failure("it broke")
FIRST_CAUSE = ByUser()
LATER_CAUSE = ByParent()
"""A second cancel gives another cause, so that a report of the wrong one shows (C2)."""

ATTEMPT = AssistantAttempt("a1")
PARTIAL = AssistantMessageAdded(AssistantMessage((Text("par"),)), "a1", interrupted=True)
SYSTEM = SystemMessageAdded(SystemMessage((Text("be brief"),)))
HEADER = RequestHeader(CallConfig("p", "m"), (), "initial")
CONTEXT = RequestContext("p", "m")

_MESSAGES: dict[str, tuple[UserMessage, UserMessage]] = {}
_ANSWERS: dict[int, AssistantMessageAdded] = {}


def message_ids(count: int) -> tuple[str, ...]:
    """The ids of ``count`` messages."""
    return tuple([f"m{number}" for number in range(1, count + 1)])


def plain(message_id: str) -> UserMessage:
    """The message of an id, as it is delivered."""
    return _both(message_id)[0]


def edited(message: UserMessage) -> UserMessage:
    """A message of the same id with another text."""
    first, second = _both(message.id)
    return second if message == first else first


def _both(message_id: str) -> tuple[UserMessage, UserMessage]:
    both = _MESSAGES.get(message_id)
    if both is None:
        both = (user_message(message_id, message_id), user_message(f"{message_id} again", message_id))
        _MESSAGES[message_id] = both
    return both


def answer(calls: int) -> AssistantMessageAdded:
    """A whole answer that asks for so many tool calls."""
    fact = _ANSWERS.get(calls)
    if fact is None:
        asked = tuple([ToolCall(f"c{number}", "tool") for number in range(1, calls + 1)])
        fact = _ANSWERS[calls] = AssistantMessageAdded(AssistantMessage((Text("well"), *asked)), "a1")
    return fact


def result(call: ToolCall, *, is_error: bool = False, concludes: bool = False) -> ToolResultAdded:
    """A result of a call."""
    return ToolResultAdded(call.call_id, (Text("done"),), is_error, concludes_turn=concludes)
