"""Estimates of requests, each message estimated once, corrected by what providers report."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ...errors import MisuseError
from ...models import Message, ToolSchema
from ...session import Session
from .sizes import Tokenizer, message_size, text_size, tool_size

LEAST, MOST = 0.4, 2.5
"""Between these a tokenizer differs from the estimate; what lies outside is something else than the text."""
FADE = 0.8
"""How much of an earlier observation counts beside a later one."""


class Estimator:
    """Estimates how many tokens the requests of one conversation take.

    Before a provider has reported anything an estimate is a guess from the text. Afterwards it begins with the last
    reported count, to which only what has been added or taken away since is estimated, at the rate that the reports have
    shown so far: so an error does not grow with the history.

    Args:
        tokenizer: counts the tokens of a text, where the provider's own is at hand; called once per text.
    """

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._count = tokenizer or text_size
        self._known: dict[int, tuple[object, float]] = {}
        self._tools: tuple[tuple[ToolSchema, ...], float] = ((), 0.0)
        self._list: list[Message] | None = None
        self._length = 0
        self._size = 0.0
        self._reported: tuple[int, float] | None = None
        self._seen_tokens = 0.0
        self._seen_size = 0.0

    # --- asking -------------------------------------------------------------------------------------------------------

    def message(self, message: Message) -> int:
        """How many tokens one message adds to a request."""
        return round(self._message(message) * self.rate)

    def messages(self, messages: Sequence[Message], tools: tuple[ToolSchema, ...] = ()) -> int:
        """How many tokens a request of these messages and tools takes.

        Costs one look-up per message, and an estimate per message that was not seen before.
        """
        return self._predicted(self._all(messages) + self._of_tools(tools))

    def session(self, session: Session, tools: tuple[ToolSchema, ...] = ()) -> int:
        """How many tokens the next request of a session takes, as its history is now. Costs the new messages only."""
        return self._predicted(self._of_session(session) + self._of_tools(tools))

    @property
    def rate(self) -> float:
        """Tokens as the provider counts them, per estimated one; 1 before it has reported any."""
        if self._seen_size <= 0:
            return 1.0
        return min(MOST, max(LEAST, self._seen_tokens / self._seen_size))

    # --- learning -----------------------------------------------------------------------------------------------------

    def correct(self, reported: int, messages: Sequence[Message], tools: tuple[ToolSchema, ...] = ()) -> None:
        """A provider reported how many tokens the request of these messages and tools took, cached ones included.

        Raises:
            MisuseError: a count that is no positive whole number.
        """
        self._learn(reported, self._all(messages) + self._of_tools(tools))

    def correct_session(self, reported: int, session: Session, tools: tuple[ToolSchema, ...] = ()) -> None:
        """As ``correct``, for a session whose history is still as it was sent; costs the new messages only.

        Raises:
            MisuseError: a count that is no positive whole number.
        """
        self._learn(reported, self._of_session(session) + self._of_tools(tools))

    def _learn(self, reported: int, size: float) -> None:
        if type(reported) is not int or reported <= 0:
            raise MisuseError(f"a reported count of tokens is a positive whole number, not {reported!r}")
        if self._reported is not None:  # the first report is for a good part what stands in no message
            tokens, grown = reported - self._reported[0], size - self._reported[1]
            if grown > 0 and tokens > 0:  # and a history that was cut tells nothing about the rate
                self._seen_tokens = self._seen_tokens * FADE + tokens
                self._seen_size = self._seen_size * FADE + grown
        self._reported = (reported, size)

    # --- sizes --------------------------------------------------------------------------------------------------------

    def _predicted(self, size: float) -> int:
        if self._reported is None:
            return round(size)
        tokens, then = self._reported
        if size < then:  # cut since: a share of what was reported, as nothing says what the rest around it takes
            return round(tokens * size / then)
        return round(tokens + (size - then) * self.rate)

    def _message(self, message: Message) -> float:
        known = self._known.get(id(message))
        if known is None or known[0] is not message:
            known = self._known[id(message)] = (message, message_size(message, self._count))
        return known[1]

    def _all(self, messages: Sequence[Message]) -> float:
        if len(self._known) > 2 * len(messages) + 1_000:
            held = {id(message) for message in messages}
            self._known = {key: known for key, known in self._known.items() if key in held}
        return sum(map(self._message, messages))

    def _of_session(self, session: Session) -> float:
        """A surface keeps its list while messages are appended, and makes another one when a range is replaced."""
        held = session.surface.messages
        if held is not self._list:
            self._list, self._length, self._size = held, len(held), self._all(held)
        elif len(held) > self._length:
            self._size += sum(map(self._message, islice(held, self._length, None)))
            self._length = len(held)
        return self._size

    def _of_tools(self, tools: tuple[ToolSchema, ...]) -> float:
        if tools is not self._tools[0]:
            self._tools = (tools, sum([tool_size(tool, self._count) for tool in tools]))
        return self._tools[1]
