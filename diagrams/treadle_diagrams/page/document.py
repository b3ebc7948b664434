"""A session as one HTML file that needs nothing else: no build, no network, no font, no server.

The transcript is plain HTML and stands without the script; the script scrubs, searches, and draws the waterfall. A
content security policy admits exactly the style and the script that stand in the file: text of the session can run
nothing and load nothing, even if an escape were missing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.resources import files

from treadle import Event, SessionHeader
from treadle.extensions.usage import USAGE
from treadle.session import TurnStart
from treadle.testing import TABLE

from ..drawing.markup import markup
from ..drawing.units import counted, duration
from ..lifecycle.style import page_stylesheet
from ..lifecycle.svg import drawing
from ..log.clock import steadied
from ..log.entries import AnyEntry, Routed, TurnClosed
from ..log.letters import letters_of
from ..log.passages import states_of, walk_of
from ..log.spans import spans_of
from ..log.transcript import transcript
from ..log.usage import usage_text
from .bars import bars_by_turn, strip_svg
from .data import page_data
from .transcript import transcript_html

SCRIPTS = ("lanes.js", "page.js", "waterfall.js", "search.js", "keys.js")


def session_page(header: SessionHeader, events: Iterable[Event], trouble: str | None = None) -> str:
    """A session's log as an HTML document.

    Args:
        header: the session's identity and origin.
        events: its log, from the beginning and in order.
        trouble: what is wrong with the log, shown above it.
    """
    told = tuple(events)
    entries, events = transcript(told), steadied(told)
    spans, reached = spans_of(events), states_of(events)
    style = _static("page.css") + _static("lanes.css") + page_stylesheet()
    script = "\n".join([_static(name) for name in SCRIPTS])
    turns = [(entry.data.turn, entry.seq) for entry in events if isinstance(entry.data, TurnStart)]
    first = events[0].seq if events else 0
    return _DOCUMENT.format(
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none';"
        " form-action 'none'; require-trusted-types-for 'script'",
        title=markup(f"session {header.id}"),
        style=style,
        name=markup(header.id),
        facts=markup(" · ".join(_facts(header, events, entries))),
        trouble=f'<p class="trouble">{markup(trouble)}</p>' if trouble else "",
        strip=strip_svg(reached, first, len(events), turns),
        last=max(0, len(events) - 1),
        transcript=transcript_html(entries, bars_by_turn(spans)) or "<p>The log is empty.</p>",
        lifecycle=drawing(TABLE, walk_of(events), "faded", None, ""),
        data=page_data(events, entries, spans, letters_of(events), reached),
        script=script,
    )


def _facts(header: SessionHeader, events: Sequence[Event], entries: Sequence[AnyEntry]) -> list[str]:
    ends = [entry for entry in entries if isinstance(entry, TurnClosed)]
    turns = len([entry for entry in entries if entry.kind == "turn"])
    routes = list(dict.fromkeys([entry.route for entry in entries if isinstance(entry, Routed) and entry.route]))
    facts = [counted(turns, "turn"), counted(sum([end.steps for end in ends]), "step")]
    facts.append(counted(sum([end.calls for end in ends]), "tool call"))
    facts.append(counted(len(events), "event"))
    if events:
        facts.append(duration(events[-1].time - events[0].time))
    used = USAGE.over(events)
    facts += [counted(used.own.attempts, "attempt"), *usage_text(used.own.usage)]
    facts += [*[f"sub-agents' {text}" for text in usage_text(used.below.usage)], *routes[:3]]
    began = datetime.fromtimestamp(header.created_at / 1000, UTC) if 0 <= header.created_at < 1 << 47 else None
    facts += [began.strftime("%Y-%m-%d %H:%M UTC")] if began is not None else []
    facts += [f"forked from {header.parent_session}"] if header.parent_session and header.seeded else []
    return facts


def _static(name: str) -> str:
    return (files("treadle_diagrams.page") / "static" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_DOCUMENT = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header class="top">
<h1>{name}</h1>
<p class="facts">{facts}</p>
<div class="find">
<input id="find" type="search" placeholder="search  (press /)" aria-label="search the transcript" spellcheck="false">
<output id="found" aria-live="polite"></output>
<button id="theme" type="button" title="light or dark (t)" aria-label="light or dark">◐</button>
<button id="help" type="button" title="keys (?)" aria-label="keys">?</button>
</div>
</header>
{trouble}
<section class="scrub" aria-label="time">
<button id="play" type="button" title="play (space)" aria-label="play">▶</button>
<div class="rail">{strip}<input id="at" type="range" min="0" max="{last}" value="{last}" step="1" aria-label="event"></div>
<p id="where"></p>
</section>
<main>
<div class="transcript">
{transcript}
</div>
<aside>
<figure class="lifecycle">{lifecycle}</figure>
<figure class="waterfall" aria-label="waterfall"><figcaption id="of-turn"></figcaption><div id="waterfall"></div></figure>
</aside>
</main>
<dialog id="keys"><h2>Keys</h2><dl>
<dt>← →</dt><dd>event before, event after</dd>
<dt>shift ← →</dt><dd>turn before, turn after</dd>
<dt>home end</dt><dd>beginning, end</dd>
<dt>space</dt><dd>play, pause</dd>
<dt>/</dt><dd>search; enter and shift enter go on and back, escape leaves</dd>
<dt>t</dt><dd>light or dark</dd>
</dl><form method="dialog"><button>close</button></form></dialog>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
