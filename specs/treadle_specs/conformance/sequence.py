"""A counterexample as a sequence diagram: what the tester asked, and what the driver told, in Mermaid (§7)."""

from __future__ import annotations

import json
from typing import Any

from .. import run_cases
from ..exploration.violation import Violation
from .local import Json, MakeRig, Rig
from .replays import replay_script

LONGEST = 70
"""How many characters of a line are drawn."""


class Recording:
    """A rig that remembers the exchange; it is one itself.

    Args:
        rig: answers.
        exchange: what was remembered before, of a rig that this one takes the place of.
    """

    def __init__(self, rig: Rig, exchange: list[tuple[Json, Json]] | None = None) -> None:
        self._rig = rig
        self.exchange: list[tuple[Json, Json]] = exchange if exchange is not None else []

    def ask(self, request: Json) -> Json:
        """See ``Rig``."""
        reply = self._rig.ask(request)
        self.exchange.append((request, reply))
        return reply

    def close(self, *, kill: bool = False) -> None:
        """See ``Rig``."""
        self._rig.close(kill=kill)

    def stop(self) -> None:
        """See ``Rig``."""
        self._rig.stop()


def exchange_mermaid(exchange: list[tuple[Json, Json]], broken: str = "") -> str:
    """Draw an exchange.

    Args:
        exchange: requests with their replies, in order.
        broken: what is wrong at the end, noted there.
    """
    lines = ["sequenceDiagram", "    participant T as tester", "    participant D as driver"]
    for request, reply in exchange:
        lines.append(f"    T->>D: {_plain(_asked(request))}")
        if not reply.get("ok", True):
            lines.append(f"    D--xT: {_plain('refused: ' + str(reply.get('error', {}).get('code')))}")
        elif "events" in reply:
            lines += [f"    D-->>T: {_plain(told)}" for told in run_cases.story(reply)]
            gates = [run_cases.compact_gate(gate) for gate in reply.get("gates", [])]
            state = f"{reply.get('state') or reply.get('status')}"
            lines.append(f"    Note over D: {_plain(state + (', waits at ' + ', '.join(gates) if gates else ''))}")
    if broken:
        lines.append(f"    Note over T,D: {_plain(broken)}")
    return "\n".join(lines) + "\n"


def draw_script(script: Json, make_rig: MakeRig) -> str:
    """Play a script and draw the exchange, up to where a rule breaks."""
    recording = Recording(make_rig())
    last, broken = recording, ""
    try:
        last = replay_script(script, recording, lambda: Recording(make_rig(), recording.exchange))
    except Violation as violation:
        broken = str(violation)
    finally:
        last.stop()
    return exchange_mermaid(recording.exchange, broken)


def _asked(request: Json) -> str:
    rest: dict[str, Any] = {key: value for key, value in request.items() if key not in ("id", "do")}
    return f"{request.get('do')} {json.dumps(rest, ensure_ascii=False)}" if rest else str(request.get("do"))


def _plain(text: str) -> str:
    """One short line without what Mermaid reads as its own."""
    line = "".join([character if character.isprintable() else " " for character in text])
    line = line.replace("#", "♯").replace(";", ",").replace("%%", "% %")
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
