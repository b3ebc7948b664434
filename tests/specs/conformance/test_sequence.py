"""Counterexamples as sequence diagrams."""

import pytest

from treadle_specs.conformance.command import OUR_OWN
from treadle_specs.conformance.process_rig import Rigs
from treadle_specs.conformance.sequence import draw_script, exchange_mermaid

SCRIPT = {
    "name": "a turn",
    "steps": [
        {"do": "deliver", "message": {"id": "u1", "text": "a;b#c"}, "target": "next-turn", "wakeup": True},
        {"do": "settle"},
        {"do": "cancel", "cause": "user", "keep_inbox": False},
        {"do": "settle"},
    ],
}


@pytest.mark.slow
def test_a_script_is_drawn_with_what_was_asked_and_what_was_told() -> None:
    drawn = draw_script(SCRIPT, Rigs(OUR_OWN, reuse=False).make)
    assert drawn.startswith("sequenceDiagram\n")
    assert "D-->>T: turn/end 1 aborted user" in drawn
    assert "D-->>T: ~status running" in drawn
    assert "waits at model" in drawn
    assert ";" not in drawn
    assert "#" not in drawn


def test_a_refusal_and_what_is_broken_are_noted() -> None:
    refused = {"ok": False, "error": {"code": "busy", "message": "m"}}
    drawn = exchange_mermaid([({"do": "maintain"}, refused)], "L5: status repeats")
    assert "D--xT: refused: busy" in drawn
    assert drawn.endswith("Note over T,D: L5: status repeats\n")
