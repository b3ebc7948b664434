"""Real servers of tools: where they are. Each is found by an environment variable or on the PATH; CI installs them all."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

FOLDER = "TREADLE_MCP_SERVERS"
"""The variable that names a folder into which npm has installed servers."""
NPM = {
    "everything": "mcp-server-everything",
    "filesystem": "mcp-server-filesystem",
}
PYPI = {"time": "mcp_server_time", "git": "mcp_server_git"}


def npm_command(name: str) -> str:
    """A command that an npm package brings; skips where it is not installed."""
    folder = os.environ.get(FOLDER)
    inside = Path(folder) / "node_modules" / ".bin" / name if folder else None
    found = str(inside) if inside is not None and inside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is neither on the PATH nor below ${FOLDER} (npm; see docs/dependencies.md)")
    return found


def real_command(name: str) -> tuple[str, ...]:
    """The command of a real server; skips where it is not installed."""
    if name in NPM:
        return (npm_command(NPM[name]),)
    module = PYPI[name]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed (PyPI; see docs/dependencies.md)")
    return (sys.executable, "-m", module)


LEFT_GENERATORS = pytest.mark.filterwarnings(
    "ignore:Async generator .(mcp|httpx2|httpcore2|treadle_adapters.mcp.http)[.]"
)
"""For tests over HTTP: the SDK leaves generators to the garbage collector; what they hold it closes itself."""
