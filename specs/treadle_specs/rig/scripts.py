"""Twenty scripted sessions: each drives an agent through one side of its life and leaves a log behind.

    header, events = record(SCRIPTS["steering"])

They are deterministic but for ids and times, need no network, and take no real time: waits are on trio's clock.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from attrs import field, frozen
from trio.testing import MockClock, wait_all_tasks_blocked

from treadle import (
    Agent,
    AgentHandle,
    AgentOptions,
    Answer,
    ByHook,
    Call,
    Event,
    Failure,
    Host,
    ModelRequest,
    ScriptedModel,
    SessionHeader,
    Text,
    message,
)
from treadle.errors import MaintenanceCancelled
from treadle.hooks import PRE_STEP, PROMPT_SUBMIT, TURN_STOPPING, Allow, BlockPrompt, Enter, StepProposal
from treadle.models import BlockStart, Chunk, Code, Finish, Finished, RetryPolicy, TextDelta, Usage
from treadle.session import SessionStore

from .script_tools import TOOLS

OPTIONS = AgentOptions(provider="scripted", model="scripted-1", max_steps_per_turn=12)
Drive = Callable[[Agent], Awaitable[None]]


@frozen
class Script:
    """One scripted session.

    Attributes:
        name: what it is called.
        about: one sentence.
        drive: talks to the agent, to the end.
        answers: makes what the model plays, in order.
        hooks: registers listeners on the agent's scope, before it is published.
        policy: the model's retry policy.
        options: the agent's.
    """

    name: str
    about: str
    drive: Drive
    answers: Callable[[], Sequence[Any]] = field(default=tuple)
    hooks: Callable[[Agent], None] | None = None
    policy: RetryPolicy | None = None
    options: AgentOptions = OPTIONS


SCRIPTS: dict[str, Script] = {}
"""All scripts, by name."""


def script(*answers: Any, **options: Any) -> Callable[[Drive], Drive]:
    """Make a function that drives an agent a script; its name and docstring are the script's."""

    def decorate(drive: Drive) -> Drive:
        name = drive.__name__.replace("_", "-")
        SCRIPTS[name] = Script(name, (drive.__doc__ or "").strip(), drive, lambda: answers, **options)
        return drive

    return decorate


# --- playing them -----------------------------------------------------------------------------------------------------


def prepared(host: Host, script: Script) -> ScriptedModel:
    """Register model and tools of a script with a host."""
    model = ScriptedModel(script.answers(), retry_policy=script.policy)
    host.models.register("scripted", model)
    for each in TOOLS:
        host.tools.register(each)
    return model


async def play(script: Script, host: Host, session_id: str | None = None) -> AgentHandle:
    """Play a script on a host that ``prepared`` was called with; the agent is left idle, or being disposed."""

    async def setup(_: Any, agent: Agent) -> None:
        await trio.lowlevel.checkpoint()
        if script.hooks is not None:
            script.hooks(agent)

    handle = await host.agents.create(session_id=session_id, agent_options=script.options, setup=setup)
    await script.drive(handle.agent)
    if handle.agent.status == "running":
        await handle.agent.when_idle()
    return handle


@asynccontextmanager
async def played(script: Script, store: SessionStore | None = None) -> AsyncGenerator[AgentHandle]:
    """Play a script on a host of its own."""
    async with Host(store=store) as host:
        prepared(host, script)
        yield await play(script, host, f"script-{script.name}")


def record(script: Script) -> tuple[SessionHeader, list[Event]]:
    """Play a script in a run of its own; returns the log it leaves."""

    async def run() -> tuple[SessionHeader, list[Event]]:
        async with played(script) as handle:
            session = handle.agent.session
            return session.header, list(session.events)

    return trio.run(run, clock=MockClock(autojump_threshold=0))


# --- the sessions -----------------------------------------------------------------------------------------------------


async def _half_an_answer(_: ModelRequest) -> AsyncIterator[Chunk]:
    """Begins to stream and never goes on."""
    yield BlockStart(0, "text")
    yield TextDelta(0, "Half an ")
    yield TextDelta(0, "answer")
    await trio.sleep_forever()


async def _silence(_: ModelRequest) -> AsyncIterator[Chunk]:
    """Says nothing at all."""
    await trio.sleep_forever()
    yield Finished(Finish("stop"))


@script("Hello.", "And again.")
async def plain_answers(agent: Agent) -> None:
    """Two questions, two answers."""
    for text in ("Hi", "Hi again, \u6c49\u5b57 \u2028 and \U0001f600"):
        agent.followup(text)
        await agent.when_idle()


@script(Answer("Seven.", reasoning="Three and four.", usage=Usage(12, 5, reasoning_tokens=3)))
async def reasoning_and_usage(agent: Agent) -> None:
    """An answer with reasoning and token counts."""
    agent.followup("3 + 4?")
    await agent.when_idle()


@script(Answer("Let me look.", calls=[Call("look", {"what": "a door"})]), "It is a door.")
async def one_tool(agent: Agent) -> None:
    """One tool call and its result."""
    agent.followup("What is there?")
    await agent.when_idle()


@script(Answer(calls=[Call("fetch", {"number": n}, f"f{n}") for n in (1, 2, 3)]), "1, 4 and 9.")
async def parallel_tools(agent: Agent) -> None:
    """Three calls that overlap and finish in another order."""
    agent.followup("Squares, please")
    await agent.when_idle()


@script(Answer(calls=[Call("look", id="a"), Call("look", id="b")]), Answer(calls=[Call("look", id="c")]), "Enough.")
async def several_steps(agent: Agent) -> None:
    """Exclusive calls over two steps, then an answer."""
    agent.followup("Look three times")
    await agent.when_idle()


@script(Answer(calls=[Call("steer_myself", {"text": "sooner, please"})]), "Hurrying.", "Done.")
async def steering(agent: Agent) -> None:
    """A message steers the running turn into another step; one more arrives as the turn ends."""
    agent.followup("Take your time")
    await agent.when_idle()
    agent.steer("Still there?")
    await agent.when_idle()


@script("Noted.", "First.", "Second.")
async def queued_messages(agent: Agent) -> None:
    """Injected context and a queue of follow-ups, one turn each."""
    agent.inject("By the way")
    agent.inject("And another thing")
    for text in ("one", "two", "three"):
        agent.followup(text)
    await agent.when_idle()


@script(_half_an_answer, "From the start, then.")
async def cancel_while_streaming(agent: Agent) -> None:
    """Stopped in the middle of an answer, with a message queued that is dropped; then asked again."""
    agent.followup("Tell me")
    await wait_all_tasks_blocked()
    agent.followup("never seen")
    agent.cancel()
    await agent.when_idle()
    agent.followup("Tell me again")
    await agent.when_idle()


@script(_silence, "Now, then.")
async def cancel_before_the_answer(agent: Agent) -> None:
    """Stopped before anything came, keeping what is pending, which is asked next."""
    agent.followup("Tell me")
    await wait_all_tasks_blocked()
    agent.inject("kept")
    agent.followup("kept as well")
    agent.cancel(ByHook("too slow"), keep_inbox=True)
    await agent.when_idle()
    agent.followup("Now?")
    await agent.when_idle()


@script(
    Answer("On it.", calls=[Call("look", id="a"), Call("sleep_for_ever", id="b"), Call("look", id="c")]), "Stopped."
)
async def cancel_in_a_tool(agent: Agent) -> None:
    """Stopped while the second of three tools runs."""
    agent.followup("Wait for it")
    await wait_all_tasks_blocked()
    agent.cancel()
    await agent.when_idle()
    agent.followup("What happened?")
    await agent.when_idle()


@script(Failure("the key is wrong", Code.INVALID_CREDENTIAL.value), "Better now.")
async def failing_model(agent: Agent) -> None:
    """The provider refuses; what was typed stays in the history."""
    agent.followup("Hello?")
    agent.followup("Anyone?")
    await agent.when_idle()
    agent.steer("Try again")
    await agent.when_idle()


@script(
    Failure("busy", Code.SERVER.value),
    Answer("I was about to", failure=Failure("the line broke", Code.TRANSPORT.value)),
    "Third time lucky.",
    policy=RetryPolicy(),
)
async def retried_attempts(agent: Agent) -> None:
    """Two attempts fail and are retried, the second after half an answer."""
    agent.followup("Hello?")
    await agent.when_idle()


@script(
    Answer(
        calls=[
            Call("fail", {"why": "broken"}, "a"),
            Call("nothing_of_the_kind", {}, "b"),
            Call("look", '{"what": ', "c"),
            Call("look", [1, 2], "d"),
        ]
    ),
    "All of them failed.",
)
async def failing_tools(agent: Agent) -> None:
    """A tool that raises, one that does not exist, and arguments that are no JSON, or no object."""
    agent.followup("Try these")
    await agent.when_idle()


@script(Answer(calls=[Call("with_contexts", {"count": 2})]), "Read them.", Answer(calls=[Call("finish_up")]))
async def tool_contexts(agent: Agent) -> None:
    """A tool hands messages over beside its result; another one ends its turn."""
    agent.followup("Read the notes")
    await agent.when_idle()
    agent.followup("Finish")
    await agent.when_idle()


def _hooks_that_block(agent: Agent) -> None:
    async def decide(submission: Any, proceed: Callable[[], Awaitable[Any]]) -> Any:
        if "secret" in submission.message.text:
            return BlockPrompt("no secrets")
        allowed = await proceed()
        return Allow((Text(submission.message.text.upper()),)) if "shout" in submission.message.text else allowed

    agent.scope.on(PROMPT_SUBMIT, decide)


@script("LOUD.", hooks=_hooks_that_block)
async def blocked_prompts(agent: Agent) -> None:
    """A prompt that a hook blocks, with a companion that is kept, and one that it rewrites."""
    agent.inject("a companion")
    agent.followup("my secret")
    await agent.when_idle()
    agent.followup("shout this")
    await agent.when_idle()


def _hooks_that_edit(agent: Agent) -> None:
    async def decide(proposal: StepProposal, _: Callable[[], Awaitable[Any]]) -> Enter:
        kept = [one for one in proposal.messages if "drop" not in one.text]
        return Enter([*kept, message(f"added for step {proposal.step}")] if kept else [])

    agent.scope.on(PRE_STEP, decide)


@script("One.", "Two.", hooks=_hooks_that_edit)
async def edited_batches(agent: Agent) -> None:
    """Pre-step takes messages out and adds others; a batch that it empties spends no request."""
    agent.inject("drop this one")
    agent.followup("keep this one")
    await agent.when_idle()
    agent.followup("drop this, too")
    await agent.when_idle()


@script("After the maintenance.")
async def maintenance(agent: Agent) -> None:
    """A task between turns, during which a message arrives; another task that is cancelled."""

    async def tidy(_: Any) -> str:
        agent.followup("meanwhile")
        await trio.sleep(1)
        return "tidied"

    await agent.run_maintenance(tidy)
    await agent.when_idle()

    async def endless(_: Any) -> None:
        await trio.sleep_forever()

    task = agent.run_maintenance(endless)
    agent.cancel()
    with suppress(MaintenanceCancelled):
        await task


@script("Whatever is left.")
async def inbox_editing(agent: Agent) -> None:
    """Every operation on the inbox, then one turn on what is left of it."""
    inbox = agent.inbox
    for number in range(4):
        inbox.append("next-turn", message(f"queued {number}", id=f"q{number}"))
    inbox.prepend("next-step", message("first", id="s0"))
    inbox.replace("q1", message("another", id="q9"))
    inbox.remove("q2")
    inbox.splice("next-turn", -1, 1, [message("at the end", id="q8")])
    agent.update_inbox("q0", "edit", "queued zero, edited")
    inbox.append("next-step", message("second", id="s1"))
    agent.followup("go")
    await agent.when_idle()
    inbox.append("next-turn", message("dropped", id="q7"))
    inbox.clear()


@script(Answer("This is too lo", finish="max-tokens", calls=[Call("look")]), "Short.")
async def cut_off_answers(agent: Agent) -> None:
    """An answer that the output limit cuts off, its call dropped."""
    agent.followup("Everything, please")
    await agent.when_idle()
    agent.followup("Shorter")
    await agent.when_idle()


def _hooks_that_object(agent: Agent) -> None:
    objected: list[int] = []

    async def object_once(stopping: Any) -> None:
        await trio.lowlevel.checkpoint()
        if stopping.turn == 1 and not objected:
            objected.append(stopping.turn)
            agent.steer("not so fast")

    agent.scope.on(TURN_STOPPING, object_once)


@script("I am done.", "Really done.", Answer(calls=[Call("sleep_for_ever")]), hooks=_hooks_that_object)
async def objection_and_stop(agent: Agent) -> None:
    """A hook objects to the turn's end; the next turn is stopped in a tool, and a message stays parked."""
    agent.followup("Are you done?")
    await agent.when_idle()
    agent.followup("Wait here")
    agent.followup("for later")
    await wait_all_tasks_blocked()
    agent.cancel(keep_inbox=True)
