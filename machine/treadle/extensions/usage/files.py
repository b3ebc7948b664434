"""Price tables that people write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ...errors import ConfigError, MisuseError
from ...host.reading.documents import Faulty, error_of, faults_in, read_text
from ...host.reading.toml import read_toml
from .prices import Price

MAX_FILE = 1 << 20
"""Bytes that a file of prices may have (X3)."""


class _Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


def prices_declared(table: Any, where: str | Path) -> dict[str, Price]:
    """The prices of the tables ``[prices.MODEL]``: ``input``, ``output``, ``cache_read``, ``cache_write``.

    Args:
        table: what stands under ``prices``.
        where: the file, for errors.

    Raises:
        ConfigError: a table is wrong; it is named.
    """
    try:
        read = msgspec.convert(table, dict[str, _Price])
        return {model: Price(one.input, one.output, one.cache_read, one.cache_write) for model, one in read.items()}
    except (msgspec.ValidationError, MisuseError) as error:
        keys = "each [prices.MODEL] has input and output, per million tokens, and may have cache_read and cache_write"
        raise ConfigError(f"{where}: prices: {error}; {keys}") from error


def read_prices(path: str | Path) -> dict[str, Price]:
    """Read a TOML file with tables ``[prices.MODEL]``; others in it are left alone, so a ``treadle.toml`` will do.

    Raises:
        ConfigError: it cannot be read, is no TOML, has no prices, or a price is wrong.
    """
    place = Path(path)
    try:
        read = read_toml(read_text(place, MAX_FILE)).value
    except (Faulty, OSError) as error:
        raise error_of(place, faults_in(error)) from error
    if "prices" not in read:
        raise ConfigError(f"{place}: there is no table [prices.MODEL]: give each model's input and output in one")
    return prices_declared(read["prices"], place)
