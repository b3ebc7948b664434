"""The look of a drawing of the lifecycle."""

from __future__ import annotations

from ..drawing.palette import MONO, Palette, Theme, either, themed

_SHAPES = f"""\
.treadle{{font-family:{MONO}}}
.treadle text{{font-size:13px}}
.treadle .state text{{font-size:14px;font-weight:600;text-anchor:middle}}
.treadle .state .more,.treadle .suffix,.treadle .caption{{font-size:11px;font-weight:400}}
.treadle .state rect{{stroke-width:1.5}}
.treadle .arrow .track{{fill:none;stroke-width:1.4}}
.treadle .arrow .grip{{fill:none;stroke:transparent;stroke-width:12}}
.treadle .arrow.main .track{{stroke-width:2.4}}
.treadle .arrow.walked .track{{stroke-width:2.6}}
.treadle .arrow.missed .track{{stroke-dasharray:5 4}}
.treadle .main text,.treadle .label.walked text,.treadle .label.missed text{{font-weight:600}}
.treadle .label.walked .suffix{{font-weight:400}}
.treadle .state.now rect{{stroke-width:4}}
.treadle .arrow.now .track{{stroke-width:4}}
"""


def _colours(palette: Palette) -> str:
    rules = [
        f".treadle .paper{{fill:{palette.paper};stroke:{palette.frame}}}",
        f".treadle .halo{{fill:{palette.paper}}}",
        f".treadle text{{fill:{palette.ink}}}",
        f".treadle .caption{{fill:{palette.line}}}",
    ]
    for kind in ("rest", "run", "maintain", "cancel", "end", "foreign"):
        fill, stroke = getattr(palette, kind)
        rules.append(f".treadle .state.{kind} rect{{fill:{fill};stroke:{stroke}}}")
    rules.append(f".treadle .state.faded rect{{fill:{palette.paper};stroke:{palette.faint}}}")
    rules.append(f".treadle .state.faded text{{fill:{palette.line}}}")
    strokes = {
        "plain": palette.line,
        "main": palette.main,
        "cancel": palette.cancel_line,
        "end": palette.end_line,
        "walked": palette.walked,
        "faded": palette.faint,
        "missed": palette.missed,
    }
    for kind, colour in strokes.items():
        rules.append(f".treadle .arrow.{kind} .track{{stroke:{colour}}}")
        rules.append(f".treadle .arrow.{kind} .head{{fill:{colour}}}")
    texts = {
        "cancel": palette.cancel[1],
        "end": palette.end[1],
        "walked": palette.walked,
        "faded": palette.line,
        "missed": palette.missed,
    }
    rules += [f".treadle .label.{kind} text{{fill:{colour}}}" for kind, colour in texts.items()]
    for kind in ("rest", "run", "maintain", "cancel", "end", "foreign"):
        fill, stroke = getattr(palette, kind)
        rules.append(f".treadle .state.{kind}.now rect{{fill:{stroke};stroke:{stroke}}}")
        rules.append(f".treadle .state.{kind}.now text{{fill:{palette.paper}}}")
    return "\n".join(rules) + "\n"


def stylesheet(theme: Theme = "auto") -> str:
    """The style of a drawing of the lifecycle; ``auto`` follows the reader's ``prefers-color-scheme``.

    Raises:
        MisuseError: there is no such theme.
    """
    return themed(_SHAPES, _colours, theme)


def page_stylesheet() -> str:
    """The style of a drawing of the lifecycle on a page that has a ``color-scheme`` of its own."""
    return _SHAPES + _colours(either())
