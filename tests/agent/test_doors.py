"""What cannot be recorded is refused or repaired at every door, and the session goes on and is stored whole (D3, S1)."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.doors import CALLS, TEXTS_WITHIN, VALUES, VALUES_WITHIN
from tests.makings import COMPOSED, MAKINGS
from tests.stage import Stage, note, stage
from treadle import AgentOptions, Host, MisuseError, ScriptedModel, tool
from treadle.errors import PresetError
from treadle.hooks import SESSION_EVENT, SessionEventAdded
from treadle.models import BlockEnd, BlockStart, Finish, Finished
from treadle.presets import PresetDefinition
from treadle.session import decode_event, encode_event
from treadle_adapters.stores.jsonl import JsonlStore

UNCARRIED = {"half of a pair": "x\ud83d", "the other half": "\ude00x", "an undecodable byte": "caf\udce9"}
"""Text that UTF-8 cannot carry."""


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def endless() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


UNRECORDABLE: dict[str, Any] = {
    "NaN": math.nan,
    "infinity": -math.inf,
    "an integer beyond 64 bits": 2**64,
    "text that UTF-8 cannot carry": {"a": ["x\ud83d"]},
    "a key that UTF-8 cannot carry": {"x\ud83d": 1},
    "a key that is no text": {1: 2},
    "nesting beyond the bound": deep(300),
    "nesting beyond the stack": deep(100_000),
    "a value that contains itself": endless(),
    "an object": object(),
}
"""Values that JSON does not carry losslessly."""


@tool
def work() -> str:
    """Works."""
    return "worked"


CALLING = [BlockStart(0, "tool-call", "c", "work"), BlockEnd(0), Finished(Finish("tool-calls"))]


def stored_whole(s: Stage) -> None:
    """Everything in the log is read back as it is."""
    for entry in s.agent.session.events:
        assert decode_event(encode_event(entry)) == entry


async def refused(door: Any, given: Any) -> None:
    async with stage("well") as s:
        s.agent.inbox.append("next-turn", note("pending"))
        before = list(s.agent.session.events)
        with pytest.raises(MisuseError):
            door(s, given)
        assert list(s.agent.session.events) == before
        s.agent.inbox.clear()
        await s.ask()
        assert s.ends == ["completed"]
        stored_whole(s)


async def survived(door: Any, given: Any) -> None:
    async with stage(CALLING, *["done"] * 4, tools=[work]) as s:
        door(s, given)
        with trio.fail_after(20):
            await s.ask()
        assert len(s.ends) == 1
        stored_whole(s)


@pytest.mark.rule("D3", "S1")
@pytest.mark.parametrize("text", UNCARRIED)
@pytest.mark.parametrize("door", CALLS)
async def test_text_that_utf8_cannot_carry_is_refused_at_every_door(door: str, text: str) -> None:
    await refused(CALLS[door], UNCARRIED[text])


@pytest.mark.rule("D3", "S1", "X3")
@pytest.mark.parametrize("value", UNRECORDABLE)
@pytest.mark.parametrize("door", VALUES)
async def test_a_value_that_json_cannot_carry_is_refused_at_every_door(door: str, value: str) -> None:
    await refused(VALUES[door], UNRECORDABLE[value])


@pytest.mark.rule("D3", "S1")
@pytest.mark.parametrize("text", UNCARRIED)
@pytest.mark.parametrize("door", TEXTS_WITHIN)
async def test_text_that_utf8_cannot_carry_never_enters_a_turns_record(door: str, text: str) -> None:
    await survived(TEXTS_WITHIN[door], UNCARRIED[text])


@pytest.mark.rule("D3", "S1", "X3")
@pytest.mark.parametrize("value", UNRECORDABLE)
@pytest.mark.parametrize("door", VALUES_WITHIN)
async def test_a_value_that_json_cannot_carry_never_enters_a_turns_record(door: str, value: str) -> None:
    await survived(VALUES_WITHIN[door], UNRECORDABLE[value])


@pytest.mark.rule("S1", "S8", "R1", "K1")
@pytest.mark.parametrize("text", UNCARRIED)
@pytest.mark.parametrize("door", MAKINGS)
async def test_text_that_utf8_cannot_carry_makes_no_session_and_no_part_of_a_prompt(door: str, text: str) -> None:
    async with stage() as s:

        async def make() -> None:
            made = MAKINGS[door](s.host, s, UNCARRIED[text])
            if inspect.isawaitable(made):
                await made

        with pytest.raises((MisuseError, PresetError)):
            await make()
        assert len(s.host.agents.list()) == 1
        assert len(s.agent.session) == 0
        assert await s.host.presets.list() == ()


@pytest.mark.rule("S1", "O9", "O11")
@pytest.mark.parametrize("text", UNCARRIED)
@pytest.mark.parametrize("door", COMPOSED)
async def test_a_preset_with_text_that_utf8_cannot_carry_is_broken_and_says_so(door: str, text: str) -> None:
    async with stage() as s:
        s.host.presets.component("mine", lambda composition: COMPOSED[door](composition, UNCARRIED[text]))
        await s.host.presets.register(PresetDefinition("p", "- mine"))
        (preset,) = await s.host.presets.list()
        assert preset.error is not None
        assert preset.error.startswith("p:1:3: component 1 (mine): ")
        with pytest.raises(PresetError, match="is broken"):
            await s.host.presets.select(s.agent, "p")
        assert len(s.agent.session) == 0


@pytest.mark.rule("S1", "O11")
@pytest.mark.parametrize("document", [r'- persona: "x\ud83d"', r'- section: {name: a, text: "\ude00"}'])
async def test_a_preset_whose_document_escapes_half_of_a_pair_is_broken_and_says_so(document: str) -> None:
    async with stage() as s:
        await s.host.presets.register(PresetDefinition("p", document))
        (preset,) = await s.host.presets.list()
        assert "lone surrogate" in (preset.error or "")


TABLES = {"call": CALLS, "value": VALUES, "turn": TEXTS_WITHIN, "value of a turn": VALUES_WITHIN}
UNRECORDED = "a call's arguments"
"""What a hook makes of them goes to the tool, and is not recorded."""
RECORDING = [(table, name) for table, doors in TABLES.items() for name in doors if name != UNRECORDED]


@pytest.mark.parametrize(("table", "name"), RECORDING)
async def test_each_door_is_one_what_it_is_given_is_recorded(table: str, name: str) -> None:
    async with stage(CALLING, *["done"] * 4, tools=[work]) as s:
        s.agent.inbox.append("next-turn", note("pending"))
        recorded = b""

        def record(told: SessionEventAdded) -> None:
            nonlocal recorded
            recorded += encode_event(told.event)

        s.host.on(SESSION_EVENT, record)  # of its children, too
        TABLES[table][name](s, "given")
        await s.ask()
        cancelled = name == "a cancel's cause"  # nothing ran
        assert b"given" in recorded or cancelled


@pytest.mark.rule("D3", "P1", "P8")
async def test_a_session_that_was_offered_what_no_store_takes_is_stored_whole(tmp_path: Path) -> None:
    async with JsonlStore(tmp_path) as store, Host(store=store) as host:
        host.models.register("scripted", ScriptedModel(["one", "two"]))
        handle = await host.agents.create(agent_options=AgentOptions("scripted", "m"))
        s = Stage(host, ScriptedModel(), handle)
        s.agent.inbox.append("next-turn", note("pending"))
        for door in CALLS.values():
            with pytest.raises(MisuseError):
                door(s, "x\ud83d")
        await s.ask()
        count = len(s.agent.session)
        await handle.dispose()
        assert count
        assert len((await store.open_read(s.agent.id)).events) >= count
