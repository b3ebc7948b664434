"""The blocks of a page, and what running the page comes to.

Comments right above a fence say what is done with it:

- ``<!-- file: NAME -->``: the block is written to that file, and not run.
- ``<!-- prints -->``: the block is what the one before it prints. A line ``…`` stands for any lines, and ``…`` in a line for
  any characters.
- ``<!-- before: CODE -->``: Python that is run first, together with the block; readers do not see it.
- ``<!-- within: CODE -->``: Python that the block is indented below, such as ``async with Host() as host:``.
- ``<!-- not run: REASON -->``: nothing is run. Python is compiled all the same, and commands are held to what they take.

All else is run: Python in one namespace per page, with ``await`` at the top level under trio; ``sh`` by bash. TOML, JSON and YAML
are read.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import trio
from attrs import frozen
from markdown_it import MarkdownIt
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
PYTHON, SHELL = ("python", "py"), ("sh", "bash", "shell", "console")
MARK = re.compile(r"<!--\s*(file|prints|before|within|not run)(?::(.*?))?\s*-->", re.DOTALL)
PLAIN = ("text", "", "mermaid", "html", "js", "promela", "pycon")
"""What is looked at by nobody unless a mark says so. Directives of the site are not run either."""


@frozen
class Block:
    """A fenced block.

    Attributes:
        language: the first word after the fence.
        text: what is in it.
        line: where it begins in the page, from 1.
        marks: what the comments above say.
    """

    language: str
    text: str
    line: int
    marks: dict[str, str]


class PageFault(AssertionError):
    """A block of a page does not do what the page says."""


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page in their order, those in lists included."""
    found: list[Block] = []
    marks: dict[str, str] = {}
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "html_block":
            marks |= {name: textwrap.dedent(value or "").strip("\n") for name, value in MARK.findall(token.content)}
        elif token.type == "fence":
            found.append(Block((token.info.split() or [""])[0], token.content, (token.map or [0])[0] + 1, marks))
            marks = {}
        elif token.type in ("inline", "heading_open"):
            marks = {}
    return found


def run_page(page: Path, folder: Path) -> None:
    """Run a page in a folder that is its own.

    Raises:
        PageFault: a block fails, or prints something else than the page says.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    with contextlib.chdir(folder), _importing_from(folder):
        for block in blocks_of(page.read_text(encoding="utf-8")):
            try:
                printed = _done(block, names, printed, folder)
            except Exception as error:
                place = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page.name
                raise PageFault(f"{place}:{block.line}: {type(error).__name__}: {error}") from error


def _done(block: Block, names: dict[str, Any], printed: str, folder: Path) -> str:
    """Do what is to be done with a block; returns what it prints."""
    if "not run" in block.marks:
        assert len(block.marks["not run"].split()) > 2, "the reason is missing"
        _looked_at(block)
        return ""
    if "file" in block.marks:
        place = folder / block.marks["file"].strip()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(block.text, encoding="utf-8")
    if "prints" in block.marks:
        assert _fits(block.text, printed), f"it prints\n{printed}\ninstead of\n{block.text}"
    elif block.language in PYTHON and "file" not in block.marks:
        return _python(block, names)
    elif block.language in SHELL and "file" not in block.marks:
        return _shell(block, folder)
    else:
        _looked_at(block)
    return ""


def _looked_at(block: Block) -> None:
    """See that a block is what its language says."""
    if block.language in PYTHON:
        compile(block.text, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    elif block.language in SHELL:
        for line in block.text.replace("\\\n", " ").splitlines():
            understood(line)
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        YAML(typ="safe", pure=True).load(block.text)
    else:
        assert block.language in PLAIN or block.language.startswith("{"), f"what is {block.language!r}?"


def _python(block: Block, names: dict[str, Any]) -> str:
    code = block.text
    if "within" in block.marks:
        last = block.marks["within"].splitlines()[-1]
        depth = len(last) - len(last.lstrip()) + (4 if last.endswith(":") else 0)
        code = block.marks["within"].strip() + "\n" + textwrap.indent(code, " " * depth)
    if "before" in block.marks:
        code = block.marks["before"] + "\n" + code
    compiled = compile(code, f"line {block.line}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if compiled.co_flags & inspect.CO_COROUTINE:
            trio.run(eval, compiled, names)
        else:
            exec(compiled, names)
    return out.getvalue()


def _shell(block: Block, folder: Path) -> str:
    for line in block.text.replace("\\\n", " ").splitlines():
        understood(line)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TREADLE_", "PYTEST_"))}
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env={**kept, "PATH": path, "HOME": str(folder), "COLUMNS": "100", "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert run.returncode == 0, f"exit status {run.returncode}\n{run.stdout}\n{run.stderr}"
    return run.stdout


def _fits(expected: str, printed: str) -> bool:
    """Whether a text is the one expected; spaces at the ends of lines do not count."""
    plain = "\n".join([line.rstrip() for line in printed.strip("\n").splitlines()])
    parts = [
        ".*" if line.strip() == "…" else "[^\n]*".join([re.escape(part) for part in line.rstrip().split("…")])
        for line in expected.strip("\n").splitlines()
    ]
    return re.fullmatch("\n".join(parts).replace("\n.*\n", "\n(?:.*\n)?"), plain, re.DOTALL) is not None


@cache
def _commands() -> Any:
    from treadle_cli.commands import whole

    return whole()


def understood(line: str) -> None:
    """See that a line which calls ``treadle`` is a command that there is, with options that it has.

    Raises:
        CycloptsError: it is not.
    """
    words = shlex.split(line, comments=True)
    while words and (re.fullmatch(r"[A-Z_]+=.*", words[0]) or words[0] in ("exec", "time")):
        words = words[1:]
    ends = [at for at, word in enumerate(words) if word in ("|", "&&", ">", "&", ";", "2>")]
    words = words[: ends[0]] if ends else words
    if words[:1] == ["treadle"] and words[1:] not in ([], ["--help"], ["--version"], ["rig"]) and "--help" not in words:
        given = [word for word in words[1:] if word != "-"]
        _commands().parse_args(given, exit_on_error=False, print_error=False)


@contextlib.contextmanager
def _importing_from(folder: Path) -> Any:
    """What the page writes can be imported by it, and is forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
