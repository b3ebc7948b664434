"""A third party's mock of several providers: npm's ``@copilotkit/aimock``, installed once and run on 127.0.0.1."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import frozen

PACKAGE = "@copilotkit/aimock"
VERSION = "1.43.0"
LEAST_NODE = 20
INSTALL_TIMEOUT = 60


@frozen
class AIMock:
    """A running server. Its fixtures say what it answers; its journal says what it was asked."""

    url: str

    def teach(self, *fixtures: dict[str, Any]) -> None:
        """Forget everything, and answer by these fixtures, the first that matches."""
        self._post("/reset")
        self._post("/fixtures", {"fixtures": fixtures})

    def journal(self) -> list[dict[str, Any]]:
        """Every request since ``teach``; bodies are in the form of chat completions whatever the protocol."""
        answer = httpx.get(f"{self.url}/__aimock/journal")
        answer.raise_for_status()
        return answer.json()

    def _post(self, path: str, body: Any = None) -> None:
        httpx.post(f"{self.url}/__aimock{path}", json=body).raise_for_status()


def installed() -> Path:
    """The folder of the package, installed into the user's cache where it is not there yet; skips where it cannot be."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip(
            ("neither Node.js nor npm is here" if node is npm else "Node.js comes without npm, or npm without it")
            + " (Debian packages: nodejs, npm)"
        )
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    major = re.match(r"v(\d+)", version)
    if major is None or int(major[1]) < LEAST_NODE:
        pytest.skip(f"{PACKAGE} needs Node.js {LEAST_NODE} or newer; here is {version.strip() or 'none that runs'}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "treadle-tests"
    place = cache / f"aimock-{VERSION}"
    if not place.exists():
        _install(npm, cache, place)
    return place / "node_modules" / PACKAGE


def _install(npm: str, cache: Path, place: Path) -> None:
    """Install beside the place and move there, so that what is there is whole, also with two test runs at once."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as folder:
            command = [npm, "install", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            subprocess.run(
                [*command, f"{PACKAGE}@{VERSION}"],
                cwd=folder,
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=INSTALL_TIMEOUT,
            )
            if not place.exists():
                (Path(folder) / "node_modules").rename(_empty(place) / "node_modules")
    except (OSError, subprocess.SubprocessError) as error:
        if not (place / "node_modules" / PACKAGE).exists():
            pytest.skip(f"{PACKAGE} could not be installed by npm: {error}")


def _empty(place: Path) -> Path:
    place.mkdir()
    return place


@contextmanager
def running() -> Iterator[AIMock]:
    """Run the server until the block ends."""
    folder = installed()
    with tempfile.TemporaryDirectory() as empty:
        fixtures = Path(empty) / "none.json"
        fixtures.write_text('{"fixtures": [{"match": {"userMessage": "-"}, "response": {"content": "-"}}]}')
        command = ["node", str(folder / "dist" / "cli.js"), "--host", "127.0.0.1", "--port", "0", "--strict"]
        with subprocess.Popen(
            [*command, "--fixtures", str(fixtures)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as server:
            try:
                yield AIMock(_address(server))
            finally:
                server.terminate()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    told: list[str] = []
    for line in server.stdout:
        told.append(line)
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found is not None:
            return found[0]
    raise AssertionError(f"aimock did not start: {''.join(told)}")
