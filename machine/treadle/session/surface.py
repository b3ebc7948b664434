"""The surface: the ordered events that make up the model-visible history (S3, S4)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from attrs import define, field

from ..errors import MisuseError
from ..words.events import (
    APPEND,
    AssistantMessageAdded,
    Event,
    Replace,
    SystemMessageAdded,
    ToolResultAdded,
    UserMessageAdded,
)
from ..words.messages import AssistantMessage, Block, Message, Reasoning, Text, ToolResult, ToolResultMessage


def derive(data: object) -> Message | None:
    """The message that a surface event contributes, ``None`` when it contributes none (S4).

    User and system content enters verbatim, assistant content unless it has neither text nor calls, tool results as
    user-role result blocks; nothing else does.
    """
    if type(data) is UserMessageAdded:
        return data.message
    if type(data) is ToolResultAdded:
        return ToolResultMessage((ToolResult(data.call_id, data.content, data.is_error, data.code),))
    if type(data) is AssistantMessageAdded:
        return data.message if says_something(data.message.content) else None
    if type(data) is SystemMessageAdded:
        return data.message if data.message.content else None
    return None


def says_something(content: tuple[Block, ...]) -> bool:
    """Whether an answer holds more than reasoning and empty text: a provider would refuse it otherwise (S4)."""
    for block in content:
        if type(block) is Text:
            if block.text:
                return True
        elif type(block) is not Reasoning:
            return True
    return False


def unpaired(messages: Iterable[Message]) -> list[str]:
    """The call ids that are not answered, before any other message, by exactly one result (N1)."""
    open_calls: list[str] = []
    broken: list[str] = []
    for message in messages:
        if type(message) is ToolResultMessage:
            call = message.result.call_id
            if call in open_calls:
                open_calls.remove(call)
            else:
                broken.append(call)
            continue
        broken += open_calls
        open_calls = []
        if type(message) is AssistantMessage:
            open_calls = [block.call_id for block in message.calls]
    return broken + open_calls


class Node(msgspec.Struct, frozen=True, gc=False):
    """One event on the surface, and what it contributes. ``system``: it is of the system prompt, emptied or not."""

    seq: int
    message: Message | None
    system: bool = False


@define
class Surface:
    """The nodes, and the history derived from them. Appending costs the new node only (S4).

    ``system`` lists the nodes of the system prompt, emptied ones too: they keep its place (Q3).
    """

    nodes: list[Node] = field(factory=lambda: [])
    messages: list[Message] = field(factory=lambda: [])
    system: tuple[Node, ...] = ()

    def place(self, op: Replace) -> tuple[int, int]:
        """Where the range of a replacement lies now.

        Raises:
            MisuseError: the range does not exist (any more), or is reversed (S3).
        """
        first = last = -1
        for index, node in enumerate(self.nodes):
            if node.seq == op.first:
                first = index
            if node.seq == op.last:
                last = index
        if first < 0 or last < first:
            raise MisuseError(f"the surface has no nodes from seq {op.first} to {op.last} (S3)")
        return first, last

    def check(self, op: Replace, sources: tuple[int, ...] | None) -> None:
        """Check a replacement before anything changes (S3, S6).

        Raises:
            MisuseError: the range does not exist, or the replacement does not cite every event it shadows.
        """
        first, last = self.place(op)
        shadowed = {node.seq for node in self.nodes[first : last + 1]}
        if not shadowed <= set(sources or ()):
            raise MisuseError(f"a replacement cites every event it shadows: {sorted(shadowed)} (S3)")

    def apply(self, entry: Event) -> None:
        """Take a surface event in."""
        message = derive(entry.data)
        node = Node(entry.seq, message, type(entry.data) is SystemMessageAdded)
        op = entry.surface_op
        if op is not APPEND and type(op) is Replace:
            first, last = self.place(op)
            self.nodes[first : last + 1] = [node]
            self.messages = [kept.message for kept in self.nodes if kept.message is not None]
            self.system = tuple([kept for kept in self.nodes if kept.system])
            return
        self.nodes.append(node)
        if message is not None:
            self.messages.append(message)
        if node.system:
            self.system += (node,)
