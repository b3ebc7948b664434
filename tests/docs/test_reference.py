"""The reference has everything: each door, each option with its meaning, each command, each table of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.site import made, names, options
from treadle_cli.mounts import MOUNTS
from treadle_specs.reports.public_names import DAILY, THEMES, meaning

API = Path(__file__).parents[2] / "docs" / "reference" / "api"
DOORS = (DAILY, *THEMES, *names.OTHERS)


def test_each_door_has_its_page() -> None:
    assert {path.stem for path in API.glob("*.md")} - {"index"} == set(DOORS)
    index = (API / "index.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in index if line in DOORS] == list(DOORS)
    for door in DOORS:
        assert f"```{{door}} {door}\n" in (API / f"{door}.md").read_text(encoding="utf-8")


def test_each_public_name_of_the_core_is_at_home_once() -> None:
    assert all(names.homes()[name].rpartition(".")[0] in (*THEMES, DAILY) for name in names.exported(DAILY))


@pytest.mark.parametrize("door", names.OTHERS)
def test_every_name_beyond_the_core_is_explained(door: str) -> None:
    module = __import__(door, fromlist=["_"])
    assert [name for name in names.exported(door) if len(meaning(module, name).split()) < 2] == []


@pytest.mark.parametrize("path", [path for paths in options.OPTIONS.values() for path in paths])
def test_every_option_says_what_it_means(path: str) -> None:
    assert all(len(option.meaning.split()) > 1 for option in options.options_of(path))


def test_an_option_without_a_meaning_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.Retries.__doc__", "Nothing about it.")
    with pytest.raises(LookupError, match="Retries does not say what its option"):
        options.options_of("treadle.Retries")


def test_defaults_are_those_of_the_code() -> None:
    rows = {option.name: option.default for option in options.options_of("treadle.AgentOptions")}
    assert rows["max_parallel_tool_calls"] == "10"
    assert rows["max_steps_per_turn"] == "1000"
    assert rows["provider"] == "None"


def test_every_table_of_a_configuration_is_there() -> None:
    page = options.configuration()
    for title in (
        "[host]",
        "[limits]",
        "[store]",
        "[models.NAME]",
        "[tools]",
        "[default_model]",
        "[presets]",
        "[[agents]]",
    ):
        assert f"## `{title}`\n" in page


def test_every_command_is_there_with_its_options() -> None:
    page = made.commands()
    assert [mount.path for mount in MOUNTS if f" treadle {' '.join(mount.path)}\n" not in page] == []
    assert "--max-tokens" in page
    assert page.startswith("## treadle ")
