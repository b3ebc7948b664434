"""A profile on disk: a TOML file that keeps what a person chose, comments and all (O10)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import trio

from ..errors import ConfigError
from .default_model import ModelSelection
from .reading.documents import Faulty, error_of, faults_in, read_text
from .reading.shapes import faults_of
from .reading.toml import read_toml

TABLE = "default_model"
"""The table of the file that holds the selection."""

MAX_FILE = 1 << 20
"""Bytes that a profile may have (X3)."""


class _Selection(msgspec.Struct, forbid_unknown_fields=True):
    provider: str
    model: str
    reasoning_effort: str | None = None


class TomlProfile:
    """Reads and writes the selection in one TOML file. Everything else in the file stays as it is.

    Writing needs ``tomlkit``: ``pip install treadle[config]``.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def read(self) -> ModelSelection | None:
        """The saved selection, ``None`` when the file or its table is not there.

        Raises:
            ConfigError: the file cannot be read, is no TOML, or the table is no selection.
        """
        try:
            read = read_toml(read_text(self.path, MAX_FILE))
        except FileNotFoundError:
            return None
        except (Faulty, OSError) as error:
            raise error_of(f"{self.path}: no readable profile", faults_in(error)) from error
        if TABLE not in read.value:
            return None
        wrong = [read.fault(*one) for one in faults_of(read.value[TABLE], _Selection, (TABLE,))]
        if wrong:
            raise error_of(f"{self.path}: no readable profile", wrong)
        found = msgspec.convert(read.value[TABLE], _Selection)
        return ModelSelection(found.provider, found.model, found.reasoning_effort)

    async def write(self, selection: ModelSelection) -> None:
        """Put the selection into the file, whole or not at all.

        Raises:
            ConfigError: ``tomlkit`` is not installed, or the file is no TOML.
            OSError: it cannot be written.
        """
        await trio.to_thread.run_sync(self._write, selection)

    def _write(self, selection: ModelSelection) -> None:
        try:
            import tomlkit
            from tomlkit.exceptions import TOMLKitError
        except ImportError as error:
            raise ConfigError("writing a profile needs tomlkit: pip install 'treadle[config]'") from error
        try:
            text = read_text(self.path, MAX_FILE) if self.path.exists() else ""
            read_toml(text)
            document = tomlkit.parse(text)
        except (TOMLKitError, Faulty, ValueError, RecursionError) as error:
            raise ConfigError(f"{self.path}: no readable profile, so it is not written over: {error}") from error
        table = tomlkit.table()
        table["provider"], table["model"] = selection.provider, selection.model
        if selection.reasoning_effort is not None:
            table["reasoning_effort"] = selection.reasoning_effort
        document[TABLE] = table
        self._replace(tomlkit.dumps(document))

    def _replace(self, text: str) -> None:
        import os
        import tempfile

        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if self.path.exists():
                Path(name).chmod(self.path.stat().st_mode & 0o777)
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
