"""Encoded histories, kept so that a step encodes only what is new (Q1).

Messages are immutable, so an encoded message stands for its object. The messages of each session's last request are
remembered, joined as they were sent; the next request, which as a rule only adds messages, adds to them. Finding out
costs one comparison of two lists of the same objects; building the body costs one copy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from treadle import Message
from treadle.models import ToolSchema

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


class _Place(NamedTuple):
    """Where one message stands in the joined bytes, and the role that what follows is glued to."""

    start: int
    end: int
    role: str


class EncodedHistory:
    """The encoded messages of one session, joined.

    Args:
        encode: encodes one message; must depend on nothing but the message.
        glue: what stands between two neighbours, by their roles; the first has the role ``""`` before it.
    """

    def __init__(self, encode: Callable[[Message], Fragment], glue: Callable[[str, str], bytes]) -> None:
        self._encode = encode
        self._glue = glue
        self._messages: list[Message] = []
        self._places: list[_Place] = []
        self._joined = bytearray()

    def joined(self, messages: Sequence[Message]) -> bytearray:
        """The encoded messages with what stands between them; to be copied into a body, and not to be changed."""
        count = len(self._messages)
        dropped: dict[int, tuple[Message, Fragment]] = {}
        if list(islice(messages, count)) != self._messages:
            dropped = self._forget_from(self._common(messages))
            count = len(self._messages)
        for message in islice(messages, count, None):
            known = dropped.get(id(message))
            self._append(message, self._encode(message) if known is None else known[1])
        return self._joined

    @property
    def last_role(self) -> str:
        """The role of the last message, ``""`` when there is none."""
        return self._places[-1].role if self._places else ""

    def before_last(self, role: str) -> int:
        """Where in the joined bytes that ends what stands before the last run of messages of a role; 0 for nowhere."""
        places, at = self._places, len(self._places) - 1
        while at >= 0 and places[at].role != role:
            at -= 1
        while at >= 0 and places[at].role == role:
            at -= 1
        return places[at].end if at >= 0 else 0

    def __len__(self) -> int:
        return len(self._joined)

    def _append(self, message: Message, fragment: Fragment) -> None:
        role = self.last_role
        if fragment.data:
            self._joined += self._glue(role, fragment.role)
            role = fragment.role
        start = len(self._joined)
        self._joined += fragment.data
        self._messages.append(message)
        self._places.append(_Place(start, len(self._joined), role))

    def _common(self, messages: Sequence[Message]) -> int:
        """How many messages at the head are the same."""
        for index, (old, new) in enumerate(zip(self._messages, messages, strict=False)):
            if old is not new and old != new:
                return index
        return min(len(self._messages), len(messages))

    def _forget_from(self, index: int) -> dict[int, tuple[Message, Fragment]]:
        """Drop the messages from ``index`` on; what comes in their place may hold many of them again.

        Returns:
            Them and their fragments by identity, which holding them keeps.
        """
        dropped = {
            id(message): (message, Fragment(place.role, bytes(self._joined[place.start : place.end])))
            for message, place in zip(self._messages[index:], self._places[index:], strict=True)
        }
        del self._messages[index:]
        del self._places[index:]
        del self._joined[self._places[-1].end if self._places else 0 :]
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

    def joined(self, session_id: str, messages: Sequence[Message]) -> tuple[bytearray, str]:
        """The encoded messages of a request, to be copied and not to be changed, and the role of the last one."""
        history = self._sessions.get(session_id)
        if history is None:
            history = self._sessions[session_id] = EncodedHistory(self._encode, self._glue)
        self._sessions.move_to_end(session_id)
        before = len(history)
        joined = history.joined(messages)
        self._size += len(history) - before
        while self._size > self._kept_bytes and len(self._sessions) > 1:
            self._size -= len(self._sessions.popitem(last=False)[1])
        return joined, history.last_role

    def before_last(self, session_id: str, role: str) -> int:
        """As ``EncodedHistory.before_last``, in what ``joined`` gave for this session."""
        history = self._sessions.get(session_id)
        return history.before_last(role) if history is not None else 0

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
