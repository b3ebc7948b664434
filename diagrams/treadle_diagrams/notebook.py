"""What a notebook shows of an agent, a session and the lifecycle: no script, nothing from outside, all of it escaped."""

from __future__ import annotations

from collections.abc import Sequence

from treadle import Agent, Session, UserMessage
from treadle.printable import one_line
from treadle.testing import Lifecycle

from .drawing.markup import markup
from .drawing.units import counted, duration
from .lifecycle.svg import svg
from .log.entries import AnyEntry, Said, TurnClosed, TurnOpened
from .log.passages import walk_of
from .log.phrases import blocks_text
from .log.transcript import transcript
from .log.usage import usage_text

MOST_TURNS = 12
"""So many turns are listed, the last ones."""

MOST_MESSAGES = 8


def lifecycle_svg(lifecycle: Lifecycle) -> str:
    """The lifecycle, drawn from its own rows."""
    return svg(lifecycle.rows)


def session_html(session: Session) -> str:
    """What a session says of itself: its turns, and the path that it walked."""
    return _card(f"session {session.id}", _facts(session), turns_html(session), svg(walked=walk_of(session.events)))


def agent_html(agent: Agent) -> str:
    """Where an agent is in its life, what waits in its inbox, and its last turns."""
    inbox = agent.inbox
    facts = [agent.state.value, agent.status, *_facts(agent.session)]
    waiting = _messages("next turn", inbox.next_turn) + _messages("next step", inbox.next_step)
    return _card(f"agent {agent.id}", facts, waiting, svg(current=agent.state), turns_html(agent.session))


def _facts(session: Session) -> list[str]:
    events = session.events
    turns = len([entry for entry in events if entry.type == "turn/start"])
    facts = [counted(turns, "turn"), counted(len(events), "event")]
    return [*facts, duration(max(0, events[-1].time - events[0].time))] if len(events) else facts


def _card(title: str, facts: Sequence[str], *parts: str) -> str:
    told = markup(" · ".join(facts))
    return (
        f'<div class="treadle-card"><style>{_STYLE}</style><p><b>{markup(title)}</b> {told}</p>{"".join(parts)}</div>'
    )


def _messages(name: str, messages: Sequence[UserMessage]) -> str:
    if not messages:
        return ""
    items = [f"<li>{markup(one_line(blocks_text(message.content), 120))}</li>" for message in messages[:MOST_MESSAGES]]
    rest = len(messages) - MOST_MESSAGES
    more = f"<li>… and {rest:,} more</li>" if rest > 0 else ""
    return f"<p>waiting for the {name}:</p><ol>{''.join(items)}{more}</ol>"


def turns_html(session: Session) -> str:
    """The last turns as a table: what was asked, what it took, how it ended; empty without turns."""
    rows = _turns(transcript(session.events))
    if not rows:
        return ""
    shown = rows[-MOST_TURNS:]
    before = len(rows) - len(shown)
    head = "".join([f"<th>{name}</th>" for name in ("turn", "asked", "steps", "calls", "took", "ended")])
    body = "".join(["<tr>" + "".join([f"<td>{markup(cell)}</td>" for cell in row]) + "</tr>" for row in shown])
    told = f"<caption>{counted(before, 'earlier turn')}</caption>" if before else ""
    return f"<table>{told}<tr>{head}</tr>{body}</table>"


def _turns(entries: Sequence[AnyEntry]) -> list[list[str]]:
    rows: list[list[str]] = []
    for entry in entries:
        if isinstance(entry, TurnOpened):
            rows.append([str(entry.turn), "", "", "", "", "open"])
        elif not rows or entry.turn is None:
            continue
        elif isinstance(entry, Said):
            rows[-1][1] = rows[-1][1] or one_line(entry.text, 80)
        elif isinstance(entry, TurnClosed):
            took = duration(entry.took) if entry.took is not None else ""
            ended = " · ".join([one_line(entry.why, 80), *usage_text(entry.usage)])
            rows[-1][2:] = [str(entry.steps), str(entry.calls), took, ended]
    return rows


_STYLE = (
    ".treadle-card{max-width:1000px;font-family:system-ui,sans-serif}"
    ".treadle-card table{border-collapse:collapse;margin:8px 0}"
    ".treadle-card th,.treadle-card td{padding:2px 12px 2px 0;text-align:left;vertical-align:top}"
    ".treadle-card caption{text-align:left;opacity:.7}"
    ".treadle-card svg{max-width:100%;height:auto}"
)
