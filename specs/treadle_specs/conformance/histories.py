"""A request as the log wants it, and as a model gate reports it, in one form (Q1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .ledger import Json, items

Entry = tuple[str, ...]


def derived(history: Iterable[Json], texts: Mapping[str, str]) -> list[Entry]:
    """What the log says a request holds (S4)."""
    wanted: list[Entry] = []
    for entry in history:
        if "message" in entry:
            wanted.append(("user", texts.get(entry["message"], "")))
        elif entry["role"] == "assistant":
            wanted.append(("assistant", entry["text"], *entry["calls"]))
        else:
            wanted += [("result", call) for call in entry["results"]]
    return wanted


def flat(message: Json) -> list[Entry]:
    """A message of a request, results apart; system prompts are left out."""
    if message["role"] == "system":
        return []
    results = items(message, "results")
    if results:
        return [("result", call) for call in results]
    if message["role"] == "assistant":
        return [("assistant", message.get("text") or "", *items(message, "calls"))]
    return [("user", message.get("text") or "")]
