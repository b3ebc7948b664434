"""What must not be served to anybody: the server's own tokens, and the keys of its models, wherever they turn up (X1).

Events and live frames are redacted as they are told, also where a secret is cut over deltas; every other body as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from treadle import Host
from treadle.session import Event, encode_event

from ..http.redaction import SHORTEST_IN_ANSWERS, Secrets, Stream, secrets_of
from ..models.guard import Guard


class Redaction:
    """Hides secrets in whatever is served. To be used from any thread.

    Args:
        own: the secrets of the application itself.
        host: whose models' secrets are hidden: of each adapter that has a method ``secrets``.
    """

    def __init__(self, own: Iterable[str], host: Host) -> None:
        self._own = tuple(own)
        self._host = host
        self._secrets: Secrets = secrets_of(self._own, SHORTEST_IN_ANSWERS)

    def refresh(self) -> None:
        """Ask the models anew what their secrets are, as keys are read from the environment when they are needed."""
        models = self._host.models
        adapters = [models.route(provider) for provider in models.providers]
        told: list[Callable[[], Iterable[str]]] = [one.secrets for one in adapters if hasattr(one, "secrets")]  # type: ignore[union-attr]  # not every adapter has secrets
        found = (*self._own, *[secret for ask in told for secret in ask()])
        self._secrets = secrets_of(found, SHORTEST_IN_ANSWERS)

    def guard(self) -> Guard:
        """What the chunks of one attempt pass through."""
        return Guard(self._secrets)

    def text(self) -> Stream:
        """What a text that comes in parts passes through."""
        return Stream(self._secrets)

    def body(self, data: bytes) -> bytes:
        """A body, or another piece of JSON, without secrets."""
        text = data.decode("latin-1")  # secrets are ASCII; the rest comes out as it went in
        hidden = self._secrets.hide_whole(text)
        return data if hidden is text else hidden.encode("latin-1")

    def event(self, entry: Event) -> bytes:
        """An event as JSON, without secrets."""
        data, secrets = encode_event(entry), self._secrets
        stream = getattr(entry.data, "stream", None)
        if not self._suspects(data.decode("latin-1")) and not (stream is not None and self._suspects(_joined(stream))):
            return data
        value: Any = msgspec.json.decode(data)
        segments = value["data"].get("stream", {}).pop("segments", None)
        value = secrets.hide_inside(value)
        if segments is not None:
            value["data"]["stream"]["segments"] = _redacted(segments, secrets)
        return self.body(msgspec.json.encode(value))

    def _suspects(self, text: str) -> bool:
        """Whether a secret stands in a text of JSON, also one that is broken over lines."""
        for broken in ("\\n", "\\r", "\\t"):
            text = text.replace(broken, " ")
        return self._secrets.hide_whole(text) is not text


def _joined(stream: Any) -> str:
    """The texts of a recorded stream, each block's deltas as one."""
    blocks: dict[int, list[str]] = {}
    for segment in stream.segments:
        blocks.setdefault(segment.index or 0, []).extend(segment.texts)
    return "\n\n".join(["".join(texts) for texts in blocks.values()])


def _redacted(segments: list[Any], secrets: Secrets) -> list[Any]:
    """The segments of a recorded stream, redacted delta by delta, as they are told live."""
    open_blocks: dict[int, tuple[Stream, list[str]]] = {}

    def end(index: int) -> None:
        stream, last = open_blocks.pop(index)
        last[-1] += stream.end()

    out: list[Any] = []
    for segment in segments:
        index = segment.get("index", 0)
        if "delta" not in segment:
            index = segment["chunk"].get("index")
            if index in open_blocks:
                end(index)
            out.append(secrets.hide_inside(segment))
            continue
        stream = open_blocks[index][0] if index in open_blocks else Stream(secrets)
        texts = [stream.feed(text) for text in segment["texts"]]
        open_blocks[index] = (stream, texts)
        out.append({**segment, "texts": texts})
    for index in list(open_blocks):
        end(index)
    return out
