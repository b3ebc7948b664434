"""Records the twenty sessions: ``python -m tests.specs.rehearsal.recorder FOLDER`` writes them anew.

Time is virtual, and what dies is cut off where it stood, as a killed process leaves it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio
from attrs import define, field
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.specs.rehearsal.recorded_agent import half_an_answer, make, policy_of
from treadle import Agent, Answer, ByHook, Call, Event, Failure, Host, MemoryStore, ScriptedModel, Session, message
from treadle.errors import MaintenanceCancelled
from treadle.hooks import AGENT_CREATED
from treadle.models import Code
from treadle.session import Replace, SessionHeader, UserMessageAdded, encode_event, encode_header

SESSIONS: dict[str, Callable[[Desk], Awaitable[None]]] = {}


class Killed(Exception):
    """The process died here."""


@define
class Desk:
    """Where one session is recorded, over all lives of its process."""

    name: str
    change: str = ""
    model: ScriptedModel = field(init=False)
    stored: dict[str, tuple[SessionHeader, list[Event]]] = field(factory=dict[str, Any])
    approve: list[bool] = field(factory=list[bool])

    def __attrs_post_init__(self) -> None:
        self.model = ScriptedModel(retry_policy=policy_of(self.change), pace=0.01)

    async def live(self, talk: Callable[[Agent], Awaitable[None]], *answers: Any) -> None:
        """One life: the agent is made or resumed, and talked to; ``Killed`` ends it as a kill would."""
        self.model.push(*answers)
        store = MemoryStore()
        for header, events in self.stored.values():
            await (await store.create(header, events)).close()
        host = Host(store=store, approver=self._approver, cwd="/mill")
        try:
            async with host:
                made = make(self.change, self.model)(host)
                fields = await made
                if self.name in self.stored:
                    handle = await host.agents.resume(
                        self.name, agent_options=fields["agent_options"], setup=fields["setup"]
                    )
                else:
                    handle = await host.agents.create(session_id=self.name, **fields)
                sessions: dict[str, Session] = {}
                host.on(AGENT_CREATED, lambda told: sessions.update({told.agent.id: told.agent.session}))
                sessions[self.name] = handle.agent.session
                try:
                    await talk(handle.agent)
                finally:
                    self.stored.update(_as_stored(sessions))
                await handle.dispose(keep_inbox=True)
                self.stored.update(_as_stored(sessions))
        except* Killed:
            pass

    async def _approver(self, _proposal: Any, _question: str) -> bool:
        await trio.sleep(1)
        if not self.approve:
            await trio.sleep_forever()
        return self.approve.pop(0)


def _as_stored(sessions: dict[str, Session]) -> dict[str, tuple[SessionHeader, list[Event]]]:
    """The sessions as they stand now."""
    return {name: (one.header, list(one.events)) for name, one in sessions.items()}


def session(record: Callable[[Desk], Awaitable[None]]) -> Callable[[Desk], Awaitable[None]]:
    """Name a session after its function."""
    SESSIONS[record.__name__.replace("_", "-")] = record
    return record


async def told(agent: Agent, *texts: str) -> None:
    """Say one thing after the other, each as a turn of its own."""
    for text in texts:
        agent.followup(text)
        await agent.when_idle()


# --- the sessions -------------------------------------------------------------------------------------------------------


@session
async def three_days(desk: Desk) -> None:
    """Plain turns; a context changes with each, and the third has the house rules."""
    await desk.live(
        lambda agent: told(agent, "Good morning", "What is due?", "And now?"), "Morning.", "Nothing.", "Rest."
    )


@session
async def searching(desk: Desk) -> None:
    """Parallel searches in a pool that is too small for all, then an answer."""
    calls = [Call("search", {"query": text}, f"s{n}") for n, text in enumerate(("rye and barley", "oats", "wheat"))]
    await desk.live(lambda agent: told(agent, "Find grain"), Answer(calls=calls), "Found.")


@session
async def busy_line(desk: Desk) -> None:
    """Two attempts fail and are retried, the second after half an answer."""
    broken = Answer("I was about to", failure=Failure("the line broke", Code.TRANSPORT.value))
    await desk.live(lambda agent: told(agent, "Hello?"), Failure("busy", Code.SERVER.value), broken, "Here I am.")


@session
async def dead_line(desk: Desk) -> None:
    """All attempts fail; what was typed is parked, and goes on with a steered message."""

    async def talk(agent: Agent) -> None:
        agent.followup("Hello?")
        agent.followup("Anyone?")
        await agent.when_idle()
        agent.steer("Try again")
        await agent.when_idle()

    failures = [Failure("down", Code.SERVER.value)] * 3
    await desk.live(talk, *failures, "Yes.", "Yes, again.")


@session
async def stopped_in_an_answer(desk: Desk) -> None:
    """Stopped in the middle of an answer, with a message that is dropped; then asked again, and stopped by a word."""

    async def talk(agent: Agent) -> None:
        agent.followup("Tell me")
        await trio.sleep(0.2)
        agent.followup("never seen")
        await trio.sleep(0.1)
        agent.cancel()
        await told(agent, "Tell me again", "More")

    await desk.live(talk, half_an_answer, "From the start, then.", "This is a forbidden word, is it not, so stop.")


@session
async def stopped_in_tools(desk: Desk) -> None:
    """Stopped while a tool runs that cannot be, before others; then while one runs that can."""

    async def talk(agent: Agent) -> None:
        agent.followup("Bind it")
        await trio.sleep(0.5)
        agent.cancel()
        await agent.when_idle()
        agent.followup("Wait for it")
        await trio.sleep(0.5)
        agent.inject("by the way")
        agent.cancel(keep_inbox=True)
        await told(agent, "What happened?")

    bind = Answer("On it.", calls=[Call("bind", {}, "b1"), Call("note", {"text": "x"}, "b2")])
    await desk.live(talk, bind, Answer(calls=[Call("wait_for_rain", {}, "w1")]), "Stopped.")


@session
async def stopped_at_once(desk: Desk) -> None:
    """Stopped before anything came, and in the very call after the message; a policy is the cause of one."""

    async def talk(agent: Agent) -> None:
        agent.followup("Tell me")
        agent.cancel()
        await agent.when_idle()
        agent.followup("Tell me, please")
        await trio.sleep(0.3)
        agent.inject("kept")
        agent.followup("kept as well")
        agent.cancel(ByHook("too slow"), keep_inbox=True)
        await told(agent, "Now?")

    async def silence(_: Any) -> Any:
        await trio.sleep_forever()
        yield None

    await desk.live(talk, silence, "Now.", "And now.")


@session
async def woken_while_stopping(desk: Desk) -> None:
    """A message arrives while a stopped tool is still settling: it begins a turn by itself."""

    async def talk(agent: Agent) -> None:
        agent.followup("Bind it")
        await trio.sleep(0.5)
        agent.cancel()
        await trio.sleep(0.1)
        agent.followup("And then?")
        await agent.when_idle()

    await desk.live(talk, Answer(calls=[Call("bind", {}, "b1")]), "Then rest.")


@session
async def steered(desk: Desk) -> None:
    """Steered while an answer streams and while a tool runs; a tool steers, too; something is only injected."""

    async def talk(agent: Agent) -> None:
        agent.followup("Take your time")
        await trio.sleep(0.05)
        agent.inject("it is late")
        await trio.sleep(0.05)
        agent.steer("a little faster")
        await trio.sleep(0.3)
        agent.steer("still there?")
        await agent.when_idle()
        agent.inject("left over")
        await told(agent, "Bye")

    nudge = Answer(calls=[Call("nudge", {"text": "go on"}, "n1")])
    long = Answer(
        "one two three four five six seven eight nine ten eleven twelve", calls=[Call("note", {"text": "a"}, "a")]
    )
    await desk.live(talk, long, nudge, "Going on.", "Still here.", "Bye.", "Bye, bye.")


@session
async def edited_queue(desk: Desk) -> None:
    """A queue is edited, moved and cut while a turn runs, and before one."""

    async def talk(agent: Agent) -> None:
        inbox = agent.inbox
        for number in range(3):
            inbox.append("next-turn", message(f"queued {number}", id=f"q{number}"))
        inbox.prepend("next-step", message("first", id="s0"))
        inbox.replace("q1", message("another", id="q9"))
        inbox.remove("q2")
        agent.update_inbox("q0", "edit", "queued zero, edited")
        agent.followup("go")
        await trio.sleep(0.02)
        agent.followup(message("later", id="q3"))
        agent.followup(message("sooner", id="q4"))
        agent.update_inbox("q4", "steer")
        await trio.sleep(0.02)
        agent.update_inbox("q3", "edit", "later, edited")
        await agent.when_idle()
        inbox.append("next-turn", message("dropped", id="q7"))
        inbox.clear()

    await desk.live(talk, "One two three four five.", "Two.", "Three.", "Four.", "Five.", "Six.")


@session
async def approvals(desk: Desk) -> None:
    """One call is approved, one is not, and one is stopped while the question is open."""
    desk.approve = [True, False]

    async def talk(agent: Agent) -> None:
        await told(agent, "Burn it", "Burn that as well")
        agent.followup("And this")
        await trio.sleep(3)
        agent.cancel()
        await told(agent, "Well?")

    burns = [Answer(calls=[Call("burn", {"what": what}, what)]) for what in ("wood", "books", "houses")]
    await desk.live(talk, burns[0], "Done.", burns[1], "Not done.", burns[2], "No.")


@session
async def refused_calls(desk: Desk) -> None:
    """A hook and a guard refuse calls under codes of their own; a tool is unknown, and arguments do not fit."""
    calls = [
        Call("search", {"query": "gold"}, "c1"),
        Call("note", {"text": "in the cellar"}, "c2"),
        Call("dance", {}, "c3"),
        Call("note", '{"text": ', "c4"),
        Call("note", {"words": 1}, "c5"),
        Call("note", {"text": "fine"}, "c6"),
    ]
    await desk.live(lambda agent: told(agent, "All at once"), Answer(calls=calls), "Only one was.", "Received.")


@session
async def odd_results(desk: Desk) -> None:
    """A timeout, a cut result, a wrapped failure, messages beside a result, and a tool that ends its turn."""
    calls = [
        Call("wait_for_rain", {}, "r1"),
        Call("whole_book", {}, "r2"),
        Call("note", {"text": "illegible"}, "r3"),
        Call("mail", {}, "r4"),
    ]
    end = Answer(calls=[Call("close_up", {}, "r5")])
    await desk.live(lambda agent: told(agent, "Everything", "Enough"), Answer(calls=calls), "Read.", end)


@session
async def clerks(desk: Desk) -> None:
    """Two clerks at once, one after the other's answer; a third is stopped with the turn."""

    def play(request: Any) -> Any:
        said = [one.text for one in request.messages]
        asked = next((text for text in reversed(said) if text.startswith(("count", "hold"))), None)
        if not any("You are the clerk" in text for text in said[:1]):
            return next(main)
        if asked is not None and asked.startswith("hold"):
            return half_an_answer
        if said[-1].isdigit() or '"' in said[-1]:
            return f"There are {said[-1]}."
        return Answer(calls=[Call("count", {"things": asked or ""}, "k1")])

    both = Answer(
        calls=[Call("clerk", {"prompt": "count the sacks"}, "c1"), Call("clerk", {"prompt": "count mice"}, "c2")]
    )
    main = iter([both, "Counted.", Answer(calls=[Call("clerk", {"prompt": "hold on"}, "c3")]), "Stopped."])

    async def talk(agent: Agent) -> None:
        await told(agent, "Count them")
        agent.followup("And hold on")
        await trio.sleep(1)
        agent.cancel()
        await told(agent, "What now?")

    await desk.live(talk, play, play, play, play, play, play, play, play, play)


@session
async def died_in_an_answer(desk: Desk) -> None:
    """The process dies in the middle of an answer, with a message pending; it is asked again."""

    async def dying(agent: Agent) -> None:
        await told(agent, "Good morning")
        agent.followup("Tell me")
        await trio.sleep(0.2)
        agent.inject("pending")
        raise Killed

    await desk.live(dying, "Morning.", half_an_answer)
    await desk.live(lambda agent: told(agent, "Again", "And again"), "Now.", "Again.")


@session
async def died_in_tools(desk: Desk) -> None:
    """It dies while one of two tools runs; later it is closed in order, and goes on in a third life."""

    async def dying(agent: Agent) -> None:
        agent.followup("Do both")
        await trio.sleep(0.5)
        raise Killed

    calls = [Call("note", {"text": "first"}, "d1"), Call("bind", {}, "d2"), Call("mail", {}, "d3")]
    await desk.live(dying, Answer(calls=calls))

    async def leaving(agent: Agent) -> None:
        await told(agent, "Look what is there")
        agent.inject("for later")

    await desk.live(leaving, "The first is.")
    await desk.live(lambda agent: told(agent, "And now?", "flour?"), "Now, too.", "Flour is there.", "Really.")


@session
async def disposed_in_a_turn(desk: Desk) -> None:
    """It is closed while a turn runs, which ends with it; then it is resumed."""

    async def leaving(agent: Agent) -> None:
        agent.followup("Tell me")
        agent.followup("and me")
        await trio.sleep(0.3)

    await desk.live(leaving, half_an_answer)
    await desk.live(lambda agent: told(agent, "Once more"), "Here it is.", "And for you.")


@session
async def maintained(desk: Desk) -> None:
    """The history is put together between turns, while a message waits; another task is stopped."""

    async def talk(agent: Agent) -> None:
        await told(agent, "One", "Two")
        nodes = [entry.seq for entry in agent.session.events if entry.type in ("user/message", "assistant/message")]

        async def compact(_: Any) -> None:
            agent.followup("meanwhile")
            await trio.sleep(1)
            summary = UserMessageAdded(message("so far: one, two"))
            agent.session.append(summary, surface_op=Replace(nodes[0], nodes[-1]), sources=nodes)

        await agent.run_maintenance(compact)
        await agent.when_idle()

        async def endless(_: Any) -> None:
            await trio.sleep_forever()

        task = agent.run_maintenance(endless)
        await wait_all_tasks_blocked()
        agent.cancel()
        try:
            await task
        except MaintenanceCancelled:
            await told(agent, "Three")

    await desk.live(talk, "One.", "Two.", "Meanwhile.", "Three.")


@session
async def at_the_limits(desk: Desk) -> None:
    """A turn that never ends but for its limit of steps, an answer cut off, one withheld, and one that is empty."""
    steps = [Answer(calls=[Call("note", {"text": f"n{number}"}, f"l{number}")]) for number in range(6)]
    await desk.live(
        lambda agent: told(agent, "Go on for ever", "Everything", "Something else", "Nothing"),
        *steps, Answer("Too lo", finish="max-tokens"), Answer("", finish="refusal"), Answer(""), Answer(""), "At last.",
    )  # fmt: skip


@session
async def hooks_at_work(desk: Desk) -> None:
    """A blocked prompt with a companion, an urgent one, an objection, and a turn that got too dear."""

    async def talk(agent: Agent) -> None:
        agent.inject("a companion")
        await told(agent, "my secret", "this is urgent", "flour?", "note it")
        agent.followup("go on")
        await agent.when_idle()

    dear = Answer(calls=[Call("note", {"text": "dear"}, "h1"), Call("note", {"text": "cheap"}, "h2")])
    await desk.live(talk, "At once.", "There is some.", "Really.", dear, "Going on.")


# --- writing them -------------------------------------------------------------------------------------------------------


def record(name: str, change: str = "") -> list[tuple[str, bytes]]:
    """Record one session with the agent, or a changed one; returns its file and those of its sub-agents, by name."""
    desk = Desk(name, change)
    trio.run(SESSIONS[name], desk, clock=MockClock(autojump_threshold=0))
    out: list[tuple[str, bytes]] = []
    children = 0
    for one, (header, events) in desk.stored.items():
        file = name
        if one != name:
            children += 1
            file = f"{name}-{children}"
        lines = [encode_header(header), *map(encode_event, events)]
        out.append((f"{file}.jsonl", b"".join([line + b"\n" for line in lines])))
    return out


def main(folder: Path) -> None:
    """Record all sessions into a folder."""
    logging.disable(logging.CRITICAL)
    folder.mkdir(parents=True, exist_ok=True)
    for name in SESSIONS:
        for file, content in record(name):
            (folder / file).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
