"""Tools for the files of one folder: read, list, search, edit, write. They run in worker threads, and never leave it."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatch

from treadle import Tool, ToolError, tool

from .folder import Folder, NoSuchFile

LARGEST_FILE = 8 * 1024 * 1024
"""Bytes of a file that is read, searched or edited."""
MOST_LINES, MOST_ENTRIES, MOST_FOUND = 2_000, 2_000, 200
"""How many lines are read, entries listed and places found at most, in one call."""
MOST_VISITED = 50_000
"""How many entries one search or list looks at."""
MOST_SEARCHED = 256 * 1024 * 1024
"""How many characters one search looks at."""
LONGEST_LINE = 2_000
"""How many characters of a line are shown."""
MOST_DIFF = 8_000
"""How many characters of a change are shown to whoever approves it."""


class NotText(ToolError):
    """A file is no text, or too large to be taken as one."""

    code = "TOOL_NOT_TEXT"


class EditMisfit(ToolError):
    """The text to replace is not there, or not only once; nothing was changed."""

    code = "TOOL_EDIT_MISFIT"


def read_text(folder: Folder, path: str) -> str:
    """The text of a file.

    Raises:
        NotText: it is none, or too large.
        NoSuchFile: see ``Folder.opened``.
        OutsideFolder: see ``Folder.opened``.
    """
    with folder.opened(path) as (descriptor, spot):
        size = os.fstat(descriptor).st_size
        if size > LARGEST_FILE:
            raise NotText(f"{spot.shown} has {size:,} bytes; more than {LARGEST_FILE:,} are not read")
        with os.fdopen(os.dup(descriptor), "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotText(f"{spot.shown} is no UTF-8 text, from byte {error.start} on") from error
    if "\0" in text:
        raise NotText(f"{spot.shown} is no text: it holds a NUL")
    return text


def edited(folder: Folder, path: str, old: str, new: str, every: bool) -> tuple[str, str]:
    """The text of a file, as it is and as it would be.

    Raises:
        EditMisfit: ``old`` is not there, or more than once while only one is meant.
    """
    before = read_text(folder, path)
    count = before.count(old) if old else 0
    if count == 0:
        raise EditMisfit(f"{path}: the text to replace is not there; read the file and give it exactly")
    if count > 1 and not every:
        raise EditMisfit(
            f"{path}: the text to replace is there {count} times; give more of what is around it, or `every`"
        )
    return before, before.replace(old, new)


def difference(path: str, before: str, after: str) -> str:
    """What changes, line by line, up to a bound."""
    lines = difflib.unified_diff(_split(before), _split(after), f"{path} (now)", f"{path} (then)", lineterm="", n=2)
    shown = "\n".join(lines)
    return (
        shown
        if len(shown) <= MOST_DIFF
        else f"{shown[:MOST_DIFF]}\n[cut: {MOST_DIFF} of {len(shown)} characters shown]"
    )


def file_tools(folder: Folder) -> tuple[Tool, ...]:
    """The tools."""

    def read_file(path: str, first_line: int = 1, lines: int = MOST_LINES) -> str:
        """Read a text file of the folder, or some of its lines, with their numbers."""
        found = _split(read_text(folder, path))
        start = max(1, first_line)
        some = found[start - 1 : start - 1 + max(1, min(lines, MOST_LINES))]
        shown = [f"{start + number:>6}  {line[:LONGEST_LINE]}" for number, line in enumerate(some)]
        last = start - 1 + len(some)
        more = [f"[lines {start} to {last} of {len(found)}]"] if len(some) < len(found) else []
        return "\n".join([*shown, *more]) or "(empty)"

    def list_files(path: str = ".", depth: int = 1) -> str:
        """List what is in the folder, or in one below it, down to a depth; folders end with a slash."""
        with folder.listed(path) as (descriptor, _):
            found = [shown for shown, _ in _entries(descriptor, max(1, min(depth, 20)))]
        more = [f"[the first {MOST_ENTRIES} of {len(found)} or more]"] if len(found) > MOST_ENTRIES else []
        return "\n".join([*found[:MOST_ENTRIES], *more]) or "(empty)"

    def search_files(text: str, path: str = ".", names: str = "*", ignore_case: bool = False) -> str:
        """Search the text files below a folder for a plain text, line by line; `names` is a pattern such as *.py."""
        wanted = text.casefold() if ignore_case else text
        if not wanted:
            raise ToolError("give some text to search for")
        base = "" if path in ("", ".") else f"{path.rstrip('/')}/"
        with folder.listed(path) as (descriptor, _):
            files = [shown for shown, kind in _entries(descriptor, 100) if kind == "file" and _matches(shown, names)]
        found: list[str] = []
        left = MOST_SEARCHED
        for name in files:
            for number, line in _lines(folder, base + name):
                left -= len(line)
                if left < 0:
                    return "\n".join([*found, f"[stopped after {MOST_SEARCHED:,} characters]"])
                if wanted in (line.casefold() if ignore_case else line):
                    found.append(f"{base}{name}:{number}: {line.strip()[:300]}")
                    if len(found) >= MOST_FOUND:
                        return "\n".join([*found, f"[stopped at {MOST_FOUND}]"])
        return "\n".join(found) or "(found nowhere)"

    def edit_file(path: str, old: str, new: str, every: bool = False) -> str:
        """Replace a text in a file by another; it must be there once, unless `every` one is meant."""
        before, after = edited(folder, path, old, new, every)
        folder.written(path, after.encode())
        return difference(path, before, after)

    def write_file(path: str, content: str) -> str:
        """Write a text file, a new one or over one that is there; its folder must be there."""
        shown = folder.written(path, content.encode())
        return f"wrote {shown}: {len(content.encode()):,} bytes"

    reading = [
        tool(function, parallel=True, abandon_on_cancel=True) for function in (read_file, list_files, search_files)
    ]
    return (*reading, tool(edit_file), tool(write_file))


def _matches(shown: str, names: str) -> bool:
    return fnmatch(shown.rpartition("/")[2], names) or fnmatch(shown, names)


def _entries(descriptor: int, depth: int) -> Iterator[tuple[str, str]]:
    """What is below an open folder, with what it is; links are named and not followed, unprintable names are written out."""
    visited = 0
    todo: list[tuple[str, int, int]] = [("", os.dup(descriptor), 1)]
    try:
        while todo:
            base, place, level = todo.pop()
            try:
                with os.scandir(place) as found:
                    entries = sorted(found, key=lambda entry: entry.name)
                deeper: list[tuple[str, int, int]] = []
                for entry in entries:
                    visited += 1
                    if visited > MOST_VISITED:
                        return
                    name = entry.name if entry.name.isprintable() else repr(entry.name)
                    shown = f"{base}{name}"
                    mode = entry.stat(follow_symlinks=False).st_mode
                    if stat.S_ISDIR(mode):
                        yield f"{shown}/", "folder"
                        if level < depth and len(todo) + len(deeper) < 200:
                            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                            deeper.append((f"{shown}/", os.open(entry.name, flags, dir_fd=place), level + 1))
                    elif stat.S_ISLNK(mode):
                        yield f"{shown} (a link)", "link"
                    else:
                        kind = "file" if stat.S_ISREG(mode) and entry.name.isprintable() else "other"
                        yield shown, kind
                todo += reversed(deeper)
            except OSError:
                pass  # not ours to read, or gone meanwhile
            finally:
                os.close(place)
    finally:
        for _, place, _ in todo:
            os.close(place)


def _lines(folder: Folder, path: str) -> Iterator[tuple[int, str]]:
    try:
        text = read_text(folder, path)
    except (NotText, NoSuchFile, OSError):
        return
    yield from enumerate(_split(text), 1)


def _split(text: str) -> list[str]:
    """Lines as editors count them."""
    return text.removesuffix("\n").split("\n") if text else []
