"""Scripts of broken rules, read from files and checked before a driver sees them (§7, X3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from treadle import MisuseError
from treadle.host.reading.documents import Fault, Faulty, error_of, faults_in, read_text
from treadle.host.reading.json import read_json
from treadle.models import check_depth

MAX_FILE = 16 * 1024 * 1024
"""Bytes that a file of scripts may have (X3)."""


class _Message(msgspec.Struct):
    id: str
    text: str


class _Deliver(msgspec.Struct):
    message: _Message
    wakeup: bool


class _Inbox(msgspec.Struct):
    op: str
    message_id: str | None = None
    message: _Message | msgspec.UnsetType = msgspec.UNSET
    inserted: list[_Message] = []


class _Update(msgspec.Struct):
    message_id: str
    action: str


class _Pass(msgspec.Struct):
    gate: str


class _Act(msgspec.Struct):
    do: str


class _Listen(msgspec.Struct):
    request: _Act


_NEEDED: dict[str, type[msgspec.Struct]] = {
    "deliver": _Deliver,
    "inbox": _Inbox,
    "update": _Update,
    "pass": _Pass,
    "listen": _Listen,
}
"""What a step of a verb has to hold for it to be played; of other verbs, nothing."""


class _Script(msgspec.Struct):
    name: str
    steps: list[dict[str, Any]]
    open: dict[str, Any] = {}


def read_scripts(path: Path) -> list[dict[str, Any]]:
    """The scripts of a file that ``treadle conform`` or ``treadle explore`` saved.

    Raises:
        MisuseError: it cannot be read, or holds something else; every fault is named.
    """
    try:
        value = read_json(read_text(path, MAX_FILE)).value
        check_depth(value)
    except (Faulty, OSError) as error:
        raise MisuseError(str(error_of(path, faults_in(error)))) from error
    except MisuseError as error:
        raise MisuseError(f"{path}: {error}") from error
    scripts = cast("list[Any]", value if isinstance(value, list) else [value])
    faults = [
        Fault(0, 0, f"script {number}: {text}")
        for number, script in enumerate(scripts, 1)
        for text in _faults(script)
    ]  # fmt: skip
    if faults:
        told = error_of(path, faults)
        raise MisuseError(f"{told}\n{path} is no script that `treadle conform` or `treadle explore` saved")
    return scripts


def _faults(script: Any) -> Iterator[str]:
    try:
        known = msgspec.convert(script, _Script)
    except msgspec.ValidationError as error:
        yield str(error)
        return
    for number, step in enumerate(known.steps):
        verb = step.get("do")
        if not isinstance(verb, str):
            yield f"steps[{number}]: `do` names no verb"
            continue
        try:
            msgspec.convert(step, _NEEDED.get(verb, _Act))
            if verb == "listen" and step["request"]["do"] == "deliver":
                msgspec.convert(step["request"], _Deliver)
        except msgspec.ValidationError as error:
            yield f"steps[{number}]: {error}"
