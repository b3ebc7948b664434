"""One session in one life of its process: the recorded events, and beside them the live ones of today's code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from treadle import Agent, AgentHandle, Event, Failure, ModelRequest, Session
from treadle.loop.retry import delay_of
from treadle.models import AgentSource, RetryPolicy, UserSource
from treadle.session import AssistantAttempt, AssistantMessageAdded, ToolResultAdded

from .comparison import Pairing
from .differences import Difference, Request, differs, missing, more, recorded_request
from .outside import Stop, comes_as_the_turn_ends, cut_short, is_insertion, stops_of
from .plays import Body, Play, Question, failure_to_raise, timed_chunks
from .recording import Life, Recording


@define(eq=False)
class Track:
    """A recorded session, its live counterpart, and how far the two go together.

    Attributes:
        recording: what was recorded.
        life: the part of it that is rehearsed.
        stops: the cancels in it.
        handle: the live agent, once it was made.
        seen: how many live events were compared; as long as nothing differs, the recorded event of that number is due.
        due: the number of the recorded event that is due.
        difference: the first one.
        policy: today's retry policy of the model that was asked last.
        request: the first request after the difference, and the recorded one.
        followed: how many live events were followed behind the difference.
        paired: how many identities had a counterpart before the difference.
        asks_more: an answer is asked for that was not recorded.
        kept: the live events, once the life is over.
        held: lets a wake go on that waits for something which the log does not tell.
    """

    recording: Recording
    life: Life
    stops: list[Stop] = field(factory=list[Stop])
    handle: AgentHandle | None = None
    pairing: Pairing = field(factory=Pairing)
    seen: int = 0
    due: int = 0
    difference: Difference | None = None
    policy: RetryPolicy | None = None
    request: tuple[Request, Request | None] | None = None
    followed: int = 0
    paired: int = 0
    asks_more: bool = False
    kept: list[Event] = field(factory=list[Event])
    held: Callable[[], None] | None = None
    plays: list[Play] = field(factory=list[Play])
    bodies: list[Body] = field(factory=list[Body])
    questions: list[Question] = field(factory=list[Question])
    performed: set[int] = field(factory=set[int])
    _attempts: list[int] = field(factory=list[int])
    _results: dict[str, Event] = field(factory=dict[str, Event])

    def __attrs_post_init__(self) -> None:
        life, events = self.life, self.recording.events
        self.stops = self.stops or stops_of(events, life)
        self.due = life.start
        lived = events[life.start : life.end]
        self._results = {one.data.call_id: one for one in lived if type(one.data) is ToolResultAdded}
        self._attempts = [
            seq for seq in range(life.start, life.end)
            if type(events[seq].data) in (AssistantMessageAdded, AssistantAttempt)
        ]  # fmt: skip
        self._attempts.reverse()

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent:
        """The live agent."""
        assert self.handle is not None
        return self.handle.agent

    @property
    def session(self) -> Session:
        """The live session."""
        return self.agent.session

    @property
    def entry(self) -> Event | None:
        """The recorded event that is due; ``None`` at the end of the life."""
        return self.recording.events[self.due] if self.due < self.life.end else None

    @property
    def cancelling(self) -> bool:
        """Whether the live agent's activity is being cancelled."""
        return self.agent.engine.kernel.cause is not None

    @property
    def play(self) -> Play | None:
        """The attempt under way."""
        return next((play for play in self.plays if not play.over), None)

    def body_of(self, call_id: str, name: str | None = None) -> Body | None:
        """The body under way of a recorded call; with a name, any of that tool's where the call has no counterpart."""
        running = [body for body in self.bodies if not body.over and body.result is None]
        live = self.pairing.live_name(call_id)
        found = next((body for body in running if body.run.call.call_id in (live, call_id)), None)
        if found is None and self.difference is not None:
            found = next((body for body in running if name in (None, body.tool.name)), None)
        return found

    def result_of(self, live_call_id: str) -> Event | None:
        """The recorded result of a live call; ``None`` when there is none in this life."""
        place = self.pairing.live.known.get(live_call_id)
        order = self.pairing.recorded.order
        recorded = order[place] if place is not None and place < len(order) else live_call_id
        return self._results.get(recorded)

    # --- side by side -------------------------------------------------------------------------------------------------

    def attach(self, handle: AgentHandle) -> None:
        """The live agent was made; what it inherited is what was recorded."""
        self.handle = handle
        for entry in self.recording.events[: self.life.start]:
            self.pairing.recorded.told(entry)
        for entry in list(handle.agent.session.events)[: self.life.start]:
            self.pairing.live.told(entry)
        self.seen = self.life.start

    def look(self) -> None:
        """Compare the live events that are new, up to the first that differs."""
        live = self.session.events
        while self.difference is None and self.seen < len(live):
            fresh, recorded = live[self.seen], self.entry
            self.paired = len(self.pairing.live.order)
            if recorded is None:
                if not self.life.killed:
                    self.difference = more(fresh, self.recording)
                return
            if not self.pairing.same(recorded, fresh, self.delays):
                self.difference = differs(recorded, fresh, self.recording)
                break
            self.seen += 1
            self.due += 1
        self._follow(live)

    def _follow(self, live: Sequence[Event]) -> None:
        """Behind a difference: go along the recorded events as far as those of today are of the same kinds."""
        if self.difference is None:
            return
        self.followed = max(self.followed, self.seen)
        while self.followed < len(live):
            entry = self.entry
            if entry is not None and entry.type == live[self.followed].type and not self._waits_for_us(entry):
                self.due += 1
            self.followed += 1

    def _waits_for_us(self, entry: Event) -> bool:
        """Whether an event is a message from outside that was not delivered yet."""
        events = self.recording.events
        return (
            is_insertion(entry.data)
            and entry.seq not in self.performed
            and isinstance(entry.data.inserted[0].source, (UserSource, AgentSource))
            and not comes_as_the_turn_ends(events, entry.seq)
            and not (type(events[entry.seq - 1].data) is ToolResultAdded and events[entry.seq - 1].data.contexts)
        )

    def freeze(self) -> None:
        """Keep the live events as they are now, and let the agent be ended."""
        if self.handle is not None and not self.kept:
            self.kept = list(self.session.events)
            self.asks_more = any(play.seq is None and not play.over for play in self.plays)
        for body in self.bodies:
            body.scope.shield = False

    def stuck(self) -> None:
        """What is due does not come."""
        if self.difference is None and self.entry is not None:
            self.difference = missing(self.entry, self.recording)

    def delays(self, retries: int, failure: Failure) -> tuple[float, float] | None:
        """See ``comparison.Delays``."""
        if self.policy is None:
            return None
        least, most = (delay_of(self.policy, retries, failure, chance) for chance in (0.0, 1.0))
        return (least, most) if least is not None and most is not None else None

    # --- models -------------------------------------------------------------------------------------------------------

    def begin_attempt(self, request: ModelRequest, policy: RetryPolicy | None) -> Play:
        """The next recorded attempt; one that waits for ever when there is none left."""
        self.policy = policy
        seq = self._attempts.pop() if self._attempts else None
        data = self.recording.events[seq].data if seq is not None else None
        chunks = timed_chunks(data) if data is not None else []
        failure = failure_to_raise(data) if data is not None else None
        play = Play(request=request, seq=seq, chunks=chunks, failure=failure)
        play.cut_off = data is not None and data.interrupted
        self.plays.append(play)
        self.look()
        if self.difference is not None and self.request is None:
            self.request = Request.of_live(request), recorded_request(self.recording, seq)
        return play

    def shield_bodies(self) -> None:
        """Let the bodies outlast a cancel that did so when they were recorded; what is over is forgotten."""
        self.bodies = [body for body in self.bodies if not body.over]
        self.plays = [play for play in self.plays if not play.over]
        for body in self.bodies:
            if not body.over and body.result is None:
                entry = self.result_of(body.run.call.call_id)
                real = entry is not None and not cut_short(entry.data) and not _timed_out(entry.data)
                body.scope.shield = real


def _timed_out(data: ToolResultAdded) -> bool:
    return (data.body.code if data.body is not None else data.code) == "TOOL_TIMEOUT"
