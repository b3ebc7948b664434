"""Compactions in a world: summaries as drawn, and each outcome held to what the log said before (§18)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import trio
from attrs import define, field, frozen

from treadle import Agent, AssistantMessage, Host, Message, Session, SystemMessage, ToolResultMessage, UserMessage
from treadle.agent import MaintenanceTask
from treadle.extensions.compaction import COMPACTION, Compaction, CompactionMoment, SummaryJob, SummarySource
from treadle.session import AssistantAttempt, Node, Replace, StepStart, TurnEnd, TurnStart

from ...exploration.violation import require
from .planned import Planned
from .surroundings import Surroundings

KEEP_TURNS = 1
WITHIN_TURN = 0.2
MOODS = ("quick", "quick", "quick", "slow", "shield", "raise", "empty", "endless")
"""How a summary is made."""


@frozen
class Scene:
    """The surface when a compaction began, and where its last turns do, those that are over and at least the open one."""

    nodes: tuple[Node, ...]
    recent: int
    least: int


@define(eq=False)
class Compactions:
    """What makes summaries, and what is known of each compaction under way.

    Attributes:
        moods: how the next summaries are made; quickly once there is none.
        running: by agent, the last compaction that was begun by hand.
        done: how many compactions have replaced something.
    """

    world: Surroundings
    moods: deque[str] = field(factory=deque[str])
    running: dict[str, MaintenanceTask[Any]] = field(factory=dict[str, "MaintenanceTask[Any]"])
    done: int = 0
    _scenes: dict[str, Scene] = field(factory=dict[str, Scene])
    _late: set[str] = field(factory=set[str])

    def furnish(self, host: Host, on: Callable[[Any, Callable[..., Any]], Any]) -> None:
        """Install a compaction, and listen to it."""
        Compaction(
            summarize=self.summarize,
            keep_turns=KEEP_TURNS,
            keep_steps=2,
            pinned=self.pinned,
            between_turns=1.0,
            within_turn=WITHIN_TURN,
        ).install(host)
        on(COMPACTION, self._told)

    def pinned(self, one: Message) -> bool:
        """Messages with a name that ends with 7 are pinned, and answers that call two tools."""
        if isinstance(one, UserMessage):
            return one.id.endswith("7")
        return isinstance(one, AssistantMessage) and len(one.calls) == 2

    async def summarize(self, job: SummaryJob) -> str:
        """A summary as drawn."""
        mood = self.moods.popleft() if self.moods else "quick"
        actor = self.world.actor_of(job.agent)
        try:
            if mood == "shield":
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.6)
            elif mood == "slow":
                await trio.sleep(0.4)
            elif mood == "raise":
                raise Planned("a summary")
        finally:
            if job.signal.cancelled:
                self._late.add(job.agent.id)
                if actor.cancelled_turn is None:
                    actor.errand_ended = self.world.bench.now
        return {"empty": "", "endless": "on and on " * 3_000}.get(mood, f"sum of {len(job.messages)}")

    # --- what is told -------------------------------------------------------------------------------------------------

    def _told(self, moment: CompactionMoment) -> None:
        with self.world.noting():
            agent = moment.agent
            if moment.phase == "started":
                self._scenes[agent.id] = _scene(agent.session, KEEP_TURNS)
                self._late.discard(agent.id)
                return
            scene = self._scenes.pop(agent.id, None)
            if moment.phase == "failed":
                assert scene is not None
                now = [node.seq for node in agent.session.surface.nodes]
                require(now == [node.seq for node in scene.nodes], "Z4", "a failed compaction of {} replaced something",
                        agent.id)  # fmt: skip
            elif moment.result is not None and moment.result.replaced:
                assert scene is not None
                require(agent.id not in self._late, "Z4", "a compaction of {} was cancelled, and took place", agent.id)
                self.done += 1
                self._took_place(agent, moment, scene)

    def _took_place(self, agent: Agent, moment: CompactionMoment, scene: Scene) -> None:
        """What gave way was old, whole, and pinned by nobody; the rest stands as it was (Z1, Z2, Z3)."""
        assert moment.result is not None
        nodes, events = list(scene.nodes), agent.session.events
        gone: list[Node] = []
        for seq in moment.result.events:
            entry = events[seq]
            op, source = entry.surface_op, entry.data.message.source
            require(isinstance(op, Replace) and isinstance(source, SummarySource), "Z1", "event {} is no summary", seq)
            assert isinstance(op, Replace)
            order = [node.seq for node in nodes]
            first, last = order.index(op.first), order.index(op.last)
            shadowed = nodes[first : last + 1]
            require(
                set(entry.source_event_seqs or ()) >= {node.seq for node in shadowed}, "Z1", "{} cites too few", seq
            )
            require(source.replaced == len([node for node in shadowed if _says(node)]), "Z7",
                    "{} says that it stands for {}", seq, source.replaced)  # fmt: skip
            require(len(entry.data.message.text) < 12_000, "Z4", "summary {} is endless", seq)
            gone += shadowed
            nodes[first : last + 1] = [Node(seq, entry.data.message)]
        now = agent.session.surface.nodes
        require([node.seq for node in nodes] == [node.seq for node in now[: len(nodes)]], "Z1",
                "the surface of {} is not what its events leave", agent.id)  # fmt: skip
        self._kept(moment, scene, gone)
        _paired([node.message for node in now if node.message is not None])

    def _kept(self, moment: CompactionMoment, scene: Scene, gone: list[Node]) -> None:
        system = [node for node in scene.nodes if node.system]
        fixed = {node.seq for node in [*system[:1], *[one for one in system if one.message is not None][-1:]]}
        forced = moment.why in ("window", "refused")
        answers = [node.seq for node in scene.nodes if isinstance(node.message, AssistantMessage)]
        for node in gone:
            one = node.message
            require(node.seq not in fixed, "Z2", "the system prompt gave way, event {}", node.seq)
            require(one is None or not self.pinned(one), "Z2", "a pinned message gave way: {}", one)
            if node.seq > scene.recent and not _is_summary(one):
                require(forced, "Z2", "event {} is of the last turn, and gave way {}", node.seq, moment.why)
                asked = node.seq > scene.least and isinstance(one, UserMessage)
                require(not asked, "Z2", "what was asked last gave way: {}", one)
        if answers and answers[-1] > scene.least:
            require(answers[-1] not in {node.seq for node in gone}, "Z2", "the last answer gave way")

    def rest(self, session: Session) -> None:
        """No step was refused more than once after a compaction (Z6)."""
        refused, compacted, step = 0, False, False
        for entry in session.events:
            data = entry.data
            if isinstance(data, StepStart):
                refused, compacted, step = 0, False, True
            elif isinstance(data, TurnEnd):
                step = False
            elif step and isinstance(entry.surface_op, Replace) and _is_summary(getattr(data, "message", None)):
                compacted = True
            elif isinstance(data, AssistantAttempt) and _was_refused(data):
                refused += 1
                require(refused <= 1 + compacted, "Z6", "{} asks again after refusal {}", session.id, refused)


def _scene(session: Session, keep: int) -> Scene:
    """The surface, and the event with which the last turns began that said something."""
    starts: list[int] = []
    fresh: int | None = None
    open_turn = False
    for entry in session.events:
        if isinstance(entry.data, TurnStart):
            fresh, open_turn = entry.seq, True
        elif isinstance(entry.data, TurnEnd):
            fresh, open_turn = None, False
        elif entry.surface_op is not None and not isinstance(entry.surface_op, Replace) and fresh is not None:
            starts.append(fresh)
            fresh = None
    speaking = int(open_turn and fresh is None)
    recent, least = [starts[-many] if len(starts) >= many else -1 for many in (keep + speaking, max(keep, speaking))]
    return Scene(tuple(session.surface.nodes), recent, least)


def _was_refused(data: AssistantAttempt) -> bool:
    failure = data.finish.failure if data.finish is not None else None
    return failure is not None and failure.code == "CONTEXT_WINDOW_EXCEEDED"


def _is_summary(message: Message | None) -> bool:
    return isinstance(message, UserMessage) and isinstance(message.source, SummarySource)


def _says(node: Node) -> bool:
    return node.message is not None and not isinstance(node.message, SystemMessage)


def _paired(history: list[Message]) -> None:
    asked: list[str] = []
    for one in history:
        if isinstance(one, ToolResultMessage):
            require(one.result.call_id in asked, "Z3", "a result without its call: {}", one.result.call_id)
            asked.remove(one.result.call_id)
        else:
            require(not asked, "Z3", "calls without their results: {}", asked)
            asked = [call.call_id for call in one.calls] if isinstance(one, AssistantMessage) else []
