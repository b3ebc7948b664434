"""Python functions of the abstraction, translated statement by statement into Promela.

Only the small language described in ``verbs`` is known; anything else is refused, so that what spin checks is what the
Python walk runs.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import ModuleType

from treadle.testing import Trigger

from .fields import CONSTANTS, FIELDS, SCRATCH

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_INDENT = "  "


class Untranslatable(Exception):
    """The function uses more of Python than the translation knows."""


def functions_of(*modules: ModuleType) -> list[ast.FunctionDef]:
    """The functions that modules define themselves, in the order in which they stand."""
    found: list[ast.FunctionDef] = []
    for module in modules:
        tree = ast.parse(textwrap.dedent(inspect.getsource(module)))
        found += [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return found


def translate(function: ast.FunctionDef) -> list[str]:
    """One function as lines of Promela: a macro if it is a condition, else an inline."""
    body = [statement for statement in function.body if not _is_docstring(statement)]
    parameters = [f"p_{argument.arg}" for argument in function.args.args if argument.arg != "s"]
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        head = f"is_{function.name}({', '.join(parameters)})" if parameters else f"is_{function.name}"
        return [f"#define {head} ({expression(body[0].value)})"]
    lines = [f"inline do_{function.name}({', '.join(parameters)}) {{"]
    lines += _block(body, 1)
    return [*lines, "}"]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _block(body: list[ast.stmt], depth: int) -> list[str]:
    """Statements, one after the other, the last one without a semicolon."""
    parts = [_statement(statement, depth) for statement in body]
    lines: list[str] = []
    for number, part in enumerate(parts):
        if number < len(parts) - 1:
            part[-1] += ";"
        lines += part
    return lines


def _statement(statement: ast.stmt, depth: int) -> list[str]:
    pad = _INDENT * depth
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="s"), attr=name)], value=value):
            _known(name)
            return [f"{pad}{name} = {expression(value)}"]
        case ast.If(test=test, body=body, orelse=other):
            lines = [f"{pad}if", f"{pad}:: ({expression(test)}) ->", *_block(body, depth + 1), f"{pad}:: else ->"]
            lines += _block(other, depth + 1) if other else [f"{pad}{_INDENT}skip"]
            return [*lines, f"{pad}fi"]
        case ast.Assert(test=test, msg=ast.Constant(value=rule)):
            return [f"{pad}assert({expression(test)}) /* {rule} */"]
        case ast.Expr(value=ast.Call() as call):
            return [pad + _call(call)]
        case _:
            raise Untranslatable(f"statement {ast.unparse(statement)!r}")


def _call(call: ast.Call) -> str:
    name, arguments = _called(call)
    if name == "fire":
        return f"fire_{arguments[0]}()"
    return f"do_{name}({', '.join(arguments)})"


def _called(call: ast.Call) -> tuple[str, list[str]]:
    if not isinstance(call.func, ast.Name) or call.keywords:
        raise Untranslatable(f"call {ast.unparse(call)!r}")
    given = [argument for argument in call.args if not (isinstance(argument, ast.Name) and argument.id == "s")]
    return call.func.id, [expression(argument) for argument in given]


def expression(node: ast.expr) -> str:
    """An expression in Promela."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return "(" + " && ".join(map(expression, values)) + ")"
        case ast.BoolOp(op=ast.Or(), values=values):
            return "(" + " || ".join(map(expression, values)) + ")"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"(!{expression(operand)})"
        case ast.Compare(left=left, ops=[ast.In()], comparators=[ast.Tuple(elts=values)]):
            return "(" + " || ".join(f"({expression(left)} == {expression(value)})" for value in values) + ")"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"({expression(left)} {_COMPARISONS[type(op)]} {expression(right)})"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({expression(left)} {_ARITHMETIC[type(op)]} {expression(right)})"
        case ast.IfExp(test=test, body=body, orelse=other):
            return f"({expression(test)} -> {expression(body)} : {expression(other)})"
        case _:
            return _atom(node)


def _atom(node: ast.expr) -> str:
    match node:
        case ast.Attribute(value=ast.Name(id="s"), attr=name):
            _known(name)
            return name
        case ast.Name(id=name):
            return name if name.isupper() else f"p_{name}"
        case ast.Constant(value=int(value)):
            return str(int(value))
        case ast.Call():
            name, arguments = _called(node)
            if name == "allows":
                return f"allows_{arguments[0]}"
            return f"is_{name}({', '.join(arguments)})" if arguments else f"is_{name}"
        case _:
            raise Untranslatable(f"expression {ast.unparse(node)!r}")


def _known(name: str) -> None:
    if name not in FIELDS and name not in SCRATCH:
        raise Untranslatable(f"s.{name} is no variable of the abstraction")


TRIGGERS: tuple[str, ...] = tuple([trigger.name for trigger in Trigger])
"""Triggers are no numbers in the model: each has an inline that fires it and a macro that says whether it can be."""

assert not set(TRIGGERS) & set(CONSTANTS), "a trigger and a constant share a name"
