"""Sequence diagrams as SVG: no browser, no script, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, field

from treadle import Event

from ..drawing.markup import markup
from ..drawing.palette import MONO, Palette, Theme, themed
from ..drawing.units import duration
from .content import LANES, Arrow, Item, Lane, Note, Shade, sequence_of

MARGIN = 16
GUTTER = 96
GAP = 148
LANE_WIDTH = 84
HEAD = 30
ROW = 36
CHAR, SMALL_CHAR = 7.25, 6.65
WIDTH = GUTTER + GAP * (len(LANES) - 1) + LANE_WIDTH // 2 + 30
X: dict[Lane, int] = {lane: GUTTER + GAP * index for index, lane in enumerate(LANES)}
BAR = 5
"""Half the width of an activation."""


def sequence_svg(events: Iterable[Event], turn: int | None = None, *, theme: Theme = "auto") -> str:
    """Draw a session's log as an SVG sequence diagram; the left margin tells the time.

    Args:
        events: the log, from its beginning and in order; it may end anywhere, and break any rule.
        turn: draw only this turn.
        theme: ``auto`` follows the reader's colour scheme.

    Raises:
        MisuseError: the log has no such turn, or there is no such theme.
    """
    style = themed(_SHAPES, _colours, theme)
    items = sequence_of(events, turn)
    sheet = _Sheet(items[0].time if items else 0)
    for item in items:
        sheet.put(item)
    return sheet.finish(style, "A session" if turn is None else f"Turn {turn} of a session")


@define(eq=False)
class _Sheet:
    """Grows downwards, item by item: bands and bars lie below lines, lines below labels."""

    start: int
    y: float = MARGIN + HEAD + 14
    bands: list[str] = field(factory=list[str])
    bars: list[str] = field(factory=list[str])
    drawn: list[str] = field(factory=list[str])
    active: dict[Lane, list[float]] = field(factory=dict[Lane, "list[float]"])
    shade: float | None = None
    told: str = ""

    def put(self, item: Item) -> None:
        """Draw one item below what is there."""
        match item:
            case Arrow():
                self._arrow(item)
            case Note(lane=lane):
                if lane is None:
                    self._heading(item)
                else:
                    self._note(item, lane)
            case Shade(begins=True):
                self.shade = self.y if self.shade is None else self.shade
            case _:
                self._shade_off()

    # --- arrows -------------------------------------------------------------------------------------------------------

    def _arrow(self, arrow: Arrow) -> None:
        y = self.y + ROW - 10
        self._time(arrow.time, y)
        left = min(X[arrow.source], X[arrow.dest])
        ahead = 1 if X[arrow.dest] > X[arrow.source] else -1
        tip = X[arrow.dest] - ahead * (BAR + 1 if arrow.dest in ("driver", "model", "tools") else 1)
        start = X[arrow.source] + ahead * (BAR if arrow.source in self.active else 1)
        marker = _cross(tip, y, ahead) if arrow.manner == "cut" else _tip(tip, y, ahead)
        shaft = tip - ahead * (5 if arrow.manner == "cut" else 7)
        small = arrow.manner == "record"
        text = _fitting(arrow.text, self._room(left, left + 12))
        label = _label(left + 12, y - 7, text, small=small, shaded=self.shade is not None)
        self.drawn.append(
            f'<g class="{arrow.manner}"><title>{markup(f"{arrow.source} → {arrow.dest}: {arrow.text}")}</title>'
            f'<path class="track" d="M{start:g},{y:g}H{shaft:g}"/>{marker}{label}</g>'
        )
        self._activate(arrow, y)
        self.y += ROW

    def _room(self, lane: int, x: float) -> float:
        """How wide a label may be that begins at ``x``, right of a lane: it ends before the next bar."""
        bars = [X[each] - BAR for each in ("driver", *self.active) if X[each] > lane]
        return min([*bars, WIDTH]) - 4 - x

    def _activate(self, arrow: Arrow, y: float) -> None:
        if arrow.manner == "call" and arrow.dest in ("model", "tools"):
            self.active.setdefault(arrow.dest, []).append(y)
        elif arrow.source in ("model", "tools") and self.active.get(arrow.source):
            begun = self.active[arrow.source]
            since = begun.pop(0)
            if not begun:
                del self.active[arrow.source]
            self._bar(arrow.source, since, y)

    def _bar(self, lane: Lane, top: float, bottom: float) -> None:
        self.bars.append(
            f'<rect class="bar {lane}" x="{X[lane] - BAR}" y="{top:g}" width="{2 * BAR}" height="{bottom - top:g}" rx="2"/>'
        )

    # --- notes --------------------------------------------------------------------------------------------------------

    def _heading(self, note: Note) -> None:
        """A turn begins, or it ends."""
        y = self.y + 24
        self._time(note.time, y + 4)
        ends = ":" in note.text
        width = CHAR * len(note.text) + 24
        middle = (X["sender"] + X["log"]) / 2
        self.drawn.append(
            f'<g class="turn{" ends" if ends else ""}">'
            f'<path class="track" d="M{X["sender"] - LANE_WIDTH / 2:g},{y:g}H{X["log"] + LANE_WIDTH / 2:g}"/>'
            f'<rect x="{middle - width / 2:g}" y="{y - 12:g}" width="{width:g}" height="24" rx="12"/>'
            f'<text x="{middle:g}" y="{y + 4:g}" text-anchor="middle">{markup(note.text)}</text></g>'
        )
        if ends:
            self._end_bar(y - 12)
        else:
            self.active["driver"] = [y + 12]
        self.y += 44

    def _end_bar(self, y: float) -> None:
        for since in self.active.pop("driver", ()):
            self._bar("driver", since, y)

    def _note(self, note: Note, lane: Lane) -> None:
        y = self.y + 8
        self._time(note.time, y + 15)
        left = X[lane] - 16
        text = _fitting(note.text, self._room(X[lane], left + 16))
        width = CHAR * len(text) + 16
        self.drawn.append(
            f'<g class="note"><title>{markup(note.text)}</title><rect x="{left}" y="{y:g}" width="{width:g}" height="22" rx="4"/>'
            f'<text x="{left + 8}" y="{y + 15:g}">{markup(text)}</text></g>'
        )
        self.y += ROW

    def _shade_off(self) -> None:
        if self.shade is None:
            return
        left, right = X["sender"] - LANE_WIDTH / 2, X["log"] + LANE_WIDTH / 2
        top, bottom = self.shade + 4, self.y + 6
        self.bands.append(
            f'<g class="shade"><rect x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" rx="6"/>'
            f'<text x="{right - 8:g}" y="{top + 15:g}" text-anchor="end">converging</text></g>'
        )
        self.shade = None
        self.y += 6

    def _time(self, time: int, y: float) -> None:
        told = "+" + duration(max(0, time - self.start))
        if told != self.told:
            self.told = told
            self.drawn.append(
                f'<text class="time" x="{GUTTER - LANE_WIDTH // 2 - 8}" y="{y:g}" text-anchor="end">{told}</text>'
            )

    # --- the whole ----------------------------------------------------------------------------------------------------

    def finish(self, style: str, title: str) -> str:
        """The document."""
        self._shade_off()
        bottom = self.y + 14
        for lane, begun in self.active.items():
            for since in begun:
                self._bar(lane, since, bottom)
        long = bottom > 900
        height = bottom + MARGIN + (HEAD if long else 0)
        size = f'width="{WIDTH}" height="{height:g}" viewBox="0 0 {WIDTH} {height:g}"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="treadle-sequence" role="img" {size}>',
            f"<title>{markup(title)}</title><style>\n{style}</style>",
            f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="10"/>',
            *self.bands,
            *[f'<path class="life" d="M{X[lane]},{MARGIN + HEAD}V{bottom:g}"/>' for lane in LANES],
            *self.bars,
            *self.drawn,
            *_heads(MARGIN),
            *(_heads(bottom) if long else ()),
        ]
        return "\n".join([*parts, "</svg>\n"])


def _heads(y: float) -> Sequence[str]:
    return [
        f'<g class="lane {lane}"><rect x="{X[lane] - LANE_WIDTH / 2:g}" y="{y:g}" width="{LANE_WIDTH}" height="{HEAD}" rx="7"/>'
        f'<text x="{X[lane]}" y="{y + 20:g}" text-anchor="middle">{lane}</text></g>'
        for lane in LANES
    ]


def _fitting(text: str, room: float) -> str:
    """As much of a label as has room; its tooltip holds the whole."""
    most = int(room / CHAR)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _label(x: float, y: float, text: str, *, small: bool, shaded: bool) -> str:
    width = (SMALL_CHAR if small else CHAR) * len(text)
    return (
        f'<rect class="halo{" shaded" if shaded else ""}" x="{x - 3:g}" y="{y - 12:g}" width="{width + 6:g}" height="16"/>'
        f'<text x="{x:g}" y="{y:g}">{markup(text)}</text>'
    )


def _tip(x: float, y: float, ahead: int) -> str:
    return f'<path class="head" d="M{x:g},{y:g}l{-9 * ahead},-4.5v9Z"/>'


def _cross(x: float, y: float, ahead: int) -> str:
    middle = x - 5 * ahead
    return f'<path class="track" d="M{middle - 4:g},{y - 4:g}l8,8m0,-8l-8,8"/>'


_SHAPES = f"""\
.treadle-sequence{{font-family:{MONO}}}
.treadle-sequence text{{font-size:12px}}
.treadle-sequence .lane text,.treadle-sequence .turn text{{font-size:13px;font-weight:600}}
.treadle-sequence .turn.ends text{{font-weight:400;font-size:12px}}
.treadle-sequence .time,.treadle-sequence .shade text{{font-size:11px}}
.treadle-sequence .life{{stroke-width:1;stroke-dasharray:3 4;fill:none}}
.treadle-sequence .track{{stroke-width:1.5;fill:none}}
.treadle-sequence .reply .track,.treadle-sequence .cut .track:first-of-type{{stroke-dasharray:6 4}}
.treadle-sequence .record .track{{stroke-width:1}}
.treadle-sequence .record text{{font-size:11px}}
.treadle-sequence .cancel .track{{stroke-width:2.4}}
.treadle-sequence .cancel text{{font-weight:600}}
.treadle-sequence .lane rect,.treadle-sequence .turn rect,.treadle-sequence .note rect{{stroke-width:1.2}}
"""

_LANES: dict[Lane, str] = {
    "sender": "rest",
    "inbox": "maintain",
    "driver": "run",
    "hooks": "foreign",
    "model": "run",
    "tools": "foreign",
    "log": "rest",
}
"""Whose colours each lane has."""


def _colours(palette: Palette) -> str:
    rules = {
        ".paper": f"fill:{palette.paper};stroke:{palette.frame}",
        ".halo": f"fill:{palette.paper}",
        ".halo.shaded": f"fill:{palette.cancel[0]}",
        "text": f"fill:{palette.ink}",
        ".time": f"fill:{palette.line}",
        ".life": f"stroke:{palette.faint}",
        ".track": f"stroke:{palette.ink}",
        ".head": f"fill:{palette.ink}",
        ".shade rect": f"fill:{palette.cancel[0]};stroke:{palette.cancel_line}",
        ".shade text": f"fill:{palette.cancel[1]}",
        ".turn .track": f"stroke:{palette.faint}",
        ".turn rect": f"fill:{palette.rest[0]};stroke:{palette.frame}",
        ".note rect": f"fill:{palette.rest[0]};stroke:{palette.frame}",
    }
    for manner, colour in {"record": palette.line, "cut": palette.end[1], "cancel": palette.cancel[1]}.items():
        rules[f".{manner} .track"] = f"stroke:{colour}"
        rules[f".{manner} .head"] = rules[f".{manner} text"] = f"fill:{colour}"
    for lane, kind in _LANES.items():
        fill, stroke = getattr(palette, kind)
        rules[f".lane.{lane} rect"] = rules[f".bar.{lane}"] = f"fill:{fill};stroke:{stroke}"
    return "".join([f".treadle-sequence {name}{{{rule}}}\n" for name, rule in rules.items()])
