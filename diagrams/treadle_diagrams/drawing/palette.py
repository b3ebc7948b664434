"""The colours of all drawings: two palettes; the reader's preference decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from attrs import fields, frozen

from treadle import MisuseError

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


def either() -> Palette:
    """Both palettes in one, for a page that has a ``color-scheme`` of its own."""
    return Palette(*[_either(getattr(LIGHT, one.name), getattr(DARK, one.name)) for one in fields(Palette)])


def _either(light: Any, dark: Any) -> Any:
    if isinstance(light, str):
        return f"light-dark({light},{dark})"
    return tuple([_either(one, other) for one, other in zip(light, dark, strict=True)])
