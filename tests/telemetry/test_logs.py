"""Logs: one tree, levels that mean something, where each record belongs, and no secret."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import structlog
from opentelemetry import trace

from tests.telemetry.watching import watch, watched_host
from treadle import AgentOptions, Answer, Call, Failure, ScriptedModel, tool
from treadle.models import RetryPolicy
from treadle_adapters.telemetry import RecordContext, record_context, where

LOG = logging.getLogger("program")


async def run(script: list[Any], caplog: pytest.LogCaptureFixture, level: int = logging.DEBUG) -> Any:
    caplog.set_level(logging.INFO, logger="program")
    caplog.set_level(level, logger="treadle")
    caplog.handler.addFilter(RecordContext())

    async def look(what: str) -> str:
        """Look."""
        LOG.info("looking")
        return f"the password is {what}"

    async def fail() -> str:
        """Fail."""
        raise ValueError("the password")

    given = watch()
    async with watched_host(given) as host:
        host.models.register("p", ScriptedModel(script, retry_policy=RetryPolicy(base_delay=0.0)))
        for each in (look, fail):
            host.tools.register(tool(each))
        options = AgentOptions(provider="p", model="m")
        agent = (await host.agents.create(session_id="s", agent_options=options)).agent
        agent.followup("my password")
        await agent.when_idle()
    return given


SCRIPT = [
    Failure("the password was wrong", "SERVER"),
    Answer("the password", calls=[Call("look", {"what": "secret"}), Call("fail", {})]),
    "done",
]


async def test_levels_say_what_was_lost_what_failed_and_what_went_well(caplog: pytest.LogCaptureFixture) -> None:
    await run([*SCRIPT], caplog)
    told = [(one.name, one.levelname) for one in caplog.records if one.name.startswith("treadle.")]
    assert told.count(("treadle.turn", "DEBUG")) == 1
    assert told.count(("treadle.turn", "INFO")) == 1
    assert told.count(("treadle.model", "WARNING")) == 2, "an attempt failed, and is made again"
    assert told.count(("treadle.model", "DEBUG")) == 2
    assert told.count(("treadle.tool", "WARNING")) == 1
    assert told.count(("treadle.tool", "DEBUG")) == 1


async def test_a_turn_that_failed_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    await run([Failure("the password", "QUOTA")], caplog)
    (error,) = [one for one in caplog.records if one.name == "treadle.turn" and one.levelno == logging.ERROR]
    assert error.getMessage().startswith("turn 1 of s: error (QUOTA) after ")


async def test_nothing_secret_is_told(caplog: pytest.LogCaptureFixture) -> None:
    await run([*SCRIPT], caplog)
    told = [one for one in caplog.records if one.name in ("treadle.turn", "treadle.model", "treadle.tool")]
    assert told
    assert "password" not in repr([vars(one) for one in told])


async def test_every_record_says_where_it_belongs(caplog: pytest.LogCaptureFixture) -> None:
    given = await run([*SCRIPT], caplog)
    (mine,) = [vars(one) for one in caplog.records if one.name == "program"]
    call = given.named("execute_tool look").context
    assert (mine["session"], mine["turn"], mine["step"]) == ("s", 1, 1)
    assert mine["trace_id"] == trace.format_trace_id(call.trace_id)
    assert mine["span_id"] == trace.format_span_id(call.span_id)
    (ended,) = [vars(one) for one in caplog.records if one.name == "treadle.turn" and one.levelno == logging.INFO]
    assert ended["trace_id"] == mine["trace_id"]
    assert ended["session"] == "s"


async def test_where_nobody_lets_info_pass_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    await run([*SCRIPT], caplog, logging.WARNING)
    assert not [one for one in caplog.records if one.name in ("treadle.turn", "treadle.model", "treadle.tool")]


async def test_it_works_with_structlog() -> None:
    kept: list[dict[str, Any]] = []

    def keep(_: Any, __: str, event: Any) -> Any:
        kept.append(dict(event))
        raise structlog.DropEvent

    logger = structlog.wrap_logger(structlog.PrintLogger(), processors=[record_context, keep])

    async def look() -> str:
        """Look."""
        logger.info("looking", session="mine")
        return "done"

    given = watch()
    async with watched_host(given) as host:
        host.models.register("p", ScriptedModel([Answer(calls=[Call("look", {})]), "done"]))
        host.tools.register(tool(look))
        agent = (await host.agents.create(agent_options=AgentOptions(provider="p", model="m"))).agent
        agent.followup("go")
        await agent.when_idle()
    call = given.named("execute_tool look").context
    assert call is not None
    told = {"trace_id": trace.format_trace_id(call.trace_id), "span_id": trace.format_span_id(call.span_id)}
    assert kept == [{"event": "looking", "session": "mine", "turn": 1, "step": 1, **told}]


def test_outside_of_agents_it_belongs_nowhere() -> None:
    assert where() == {"trace_id": "", "span_id": "", "session": "", "turn": 0, "step": 0}
    event = {"event": "x"}
    assert record_context(None, "info", event) == {"event": "x"}
