"""Scripts that once broke a rule, kept in a folder: what was broken is run first the next time (§7)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from .findings import Broken
from .ledger import Json

PLACE = Path(".treadle-conform")
"""Where scripts are kept unless told otherwise; made when the first one is found."""


def kept(folder: Path) -> list[list[Json]]:
    """The steps of all scripts of a folder; what is none is left alone."""
    scripts: list[list[Json]] = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            read: Any = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        found = cast("list[Any]", read if isinstance(read, list) else [read])
        scripts += [steps_of(script) for script in found if is_script(script)]
    return scripts


def is_script(value: Any) -> bool:
    """Whether a value is a script as ``conform`` and ``explore`` save it."""
    if not isinstance(value, dict):
        return False
    steps: Any = cast("Json", value).get("steps")
    named = isinstance(cast("Json", value).get("name"), str) and isinstance(cast("Json", value).get("open", {}), dict)
    return named and isinstance(steps, list) and all(
        isinstance(step, dict) and isinstance(cast("Json", step).get("do"), str) for step in cast("list[Any]", steps)
    )  # fmt: skip


def steps_of(script: Json) -> list[Json]:
    """All requests of a script, the opening first."""
    return [{"do": "open", "session": "s1", **script.get("open", {})}, *script["steps"]]


def keep(folder: Path, found: Iterable[Broken]) -> list[Path]:
    """Write a script for each finding; returns the files."""
    written: list[Path] = []
    for one in found:
        text = json.dumps([one.script()], indent=1, ensure_ascii=False) + "\n"
        mark = hashlib.sha256(json.dumps(one.steps, sort_keys=True).encode()).hexdigest()[:8]
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{one.rule}-{mark}.json"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
