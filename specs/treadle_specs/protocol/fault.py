"""How a fault of a rig is told: not of the driver behind it, of which nothing can be said then."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]
SHOWN = 300
"""So many characters of a request or a reply are shown."""


class RigFault(Exception):
    """A rig does not keep to the protocol.

    Attributes:
        what: what is wrong, in one sentence.
        says: what the protocol says of it.
        request: the request that was being answered, if there was one.
        reply: what came instead of an answer, shortened.
        stderr: the last lines that the rig wrote there.
    """

    def __init__(
        self, what: str, says: str, *, request: Json | None = None, reply: str = "", stderr: tuple[str, ...] = ()
    ) -> None:
        super().__init__(what)
        self.what, self.says, self.request, self.reply, self.stderr = what, says, request, reply, stderr

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.what, self.says, self.request, self.reply, self.stderr)

    def __str__(self) -> str:
        lines = [self.what]
        if self.request is not None:
            lines.append(f"  request: {shown(json.dumps(self.request, ensure_ascii=False))}")
        lines += [f"  reply: {self.reply}"] if self.reply else []
        lines.append(f"  protocol: {self.says}")
        lines += [f"  stderr: {line}" for line in self.stderr]
        return "\n".join(lines)

    @property
    def short(self) -> str:
        """In one line."""
        verb = f"{self.request.get('do')}: " if self.request is not None else ""
        return f"{verb}{self.what} (the protocol: {self.says})"


def _remade(what: str, says: str, request: Json | None, reply: str, stderr: tuple[str, ...]) -> RigFault:
    return RigFault(what, says, request=request, reply=reply, stderr=stderr)


def shown(text: str) -> str:
    """A text as one line that can be printed anywhere, shortened."""
    line = "".join([one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text[: SHOWN + 1]])
    return line if len(line) <= SHOWN else line[:SHOWN] + "…"
