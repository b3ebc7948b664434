"""What rehearsals came to: as text for people, as JSON for programs, and as JUnit XML for CI."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from .rehearse import Rehearsal, Rehearsals


def as_text(rehearsals: Rehearsals) -> str:
    """For people: a line per session, more where something differs, and a summary."""
    sessions = rehearsals.sessions
    counts = {
        "without a difference": sum(one.same for one in sessions),
        "differ": sum(one.difference is not None for one in sessions),
        "cannot be rehearsed": sum(one.trouble is not None for one in sessions),
    }
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{rehearsals}\n{len(sessions)} session{'' if len(sessions) == 1 else 's'}: {told}\n"


def as_json(rehearsals: Rehearsals) -> str:
    """For programs: one object per session."""
    return json.dumps([_plain(one) for one in rehearsals.sessions], indent=1, ensure_ascii=False) + "\n"


def _plain(one: Rehearsal) -> dict[str, Any]:
    difference = one.difference
    return {
        "path": str(one.path),
        "events": one.events,
        "verdict": "trouble" if one.trouble is not None else "same" if one.same else "differs",
        "trouble": one.trouble,
        "difference": None if difference is None else {
            "session": difference.session,
            "seq": difference.seq,
            "kind": difference.kind,
            "message": difference.message,
            "event": list(difference.diff),
            "request": list(difference.request),
        },
        "withParent": one.with_parent,
        "accepted": [str(path) for path in one.accepted],
    }  # fmt: skip


def as_junit(rehearsals: Rehearsals) -> str:
    """As JUnit XML: one test per session."""
    sessions = rehearsals.sessions
    failed = sum(one.difference is not None and not one.accepted for one in sessions)
    errors = sum(one.trouble is not None for one in sessions)
    out = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuite name="treadle rehearse" tests="{len(sessions)}" failures="{failed}" errors="{errors}">',
    ]
    for one in sessions:
        out.append(f'  <testcase classname="treadle.rehearse" name={quoteattr(_xml(str(one.path)))}>{_inside(one)}')
        out.append("  </testcase>")
    return "\n".join([*out, "</testsuite>", ""])


def _inside(one: Rehearsal) -> str:
    if one.trouble is not None:
        return f"<error message={quoteattr(_xml(one.trouble))}/>"
    if one.difference is None or one.accepted:
        return ""
    told = _xml(str(one.difference))
    return f"<failure message={quoteattr(_xml(one.difference.message))}>{escape(told)}</failure>"


def _xml(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return "".join([one if _holds(ord(one)) else "\N{REPLACEMENT CHARACTER}" for one in text])


def _holds(point: int) -> bool:
    return point in (9, 10, 13) or 0x20 <= point <= 0xD7FF or 0xE000 <= point <= 0xFFFD or point > 0xFFFF


REPORTS: dict[str, Callable[[Rehearsals], str]] = {"text": as_text, "json": as_json, "junit": as_junit}
"""The forms of the report, by name."""
