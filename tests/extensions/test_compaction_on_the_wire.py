"""Histories are compacted at random, by summaries of the same provider, which refuses what is not valid to the letter."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio

from tests.adapters.agents import talking
from tests.adapters.strict_server import Protocol, StrictServer
from tests.adapters.test_strict_requests import LIFE, _run, live, model, tools
from treadle import AgentBusy, Retries
from treadle.errors import CompactionFailed, MaintenanceCancelled
from treadle.extensions.compaction import Compaction
from treadle.session import Replace

SCENARIOS = 16


def scenario(protocol: Protocol, seed: int) -> tuple[StrictServer, int]:
    chance = random.Random(seed)
    server = StrictServer(protocol, random.Random(-seed - 1))
    replaced: list[int] = []

    async def run() -> None:
        host: dict[str, Any] = {"retries": Retries(chance.random)}
        with trio.fail_after(LIFE):
            async with talking(
                model(protocol, server), tools=tools(chance), system_prompt="Be kind.", host=host, max_steps_per_turn=6
            ) as talk:
                settings: dict[str, Any] = {
                    "keep_turns": chance.randint(0, 2),
                    "window": chance.choice([60, 150, 100_000]),
                }
                Compaction(pinned=lambda _: chance.random() < 0.1, **settings).install(talk.agent.engine.host)  # type: ignore[attr-defined]
                for _ in range(4):
                    await live(talk, chance)
                    try:
                        await talk.agent.compact()
                    except (AgentBusy, CompactionFailed, MaintenanceCancelled):
                        await talk.agent.when_idle()
                replaced.append(sum(type(entry.surface_op) is Replace for entry in talk.agent.session.events))

    _run(run)
    return server, replaced[0]


@pytest.mark.slow
@pytest.mark.rule("Z1", "Z3", "Z4", "N1", "Q1")
@pytest.mark.parametrize("protocol", ["chat", "messages"])
def test_requests_are_valid_whatever_was_compacted_and_whenever(protocol: Protocol) -> None:
    replaced = 0
    for seed in range(SCENARIOS):
        server, count = scenario(protocol, seed)
        assert server.faults == [], f"seed {seed}"
        assert server.open == 0, f"seed {seed} left a connection open"
        replaced += count
    assert replaced > SCENARIOS
