"""`treadle serve` as a process: what it prints, how it ends, and that a kill loses nothing that was told as kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

TOKEN = "a-token-that-is-long-enough"


@contextmanager
def serving(folder: Path, *words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "treadle_cli", "serve", "--port", "0", "--session-dir", str(folder), *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("served at http://127.0.0.1:"), line + (
                process.stderr.read() if process.stderr else ""
            )
            yield process, line.removeprefix("served at ").strip()
        finally:
            process.kill()


def client(address: str, token: str = TOKEN) -> httpx.Client:
    base = address.partition("/#")[0].rstrip("/")
    return httpx.Client(base_url=base, headers={"authorization": f"Bearer {token}"}, trust_env=False, timeout=60)


class Told:
    """What a stream told, as the lines come."""

    def __init__(self, response: httpx.Response, events: list[Any]) -> None:
        self._lines = response.iter_lines()
        self._events = events
        self.id: str | None = None

    def next(self) -> tuple[str, Any]:
        event = ""
        for line in self._lines:
            name, _, value = line.partition(": ")
            if name == "event":
                event = value
            elif name == "id":
                self.id = value
            elif name == "data":
                return event, json.loads(value)
        return "end", None

    def until(self, wanted: str) -> None:
        while True:
            event, data = self.next()
            if event == "event":
                self._events.append(data)
            elif event == "reset":  # a kill lost what had been told and was not written yet
                self._events.clear()
            if event in (wanted, "end") or (event == "event" and data["type"] == wanted):
                return


@pytest.mark.slow
def test_it_prints_a_token_that_opens_it_and_ends_with_0_when_told_to(tmp_path: Path) -> None:
    with serving(tmp_path, TREADLE_WEB_TOKEN="") as (process, address):
        token = address.partition("#token=")[2]
        with client(address, token) as web, client(address, "wrong-token-of-somebody") as stranger:
            assert stranger.get("/api/sessions").status_code == 401
            assert web.get("/readyz").status_code == 200
            name = web.post("/api/sessions", json={"message": "Hello"}).json()["id"]
            with web.stream("GET", f"/api/sessions/{name}/stream") as response:
                told = Told(response, [])
                told.until("turn/end")
                process.send_signal(signal.SIGTERM)
                told.until("bye")
                assert told.next()[0] == "end"
        assert process.wait(60) == 0


@pytest.mark.slow
def test_a_client_goes_on_after_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    events: list[Any] = []
    name, place = "", None
    for turn in range(1, 4):
        with serving(tmp_path, TREADLE_WEB_TOKEN=TOKEN) as (process, address), client(address) as web:
            if not name:
                name = web.post("/api/sessions", json={}).json()["id"]
            headers = {"last-event-id": place} if place else {}
            with web.stream("GET", f"/api/sessions/{name}/stream", headers=headers) as response:
                sent = web.post(f"/api/sessions/{name}/messages", json={"id": f"m{turn}", "text": f"turn {turn}"})
                assert sent.status_code == 202, sent.text
                told = Told(response, events)
                while sum(one["type"] == "turn/end" for one in events) < turn:
                    told.until("turn/end")
                place = told.id
            again = web.post(f"/api/sessions/{name}/messages", json={"id": "m1", "text": "turn 1"}).json()
            assert again["duplicate"] is True
            assert web.get(f"/api/sessions/{name}/messages/m{turn}?wait=30").json()["fate"] == "admitted"
            kept = web.get(f"/api/sessions/{name}/events?limit=1000").json()
            assert events == kept[: len(events)]
            process.kill()
            process.wait()
    assert [one["seq"] for one in events] == list(range(len(events)))
    assert [one["data"]["turn"] for one in events if one["type"] == "turn/end"] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--host", "0.0.0.0"), "can be reached by others"),
        (("--port", "70000"), "--port takes a port"),
        (("--drain", "-1"), "--drain takes seconds"),
        (("--continue",), "leave --resume and --continue out"),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "treadle_cli", "serve", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 2
    assert told in done.stderr.replace("\n         ", " ")
