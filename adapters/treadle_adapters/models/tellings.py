"""What an answer's several tellings add up to (Q13).

Providers tell one text of an answer more than once: in deltas, whole at its end, again inside its item, and again
inside the whole answer. Any one of them suffices, and together they are one text: what a later telling adds is
written, what it repeats is not, and where two contradict each other the answer fails.
"""

from __future__ import annotations

import msgspec

from treadle import Failure, ModelFailure
from treadle.models import Code, text_is_lossless

from .writer import too_much

MAX_TELLINGS = 64
"""How often one text may be told whole; each is compared with what was told before (X3)."""


def contradiction(what: str) -> ModelFailure:
    """The tellings of an answer do not add up (Q13)."""
    return ModelFailure(Failure(f"the provider {what} (Q13)", Code.MALFORMED_RESPONSE.value))


class Telling:
    """One text of an answer.

    Args:
        what: how messages name it.
        json: whether it is JSON: then two tellings are the same when their values are.

    Attributes:
        told: whether any telling of it came.
    """

    __slots__ = ("_begun", "_closed", "_json", "_parts", "_size", "_what", "_wholes", "told")

    def __init__(self, what: str, json: bool = False) -> None:
        self._what = what
        self._json = json
        self._parts: list[str] = []
        self._begun = ""
        self._wholes = self._size = 0
        self._closed = False
        self.told = False

    @property
    def text(self) -> str:
        """The text as it is known so far."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    @property
    def closed(self) -> bool:
        """Whether it was told whole."""
        return self._closed

    def begin(self, text: str) -> None:
        """Take what was told of it in advance. It counts when nothing else is told: often it is a placeholder."""
        self._begun = text

    def more(self, delta: str) -> str:
        """Take a delta; returns what is to be written.

        After a whole telling a delta tells nothing new; nor does a delta of JSON that repeats the whole object.
        """
        if self._closed or not delta:
            return ""
        if self._json and len(delta) == self._size and delta[0] == "{" and delta == self.text and _is_json(delta):
            return ""
        self.told = True
        self._size += len(delta)
        self._parts.append(delta)
        return delta

    def whole(self, text: str) -> str:
        """Take a telling of the whole; returns what of it was not written yet. An empty one tells nothing.

        Raises:
            ModelFailure: MALFORMED_RESPONSE when it contradicts what was told before (Q13), or comes too often (X3).
        """
        if not text:
            return ""
        self._wholes += 1
        if self._wholes > MAX_TELLINGS:
            raise too_much(f"{self._what} more than {MAX_TELLINGS} times")
        known = self.text
        self.told = self._closed = True
        if known.startswith(text):
            return ""
        missing = _rest(text, known)
        if missing is None:
            if not self._same(known, text):
                raise contradiction(f"told {self._what} in two ways that contradict each other")
            return ""
        self._parts = [text]
        self._size = len(text)
        return missing

    def tell_empty(self) -> None:
        """Take a telling that says outright that it is empty."""
        self.told = True

    def end(self) -> str:
        """Take the end of the answer; returns what was told in advance when nothing else was."""
        if self.told or not self._begun:
            return ""
        return self.more(self._begun)

    def _same(self, known: str, text: str) -> bool:
        if not self._json:
            return known.strip() == text.strip()
        return _is_json(known) and _is_json(text) and msgspec.json.decode(known) == msgspec.json.decode(text)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def _rest(text: str, known: str) -> str | None:
    """What of ``text`` follows ``known``; ``None`` when it does not begin with it.

    Two deltas may have brought the two halves of a surrogate pair, which the whole has as one character.
    """
    if text.startswith(known):
        return text[len(known) :]
    if text_is_lossless(known):
        return None
    long, short = text.encode("utf-16-le", "surrogatepass"), known.encode("utf-16-le", "surrogatepass")
    return long[len(short) :].decode("utf-16-le", "surrogatepass") if long.startswith(short) else None
