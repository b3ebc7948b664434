"""``treadle demo``: a scripted session that shows what the driver does, transition by transition."""

from __future__ import annotations

import shlex
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import trio
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

import treadle
from treadle import Agent, AgentOptions, Host, ScriptedModel, Session, State
from treadle.errors import TreadleError
from treadle.hooks import (
    ASSISTANT_STREAM,
    PRE_STEP,
    SESSION_EVENT,
    TURN_STOPPING,
    AssistantStream,
    Enter,
    FrameChunk,
    Scope,
    SessionEventAdded,
)
from treadle.models import TextDelta, text_of
from treadle.printable import call_text
from treadle.session import (
    AssistantMessageAdded,
    ToolCallStarted,
    ToolResultAdded,
    UserMessageAdded,
    encode_event,
    encode_header,
)
from treadle.testing import TABLE, Row, Trigger

from ..private import write_private
from ..terminal.gutter import Gutter
from ..terminal.turns import Told, told_turns
from .acts import ACTS, Show
from .stage import Pace, WatchedLifecycle

SESSION = "session"
"""The session's id: its log is named after it, as in a store, so that it can be gone on with."""

SPOKEN = "you-"
"""How the ids of the demo's own messages begin; of a session that was gone on with, not all do."""

MEANINGS: dict[tuple[State, Trigger], str] = {
    (State.IDLE, Trigger.WAKE): "a turn opens",
    (State.IDLE, Trigger.REPLAY): "what was kept opens a turn",
    (State.IDLE, Trigger.MAINTAIN): "lent to the task",
    (State.IDLE, Trigger.DISPOSE): "closed, nothing runs on",
    (State.ADMISSION, Trigger.ENTER): "a step: the model is asked",
    (State.STEP, Trigger.WAKE): "heard at the next step",
    (State.STEP, Trigger.CONTINUE): "the model gets the result",
    (State.STEP, Trigger.REST): "nothing is owed any more",
    (State.STEP, Trigger.CANCEL): "nothing new may start",
    (State.TURN_STOPPING, Trigger.CLOSE): "the turn is complete",
    (State.CANCEL_CONVERGENCE, Trigger.WAKE): "kept for later",
    (State.CANCEL_CONVERGENCE, Trigger.CONVERGE): "settled: the turn ends",
    (State.MAINTENANCE, Trigger.WAKE): "kept for later",
    (State.MAINTENANCE, Trigger.RELEASE_TO_NEXT): "done: what waits has a turn",
}
"""What the transitions of the demo mean, in a few words."""


def demo(
    *,
    out: Annotated[Path, Parameter(alias="-o")] = Path(),
    fast: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Show an agent at work, in six short acts: no key, no network, a few seconds.

    The model is scripted; all else is what your own agents run on. Each transition of the lifecycle is printed as it
    happens. Two files are left behind: `session.jsonl`, the log, and `lifecycle.svg`, the lifecycle with the walked
    path marked. Those of an earlier demo are replaced, but never a session that was gone on with: then the log is
    `session-2.jsonl`.

    Args:
        out: the folder for the two files; the current one unless given.
        fast: do not wait for the eye.
    """
    out.mkdir(parents=True, exist_ok=True)
    trio.run(Performance(Console(highlight=False), Pace(fast=fast), out).run)
    return 0


class Performance:
    """Plays the acts on a console and leaves the files."""

    def __init__(self, console: Console, pace: Pace, out: Path) -> None:
        self.console = console
        self.pace = pace
        self.out = out
        self.gutter = Gutter(console)
        self.passages: list[tuple[State, Trigger, float]] = []
        self.lifecycle = WatchedLifecycle(self._passed)
        self._agent: Agent | None = None
        self.session = free_name(out)

    async def run(self) -> None:
        """Play all acts."""
        self._title()
        show = Show(self.gutter, self.pace, ScriptedModel())
        async with Host() as host:
            host.models.register("scripted", show.model)
            for each in show.tools():
                host.tools.register(each)
            host.on(ASSISTANT_STREAM, self._streamed)
            host.on(SESSION_EVENT, self._recorded)
            host.on(PRE_STEP, self._pre_step)
            host.on(TURN_STOPPING, self._stopping)
            options = AgentOptions(provider="scripted", model="demo")
            show.handle = await host.agents.create(session_id=self.session, agent_options=options, setup=self._watch)
            for number, act in enumerate(ACTS, 1):
                self.gutter.heading(act.title, act.what, number)
                await self.pace.beat(0.3)
                await act.play(show)
        if self.lifecycle.failure is not None:
            raise self.lifecycle.failure
        self._files(show.agent.session)
        self._summary(show.agent.session)

    async def _watch(self, _: Scope, agent: Agent) -> None:
        self._agent = agent
        agent.engine.kernel.lifecycle = self.lifecycle

    # --- what happens, as it happens ----------------------------------------------------------------------------------

    def _passed(self, row: Row) -> None:
        self.passages.append((row.source, row.trigger, round(self.pace.now * 1000)))
        meaning = MEANINGS.get((row.source, row.trigger), "")
        if row.trigger is Trigger.CONTINUE and self._agent is not None and self._agent.inbox.next_step:
            meaning = "you spoke: one more step"
        self.gutter.transition(row, meaning)

    def _streamed(self, streamed: AssistantStream) -> None:
        frame = streamed.frame
        if isinstance(frame, FrameChunk) and isinstance(frame.chunk, TextDelta):
            self.gutter.word("model", frame.chunk.text)

    def _recorded(self, added: SessionEventAdded) -> None:
        match added.event.data:
            case ToolCallStarted() as call:
                self.gutter.word("tool", call_text(call.name, call.arguments))
            case ToolResultAdded() as result if result.code == "ABORTED":
                self.gutter.say("log", "a result is recorded for the stopped call: ABORTED")
            case ToolResultAdded() as result:
                self.gutter.word("tool", f" → {text_of(result.content)}", "bold")
            case AssistantMessageAdded(interrupted=True) as kept:
                self.gutter.say("log", f"kept, marked as interrupted: “{kept.message.text.strip()} …”")
            case _:
                pass

    async def _pre_step(self, _: Any, go_on: Any) -> Enter:
        await self.pace.beat(0.08)
        return await go_on()

    async def _stopping(self, _: Any) -> None:
        await self.pace.beat(0.08)

    # --- what is said around it ---------------------------------------------------------------------------------------

    def _title(self) -> None:
        self.console.print(Text.assemble((f"treadle {treadle.__version__}", "bold"), "   one agent, six acts"))
        for line in (
            "The model is scripted; all else is the driver that your agents run on.",
            "A line with · is a transition: from → to, its trigger, what it means.",
        ):
            self.console.print(Text(line, style="dim"), soft_wrap=True)

    def _files(self, session: Session) -> None:
        from treadle_diagrams import svg, walk_through

        lines = [encode_header(session.header), *[encode_event(entry) for entry in session.events]]
        write_private(self.out / f"{self.session}.jsonl", b"".join([line + b"\n" for line in lines]))
        drawing = svg(walked=walk_through(self.passages))
        (self.out / "lifecycle.svg").write_text(drawing, encoding="utf-8", newline="\n")

    def _summary(self, session: Session) -> None:
        self.gutter.heading("What is left")
        self.console.print(turn_table(told_turns(session.events)))
        walked = len({(state, trigger) for state, trigger, _ in self.passages})
        left = {
            self.out / f"{self.session}.jsonl": f"the log: {len(session)} events, all that is needed to go on",
            self.out / "lifecycle.svg": f"the walked path: {len(self.passages)} transitions,"
            f" {walked} of the table's {len(TABLE)} rows",
        }
        self.console.print()
        longest = max(map(len, map(str, left)))
        for path, what in left.items():
            self.console.print(Text.assemble((f"{path!s:{longest}}", "bold"), f"  {what}"), soft_wrap=True)
        self.console.print()
        where = shlex.quote(str(self.out))
        for what, command in {
            "Go on from there:        ": f"treadle run --session-dir {where} --resume {self.session}",
            "Talk to one of your own: ": "treadle run",
        }.items():
            self.console.print(Text.assemble(what, (command, "bold")), soft_wrap=True)


def free_name(folder: Path) -> str:
    """The id of a session whose file in ``folder`` is not there, or holds nothing but an earlier demo."""
    for number in count(1):
        name = SESSION if number == 1 else f"{SESSION}-{number}"
        path = folder / f"{name}.jsonl"
        if not path.exists() or _only_demo(path):
            return name
    raise AssertionError


def _only_demo(path: Path) -> bool:
    from treadle_diagrams import read_session

    try:
        session = read_session(path)
    except TreadleError:
        return False
    said = [entry.data.message.id for entry in session.events if isinstance(entry.data, UserMessageAdded)]
    return session.trouble is None and bool(said) and all([each.startswith(SPOKEN) for each in said])


def turn_table(turns: list[Told]) -> Table:
    """One line per turn: what was asked, how many steps it took, how it ended."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("turn", justify="right")
    table.add_column("steps", justify="right")
    table.add_column("ended", no_wrap=True)
    table.add_column("asked")
    for turn in turns:
        ended = Text(turn.ended, style="green" if turn.ended == "completed" else "yellow")
        table.add_row(str(turn.number), str(turn.steps), ended, Text(turn.asked))
    return table
