"""``treadle stats``: what models and tools took, of many sessions, as a table, as JSON and as a picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from treadle.printable import one_line
from treadle_adapters.traces import Stats, stats_of
from treadle_adapters.traces.stats import ModelStats, Times, ToolStats
from treadle_diagrams import Bar, Chart, bars_svg

from ..exits import Exit
from ..prices import PricesFile, cost_text, prices_of
from .logs import damaged, read_all

S = TypeVar("S", ModelStats, ToolStats)


def stats(
    log: Annotated[list[str], Parameter(consume_multiple=True, negative=())],
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    svg: Path | None = None,
    prices: PricesFile = None,
) -> int:
    """Say what models and tools took: time, tokens, retries, failures and cancels.

    Args:
        log: session files, or sessions in a database, as in `postgres://host/database#SESSION`.
        as_json: print JSON; times are in seconds.
        svg: write the times as a picture to this file instead.
        prices: a TOML file with a table `[prices.MODEL]` for each model: `input`, `output`, `cache_read`, `cache_write`
            per million tokens.
    """
    sessions = read_all(log)
    found = stats_of([(session.header, session.events) for session in sessions], prices_of(prices))
    if svg is not None:
        svg.parent.mkdir(parents=True, exist_ok=True)
        svg.write_text(bars_svg(charts(found)), encoding="utf-8", newline="\n")
        sys.stderr.write(f"wrote {svg}\n")
    elif as_json:
        sys.stdout.write(json.dumps(found.told(), ensure_ascii=False, indent=2) + "\n")
    else:
        _print(found)
    return Exit.FAILED if damaged(sessions) else Exit.OK


def charts(found: Stats) -> list[Chart]:
    """The times as bars: the median, and up to the 95th percentile."""
    first = [Bar(name, each.first_chunk.at(50), each.first_chunk.at(95)) for name, each in _sorted(found.models)]
    whole = [Bar(name, each.latency.at(50), each.latency.at(95)) for name, each in _sorted(found.models)]
    tools = [Bar(name, each.latency.at(50), each.latency.at(95)) for name, each in _sorted(found.tools)]
    given = [("Models: until the first chunk", first), ("Models: whole answers", whole), ("Tools", tools)]
    return [Chart(title, bars) for title, bars in given if bars]


def _sorted(given: dict[str, S]) -> list[tuple[str, S]]:
    return sorted(given.items(), key=lambda item: item[0])


def _print(found: Stats) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    turns = ", ".join([f"{count:,} {reason}" for reason, count in found.turns.most_common()]) or "none"
    console.print(f"{found.sessions:,} sessions; turns: {turns}", markup=False)
    waits = [("waited for their turn", found.claim), ("came to rest after a cancel", found.convergence)]
    for what, times in waits:
        if times.taken:
            console.print(f"{len(times.taken):,} {what}: {_times(times)}", markup=False)
    if found.models:
        console.print(_models(found))
    if found.tools:
        console.print(_tools(found))


def _models(found: Stats) -> Table:
    heads = (
        "attempts",
        "retries",
        "cancelled",
        "first chunk",
        "answer",
        "tokens in",
        "out",
        "cached",
        "cost",
        "failures",
    )
    table = _table("model", heads)
    for name, each in _sorted(found.models):
        table.add_row(
            one_line(name, 60),
            f"{each.attempts:,}",
            f"{each.retries:,}",
            f"{each.cancelled:,}",
            _times(each.first_chunk),
            _times(each.latency),
            f"{each.input_tokens:,}",
            f"{each.output_tokens:,}",
            _cached(each),
            cost_text(each.cost),
            _failures(each),
        )
    return table


def _cached(each: ModelStats) -> str:
    """The tokens found in caches, and what share of the input that is."""
    return f"{each.cache_read_tokens:,}" + (f" ({each.cached:.0%})" if each.cache_read_tokens and each.cached else "")


def _tools(found: Stats) -> Table:
    table = _table("tool", ("calls", "cancelled", "took", "failures"))
    for name, each in _sorted(found.tools):
        calls, cancelled = f"{each.calls:,}", f"{each.cancelled:,}"
        table.add_row(one_line(name, 60), calls, cancelled, _times(each.latency), _failures(each))
    return table


def _table(first: str, heads: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first)
    for head in heads:
        table.add_column(head, justify="left" if head == "failures" else "right")
    return table


def _times(times: Times) -> str:
    """The median and the 95th percentile."""
    median, late = times.at(50), times.at(95)
    return "–" if median is None or late is None else f"{median:.3f} / {late:.3f} s"


def _failures(each: ModelStats | ToolStats) -> str:
    return one_line(", ".join([f"{count:,} {code}" for code, count in each.failures.most_common()]), 80)
