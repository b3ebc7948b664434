"""Which parts of the surface may give way to a summary: what is old, unbroken, and kept by nobody (Z2, Z3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from ...models import AssistantMessage, HookSource, Message, SystemMessage, ToolResultMessage, UserMessage
from ...prompt import ContextSource
from ...session import Node
from .summaries import SummarySource


@frozen
class Range:
    """Nodes of the surface in a row, whole exchanges of calls and results."""

    nodes: tuple[Node, ...]

    @property
    def seqs(self) -> tuple[int, ...]:
        """The seqs of its events, in the order of the surface."""
        return tuple([node.seq for node in self.nodes])

    @property
    def messages(self) -> tuple[Message, ...]:
        """What it says, without system prompts that do not hold any more."""
        said = [node.message for node in self.nodes]
        return tuple([one for one in said if one is not None and not isinstance(one, SystemMessage)])


def ranges_of(
    nodes: Sequence[Node], end: int, pinned: Callable[[Message], bool], asked_from: int | None = None
) -> list[Range]:
    """The ranges that may give way, in the order of the surface.

    Kept are pinned messages, the system prompt, the last that each dynamic context and each hook injected, and calls
    without a result.
    A call and its results are kept, or give way, together. A range of nothing but a summary is none.

    Args:
        nodes: the surface.
        end: where those nodes begin that are too recent.
        pinned: whether a message is kept.
        asked_from: from this node on, what was said to the model is kept, and only what it did may give way.
    """
    kept = _kept(nodes)
    if asked_from is not None:
        kept.update([node.seq for node in nodes[asked_from:] if _is_said(node.message)])
    found: list[Range] = []
    run: list[Node] = []
    place = 0
    while place < end:
        after = _after_exchange(nodes, place)
        exchange = nodes[place:after]
        if after > end or any([_keeps(node, kept, pinned) for node in exchange]) or _unanswered(exchange):
            _add(found, run)
            run = []
        else:
            run += exchange
        place = after
    _add(found, run)
    return found


def last_steps(nodes: Sequence[Node], steps: int) -> int:
    """Where on the surface the last so many answers begin, each with the results of its calls."""
    for place in range(len(nodes) - 1, -1, -1):
        if isinstance(nodes[place].message, AssistantMessage):
            steps -= 1
            if not steps:
                return place
    return 0


def _is_summary(message: Message | None) -> bool:
    return isinstance(message, UserMessage) and isinstance(message.source, SummarySource)


def _is_said(message: Message | None) -> bool:
    return isinstance(message, UserMessage) and not _is_summary(message)


def _kept(nodes: Sequence[Node]) -> set[int]:
    """The seqs of the system prompt, at its head and as it holds, and of contexts as they were last told."""
    system = [node for node in nodes if node.system]
    live = [node.seq for node in system if node.message is not None]
    contexts: dict[tuple[type, str], int] = {}
    for node in nodes:
        source = node.message.source if isinstance(node.message, UserMessage) else None
        if isinstance(source, (ContextSource, HookSource)):
            contexts[type(source), source.name] = node.seq
    return {*[node.seq for node in system[:1]], *live[-1:], *contexts.values()}


def _keeps(node: Node, kept: set[int], pinned: Callable[[Message], bool]) -> bool:
    message = node.message
    if node.seq in kept:
        return True
    if message is None or isinstance(message, SystemMessage):
        return False
    return bool((isinstance(message, UserMessage) and message.pinned) or pinned(message))


def _after_exchange(nodes: Sequence[Node], place: int) -> int:
    """Where what belongs together from here on ends: a message, and the results of its calls."""
    after = place + 1
    message = nodes[place].message
    if isinstance(message, AssistantMessage) and message.calls:
        while after < len(nodes) and isinstance(nodes[after].message, ToolResultMessage):
            after += 1
    return after


def _unanswered(exchange: Sequence[Node]) -> bool:
    message = exchange[0].message
    asked = len(message.calls) if isinstance(message, AssistantMessage) else 0
    return len(exchange) - 1 < asked


def _add(found: list[Range], run: list[Node]) -> None:
    made = Range(tuple(run))
    if any([not _is_summary(one) for one in made.messages]):
        found.append(made)
