"""Every example runs, and says what its text promises."""

import asyncio
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import httpx
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

SAYS = {
    "embed": ["ended: Completed()", "answer: It is sunny in Oslo."],
    "preset": [
        "free: tools ['write'], prompt ''",
        "reviewer: tools [], prompt 'You review code. You are kind.",
        "Check: tests, names, errors.",
        "service: ('tests', 'names', 'errors') None",
    ],
    "sub_agents": ["I looked into the logs.", "I looked into the code.", "assistant: Both are done.", "['parent']"],
}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested() -> None:
    tests = "".join([path.read_text(encoding="utf-8") for path in (EXAMPLES.parent / "tests").rglob("test_*.py")])
    assert [path.stem for path in EXAMPLES.glob("*.py") if path.stem not in tests] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_prints_what_it_promises(name: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": ":".join([path for path in sys.path if path]), "PATH": "/usr/bin:/bin"},
    )
    assert run.returncode == 0, run.stderr
    for text in SAYS[name]:
        assert text in run.stdout


def test_the_embedding_example_has_twenty_lines_of_code() -> None:
    lines = (EXAMPLES / "embed.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 20


@pytest.mark.slow
def test_the_web_example_streams_one_agent_per_session() -> None:
    app = load("fastapi_sse").app

    async def talk() -> None:
        async with app.router.lifespan_context(app), client(app) as web:
            said = await asyncio.gather(ask(web, "one", "a"), ask(web, "one", "b"), ask(web, "two", "c"))
            assert said == ["You said: a", "You said: b", "You said: c"]
            assert sorted([agent.id for agent in app.state.bridge.agents.list()]) == ["one", "two"]
            assert (await web.post("/sessions/one/cancel")).json() == {"status": "idle"}
            assert (await web.post("/sessions/..bad/messages", json={"text": "x"})).status_code == 422

    asyncio.run(talk())


def client(app: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")  # type: ignore[arg-type]


async def ask(web: httpx.AsyncClient, session: str, text: str) -> str:
    answer = await web.post(f"/sessions/{session}/messages", json={"text": text})
    assert answer.headers["content-type"].startswith("text/event-stream")
    words = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith('data: "')]
    return "".join([json.loads(word) for word in words])
