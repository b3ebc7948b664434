"""What a session says now, for whoever follows it from elsewhere: the live attempt, and the calls that wait for approval.

The owner tells its followers what is new, gathered; they say again and again that they follow, and how far they are. So
what is lost on the way is told again, and a new owner learns who follows. What is in the log is told by the store.
"""

from __future__ import annotations

import base64
import math
from collections.abc import AsyncGenerator, Callable, Iterator

import msgspec
import trio
from attrs import define, field

from treadle import Host
from treadle.hooks import AGENT_DISPOSED, ASSISTANT_STREAM, AssistantStream, FrameChunk, FrameStart
from treadle.models import Chunk
from treadle.session import decode_hook, encode_hook
from treadle_adapters.approvals import Approval, Approvals

from .wires import LONGEST

FOLLOWED = 4.0
"""Seconds for which a session is told to somebody who has said that he follows it."""
GATHER = 0.03
"""Seconds in which chunks are gathered before they are told."""


class Live(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is new of a session and not in its log.

    Attributes:
        attempt: the id of the live attempt, ``None`` where there is none.
        turn, step: where it belongs.
        start: the number of the first of these chunks: 0 begins the attempt, any other goes on.
        chunks: what it says.
        approvals: all calls that wait for approval.
    """

    attempt: str | None = None
    turn: int = 0
    step: int = 0
    start: int = 0
    chunks: tuple[Chunk, ...] = ()
    approvals: tuple[Approval, ...] = ()


_ENCODER = msgspec.json.Encoder(enc_hook=encode_hook)
_DECODER: msgspec.json.Decoder[Live] = msgspec.json.Decoder(Live, dec_hook=decode_hook)


def words_of(live: Live, number: int) -> Iterator[str]:
    """It as words that a notice can hold: ``NUMBER PART PARTS BASE64``."""
    text = base64.b64encode(_ENCODER.encode(live)).decode()
    parts = math.ceil(len(text) / LONGEST)
    for part in range(parts):
        yield f"{number} {part} {parts} {text[part * LONGEST : (part + 1) * LONGEST]}"


# --- who is told ------------------------------------------------------------------------------------------------------


@define(eq=False)
class Follower:
    """One follower: puts together what it is told, and notices what is missing.

    Attributes:
        attempt, next: the attempt that it was told of, and how many chunks of it.
        missed: set while something is missing, so that it says so at once.
    """

    attempt: str | None = None
    next: int = 0
    missed: trio.Event = field(factory=trio.Event)
    _approvals: tuple[Approval, ...] = ()
    _number: str = ""
    _parts: dict[int, str] = field(factory=dict[int, str])
    _ready: list[Live] = field(factory=list[Live])
    _more: trio.Event = field(factory=trio.Event)

    def take(self, word: str) -> None:
        """Take one word of ``words_of``."""
        number, part, parts, text = word.split(" ", 3)
        if number != self._number:
            self._number, self._parts = number, {}
        self._parts[int(part)] = text
        if len(self._parts) == int(parts):
            text = "".join([self._parts[at] for at in range(int(parts))])
            self._number, self._parts = "", {}
            self._follow(_DECODER.decode(base64.b64decode(text)))

    def _follow(self, live: Live) -> None:
        known = self.next if live.attempt == self.attempt else 0
        if live.start > known:
            self.missed.set()
            return
        live = msgspec.structs.replace(live, start=known, chunks=live.chunks[known - live.start :])
        news = bool(live.chunks) or live.attempt != self.attempt or live.approvals != self._approvals
        self.attempt, self.next, self._approvals = live.attempt, known + len(live.chunks), live.approvals
        if news:
            self._ready.append(live)
            self._more.set()

    async def told(self) -> AsyncGenerator[Live]:
        """What it is told, as it comes."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            ready, self._ready = self._ready, []
            for live in ready:
                yield live


# --- who tells --------------------------------------------------------------------------------------------------------


@define(eq=False)
class _Attempt:
    id: str
    turn: int
    step: int
    chunks: list[Chunk] = field(factory=list[Chunk])


@define(eq=False)
class _Following:
    until: float
    attempt: str | None = None
    next: int = 0
    approvals: tuple[Approval, ...] | None = None


class Stage:
    """Tells followers what the sessions of this replica say.

    Args:
        approvals: the calls that wait here.
        tell: tells a channel a word.
    """

    def __init__(self, approvals: Approvals, tell: Callable[[str, str], None]) -> None:
        self._approvals = approvals
        self._tell = tell
        self._attempts: dict[str, _Attempt] = {}
        self._followers: dict[str, dict[str, _Following]] = {}
        self._changed: set[str] = set()
        self._more = trio.Event()
        self._number = 0

    def attach(self, host: Host) -> None:
        """Listen to the agents of a host."""
        host.on(ASSISTANT_STREAM, self._frame)
        host.on(AGENT_DISPOSED, lambda told: self._over(told.agent.id))

    def _frame(self, told: AssistantStream) -> None:
        frame, session = told.frame, told.agent.id
        if isinstance(frame, FrameChunk):
            attempt = self._attempts.get(session)
            if attempt is not None and attempt.id == frame.attempt_id:
                attempt.chunks.append(frame.chunk)
        elif isinstance(frame, FrameStart):
            self._attempts[session] = _Attempt(frame.attempt_id, frame.turn, frame.step)
        else:
            self._attempts.pop(session, None)
        self.changed(session)

    def _over(self, session: str) -> None:
        self._attempts.pop(session, None)
        self.changed(session)

    def changed(self, session: str) -> None:
        """There is something new of a session."""
        if session in self._followers:
            self._changed.add(session)
            self._more.set()

    def follow(self, session: str, channel: str, attempt: str | None, known: int) -> None:
        """Somebody says that he follows a session, and what he was told of it."""
        self._followers.setdefault(session, {})[channel] = _Following(trio.current_time() + FOLLOWED, attempt, known)
        self._changed.add(session)
        self._more.set()

    async def run(self) -> None:
        """Tell, until cancelled."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            changed, self._changed = self._changed, set()
            for session in changed:
                self._tell_of(session)
            await trio.sleep(GATHER)

    def _tell_of(self, session: str) -> None:
        attempt, pending = self._attempts.get(session), self._approvals.pending(session)
        followers = self._followers.get(session, {})
        for channel, following in list(followers.items()):
            if trio.current_time() > following.until:
                del followers[channel]
            elif (live := _news(attempt, pending, following)) is not None:
                self._number += 1
                for word in words_of(live, self._number):
                    self._tell(channel, f"live {session} {word}")
        if not followers:
            self._followers.pop(session, None)


def _news(attempt: _Attempt | None, pending: tuple[Approval, ...], following: _Following) -> Live | None:
    """What a follower does not know, ``None`` for nothing; it knows it from now on."""
    if attempt is None:
        live = Live(approvals=pending)
    else:
        start = following.next if following.attempt == attempt.id else 0
        live = Live(attempt.id, attempt.turn, attempt.step, start, tuple(attempt.chunks[start:]), pending)
    if live.attempt == following.attempt and not live.chunks and pending == following.approvals:
        return None
    following.attempt, following.next, following.approvals = live.attempt, live.start + len(live.chunks), pending
    return live
