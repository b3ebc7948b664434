"""Whatever is done to a conversation, it ends in a verdict: never in a traceback, and never in a hang."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle_specs.conformance.kit import Untickable
from treadle_specs.conformance.local import LocalRig
from treadle_specs.conformance.player import replay
from treadle_specs.conformance.process_rig import ProcessRig, Rigs
from treadle_specs.conformance.sequence import Recording
from treadle_specs.conformance.sweeps import SCENARIOS
from treadle_specs.exploration.violation import Violation
from treadle_specs.protocol.fault import RigFault
from treadle_specs.protocol.reading import read_reply

pytestmark = pytest.mark.slow

Json = dict[str, Any]
REPLAYING = Path(__file__).parents[1] / "protocol" / "replaying_rig.py"
SHORT_S = 0.5
OTHERS: tuple[Any, ...] = (None, True, -1, 1.5, "", "other", [], ["other"], {}, {"other": 1})
each_scenario = pytest.mark.parametrize("name", SCENARIOS)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def conversation(name: str) -> list[Json]:
    """The replies of our own driver in a scenario, played to its end."""
    recording = Recording(Untickable(LocalRig()))
    replay(recording, SCENARIOS[name])
    recording.stop()
    return [json.loads(json.dumps(reply)) for _, reply in recording.exchange]


class Retold:
    """A rig that tells replies again, as lines that are read; when there are no more it is over."""

    def __init__(self, replies: list[Json]) -> None:
        self._replies = iter(replies)

    def ask(self, request: Json) -> Json:
        reply = next(self._replies, None)
        if reply is None:
            raise RigFault("the rig ended", "it does not", request=request)
        return read_reply(json.dumps(reply).encode(), request)

    def stop(self) -> None:
        pass

    def close(self, *, kill: bool = False) -> None:
        pass


def verdict(name: str, replies: list[Json]) -> str:
    """What is said of replies: nothing else may be raised."""
    try:
        replay(Retold(replies), SCENARIOS[name])
    except RigFault as fault:
        return fault.what
    except Violation as broken:
        return broken.rule
    return "held"


@each_scenario
def test_a_conversation_that_is_told_again_holds(name: str) -> None:
    assert verdict(name, conversation(name)) == "held"


@each_scenario
@pytest.mark.sampled(2)
def test_every_value_of_every_reply_may_be_another_or_missing(name: str) -> None:
    replies = conversation(name)
    told = {"held": 0, "not": 0}
    for index, reply in enumerate(replies):
        for changed in retyped(reply):
            said = verdict(name, [*replies[:index], changed, *replies[index + 1 :]])
            told["held" if said == "held" else "not"] += 1
    assert told["not"] > 2 * told["held"] > 0, told


def retyped(value: Any) -> Iterator[Any]:
    """The value with one part of it replaced by something else, or left out."""
    if isinstance(value, dict):
        for key in value:
            yield {other: one for other, one in value.items() if other != key}
            for changed in retyped(value[key]):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value[:index] + value[index + 1 :]
            yield [*value[: index + 1], *value[index:]]
            for changed in retyped(item):
                yield [*value[:index], changed, *value[index + 1 :]]
    yield from (other for other in OTHERS if type(other) is not type(value) or other != value)


@pytest.mark.parametrize("change", ["deleted", "doubled", "swapped", "truncated"])
@pytest.mark.parametrize("name", ["tools", "two prompts"])
@pytest.mark.sampled(2)
def test_every_reply_may_be_missing_come_twice_out_of_order_or_be_cut(name: str, change: str, tmp_path: Path) -> None:
    lines = [json.dumps(reply) + "\n" for reply in conversation(name)]
    for index in range(len(lines) - 1):
        place = tmp_path / f"{index}.json"
        place.write_text(json.dumps(disturbed(lines, index, change)), encoding="utf-8")
        with pytest.raises((RigFault, Violation)) as caught:
            play_on(f"{sys.executable} -I {REPLAYING} {place}", name)
        assert isinstance(caught.value, RigFault), f"{change} {index}: {caught.value}"


def play_on(command: str, name: str) -> None:
    rig = ProcessRig(Rigs(command, SHORT_S, reuse=False))
    try:
        replay(rig, SCENARIOS[name])
        rig.stop()
    finally:
        rig.drop()


def disturbed(lines: list[str], index: int, change: str) -> list[str]:
    if change == "deleted":
        return [*lines[:index], "", *lines[index + 1 :]]
    if change == "doubled":
        return [*lines[:index], lines[index] * 2, *lines[index + 1 :]]
    if change == "swapped":
        return [*lines[:index], lines[index + 1], lines[index], *lines[index + 2 :]]
    return [*lines[:index], lines[index][: len(lines[index]) // 2], *lines[index + 1 :]]
