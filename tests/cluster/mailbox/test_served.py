"""Served agents of many servers on one database: a message is taken by whichever server is asked (A1, A3, A6)."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.postgres import Server

TOKEN = "a-token-of-nobody-in-particular"


@contextmanager
def serving(folder: Path, url: str) -> Generator[tuple[subprocess.Popen[str], httpx.Client]]:
    """A server as a process, and a client of it."""
    command = [sys.executable, "-m", "treadle_cli", "serve", "--port", "0", "--session-dir", url]
    environment = {**os.environ, "TREADLE_WEB_TOKEN": TOKEN}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder, env=environment
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://[^/ ]+", process.stdout.readline())
        assert found is not None
        headers = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=found.group(), headers=headers, timeout=60, trust_env=False) as client:
            yield process, client
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.rule("A1", "A3", "A6")
def test_a_message_is_taken_by_whichever_server_is_asked_also_when_one_goes_down(
    tmp_path: Path, postgres: Server
) -> None:
    schema = "treadle"
    with serving(tmp_path, postgres.url) as (first, here), serving(tmp_path, postgres.url) as (_, there):
        name = here.post("/api/sessions", json={"message": "Hello"}).json()["id"]
        fate = there.post(f"/api/sessions/{name}/messages", json={"id": "m", "text": "from elsewhere"})
        assert (fate.status_code, fate.json()["fate"]) == (202, "pending")
        again = there.post(f"/api/sessions/{name}/messages", json={"id": "m", "text": "from elsewhere"}).json()
        assert again["duplicate"] is True
        while here.get(f"/api/sessions/{name}/messages/m").json().get("fate") != "admitted":
            time.sleep(0.05)
        assert there.post(f"/api/sessions/{name}/cancel", json={"keepInbox": True}).status_code == 200
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 0
        sent = there.post(f"/api/sessions/{name}/messages", json={"id": "n", "text": "and on"})
        assert sent.status_code == 202
        assert there.get(f"/api/sessions/{name}/messages/n?wait=30").json()["fate"] == "admitted"
        kept: list[Any] = there.get(f"/api/sessions/{name}/events?limit=1000").json()
    said = [one["data"]["message"]["content"][0]["text"] for one in kept if one["type"] == "user/message"]
    assert said == ["Hello", "from elsewhere", "and on"]
    with postgres.connect(schema) as conn:
        conn.execute("drop schema treadle cascade")
