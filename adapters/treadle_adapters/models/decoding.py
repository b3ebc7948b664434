"""From a response's bytes to chunks, without input or output: what every protocol has in common (Q5, X3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, cast

from treadle import Failure, ModelFailure
from treadle.models import DEFAULT_BOUNDS, AnswerBounds, Chunk, Code, Finish, Finished

from ..http.failures import SHOWN, beginning, failure_of_error
from ..http.sse import EventReader
from .shapes import NotJson, is_base_error, json_or_none
from .writer import ChunkWriter

READ = 256
"""What one read counts beside its bytes: a body that comes in a million pieces costs as much work as a large one."""

LINE = 64
"""What one line of a stream counts beside its bytes."""

_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"


class Decoder(ABC):
    """Reads the events of one attempt in one protocol and writes its chunks.

    Attributes:
        write: takes the chunks.
        finish: why the answer ended, once the provider has said so.
        replay: private data for the whole message (Q10).
        done: the protocol's last event came; nothing after it counts.
        failure: the provider reported an error.
    """

    def __init__(self) -> None:
        self.write = ChunkWriter()
        self.finish: Finish | None = None
        self.replay: Any = None
        self.done = False
        self.failure: Failure | None = None

    @abstractmethod
    def event(self, event: str, data: str) -> None:
        """Take one event.

        Raises:
            ModelFailure: it cannot be read, or goes beyond a bound.
        """

    @abstractmethod
    def document(self, body: dict[str, Any]) -> None:
        """Take a whole answer that was not streamed; leaves ``finish`` unset when it is none."""

    def report(self, error: Any) -> None:
        """Note an error that the provider reports inside a stream."""
        self.failure = failure_of_error(error)

    def refuse_empty(self) -> None:
        """Refuse an answer in which nothing came at all.

        Raises:
            ModelFailure: EMPTY_RESPONSE.
        """
        if not self.write.visible:
            raise ModelFailure(Failure("the provider sent an empty answer", Code.EMPTY_RESPONSE.value))

    def settle(self) -> None:
        """Write what ends a complete answer: the ends of blocks, the usage, the finish (Q5).

        Raises:
            ModelFailure: the answer is complete but unusable.
        """
        assert self.finish is not None
        self.write.end_blocks()
        self.write.report_usage()
        self.write.out.append(Finished(self.finish, self.replay))


class Reply:
    """The body of one successful response, fed as it arrives.

    A body that is no event stream is read whole: JSON may be an error or an answer, anything else is a failure that
    shows its beginning. What it is, is told by its first character: the content type of proxies is not to be trusted.

    Attributes:
        failure: why the attempt failed; nothing more is read then.

    Args:
        decoder: reads the events.
        bounds: what the answer may be; no event and no document is longer than its ``bytes`` (X3).
        names: the tools' own names by those that the provider knows them by, where the two differ.
    """

    def __init__(
        self, decoder: Decoder, bounds: AnswerBounds = DEFAULT_BOUNDS, names: Mapping[str, str] | None = None
    ) -> None:
        self._decoder = decoder
        decoder.write.names = names or {}
        decoder.write.bounds = self._bounds = bounds
        self._reader = EventReader(bounds.bytes)
        self._mode = ""
        self._head = b""
        self._document: list[bytes] = []
        self._size = 0
        self.failure: ModelFailure | None = None

    @property
    def done(self) -> bool:
        """Whether the answer is over, one way or the other."""
        return self._decoder.done or self.failure is not None

    @property
    def finished(self) -> bool:
        """Whether the provider said why the answer ended; only its usage may still come."""
        return self._decoder.finish is not None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        self._size += len(data) + READ
        try:
            if self._size > self._bounds.wire:
                raise self._bounds.too_large(f"more than {self._bounds.wire} bytes came for it")
            if self._mode == "events":
                self._events(data)
            elif self._mode == "document":
                self._collect(data)
            else:
                self._begin(data)
        except ModelFailure as error:
            self.failure = error

    def take(self) -> list[Chunk]:
        """The chunks written since the last call."""
        out = self._decoder.write.out
        self._decoder.write.out = []
        return out

    def close(self, error: ModelFailure | None = None) -> None:
        """Take the end of the body; ``failure`` says afterwards whether the attempt failed.

        Args:
            error: why reading ended, if it was not the body's end. An answer that has its finish is whole all the same.
        """
        if self.failure is None:
            try:
                self._rest()
                if self._decoder.finish is not None:
                    self._decoder.settle()
                else:
                    self.failure = self._cut_off(error)
            except ModelFailure as problem:
                self.failure = problem
        self._decoder.write.report_usage()

    def _begin(self, data: bytes) -> None:
        self._head += data
        head = self._head.removeprefix(_BOM).lstrip(_BLANKS)
        if not head:  # of blanks only the last counts: whether a line begins after it
            self._head = self._head[-1:] if self._head[-1:] in _BLANKS else self._head
        if not head or _BOM.startswith(head):
            if self._size > self._bounds.bytes:
                raise self._bounds.too_large("it begins with blanks only")
            return
        self._mode = "document" if head[:1] in b"{[<" else "events"
        body, self._head = self._head, head[: SHOWN * 8]
        if self._mode == "events":
            self._events(body)
        else:
            self._collect(body)

    def _events(self, data: bytes) -> None:
        decoder = self._decoder
        events = self._reader.feed(data)
        self._size += LINE * self._reader.lines
        for event in events:
            decoder.event(event.event, event.data)
            if decoder.failure is not None:
                raise ModelFailure(decoder.failure)
            if decoder.done:
                return

    def _collect(self, data: bytes) -> None:
        if self._size > self._bounds.bytes:
            text = f"a body of more than {self._bounds.bytes} bytes that is no stream: {beginning(self._head)}"
            raise self._bounds.too_large(text)
        self._document.append(data)

    def _rest(self) -> None:
        """What is left at the end of the body. An event cut off in the middle is as good as not sent."""
        if self._decoder.done:
            return
        if self._mode == "document":
            self._whole(b"".join(self._document).removeprefix(_BOM))
            return
        for event in self._reader.close():
            try:
                self._decoder.event(event.event, event.data)
            except NotJson:
                return
            if self._decoder.failure is not None:
                raise ModelFailure(self._decoder.failure)

    def _whole(self, body: bytes) -> None:
        parsed = json_or_none(body)
        if isinstance(parsed, dict):
            answer = cast("dict[str, Any]", parsed)
            if not answer.get("error") and not is_base_error(answer):
                self._decoder.document(answer)
            if self._decoder.finish is not None:
                return
            if answer.get("error") or is_base_error(answer) or answer.keys() & {"message", "detail"}:
                raise ModelFailure(failure_of_error(answer))
        text = f"the provider answered with something else than a stream of events: {beginning(body)}"
        raise ModelFailure(Failure(text, Code.MALFORMED_RESPONSE.value))

    def _cut_off(self, error: ModelFailure | None) -> ModelFailure:
        """The failure of an answer without a finish. Only one that showed nothing yet is safe to try again (Q6)."""
        if error is not None and (error.failure.code != Code.TRANSPORT.value or not self._decoder.write.visible):
            return error
        why = f" ({error.failure.message})" if error is not None else ""
        if self._decoder.write.visible:
            text = f"the stream was cut off before the answer was finished{why}"
            return ModelFailure(Failure(text, Code.STREAM_CLOSED.value))
        began = f"; it began: {beginning(self._head)}" if self._head else ""
        text = f"the stream ended without an answer and without a finish{began}"
        return ModelFailure(Failure(text, Code.EMPTY_RESPONSE.value))
