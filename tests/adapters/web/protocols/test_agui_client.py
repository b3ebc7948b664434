"""AG-UI's own client in Node.js, npm `@ag-ui/client`: what it makes of runs; under both servers."""

from __future__ import annotations

import pytest

from tests.adapters.web.protocols.clients.node import client
from tests.adapters.web.protocols.hosts import Gate, host_of
from tests.adapters.web.served import SERVERS, served
from treadle import Answer, Call, Failure
from treadle_adapters.web import Limits


@pytest.mark.parametrize("kind", SERVERS)
async def test_runs_interrupts_and_failures_are_what_its_client_makes_of_them(kind: str) -> None:
    gate = Gate()
    gate.opened.set()
    add = Call("add", {"a": 2, "b": 3})
    host = host_of(
        Answer("Let me see. ", calls=[Call("wait", {})]), "Waited.",
        Answer("Asked. ", calls=[add]), "It is five.",
        Answer("Asked. ", calls=[add]), "Then not.",
        *[Failure("the model is down", "SERVER")] * 3,
        asks=lambda name: name == "add", gate=gate,
    )  # fmt: skip
    async with served(host, kind, limits=Limits(gather=0.001)) as server:
        url = f"http://127.0.0.1:{server.port}/agui"
        async with client("agui.mjs", "@ag-ui/client", url, server.web.token or "") as agui:
            held = await agui.do("send", text="Wait")
            assert (held["outcome"], held["error"]) == ("success", None)
            assert [(one["role"], one.get("content")) for one in held["messages"]] == [
                ("user", "Wait"), ("assistant", "Let me see. "), ("tool", "waited"), ("assistant", "Waited."),
            ]  # fmt: skip
            for approved, said in ((True, "It is five."), (False, "Then not.")):
                held = await agui.do("send", text="2 + 3?")
                assert held["outcome"] == "interrupt"
                assert [one["message"] for one in held["pending"]] == ["May I?"]
                meanwhile = await agui.do("send", text="Something else")
                assert "thrown" in meanwhile  # its own rule: first the answer
                held = await agui.do("answer", approved=approved)
                assert (held["outcome"], held["pending"]) == ("success", [])
                assert held["messages"][-1]["content"] == said
            held = await agui.do("send", text="And broken?")
            assert held["error"] == "the model is down"
