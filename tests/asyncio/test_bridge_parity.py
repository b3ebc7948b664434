"""The bridge has what the host's side has: every public name, with the same parameters, or a reason why not."""

import asyncio
import inspect
from collections.abc import Iterable
from typing import Any

import pytest

from tests.hosts import OPTIONS
from treadle import AgentHandle, Host, MemoryStore, ScriptedModel, message
from treadle.asyncio import Bridge, BridgedReceipt, Reply
from treadle.presets import PresetDefinition
from treadle.session import SessionStore

ON_THE_BRIDGE = (
    "agents",
    "declared",
    "default_model",
    "hooks",
    "models",
    "on",
    "presets",
    "prompt",
    "sessions",
    "store",
    "tools",
)
"""What a bridge has of its host: what concerns agents. The rest is the host's own life, and that of its loop."""

LEFT_OUT: dict[str, dict[str, frozenset[str]]] = {
    "Agents": {
        "factories, and agents made by hand, live in the host's loop: use them in Bridge.call and Bridge.run": frozenset(
            {"set_factory", "check_free", "enter", "announce", "register", "scope"}
        ),
        "the loop's own bookkeeping of owners and ends": frozenset(
            {"check_parent", "adopt_child", "end_children", "close", "begin_closing", "drained"}
        ),
        "the host's end waits for such a boundary, in its own loop": frozenset({"with_initiator", "without_initiator"}),
    },
    "Agent": {"what drives it lives in the host's loop": frozenset({"engine"})},
    "Receipt": {"its loop tells the fate and what the fate waits for": frozenset({"reach", "hold_for"})},
    "Presets": {
        "a step of setup, which is a function of the host's thread": frozenset({"mount", "compose_from", "prepare"}),
    },
    "SessionStore": {
        "a writer belongs to the host's loop: agents.create and agents.resume write": frozenset(
            {"create", "open_write"}
        ),
        "who opened the store closes it, and that is not the bridge": frozenset({"close"}),
    },
}
"""Names that the bridge does not have, by the class of the host's side and the reason."""

DIFFERENT: dict[tuple[str, str], str] = {
    ("Agent", "converging"): "a method: it tells the time of the host's clock, which only that thread can read",
}
"""Names whose kind differs, and why."""

NOT_SET: dict[tuple[str, str], str] = {
    ("Agent", "system_prompt"): "an assignment cannot answer: prompt.replace_persona sets it, and does",
}
"""Properties that can be set on the host's side only, and why."""


def public(given: object) -> list[str]:
    return [name for name in dir(given) if not name.startswith("_") or name in ("__len__", "_repr_html_")]


def is_method(given: object, name: str) -> bool:
    return inspect.isroutine(inspect.getattr_static(given, name))


async def pairs(bridge: Bridge) -> list[tuple[str, object, object]]:
    """One of each, as the host has it and as the bridge has it."""
    host = bridge.host
    handle = await bridge.agents.create(session_id="a", agent_options=OPTIONS)
    agent = handle.agent
    natives: list[AgentHandle] = []

    async def make() -> None:
        natives.append(await host.agents.create(session_id="b", agent_options=OPTIONS))

    await bridge.run(make)
    await bridge.presets.register(PresetDefinition("plain", "- persona: Plain."))
    receipt = agent.inject(message("x", id="x"))
    lease = await bridge.presets.acquire_scope("plain")
    return [
        ("Agent", agent.native, agent),
        ("AgentHandle", natives[0], handle),
        ("Agents", host.agents, bridge.agents),
        ("DefaultModel", host.default_model, bridge.default_model),
        ("HookRegistry", host.hooks, bridge.hooks),
        ("Inbox", agent.native.inbox, agent.inbox),
        ("Lease", await bridge.run(host.presets.acquire_scope, "plain"), lease),
        ("Models", host.models, bridge.models),
        ("Presets", host.presets, bridge.presets),
        ("PromptRegistry", host.prompt, bridge.prompt),
        ("Receipt", await receipt, receipt),
        ("Sessions", host.sessions, bridge.sessions),
        ("SessionStore", type("Promised", (SessionStore,), {})(), bridge.store),
        ("ToolRegistry", host.tools, bridge.tools),
    ]


def found() -> list[tuple[str, object, object]]:
    async def main() -> list[tuple[str, object, object]]:
        host = Host(store=MemoryStore())
        host.models.register("scripted", ScriptedModel())
        async with asyncio.timeout(20), Bridge(host) as bridge:
            return await pairs(bridge)

    return asyncio.run(main())


@pytest.fixture(scope="module")
def both() -> list[tuple[str, object, object]]:
    return found()


def shared(both: Iterable[tuple[str, object, object]]) -> list[tuple[str, str, object, object]]:
    return [(kind, name, here, there) for kind, here, there in both for name in public(here) if hasattr(there, name)]


def test_every_public_name_of_the_hosts_side_is_on_the_bridge_or_left_out_for_a_reason(both: Any) -> None:
    for kind, here, there in both:
        missing = {name for name in public(here) if not hasattr(there, name)}
        assert missing == frozenset().union(*LEFT_OUT.get(kind, {}).values()), kind
    assert {kind for kind, _, _ in both} >= set(LEFT_OUT)


def test_every_method_takes_the_same_parameters_with_the_same_defaults(both: Any) -> None:
    for kind, name, here, there in shared(both):
        if (kind, name) in DIFFERENT:
            continue
        assert is_method(here, name) == is_method(there, name), f"{kind}.{name}"
        if is_method(here, name):
            wanted, got = [
                [(one.name, one.kind, one.default) for one in inspect.signature(getattr(of, name)).parameters.values()]
                for of in (here, there)
            ]
            assert got == wanted, f"{kind}.{name}"


def test_what_is_awaited_is_awaited_and_what_acts_in_the_call_does_so_on_the_bridge(both: Any) -> None:
    for kind, name, here, there in shared(both):
        if is_method(here, name) and (kind, name) not in DIFFERENT:
            awaited = inspect.iscoroutinefunction(getattr(here, name))
            assert inspect.iscoroutinefunction(getattr(there, name)) == awaited, f"{kind}.{name}"


def test_what_is_given_back_is_a_reply_wherever_the_hosts_thread_is_asked(both: Any) -> None:
    at_once: set[tuple[str, str]] = set()
    for kind, name, _, there in shared(both):
        if is_method(there, name) and not inspect.iscoroutinefunction(getattr(there, name)):
            answer: str = inspect.signature(getattr(there, name)).return_annotation
            if not answer.startswith(("Reply[", "BridgedReceipt")):
                at_once.add((kind, name))
    assert at_once == {
        ("Agent", "_repr_html_"),
        *[("Agents", name) for name in ("__len__", "children", "current_initiator", "get", "is_owned_by", "list")],
        *[("Agents", name) for name in ("require_initiator", "roots")],
        *[("DefaultModel", name) for name in ("current", "fill")],
        ("HookRegistry", "point"),
        ("Lease", "service"),
        ("Models", "route"),
        *[("Presets", name) for name in ("composed_preset", "read_document", "service_for")],
        ("PromptRegistry", "own_persona"),
        *[("Sessions", name) for name in ("get", "list")],
    }
    assert issubclass(BridgedReceipt, Reply)


def test_what_can_be_set_there_can_be_set_here_or_not_for_a_reason(both: Any) -> None:
    fixed: set[tuple[str, str]] = set()
    for kind, name, here, there in shared(both):
        hers, ours = inspect.getattr_static(type(here), name, None), inspect.getattr_static(type(there), name, None)
        if isinstance(hers, property) and hers.fset is not None and not (isinstance(ours, property) and ours.fset):
            fixed.add((kind, name))
    assert fixed == set(NOT_SET)


def test_the_bridge_has_what_concerns_agents_of_its_host() -> None:
    host = Host()
    bridge = Bridge(host)
    for name in ON_THE_BRIDGE:
        assert hasattr(host, name), name
        assert hasattr(bridge, name), name
    wanted, got = [list(inspect.signature(of.on).parameters.values()) for of in (host, bridge)]
    assert [(one.name, one.kind) for one in got] == [(one.name, one.kind) for one in wanted]
    assert bridge.store is None
    assert bridge.declared == {}
    assert bridge.agents.has_factory
    assert bridge.default_model.current() is bridge.default_model.configured is None
    assert bridge.default_model.fill(OPTIONS) is OPTIONS
