r"""Server-sent events from the bytes of a response.

httpx-sse reads the lines of an event; this module cuts them: at ``\n``, ``\r\n`` and ``\r`` only, on bytes, so that
Unicode separators inside an event and characters split between reads do no harm.
"""

from __future__ import annotations

from httpx_sse import ServerSentEvent

# Its reader of lines is not exported; the public one pulls from a response and cuts lines in its own way.
from httpx_sse._decoders import SSEDecoder  # pyright: ignore[reportPrivateUsage]

from treadle.models import DEFAULT_BOUNDS, Code, exceeded

MAX_EVENT_BYTES = DEFAULT_BOUNDS.bytes
"""How long one event may be (X3)."""

_BOM = b"\xef\xbb\xbf"


class EventReader:
    """Reads one stream, in pieces cut anywhere. Work is linear in the bytes, however they are cut (X3).

    Attributes:
        lines: how many lines the last piece completed.
    """

    __slots__ = ("_after_cr", "_decoder", "_head", "_limit", "_rest", "_size", "lines")

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._decoder = SSEDecoder()
        self._limit = limit
        self._head: bytes | None = b""
        self._rest: list[bytes] = []
        self._after_cr = False
        self._size = 0
        self.lines = 0

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take the next bytes; returns the events they complete, those without data left out.

        Raises:
            ModelFailure: MALFORMED_RESPONSE when one event is longer than the limit (X3).
        """
        if self._head is not None:
            data = self._strip_bom(data)
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._size += len(data)
        end = data.rfind(b"\n")
        if end < 0:
            if data:
                self._rest.append(data)
            self.lines = 0
            self._check()
            return []
        self._rest.append(data[:end])
        lines = b"".join(self._rest).decode("utf-8", "replace").split("\n")
        self._rest = [data[end + 1 :]]
        self.lines = len(lines)
        return self._events(lines)

    def close(self) -> list[ServerSentEvent]:
        """Take the end of the stream: what lies after the last line's end counts as a line, and as an event."""
        rest = (self._head or b"") + b"".join(self._rest)
        self._head, self._rest = None, []
        return self._events([*rest.decode("utf-8", "replace").split("\n"), ""])

    def _strip_bom(self, data: bytes) -> bytes:
        data = (self._head or b"") + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._head = data
            return b""
        self._head = None
        return data.removeprefix(_BOM)

    def _events(self, lines: list[str]) -> list[ServerSentEvent]:
        decode = self._decoder.decode
        found = [event for event in map(decode, lines) if event is not None and event.data]
        if found:
            self._size = len(self._rest[-1]) if self._rest else 0
        self._check()
        return found

    def _check(self) -> None:
        if self._size > self._limit:
            text = f"one event of the stream is longer than {self._limit} bytes"
            raise exceeded(text, "max_answer_bytes", Code.MALFORMED_RESPONSE)
