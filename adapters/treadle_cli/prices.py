"""What models cost, as commands are told: ``--prices FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from treadle.extensions.usage import Price, Prices, Spent, read_prices
from treadle_diagrams.log.usage import usage_text

PricesFile = Annotated[Path | None, Parameter(name="--prices", env_var="TREADLE_PRICES")]
"""A TOML file with a table ``[prices.MODEL]`` for each model, such as a ``treadle.toml``."""


def prices_of(path: Path | None) -> dict[str, Price]:
    """The prices of a file; none without one.

    Raises:
        ConfigError: the file is wrong.
    """
    return {} if path is None else read_prices(path)


def cost_text(cost: float | None) -> str:
    """A cost for people: small ones with as many digits as they need."""
    return "–" if cost is None else f"{cost:,.2f}" if cost >= 1 else f"{cost:.4g}"


def spent_text(spent: Spent, prices: Prices) -> str:
    """What was used, in a line: attempts and how they ended, tokens, what of it was cached, what it cost."""
    facts = [f"{spent.attempts:,} attempt{'s' if spent.attempts != 1 else ''}"]
    told = [("failed", spent.failed), ("interrupted", spent.interrupted), ("without a report", spent.unreported)]
    ended = ", ".join([f"{count:,} {what}" for what, count in told if count])
    if ended:
        facts[0] += f" ({ended})"
    facts += usage_text(spent.usage)
    cost = spent.cost(prices)
    if cost is not None:
        unpriced = spent.unpriced(prices)
        facts.append(f"cost {cost_text(cost)}" + (f" without {', '.join(unpriced)}" if unpriced else ""))
    return " · ".join(facts)
