"""The default model: one selection, readable and savable (O10)."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.hosts import OPTIONS, hosted
from treadle import AgentOptions, MisuseError, ScriptedModel
from treadle.errors import ConfigError
from treadle.models import CallConfig
from treadle.presets import DefaultModel, ModelSelection, TomlProfile

FIRST = ModelSelection("scripted", "small")
SECOND = ModelSelection("scripted", "large", "high")


@pytest.mark.rule("O10")
async def test_reads_are_detached_and_a_save_replaces_the_whole() -> None:
    default = DefaultModel(SECOND)
    before = default.current()
    await default.save(FIRST)
    assert before == SECOND
    assert default.current() == FIRST
    assert default.current() is not None
    assert default.current().reasoning_effort is None  # type: ignore[union-attr]


@pytest.mark.rule("O10")
async def test_without_an_editor_the_configured_entry_stays() -> None:
    default = DefaultModel(FIRST)
    await default.save(SECOND)
    assert default.configured == FIRST
    assert DefaultModel().current() is None


@pytest.mark.rule("O10")
async def test_save_returns_once_the_editor_has_written_and_saves_go_one_by_one() -> None:
    class Slow:
        def __init__(self) -> None:
            self.gate = trio.Event()
            self.written: list[ModelSelection] = []

        async def write(self, selection: ModelSelection) -> None:
            await self.gate.wait()
            self.written.append(selection)

    editor = Slow()
    default = DefaultModel(FIRST, editor=editor)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(default.save, SECOND)
        await wait_all_tasks_blocked()
        nursery.start_soon(default.save, FIRST)
        await wait_all_tasks_blocked()
        assert default.current() == FIRST
        assert editor.written == []
        editor.gate.set()
    assert editor.written == [SECOND, FIRST]
    assert default.current() == FIRST


@pytest.mark.rule("O10", "N8")
async def test_a_failing_editor_is_told_and_changes_nothing() -> None:
    class Broken:
        async def write(self, selection: ModelSelection) -> None:
            raise OSError("disk full")

    default = DefaultModel(FIRST, editor=Broken())
    with pytest.raises(OSError, match="disk full"):
        await default.save(SECOND)
    assert default.current() == FIRST


@pytest.mark.rule("O10")
@pytest.mark.parametrize("bad", [("", "m"), ("p", ""), ("p", None), ("p", "m", "")])
async def test_a_selection_names_provider_and_model(bad: tuple[Any, ...]) -> None:
    with pytest.raises(MisuseError, match="O10"):
        ModelSelection(*bad)
    with pytest.raises(MisuseError, match="ModelSelection"):
        await DefaultModel().save("gpt")  # type: ignore[arg-type]


@pytest.mark.rule("O10", "Q4")
async def test_agents_that_name_no_route_use_the_selection_of_their_creation() -> None:
    model = ScriptedModel()
    async with hosted(model=model, default_model=DefaultModel(FIRST)) as host:
        first = await host.agents.create()
        await host.default_model.save(SECOND)
        second = await host.agents.create(agent_options=AgentOptions(max_tokens=7))
        named = await host.agents.create(agent_options=OPTIONS)
        for handle in (first, second, named):
            handle.agent.followup("go")
            await handle.agent.when_idle()
        configs = [request.config for request in model.requests]
        assert configs == [
            CallConfig("scripted", "small"),
            CallConfig("scripted", "large", 7, "high"),
            CallConfig("scripted", "m"),
        ]


@pytest.mark.rule("O10")
async def test_a_profile_keeps_the_selection_and_leaves_the_rest_of_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "profile.toml"
    profile = TomlProfile(path)
    assert profile.read() is None
    await profile.write(SECOND)
    assert TomlProfile(path).read() == SECOND
    path.write_text("# mine\n[other]\nkey = 1 # kept\n\n[default_model]\nprovider = 'x'\nmodel = 'y'\n")
    path.chmod(0o640)
    await profile.write(FIRST)
    assert profile.read() == FIRST
    text = path.read_text()
    assert "# mine" in text
    assert "key = 1 # kept" in text
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in path.parent.iterdir()] == ["profile.toml"]


@pytest.mark.rule("O10", "N8")
@pytest.mark.parametrize("text", ["= nonsense", "[default_model]\nprovider = 5", "default_model = 3"])
async def test_a_broken_profile_is_named_and_never_written_over(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"profile\.toml"):
        TomlProfile(path).read()
    if text.startswith("="):
        with pytest.raises(ConfigError, match="not written over"):
            await TomlProfile(path).write(FIRST)
        assert path.read_text() == text


@pytest.mark.rule("O10")
def test_a_profile_without_a_selection_has_none(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    path.write_text("[other]\nx = 1\n")
    assert TomlProfile(path).read() is None


@pytest.mark.rule("O10", "N8")
async def test_a_profile_that_cannot_be_replaced_leaves_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    path.mkdir()
    with pytest.raises(OSError, match=r"profile\.toml"):
        await TomlProfile(path).write(FIRST)
    assert os.listdir(tmp_path) == ["profile.toml"]  # noqa: PTH208  # nothing else waits in this test


@pytest.mark.rule("O10", "N8")
async def test_a_write_that_fails_leaves_the_old_file_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "profile.toml"
    await TomlProfile(path).write(FIRST)

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        await TomlProfile(path).write(SECOND)
    assert TomlProfile(path).read() == FIRST
    assert os.listdir(tmp_path) == ["profile.toml"]  # noqa: PTH208  # nothing else waits in this test
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    with pytest.raises(ConfigError, match="pip install"):
        await TomlProfile(path).write(SECOND)
