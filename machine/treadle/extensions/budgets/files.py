"""The table ``[budgets]`` of a ``treadle.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from attrs import asdict

from ...errors import ConfigError, MisuseError
from ..usage import prices_declared
from .budgets import WARN_AT, Budgets, HasScope
from .limits import Limits


class _Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    steps: int | None = None
    calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def limits(self) -> Limits:
        return Limits(**msgspec.structs.asdict(self))


class _Budgets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    turn: _Limits = _Limits()
    session: _Limits = _Limits()
    host: _Limits = _Limits()
    prices: dict[str, Any] = {}
    warn_at: float | None = WARN_AT


def declared_budgets(host: HasScope, table: Any, where: Path) -> None:
    """Install the budgets of a file: ``[budgets.turn]``, ``[budgets.session]``, ``[budgets.host]`` as ``Limits``.

    ``[budgets.prices.MODEL]`` are prices, ``warn_at`` is the share at which is warned. For ``tables`` of
    ``Host.from_config``.

    Raises:
        ConfigError: the table is wrong; what of it is named.
    """
    try:
        read = msgspec.convert(table, _Budgets)
        prices = prices_declared(read.prices, where)
        budgets = Budgets(
            turn=read.turn.limits(),
            session=read.session.limits(),
            host=read.host.limits(),
            prices=prices,
            warn_at=read.warn_at,
        )
    except (msgspec.ValidationError, MisuseError) as error:
        known = ", ".join(asdict(Limits()))
        raise ConfigError(f"{where}: budgets: {error}; turn, session and host may limit {known}") from error
    budgets.install(host)
