"""Secrets that a server echoes reach neither a log nor a screen (X1).

Covered are a secret as it is, in base64 and its URL form at any offset, percent-encoded and in hexadecimal, also where
white space was put between its characters, and where it is cut into pieces that follow each other. A secret that was
changed in another way, or spread over different blocks of an answer, is not recognised.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, cast
from urllib.parse import quote

HIDDEN = "[hidden]"
"""Stands where a secret stood."""

SHORTEST_SECRET = 6
"""Shorter values are not hidden in texts: they would black out ordinary words."""

SHORTEST_IN_ANSWERS = 8
"""Shorter values are not hidden in answers, nor are those of fewer than 12 characters without a digit: local servers
are often given a plain word for a key."""

LEAST_HELD = 4
"""How many characters must look like the beginning of a secret before they are held back."""

CONTEXT = 8
"""How many characters that are out already are remembered: a secret may have begun in them."""

LONG_TEXT = 1_000_000
"""In longer texts a secret with white space between its characters is not looked for."""

LONGEST_HELD = 8_192
"""How many characters are held back at most; a secret stretched further by white space is not recognised (X3)."""

_ESCAPE = re.compile("%[0-9A-F]{2}")


class Secrets:
    """Finds secrets in texts, in every form that is covered.

    Args:
        values: the secrets.
        shortest: shorter ones are left out.
    """

    def __init__(self, values: Iterable[str], shortest: int = SHORTEST_SECRET) -> None:
        forms = {form for value in values if len(value) >= shortest for form in _forms(value) if len(form) >= shortest}
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._beginnings = {form[:length]: len(form) for form in self._forms for length in range(LEAST_HELD, len(form))}
        self._pieces = {form[at : at + LEAST_HELD] for form in forms for at in range(len(form) - LEAST_HELD)}
        self._longest = max(map(len, forms), default=0)
        shortest_form = min(map(len, forms), default=0)
        self.least = shortest_form - LEAST_HELD
        self._starts = {form[:shortest_form] for form in forms}

    def __bool__(self) -> bool:
        return bool(self._forms)

    def hide(self, text: str) -> str:
        """Replace every secret in ``text``, also one that the text's end cuts off."""
        hidden = self.hide_whole(text)
        start = self.beginning(hidden.rstrip("…"))
        return hidden if start is None else hidden[:start] + HIDDEN

    def hide_whole(self, text: str) -> str:
        """Replace every whole secret in ``text``."""
        squeezed = _squeezed(text)
        if not self._stands_in(squeezed):
            return text
        if len(text) > LONG_TEXT:
            for form in self._forms:
                text = text.replace(form, HIDDEN)
            return text
        places = [at for at, character in enumerate(text) if not (character.isspace() or character == "\\")]
        out: list[str] = []
        done = at = 0
        for start, end in sorted([found for form in self._forms for found in _occurrences(form, squeezed)]):
            if start >= at:
                out += [text[done : places[start]], HIDDEN]
            if end > at:
                done, at = places[end - 1] + 1, end
        return "".join([*out, text[done:]])

    def _stands_in(self, squeezed: str) -> bool:
        """Whether a form stands in a text: each is looked for, or each place is looked at, whichever are fewer."""
        if len(self._forms) < len(squeezed):
            return any([form in squeezed for form in self._forms])
        length = self.least + LEAST_HELD
        starts = [squeezed[at : at + length] for at in range(len(squeezed) - length + 1)] if self._forms else []
        return not self._starts.isdisjoint(starts) and any([form in squeezed for form in self._forms])

    def hide_inside(self, value: Any) -> Any:
        """Replace every whole secret in the texts of a JSON value."""
        if isinstance(value, str):
            return self.hide_whole(value)
        if isinstance(value, dict):
            return {key: self.hide_inside(inner) for key, inner in cast("dict[Any, Any]", value).items()}
        if isinstance(value, list):
            return [self.hide_inside(inner) for inner in cast("list[Any]", value)]
        return value

    def beginning(self, text: str) -> int | None:
        """Where the end of ``text`` begins to look like a secret; ``None`` when it does not."""
        tail = _squeezed(text)[-self._longest :] if self._forms else ""
        if tail[-LEAST_HELD:] not in self._pieces:
            return None
        for at in range(len(tail) - LEAST_HELD + 1):
            if tail[at:] in self._beginnings:
                return _counted_back(text, len(tail) - at)
        return None

    def is_mostly_told(self, text: str) -> bool:
        """Whether ``text`` is more than half of a secret."""
        squeezed = _squeezed(text)
        return len(squeezed) * 2 > self._beginnings.get(squeezed, len(squeezed) * 2)


@lru_cache(maxsize=64)
def secrets_of(values: tuple[str, ...], shortest: int = SHORTEST_SECRET) -> Secrets:
    """``Secrets``, made once for the same values."""
    return Secrets(values, shortest)


def redact(text: str, values: Iterable[str]) -> str:
    """Replace every secret in ``text``, also one that the text's end cuts off (X1)."""
    return secrets_of(tuple(values)).hide(text)


class Stream:
    """Hides secrets in one text that comes in pieces.

    What looks like the beginning of a secret is held back until it is known to be one or not. A piece that began
    before it looked like one is out already: that may be the first ``LEAST_HELD - 1`` characters, not more.
    """

    __slots__ = ("_context", "_held", "_secrets")

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = ""
        self._context = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; returns what may be shown now."""
        secrets, context = self._secrets, self._context
        text = context + self._held + piece
        hidden = secrets.hide_whole(text) if self._held or len(piece) > secrets.least else text
        if hidden != text:
            # What is out already cannot be taken back: the rest of that secret is hidden.
            shared = 0
            while shared < len(context) and shared < len(hidden) and hidden[shared] == context[shared]:
                shared += 1
            text, context = hidden, hidden[:shared]
        start = secrets.beginning(text)
        start = len(text) if start is None else max(start, len(context))
        if len(text) - start > LONGEST_HELD:
            start = len(text)
        self._held = text[start:]
        out = text[len(context) : start]
        self._context = (context + out)[-CONTEXT:]
        return out

    def end(self) -> str:
        """Take the end; returns what was held back, hidden if it is most of a secret."""
        held, self._held = self._held, ""
        if held and self._secrets.is_mostly_told(self._context_of(held) + held):
            return HIDDEN
        return held

    def _context_of(self, held: str) -> str:
        """As much of what is out already as belongs to the beginning that is held back."""
        text = self._context + held
        start = self._secrets.beginning(text)
        return "" if start is None or start >= len(self._context) else self._context[start:]


def _forms(secret: str) -> set[str]:
    """A secret as it may be written."""
    data = secret.encode()
    quoted = quote(secret, safe="")
    forms = {secret, quoted, _ESCAPE.sub(lambda found: found.group().lower(), quoted), data.hex(), data.hex().upper()}
    forms.add("".join([f"%{byte:02X}" for byte in data]))
    for offset in range(3):
        # The characters that also depend on what stands before and after the secret are left out.
        encoded = base64.b64encode(b"\0" * offset + data).decode().rstrip("=")
        first = 0 if offset == 0 else offset + 1
        last = (offset + len(data)) * 8 // 6
        forms |= {encoded[first:last], encoded[first:last].replace("+", "-").replace("/", "_")}
    return forms


def _squeezed(text: str) -> str:
    return "".join(text.split()).replace("\\", "")


def _occurrences(form: str, text: str) -> Iterator[tuple[int, int]]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + len(form))


def _counted_back(text: str, count: int) -> int:
    """Where the last ``count`` characters of ``text`` begin, white space and backslashes left out."""
    at = len(text)
    while count:
        at -= 1
        count -= not (text[at].isspace() or text[at] == "\\")
    return at
