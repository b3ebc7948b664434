"""Records the sessions that estimates are held to: ``python -m tests.extensions.record``; needs what a real model needs.

Each request is sent to a real server, which counts its tokens; what is answered comes from a script, as the model is too
small to work with tools. So the counts are a tokenizer's own, and the sessions are made the same way each time.
"""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import trio
from attrs import define, evolve

from treadle import AgentOptions, Answer, Call, Host, ModelFailure, ModelRequest, tool
from treadle.models import Chunk, Usage, UsageReport
from treadle.models.scripted import chunks_of
from treadle.session import encode_event, encode_header
from treadle_adapters.models.openai_chat import OpenAIChat

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SESSIONS = HERE / "sessions"


@define
class Counted:
    """Answers from a script, with the input tokens that a real server counts."""

    model: OpenAIChat
    script: list[Answer]
    name: str = "counted"
    retry_policy: None = None

    async def model_info(self, model: str) -> Any:
        return await self.model.model_info(model)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        asked = msgspec.structs.replace(request.config, max_tokens=1)
        counted = Usage()
        try:
            async for chunk in self.model.stream(evolve(request, config=asked)):
                if isinstance(chunk, UsageReport):
                    counted = chunk.usage
        except ModelFailure as failed:  # it had nothing to say; its prompt was counted all the same
            if failed.failure.code != "EMPTY_RESPONSE":
                raise
        answer = self.script.pop(0)
        for chunk in chunks_of(evolve(answer, usage=Usage(input_tokens=counted.input_tokens))):
            yield chunk


@tool
def read(path: str, start: int = 0, count: int = 1_500) -> str:
    """Read a part of a text file, so many characters from a place on."""
    return (ROOT / path).read_text(encoding="utf-8")[start : start + count]


@tool
def listing(count: int) -> list[dict[str, Any]]:
    """List the newest records of the store as JSON."""
    return [{"id": f"rec_{n:04}", "kind": "invoice", "total": n * 17.25, "open": n % 3 == 0} for n in range(count)]


def reading(path: str, start: int, count: int = 1_500) -> Answer:
    """An answer that asks for a part of a file."""
    return Answer(calls=[Call("read", {"path": path, "start": start, "count": count})])


TALK = [
    "A river begins as almost nothing: a wet place between stones. It is patient, and so it gets its way.",
    "Chapter two. The miller's daughter kept a ledger of floods, one line for each, in a hand that never hurried.",
    "Chapter three. Nobody in the valley could remember a dry year, which is not the same as there having been none.",
    "It ends where it has to: with salt, and gulls, and the long exhale of a tide going out.",
] * 2
SCRIPTS: dict[str, tuple[list[str], list[Answer]]] = {
    "talk": (["Tell me of a river.", "Go on.", "And then?", "How does it end?"] * 2, [Answer(text) for text in TALK]),
    "code": (
        ["What does the driver do? Read it.", "And the kernel?"],
        [
            Answer("I look.", calls=[Call("read", {"path": "machine/treadle/loop/driver.py"})]),
            reading("machine/treadle/loop/driver.py", 1_500, 3_000),
            reading("machine/treadle/loop/driver.py", 4_500, 2_000),
            Answer("It performs what the kernel decides, and tells of it once that is done."),
            reading("machine/treadle/kernel/kernel.py", 0, 2_500),
            reading("docs/architecture.md", 0, 2_500),
            Answer("It is a plain function from an input to a list of effects."),
        ],
    ),
    "data": (
        ["Which invoices are open? Answer in German, please: Welche Rechnungen sind noch offen?"],
        [
            Answer(calls=[Call("listing", {"count": 12})]),
            Answer(calls=[Call("listing", {"count": 30}), Call("read", {"path": "README.md", "count": 900})]),
            Answer(calls=[Call("read", {"path": "CHANGELOG.md", "count": 2_500})]),
            Answer(calls=[Call("listing", {"count": 6})]),
            Answer("Offen sind jene, deren Nummer sich durch drei teilen lässt."),
        ],
    ),
}


def serve() -> tuple[subprocess.Popen[str], str]:
    """Start the server of the tests, with room for longer prompts."""
    text = (HERE.parent / "adapters" / "llama_server.py").read_text(encoding="utf-8")
    program = text.replace("n_ctx = 2048", "n_ctx = 8192").replace("SLOTS = 2", "SLOTS = 1")
    pipe = subprocess.PIPE
    server = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=-3, text=True)
    assert server.stdout is not None
    return server, server.stdout.readline().strip()


async def record(address: str, name: str) -> None:
    """Record one session."""
    prompts, script = SCRIPTS[name]
    async with OpenAIChat(f"{address}/v1", stream_idle_timeout=3_000) as real, Host() as host:
        host.models.register("counted", Counted(real, list(script)))
        for one in (read, listing):
            host.tools.register(one)
        host.prompt.persona("You help with a repository. Be brief, and say where you found what you say.")
        options = AgentOptions(provider="counted", model="smollm2")
        handle = await host.agents.create(session_id=f"recorded-{name}", agent_options=options)
        for prompt in prompts:
            print(name, (await handle.agent.ask(prompt)).reason, flush=True)
        session = handle.agent.session
        header = msgspec.structs.replace(session.header, cwd="/recorded")
        lines = [encode_header(header), *[encode_event(entry) for entry in session.events]]
        (SESSIONS / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


if __name__ == "__main__":
    server, address = serve()
    for name in sys.argv[1:] or SCRIPTS:
        trio.run(record, address, name)
    print(json.dumps({"recorded": sorted(path.name for path in SESSIONS.iterdir())}))
    server.communicate()
