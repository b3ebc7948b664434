"""Puts a change into the living functions of this process: their code is exchanged, whoever holds them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import trio

from .operators import Mutant, mutated

Living = dict[tuple[str, str, int], list[FunctionType]]
"""The functions of a process by file, qualified name and first line."""


def living(folder: Path) -> Living:
    """Every function whose source lies below a folder."""
    found: Living = {}
    gc.unfreeze()  # what is frozen is not listed
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename.startswith(str(folder)):
            code = one.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(one)
    gc.freeze()
    return found


def swap(folder: Path, mutant: Mutant, functions: Living) -> int:
    """Change the functions that hold the mutant; returns how many there were."""
    if mutant.outermost is None:
        return 0
    path = str(folder / mutant.file)
    code = next(each for each in _codes(mutated(folder, mutant)) if _place(each) == mutant.outermost)
    changed = functions.get((path, *mutant.outermost), [])
    for function in changed:
        protected = "enable_ki_protection" in _decorators(path, function)
        function.__code__ = code
        if protected:
            trio.lowlevel.enable_ki_protection(function)  # it is the code that is marked
    return len(changed)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _decorators(path: str, function: FunctionType) -> str:
    """The lines above ``def`` that belong to a function."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()[function.__code__.co_firstlineno - 1 :]
    above: list[str] = []
    for line in lines:
        if not line.lstrip().startswith("@"):
            break
        above.append(line)
    return "\n".join(above)
