"""Agents of careless authors: each breaks one thing that a check of agents finds. What each expects stands beside it."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from time import sleep
from typing import Any

import trio
from attrs import define, field

from treadle import Answer, Call, Host, ToolError, tool
from treadle.hooks import (
    AGENT_STATUS,
    LLM_STREAM,
    PRE_STEP,
    REQUEST_ERROR,
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TURN_STOPPING,
    AskCall,
)
from treadle_specs.agents import Scenario, Turn, World

CALL = Scenario([Turn("Go.", Answer(calls=[Call("work", {})]), "It is done.")])
TALK = Scenario([Turn("Go.", "It is done.")])


@define
class Fault:
    """A faulty agent: what is wrong with it, the text of the line to be named, and what it is checked with."""

    make: Callable[..., Any]
    kind: str
    line: str
    scenario: Scenario = CALL
    options: dict[str, Any] = field(factory=dict)


FAULTS: dict[str, Fault] = {}


def faulty(kind: str, line: str, scenario: Scenario = CALL, **options: Any) -> Callable[[Any], Any]:
    def note(function: Any) -> Any:
        FAULTS[function.__name__] = Fault(function, kind, line, scenario, options)
        return function

    return note


def as_tool(kind: str, line: str) -> Callable[[Any], Any]:
    """The function is the tool itself."""

    def note(function: Any) -> Any:
        FAULTS[function.__name__] = Fault(partial(register, function=function), kind, line)
        return function

    return note


def register(host: Host, function: Any) -> None:
    host.tools.register(tool(name="work", description="Work.")(function))


async def work() -> str:
    """Work."""
    await trio.sleep(1)
    return "worked"


# --- cancellations that are kept ----------------------------------------------------------------------------------------


@as_tool("swallowed cancellation", "await trio.sleep(1)  # swallowed here")
async def goes_on_with_the_next() -> str:
    for _ in range(3):
        try:
            await trio.sleep(1)  # swallowed here
        except BaseException:
            continue
    return "ok"


@as_tool("swallowed cancellation", "await trio.sleep(1)  # and told as an error")
async def tells_an_error_instead() -> str:
    try:
        await trio.sleep(1)  # and told as an error
    except BaseException as error:
        raise ToolError("it failed") from error
    return "ok"


@as_tool("does not converge", "await trio.sleep(1)  # again and again")
async def tries_for_ever() -> str:
    done = False
    while not done:
        try:
            await trio.sleep(1)  # again and again
            done = True
        except BaseException:
            pass
    return "ok"


@as_tool("does not converge", "await never.wait()")
async def waits_behind_a_shield() -> str:
    never = trio.Event()
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await never.wait()
        raise
    return "ok"


@faulty("swallowed cancellation", "await trio.sleep(1)  # in a hook")
def hook_swallows(host: Host) -> None:
    async def after(_, proceed):
        try:
            await trio.sleep(1)  # in a hook
        except trio.Cancelled:
            pass
        return await proceed()

    register(host, work)
    host.on(TOOLS_POST_EXECUTE, after)


# --- what is left -------------------------------------------------------------------------------------------------------


@as_tool("left behind", 'child = subprocess.Popen(["sleep", "60"])  # killed below')
async def child_of_a_cancelled_call() -> str:
    child = subprocess.Popen(["sleep", "60"])  # killed below
    await trio.sleep(1)
    child.kill()
    child.wait()
    return "ok"


@as_tool("left behind", 'await trio.run_process(["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 </dev/null &"])')
async def child_of_a_shell() -> str:
    await trio.run_process(["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 </dev/null &"])
    return "ok"


@as_tool("left behind", 'subprocess.Popen(["sleep", "60"])  # in a thread')
def child_of_a_sync_tool() -> str:
    subprocess.Popen(["sleep", "60"])  # in a thread
    return "ok"


KEPT: list[Any] = []


@as_tool("left behind", 'kept = open(tempfile.gettempdir() + "/treadle-check", "w")')
async def file_stays_open() -> str:
    kept = open(tempfile.gettempdir() + "/treadle-check", "w")
    KEPT.append(kept)
    return "ok"


@as_tool("left behind", "kept = socket.socket()")
async def socket_stays_open() -> str:
    kept = socket.socket()
    KEPT.append(kept)
    return "ok"


@as_tool("left behind", "OVER.wait(60)")
async def thread_goes_on() -> str:
    threading.Thread(target=waits, daemon=True).start()
    return "ok"


OVER = threading.Event()


def waits() -> None:
    OVER.wait(60)


# --- what is not given back ---------------------------------------------------------------------------------------------


@faulty("not given back", "await lock.acquire()")
def lock_is_kept(host: Host) -> None:
    lock = trio.Lock()

    async def locking() -> str:
        await lock.acquire()
        await trio.sleep(1)
        lock.release()
        return "ok"

    register(host, locking)


@faulty("not given back", "await places.acquire()")
def place_is_kept_by_a_hook(host: Host) -> None:
    places = trio.Semaphore(5)

    async def around(_, proceed):
        await places.acquire()
        result = await proceed()
        places.release()
        return result

    register(host, work)
    host.on(TOOLS_EXECUTE, around)


@faulty("not given back", "connection = await free.receive()")
def connection_of_a_pool_is_kept(host: Host) -> None:
    give, free = trio.open_memory_channel(3)
    for number in range(3):
        give.send_nowait(number)

    async def connected() -> str:
        connection = await free.receive()
        await trio.sleep(1)
        give.send_nowait(connection)
        return "ok"

    register(host, connected)


@faulty("never comes to rest", "await trio.sleep(60)  # until one is free")
def pool_of_its_own_runs_dry(host: Host) -> None:
    pool = [object(), object(), object()]

    async def pooled() -> str:
        while not pool:
            await trio.sleep(60)  # until one is free
        one = pool.pop()
        await trio.sleep(1)
        pool.append(one)
        return "ok"

    register(host, pooled)


# --- hooks that wait for themselves -------------------------------------------------------------------------------------


@faulty("hook raised", "await step.agent.when_idle()", TALK)
def hook_awaits_idle(host: Host) -> None:
    async def before(step, proceed):
        await step.agent.when_idle()
        return await proceed()

    host.on(PRE_STEP, before)


@faulty("never comes to rest", "await done.wait()", TALK)
def hook_awaits_another_task(host: Host) -> None:
    async def stopping(told):
        done = trio.Event()

        async def wait():
            await told.agent.when_idle()
            done.set()

        host.scope.spawn(wait)
        await done.wait()

    host.on(TURN_STOPPING, stopping)


# --- hooks that break on a retry ----------------------------------------------------------------------------------------


@faulty("hook raised", "assert not failed.prior", TALK)
def hook_knows_one_failure(host: Host) -> None:
    async def decide(failed, proceed):
        assert not failed.prior
        return await proceed()

    host.on(REQUEST_ERROR, decide)


@faulty("hook raised", 'raise RuntimeError("this step was asked for already")', TALK)
def hook_knows_one_attempt(host: Host) -> None:
    asked: set[tuple[int, int]] = set()

    async def stream(proposal, proceed):
        if (proposal.turn, proposal.step) in asked:
            raise RuntimeError("this step was asked for already")
        asked.add((proposal.turn, proposal.step))
        return await proceed()

    host.on(LLM_STREAM, stream)


# --- calls that block ---------------------------------------------------------------------------------------------------


@as_tool("blocks", "time.sleep(0.1)")
async def tool_sleeps() -> str:
    time.sleep(0.1)
    return "ok"


@faulty("blocks", "sleep(0.1)", TALK)
def listener_sleeps(host: Host) -> None:
    def told(_):
        sleep(0.1)

    host.on(AGENT_STATUS, told)


@faulty("blocks", "time.sleep(0.06)  # before the next attempt", TALK)
def hook_sleeps_on_a_retry(host: Host) -> None:
    def decide(_, proceed):
        time.sleep(0.06)  # before the next attempt
        return proceed()

    host.on(REQUEST_ERROR, decide)


@as_tool("blocks", 'subprocess.run(["sleep", "0.1"], check=True)')
async def tool_runs_a_program() -> str:
    subprocess.run(["sleep", "0.1"], check=True)
    return "ok"


@as_tool("blocks", "listening.accept()")
async def tool_accepts_for_ever() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.accept()
    return "ok"


# --- approvals that hang ------------------------------------------------------------------------------------------------


@define
class Desk:
    """Approvals that wait for somebody's word; the page that shows them outlives the agent."""

    pending: dict[str, trio.Event] = field(factory=dict)


def says_yes(world: World) -> bool:
    for asked in list(world.outside.pending.values()):
        asked.set()
    return bool(world.outside.pending)


def nothing_pending(world: World) -> bool:
    return world.life == 2 or not world.outside.pending


APPROVED = Scenario([Turn("Go.", Answer(calls=[Call("work", {})]), "It is done.", meanwhile=[says_yes])])


def asked_first(host: Host) -> None:
    async def before(_, proceed):
        del proceed
        return AskCall("Really?")

    register(host, work)
    host.on(TOOLS_PRE_EXECUTE, before)


@faulty("invariant", "await asked.wait()  # forgotten", APPROVED, outside=Desk, invariant=nothing_pending)
def approval_stays_on_the_page(host: Host, desk: Desk) -> None:
    async def approve(proposal, _):
        asked = desk.pending[proposal.call.call_id] = trio.Event()
        await asked.wait()  # forgotten
        del desk.pending[proposal.call.call_id]
        return True

    asked_first(host)
    host.approver = approve


@faulty("does not converge", "await asked.wait()  # whatever happens", APPROVED, outside=Desk)
def approval_cannot_be_stopped(host: Host, desk: Desk) -> None:
    async def approve(proposal, _):
        asked = desk.pending[proposal.call.call_id] = trio.Event()
        with trio.CancelScope(shield=True):
            await asked.wait()  # whatever happens
        del desk.pending[proposal.call.call_id]
        return True

    asked_first(host)
    host.approver = approve


# --- effects that are doubled -------------------------------------------------------------------------------------------


@define
class Account:
    """Money that was paid."""

    paid: int = 0


def paid_once(world: World) -> bool:
    return world.outside.paid <= 1


@faulty("invariant", "account.paid += 1  # in a thread", outside=Account, invariant=paid_once)
def payment_is_doubled(host: Host, account: Account) -> None:
    def pay() -> str:
        account.paid += 1  # in a thread
        return "paid"

    register(host, pay)


@faulty("invariant", "await trio.sleep(1)  # the bank confirms", outside=Account, invariant=paid_once)
def payment_is_doubled_while_it_is_confirmed(host: Host, account: Account) -> None:
    async def pay() -> str:
        account.paid += 1
        await trio.sleep(1)  # the bank confirms
        return "paid"

    register(host, pay)
