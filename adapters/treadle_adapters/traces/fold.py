"""From events to spans: the one place where a log becomes a tree.

How it works. One event after the other is taken; spans begin and end with them, at their times, and a sink hears of it.
Nothing but the log is asked, so it makes no difference when an event is taken: in the moment it is recorded, a minute
later, or from a file.

- ``invoke_agent`` begins when the turn's prompt was accepted, and ends with the turn. In it is the ``turn``, from the
  claim; in this its ``step``s, and in these the attempts (``chat``) and the calls (``execute_tool``).
- An attempt begins with what the driver recorded last before it: its request is sent right after. A live observer says
  when that is (``attempt``), so that the span is there while the request is under way; otherwise it begins in hindsight.
- ``convergence`` begins with the first trace that a cancel leaves, as a log does not tell the cancel itself (an inbox
  that was cleared right before, an answer cut off, a call not run), and ends with its turn.
- What a fork inherited belongs to its parent: it is taken, and nobody hears of it. So is what a resumed session did
  before (``prime``).
- Where the clock of the wall is set back, times go on as if it had stood still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from treadle import Aborted, Errored, Event, SessionHeader
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    EndReason,
    EndSeed,
    InboxSpliced,
    Interrupted,
    RequestContext,
    RequestHeader,
    RetryScheduled,
    RetryStarted,
    StepEnd,
    StepStart,
    Surface,
    SystemMessageAdded,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
)

from . import attributes, names
from .content import Content
from .spans import SILENT, Kind, Link, Ref, Sink, Span, Value

_BEFORE_A_REQUEST = frozenset(
    {
        StepStart,
        SystemMessageAdded,
        UserMessageAdded,
        RequestHeader,
        RequestContext,
        AssistantAttempt,
        RetryStarted,
    }
)
"""What the driver records last before a request is sent."""
_NOT_RUN = ("ABORTED", "ABORTED_BEFORE_DISPATCH")


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A message in the inbox: its id, and when it was accepted."""

    id: str
    accepted: int


class Fold:
    """Takes the events of one session, in order.

    Args:
        header: the session's.
        sink: hears of the spans.
        content: whether and how content is told.
        agent_name: what the agent is called; its preset unless given.

    Attributes:
        root, turn, step, chat: the spans that are open.
        calls: those of the calls that are open, by call id.
        ended: the root of the last turn.
        prompt: the id of the message with which the last turn began.
        made_by: the call of another session in which this one was made; the next turn is linked to it.
        taken: how many events were taken.
    """

    def __init__(
        self, header: SessionHeader, sink: Sink, content: Content | None = None, agent_name: str | None = None
    ) -> None:
        self.header = header
        self.agent_name = agent_name or header.agent_preset
        self.common: dict[str, Value] = {names.CONVERSATION: header.id}
        if self.agent_name:
            self.common[names.AGENT_NAME] = self.agent_name
        self.root: Span | None = None
        self.turn: Span | None = None
        self.step: Span | None = None
        self.chat: Span | None = None
        self.calls: dict[str, Span] = {}
        self.ended: Span | None = None
        self.prompt: str | None = None
        self.made_by: Link | None = None
        self.taken = 0
        self._sink = SILENT if header.inherited else sink
        self._heard = sink
        self._content = content
        self._surface = Surface() if content is not None else None
        self._ahead = self._now = 0
        self._sent = (0, 0)
        self._attempts = 0
        self._request: RequestHeader | None = None
        self._described: dict[str, str] = {}
        self._inbox: dict[str, list[Pending]] = {"next-turn": [], "next-step": []}
        self._removed: dict[str, tuple[int, int]] = {}
        self._cleared: Ref | None = None
        self._stopped: Ref | None = None
        self._last: Ref | None = None
        self._forked = False
        self._takers: dict[type, Callable[[Event, Any], None]] = {
            TurnStart: self._turn_start,
            TurnEnd: self._turn_end,
            StepStart: self._step_start,
            StepEnd: self._step_end,
            AssistantMessageAdded: self._answered,
            AssistantAttempt: self._answered,
            ToolCallStarted: self._call,
            ToolResultAdded: self._result,
            RetryScheduled: self._retry,
            RequestHeader: self._headed,
            InboxSpliced: self._spliced,
            EndSeed: self._seeded,
        }

    # --- taking -------------------------------------------------------------------------------------------------------

    def prime(self, events: Iterable[Event], before: int = 0, surface: Surface | None = None) -> None:
        """Take events whose spans somebody else has made.

        Args:
            events: all so far, or the last of them.
            before: how many precede these.
            surface: what all of them make of the history, where some precede.
        """
        self._sink, self.taken = SILENT, before
        own, self._surface = self._surface, None if before else self._surface
        for entry in events:
            self.take(entry)
        self._sink = self._heard
        if before and surface is not None and own is not None:
            self._surface = Surface([*surface.nodes], [*surface.messages], surface.system)
        self.root = self.turn = self.step = self.chat = self.ended = None
        self.calls.clear()

    def take(self, entry: Event) -> None:
        """Take the next event."""
        self.taken += 1
        now = entry.time + self._ahead
        if now < self._now:
            self._ahead += self._now - now
            now = self._now
        self._now = now
        data: object = entry.data
        kind = type(data)
        taker = self._takers.get(kind)
        if taker is not None:
            taker(entry, data)
        if self._surface is not None and entry.surface_op is not None:
            self._surface.apply(entry)
        if kind in _BEFORE_A_REQUEST:
            self._sent = entry.seq, now
        if self._cleared is not None and kind is not InboxSpliced:
            self._cleared = None
        if self.taken == self.header.inherited:
            self._sink = self._heard

    def attempt(self) -> Span | None:
        """An attempt begins now; returns its span, ``None`` outside a step."""
        around = self.step
        if around is None:
            return None
        if self.chat is None:
            self._attempts += 1
            ref = Ref(self.header.id, *self._sent, "chat")
            span = self._begin("chat", attributes.chat_name(self._request), ref, around)
            span.attributes |= attributes.chat(self._request, self._attempts)
            if self._content is not None and self._surface is not None:
                content, history = self._content, tuple(self._surface.messages)
                span.late.append(lambda: content.request(history))
            self._sink.begin(span)
            self.chat = span
        return self.chat

    def cut(self) -> None:
        """Nothing more will come: end what is open, as of the last event."""
        if self.turn is not None or self.root is not None:
            self._close_turn(Interrupted(), self._now)

    def note(self, name: str, time: int, attributes: dict[str, Value]) -> None:
        """Note something of which the log tells nothing, in the turn that is open."""
        if self.turn is not None:
            self._sink.note(self.turn, name, time, attributes)

    def moment(self, kind: Kind, begin: int, parent: Span | None) -> Span:
        """Begin a span of which the log tells nothing: maintenance, or a flush."""
        span = Span(kind, kind, Ref(self.header.id, self.taken, begin, kind), begin, parent, dict(self.common))
        self._sink.begin(span)
        return span

    def over(self, span: Span, end: int, error: str | None = None) -> None:
        """End such a span."""
        self._end(span, max(span.begin, end), error)

    # --- turns and steps ----------------------------------------------------------------------------------------------

    def _turn_start(self, entry: Event, data: TurnStart) -> None:
        waiting = [*self._inbox["next-turn"][:1], *self._inbox["next-step"][:1]]
        self.prompt = waiting[0].id if waiting else None
        accepted = min(waiting[0].accepted, self._now) if waiting else self._now
        name = f"invoke_agent {self.agent_name}" if self.agent_name else "invoke_agent"
        links: tuple[Link, ...] = ()
        if self._forked and self.taken > self.header.inherited:
            links = () if self._last is None else (Link(self._last, "fork", self._last),)
            self._forked = False
        if self.made_by is not None:
            links, self.made_by = (*links, self.made_by), None
        root = Span("invoke_agent", name, self._ref(entry, "invoke_agent"), accepted, None, dict(self.common), links)
        root.attributes |= attributes.invocation(self.header, self._request, data.turn)
        self._sink.begin(root)
        self.root = root
        self.turn = self._begin("turn", f"turn {data.turn}", self._ref(entry, "turn"), root)
        self.turn.attributes[names.TURN] = data.turn
        self._sink.begin(self.turn)

    def _turn_end(self, entry: Event, data: TurnEnd) -> None:
        around = self.turn
        if isinstance(data.reason, Aborted) and around is not None:
            ref = self._stopped or self._cleared or Ref(self.header.id, entry.seq, self._now, "convergence")
            span = self._begin("convergence", "convergence", ref, around)
            span.attributes[names.CAUSE] = attributes.tag_of(data.reason.reason)
            self._sink.begin(span)
            self._end(span, self._now)
        self._close_turn(data.reason, self._now)

    def _close_turn(self, reason: EndReason, now: int) -> None:
        for span in [*self.calls.values(), self.chat, self.step]:
            if span is not None:
                self._end(span, now, "interrupted")
        self.calls.clear()
        self.chat = self.step = self._stopped = None
        self._removed.clear()
        error = attributes.error_of(reason)
        for span in (self.turn, self.root):
            if span is not None:
                span.attributes[names.TURN_END] = attributes.tag_of(reason)
                if self._content is not None and isinstance(reason, Errored):
                    span.attributes["error.message"] = self._content.text(reason.failure.message)
                self._end(span, now, error)
        if self.root is not None:
            self._last, self.ended = self.root.ref, self.root
        self.turn = self.root = None

    def _step_start(self, entry: Event, data: StepStart) -> None:
        self._attempts = 0
        for accepted in data.accepted:
            times = self._removed.pop(accepted, None)
            if times is not None and self.turn is not None:
                self._sink.claimed(self.turn, (times[1] - times[0]) / 1000)
        if self.turn is not None:
            self.step = self._begin("step", f"step {data.step}", self._ref(entry, "step"), self.turn)
            self.step.attributes |= {names.TURN: data.turn, names.STEP: data.step}
            self._sink.begin(self.step)

    def _step_end(self, _entry: Event, _data: StepEnd) -> None:
        if self.step is not None:
            self._end(self.step, self._now)
            self.step = None

    # --- attempts and calls -------------------------------------------------------------------------------------------

    def _answered(self, _entry: Event, data: AssistantMessageAdded | AssistantAttempt) -> None:
        span = self.attempt()
        if span is None:
            return
        span.attributes |= attributes.answer(data, span.begin, self._now, self._ahead)
        if data.interrupted:
            self._trace_of_a_cancel()
        if self._content is not None and isinstance(data, AssistantMessageAdded):
            content, message, finish = self._content, data.message, data.finish
            span.late.append(lambda: content.answer(message, finish))
        span.stream = data.stream
        self.chat = None
        self._end(span, self._now, attributes.failure_of(data))

    def _call(self, entry: Event, data: ToolCallStarted) -> None:
        around = self.step or self.turn
        if around is None:
            return
        span = self._begin("execute_tool", f"execute_tool {data.name}", self._ref(entry, "execute_tool"), around)
        span.attributes |= attributes.call(data, self._described.get(data.name))
        if self._content is not None:
            content, arguments = self._content, data.arguments
            span.late.append(lambda: content.call(arguments))
        self._sink.begin(span)
        self.calls[data.call_id] = span

    def _result(self, _entry: Event, data: ToolResultAdded) -> None:
        if data.code in _NOT_RUN:
            self._trace_of_a_cancel()
        span = self.calls.pop(data.call_id, None)
        if span is None:
            return
        if self._content is not None:
            content, given = self._content, data.content
            span.late.append(lambda: content.result(given))
        self._end(span, self._now, (data.code or "tool_error") if data.is_error else None)

    def _retry(self, _entry: Event, data: RetryScheduled) -> None:
        if self.step is not None:
            told: dict[str, Value] = {names.DELAY: data.delay, names.ERROR: data.failure.code}
            self._sink.note(self.step, "retry", self._now, told | {names.ATTEMPT: data.attempt})

    def _headed(self, _entry: Event, data: RequestHeader) -> None:
        self._request = data
        self._described = {tool.name: tool.description for tool in data.tools if tool.description}
        if self.root is not None:
            self.root.attributes |= attributes.provider(data)
            if data.reason == "resume" and self._last is not None and self._last.session == self.header.id:
                self._sink.link(self.root, Link(self._last, "resume", self._last))

    # --- the inbox, and what was inherited ----------------------------------------------------------------------------

    def _spliced(self, _entry: Event, data: InboxSpliced) -> None:
        pending = self._inbox[data.target]
        gone = pending[data.start : data.start + data.removed_count]
        if data.inserted:
            known = {message.id: message.accepted for message in gone}
            known |= {known_id: times[0] for known_id, times in self._removed.items()}
            fresh = [Pending(message.id, known.get(message.id, self._now)) for message in data.inserted]
        else:
            fresh = []
        pending[data.start : data.start + data.removed_count] = fresh
        if data.outcome is not None:
            self._cleared = self._cleared or Ref(self.header.id, self.taken, self._now, "convergence")
        elif gone:
            self._removed |= {message.id: (message.accepted, self._now) for message in gone}

    def _seeded(self, _entry: Event, data: EndSeed) -> None:
        """What came before belongs to the parent, the turn that a link may name included."""
        self._forked = True
        if self._last is not None and self._last.session == self.header.id:
            self._last = msgspec.structs.replace(self._last, session=data.parent) if data.parent is not None else None

    # --- spans --------------------------------------------------------------------------------------------------------

    def _trace_of_a_cancel(self) -> None:
        if self._stopped is None and self.turn is not None:
            self._stopped = self._cleared or Ref(self.header.id, self.taken, self._now, "convergence")

    def _ref(self, entry: Event, kind: Kind) -> Ref:
        return Ref(self.header.id, entry.seq, entry.time, kind)

    def _begin(self, kind: Kind, name: str, ref: Ref, parent: Span) -> Span:
        begin = min(ref.time, self._now) if kind in ("chat", "convergence") else self._now
        return Span(kind, name, ref, max(begin, parent.begin), parent, dict(self.common))

    def _end(self, span: Span, now: int, error: str | None = None) -> None:
        span.end = now
        if error is not None:
            span.error = error
            span.attributes[names.ERROR] = error
        self._sink.end(span)
