"""The look of the SVG drawing: two palettes, one set of rules, the reader's preference decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from attrs import fields, frozen

from treadle.errors import MisuseError

Theme = Literal["auto", "light", "dark"]

MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"


@frozen
class Palette:
    """Colours by their use; a box has a fill and a stroke."""

    paper: str
    frame: str
    ink: str
    line: str
    main: str
    faint: str
    walked: str
    missed: str
    rest: tuple[str, str]
    run: tuple[str, str]
    maintain: tuple[str, str]
    cancel: tuple[str, str]
    end: tuple[str, str]
    foreign: tuple[str, str]
    cancel_line: str
    end_line: str


LIGHT = Palette(
    paper="#ffffff",
    frame="#d1d9e0",
    ink="#1f2328",
    line="#6e7781",
    main="#1f2328",
    faint="#d0d7de",
    walked="#0969da",
    missed="#cf222e",
    rest=("#f6f8fa", "#57606a"),
    run=("#ddf4ff", "#0969da"),
    maintain=("#dafbe1", "#1a7f37"),
    cancel=("#fff8c5", "#9a6700"),
    end=("#fbeff0", "#a40e26"),
    foreign=("#fbefff", "#8250df"),
    cancel_line="#bf8700",
    end_line="#d9848e",
)

DARK = Palette(
    paper="#0d1117",
    frame="#30363d",
    ink="#e6edf3",
    line="#8b949e",
    main="#e6edf3",
    faint="#30363d",
    walked="#58a6ff",
    missed="#ff7b72",
    rest=("#161b22", "#8b949e"),
    run=("#0f2440", "#58a6ff"),
    maintain=("#10271a", "#3fb950"),
    cancel=("#2b2309", "#d29922"),
    end=("#2d1519", "#f47067"),
    foreign=("#241a3a", "#bc8cff"),
    cancel_line="#9e6a03",
    end_line="#9c4a47",
)

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


def themed(shapes: str, colours: Callable[[Palette], str], theme: Theme) -> str:
    """Rules for shapes, then those for colours, in the palette or palettes of a theme.

    Raises:
        MisuseError: there is no such theme.
    """
    if theme not in get_args(Theme):
        raise MisuseError(f"a theme is 'auto', 'light' or 'dark', not {theme!r}")
    if theme != "auto":
        return shapes + colours(DARK if theme == "dark" else LIGHT)
    return shapes + colours(LIGHT) + "@media (prefers-color-scheme:dark){\n" + colours(DARK) + "}\n"


def page_stylesheet() -> str:
    """The style of a drawing of the lifecycle on a page that has a ``color-scheme`` of its own."""
    both = [_either(getattr(LIGHT, one.name), getattr(DARK, one.name)) for one in fields(Palette)]
    return _SHAPES + _colours(Palette(*both))


def _either(light: Any, dark: Any) -> Any:
    if isinstance(light, str):
        return f"light-dark({light},{dark})"
    return tuple([_either(one, other) for one, other in zip(light, dark, strict=True)])
