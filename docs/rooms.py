"""The house, drawn from the imports: ``docs/pictures/rooms.svg``; the page to it is ``docs/architecture.md``.

    python docs/rooms.py --write   # draw it
    python docs/rooms.py --check   # exit status 1 when the picture is older than the imports

A room stands above every room that it imports, wherever the import is written: at the head of a module, in a function,
for typing only. So a circle cannot be drawn, whatever it is for. An arrow is left out where a longer way says the same.
What the import contract excepts is drawn dashed.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from attrs import frozen

from treadle_diagrams.drawing.markup import markup
from treadle_diagrams.drawing.palette import MONO, Palette, themed
from treadle_specs.reports.generated import Made, serve

CORE = "treadle"
ABOVE = ("adapters", "diagrams", "specs")
"""The folders of the other packages."""
LOOSE = "root"
"""Where the modules of the core are that stand in no room; those that make up its door are named by the contract."""
Graph = dict[str, set[str]]
Edges = Mapping[str, Iterable[str]]

WIDTH, MARGIN, GUTTER, GAP_X, GAP_Y, PAD, LINE = 1000, 16, 34, 16, 30, 12, 16
BLUE, GREEN = {"kernel"}, {"loop"}
"""What decides, and what does."""


# --- reading ----------------------------------------------------------------------------------------------------------


@frozen
class House:
    """A package and what its modules import.

    Attributes:
        modules: by dotted name, where each lies.
        imports: for each module, the modules of the same top-level packages that it names anywhere.
        purposes: the first sentence of each package's docstring.
    """

    modules: dict[str, Path]
    imports: Graph
    purposes: dict[str, str]


def read(folders: Iterable[Path]) -> House:
    """Read every package in these folders."""
    modules: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*/**/*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules.items()}
    imports = {name: set(_named(name, trees[name], modules)) for name in modules}
    purposes = {name: _purpose(tree) for name, tree in trees.items() if modules[name].name == "__init__.py"}
    return House(modules, imports, purposes)


def _named(module: str, tree: ast.Module, known: Mapping[str, Path]) -> Iterator[str]:
    """The known modules that a module imports, wherever in it that is written."""
    parts = module.split(".")
    package = parts if known[module].name == "__init__.py" else parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                if whole in known or base in known:
                    yield whole if whole in known else base


def _purpose(tree: ast.Module) -> str:
    said = " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].replace("``", "").split())
    said = re.sub(r" \((§|[A-Z]\d)[^)]*\)", "", said).partition(". ")[0].rstrip(".").removeprefix(f"{CORE}: ")
    return said[:1].upper() + said[1:]


@frozen
class Rules:
    """What the import contract of the rooms says besides their order."""

    door: frozenset[str]
    excepted: tuple[tuple[str, str], ...]

    def excepts(self, above: str, below: str) -> bool:
        """Whether one module may import another in spite of the order."""
        return any(fnmatchcase(above, one) and fnmatchcase(below, other) for one, other in self.excepted)


def rules(root: Path) -> Rules:
    """Read that contract."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(each for each in project["tool"]["importlinter"]["contracts"] if each["id"] == "rooms")
    pairs = [tuple(pair.split(" -> ")) for pair in contract.get("ignore_imports", ())]
    return Rules(frozenset(contract.get("exhaustive_ignores", ())), tuple([(one, other) for one, other in pairs]))


def room_of(module: str, house: House, door: frozenset[str]) -> str:
    """The room of the core that a module stands in; ``root`` for loose ones, ``treadle`` for its door."""
    parts = module.split(".")
    if len(parts) == 1 or parts[1] in door:
        return CORE
    return parts[1] if house.modules[".".join(parts[:2])].name == "__init__.py" else LOOSE


def rooms(house: House, given: Rules) -> tuple[dict[str, list[str]], Graph, Graph]:
    """The rooms of the core with their modules, what each imports, and what it imports by exception."""
    held: dict[str, list[str]] = {}
    arrows: Graph = {}
    excepted: Graph = {}
    for module, path in house.modules.items():
        if module.split(".")[0] != CORE:
            continue
        room = room_of(module, house, given.door)
        arrows.setdefault(room, set())
        mine = held.setdefault(room, [])
        parts = module.split(".")
        if len(parts) == (
            2 if room in (CORE, LOOSE) else 3
        ):  # what stands in a room, not what stands in a folder of it
            mine.append(_name(module, path))
        for target in house.imports[module]:
            other = room_of(target, house, given.door)
            if other != room:
                kind = excepted if given.excepts(module, target) else arrows
                kind.setdefault(room, set()).add(other)
    return held, arrows, excepted


def packages(house: House) -> tuple[dict[str, list[str]], Graph]:
    """The other packages with what lies in each, and which packages each imports."""
    held: dict[str, list[str]] = {}
    arrows: Graph = {}
    for module, path in house.modules.items():
        parts = module.split(".")
        mine = held.setdefault(parts[0], [])
        if len(parts) == 2 and not parts[1].startswith("_"):
            mine.append(_name(module, path))
        arrows.setdefault(parts[0], set()).update({name.split(".")[0] for name in house.imports[module]} - {parts[0]})
    return held, arrows


def _name(module: str, path: Path) -> str:
    """What a module or a folder of modules is called inside its room."""
    return module.rpartition(".")[2] + ("/" if path.name == "__init__.py" else "")


# --- the order --------------------------------------------------------------------------------------------------------


def floors(arrows: Edges) -> dict[str, int]:
    """How high each stands: above everything it imports.

    Raises:
        ValueError: some import each other in a circle.
    """
    high: dict[str, int] = {}

    def floor(name: str, above: tuple[str, ...]) -> int:
        if name in above:
            raise ValueError(f"a circle of imports: {' -> '.join([*above, name])}")
        if name not in high:
            high[name] = 1 + max([floor(other, (*above, name)) for other in sorted(arrows[name])], default=-1)
        return high[name]

    for name in arrows:
        floor(name, ())
    return high


def shown(arrows: Edges) -> Graph:
    """The arrows without those that a longer way says as well."""

    def reach(name: str) -> set[str]:
        return {far for other in arrows[name] for far in {other} | reach(other)}

    return {
        name: {other for other in others if not any(other in reach(between) for between in others if between != other)}
        for name, others in arrows.items()
    }


# --- the picture ------------------------------------------------------------------------------------------------------


@frozen
class Box:
    """A room on paper."""

    name: str
    x: float
    y: float
    width: float
    height: float
    purpose: tuple[str, ...]
    modules: tuple[str, ...]


def _text(purpose: str, modules: Iterable[str], width: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    room = width - 2 * PAD
    return tuple(_wrapped(purpose.split(), " ", int(room / 6.7))), tuple(_wrapped(modules, "  ", int(room / 6.7)))


def _wrapped(words: Iterable[str], between: str, limit: int) -> list[str]:
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(between) + len(word) <= limit:
            lines[-1] += between + word
        else:
            lines.append(word)
    return lines


def place(
    held: Mapping[str, list[str]], said: Mapping[str, str], arrows: Edges, area: tuple[float, float, float]
) -> list[Box]:
    """Give every room its place; ``area`` is where they begin, at the left and above, and their width.

    A room reaches up to the lowest that imports it: a column at the right, where that is higher than the next floor.
    """
    left, top, width = area
    high = floors(arrows)
    links = shown(arrows)
    reach = {
        name: min([high[one] for one, others in links.items() if name in others], default=high[name] + 1)
        for name in high
    }
    columns = [name for name in sorted(high, key=lambda one: (high[one], one)) if reach[name] > high[name] + 1]
    side = (width - GAP_X) / 3
    boxes: list[Box] = []
    tops: dict[int, float] = {}
    bottoms: dict[int, float] = {}
    y = top
    for floor in range(max(high.values()), -1, -1):
        beside = [name for name in columns if high[name] <= floor < reach[name]]
        row = sorted(name for name in high if high[name] == floor and name not in columns)
        free = width - len(beside) * (side + GAP_X)
        each = (free - (len(row) - 1) * GAP_X) / max(len(row), 1)
        texts = {name: _text(said.get(name, ""), held[name], each) for name in row}
        height = 2 * PAD + LINE + max([LINE * (len(one) + len(other)) for one, other in texts.values()], default=0)
        tops[floor], bottoms[floor] = y, y + height
        boxes += [Box(name, left + n * (each + GAP_X), y, each, height, *texts[name]) for n, name in enumerate(row)]
        y += height + GAP_Y
    for n, name in enumerate(columns):
        x = left + width - side - n * (side + GAP_X)
        above, below = tops[reach[name] - 1], bottoms[high[name]]
        boxes.append(Box(name, x, above, side, below - above, *_text(said.get(name, ""), held[name], side)))
    return boxes


def _box(box: Box) -> str:
    kind = "run" if box.name in BLUE else "maintain" if box.name in GREEN else "rest"
    x, y = box.x + PAD, box.y + PAD + 11
    lines = [f'<text class="name" x="{x:g}" y="{y:g}">{markup(box.name)}</text>']
    for kin, said in [*(("said", line) for line in box.purpose), *(("held", line) for line in box.modules)]:
        y += LINE
        lines.append(f'<text class="{kin}" x="{x:g}" y="{y:g}" xml:space="preserve">{markup(said)}</text>')
    return (
        f'<g class="{kind}"><rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="7"/>'
        f"{''.join(lines)}</g>"
    )


def _arrow(above: Box, below: Box) -> str:
    low, high = max(above.x, below.x), min(above.x + above.width, below.x + below.width)
    y, to_y = above.y + above.height, below.y
    x = to_x = (low + high) / 2
    if low > high:
        x, to_x = above.x + above.width / 2, below.x + below.width / 2
    middle = (y + to_y) / 2
    return f'<path class="arrow" d="M{x:g} {y:g}C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y - 1:g}"/>'


def _exception(lower: Box, upper: Box) -> str:
    """From a room to one above it: beside the arrow where they are neighbours, else around the left edge."""
    if lower.y == upper.y + upper.height + GAP_Y:
        x = (max(lower.x, upper.x) + min(lower.x + lower.width, upper.x + upper.width)) / 2 + 40
        return f'<path class="arrow excepted" d="M{x:g} {lower.y:g}V{upper.y + upper.height + 1:g}"/>'
    y, to_y, out = lower.y + lower.height / 2, upper.y + upper.height / 2, upper.x - GUTTER / 2
    return (
        f'<path class="arrow excepted" d="M{lower.x:g} {y:g}H{out + 6:g}Q{out:g} {y:g} {out:g} {y - 6:g}'
        f'V{to_y + 6:g}Q{out:g} {to_y:g} {out + 6:g} {to_y:g}H{upper.x - 1:g}"/>'
    )


def _style(palette: Palette) -> str:
    kinds = {"rest": palette.rest, "run": palette.run, "maintain": palette.maintain}
    return "".join(
        [
            f".paper{{fill:{palette.paper};stroke:{palette.frame}}}",
            f".frame{{stroke:{palette.line}}}",
            f"text{{fill:{palette.ink}}}.held,.caption{{fill:{palette.line}}}",
            f".arrow{{stroke:{palette.line}}}#tip path{{fill:{palette.line}}}",
            *[f".{kind} rect{{fill:{fill};stroke:{stroke}}}" for kind, (fill, stroke) in kinds.items()],
            "\n",
        ]
    )


_SHAPES = (
    "text{font:12px system-ui,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif}"
    f".name{{font-size:14px;font-weight:600}}.held{{font-family:{MONO};font-size:11px}}.caption{{font-size:11px}}"
    ".arrow{fill:none;stroke-width:1.4;marker-end:url(#tip)}.excepted{stroke-dasharray:4 3}"
    ".frame{fill:none;stroke-width:1.2;stroke-dasharray:1 3}\n"
)
_CAPTION = "An arrow: imports, for typing as well. Dashed: names Agent, for typing only. Blue decides, and is pure; green does."
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z"/></marker></defs>'
)


def draw(root: Path) -> str:
    """The picture of the house whose folder that is."""
    house, given = read([root / "machine", *(root / folder for folder in ABOVE)]), rules(root)
    held, arrows, excepted = rooms(house, given)
    others, links = packages(house)
    said = {
        name.partition(".")[2] or CORE: purpose
        for name, purpose in house.purposes.items()
        if name.startswith(f"{CORE}.")
    }
    said |= {CORE: house.purposes[CORE], LOOSE: "Below all rooms: what knows nothing of agents"}
    upper = [
        box for box in place(others, house.purposes, links, (MARGIN, MARGIN, WIDTH - 2 * MARGIN)) if box.name != CORE
    ]
    top = max(box.y + box.height for box in upper) + GAP_Y
    inner = place(held, said, arrows, (MARGIN + GUTTER, top + 34, WIDTH - 2 * MARGIN - GUTTER - 14))
    bottom = max(box.y + box.height for box in inner) + 34
    frame = Box(CORE, MARGIN, top, WIDTH - 2 * MARGIN, bottom - top, (), ())
    by = {box.name: box for box in inner}
    outer = {box.name: box for box in upper} | {CORE: frame}
    height = bottom + MARGIN
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" '
        'role="img" aria-label="The packages and the rooms of the core; each stands above what it imports">'
    )
    parts = [
        opening,
        f"<style>\n{themed(_SHAPES, _style, 'auto')}</style>{_TIP}",
        f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8"/>',
        f'<rect class="frame" x="{frame.x}" y="{frame.y:g}" width="{frame.width}" height="{frame.height:g}" rx="9"/>',
        f'<text class="name" x="{MARGIN + PAD}" y="{top + 22:g}">machine/treadle: the core</text>',
        f'<text class="caption" x="{MARGIN + GUTTER}" y="{bottom - 12:g}">{_CAPTION}</text>',
    ]
    for edges, places in ((shown(links), outer), (shown(arrows), by)):
        parts += [_arrow(places[one], places[other]) for one in sorted(edges) for other in sorted(edges[one])]
    parts += [_exception(by[one], by[other]) for one in sorted(excepted) for other in sorted(excepted[one])]
    parts += [_box(box) for box in (*upper, *inner)]
    return "\n".join([*parts, "</svg>", ""])


def main(arguments: list[str] | None = None) -> int:
    """Write the picture, or check it; returns the exit status."""
    return serve("docs.rooms", "docs/pictures/rooms.svg", lambda root: Made(draw(root)), arguments)


if __name__ == "__main__":
    sys.exit(main())
