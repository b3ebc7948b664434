"""What a host is furnished with beside its tools: local tools, and servers of tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from treadle import Host

from ..extras import extra_for

Equipment = Callable[[Host], object]
"""Furnishes a host."""
LOCAL = ("files", "shell")
"""What ``--tools`` may name beside MODULE:NAME."""


def local_kinds(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds of local tools among names, and the other names; several may stand in one word, with commas between."""
    words = [word for name in names for word in name.split(",") if word]
    kinds = tuple(dict.fromkeys([word for word in words if word in LOCAL]))
    return kinds, tuple([word for word in words if word not in LOCAL])


def equipment(kinds: Sequence[str], servers: Sequence[str], folder: Path) -> tuple[Equipment, ...]:
    """What the words of a command line ask for.

    Raises:
        MisuseError: a server's word is wrong, or a name stands twice.
        MissingExtra: a library is not installed.
    """
    found: list[Equipment] = []
    if kinds:
        from treadle_adapters.tools import LocalTools

        found.append(LocalTools(folder, kinds).attach)
    if servers:
        from treadle_adapters.mcp import MCPTools, servers_named

        _need_sdk()
        found.append(MCPTools(servers_named(list(servers))).attach)
    return tuple(found)


def declared_servers(host: Host, tables: Any, where: Path) -> None:
    """Attach the servers of the tables ``[mcp.NAME]``.

    Raises:
        ConfigError: a table is wrong.
        MissingExtra: a library is not installed.
    """
    from treadle_adapters.mcp import MCPTools, servers_declared

    _need_sdk()
    MCPTools(servers_declared(tables, where, os.environ.get)).attach(host)


def _need_sdk() -> None:
    from importlib.util import find_spec

    with extra_for("servers of tools need", "mcp"):
        if find_spec("mcp") is None:  # imported when the first server is started
            raise ModuleNotFoundError(name="mcp")
