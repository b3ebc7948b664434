"""Logs to be drawn: the scripted sessions, one of each in a row, and long ones made of many."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from treadle import AssistantMessage, Event, Reasoning, SessionHeader, Text, ToolCall, UserMessage
from treadle.extensions.compaction import SummarySource
from treadle.models import Usage
from treadle.words import events as ev
from treadle.words import reasons
from treadle.words.events import APPEND, type_of
from treadle.words.messages import USER
from treadle_specs.rig.scripts import SCRIPTS, record

START = 1_790_000_000_000
HEADER = SessionHeader("made", START, "/tmp")


@cache
def scripted(name: str) -> tuple[Event, ...]:
    """The log that a scripted session leaves."""
    return tuple(record(SCRIPTS[name])[1])


class Log:
    """Writes a log by hand; each event comes ``pace`` milliseconds after the one before."""

    def __init__(self, pace: int = 10) -> None:
        self.events: list[Event] = []
        self.now = START
        self.pace = pace
        self.turn = 0
        self.step = 1

    def add(self, *given: Any, pause: int = 0) -> Log:
        for data in given:
            self.now += self.pace + pause
            known = type_of(data)
            op = APPEND if known.surface else None
            self.events.append(Event(known.tag, len(self.events), self.now, data, op))
        return self

    def ask(self, text: str, id: str = "", target: Any = "next-turn", source: Any = USER) -> UserMessage:
        """A message is accepted."""
        message = UserMessage(id or f"m{len(self.events)}", (Text(text),), source)
        self.add(ev.InboxSpliced(target, 0, 0, (message,)))
        return message

    def open(self, text: str) -> Log:
        """A message is accepted and opens a turn and its first step."""
        message = self.ask(text)
        self.turn += 1
        self.step = 1
        self.add(ev.TurnStart(self.turn), ev.InboxSpliced("next-turn", 0, 1))
        return self.add(ev.StepStart(self.turn, 1, (message.id,)), ev.UserMessageAdded(message))

    def answer(self, text: str, *calls: tuple[str, str], reasoning: str = "", **more: Any) -> Log:
        """The model answers; ``calls`` are names and arguments, under ids of their own."""
        thought = (Reasoning(reasoning),) if reasoning else ()
        asked = [ToolCall(f"c{len(self.events)}-{number}", *call) for number, call in enumerate(calls)]
        message = AssistantMessage((*thought, Text(text), *asked))
        return self.add(ev.AssistantMessageAdded(message, f"a{len(self.events)}", **more))

    def tool(self, name: str, arguments: str, result: str, **more: Any) -> Log:
        """A tool is called and gives a result."""
        call = f"t{len(self.events)}"
        return self.add(ev.ToolCallStarted(call, name, arguments), ev.ToolResultAdded(call, (Text(result),), **more))

    def go_on(self, *accepted: UserMessage) -> Log:
        """The step ends and the next one begins, with what was steered."""
        self.add(ev.StepEnd(self.turn, self.step))
        if accepted:
            self.add(ev.InboxSpliced("next-step", 0, len(accepted)))
        self.step += 1
        self.add(ev.StepStart(self.turn, self.step, tuple([one.id for one in accepted])))
        return self.add(*[ev.UserMessageAdded(one) for one in accepted])

    def close(self, reason: reasons.EndReason = reasons.COMPLETED) -> Log:
        """The step and the turn end."""
        return self.add(ev.StepEnd(self.turn, self.step), ev.TurnEnd(self.turn, reason))


def compacted() -> tuple[Event, ...]:
    """Two turns, the first of which gave way to a summary; then another one."""
    log = Log().open("What is wool?").answer("I look.", ("look", '{"at": "wool"}'))
    (call,) = log.events[-1].data.message.calls
    log.add(ev.ToolCallStarted(call.call_id, "look", call.arguments))
    result = ev.ToolResultAdded(call.call_id, (Text("It is <b>warm</b>."),))
    log.add(result)
    log.events[-1] = msgspec.structs.replace(log.events[-1], source_event_seqs=(len(log.events) - 2,))
    log.go_on().answer("Wool is warm.").close()
    log.open("And silk?").answer("Silk is cool.").close()
    old = tuple([entry.seq for entry in log.events if entry.surface_op is not None][:4])
    summary = UserMessage("sum", (Text("They spoke of wool."),), SummarySource("hand", len(old), 900, 20))
    log.add(ev.UserMessageAdded(summary))
    op = ev.Replace(old[0], old[-1])
    log.events[-1] = msgspec.structs.replace(log.events[-1], surface_op=op, source_event_seqs=old)
    return tuple(log.open("Thanks").answer("Welcome.").close().events)


def long_log(count: int) -> tuple[Event, ...]:
    """A log of at least ``count`` events: turns with tools, reasoning, and every tenth of them stopped."""
    log = Log(pace=7)
    while len(log.events) < count:
        number = log.turn + 1
        log.open(f"Question {number}: what is the weather in the city of that number?")
        asked = ("forecast", f'{{"city": {number}}}')
        log.answer("I will look it up.", asked, reasoning="A tool knows.", usage=Usage(100 + number, 20))
        log.tool("forecast", asked[1], f"dry, {number % 30} °C\n" * 6).go_on()
        if number % 10:
            log.answer(f"It is dry there, with {number % 30} °C. " * 4).close()
        else:
            log.answer("It is", interrupted=True).close(reasons.Aborted(reasons.ByUser()))
    return tuple(log.events)


@cache
def medley() -> tuple[Event, ...]:
    """All scripted sessions in a row, as if they were one; each event comes 40 ms after the one before."""
    events: list[Event] = []
    turns = 0
    for name in SCRIPTS:
        script = scripted(name)
        for entry in script:
            data = entry.data
            if hasattr(data, "turn"):
                data = msgspec.structs.replace(data, turn=data.turn + turns)
            seq = len(events)
            sources = entry.source_event_seqs and tuple([seq - entry.seq + one for one in entry.source_event_seqs])
            events.append(Event(entry.type, seq, START + 40 * seq, data, entry.surface_op, sources, entry.ignorable))
        turns += len([entry for entry in script if entry.type == "turn/start"])
    return tuple(events)
