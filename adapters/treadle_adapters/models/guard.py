"""Keeps a server that echoes secrets from getting them into an answer (X1)."""

from __future__ import annotations

import msgspec

from treadle.models import ArgumentsDelta, BlockEnd, BlockStart, Chunk, Finished, ReasoningDelta, TextDelta

from ..http.redaction import Secrets, Stream

_DELTAS = (TextDelta, ReasoningDelta, ArgumentsDelta)
_Delta = TextDelta | ReasoningDelta | ArgumentsDelta


class Guard:
    """Hides secrets in the chunks of one attempt, also where deltas cut them into pieces.

    Args:
        secrets: what is to be hidden; without any, chunks pass as they are.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._streams: dict[int, tuple[type[_Delta], Stream]] = {}

    def passed(self, chunks: list[Chunk]) -> list[Chunk]:
        """The chunks that may go on now."""
        if not self._secrets:
            return chunks
        out: list[Chunk] = []
        for chunk in chunks:
            if isinstance(chunk, _DELTAS):
                self._delta(chunk, out)
            else:
                out += self._other(chunk)
        return out

    def rest(self) -> list[Chunk]:
        """What is held back when the answer is cut off."""
        return [chunk for index in list(self._streams) for chunk in self._ended(index)]

    def _delta(self, chunk: _Delta, out: list[Chunk]) -> None:
        found = self._streams.get(chunk.index)
        if found is None:
            found = self._streams[chunk.index] = (type(chunk), Stream(self._secrets))
        text = found[1].feed(chunk.text)
        if text == chunk.text:
            out.append(chunk)
        elif text:
            out.append(found[0](chunk.index, text))

    def _ended(self, index: int) -> list[Chunk]:
        make, stream = self._streams.pop(index, (TextDelta, None))
        text = stream.end() if stream is not None else ""
        return [make(index, text)] if text else []

    def _other(self, chunk: Chunk) -> list[Chunk]:
        hide = self._secrets
        match chunk:
            case BlockStart() if chunk.call_id or chunk.name:
                call_id, name = hide.hide_whole(chunk.call_id or ""), hide.hide_whole(chunk.name or "")
                return [msgspec.structs.replace(chunk, call_id=call_id, name=name)]
            case BlockEnd():
                return [*self._ended(chunk.index), BlockEnd(chunk.index, hide.hide_inside(chunk.replay))]
            case Finished():
                finish = msgspec.structs.replace(chunk.finish, kind=hide.hide_whole(chunk.finish.kind))
                return [Finished(finish, hide.hide_inside(chunk.replay))]
            case _:
                return [chunk]
