"""Writing a new recording in the place of an old one: what was the same stays byte for byte, what differs is today's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from attrs import define

from treadle import Event, MisuseError
from treadle.session import AssistantAttempt, AssistantMessageAdded, decode_event, encode_event, encode_header
from treadle.testing import LogMonitor

from .differences import Difference
from .recording import Life, Recording
from .stage import Stage
from .track import Track

_ATTEMPTS = (AssistantMessageAdded, AssistantAttempt)
Check = Callable[[Recording, list[Recording]], Difference | None]


@define
class Accepted:
    """The events that a life begins with: those that were recorded, or, behind a difference, the new ones."""

    def of(self, stages: Sequence[Stage], recording: Recording, life: Life) -> list[Event]:
        """What is stored when a life begins."""
        if not any(stage.root is not None and stage.root.difference is not None for stage in stages):
            return list(recording.events[: life.start])
        return new_events(stages, recording)


def new_events(stages: Sequence[Stage], recording: Recording) -> list[Event]:
    """The events of the session as it is now, with recorded times."""
    events = list(recording.events[: stages[0].life.start])
    for stage in stages:
        track = stage.root
        assert track is not None
        same = track.difference is None
        events = (
            list(recording.events[: stage.life.end])
            if same
            else _merged(track, events, differed=stage.earlier is not None)
        )
    return events


def _merged(track: Track, before: Sequence[Event], *, differed: bool) -> list[Event]:
    """The events up to the difference as they were recorded, and the live ones from there on.

    Args:
        track: the session.
        before: the events that the life began with.
        differed: the difference is of an earlier life.
    """
    recorded = track.recording.events
    events = list(before) if differed else list(recorded[: track.seen])
    attempts = [one.data.stream for one in recorded[track.life.start : track.life.end] if type(one.data) in _ATTEMPTS]
    made = [one.seq for one in track.kept if type(one.data) in _ATTEMPTS and one.seq >= len(before)]
    streams = dict(zip(made, attempts, strict=False))
    renamed = {} if differed else _renamed(track)
    time = events[-1].time if events else track.recording.header.created_at
    for entry in track.kept[len(events) :]:
        if entry.seq < len(recorded) and recorded[entry.seq].time > time:
            time = recorded[entry.seq].time
        data = _timed(entry.data, streams.get(entry.seq))
        events.append(_with_names(msgspec.structs.replace(entry, time=time, data=data), renamed))
    return events


def _renamed(track: Track) -> dict[bytes, bytes]:
    """What identities that were made up anew are called in the recorded events."""
    pairs = zip(track.pairing.live.order[: track.paired], track.pairing.recorded.order, strict=False)
    return {b'"%s"' % live.encode(): b'"%s"' % name.encode() for live, name in pairs if live != name}


def _with_names(entry: Event, renamed: dict[bytes, bytes]) -> Event:
    text = encode_event(entry)
    for live, name in renamed.items():
        text = text.replace(live, name)
    return decode_event(text)


def _timed(data: Any, stream: Any) -> Any:
    """An answer with the times that were recorded."""
    if stream is None or data.stream is None or _texts(stream) != _texts(data.stream):
        return data
    return msgspec.structs.replace(data, stream=stream)


def _texts(stream: Any) -> list[Any]:
    return [(one.delta, one.index, one.texts, one.chunk) for one in stream.segments]


def written(stages: Sequence[Stage], recording: Recording, check: Check) -> tuple[Path, ...]:
    """Write the new recordings of a session and of its sub-agents; all are checked before the first is written.

    Raises:
        MisuseError: what the agent does now cannot be recorded: it asks for more than was recorded, or rehearsing the
            new recording would show a difference.
        OSError: it cannot be written; the old recording is as it was.
    """
    if any(track.asks_more for stage in stages if not stage.life.killed for track in stage.tracks):
        raise MisuseError(
            "not accepted: the agent asks the model for an answer that was not recorded; record the session anew"
        )
    fresh = Recording(recording.path, recording.header, tuple(new_events(stages, recording)))
    others: list[Recording] = []
    for stage in stages:
        for track in stage.tracks:
            if track is not stage.root and track.difference is not None:
                others.append(
                    Recording(track.recording.path, track.recording.header, tuple(_merged(track, (), differed=False)))
                )
            elif track is not stage.root:
                others.append(track.recording)
    for one in (fresh, *others):
        if one.path.suffix != ".jsonl":
            raise MisuseError(f"not accepted: {one.path} is no plain .jsonl file; unpack it first")
        monitor = LogMonitor()
        breaches = [breach for entry in one.events for breach in monitor.take(entry)]
        if breaches:
            raise MisuseError(f"not accepted: the new recording would break a rule: {breaches[0]}")
    difference = check(fresh, others)
    if difference is not None:
        raise MisuseError(f"not accepted: rehearsing the new recording would differ again, at {difference}")
    changed = [one for one in (fresh, *others) if one is fresh or one.events != _old(stages, one)]
    for one in changed:
        write_recording(one)
    return tuple([one.path for one in changed])


def _old(stages: Sequence[Stage], fresh: Recording) -> tuple[Event, ...]:
    found = [track.recording for stage in stages for track in stage.tracks if track.recording.path == fresh.path]
    return found[0].events if found else ()


def write_recording(recording: Recording) -> None:
    """Write a recording: whole, or not at all.

    Raises:
        OSError: it cannot be written; what was there is as it was.
    """
    lines = [encode_header(recording.header), *map(encode_event, recording.events)]
    text = b"".join([line + b"\n" for line in lines])
    path = recording.path
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            Path(name).chmod(path.stat().st_mode & 0o777)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
