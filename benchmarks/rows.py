"""All rows: the benchmarks of the modules that are there."""

from __future__ import annotations

import importlib
import importlib.util
import sys

from .measure import Benchmark

MODULES = (
    "turns",
    "steps",
    "extensions",
    "chunks",
    "agents",
    "adapters",
    "streams",
    "load",
    "stores",
    "postgres",
    "letters",
    "million",
    "telemetry",
    "servers",
    "web.figures",
)
"""Each has a list ``BENCHMARKS``; one that is not there, or whose library is not, is left out."""


def collect() -> list[Benchmark]:
    """All benchmarks whose modules can be imported here."""
    found: list[Benchmark] = []
    for name in MODULES:
        full = f"{__package__}.{name}"
        if importlib.util.find_spec(full) is None:
            continue
        try:
            module = importlib.import_module(full)
        except ModuleNotFoundError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        found += module.BENCHMARKS
    return found
