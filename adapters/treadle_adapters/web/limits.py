"""What clients may take."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, gt


@frozen
class Limits:
    """What clients may take; all of it is per application.

    Attributes:
        body: bytes of one request's body, and of one message on a socket.
        body_seconds: how long a client may take to send a body.
        requests: how many requests may be under way at once, streams left out.
        streams: how many streams may be open at once, over all tokens; a socket counts once.
        streams_per_owner: how many of them one token's owner may have open.
        watched: how many sessions one socket may watch.
        sessions_per_owner: how many sessions one token's owner may have.
        loaded: how many agents the web keeps in memory; idle ones are unloaded, and resumed when they are needed.
        gather: seconds for which deltas wait for company before a stream tells them.
        piece: bytes that a stream reads at a time, at least one event; what waits beyond stays in the log.
        output: characters of each running call's live output that are kept for whoever looks; older ones are left out.
        slow: seconds that a reader may take for a piece before it is told that it is slow.
        heartbeat: seconds of silence after which a stream says that it lives.
        wait: the longest wait for a message's fate, in seconds.
    """

    body: int = field(default=1 << 20, validator=gt(0))
    body_seconds: float = field(default=20.0, validator=gt(0))
    requests: int = field(default=256, validator=gt(0))
    streams: int = field(default=10_000, validator=gt(0))
    streams_per_owner: int = field(default=10_000, validator=gt(0))
    watched: int = field(default=256, validator=gt(0))
    sessions_per_owner: int = field(default=10_000, validator=gt(0))
    loaded: int = field(default=200, validator=gt(0))
    gather: float = field(default=0.02, validator=ge(0))
    piece: int = field(default=64 * 1024, validator=gt(0))
    output: int = field(default=64 * 1024, validator=gt(0))
    slow: float = field(default=2.0, validator=ge(0))
    heartbeat: float = field(default=15.0, validator=gt(0))
    wait: float = field(default=60.0, validator=gt(0))


DEFAULT_LIMITS = Limits()
"""The limits unless others are given."""
