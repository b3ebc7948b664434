"""A seed is held to what resuming would ask of it, where it is given (contract §8 O13, §12 S5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.hosts import OPTIONS, create, hosted
from treadle import Answer, Call, Event, MemoryStore, MisuseError, Text, UserMessage, tool
from treadle.loop import durability
from treadle.session import EndSeed, TurnEnd, TurnStart, UserMessageAdded, fork, new_header

Change = Callable[[list[Event]], Any]


@tool
def look() -> str:
    """Looks."""
    return "seen"


async def worked() -> list[Event]:
    """The events of two turns, one with a tool."""
    async with hosted(Answer(calls=[Call("look")]), "one", "two") as host:
        host.tools.register(look)
        handle = await create(host, "a")
        await handle.agent.ask("first")
        await handle.agent.ask("second")
        return list(handle.agent.session.events)


def at(events: list[Event], kind: type[Any]) -> int:
    return next(entry.seq for entry in events if type(entry.data) is kind)


def replaced(events: list[Event], place: int, **fields: Any) -> list[Event]:
    return [*events[:place], msgspec.structs.replace(events[place], **fields), *events[place + 1 :]]


def saying(text: Any) -> Change:
    def change(events: list[Event]) -> list[Event]:
        place = at(events, UserMessageAdded)
        message = UserMessage("said", (Text(text),))
        return replaced(events, place, data=UserMessageAdded(message))

    return change


def without(kind: type[Any]) -> Change:
    def change(events: list[Event]) -> list[Event]:
        place = at(events, kind)
        left = [*events[:place], *events[place + 1 :]]
        return [msgspec.structs.replace(entry, seq=seq, source_event_seqs=None) for seq, entry in enumerate(left)]

    return change


def unknown(ignorable: bool, data: Any) -> Change:
    return lambda events: [*events, Event("nobody/knows", len(events), 0, data, ignorable=ignorable)]


UNSOUND: dict[str, tuple[Change, str]] = {
    "no events": (lambda events: ["hello"], "event 0 must be a treadle.Event, not str"),
    "a first event that is missing": (lambda events: events[1:], "event number 1 stands where 0 is due (N6)"),
    "events in another order": (lambda events: [*events[2:4], *events[:2]], "stands where 0 is due"),
    "a turn that does not start": (without(TurnStart), "breaks a rule"),
    "a turn that does not end": (without(TurnEnd), "breaks a rule"),
    "an end inside a turn": (lambda events: events[: at(events, TurnEnd)], "ends inside turn 1; its first 1 events"),
    "an end inside a step": (lambda events: events[: at(events, UserMessageAdded)], "ends inside step 1.1"),
    "an end in the second turn": (lambda events: events[:-1], "ends inside turn 2; its first"),
    "text that UTF-8 cannot carry": (saying("x\ud83d"), "cannot be recorded"),
    "text that is none": (saying(5), "cannot be recorded"),
    "text that was not said": (saying("other"), "breaks a rule"),
    "a type that nobody knows": (unknown(False, {}), "'nobody/knows', which is unknown here and not ignorable"),
    "a number that JSON does not have": (unknown(True, {"n": math.nan}), "nan is not JSON"),
    "an object": (unknown(True, {"n": object()}), "cannot be recorded"),
}
"""Seeds that no session can begin with, made of sound ones, and what is said of them."""


@pytest.mark.rule("O13", "S1", "S5", "P3")
@pytest.mark.parametrize("kind", UNSOUND)
@pytest.mark.parametrize("length", ["short", "long"])
async def test_a_seed_that_could_not_be_resumed_is_refused_where_it_is_given(
    kind: str, length: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if length == "long":
        monkeypatch.setattr(durability, "LONG", 0)
    change, words = UNSOUND[kind]
    seed = change(await worked())
    store = MemoryStore()
    async with hosted("well", store=store) as host:
        with pytest.raises(MisuseError) as caught:
            await create(host, "b", seed=seed)
        assert str(caught.value).startswith("the seed of session 'b'")
        assert words in str(caught.value)
        assert host.agents.list() == []
        assert (await store.list()).sessions == ()
        handle = await create(host, "b")
        assert (await handle.agent.ask("still")).text == "well"


@pytest.mark.rule("O13", "S5")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "the header says that 3 events were inherited, and the log says 0 (S5); give that number"),
        (1_000, "1000 events cannot be inherited of a seed of"),
    ],
)
async def test_a_count_of_inherited_events_that_does_not_fit_the_seed_is_refused(given: int, words: str) -> None:
    seed = await worked()
    async with hosted() as host:
        with pytest.raises(MisuseError) as caught:
            await create(host, "b", seed=seed, inherited_event_count=given)
        assert words in str(caught.value)
        assert host.agents.list() == []


@pytest.mark.rule("O13", "S5")
async def test_the_seed_of_a_fork_needs_its_count() -> None:
    events = await worked()
    _, forked = fork(new_header("a", "/"), events, "f")
    async with hosted() as host:
        with pytest.raises(
            MisuseError, match=f"the log says {len(events)} .*give that number as inherited_event_count"
        ):
            await create(host, "b", seed=forked)
        handle = await create(host, "b", seed=forked, inherited_event_count=len(events))
        assert list(handle.agent.session.events) == forked


@pytest.mark.rule("O13", "S5", "P2")
async def test_whatever_seed_is_taken_is_resumed_and_what_is_wholly_inherited_is_marked() -> None:
    events = await worked()
    points = [0, 1, *[entry.seq + 1 for entry in events if type(entry.data) is TurnEnd]]
    store = MemoryStore()
    async with hosted(*["more"] * 20, store=store) as host:
        host.tools.register(look)
        for point in points:
            for name, count in ((f"{point}", None), (f"{point}-inherited", point)):
                handle = await create(host, name, seed=events[:point], inherited_event_count=count)
                begun = handle.agent.session.events
                assert list(begun)[:point] == events[:point]
                marks = [entry.data for entry in begun if type(entry.data) is EndSeed]
                assert marks == ([EndSeed(point)] if count else [])
                assert (await handle.agent.ask("on")).text == "more"
                await handle.dispose()
                again = await host.agents.resume(name, agent_options=OPTIONS)
                assert (await again.agent.ask("and on")).text == "more"


@pytest.mark.rule("O13", "S1", "S5")
async def test_a_session_holds_copies_of_its_seed() -> None:
    data = {"list": [1]}
    seed = [Event("nobody/knows", 0, 0, data, ignorable=True)]
    async with hosted() as host:
        handle = await create(host, "b", seed=iter(seed))
        data["list"].append(2)
        assert handle.agent.session.events[0].data == {"list": [1]}
