"""The format: its document, its versions, and a log of each version that is never made again (P5, S7)."""

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.session.sweeping import furnish, resumed
from treadle import Host, Session, ToolResultMessage
from treadle.errors import InvalidData, SessionFormatUnsupported
from treadle.session import FORMAT_VERSION, encode_event, encode_header, known_types, read_header
from treadle.session.upgrade import FIRST_VERSION, STEPS, Step, chain_from
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_specs.reports import log_format

LOGS = Path(__file__).parent / "logs"
SUMS = {1: "369b62247d5e447f82694f59b6cdb2a77dcb10c23eb39d76ff16eb86b32348e5"}
"""A log of each format, as that format's first release wrote it. Never make one again: add the next one."""
PATHS = pytest.mark.parametrize("version", SUMS)


def placed(version: int, directory: Path) -> JsonlStore:
    shutil.copy(LOGS / f"format-{version}.jsonl", directory)
    return JsonlStore(directory)


@pytest.mark.rule("P5")
@PATHS
def test_the_log_of_a_format_is_the_one_it_always_was(version: int) -> None:
    assert hashlib.sha256((LOGS / f"format-{version}.jsonl").read_bytes()).hexdigest() == SUMS[version]


@pytest.mark.rule("P5")
def test_every_format_since_the_first_has_a_log_and_a_way_to_the_present_one() -> None:
    assert list(SUMS) == list(range(FIRST_VERSION, FORMAT_VERSION + 1))
    assert sorted(STEPS) == list(range(FIRST_VERSION, FORMAT_VERSION))
    for version in SUMS:
        assert len(chain_from(version).steps) == FORMAT_VERSION - version


@pytest.mark.rule("P5", "P4", "N5")
@PATHS
async def test_the_log_of_a_format_is_loaded_and_resumed(version: int, tmp_path: Path) -> None:
    store = placed(version, tmp_path)
    stored = await store.open_read(f"format-{version}")
    assert len(stored.events) == 67
    assert (stored.header.parent_session, stored.header.inherited) == ("origin", 46)
    texts = [
        one.text for one in Session(stored.header, stored.events).history() if not isinstance(one, ToolResultMessage)
    ]
    assert texts[:3] == ["You are part of a fixture.", "What is there?", "added by a hook"]
    assert texts[-1] == "After the fork \u6c49\U0001f600"
    async with Host(store=store) as host:
        session = await resumed(host, furnish(host), f"format-{version}", stored.events)
    assert [entry.data.turn for entry in session.events if entry.type == "turn/start"] == list(range(1, 8))


@pytest.mark.rule("S7", "S2")
async def test_the_log_of_the_present_format_has_every_core_type_and_is_written_as_it_was_read(tmp_path: Path) -> None:
    path = LOGS / f"format-{FORMAT_VERSION}.jsonl"
    stored = await placed(FORMAT_VERSION, tmp_path).open_read(path.stem)
    assert {entry.type for entry in stored.events} == {known.tag for known in known_types() if known.core}
    lines = [encode_header(stored.header), *map(encode_event, stored.events)]
    assert b"".join([line + b"\n" for line in lines]) == path.read_bytes()


@pytest.mark.rule("P5")
def test_a_chain_leads_from_any_version_to_the_present_one_and_never_skips_a_step() -> None:
    def adds(key: str) -> Step:
        return Step(lambda raw: {**raw, "steps": [*raw.get("steps", []), key]}, lambda raw: {**raw, key: len(raw)})

    steps = {1: adds("a"), 2: adds("b"), 3: adds("c")}
    chain = chain_from(1, current=4, steps=steps)
    assert chain.header({}) == {"steps": ["a", "b", "c"]}
    assert chain.event({"seq": 0}) == {"seq": 0, "a": 1, "b": 2, "c": 3}
    assert chain_from(3, current=4, steps=steps).event({}) == {"c": 0}
    assert chain_from(4, current=4, steps=steps).steps == ()
    for version, told in ((5, "newer treadle"), (0, "no upgrade leads from format 0 to 1")):
        with pytest.raises(SessionFormatUnsupported, match=told):
            chain_from(version, current=4, steps=steps)
    with pytest.raises(SessionFormatUnsupported, match="no upgrade leads from format 2 to 3"):
        chain_from(1, current=4, steps={1: adds("a"), 3: adds("c")})


@pytest.mark.rule("P5", "S8")
@pytest.mark.parametrize(
    ("record", "error"),
    [
        (b'{"type":"session","formatVersion":2,"strange":[1,2]}', SessionFormatUnsupported),
        (b'{"type":"session","formatVersion":0,"id":"s"}', SessionFormatUnsupported),
        (b'{"type":"header","version":0,"session":"s-demo"}', InvalidData),
        (b'{"type":"other","formatVersion":1,"id":"s"}', InvalidData),
        (b'{"type":"session","formatVersion":"1"}', InvalidData),
        (b'{"type":"session","formatVersion":1,"id":"s","createdAt":1,"cwd":"relative"}', InvalidData),
        (b"[]", InvalidData),
        (b"[" * 100_000, InvalidData),
    ],
)
def test_a_header_of_another_version_is_no_damage_and_damage_is_no_other_version(
    record: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        read_header(record)


@pytest.mark.rule("S7")
def test_the_format_document_is_up_to_date() -> None:
    assert log_format.main(["--check"]) == 0, "python -m treadle_specs.reports.log_format --write"


@pytest.mark.rule("S7")
def test_the_format_document_describes_every_field_and_its_links_lead_somewhere() -> None:
    text = log_format.document()
    assert log_format.undescribed() == []
    anchors = {log_format._anchor(title.replace("`", "")) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors
    for known in known_types():
        if known.core:
            assert f"### `{known.tag}`" in text


@pytest.mark.rule("S7")
def test_a_stale_format_document_is_noticed(tmp_path: Path, capsys: Any) -> None:
    path, root = tmp_path / log_format.PAGE, ["--root", str(tmp_path)]
    assert log_format.main(["--check", *root]) == 1
    assert "--write" in capsys.readouterr().out
    assert log_format.main(["--write", *root]) == 0
    assert log_format.main(["--check", *root]) == 0
    path.write_text(path.read_text(encoding="utf-8") + "x", encoding="utf-8")
    assert log_format.main(["--check", *root]) == 1
    with pytest.raises(SystemExit, match="2"):
        log_format.main([])
