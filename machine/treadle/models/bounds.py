"""What one answer of a model may be: everything that a provider can send without end has a bound (X3)."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..errors import MisuseError
from ..lossless import MAX_EVENT_BYTES
from ..words.failures import Code, Failure, ModelFailure

LARGEST_ANSWER = MAX_EVENT_BYTES // 16
"""The largest bound: an answer is stored twice, as content and as its stream, and a character takes six bytes at most."""

CHUNK = 32
"""What one more delta costs beside its characters: its time and its place in the list."""

SEGMENT = 128
"""What any other chunk, and each change from one block to another, costs beside its characters."""


def _positive(_: Any, attribute: Any, value: Any) -> None:
    if type(value) not in (int, float) or not value > 0:
        raise MisuseError(f"the bound max_answer_{attribute.name} must be positive, not {value!r}")


def _storable(_: Any, __: Any, value: Any) -> None:
    if type(value) is not int or not 0 < value <= LARGEST_ANSWER:
        raise MisuseError(f"max_answer_bytes must be a whole number from 1 to {LARGEST_ANSWER}, not {value!r} (X3)")


@frozen
class AnswerBounds:
    """The bounds of one answer; ``AgentOptions`` sets them, under the names ``max_answer_…``.

    Attributes:
        bytes: what may be kept of it: text, reasoning, arguments and the adapter's private data, and a little for each
            chunk. The defaults take 230,000 tokens that come one by one.
        calls: how many tools it may ask for.
        seconds: how long it may take from the request to its finish, waits included.
    """

    bytes: int = field(default=8 * 1024 * 1024, validator=_storable)
    calls: int = field(default=1_000, validator=_positive)
    seconds: float = field(default=3600.0, validator=_positive)

    @property
    def wire(self) -> int:
        """How many bytes may be read for it, envelopes and keep-alives included, after decompression."""
        return 32 * self.bytes

    def too_large(self, what: str = "") -> BoundExceeded:
        """The answer holds, or would hold, more than ``bytes``."""
        said = what or f"it holds more than {self.bytes} bytes"
        return exceeded(f"the model's answer is too large: {said}", "max_answer_bytes", Code.MALFORMED_RESPONSE)

    def too_many_calls(self) -> BoundExceeded:
        """The answer asks for more tools than ``calls``."""
        text = f"the model asked for more than {self.calls} tool calls in one answer"
        return exceeded(text, "max_answer_calls", Code.MALFORMED_RESPONSE)

    def too_slow(self) -> BoundExceeded:
        """The answer takes longer than ``seconds``. Not a TIMEOUT, for that would be asked again for as long."""
        text = f"the model's answer was not finished after {self.seconds:g} s, and was cut off"
        return exceeded(text, "max_answer_seconds", Code.STREAM_CLOSED)


class BoundExceeded(ModelFailure):
    """An answer went beyond one of its bounds; the message names the option that raises it (X3)."""


def exceeded(text: str, option: str, code: Code) -> BoundExceeded:
    """A failure that names the option which raises the bound."""
    return BoundExceeded(Failure(f"{text} (X3; the agent option {option} raises the bound)", code.value))


DEFAULT_BOUNDS = AnswerBounds()
"""Bounds that no ordinary answer meets."""
