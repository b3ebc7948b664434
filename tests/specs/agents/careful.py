"""Agents of careful authors, who use what trio and the public API offer: a check of agents finds nothing in them."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from typing import Any

import trio
import trio.testing
from attrs import define, field

from treadle import AgentOptions, Answer, Call, Host, ToolOutput, ToolRun, message, subagent, tool
from treadle.hooks import (
    AGENT_STATUS,
    REQUEST_ERROR,
    SESSION_EVENT,
    TOOLS_PRE_EXECUTE,
    TOOLS_RESULT,
    TURN_STOPPING,
    AskCall,
    Retry,
)
from treadle_specs.agents import Scenario, Turn, World


@define
class Careful:
    """An agent, and what it is checked with."""

    make: Callable[..., Any]
    scenario: Scenario
    options: dict[str, Any] = field(factory=dict)


CAREFUL: dict[str, Careful] = {}


def careful(*turns: Turn, children: dict[str, Any] | None = None, **options: Any) -> Callable[[Any], Any]:
    def note(function: Any) -> Any:
        CAREFUL[function.__name__] = Careful(function, Scenario(turns, children=children or {}), options)
        return function

    return note


def calling(*calls: Call) -> Turn:
    return Turn("Go.", Answer(calls=calls), "It is done.")


@careful(calling(*[Call(name, {"number": 1}) for name in ("waited", "abandoned", "synchronous", "waited")]))
def threads(host: Host) -> None:
    def job(number: int) -> int:
        time.sleep(0.002)
        return number + 1

    async def waited(number: int) -> int:
        return await trio.to_thread.run_sync(job, number)

    async def abandoned(number: int) -> int:
        return await trio.to_thread.run_sync(job, number, abandon_on_cancel=True)

    def synchronous(number: int) -> int:
        return job(number)

    for function in (waited, abandoned, synchronous):
        host.tools.register(tool(function, parallel=True))


@careful(calling(Call("program", {"text": "a"}), Call("program", {"text": "b"}), Call("server")))
def processes(host: Host) -> None:
    async def program(text: str) -> str:
        return (await trio.run_process(["cat"], stdin=text.encode(), capture_stdout=True)).stdout.decode()

    async def server() -> str:
        async with trio.open_nursery() as nursery:
            process = await nursery.start(
                lambda task_status: trio.run_process(["sleep", "100"], task_status=task_status, check=False)
            )
            await trio.sleep(0.01)
            process.terminate()
        return "ended"

    host.tools.register(tool(program, parallel=True))
    host.tools.register(tool(server))


@define
class Desk:
    pending: dict[str, trio.Event] = field(factory=dict)


DESKS: dict[Host, Desk] = {}  # a desk dies with its host


def says_yes(world: World) -> bool:
    pending = DESKS[world.host].pending
    for asked in list(pending.values()):
        asked.set()
    return bool(pending)


@careful(
    Turn("Go.", Answer(calls=[Call("work"), Call("work")]), "It is done.", meanwhile=[says_yes, says_yes]),
    invariant=lambda world: not DESKS[world.host].pending,
)
def approvals(host: Host) -> None:
    desk = DESKS[host] = Desk()

    async def work() -> str:
        return "worked"

    async def before(_, proceed):
        del proceed
        return AskCall("Really?")

    async def approve(proposal, _):
        asked = desk.pending[proposal.call.call_id] = trio.Event()
        try:
            with trio.move_on_after(300):
                await asked.wait()
                return True
            return False
        finally:
            del desk.pending[proposal.call.call_id]

    host.tools.register(tool(work))
    host.on(TOOLS_PRE_EXECUTE, before)
    host.approver = approve


@careful(calling(Call("work")), Turn("And then?", "Nothing."))
def retries_and_steering(host: Host) -> None:
    steered: set[tuple[str, int]] = set()

    async def decide(failed, proceed):
        if len(failed.prior) < 3:
            await trio.sleep(1)
            return Retry()
        return await proceed()

    async def stopping(told):
        if (told.agent.id, told.turn) not in steered:
            steered.add((told.agent.id, told.turn))
            told.agent.steer("Check it.")

    async def work(run: ToolRun) -> ToolOutput:
        run.agent.steer("By the tool.")
        return ToolOutput("worked", contexts=[message("beside")])

    host.tools.register(tool(work))
    host.on(REQUEST_ERROR, decide)
    host.on(TURN_STOPPING, stopping)
    host.on(TOOLS_RESULT, lambda settled: settled.agent.inject("Noted."))
    host.on(SESSION_EVENT, lambda _: None)


@careful(
    calling(Call("delegate", {"prompt": "one"}), Call("delegate", {"prompt": "two"})),
    children={"one": [Answer(calls=[Call("work")]), "First."], "two": ["Second."]},
)
def sub_agents(host: Host) -> None:
    async def work() -> str:
        await trio.sleep(1)
        return "worked"

    host.tools.register(tool(work))
    host.tools.register(subagent("delegate", "Delegate.", parallel=True))


@careful(calling(Call("work", {"number": 1}), Call("work", {"number": 2})))
def services_and_timeouts(host: Host) -> None:
    async def beat() -> None:
        while True:
            await trio.sleep(30)

    async def serve() -> None:
        async for _ in taken:
            pass

    async def slowly(_) -> None:
        await trio.sleep(2)

    given, taken = trio.open_memory_channel[int](100)
    host.scope.spawn(beat)
    host.scope.spawn(serve)
    host.on(AGENT_STATUS, slowly)
    folder = tempfile.TemporaryDirectory()
    host.scope.defer(folder.cleanup)
    base = sqlite3.connect(folder.name + "/base")
    host.scope.defer(base.close)
    lock = trio.Lock()

    async def work(number: int) -> str:
        async with lock:
            with trio.move_on_after(1):
                await trio.sleep(9)
            try:
                await trio.sleep(1)
            finally:
                with trio.CancelScope(shield=True), trio.move_on_after(3):
                    await trio.sleep(10)
            await given.send(number)
        async with await trio.open_file(f"{folder.name}/{number}", "w") as file:
            await file.write("worked")
        return "worked"

    host.tools.register(tool(work, parallel=True, timeout=30))
    host.tools.guard(lambda _: None)


@careful(calling(Call("work")))
def connections(host: Host) -> None:
    async def work() -> str:
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(trio.serve_tcp, lambda stream: stream.send_all(b"hello"), 0)
            async with await trio.testing.open_stream_to_socket_listener(listeners[0]) as stream:
                got = await stream.receive_some()
            nursery.cancel_scope.cancel()
        return bytes(got).decode()

    host.tools.register(tool(work))


@careful(
    Turn("Go.", Answer(calls=[Call("work", "{no"), Call("none"), Call("work", {"number": 5})]), "It is done."),
    Turn("And then?", Answer("Half of", finish="max-tokens")),
)
async def errors_of_the_model(host: Host) -> dict[str, Any]:
    async def set_up(_, agent) -> None:
        def work(number: int) -> str:
            raise ValueError(f"{number} is too much")

        agent.tools.register(tool(work))

    await trio.sleep(1)
    return {"agent_options": AgentOptions("anyone", "large"), "setup": set_up}
