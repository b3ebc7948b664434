"""Whether each call of a request is answered once, before anything else is said: what model servers insist on."""

from __future__ import annotations

from ..ledger import Json


def unpaired(messages: list[Json]) -> str:
    """What is wrong with the calls and results of a request; empty when nothing is.

    Args:
        messages: of the request.
    """
    due: list[str] = []
    met: set[str] = set()
    for message in messages:
        if message["role"] == "assistant":
            if due:
                return f"{', '.join(due)} unanswered before an answer of the model"
            due = list(message["calls"])
            if met.intersection(due) or len(set(due)) < len(due):
                return f"two calls of one id among {', '.join(due)}"
            met |= set(due)
            continue
        for call in message["results"]:
            if call not in due:
                return f"a result of {call}, which is not called just before"
            due.remove(call)
        if due and not message["results"]:
            return f"{', '.join(due)} unanswered before a message of the user"
    return f"{', '.join(due)} unanswered at the end" if due else ""
