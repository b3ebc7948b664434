"""The table ``[compaction]`` of a ``treadle.toml`` (Z1, O8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ...errors import ConfigError, MisuseError
from ...host.host import Host
from .compaction import Compaction
from .summaries import ModelSummary


class CompactionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the table may say; what it leaves out is as in ``Compaction`` and ``ModelSummary``."""

    provider: str | None = None
    model: str | None = None
    keep_turns: int | msgspec.UnsetType = msgspec.UNSET
    keep_steps: int | msgspec.UnsetType = msgspec.UNSET
    between_turns: float | msgspec.UnsetType = msgspec.UNSET
    within_turn: float | msgspec.UnsetType = msgspec.UNSET
    window: int | msgspec.UnsetType = msgspec.UNSET
    max_summary_tokens: int | msgspec.UnsetType = msgspec.UNSET


def declared_compaction(host: Host, table: Any, where: Path) -> None:
    """Install what the table ``[compaction]`` says; one of the ``tables`` that ``Host.from_config`` takes.

    Raises:
        ConfigError: the table is wrong; the text names the file and the key.
    """
    try:
        said = msgspec.convert(table, CompactionTable)
        settings = {name: value for name, value in msgspec.structs.asdict(said).items() if value is not msgspec.UNSET}
        writer = ModelSummary(settings.pop("provider"), settings.pop("model"))
        Compaction(writer, **settings).install(host)
    except (msgspec.ValidationError, MisuseError) as error:
        raise ConfigError(f"{where}: [compaction]: {error}") from error
