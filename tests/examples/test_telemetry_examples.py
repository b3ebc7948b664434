"""The examples telemetry_collector and telemetry_phoenix send what they promise, to a server on 127.0.0.1."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

EXAMPLES = Path(__file__).parents[2] / "examples"


class Collector(HTTPServer):
    """Keeps what it is sent, by path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.kept: dict[str, list[bytes]] = {}


class Handler(BaseHTTPRequestHandler):
    """Takes everything."""

    server: Collector  # type: ignore[assignment]  # as the interface has it

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        self.server.kept.setdefault(self.path, []).append(body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(name: str, collector: Collector, *words: str) -> subprocess.CompletedProcess[str]:
    env = {
        "PYTHONPATH": ":".join([path for path in sys.path if path]),
        "PATH": "/usr/bin:/bin",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
    }
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)


def spans(collector: Collector) -> list[str]:
    found = [ExportTraceServiceRequest.FromString(body) for body in collector.kept["/v1/traces"]]
    return [
        span.name
        for one in found
        for resource in one.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


@pytest.mark.slow
def test_the_collector_example_sends_spans_and_metrics_and_logs_with_trace_ids(collector: Collector) -> None:
    done = run("telemetry_collector", collector)
    assert done.returncode == 0, done.stderr
    assert "dropped: 0 failed: 0" in done.stdout
    names = spans(collector)
    assert "invoke_agent forecaster" in names
    assert "execute_tool weather" in names
    assert names.count("chat small") == 2
    found = [ExportMetricsServiceRequest.FromString(body) for body in collector.kept["/v1/metrics"]]
    metrics = {
        metric.name
        for one in found
        for resource in one.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert {"gen_ai.client.inference.duration", "gen_ai.client.inference.usage.input_tokens", "treadle.cost"} <= metrics
    (asked,) = [line for line in done.stderr.splitlines() if "asked for Oslo" in line]
    assert "[forecast, trace " in asked
    assert "trace ]" not in asked


@pytest.mark.slow
def test_the_phoenix_example_sends_agents_models_and_tools_in_one_trace(collector: Collector) -> None:
    done = run("telemetry_phoenix", collector, f"http://127.0.0.1:{collector.server_port}")
    assert done.returncode == 0, done.stderr
    assert "dropped: 0" in done.stdout
    names = spans(collector)
    assert names.count("invoke_agent support") == 3
    assert {"execute_tool delegate", "execute_tool search", "execute_tool count", "convergence"} <= set(names)
    bodies = b"".join(collector.kept["/v1/traces"])
    assert b"[card]" in bodies
    assert b"4111 1111" not in bodies
