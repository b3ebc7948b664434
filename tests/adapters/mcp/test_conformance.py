"""The official conformance suite of the Model Context Protocol, its scenarios for clients: an agent of ours is the client."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.mcp.real import npm_command

CLIENT = Path(__file__).parent / "conformance_client.py"
SCENARIOS = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/cross-app-access-complete-flow",
]
EXCEPTIONS = {
    "auth/2025-03-26-oauth-metadata-backcompat": (
        "the metadata that the scenario serves name another issuer than the address they are fetched from; the SDK refuses "
        "that (RFC 8414, section 3.3)"
    ),
    "auth/cross-app-access-complete-flow": (
        "an extension: the scenario has the authorization server discovered, which the SDK wants configured, and the exchange "
        "of tokens with an identity provider is a deployment's own"
    ),
}
"""Scenarios that do not pass, and why."""


def suite() -> list[str]:
    """The command of the suite; skips where it is not installed, or Node.js is too old for it."""
    command = npm_command("conformance")
    beside = Path(command).with_name("node")
    node = str(beside) if beside.exists() else shutil.which("node")
    version = subprocess.run([node or "node", "--version"], capture_output=True, text=True, check=True).stdout
    if int(re.findall(r"\d+", version)[0]) < 22:
        pytest.skip(f"the conformance suite needs Node.js 22 or newer; here is {version.strip()}")
    return [node or "node", command]


def run(scenario: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [
        *suite(),
        "client",
        "--command",
        f"{sys.executable} {CLIENT}",
        "--scenario",
        scenario,
        "--timeout",
        "60000",
    ]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120, check=False)


@pytest.mark.slow
def test_every_scenario_of_the_suite_is_known(tmp_path: Path) -> None:
    listed = subprocess.run(
        [*suite(), "list", "--client"], capture_output=True, text=True, cwd=tmp_path, check=True
    ).stdout
    assert re.findall(r"^  - (\S+)", listed, re.MULTILINE) == SCENARIOS


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.sampled(3)
def test_the_client_conforms(scenario: str, tmp_path: Path) -> None:
    ended = run(scenario, tmp_path)
    if scenario in EXCEPTIONS:
        assert ended.returncode != 0, f"{scenario} passes: it is no exception any more"
        return
    assert ended.returncode == 0, ended.stdout[-3_000:] + ended.stderr[-3_000:]
