"""One life of a session, lived again: today's agent on a host of its own, in virtual time, stepped from here.

How it works. The run is advanced until nobody can go on. Then what the agents recorded meanwhile is compared with the
recordings, and the event that is due says what came from outside next: an answer, a result, a message, a cancel. That
is done, and the run goes on. Where nothing is due from outside, virtual time passes up to the next deadline. A few
things came from outside while an agent was not at rest; those are done as the event before them is told (``eager``).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

import trio
from attrs import define, evolve, field

from treadle import Agent, AgentHandle, Event, Host, MemoryStore, MisuseError, ModelRequest, Tool, ToolRun
from treadle.agent import AgentFactory, CreateOptions, ResumeOptions
from treadle.hooks import SESSION_EVENT, SessionEventAdded, ToolProposal
from treadle.host.subagent import Delegation
from treadle.loop import pipeline
from treadle.loop.factory import LoopFactory
from treadle.models import ModelAdapter, Models, RetryPolicy

from ..exploration.stepper import Stepper, Stuck
from .acts import Act, act, from_outside, make_splice, make_stop
from .differences import Difference
from .furnishing import fields_of, serve, unserved
from .outside import Stop
from .plays import Body, Play, Question, RecordedModel
from .recording import Life, Recording, job_of
from .track import Track

MakeAgent = Callable[[Host], Any]
"""Furnishes a host as a program does, sync or async. It creates the agent by ``host.agents.create``, or returns what that
is done with: ``AgentOptions``, the arguments as a mapping, or ``None``."""
MAX_DEADLINES = 2_000
"""How many deadlines may pass before something that is due counts as missing."""
MAX_ACTS = 100_000
"""How many things may be done in one life."""


class MakingFailed(Exception):
    """``make_agent`` raised, or made no agent."""


class RecordedModels(Models):
    """Routes on which every adapter plays what was recorded."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage

    def register(self, provider: str, adapter: ModelAdapter) -> Callable[[], None]:
        """See ``Models.register``."""
        if isinstance(adapter, ModelAdapter) and not isinstance(adapter, RecordedModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            adapter = RecordedModel(adapter, self._stage)
        return super().register(provider, adapter)


@define(eq=False)
class RecordedFactory:
    """Has an agent take the place of the recorded one, by its id and its header; resumed where that was resumed."""

    inner: AgentFactory
    stage: Stage

    async def create(self, options: CreateOptions) -> AgentHandle:
        """See ``AgentFactory.create``."""
        parent = options.parent_agent
        recording = self.stage.recording if parent is None else self.stage.child_of(parent)
        if recording is None or (parent is None and self.stage.tracks):
            return await self.inner.create(options)
        header, track = recording.header, Track(recording, recording.lives[0])
        if parent is None:
            track = self.stage.root = Track(recording, self.stage.life, self.stage.stops)
        self.stage.tracks.append(track)
        if parent is None and self.stage.prefix:
            handle = await self.inner.resume(
                ResumeOptions(header.id, options.owner, None, options.agent_options, options.setup)
            )
        else:
            meta = {**options.meta, "cwd": header.cwd, "parent_session": header.parent_session, "origin": header.origin}
            handle = await self.inner.create(evolve(options, session_id=header.id, meta=meta))
        track.attach(handle)
        if parent is None:
            track.difference = self.stage.earlier
        return handle

    async def resume(self, options: ResumeOptions) -> AgentHandle:
        """See ``AgentFactory.resume``."""
        asked = CreateOptions(options.session_id, options.owner, options.parent_agent, setup=options.setup)
        if options.agent_options is not None:
            asked = evolve(asked, agent_options=options.agent_options)
        return await self.create(asked)

    def close(self) -> Awaitable[None]:
        """See ``AgentFactory.close``."""
        return self.inner.close()


@define(eq=False)
class Stage:
    """One life under way.

    Attributes:
        recording: the session.
        life: the part of it.
        prefix: what is stored of the session when the life begins.
        make_agent: makes today's agent.
        stops: the cancels, each with the moment that is tried.
        eager: the numbers of inbox changes that are made as the event before them is told.
        children: recordings of sub-agents that were not claimed yet, oldest first.
        real_tools: run the tools' own bodies.
        to_the_end: go on behind a difference until the life is over.
        earlier: the difference of an earlier life, behind which this one is lived.
        host_options: further arguments of the host.
    """

    recording: Recording
    life: Life
    prefix: Sequence[Event]
    make_agent: MakeAgent
    stops: list[Stop]
    eager: set[int]
    children: list[Recording]
    real_tools: bool = False
    to_the_end: bool = False
    earlier: Difference | None = None
    tracks: list[Track] = field(factory=list[Track])
    root: Track | None = None
    host_options: Mapping[str, Any] = field(factory=dict[str, Any])
    host: Host = field(init=False)
    stepper: Stepper = field(init=False)
    _entered: trio.Event = field(factory=trio.Event)

    # --- the run ------------------------------------------------------------------------------------------------------

    def live(self) -> None:
        """Live it, up to the first difference or to the end.

        Raises:
            MakingFailed: ``make_agent`` did.
        """
        quiet = logging.getLogger("treadle")
        level = quiet.level
        quiet.setLevel(logging.CRITICAL + 1)
        self.stepper = Stepper()
        try:
            with patch.object(pipeline, "call_body", self._call_body):
                self.stepper.run(self._furnish)
                self._conduct()
        except BaseException:
            self._leave()
            raise
        else:
            self._leave()
        finally:
            quiet.setLevel(level)

    def _leave(self) -> None:
        """End the run; what its end does to agents is no part of the session."""
        for track in self.tracks:
            track.freeze()
        try:
            with patch.object(pipeline, "call_body", self._call_body):
                self.stepper.finish()
        except Exception:
            logging.getLogger("treadle").debug("leaving a rehearsal failed", exc_info=True)

    async def _furnish(self) -> None:
        store = MemoryStore()
        if self.prefix:
            writer = await store.create(self.recording.header, list(self.prefix))
            await writer.close()
        options: dict[str, Any] = {"cwd": self.recording.header.cwd, **self.host_options, "store": store}
        self.host = Host(**options)
        self.host.models = RecordedModels(self)
        self.host.on(SESSION_EVENT, self._told)
        self.stepper.start(self._hold)
        await self._entered.wait()
        await self.host.unload_loop()
        self.host.agents.set_factory(RecordedFactory(LoopFactory(self.host), self))
        try:
            made = self.make_agent(self.host)
            made = await made if inspect.isawaitable(made) else made
            serve(self.host, self.recording)
            if self.root is None:
                await self.host.agents.create(**fields_of(made, self.recording))
        except Exception as error:
            raise MakingFailed(f"making the agent failed: {type(error).__name__}: {error}") from error
        assert self.root is not None
        lacking = unserved(self.host, self.root.agent.options, self.recording)
        if lacking is not None:
            raise MakingFailed(lacking)
        unapproved = any("and nobody can give it here" in str(entry.data) for entry in self.recording.events)
        self.host.approver = None if unapproved else self._approve

    async def _hold(self) -> None:
        async with self.host:
            self._entered.set()
            await trio.sleep_forever()

    def _conduct(self) -> None:
        deadlines = 0
        for _ in range(MAX_ACTS):
            self.stepper.settle()
            self._look()
            if self._over():
                return
            if self._act():
                deadlines = 0
            elif deadlines < MAX_DEADLINES and self._pass_time():
                deadlines += 1
            elif self._act(ahead=True):
                deadlines = 0
            elif self._give_up():
                return
        raise Stuck(f"not over after {MAX_ACTS} things that came from outside")

    def _look(self) -> None:
        for track in self.tracks:
            track.look()
            track.shield_bodies()

    def _over(self) -> bool:
        if any(track.difference is not None for track in self.tracks):
            asked = any(track.request is not None for track in self.tracks if track.difference is not None)
            if asked and not self.to_the_end:
                return True
        return all(track.entry is None for track in self.tracks)

    def _give_up(self) -> bool:
        """Nothing can be done any more; returns whether the life is over, as far as it goes."""
        if any(track.difference is not None for track in self.tracks):
            return True
        for track in self._in_order():
            track.stuck()
        return not self.to_the_end

    def _in_order(self) -> list[Track]:
        """The sessions whose next event is due, the earliest first; of sub-agents before their parents."""
        waiting = [track for track in self.tracks if track.entry is not None]
        return sorted(waiting, key=lambda one: (one.entry.time, -one.recording.header.delegation_depth))  # type: ignore[union-attr]

    def _act(self, *, ahead: bool = False) -> bool:
        for track in self._in_order():
            done = act(track, self, ahead=ahead)
            while done is Act.CALLED and track.difference is None:
                self._look()
                if act(track, self, at_once=True) is not Act.CALLED:
                    break
            if done is not Act.NOTHING:
                return True
        return False

    def _pass_time(self) -> bool:
        """Let virtual time pass to the next deadline; returns whether there is one."""
        ahead = trio.lowlevel.current_statistics().seconds_to_next_deadline
        if ahead == float("inf"):
            return False
        self.stepper.clock.now += max(ahead, 0.0)
        return True

    # --- what takes part ----------------------------------------------------------------------------------------------

    def start(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """See ``acts.Doing``."""
        self.stepper.start(function, *args)

    def play_up_to_a_cut(self) -> bool:
        """See ``acts.Doing``."""
        return any([play.allow() for track in self.tracks for play in track.plays if not play.over and play.cut_off])

    async def select_preset(self, track: Track, preset: str) -> None:
        """See ``acts.Doing``."""
        try:
            await self.host.presets.select(track.agent, preset)
        except MisuseError:
            logging.getLogger("treadle").debug("the preset cannot be selected", exc_info=True)

    def begin_attempt(self, request: ModelRequest, policy: RetryPolicy | None) -> Play:
        """See ``plays.Begins``."""
        for track in self.tracks:
            if track.recording.header.id == request.session_id:
                return track.begin_attempt(request, policy)
        return Play(request=request, seq=None, chunks=[], failure=None)

    def child_of(self, parent: Agent) -> Recording | None:
        """The recording of the next sub-agent of an agent; ``None`` when there is none."""
        own = [one for one in self.children if one.header.parent_session == parent.id]
        asked = _JOB.get()
        found = next((one for one in own if job_of(one) == asked), own[0] if own else None)
        if found is not None:
            self.children.remove(found)
        return found

    def _call_body(self, tool: Tool, arguments: dict[str, Any], run: ToolRun) -> Awaitable[Any]:
        """Stand in for a tool's body."""
        track = next((one for one in self.tracks if one.recording.header.id == run.agent.id), None)
        delegates = isinstance(tool.execute, Delegation) and any(
            one.header.parent_session == run.agent.id for one in self.children
        )
        if delegates:
            return self._delegated(tool, arguments, run)
        if track is None or self.real_tools:
            return _ORIGINAL(tool, arguments, run)
        body = Body(tool=tool, run=run)
        track.bodies.append(body)
        return body.execute()

    async def _delegated(self, tool: Tool, arguments: dict[str, Any], run: ToolRun) -> Any:
        """Have a sub-agent made, which takes the place of the recorded one that was given the same job."""
        before = _JOB.set(str(arguments.get("prompt")))
        try:
            return await _ORIGINAL(tool, arguments, run)
        finally:
            _JOB.reset(before)

    async def _approve(self, proposal: ToolProposal, _question: str) -> bool:
        track = next((one for one in self.tracks if one.recording.header.id == proposal.agent.id), None)
        if track is None:
            return False
        question = Question(call_id=proposal.call.call_id, session_id=proposal.agent.id)
        track.questions.append(question)
        return await question.answered()

    def _told(self, told: SessionEventAdded) -> None:
        """An event was recorded: do what is to be done at once."""
        for track in self.tracks:
            if track.handle is None or track.agent is not told.agent or track.difference is not None:
                continue
            due = told.event.seq + 1
            for stop in track.stops:
                if not stop.made and stop.moment.eager and stop.moment.at == due:
                    make_stop(track, stop, self)
            if due in self.eager and due < track.life.end and len(track.session) == due:
                entry = track.recording.events[due]
                if from_outside(track, entry):
                    make_splice(track, entry)


_ORIGINAL = pipeline.call_body
_JOB: ContextVar[str | None] = ContextVar("treadle_rehearsed_job", default=None)
"""What the sub-agent is asked to do that is being made."""
