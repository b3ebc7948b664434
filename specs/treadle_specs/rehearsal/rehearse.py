"""Rehearsing recorded sessions on today's code: each life lived again, and told is the first thing that differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import trio
from attrs import define, evolve, field, frozen

from treadle import Event, MisuseError, TreadleError
from treadle.session import InboxSpliced

from ..exploration.stepper import Stuck
from .accepting import Accepted, written
from .differences import Difference, request_diff
from .outside import comes_as_the_turn_ends, is_insertion, stops_of
from .recording import Life, Opener, Recording, read_recording, recorded_files
from .stage import MakeAgent, MakingFailed, Stage
from .track import Track

MAX_TRIES = 200
"""How often one life is tried with other moments for what came from outside."""


@frozen
class Rehearsal:
    """What rehearsing one recorded session came to.

    Attributes:
        path: the recording.
        events: how many events were recorded.
        difference: the first one; ``None`` when there is none.
        trouble: why it could not be rehearsed; ``None`` when it could.
        accepted: the files that were written anew.
        with_parent: it is a sub-agent's, and was rehearsed with its parent.
    """

    path: Path
    events: int = 0
    difference: Difference | None = None
    trouble: str | None = None
    accepted: tuple[Path, ...] = ()
    with_parent: bool = False

    @property
    def same(self) -> bool:
        """Whether it was rehearsed and nothing differs."""
        return self.difference is None and self.trouble is None

    def __str__(self) -> str:
        if self.trouble is not None:
            return f"{self.path}: cannot be rehearsed: {self.trouble}"
        if self.with_parent:
            return f"{self.path}: a sub-agent's, rehearsed with its parent"
        if self.difference is None:
            return f"{self.path}: {self.events} events, no difference"
        told = "\n".join(f"  {line}" for line in str(self.difference).splitlines())
        new = f"\n  accepted: {', '.join(map(str, self.accepted))}" if self.accepted else ""
        return f"{self.path}: differs\n{told}{new}"


@frozen
class Rehearsals:
    """What rehearsing a session, or a folder of them, came to."""

    sessions: tuple[Rehearsal, ...]

    @property
    def same(self) -> bool:
        """Whether all were rehearsed and nothing differs."""
        return all(one.same for one in self.sessions)

    def check(self) -> None:
        """Raise ``AssertionError`` with the report where something differs or could not be rehearsed."""
        if not self.same:
            raise AssertionError("\n".join(str(one) for one in self.sessions if not one.same))

    def __str__(self) -> str:
        return "\n".join(map(str, self.sessions))


def rehearse(
    path: str | Path,
    make_agent: MakeAgent,
    *,
    real_tools: bool = False,
    accept: bool = False,
    host_options: Mapping[str, Any] | None = None,
    openers: Iterable[Opener] = (),
) -> Rehearsals:
    """Run recorded sessions again on today's code, without a model and in virtual time.

    Recorded are the model's answers, the results of tools, and what came from outside with its order. Today's are the
    agent, its prompt, its tools' schemas, its hooks, its options, and the policy by which its model is retried. Told is
    the first difference of each session. A sub-agent whose recording lies in the same folder is rehearsed with its
    parent; of any other, the result is taken.

    Args:
        path: a session's log, or a folder of them.
        make_agent: furnishes a host as your program does, through the public API, sync or async: it is given an entered
            ``Host``. It creates the agent, or returns ``AgentOptions``, the arguments of ``agents.create`` as a
            mapping, or ``None``. It is called once per life of a process, and may be called again. Its models are
            asked for their policy and what they know, never for an answer.
        real_tools: have tools run, instead of giving what was recorded.
        accept: where a session differs, write the new recording in the place of the old one.
        host_options: further arguments of ``Host``.
        openers: read what is no plain JSONL.

    Raises:
        MisuseError: there is no such file, the folder holds none, or it is called within a running trio loop.
    """
    _check_outside()
    files = recorded_files(Path(path))
    rehearsals: list[Rehearsal] = []
    read: dict[Path, Recording] = {}
    troubles: dict[Path, str] = {}
    openers = tuple(openers)
    for file in {*files, *_beside(Path(path))}:
        try:
            read[file] = read_recording(file, openers)
        except (TreadleError, OSError) as error:
            troubles[file] = str(error)
    by_id = {one.header.id: one for one in read.values()}
    for file in files:
        if file in troubles:
            rehearsals.append(Rehearsal(file, trouble=troubles[file]))
            continue
        recording = read[file]
        with_parent = recording.header.origin == "subagent" and (recording.header.parent_session or "") in by_id
        if with_parent and len(files) > 1:
            rehearsals.append(Rehearsal(file, len(recording.events), with_parent=True))
            continue
        run = _Run(
            recording,
            make_agent,
            _descendants(recording, list(read.values())),
            real_tools=real_tools,
            host_options=host_options or {},
        )
        rehearsals.append(run.rehearsed(accept=accept))
    return Rehearsals(tuple(rehearsals))


def _check_outside() -> None:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return
    raise MisuseError("sessions are rehearsed outside of trio: call it from a plain function, or in a thread")


def _beside(path: Path) -> list[Path]:
    """The files that lie beside a recording, among which its sub-agents may be."""
    try:
        return [] if path.is_dir() else recorded_files(path.parent)
    except (MisuseError, OSError):
        return []


def _descendants(recording: Recording, others: Sequence[Recording]) -> list[Recording]:
    """The recordings of the sub-agents of a session, and of theirs, oldest first."""
    ids, found = {recording.header.id}, list[Recording]()
    ordered = sorted(others, key=lambda one: (one.header.created_at, one.header.id))
    for _ in range(len(ordered)):
        fresh = [
            one for one in ordered
            if one.header.origin == "subagent" and one.header.parent_session in ids and one not in found
        ]  # fmt: skip
        if not fresh:
            break
        found += fresh
        ids |= {one.header.id for one in fresh}
    return found


@define(eq=False)
class _Run:
    """One session being rehearsed."""

    recording: Recording
    make_agent: MakeAgent
    children: list[Recording]
    real_tools: bool = False
    host_options: Mapping[str, Any] = field(factory=dict[str, Any])
    stages: list[Stage] = field(factory=list[Stage])

    def rehearsed(self, *, accept: bool) -> Rehearsal:
        recording = self.recording
        told = Rehearsal(recording.path, len(recording.events))
        try:
            difference = self._difference(to_the_end=False)
            if difference is None or not accept:
                return evolve(told, difference=difference)
            return evolve(told, difference=difference, accepted=self._accept())
        except (MakingFailed, Stuck, TreadleError, OSError) as error:
            return evolve(told, trouble=str(error) or type(error).__name__)

    def _difference(self, *, to_the_end: bool) -> Difference | None:
        """Live all lives, up to the first difference or to the end."""
        self.stages.clear()
        found: Difference | None = None
        children, events = list(self.children), Accepted()
        for life in self.recording.lives:
            prefix = events.of(self.stages, self.recording, life)
            stage = self._lived(life, prefix, children, found, to_the_end=to_the_end)
            self.stages.append(stage)
            children = stage.children
            found = found or _first(stage)
            if found is not None and not to_the_end:
                break
        return found

    def _lived(
        self, life: Life, prefix: Sequence[Event], children: list[Recording], found: Difference | None, *, to_the_end: bool
    ) -> Stage:  # fmt: skip
        """Live one life; where a difference may come from the moment of a cancel or a message, with other moments."""
        stops, eager = stops_of(self.recording.events, life), set[int]()
        best: Stage | None = None
        for _ in range(MAX_TRIES):
            for stop in stops:
                stop.made = False
            stage = Stage(
                self.recording, life, prefix, self.make_agent, stops, set(eager), list(children),
                real_tools=self.real_tools, to_the_end=to_the_end, earlier=found, host_options=self.host_options,
            )  # fmt: skip
            stage.live()
            if best is None or _reached(stage) > _reached(best):
                best = stage
            if found is not None or stage.root is None or not _other_moment(stage, eager):
                break
        assert best is not None
        return best

    def _accept(self) -> tuple[Path, ...]:
        """Live on behind the difference, and write what came of it."""
        self._difference(to_the_end=True)
        return written(self.stages, self.recording, self._check)

    def _check(self, recording: Recording, children: list[Recording]) -> Difference | None:
        """Whether a new recording would be rehearsed without a difference."""
        return _Run(recording, self.make_agent, children, self.real_tools, self.host_options)._difference(
            to_the_end=False
        )


def _first(stage: Stage) -> Difference | None:
    """The first difference of a life, with the request in which it shows."""
    differing = [track for track in stage.tracks if track.difference is not None]
    if not differing:
        return None
    track = min(differing, key=lambda one: -one.recording.header.delegation_depth)
    assert track.difference is not None
    asked = next((one.request for one in differing if one.request is not None), None)
    return track.difference.with_request(request_diff(asked[1], asked[0])) if asked is not None else track.difference


def _reached(stage: Stage) -> tuple[bool, int]:
    """How far a life went as it was recorded."""
    same = all(track.difference is None for track in stage.tracks)
    return same, stage.root.seen if stage.root is not None else -1


def _other_moment(stage: Stage, eager: set[int]) -> bool:
    """Choose another moment for what came from outside where a run differs; returns whether there is one."""
    track = stage.root
    assert track is not None
    if track.difference is None:
        return False
    for stop in track.stops:
        if stop.covers(track.seen):
            if stop.chosen + 1 < len(stop.moments):
                stop.chosen += 1
                return True
            stop.chosen = 0
            return False
    seq = track.seen
    if seq >= track.life.end or seq in eager or len(track.kept) <= seq or not _may_be_eager(track, seq):
        return False
    eager.add(seq)
    return True


def _may_be_eager(track: Track, seq: int) -> bool:
    """Whether an edit, or a message, may have come while the agent was not at rest. As a turn ends it is a hook's."""
    events = track.recording.events
    data = events[seq].data
    if type(data) is InboxSpliced and data.outcome is not None:
        return True
    return is_insertion(data) and not comes_as_the_turn_ends(events, seq)
