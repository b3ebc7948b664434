"""``treadle run --config``: the host that a ``treadle.toml`` declares, and the agent of it that is talked to (O8)."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

from treadle import Agent, Host, MisuseError
from treadle.agent import nearest_compactor
from treadle.extensions.budgets import declared_budgets
from treadle.extensions.compaction import Compaction, declared_compaction
from treadle.extensions.usage import count_sub_agents, prices_declared
from treadle.hooks import CONFIG_START_FAILED, ConfigStartFailed
from treadle.models import ModelAdapter
from treadle.session import SessionStore

from ..extras import extra_for
from ..models.echo import echo_model
from ..models.routes import EMBEDDED, PROVIDERS, Provider
from .approval import Approval
from .equipment import declared_servers
from .narration import Narrator
from .tools import find_modules_in


@frozen
class Declared:
    """What was said about the configuration: its file, and the label of the agent that is meant."""

    path: Path
    agent: str | None = None


def no_prices(_host: Host, table: Any, where: Path) -> None:
    """``[prices]`` is read by what shows costs; here it is only checked."""
    prices_declared(table, where)


def _model(provider: Provider, **options: Any) -> ModelAdapter:
    return provider.adapter()(**options)


def _store(kind: str, path: str = "", **options: Any) -> SessionStore:
    from treadle_adapters.stores import open_store

    return open_store(kind, path, **options)


def _postgres(url: str = "", *, url_env: str = "", **options: Any) -> SessionStore:
    """A store in a database, whose URL a file may name if it holds no password (X1).

    Raises:
        MisuseError: it holds one, or the variable that has it is not set.
    """
    if url_env and url:
        raise MisuseError("[store]: give either url or url_env")
    if url_env:
        url = os.environ.get(url_env, "")
        if not url:
            raise MisuseError(
                f"[store]: the variable {url_env} is not set; url_env names one that holds the database's URL"
            )
    elif urlsplit(url).password or "password=" in url:
        raise MisuseError(
            "[store]: a password in a file is not safe (X1): name a variable that holds the URL with url_env"
        )
    with extra_for("sessions in PostgreSQL need", "postgres"):
        return _store("postgres", url, **options)


PARTS: dict[str, Callable[..., Any]] = {
    **{name: partial(_model, provider) for name, provider in PROVIDERS.items()},
    **{kind: partial(_store, kind) for kind in ("jsonl", "sqlite")},
    "postgres": _postgres,
    EMBEDDED: echo_model,
}
"""What ``use`` may name in a file that the command reads, beside ``package.module:attribute``."""

TABLES: dict[str, Callable[..., object]] = {
    "budgets": declared_budgets,
    "compaction": declared_compaction,
    "mcp": declared_servers,
    "prices": no_prices,
}
"""The tables of extensions in a file that the command reads."""


def extended(host: Host) -> None:
    """Give a host what each agent of the command has: long histories give way, and sub-agents count."""
    count_sub_agents(host.scope)
    if nearest_compactor(host.scope) is None:
        Compaction().install(host)


@asynccontextmanager
async def declared_agent(
    declared: Declared, narrator: Narrator, approval: Approval
) -> AsyncGenerator[tuple[Host, Agent]]:
    """Enter the declared host; gives it and the agent that is meant, the first one unless named.

    Raises:
        ConfigError: the file is wrong.
        MisuseError: there is no such agent, or it did not start.
    """
    find_modules_in(declared.path.parent)
    host = Host.from_config(declared.path, parts=PARTS, tables=TABLES, approver=approval)
    failed: list[ConfigStartFailed] = []
    host.on(CONFIG_START_FAILED, failed.append)
    narrator.attach(host)
    extended(host)
    async with host:
        yield host, _chosen(host, declared, failed)


def _chosen(host: Host, declared: Declared, failed: list[ConfigStartFailed]) -> Agent:
    agents = host.declared
    found = next(iter(agents.values()), None) if declared.agent is None else agents.get(declared.agent)
    if found is not None:
        return found
    wanted = f"no agent {declared.agent!r}" if declared.agent is not None else "no agent"
    why = "".join([f"; session {one.session_id} did not start: {one.error}" for one in failed])
    known = f"; started: {', '.join(agents)}" if agents else ""
    raise MisuseError(f"{declared.path} gives {wanted}{known}{why}")
