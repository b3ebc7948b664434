"""A folder that nothing leads out of: every path is walked from its root, one name at a time, by descriptors.

Nothing on the way is looked at twice: each name is opened in the folder that was opened before, without following a link.
A link is read and walked in turn, and ``..`` leads to the folder that was walked through, never above the root. So
whoever exchanges a folder for a link meanwhile gains nothing.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import define

from treadle import ToolError

MOST_LINKS = 40
"""How many links one path may lead over."""
LONGEST = 4_096
"""How long a path may be."""


class OutsideFolder(ToolError):
    """A path leads out of the folder; nothing was done."""

    code = "TOOL_OUTSIDE_FOLDER"


class NoSuchFile(ToolError):
    """There is no such file, or it is none that can be read or written."""

    code = "TOOL_NO_SUCH_FILE"


@define
class Spot:
    """Where a path leads: an open folder, and a name in it that is no link; the name is empty for the root."""

    folder: int
    name: str
    shown: str


class Folder:
    """A folder of files.

    Args:
        root: where it is.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()

    @contextmanager
    def walked(self, path: str) -> Generator[Spot]:
        """Walk a path up to its last name, which need not be there.

        Raises:
            OutsideFolder: it leads out of the folder, or could.
            NoSuchFile: a folder on the way is not there.
        """
        todo = self._names(path)
        stack = [os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        walked: list[str] = []
        links = 0
        try:
            while todo:
                name = todo.pop(0)
                if name == "..":
                    if not walked:
                        raise OutsideFolder(f"{path!r} leads out of the folder {self.root}")
                    os.close(stack.pop())
                    walked.pop()
                    continue
                target = _link(name, stack[-1])
                if target is not None:
                    links += 1
                    if links > MOST_LINKS:
                        raise OutsideFolder(f"{path!r} leads over more than {MOST_LINKS} links")
                    todo = [*self._names(target, path), *todo]
                elif not todo:
                    yield Spot(stack[-1], name, "/".join([*walked, name]))
                    return
                else:
                    stack.append(_enter(name, stack[-1], path))
                    walked.append(name)
            yield Spot(stack[-1], "", "/".join(walked) or ".")
        finally:
            for descriptor in stack:
                os.close(descriptor)

    def _names(self, path: str, whole: str | None = None) -> list[str]:
        """The names of a path. An absolute one counts if it begins with the root's own."""
        shown = path if whole is None else whole
        if len(path) > LONGEST or not path.isprintable():
            raise OutsideFolder(
                f"{shown[:200]!r} is no path that is taken: it is too long, or has characters that cannot be shown"
            )
        if path.startswith("/"):
            root = str(self.root).rstrip("/")
            if path != root and not path.startswith(f"{root}/"):
                raise OutsideFolder(f"{shown!r} leads out of the folder {self.root}")
            if whole is not None:
                raise OutsideFolder(f"{shown!r} leads over a link with an absolute target, which is not followed")
            path = path[len(root) :]
        return [name for name in path.split("/") if name not in ("", ".")]

    @contextmanager
    def opened(self, path: str) -> Generator[tuple[int, Spot]]:
        """Open a plain file to read.

        Raises:
            NoSuchFile: there is none: nothing, or a folder, a device, a socket, a pipe.
            OutsideFolder: see ``walked``.
        """
        with self.walked(path) as spot:
            descriptor = _plain(spot, path)
            try:
                yield descriptor, spot
            finally:
                os.close(descriptor)

    @contextmanager
    def listed(self, path: str) -> Generator[tuple[int, Spot]]:
        """Open a folder to list. Errors are those of ``opened``."""
        with self.walked(path) as spot:
            descriptor = _enter(spot.name or ".", spot.folder, path)
            try:
                yield descriptor, spot
            finally:
                os.close(descriptor)

    def has(self, path: str) -> bool:
        """Whether a plain file is there, rather than nothing. Errors are those of ``written``."""
        with self.walked(path) as spot:
            return _mode_of(spot, path) is not None

    def written(self, path: str, content: bytes) -> str:
        """Write a plain file as a whole: a new one beside it takes its place, so that it is never half written.

        Returns:
            Its path from the root.

        Raises:
            NoSuchFile: something else is there, or no folder for it.
            OutsideFolder: see ``walked``.
            OSError: it cannot be written.
        """
        with self.walked(path) as spot:
            mode = _mode_of(spot, path)
            beside = f".{secrets.token_hex(8)}.part"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(beside, flags, 0o666 if mode is None else 0o600, dir_fd=spot.folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    if mode is not None:
                        os.fchmod(file.fileno(), mode)
                    file.write(content)
                os.rename(beside, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(beside, dir_fd=spot.folder)
                raise
            return spot.shown


def _link(name: str, folder: int) -> str | None:
    """Where a name leads if it is a link, else ``None``."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def _enter(name: str, folder: int, path: str) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OutsideFolder(f"{path!r}: {name!r} became a link meanwhile") from error
        raise NoSuchFile(f"{path!r}: {name!r}: {error.strerror}") from error


def _mode_of(spot: Spot, path: str) -> int | None:
    """The permissions of a plain file, ``None`` where there is nothing yet."""
    if not spot.name:
        raise NoSuchFile(f"{path!r} is a folder")
    try:
        known = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(known.st_mode):
        raise NoSuchFile(f"{path!r} is no plain file")
    return stat.S_IMODE(known.st_mode)


def _plain(spot: Spot, path: str) -> int:
    """A descriptor of a plain file. Opening does not wait, as a pipe would; what is opened is looked at afterwards."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    if not spot.name:
        raise NoSuchFile(f"{path!r} is a folder")
    try:
        known = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
        if not stat.S_ISREG(known.st_mode):
            raise NoSuchFile(f"{path!r} is no plain file")
        descriptor = os.open(spot.name, flags, dir_fd=spot.folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OutsideFolder(f"{path!r} became a link meanwhile") from error
        raise NoSuchFile(f"{path!r}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NoSuchFile(f"{path!r} is no plain file")
    return descriptor
