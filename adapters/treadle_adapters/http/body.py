"""The body of one response, unpacked in small pieces, so that no body is larger in memory than what was asked for (X3).

httpx unpacks a whole read at once, and a read of 64 KB may unpack to gigabytes. Here the decompressor stops after each
piece. Only gzip and deflate are asked for: both can be stopped.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, cast

import httpx
import trio

from treadle import Failure, ModelFailure
from treadle.models import Code

ACCEPT_ENCODING = "gzip, deflate"
"""What requests say under ``Accept-Encoding``."""

PIECE = 16 * 1024
"""Bytes that are handed over at once, at most; what they hold is worked off without a pause."""

PAUSE_EVERY = 32 * 1024
"""Bytes after which other tasks get their turn, however the bytes came; a read counts as 1 KB beside them."""

_READ = 1024
_ZLIB = zlib.MAX_WBITS
_GZIP = zlib.MAX_WBITS | 16
_RAW_DEFLATE = -zlib.MAX_WBITS


class Body:
    """Reads a response that was opened with ``stream=True``.

    Args:
        response: whose body it is; its own reading methods must not be used beside this one.
        release: awaited at the end, once the connection is free.
    """

    __slots__ = ("_given", "_pieces", "_raw", "_release", "_unpack", "response")

    def __init__(self, response: httpx.Response, release: Callable[[], Awaitable[None]] | None = None) -> None:
        self.response = response
        self._release = release
        # A transport of the user's own may hand over a response that is read and unpacked already.
        whole = response.is_stream_consumed
        self._raw = _held(response) if whole else cast("AsyncGenerator[bytes]", response.aiter_raw())
        self._pieces: Iterator[bytes] = iter(())
        self._given = 0
        self._unpack = _Unpacker("" if whole else response.headers.get("content-encoding", ""))

    async def read(self) -> bytes:
        """The next piece; empty at the end.

        Raises:
            ModelFailure: MALFORMED_RESPONSE when the body is packed in a way that was not asked for, or damaged.
        """
        if self._given >= PAUSE_EVERY:
            self._given = 0
            await trio.lowlevel.checkpoint()
        while True:
            piece = next(self._pieces, b"")
            if piece:
                self._given += len(piece) + _READ
                return piece
            data = await anext(self._raw, b"")
            if not data or self._unpack.ended:
                return b""
            self._pieces = self._unpack.pieces(data)

    async def skip(self) -> None:
        """Read on to the end of the body, and drop it packed as it is."""
        while await anext(self._raw, b""):
            pass

    async def aclose(self) -> None:
        """Close the response, also when cancelled, and at once.

        A read under a cancelled scope unwinds the generators inside httpx in the order in which they were entered; left
        to themselves they would be found by the garbage collector.
        """
        with trio.CancelScope(shield=True):
            with trio.CancelScope() as scope:
                scope.cancel()
                try:
                    for _ in range(64):
                        if not await anext(self._raw, b""):
                            break
                except (httpx.HTTPError, httpx.StreamError, OSError):
                    pass
            await self._raw.aclose()
            await self.response.aclose()
            if self._release is not None:
                release, self._release = self._release, None
                await release()


async def _held(response: httpx.Response) -> AsyncGenerator[bytes]:
    yield response.content


class _Unpacker:
    """Undoes one content coding, a piece at a time.

    Attributes:
        ended: the packed data is complete; what follows it is junk.
    """

    __slots__ = ("_coding", "_head", "_inflate", "ended")

    def __init__(self, header: str) -> None:
        named = [name.strip().lower() for name in header.split(",")]
        codings = [name for name in named if name not in ("", "identity")]
        self._coding = codings[0].removeprefix("x-") if len(codings) == 1 else ", ".join(codings)[:100]
        self._head = b""
        self._inflate: Any = None
        self.ended = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The pieces that ``data`` unpacks to, made as they are asked for."""
        if not self._coding:
            return iter((data,)) if len(data) <= PIECE else _slices(data)
        if self._coding not in ("gzip", "deflate"):
            text = f"the provider packed its answer as {self._coding!r}, which was not asked for"
            raise ModelFailure(Failure(text, Code.MALFORMED_RESPONSE.value))
        return self._inflated(data)

    def _inflated(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            self._head += data
            if len(self._head) < 2:
                return
            data = self._head
            self._inflate = zlib.decompressobj(_GZIP if self._coding == "gzip" else _deflate_of(data))
        while data and not self.ended:
            try:
                piece = self._inflate.decompress(data, PIECE)
            except zlib.error as error:
                text = f"the provider's packed answer is damaged: {error}"
                raise ModelFailure(Failure(text, Code.MALFORMED_RESPONSE.value)) from error
            self.ended, data = self._inflate.eof, self._inflate.unconsumed_tail
            if piece:
                yield piece


def _deflate_of(head: bytes) -> int:
    """Whether deflate came in its wrapping: some servers leave it out."""
    return _ZLIB if head[0] & 15 == 8 and int.from_bytes(head[:2]) % 31 == 0 else _RAW_DEFLATE


def _slices(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]
