"""``treadle export otlp`` and ``treadle stats``."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from tests.diagrams.logs import HEADER, scripted
from treadle.session import encode_event, encode_header
from treadle_cli import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    lines = [encode_header(HEADER), *[encode_event(entry) for entry in scripted("cancel-in-a-tool")]]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def spans(text: str) -> list[dict[str, Any]]:
    requests = [json.loads(line) for line in text.splitlines()]
    return [span for one in requests for span in one["resourceSpans"][0]["scopeSpans"][0]["spans"]]


@contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """A server on 127.0.0.1 that keeps what it is sent."""
    kept: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.append((self.path, dict(self.headers), body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", kept
        finally:
            server.shutdown()
            thread.join()


def test_spans_are_written_to_stdout(log: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["export", "otlp", str(log)]) == 0
    found = spans(capsysbinary.readouterr().out.decode())
    assert len([span for span in found if span["name"].startswith("execute_tool")]) == 3


def test_a_file_of_spans_is_readable_by_its_owner_alone(log: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new" / "spans.jsonl"
    assert (
        main(["export", "otlp", str(log), "--out", str(out), "--content", "--name", "worker", "--service", "mine"]) == 0
    )
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    text = out.read_text()
    assert '"invoke_agent worker"' in text
    assert "gen_ai.input.messages" in text
    assert '"stringValue":"mine"' in text
    assert f"wrote {len(spans(text))} spans to {out}" in capsys.readouterr().err


def test_content_is_written_only_when_asked_for(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "spans.jsonl"
    main(["export", "otlp", str(log), "--out", str(out)])
    assert "messages" not in out.read_text()


def test_spans_are_sent_to_a_collector_with_its_headers(log: Path, capsys: Capture) -> None:
    with collector() as (address, kept):
        assert main(["export", "otlp", str(log), "--endpoint", address, "--header", "authorization=secret"]) == 0
    ((path, headers, body),) = kept
    assert path == "/v1/traces"
    assert headers["authorization"] == "secret"
    assert headers["Content-Type"] == "application/json"
    assert spans(body.decode())
    assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize(("status", "says"), [(415, "does not take OTLP as JSON"), (503, "answered 503")])
def test_a_collector_that_refuses_is_an_error_in_words(status: int, says: str, log: Path, capsys: Capture) -> None:
    with collector(status) as (address, _):
        assert main(["export", "otlp", str(log), "--endpoint", address]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--endpoint", "http://127.0.0.1:1"], "cannot be reached"),
        (["--endpoint", "collector:4318"], "must begin with http:// or https://"),
        (["--endpoint", "http://127.0.0.1:1", "--out", "x"], "either --out or --endpoint"),
        (["--header", "a=b"], "give --endpoint with it"),
        (["--endpoint", "http://127.0.0.1:1", "--header", "a"], "--header takes name=value"),
    ],
)
def test_wrong_words_are_told(words: list[str], says: str, log: Path, capsys: Capture) -> None:
    assert main(["export", "otlp", str(log), *words]) != 0
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("command", [["export", "otlp"], ["stats"]])
def test_what_can_be_read_of_a_damaged_log_is_told_and_the_damage_is(
    command: list[str], log: Path, capsys: Capture
) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:8], b"nonsense\n", *lines[9:]]))
    assert main([*command, str(log)]) == 1
    told = capsys.readouterr()
    assert "line 9" in told.err
    assert told.out


@pytest.mark.parametrize("command", [["export", "otlp"], ["stats"]])
def test_a_log_that_is_not_there_is_told(command: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert main([*command, str(tmp_path / "none.jsonl")]) == 1
    assert "none.jsonl" in capsys.readouterr().err


def test_figures_are_a_table(log: Path, capsys: Capture) -> None:
    assert main(["stats", str(log), str(log)]) == 0
    told = capsys.readouterr().out
    assert "2 sessions; turns: 2 aborted, 2 completed" in told
    (row,) = [line.split() for line in told.splitlines() if line.startswith("look")]
    assert row[:3] == ["look", "4", "2"]


def test_figures_are_json(log: Path, capsys: Capture) -> None:
    assert main(["stats", str(log), "--json"]) == 0
    found = cast("dict[str, Any]", json.loads(capsys.readouterr().out))
    assert found["tools"]["look"]["calls"] == 2
    assert found["models"]["scripted-1"]["attempts"] == 2


def test_figures_are_a_picture(log: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new" / "stats.svg"
    assert main(["stats", str(log), "--svg", str(out)]) == 0
    text = out.read_text()
    assert text.startswith("<svg ")
    assert "Tools" in text
    assert "scripted-1" in text
    assert "never" in text, "a tool that was only ever stopped"
    assert str(out) in capsys.readouterr().err
