"""The lifecycle as text that others draw: Mermaid and DOT, and tables in Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from treadle.testing import TABLE

from .graph import Graph, Move, Transition
from .walk import Walk, walked_graph


def mermaid(rows: Iterable[Transition] = TABLE, *, walked: Walk | None = None) -> str:
    """Draw a lifecycle table as a Mermaid state diagram: one arrow per pair of states, one line per trigger.

    Verbs stand in comments: Mermaid places labels by itself, and longer ones would hide each other. Triggers that
    ``walked`` took have count and time behind them.

    Raises:
        MisuseError: the walk has rows that the table has not.
    """
    graph = walked_graph(rows, walked)
    ids = {state: re.sub(r"\W", "_", state) for state in graph.states}
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{state}" as {name}' for state, name in ids.items() if state != name]
    if graph.initial is not None:
        lines.append(f"    [*] --> {ids[graph.initial]}")
    for arrow in graph.arrows:
        triggers = "<br/>".join(f"{move.trigger} {_told(move, walked)}".strip() for move in arrow.moves)
        lines.append(f"    {ids[arrow.source]} --> {ids[arrow.dest]} : {triggers}")
        lines += [f"    %% {move.trigger} runs {', '.join(move.verbs)}" for move in arrow.moves if move.verbs]
    lines += [f"    {ids[state]} --> [*]" for state in _final(graph)]
    return "\n".join(lines) + "\n"


def _told(move: Move, walk: Walk | None) -> str:
    return walk.told(move.key) if walk is not None else ""


def _final(graph: Graph) -> list[str]:
    """The states that nothing leaves."""
    sources = {move.source for move in graph.moves}
    return [state for state in graph.states if state not in sources]


# --- DOT --------------------------------------------------------------------------------------------------------------


def dot(rows: Iterable[Transition] = TABLE, *, walked: Walk | None = None) -> str:
    """Draw a lifecycle table as a DOT graph for graphviz; verbs stand small below their trigger.

    What ``walked`` took is drawn bold and blue, with count and time; the rest is grey then.

    Raises:
        MisuseError: the walk has rows that the table has not.
    """
    graph = walked_graph(rows, walked)
    final = _final(graph)
    lines = [
        "digraph lifecycle {",
        "    rankdir=LR; nodesep=0.5; ranksep=0.9;",
        '    node [shape=box, style=rounded, fontname="monospace", fontsize=13];',
        '    edge [fontname="monospace", fontsize=11, arrowsize=0.7];',
    ]
    if graph.initial is not None:
        lines += ["    begin [shape=point, width=0.12];", f"    begin -> {_quoted(graph.initial)};"]
    lines += [f"    {_quoted(state)}{' [peripheries=2]' if state in final else ''};" for state in graph.states]
    for arrow in graph.arrows:
        label = "<br/>".join(_html(move, _told(move, walked)) for move in arrow.moves)
        look = ""
        if walked is not None:
            taken = any(walked.count(move.key) for move in arrow.moves)
            look = ', color="#0969da", penwidth=2.4' if taken else ', color="#d0d7de", fontcolor="#8c959f"'
        lines.append(f"    {_quoted(arrow.source)} -> {_quoted(arrow.dest)} [label=<{label}>{look}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _html(move: Move, suffix: str) -> str:
    if suffix:
        return f"<b>{escape(move.trigger)}</b> {suffix}"
    verbs = "".join(f'<br/><font point-size="8">{escape(verb)}</font>' for verb in move.verbs)
    return f"<b>{escape(move.trigger)}</b>{verbs}"


# --- Markdown ---------------------------------------------------------------------------------------------------------


def table_markdown(rows: Iterable[Transition] = TABLE, *, walked: Walk | None = None) -> str:
    """Two tables: where each trigger leads from each state, and what each transition runs.

    An empty cell is a trigger that the state does not know: firing it raises (L1). With ``walked`` a column tells how
    often each transition was taken, and how long its state lasted before.

    Raises:
        MisuseError: the walk has rows that the table has not.
    """
    graph = walked_graph(rows, walked)
    triggers = list(dict.fromkeys(move.trigger for move in graph.moves))
    sources = [state for state in graph.states if any(move.source == state for move in graph.moves)]
    matrix = [[f"**{trigger}**", *[_leads(graph, state, trigger) for state in sources]] for trigger in triggers]
    verbs = [
        [move.source, move.trigger, move.dest, ", ".join(f"`{verb}`" for verb in move.verbs)] for move in graph.moves
    ]
    head = ["from", "trigger", "to", "runs"]
    if walked is not None:
        head.append("walked")
        verbs = [[*row, walked.told(move.key)] for row, move in zip(verbs, graph.moves, strict=True)]
    return "\n".join([*_table(["", *sources], matrix), "", *_table(head, verbs)]) + "\n"


def _leads(graph: Graph, state: str, trigger: str) -> str:
    dests = [move.dest for move in graph.moves if move.source == state and move.trigger == trigger]
    return ", ".join("stays" if dest == state else dest for dest in dests)


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """An aligned Markdown table."""
    widths = [max(3, *(len(row[column]) for row in (head, *body))) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *body]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in lines
    ]
