"""Presets: named compositions and the revisions that agents keep (O9, O11, O12)."""

import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.hosts import OPTIONS, create, hosted
from treadle import Agent, Host, MemoryStore, MisuseError, ScriptedModel, tool
from treadle.errors import ConfigError, PresetError, ScopeClosed
from treadle.hooks import AGENT_CREATED, AGENT_STATUS, PRESET_SELECTED, Scope
from treadle.host.presets.documents import parse_document
from treadle.presets import Composition, PresetDefinition, read_definition
from treadle.prompt.registry import prompt_parts
from treadle.session import PresetSelected

REVIEWER = """\
- persona: You review code.
- variable: {name: tone, value: kind}
- section: {name: rules, text: "Be {{tone}}.", order: 5}
- restrict: {deny: [write]}
"""


def text_of(agent: Agent | Scope) -> str | None:
    return prompt_parts(agent if isinstance(agent, Scope) else agent.scope).text


async def declare(host: Host, id: str = "reviewer", document: str = REVIEWER, **fields: Any) -> Any:
    return await host.presets.register(PresetDefinition(id, document, **fields))


@pytest.mark.rule("O9", "O11")
async def test_what_a_preset_registers_is_visible_to_its_agents_only() -> None:
    @tool
    def write() -> str:
        return "x"

    async with hosted() as host:
        host.tools.register(write)
        await declare(host)
        bound = await create(host, "a", agent_preset="reviewer")
        free = await create(host, "b")
        assert text_of(bound.agent) == "You review code.\n\nBe kind."
        assert text_of(free.agent) == ""
        assert bound.agent.tools.get("write") is None
        assert free.agent.tools.get("write") is write
        assert host.presets.composed_preset(bound.agent.scope) == "reviewer"
        assert host.presets.composed_preset(free.agent.scope) is None


@pytest.mark.rule("O11")
async def test_services_are_found_by_the_agents_bound_to_their_preset() -> None:
    async with hosted() as host:

        async def component(composition: Composition, start: int) -> None:
            await trio.lowlevel.checkpoint()
            composition.provide("counter", [start])

        host.presets.component("counter", component)
        await declare(host, "one", "- counter: {start: 1}")
        await declare(host, "two", "- counter: {start: 2}")
        first = await create(host, agent_preset="one")
        second = await create(host, agent_preset="two")
        free = await create(host)
        assert host.presets.service_for(first.agent, "counter") == [1]
        assert host.presets.service_for(second.agent, "counter") == [2]
        assert host.presets.service_for(first.agent, "other") is None
        assert host.presets.service_for(free.agent, "counter") is None


@pytest.mark.rule("O9", "O12")
async def test_a_live_agent_keeps_the_revision_it_started_with_until_it_ends() -> None:
    async with hosted() as host:
        closed: list[int] = []

        def component(composition: Composition, number: int) -> None:
            composition.provide("number", number)
            composition.scope.defer(lambda: closed.append(number))

        host.presets.component("number", component)
        dispose = await declare(host, "p", "- number: {number: 1}")
        first = await create(host, agent_preset="p")
        lease = await host.presets.acquire_scope("p")
        dispose()
        dispose()
        await declare(host, "p", "- number: {number: 2}")
        second = await create(host, agent_preset="p")
        assert host.presets.service_for(first.agent, "number") == 1
        assert host.presets.service_for(second.agent, "number") == 2
        await first.dispose()
        await wait_all_tasks_blocked()
        assert closed == []
        assert lease.service("number") == 1
        await lease.release()
        await lease.release()
        assert closed == [1]
        await second.dispose()
        await wait_all_tasks_blocked()
        assert closed == [1]
    assert closed == [1, 2]


@pytest.mark.rule("O11")
async def test_an_unused_revision_ends_when_its_declaration_is_disposed() -> None:
    async with hosted() as host:
        closed: list[bool] = []
        host.presets.component("x", lambda composition: composition.scope.defer(lambda: closed.append(True)))
        dispose = await declare(host, "p", "- x")
        dispose()
        await wait_all_tasks_blocked()
        assert closed == [True]
        with pytest.raises(PresetError, match="known: none"):
            await host.presets.resolve("p")


@pytest.mark.rule("O9", "N8")
@pytest.mark.parametrize(
    ("document", "diagnosis"),
    [
        ("- [", "YAML"),
        ("just text", "list of components"),
        ("- {persona: a, section: b}", "one name per entry"),
        ("- nobody: 1", "component 1 (nobody): no component is named 'nobody'"),
        ("- persona: You.\n- section: {text: x}", "component 2 (section)"),
        ("- no.such.module:thing", "cannot be imported"),
        ("- trio:__version__", "no function"),
        ("- persona: &a [x]\n- persona: *a", "aliases"),
        ("- {persona: 1, persona: 2}", "duplicate key"),
        ("- persona: 2024-01-01", "JSON"),
        ("- fail", "component 1 (fail): on fire"),
    ],
)
async def test_a_broken_preset_stays_listed_with_its_diagnosis(document: str, diagnosis: str) -> None:
    async with hosted() as host:
        closed: list[bool] = []

        async def fail(composition: Composition) -> None:
            composition.scope.defer(lambda: closed.append(True))
            raise ValueError("on fire")

        host.presets.component("fail", fail)
        await declare(host, "bad", document)
        info = await host.presets.resolve("bad")
        assert info.error is not None
        assert diagnosis in info.error
        assert [one.id for one in await host.presets.list()] == ["bad"]
        with pytest.raises(PresetError, match="broken"):
            await create(host, agent_preset="bad")
        with pytest.raises(PresetError, match="broken"):
            await host.presets.acquire_scope("bad")
        assert host.agents.list() == []
        assert closed == ([True] if document == "- fail" else [])


@pytest.mark.rule("O9", "O11")
async def test_b5_every_component_that_is_not_there_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("- persona: You.\n- nobody: {a: 1}\n-  section: {name: a, text: b}\n- no.such.module:thing\n")
    async with hosted() as host:
        await host.presets.register(read_definition(path))
        error = (await host.presets.resolve("mine")).error or ""
        first, second = error.splitlines()
        assert first.startswith(f"{path}:2:3: component 2 (nobody): no component is named 'nobody' (known: persona")
        assert second.startswith(f"{path}:4:3: component 4 (no.such.module:thing): 'no.such.module:thing' cannot be")
        (inventory,) = await host.presets.inventory()
        assert [row.state for row in inventory.components] == ["not started", "failed", "not started", "not started"]


@pytest.mark.rule("O11")
async def test_reading_presets_starts_no_agent() -> None:
    async with hosted() as host:
        await declare(host, "a", REVIEWER, title="Reviewer", description="Reads code")
        await declare(host, "b", "- persona: x\n- nobody\n- persona: y")
        host.presets.default, host.presets.chooser = "a", "locked"
        roster = await host.presets.roster()
        assert (roster.default, roster.chooser) == ("a", "locked")
        assert [(one.id, one.title, one.description) for one in roster.presets] == [
            ("a", "Reviewer", "Reads code"),
            ("b", "b", ""),
        ]
        assert (await host.presets.resolve()).id == "a"
        assert host.presets.read_document("a").document == REVIEWER
        inventory = await host.presets.inventory()
        assert [[(row.name, row.state) for row in one.components] for one in inventory] == [
            [("persona", "active"), ("variable", "active"), ("section", "active"), ("restrict", "active")],
            [("persona", "not started"), ("nobody", "failed"), ("persona", "not started")],
        ]
        assert host.agents.list() == []


@pytest.mark.rule("O11")
async def test_an_id_is_declared_once_and_safe_as_a_files_name() -> None:
    async with hosted() as host:
        await declare(host, "a")
        with pytest.raises(MisuseError, match="already"):
            await declare(host, "a")
        with pytest.raises(MisuseError, match="X2"):
            PresetDefinition("../a", "")
        with pytest.raises(PresetError, match="no default"):
            await host.presets.resolve()
        with pytest.raises(MisuseError, match="taken"):
            host.presets.component("persona", print)


@pytest.mark.rule("O12")
async def test_setup_mounts_a_preset_and_the_session_records_it() -> None:
    async with hosted() as host:
        await declare(host)
        host.presets.default = "reviewer"

        async def setup(scope: Scope, agent: Agent) -> None:
            assert (await host.presets.mount(scope)).id == "reviewer"
            assert (await host.presets.mount(scope, "reviewer")).id == "reviewer"

        handle = await create(host, setup=setup)
        recorded = [
            entry.data.preset for entry in handle.agent.session.events if isinstance(entry.data, PresetSelected)
        ]
        assert recorded == ["reviewer"]
        named = await create(host, agent_preset="reviewer")
        assert len(named.agent.session) == 0
        await declare(host, "other", "")
        with pytest.raises(MisuseError, match="recompose"):
            await host.presets.mount(named.agent.scope, "other")


@pytest.mark.rule("O12", "O6")
async def test_a_child_joins_exactly_the_revision_that_its_parent_holds() -> None:
    async with hosted() as host:
        dispose = await declare(host, "p", "- persona: one")
        parent = await create(host, agent_preset="p")
        dispose()
        await declare(host, "p", "- persona: two")
        seen: list[Any] = []

        async def setup(scope: Scope, agent: Agent) -> None:
            seen.append(host.presets.compose_from(scope, parent.agent.scope))

        child = await create(host, parent_agent=parent.agent, setup=setup)
        assert seen == ["p"]
        assert text_of(child.agent) == "one"
        free = await create(host)
        assert host.presets.compose_from((await create(host)).agent.scope, free.agent.scope) is None
        with pytest.raises(MisuseError, match="bound"):
            host.presets.compose_from(child.agent.scope, parent.agent.scope)


@pytest.mark.rule("O9", "O12", "H8")
async def test_a_blank_agent_may_choose_another_preset_before_its_first_turn() -> None:
    model = ScriptedModel()
    async with hosted(model=model) as host:
        told: list[Any] = []
        host.on(PRESET_SELECTED, lambda made: told.append((made.session_id, made.preset)))
        first = await declare(host, "one", "- persona: one")
        await declare(host, "two", "- persona: two")
        handle = await create(host, "a", agent_preset="one")
        first()
        assert await host.presets.select(handle.agent, "two") == "two"
        assert await host.presets.select(handle.agent, "two") == "two"
        assert told == [("a", "two")]
        assert text_of(handle.agent) == "two"
        events = [entry.data.preset for entry in handle.agent.session.events if isinstance(entry.data, PresetSelected)]
        assert events == ["two"]
        handle.agent.followup("go")
        await handle.agent.when_idle()
        assert model.requests[0].messages[0].role == "system"
        await declare(host, "three", "")
        with pytest.raises(MisuseError, match="had a turn"):
            await host.presets.select(handle.agent, "three")
        with pytest.raises(PresetError):
            await host.presets.select(handle.agent, "nobody")
        assert text_of(handle.agent) == "two"


@pytest.mark.rule("O9")
async def test_an_agent_without_a_preset_may_select_one() -> None:
    async with hosted() as host:
        await declare(host, "one", "- persona: one")
        handle = await create(host)
        await host.presets.select(handle.agent, "one")
        assert text_of(handle.agent) == "one"


@pytest.mark.rule("O12")
async def test_recompose_leaves_the_blank_check_to_its_caller() -> None:
    async with hosted() as host:
        await declare(host, "one", "- persona: one")
        await declare(host, "two", "- persona: two")
        handle = await create(host, agent_preset="one")
        handle.agent.followup("go")
        await handle.agent.when_idle()
        assert (await host.presets.recompose(handle.agent.scope, "two")).id == "two"
        assert text_of(handle.agent) == "two"
        assert host.presets.composed_preset(handle.agent.scope) == "two"
        await handle.dispose()
        with pytest.raises(ScopeClosed):
            await host.presets.recompose(handle.agent.scope, "one")


@pytest.mark.rule("O9", "P4")
async def test_a_resumed_session_is_bound_to_the_preset_it_records() -> None:
    async with MemoryStore() as store:
        async with hosted(store=store) as host:
            await declare(host, "one", "- persona: one")
            await declare(host, "two", "- persona: two")
            handle = await create(host, "a", agent_preset="one")
            await host.presets.select(handle.agent, "two")
            await handle.dispose()
        async with hosted(store=store) as host:
            await declare(host, "two", "- persona: two, later")
            bound: list[str | None] = []
            host.on(AGENT_CREATED, lambda made: bound.append(text_of(made.agent)))
            handle = await host.agents.resume("a", agent_options=OPTIONS)
            assert bound == ["two, later"]
            await handle.dispose()
        async with hosted(store=store) as host:
            await declare(host, "one", "")
            with pytest.raises(PresetError, match="'two'"):
                await host.agents.resume("a")
        async with hosted(store=store) as host:
            assert (await host.agents.resume("a")).agent.id == "a"


@pytest.mark.rule("O12")
async def test_a_lease_shows_what_the_preset_registered_beside_the_hosts() -> None:
    async with hosted() as host:
        host.prompt.section("host", "from the host")
        await declare(host, "one", "- persona: one")
        async with await host.presets.acquire_scope("one") as lease:
            assert text_of(lease.scope) == "one\n\nfrom the host"
            assert lease.preset.id == "one"


@pytest.mark.rule("O11", "H3")
async def test_listeners_of_a_preset_hear_its_agents_and_die_with_it() -> None:
    async with hosted() as host:
        heard: list[str] = []

        def component(composition: Composition) -> None:
            composition.scope.on(AGENT_STATUS, lambda told: heard.append(told.agent.id))

        host.presets.component("ears", component)
        await declare(host, "one", "- ears")
        bound, free = await create(host, "a", agent_preset="one"), await create(host, "b")
        for handle in (bound, free):
            handle.agent.followup("go")
            await handle.agent.when_idle()
        assert heard == ["a", "a"]


@pytest.mark.rule("O11")
async def test_a_cancelled_registration_leaves_nothing_behind() -> None:
    async with hosted() as host:
        closed: list[bool] = []

        async def slow(composition: Composition) -> None:
            composition.scope.defer(lambda: closed.append(True))
            await trio.sleep_forever()

        host.presets.component("slow", slow)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(declare, host, "one", "- slow")
            await wait_all_tasks_blocked()
            with pytest.raises(MisuseError, match="already"):
                await declare(host, "one")
            nursery.cancel_scope.cancel()
        assert closed == [True]
        await declare(host, "one", "- persona: one")


@pytest.mark.rule("O11")
async def test_reading_waits_until_a_preset_is_loaded() -> None:
    async with hosted() as host:
        gate = trio.Event()

        async def slow(composition: Composition) -> None:
            await gate.wait()

        host.presets.component("slow", slow)
        results: list[Any] = []

        async def read() -> None:
            results.append(await host.presets.list())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(declare, host, "one", "- slow")
            await wait_all_tasks_blocked()
            nursery.start_soon(read)
            await wait_all_tasks_blocked()
            assert results == []
            gate.set()
        assert [one.id for one in results[0]] == ["one"]


@pytest.mark.rule("O11", "X3")
def test_a_preset_file_is_named_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "code-review.yaml"
    path.write_text(f"# Code review\n{REVIEWER}")
    definition = read_definition(path)
    assert (definition.id, definition.title) == ("code-review", "Code review")
    with pytest.raises(ConfigError, match="no readable preset"):
        read_definition(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="longer"):
        parse_document("#" * 300_000)


@pytest.mark.rule("O11")
async def test_two_services_of_one_name_break_the_preset() -> None:
    async with hosted() as host:
        host.presets.component("x", lambda composition: composition.provide("s", 1))
        await declare(host, "one", "- x\n- x")
        assert "'s' already" in ((await host.presets.resolve("one")).error or "")


@pytest.mark.rule("O11")
async def test_a_component_is_known_until_it_is_taken_out() -> None:
    async with hosted() as host:
        undo = host.presets.component("mine", lambda composition: None)
        undo()
        undo()
        await declare(host, "one", "- mine")
        assert "no component is named 'mine'" in ((await host.presets.resolve("one")).error or "")


@pytest.mark.rule("O11")
async def test_a_preset_may_be_declared_and_taken_out_before_the_host_is_entered() -> None:
    host = Host()
    dispose = await declare(host, "one", "- persona: one")
    dispose()
    assert await host.presets.list() == ()


@pytest.mark.rule("O11", "N8")
@pytest.mark.parametrize("document", ["- persona: x", "- " * 3000 + "x"])
async def test_a_missing_library_or_a_hostile_document_is_a_diagnosis(
    document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted() as host:
        if len(document) < 100:
            monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
        await declare(host, "one", document)
        error = (await host.presets.resolve("one")).error or ""
        assert "pip install" in error or "nested deeper than 64" in error
