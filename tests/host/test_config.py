"""Declared agents: checked as a whole before anything starts, then started one by one (O8)."""

from pathlib import Path
from typing import Any, Self

import pytest

from treadle import Host, MemoryStore, ScriptedModel
from treadle.errors import ConfigError
from treadle.hooks import AGENT_CREATED, CONFIG_START_FAILED
from treadle.host.config import parse_config
from treadle.presets import load_config
from treadle.session import PresetSelected

GOOD = """\
[host]
persona = "You are the default."
tool_order = ["read", "write"]

[limits]
max_steps_per_turn = 20
max_parallel_tool_calls = 3
max_delegation_depth = 2

[models.scripted]
use = "scripted"
options = { default = "Hello." }

[default_model]
provider = "scripted"
model = "small"
reasoning_effort = "low"

[presets]
files = ["presets/*.yaml"]
default = "reviewer"

[[agents]]
id = "first"
session_id = "s-1"
provider = "scripted"
model = "large"
max_tokens = 99
cwd = "work"

[[agents]]
id = "second"
"""


def written(folder: Path, text: str = GOOD) -> Path:
    (folder / "presets").mkdir(exist_ok=True)
    (folder / "presets" / "reviewer.yaml").write_text("- section: {name: r, text: Review.}")
    path = folder / "treadle.toml"
    path.write_text(text)
    return path


@pytest.mark.rule("O8", "O9", "O10")
async def test_a_file_declares_agents_limits_models_and_presets(tmp_path: Path) -> None:
    async with Host.from_config(written(tmp_path)) as host:
        assert list(host.declared) == ["first", "second"]
        first, second = host.declared["first"], host.declared["second"]
        assert first.id == "s-1"
        assert (first.options.model, first.options.max_tokens, first.options.max_steps_per_turn) == ("large", 99, 20)
        assert (second.options.model, second.options.reasoning_effort) == ("small", "low")
        assert first.options.max_parallel_tool_calls == 3
        assert first.session.header.cwd == str(tmp_path / "work")
        assert second.session.header.cwd == str(tmp_path)
        assert host.presets.composed_preset(second.scope) == "reviewer"
        assert host.max_delegation_depth == 2
        assert host.agents.roots() == [first, second]
        second.followup("hi")
        await second.when_idle()
        history = second.session.history()
        assert history[0].text == "You are the default.\n\nReview."  # type: ignore[union-attr]
        assert history[-1].text == "Hello."  # type: ignore[union-attr]
        assert [one.type for one in second.session.events if isinstance(one.data, PresetSelected)] == []


@pytest.mark.rule("O8")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[agents]]\nid = 'a'\n[[agents]]\nid = 'a'", "agents[1] ('a'): agents[0] has this id already"),
        ("[[agents]]\nid = 'a'\nsession_id = 's'\nresume_session_id = 't'", "exclude each other"),
        (
            "[[agents]]\nid = 'a'\nsession_id = 's'\n[[agents]]\nid = 'b'\nsession_id = 's'",
            "session 's' is that of agent 'a'",
        ),
        ("[[agents]]\nid = 'a'\nsession_id = '../x'", "X2"),
        ("[[agents]]\nid = ''", "id is empty"),
        ("[[agents]]\nid = 'a'\nresume_session_id = 's'", "needs a [store]"),
        (
            "[store]\nuse = 'x'\n[[agents]]\nid = 'a'\nresume_session_id = 's'\npreset = 'p'",
            "has its cwd and preset already",
        ),
        ("[[agents]]\nid = 'a'\nmax_tokens = 0", "max_tokens must be a positive"),
        ("[[agents]]\nid = 'a'\nprovider = 'x'", "provider and model, or neither"),
        ("[models.m]\nuse='scripted'\n[[agents]]\nid='a'\nprovider='x'\nmodel='y'", "'x' is not in [models]"),
        ("[[agents]]\nid = 'a'\ncolour = 'red'", "unknown field `colour`"),
        ("[[agents]]\nid = 5", "Expected `str`, got `int` - at `agents[0].id`"),
        ("[[agents]]", "missing required field `id`"),
        ("[hots]\ncwd = '.'", "unknown field `hots`"),
        ("[limits]\nmax_delegation_depth = -1", "must not be negative"),
        ("[models.m]\nuse = 'scripted'\noptions = { api_key = 'secret-1234' }", "api_key_env"),
        ("= 5", "no valid TOML"),
        ("[presets]\nchooser = 'maybe'", "Invalid enum value"),
    ],
)
def test_duplicates_and_contradictions_are_refused_before_anything_starts(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "x/treadle.toml")
    assert said in str(caught.value)
    assert "treadle.toml" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.rule("O8", "N8")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[models.m]\nuse = 'nobody'", "[models.m]: 'nobody' is not known (known: memory, scripted"),
        ("[models.m]\nuse = 'no.module:x'", "cannot be imported"),
        ("[models.m]\nuse = 'scripted'\noptions = { colour = 1 }", "[models.m]"),
        ("[presets]\nfiles = ['none/*.yaml']", "names no file"),
        ("[default_model]\nprovider='p'\nmodel='m'\nprofile='bad.toml'", "bad.toml"),
    ],
)
def test_parts_that_cannot_be_had_are_told_when_the_host_is_made(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.toml").write_text("= no")
    with pytest.raises(ConfigError) as caught:
        Host.from_config(written(tmp_path, text))
    assert said in str(caught.value)


@pytest.mark.rule("O8", "X3")
def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for name, content in (("none", None), ("latin", b"\xff"), ("huge", b"#" * (2 << 20))):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match=name):
            load_config(path)


@pytest.mark.rule("O8", "H8")
async def test_one_agent_that_cannot_start_takes_no_other_down(tmp_path: Path) -> None:
    text = """\
[models.scripted]
use = "scripted"
[store]
use = "memory"
[[agents]]
id = "gone"
resume_session_id = "not-there"
[[agents]]
id = "broken"
preset = "nobody"
session_id = "s-2"
[[agents]]
id = "fine"
[presets]
files = ["presets/*.yaml"]
"""
    host = Host.from_config(written(tmp_path, text), parts={"memory": MemoryStore})
    failed: list[Any] = []
    host.on(CONFIG_START_FAILED, lambda told: failed.append((told.session_id, type(told.error).__name__)))
    async with host:
        assert list(host.declared) == ["fine"]
        assert failed == [("not-there", "SessionNotFound"), ("s-2", "PresetError")]
        assert host.agents.list() == [host.declared["fine"]]


@pytest.mark.rule("O8", "I8")
async def test_an_exact_session_is_created_at_first_use_and_resumed_later(tmp_path: Path) -> None:
    store = MemoryStore()
    text = "[store]\nuse = 'memory'\n[models.scripted]\nuse = 'scripted'\n[[agents]]\nid = 'a'\nsession_id = 's'\n"
    text += "provider = 'scripted'\nmodel = 'm'\n"
    path = written(tmp_path, text)
    sources: list[str] = []
    for _ in range(2):
        host = Host.from_config(path, parts={"memory": lambda: store})
        host.on(AGENT_CREATED, lambda made: sources.append(made.source))
        async with host:
            host.declared["a"].followup("hello")
            await host.declared["a"].when_idle()
    assert sources == ["startup", "resume"]
    assert len([one for one in (await store.open_read("s")).events if one.type == "turn/start"]) == 2


@pytest.mark.rule("O8", "O14")
async def test_a_factory_that_is_unloaded_reports_no_failed_starts(tmp_path: Path) -> None:
    host = Host.from_config(written(tmp_path))
    failed: list[Any] = []
    host.on(CONFIG_START_FAILED, failed.append)
    host.on(AGENT_CREATED, lambda made: host.unload_loop() and None)
    async with host:
        assert host.declared == {}
        assert failed == []


@pytest.mark.rule("O10")
async def test_a_profile_goes_before_the_configured_default_and_keeps_saves(tmp_path: Path) -> None:
    from treadle.presets import ModelSelection

    text = "[default_model]\nprovider = 'scripted'\nmodel = 'small'\nprofile = 'mine/profile.toml'\n"
    path = written(tmp_path, text)
    for expected in ("small", "large"):
        async with Host.from_config(path) as host:
            selection = host.default_model.current()
            assert selection is not None
            assert selection.model == expected
            await host.default_model.save(ModelSelection("scripted", "large"))
    assert "small" in path.read_text()


@pytest.mark.rule("O8")
async def test_options_in_code_go_before_the_file_and_parts_are_opened_and_closed(tmp_path: Path) -> None:
    told: list[str] = []

    class Closing(ScriptedModel):
        async def __aenter__(self) -> Self:
            told.append("opened")
            return self

        async def __aexit__(self, *_: object) -> None:
            told.append(f"closed after {[agent.state.value for agent in agents]}")

    path = written(tmp_path, "[models.m]\nuse = 'closing'\n[[agents]]\nid = 'a'\n")
    host = Host.from_config(path, parts={"closing": Closing}, max_delegation_depth=7)
    assert host.max_delegation_depth == 7
    async with host:
        agents = host.agents.list()
    assert told == ["opened", "closed after ['disposed']"]


@pytest.mark.rule("O8", "N7")
async def test_a_part_that_fails_to_open_ends_the_host(tmp_path: Path) -> None:
    class Broken(ScriptedModel):
        async def __aenter__(self) -> None:
            raise OSError("no route")

        async def __aexit__(self, *_: object) -> None:
            raise AssertionError

    host = Host.from_config(written(tmp_path, "[models.m]\nuse = 'broken'\n"), parts={"broken": Broken})
    with pytest.raises(OSError, match="no route"):
        await host.__aenter__()


@pytest.mark.rule("X1")
def test_options_of_parts_do_not_show_in_a_repr() -> None:
    config = parse_config("[models.m]\nuse = 'x'\noptions = { headers = { Authorization = 'secret-1234' } }")
    assert "secret" not in repr(config)


@pytest.mark.rule("O8", "N8")
async def test_a_failed_start_that_nobody_listens_to_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host.from_config(written(tmp_path, "[store]\nuse='memory'\n[[agents]]\nid='a'\nresume_session_id='x'\n"))
    async with host:
        assert host.declared == {}
    assert any("'x'" in str(record.exc_info) or "x" in record.message for record in caplog.records)

    def fail(_: object) -> None:
        raise ValueError("listener")

    again = Host.from_config(written(tmp_path, "[store]\nuse='memory'\n[[agents]]\nid='a'\nresume_session_id='x'\n"))
    again.on(CONFIG_START_FAILED, fail)
    caplog.clear()
    async with again:
        assert again.declared == {}
    assert any("listener" in str(record.exc_info) for record in caplog.records)


@pytest.mark.rule("O8")
def test_a_table_that_an_extension_reads_is_handed_to_it_and_to_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "treadle.toml"
    path.write_text("[extra.one]\nnumber = 1\n")
    given: list[tuple[Host, Any, Path]] = []

    def furnish(host: Host, table: Any, where: Path) -> None:
        given.append((host, table, where))

    host = Host.from_config(path, tables={"extra": furnish, "absent": furnish})
    assert given == [(host, {"one": {"number": 1}}, path.resolve())]
    with pytest.raises(ConfigError, match="extra"):
        Host.from_config(path)
