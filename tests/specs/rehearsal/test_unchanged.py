"""On unchanged code nothing differs: whatever came from outside, and however often the process died."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.specs.rehearsal import recorder
from tests.specs.rehearsal.recorded_agent import make_agent
from treadle import AgentOptions, Host, MisuseError
from treadle.session import encode_event, encode_header
from treadle_specs.logs.checker import check_file
from treadle_specs.rehearsal import read_recording, rehearse
from treadle_specs.rig.scripts import SCRIPTS, Script, prepared, record

SESSIONS = Path(__file__).parent / "sessions"
ROOTS = sorted([path for path in SESSIONS.glob("*.jsonl") if path.stem in recorder.SESSIONS])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_there_are_twenty_recorded_sessions_and_the_logs_are_sound() -> None:
    assert len(ROOTS) == 20
    assert [str(path) for path in SESSIONS.glob("*.jsonl") if not check_file(path).sound] == []


def test_between_them_the_recorded_sessions_hold_what_can_come_from_outside() -> None:
    """Cancels in and before answers and in tools, retries, consent, refusals, sub-agents, repairs, resumes, limits."""
    text = "".join(path.read_text(encoding="utf-8") for path in SESSIONS.glob("*.jsonl"))
    for sign in (
        '"interrupted":true', '"code":"ABORTED"', '"code":"ABORTED_BEFORE_DISPATCH"', "llm/retry-started",
        '"code":"NOT_APPROVED"', '"code":"NO_GOLD"', '"code":"CELLAR"', '"code":"UNKNOWN_TOOL"', '"origin":"subagent"',
        '"reason":{"kind":"interrupted"}', '"reason":"resume"', "STEP_LIMIT", '"kind":"max-tokens"', "TOOL_TIMEOUT",
        '"kind":"disposed"', "characters shown]", '"kind":"replace"', '"kind":"blocked"', "too dear", '"outcome":"canceled"',
        "TOOL_OUTCOME_UNKNOWN", "EMPTY_RESPONSE", '"concludesTurn":true', '"body":', '"refused":true',
    ):  # fmt: skip
        assert sign in text, sign


@pytest.mark.parametrize("path", ROOTS, ids=lambda path: path.stem)
def test_a_recorded_session_is_rehearsed_without_a_difference(path: Path) -> None:
    before = path.read_bytes()
    rehearse(path, make_agent).check()
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_folder_is_rehearsed_and_sub_agents_with_their_parents() -> None:
    told = rehearse(SESSIONS, make_agent)
    told.check()
    assert {one.path.stem for one in told.sessions if one.with_parent} == {"clerks-1", "clerks-2", "clerks-3"}
    assert len(told.sessions) == 23


@pytest.mark.slow
def test_sessions_that_are_recorded_now_are_rehearsed_without_a_difference(tmp_path: Path) -> None:
    """Times and identities are other ones each time."""
    recorder.main(tmp_path)
    rehearse(tmp_path, make_agent).check()


def test_a_parent_whose_sub_agents_are_not_there_is_rehearsed_on_their_results(tmp_path: Path) -> None:
    copy = tmp_path / "clerks.jsonl"
    copy.write_bytes((SESSIONS / "clerks.jsonl").read_bytes())
    told = rehearse(copy, make_agent)
    told.check()
    assert len(told.sessions) == 1


def maker(script: Script) -> Any:
    """Give what furnishes a host with a scripted agent, which it creates itself."""

    async def make(host: Host) -> None:
        prepared(host, script)

        async def setup(_: Any, agent: Any) -> None:
            if script.hooks is not None:
                script.hooks(agent)

        await host.agents.create(agent_options=script.options, setup=setup)

    return make


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_scripted_session_is_rehearsed_without_a_difference(name: str, tmp_path: Path) -> None:
    header, events = record(SCRIPTS[name])
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"\n".join([encode_header(header), *map(encode_event, events)]) + b"\n")
    rehearse(path, maker(SCRIPTS[name])).check()


def test_a_log_from_before_results_told_of_their_bodies_is_rehearsed(tmp_path: Path) -> None:
    """What an older log does not tell is no difference where it does not matter."""
    lines = (SESSIONS / "refused-calls.jsonl").read_text(encoding="utf-8").splitlines()
    out: list[str] = []
    for line in lines:
        entry = json.loads(line)
        if entry.get("type") == "tool/result" and entry["data"].get("refused"):
            del entry["data"]["refused"]
        out.append(json.dumps(entry))
    path = tmp_path / "old.jsonl"
    path.write_text("\n".join(out) + "\n", encoding="utf-8")
    rehearse(path, make_agent).check()


def test_a_torn_tail_is_left_out(tmp_path: Path) -> None:
    whole = (SESSIONS / "three-days.jsonl").read_bytes()
    path = tmp_path / "torn.jsonl"
    path.write_bytes(whole[: len(whole) - 40])
    rehearse(path, make_agent).check()


@pytest.mark.parametrize("kept", range(2, 25))
def test_a_log_that_ends_anywhere_is_rehearsed_up_to_there(kept: int, tmp_path: Path) -> None:
    lines = (SESSIONS / "stopped-in-tools.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "cut.jsonl"
    path.write_bytes(b"".join(lines[:kept]))
    rehearse(path, make_agent).check()


def test_the_lives_of_a_session_are_cut_where_its_process_ended() -> None:
    lives = {path.stem: len(read_recording(path).lives) for path in ROOTS}
    assert lives["died-in-an-answer"] == 2
    assert lives["died-in-tools"] == 3
    assert lives["disposed-in-a-turn"] == 2
    assert sum(lives.values()) == len(lives) + 4


def test_a_model_that_nobody_registers_stands_for_the_recorded_one(tmp_path: Path) -> None:
    """``make_agent`` need not know of models: the recorded route is served, by what the log tells of it."""
    header, events = record(SCRIPTS["one-tool"])
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"\n".join([encode_header(header), *map(encode_event, events)]) + b"\n")

    def make(host: Host) -> AgentOptions:
        from treadle_specs.rig.script_tools import TOOLS

        for each in TOOLS:
            host.tools.register(each)
        return evolve(AgentOptions(), max_steps_per_turn=12)

    rehearse(path, make).check()


def test_real_tools_can_be_had(tmp_path: Path) -> None:
    """They run in virtual time, and what they come to is compared."""
    path = SESSIONS / "searching.jsonl"
    rehearse(path, make_agent, real_tools=True).check()


async def test_it_is_refused_within_a_running_loop() -> None:
    with pytest.raises(MisuseError, match="outside of trio"):
        rehearse(SESSIONS / "searching.jsonl", make_agent)
