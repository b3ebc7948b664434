"""Every small change of a source file, over its syntax tree.

Changed are decisions: comparisons, connectives, branches, constants, sums, the order of arguments, and whether a statement is
there at all. Left alone is what decides nothing: annotations, decorators, docstrings, and text that people read (what an
error says, and any string with a blank in it).
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from attrs import frozen

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@frozen
class Mutant:
    """One change of one file.

    Attributes:
        file: the file, below the folder that was searched.
        function: the qualified name of the innermost function; empty for code that runs at import.
        operator: the kind of change.
        change: what was there, and what is there instead.
        source: the line of source, without margins.
        nth: which one, where all of these are alike.
        line: the number of the line; no part of its name.
        outermost: qualified name and first line of the outermost function, by which it is found in a process.
    """

    file: str
    function: str
    operator: str
    change: str
    source: str
    nth: int
    line: int
    outermost: tuple[str, int] | None

    @property
    def key(self) -> tuple[str, str, str, str, str, int]:
        """Its name, which stays as long as the function and the line read as they do."""
        return self.file, self.function, self.operator, self.change, self.source, self.nth

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function} [{self.operator}] {self.change}"


# --- the operators ----------------------------------------------------------------------------------------------------

Change = Iterator[ast.AST]
PAIRS: tuple[tuple[type[ast.cmpop], type[ast.cmpop]], ...] = (
    (ast.Eq, ast.NotEq),
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
)
OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = dict([*PAIRS, *[(after, before) for before, after in PAIRS]])
NOTHING = ast.Pass()


def compare(node: ast.AST, _parent: ast.AST, _field: str) -> Change:
    """Equal or not, below or not above, the same or not, in it or not."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPPOSITE:
        yield ast.Compare(node.left, [OPPOSITE[type(node.ops[0])]()], node.comparators)


def connective(node: ast.AST, _parent: ast.AST, _field: str) -> Change:
    """``and`` for ``or``, and each operand left out."""
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for at in range(len(node.values)):
            rest = [*node.values[:at], *node.values[at + 1 :]]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def negation(node: ast.AST, _parent: ast.AST, _field: str) -> Change:
    """``not`` left out."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand


def branch(node: ast.AST, parent: ast.AST, field: str) -> Change:
    """A branch never taken, and always."""
    if field != "test" or not isinstance(parent, (ast.If, ast.IfExp, ast.While)):
        return
    if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id == "TYPE_CHECKING"):
        return
    yield ast.Constant(value=False)
    if not isinstance(parent, ast.While):
        yield ast.Constant(value=True)


def constant(node: ast.AST, parent: ast.AST, _field: str) -> Change:
    """Another truth, a number one above and one below, another word."""
    if not isinstance(node, ast.Constant) or isinstance(parent, (ast.Expr, ast.FormattedValue, ast.JoinedStr)):
        return
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(value=not value)
    elif isinstance(value, (int, float)):
        yield ast.Constant(value=value + 1)
        yield ast.Constant(value=value - 1)
    elif isinstance(value, str) and " " not in value and not _cast(parent):
        yield ast.Constant(value=value + "XX")


def _cast(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast"


def arithmetic(node: ast.AST, _parent: ast.AST, _field: str) -> Change:
    """A sum for a difference."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
    if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield ast.AugAssign(node.target, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.value)


def statement(node: ast.AST, _parent: ast.AST, _field: str) -> Change:
    """A statement left out: what is called, raised, deleted, stored in an object, or leaves a loop."""
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.Delete() | ast.Break() | ast.Continue():
            yield NOTHING
        case ast.AugAssign() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Return(value=None):
            yield NOTHING
        case ast.Assign(targets=[ast.Tuple(elts=parts)]) if all(isinstance(part, ast.Attribute) for part in parts):
            yield NOTHING
        case ast.Assign(targets=targets) if len(targets) > 1:
            for at in range(len(targets)):
                yield ast.Assign([*targets[:at], *targets[at + 1 :]], node.value)
        case _:
            pass


def answer(node: ast.AST, _parent: ast.AST, _field: str) -> Change:
    """Nothing for what is returned; what is false already is left alone."""
    if not isinstance(node, ast.Return) or node.value is None:
        return
    if not isinstance(node.value, ast.Constant) or node.value.value:
        yield ast.Return(ast.Constant(value=None))


def arguments(node: ast.AST, _parent: ast.AST, _field: str) -> Change:
    """The first two arguments for each other, the least for the greatest, any for all."""
    if not isinstance(node, ast.Call):
        return
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    pair = node.args[:2]
    symmetric = name in ("isinstance", "min", "max", "range", "cast") or any(isinstance(a, ast.Starred) for a in pair)
    if len(pair) == 2 and not symmetric and ast.dump(pair[0]) != ast.dump(pair[1]):
        yield ast.Call(node.func, [pair[1], pair[0], *node.args[2:]], node.keywords)
    other = {"min": "max", "max": "min", "any": "all", "all": "any"}.get(name)
    if other is not None:
        yield ast.Call(ast.Name(other, ast.Load()), node.args, node.keywords)


OPERATORS: tuple[Callable[[ast.AST, ast.AST, str], Change], ...] = (
    compare,
    connective,
    negation,
    branch,
    constant,
    arithmetic,
    statement,
    answer,
    arguments,
)
EVERYWHERE = (compare, connective, constant, arithmetic)
"""What is changed also outside functions."""


# --- the places -------------------------------------------------------------------------------------------------------


@frozen
class Site:
    """A place in a tree, and what could stand there."""

    parent: ast.AST
    field: str
    at: int | None
    node: Any
    operator: str
    instead: ast.AST
    stack: tuple[ast.AST, ...]


def sites(tree: ast.AST) -> Iterator[Site]:
    """Every change of a tree, always in the same order."""
    yield from _visit(tree, ())


def _visit(node: ast.AST, stack: tuple[ast.AST, ...]) -> Iterator[Site]:
    for field, value in ast.iter_fields(node):
        if _idle(node, field):
            continue
        # what an argument is by default is computed when its function is made
        around = stack[:-1] if isinstance(node, ast.arguments) else stack
        inside = any(isinstance(outer, FUNCTIONS) for outer in around)
        for at, child in enumerate(value if isinstance(value, list) else [value]):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # of a tree
            if not isinstance(child, ast.AST):
                continue
            for operator in OPERATORS if inside else EVERYWHERE:
                for instead in operator(child, node, field):
                    place = at if isinstance(value, list) else None
                    yield Site(node, field, place, child, operator.__name__, instead, around)
            inner = (*around, child) if isinstance(child, (*FUNCTIONS, ast.ClassDef)) else around
            yield from _visit(child, inner)


def _idle(parent: ast.AST, field: str) -> bool:
    """Whether what stands there decides nothing."""
    if field in ("annotation", "returns", "decorator_list", "type_params", "bases"):
        return True
    if isinstance(parent, (ast.Raise, ast.Assert)):
        return True
    return isinstance(parent, ast.JoinedStr)


@cache
def mutants(folder: Path, file: str) -> tuple[Mutant, ...]:
    """Every change of a file below a folder."""
    text = (folder / file).read_text(encoding="utf-8")
    lines: list[str] = text.splitlines()
    seen = Counter[tuple[Any, ...]]()
    found: list[Mutant] = []
    for site in sites(ast.parse(text)):
        inside = any(isinstance(outer, FUNCTIONS) for outer in site.stack)
        name = ".".join([_name(outer) for outer in site.stack]) if inside else ""
        change = f"{_shown(site.node)} -> {_shown(site.instead)}"
        line: int = site.node.lineno
        key = (name, site.operator, change, lines[line - 1].strip())
        outermost = _outermost(site.stack) if inside else None
        found.append(Mutant(file, *key, seen[key], line, outermost))
        seen[key] += 1
    return tuple(found)


def mutated(folder: Path, mutant: Mutant) -> CodeType:
    """The code of the file with that change.

    Raises:
        KeyError: there is no such change.
    """
    path = folder / mutant.file
    at = {found.key: number for number, found in enumerate(mutants(folder, mutant.file))}[mutant.key]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    site = next(site for number, site in enumerate(sites(tree)) if number == at)
    instead = _beside(copy.deepcopy(site.instead), site.node)
    for part in ast.walk(instead):
        if "lineno" in part._attributes and not hasattr(part, "lineno"):
            ast.copy_location(part, site.node)
    if site.at is None:
        setattr(site.parent, site.field, instead)
    else:
        getattr(site.parent, site.field)[site.at] = instead
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


def _beside(instead: ast.AST, node: Any) -> ast.AST:
    """The change, with what was there as dead code: so the function keeps its closure and stays a generator."""
    if isinstance(instead, ast.stmt):
        return ast.If(ast.Constant(value=True), [instead], [node])
    assert isinstance(instead, ast.expr)
    return ast.IfExp(ast.Constant(value=True), instead, node)


def _name(node: ast.AST) -> str:
    return str(getattr(node, "name", "<lambda>"))


def _shown(node: ast.AST) -> str:
    text = " ; ".join(ast.unparse(ast.fix_missing_locations(node)).splitlines())
    return text if len(text) <= 120 else text[:119] + "…"


def _outermost(stack: tuple[ast.AST, ...]) -> tuple[str, int]:
    """Qualified name and first line, that of the first decorator, as the code of the function has them."""
    names: list[str] = []
    for node in stack:
        names.append(_name(node))
        if isinstance(node, FUNCTIONS):
            marks = getattr(node, "decorator_list", [])
            return ".".join(names), (marks[0] if marks else node).lineno
    raise ValueError("no function")
