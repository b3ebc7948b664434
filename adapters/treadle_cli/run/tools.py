"""Tools that are named on the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from treadle import Tool
from treadle.errors import MisuseError
from treadle.host.declared import named_tools


def find_modules_in(folder: Path) -> None:
    """Let modules that lie in a folder be imported; installed ones of the same name are found first."""
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)


def tools_named(names: Sequence[str], folder: Path) -> tuple[Tool, ...]:
    """The tools that names such as ``module:attribute`` stand for; modules that lie in ``folder`` are found.

    Raises:
        ConfigError: a name cannot be imported, or is no tool.
        MisuseError: a name is no ``module:attribute``.
    """
    find_modules_in(folder)
    for name in names:
        if ":" not in name:
            raise MisuseError(f"--tools {name}: write MODULE:NAME, as in my_tools:search")
    return named_tools(names)
