"""Encoded histories, kept so that a step encodes only what is new (Q1).

Messages are immutable, so an encoded message stands for its object. Each session's last request is remembered as the
list of its encoded parts; the next request, which as a rule only adds messages, reuses it. Finding out costs one
comparison of two lists of the same objects; building the body costs one join.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from treadle.models.messages import Message
from treadle.session.events import ToolSchema

KEPT_BYTES = 64 * 1024 * 1024
"""How many bytes of encoded messages one adapter remembers; the sessions used longest ago are forgotten first."""


class Fragment(NamedTuple):
    """One message as its protocol writes it.

    Attributes:
        role: what it is joined by; neighbours of one role may be merged.
        data: its JSON; empty when the message is left out of requests.
    """

    role: str
    data: bytes


class _Encoded(NamedTuple):
    """One message, its fragment, and how many parts the body has after it."""

    message: Message
    fragment: Fragment
    parts: int
    role: str


class EncodedHistory:
    """The encoded messages of one session.

    Args:
        encode: encodes one message; must depend on nothing but the message.
        glue: what stands between two neighbours, by their roles; the first has the role ``""`` before it.
    """

    def __init__(self, encode: Callable[[Message], Fragment], glue: Callable[[str, str], bytes]) -> None:
        self._encode = encode
        self._glue = glue
        self._messages: list[Message] = []
        self._encoded: list[_Encoded] = []
        self._parts: list[bytes] = []
        self.size = 0

    def parts(self, messages: Sequence[Message]) -> list[bytes]:
        """The encoded messages with what stands between them, to be joined; not to be changed."""
        dropped: list[_Encoded] = []
        if list(islice(messages, len(self._messages))) != self._messages:
            dropped = self._forget_from(self._common(messages))
        known = {id(item.message): item.fragment for item in dropped}
        for message in islice(messages, len(self._messages), None):
            fragment = known.get(id(message))
            self._append(message, self._encode(message) if fragment is None else fragment)
        return self._parts

    @property
    def last_role(self) -> str:
        """The role of the last message, ``""`` when there is none."""
        return self._encoded[-1].role if self._encoded else ""

    def _append(self, message: Message, fragment: Fragment) -> None:
        role = self.last_role
        if fragment.data:
            glue = self._glue(role, fragment.role)
            self._parts += [glue, fragment.data] if glue else [fragment.data]
            self.size += len(fragment.data)
            role = fragment.role
        self._messages.append(message)
        self._encoded.append(_Encoded(message, fragment, len(self._parts), role))

    def _common(self, messages: Sequence[Message]) -> int:
        """How many messages at the head are the same."""
        for index, (old, new) in enumerate(zip(self._messages, messages, strict=False)):
            if old is not new and old != new:
                return index
        return min(len(self._messages), len(messages))

    def _forget_from(self, index: int) -> list[_Encoded]:
        """Drop the messages from ``index`` on, and return them: what comes in their place may hold them again."""
        dropped = self._encoded[index:]
        del self._messages[index:]
        del self._encoded[index:]
        del self._parts[self._encoded[-1].parts if self._encoded else 0 :]
        self.size -= sum(len(item.fragment.data) for item in dropped)
        return dropped


class HistoryCache:
    """The encoded histories of the sessions that use one adapter."""

    def __init__(
        self,
        encode: Callable[[Message], Fragment],
        glue: Callable[[str, str], bytes],
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._encode = encode
        self._glue = glue
        self._kept_bytes = kept_bytes
        self._size = 0
        self._sessions: OrderedDict[str, EncodedHistory] = OrderedDict()

    def parts(self, session_id: str, messages: Sequence[Message]) -> tuple[list[bytes], str]:
        """The encoded messages of a request, to be joined and not to be changed, and the role of the last one."""
        history = self._sessions.get(session_id)
        if history is None:
            history = self._sessions[session_id] = EncodedHistory(self._encode, self._glue)
        self._sessions.move_to_end(session_id)
        before = history.size
        parts = history.parts(messages)
        self._size += history.size - before
        while self._size > self._kept_bytes and len(self._sessions) > 1:
            self._size -= self._sessions.popitem(last=False)[1].size
        return parts, history.last_role

    def __len__(self) -> int:
        return len(self._sessions)


class ToolsCache:
    """Encoded tool lists: an agent shows the same list in every step.

    Args:
        encode: encodes one list.
        kept: how many lists are remembered.
    """

    def __init__(self, encode: Callable[[tuple[ToolSchema, ...]], bytes], kept: int = 64) -> None:
        self._encode = encode
        self._kept = kept
        self._lists: OrderedDict[int, tuple[tuple[ToolSchema, ...], bytes]] = OrderedDict()

    def get(self, tools: tuple[ToolSchema, ...]) -> bytes:
        """The encoded list."""
        found = self._lists.get(id(tools))
        if found is None:
            found = self._lists[id(tools)] = (tools, self._encode(tools))  # holding the list keeps its identity
            if len(self._lists) > self._kept:
                self._lists.popitem(last=False)
        return found[1]
