"""Asks a running Phoenix what it shows of the example's session: ``python tests/telemetry/phoenix.py ADDRESS [PICTURE]``.

It sends the session first. What has to hold is asserted through Phoenix's API; with a second word the trace is photographed
as a person sees it, which needs Debian's ``chromium``. ``.ci/phoenix`` starts the server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DEADLINE = 60.0
"""Seconds in which Phoenix has to show what it was sent."""
SPANS = 22

Span = dict[str, Any]


def send(address: str) -> str:
    """Send the example's session; returns its trace."""
    command = [sys.executable, str(ROOT / "examples" / "telemetry_phoenix.py"), address]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    return told.split()[1]


def shown(address: str, trace: str) -> list[Span]:
    """The spans of a trace as Phoenix shows them, once they are all there."""
    end = time.monotonic() + DEADLINE
    while True:
        with urllib.request.urlopen(f"{address}/v1/projects/default/spans?limit=1000") as answer:
            spans = [span for span in json.load(answer)["data"] if span["context"]["trace_id"] == trace]
        if len(spans) >= SPANS or time.monotonic() > end:
            return spans
        time.sleep(0.5)


def check(spans: list[Span]) -> None:
    """Agents, models and tools are seen as such, with their tokens, each in its place."""
    assert len(spans) == SPANS, sorted([span["name"] for span in spans])
    by_id = {span["context"]["span_id"]: span for span in spans}
    kinds = Counter([span["span_kind"] for span in spans])
    assert (kinds["AGENT"], kinds["LLM"], kinds["TOOL"]) == (3, 6, 3), kinds
    prompt = [span["attributes"].get("llm.token_count.prompt") for span in spans if span["span_kind"] == "LLM"]
    assert sorted([count for count in prompt if count is not None]) == [80, 140, 210, 260]
    said = sum([span["attributes"].get("llm.token_count.completion", 0) for span in spans])
    assert said == 12 + 9 + 30 + 8
    for span in spans:
        attributes = span["attributes"]
        match span["span_kind"]:
            case "LLM":
                assert attributes["llm.model_name"] == "small"
                assert attributes["llm.provider"] == "openai"
                assert "llm.input_messages.0.message.role" in attributes
            case "TOOL":
                assert attributes["tool.name"] == span["name"].removeprefix("execute_tool ")
                assert attributes["output.value"]
            case "AGENT":
                assert attributes["session.id"]
            case _:
                pass
    assert "4111 1111" not in json.dumps(spans), "content is redacted"
    inner = [span for span in spans if span["span_kind"] == "AGENT" and span["attributes"]["session.id"] != "support"]
    assert [by_id[span["parent_id"]]["name"] for span in inner] == ["execute_tool delegate"]
    failed = [span["status_message"] for span in spans if span["status_code"] == "ERROR"]
    assert sorted(failed) == ["SERVER", "interrupted"]


def photograph(address: str, trace: str, span: str, out: Path) -> None:
    """Take the picture of a trace, one of its spans chosen."""
    sys.path.insert(0, str(ROOT))
    from tests.diagrams.browser import Browser

    with urllib.request.urlopen(f"{address}/v1/projects/default") as answer:
        project = json.load(answer)["data"]["id"]
    with Browser() as browser:
        browser.size(1500, 1130, 1)
        browser.media(features={"prefers-color-scheme": "light"})
        browser.call("Page.navigate", url=f"{address}/projects/{project}/traces/{trace}?selectedSpanNodeId={span}")
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end and not browser.run(
            "!!document.body?.innerText.includes('execute_tool delegate')"
        ):
            time.sleep(0.5)
        browser.run("new Promise(done => setTimeout(done, 2000))")
        browser.picture(out, (374, 46, 1126, 1084))


def main() -> None:
    """Send, look, and photograph."""
    address, *picture = sys.argv[1:]
    trace = send(address)
    spans = shown(address, trace)
    check(spans)
    kinds = Counter([span["span_kind"] for span in spans])
    print(f"Phoenix shows {len(spans)} spans: {kinds['AGENT']} AGENT, {kinds['LLM']} LLM, {kinds['TOOL']} TOOL")
    for out in picture:
        (asked,) = [span["id"] for span in spans if span["attributes"].get("llm.token_count.prompt") == 260]
        photograph(address, trace, asked, Path(out))


if __name__ == "__main__":
    main()
