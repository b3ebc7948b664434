"""Every door of a session is walked from asyncio, too: the bridge lets nothing in that its host's own doors refuse (D3, S1)."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tests.asyncio.test_bridge import create
from tests.doors import CALLS, TEXTS_WITHIN, VALUES, VALUES_WITHIN
from tests.makings import MAKINGS
from tests.stage import note
from treadle import Host, MisuseError, ScriptedModel, Tool, tool
from treadle.asyncio import Bridge
from treadle.errors import PresetError
from treadle.hooks import LLM_STREAM
from treadle.host.subagent import Delegation
from treadle.models import BlockEnd, BlockStart, Finish, Finished
from treadle.session import TurnEnd, decode_event, encode_event

UNCARRIED = "x\ud83d"
"""Text that UTF-8 cannot carry."""
UNRECORDABLE: dict[str, Any] = {"NaN": math.nan, "text that UTF-8 cannot carry": [UNCARRIED], "an object": object()}
"""Values that JSON cannot hold."""
CALLING = [BlockStart(0, "tool-call", "c", "work"), BlockEnd(0), Finished(Finish("tool-calls"))]

USED: set[tuple[str, str]] = set()
"""Which methods of the bridge's classes were used, by name of class and method."""


# --- the stage of the doors, over a bridge ----------------------------------------------------------------------------


class Noted:
    """A part of the bridge, as it is; what is used of it is noted."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.part, name)
        if inspect.ismethod(found):
            USED.add((type(self.part).__name__, name))
        elif type(found).__module__.startswith("treadle.asyncio"):
            return Noted(found)
        return found


def in_asyncio(function: Any) -> Any:
    """An asyncio function that does the same; what is no function stays as it is."""
    if not callable(function):
        return function

    async def here(*args: Any) -> Any:
        await asyncio.sleep(0)
        made = function(*args)
        return await made if inspect.isawaitable(made) else made

    return here


class Scoped:
    """Listens through the bridge; streams are the host's, as adapters are."""

    def __init__(self, over: OverBridge) -> None:
        self.over = over

    def on(self, point: Any, listener: Any) -> None:
        heard = listener if point is LLM_STREAM else in_asyncio(listener)
        self.over.replies.append(self.over.bridged.hooks.on(point, heard))


class Prompted:
    """Registers prompt parts through the bridge, with providers of asyncio."""

    def __init__(self, over: OverBridge) -> None:
        self.over = over

    def __getattr__(self, name: str) -> Callable[..., Any]:
        register = getattr(self.over.bridged.prompt, name)

        def registered(*args: Any) -> Any:
            reply = register(*[in_asyncio(given) for given in args])
            self.over.replies.append(reply)
            return reply

        return registered


class Tooled:
    """Registers tools and guards through the bridge, of asyncio functions."""

    def __init__(self, over: OverBridge) -> None:
        self.over = over

    def register(self, made: Tool) -> None:
        given = made if isinstance(made.execute, Delegation) else self._brought(made)
        self.over.replies.append(self.over.bridged.tools.register(given))

    def _brought(self, made: Tool) -> Tool:
        async def work(**arguments: Any) -> Any:
            await asyncio.sleep(0)
            return made.execute(arguments, None)  # type: ignore[arg-type]

        own = {"name": made.name, "render": made.render, "final_content": made.final_content}
        brought: Tool = self.over.bridge.tool(work, parameters=made.parameters, **own)
        return brought

    def guard(self, guard: Any) -> None:
        self.over.replies.append(self.over.bridged.tools.guard(in_asyncio(guard)))


class Sided:
    """The agent of the stage: the bridge's, with what the doors register wrapped."""

    def __init__(self, over: OverBridge) -> None:
        self.over = over
        self.scope, self.prompt, self.tools = Scoped(over), Prompted(over), Tooled(over)

    @property
    def session(self) -> Any:
        return self

    def append(self, data: Any) -> Any:
        return self.over.bridge.call(self.over.bridged.native.session.append, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.over.bridged, name)


class OverBridge:
    """What a door needs of a stage, over a bridge: an agent, a host, and what was registered so far."""

    def __init__(self, bridge: Bridge, agent: Any) -> None:
        self.bridge, self.bridged = Noted(bridge), Noted(agent)
        self.replies: list[Any] = []
        self.agent = Sided(self)
        self.agents, self.presets, self.host = self.bridge.agents, self.bridge.presets, self
        self.models, self.default_model = self.bridge.models, self.bridge.default_model
        self.native = agent.native

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "approver":
            self.bridge.host.approver = self.bridge.brought(in_asyncio(value))
        else:
            super().__setattr__(name, value)

    async def enter(self, door: Any, given: Any) -> None:
        made = door(self, given)
        for one in (made, *self.replies):
            if inspect.isawaitable(one):
                await one

    def events(self) -> list[Any]:
        return list(self.native.session.events)


Body = Callable[[OverBridge], Coroutine[Any, Any, None]]


def over_a_bridge(*script: Any) -> Callable[[Body], None]:
    @tool
    def work() -> str:
        """Works."""
        return "worked"

    def run(body: Body) -> None:
        async def main() -> None:
            host = Host()
            host.models.register("scripted", ScriptedModel(script))
            host.tools.register(work)
            async with asyncio.timeout(60), Bridge(host) as bridge:
                await body(OverBridge(bridge, (await create(bridge)).agent))

        asyncio.run(main())

    return run


def refused(door: Any, given: Any) -> None:
    @over_a_bridge("well")
    async def _(s: OverBridge) -> None:
        await s.bridged.inbox.append("next-turn", note("pending"))
        before = s.events()
        with pytest.raises(MisuseError):
            await s.enter(door, given)
        assert s.events() == before
        await s.bridged.inbox.clear()
        assert (await s.bridged.ask("go")).text == "well"
        stored_whole(s)


def survived(door: Any, given: Any) -> None:
    @over_a_bridge(CALLING, *["done"] * 4)
    async def _(s: OverBridge) -> None:
        await s.enter(door, given)
        s.bridged.followup("go")
        await s.bridged.when_idle()
        assert len([entry for entry in s.events() if type(entry.data) is TurnEnd]) == 1
        stored_whole(s)


def stored_whole(s: OverBridge) -> None:
    for entry in s.events():
        assert decode_event(encode_event(entry)) == entry


# --- the walks --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D3", "S1")
@pytest.mark.parametrize("door", CALLS)
def test_text_that_utf8_cannot_carry_is_refused_at_every_door_of_the_bridge(door: str) -> None:
    refused(CALLS[door], UNCARRIED)


@pytest.mark.rule("D3", "S1")
@pytest.mark.parametrize("value", UNRECORDABLE)
@pytest.mark.parametrize("door", VALUES)
def test_a_value_that_json_cannot_carry_is_refused_at_every_door_of_the_bridge(door: str, value: str) -> None:
    refused(VALUES[door], UNRECORDABLE[value])


@pytest.mark.rule("D3", "S1")
@pytest.mark.parametrize("door", TEXTS_WITHIN)
def test_text_that_utf8_cannot_carry_never_enters_a_turns_record_over_the_bridge(door: str) -> None:
    survived(TEXTS_WITHIN[door], UNCARRIED)


@pytest.mark.rule("D3", "S1")
@pytest.mark.parametrize("value", UNRECORDABLE)
@pytest.mark.parametrize("door", VALUES_WITHIN)
def test_a_value_that_json_cannot_carry_never_enters_a_turns_record_over_the_bridge(door: str, value: str) -> None:
    survived(VALUES_WITHIN[door], UNRECORDABLE[value])


async def anything(**_: Any) -> None:
    """Does nothing."""


TOOLS: dict[str, Callable[[Any, Any, str], Any]] = {
    "a tool's name of the bridge": lambda host, s, text: s.bridge.tool(anything, name=text, parameters={}),
    "a tool's description of the bridge": lambda host, s, text: s.bridge.tool(
        anything, description=text, parameters={}
    ),
    "a tool's schema of the bridge": lambda host, s, text: s.bridge.tool(anything, parameters={"title": text}),
}
ALL_MAKINGS = {**MAKINGS, **TOOLS}


@pytest.mark.rule("S1", "S8", "R1", "K1", "O11")
@pytest.mark.parametrize("door", ALL_MAKINGS)
def test_text_that_utf8_cannot_carry_makes_no_session_and_no_part_of_a_prompt_over_the_bridge(door: str) -> None:
    @over_a_bridge()
    async def _(s: OverBridge) -> None:
        with pytest.raises((MisuseError, PresetError)):
            await s.enter(lambda over, text: ALL_MAKINGS[door](over, over, text), UNCARRIED)
        assert len(s.bridge.agents.list()) == 1
        assert s.events() == []
        assert await s.bridge.presets.list() == ()


@pytest.mark.parametrize("door", TEXTS_WITHIN)
def test_each_door_of_the_bridge_is_one_what_it_is_given_is_recorded(door: str) -> None:
    @over_a_bridge(CALLING, *["done"] * 4)
    async def _(s: OverBridge) -> None:
        recorded = b""

        def record(told: Any) -> None:
            nonlocal recorded
            recorded += encode_event(told.event)

        await s.bridge.on("session/event", record)
        await s.enter(TEXTS_WITHIN[door], "given")
        s.bridged.followup("go")
        await s.bridged.when_idle()
        assert b"given" in recorded


# --- no door is missing -----------------------------------------------------------------------------------------------

NO_DOORS: dict[str, set[tuple[str, str]]] = {
    "look up by a name, and record nothing of it": {
        ("BridgedAgents", "get"),
        ("BridgedAgents", "is_owned_by"),
        ("BridgedAgents", "resume"),
        ("BridgedHooks", "point"),
        ("BridgedInbox", "remove"),
        ("BridgedModels", "prepare"),
        ("BridgedModels", "route"),
        ("BridgedPresets", "acquire_scope"),
        ("BridgedPresets", "read_document"),
        ("BridgedPresets", "recompose"),
        ("BridgedPresets", "resolve"),
        ("BridgedPresets", "service_for"),
        ("BridgedTools", "get"),
        ("BridgedTools", "restrict"),
        ("BridgedTools", "set_order"),
    },
    "take nothing that is recorded": {
        ("BridgedAgent", "compact"),
        ("BridgedAgent", "converging"),
        ("BridgedAgent", "events"),
        ("BridgedAgent", "frames"),
        ("BridgedAgent", "reserve_turn_admission"),
        ("BridgedAgent", "run_maintenance"),
        ("BridgedAgent", "stream"),
        ("BridgedAgent", "when_idle"),
        ("BridgedAgents", "children"),
        ("BridgedAgents", "current_initiator"),
        ("BridgedAgents", "list"),
        ("BridgedAgents", "require_initiator"),
        ("BridgedAgents", "roots"),
        ("BridgedDefaultModel", "current"),
        ("BridgedDefaultModel", "fill"),
        ("BridgedInbox", "clear"),
        ("BridgedPresets", "composed_preset"),
        ("BridgedPresets", "inventory"),
        ("BridgedPresets", "list"),
        ("BridgedPresets", "roster"),
        ("BridgedPrompt", "own_persona"),
        ("BridgedTools", "list"),
    },
}
"""Methods that are no doors, by the reason."""


def test_every_method_of_the_bridge_through_which_something_is_recorded_is_a_door() -> None:
    @over_a_bridge()
    async def _(s: OverBridge) -> None:
        USED.clear()
        doors = [*CALLS.values(), *TEXTS_WITHIN.values(), *[partial(make, s) for make in ALL_MAKINGS.values()]]
        for door in doors:
            with suppress(MisuseError, PresetError):
                made: Any = door(s, UNCARRIED)
                if inspect.isawaitable(made):
                    await made
        await asyncio.gather(*s.replies, return_exceptions=True)
        parts = [s.bridged.part, s.agents.part, s.presets.part, s.models.part, s.default_model.part]
        parts += [getattr(s.bridged, name).part for name in ("inbox", "prompt", "tools", "hooks")]
        public = {
            (type(part).__name__, name)
            for part in parts
            for name, _ in inspect.getmembers(type(part), inspect.isfunction)
            if not name.startswith("_")
        }
        reasoned = frozenset().union(*NO_DOORS.values())
        assert reasoned <= public
        assert public - reasoned - USED == set()
