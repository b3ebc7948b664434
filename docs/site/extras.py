"""What each extra brings: installed alone into an empty environment, and imported there.

    python -m docs.site.extras --write                 # measured on every Python there is; kept in docs/site/extras.json
    python -m docs.site.extras --only models,cli       # does each install and import? nothing is kept

Needed are `uv`, and interpreters named `python3.11` and so on. Packages come from the index that pip is set up for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name("extras.json")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

IMPORTED = {
    "": ["treadle"],
    "models": ["treadle_adapters.models.openai_chat", "treadle_adapters.models.anthropic"],
    "stores": ["treadle_adapters.stores.jsonl", "treadle_adapters.stores.sqlite"],
    "postgres": ["treadle_adapters.stores.postgres", "treadle_adapters.cluster"],
    "config": ["treadle.presets", "ruamel.yaml", "tomlkit"],
    "telemetry": ["treadle_adapters.telemetry"],
    "cli": ["treadle_cli.commands"],
    "mcp": ["treadle_adapters.mcp", "mcp"],
    "web": ["treadle_adapters.web"],
    "specs": ["treadle_specs.agents", "treadle_specs.kits"],
    "diagrams": ["treadle_diagrams"],
    "all": ["treadle", "treadle_adapters", "treadle_cli.commands", "treadle_specs.agents", "treadle_diagrams"],
}
"""What has to be importable with an extra alone; the empty name is the core."""

PROBE = """
import json, sys, time
from importlib import import_module
from importlib.metadata import distributions
began = time.process_time()
for name in sys.argv[1:]:
    import_module(name)
print(json.dumps({"seconds": round(time.process_time() - began, 2),
    "packages": sorted({one.metadata["Name"].lower() for one in distributions()} - {"treadle", "pip", "setuptools", "wheel"})}))
"""


def measured(wheel: Path, extra: str, python: str) -> dict[str, Any] | None:
    """Install one extra alone and import what it is for; ``None`` where there is no such Python.

    Raises:
        subprocess.CalledProcessError: it cannot be installed, or not imported.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(
            ["uv", "venv", "-q", "--no-python-downloads", "-p", python, folder], check=False, capture_output=True
        )
        if made.returncode:
            return None
        inside = f"{folder}/bin/python"
        wanted = f"treadle[{extra}] @ {wheel.as_uri()}" if extra else f"treadle @ {wheel.as_uri()}"
        subprocess.run(["uv", "pip", "install", "-q", "-p", inside, wanted], check=True)
        words = [inside, "-W", "error", "-c", PROBE, *IMPORTED[extra]]
        best = [json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout) for _ in range(2)]
    return min(best, key=lambda one: one["seconds"])


def page() -> str:
    """The table of extras, as the last measurement left it, below the page's title."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    core = set(kept["extras"][""]["packages"])
    pythons = ", ".join(kept["pythons"])
    lines = [
        f"Processor seconds of the import on Python {kept['python']}, best of two. Installed and imported alone on {pythons}.",
        "",
        "| extra | for | import | libraries beyond the core's |",
        "| --- | --- | ---: | --- |",
    ]
    for extra, found in kept["extras"].items():
        brought = sorted(set(found["packages"]) - core) if extra else sorted(core)
        names = f"`{extra}`" if extra else "none: the core"
        seconds = f"{found['seconds']:.2f} s"
        shown = ", ".join(brought) if len(brought) < 40 else f"{len(brought)} libraries: all of the above"
        lines.append(f"| {names} | {FOR[extra]} | {seconds} | {shown or '–'} |")
    return "\n".join(lines)


FOR = {
    "": "agents, tools, hooks, the log, the scripted model, sessions in memory",
    "models": "models over HTTP",
    "stores": "SQLite, and compressed files; plain files need nothing",
    "postgres": "sessions of many machines",
    "config": "presets in YAML, profiles in TOML",
    "telemetry": "OpenTelemetry",
    "cli": "the command `treadle`",
    "mcp": "servers of tools, and agents as such",
    "web": "agents behind HTTP",
    "specs": "checks of agents, adapters, stores and drivers",
    "diagrams": "drawings",
    "all": "everything",
}
"""What each extra is for."""


def main(arguments: list[str] | None = None) -> int:
    """Measure; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true", help="keep the figures for the page")
    parser.add_argument("--only", default=",".join(IMPORTED), help="extras, between commas")
    parser.add_argument("--pythons", default=",".join(PYTHONS), help="versions, between commas")
    given = parser.parse_args(arguments)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    left_out = declared.keys() - IMPORTED.keys() - {"dev", "docs", "ray"}  # Ray is a job of its own
    if left_out:
        print(f"not known here: {', '.join(sorted(left_out))}")
        return 1
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "build", "-q", "--wheel", "-o", folder, str(ROOT)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        wheel = next(Path(folder).glob("*.whl"))
        for python in given.pythons.split(","):
            for extra in given.only.split(","):
                made = measured(wheel, extra, python)
                if made is None:
                    print(f"no Python {python} here: skipped")
                    break
                found.setdefault(python, {})[extra] = made
                print(
                    f"{python} {extra or 'the core':10} {made['seconds']:.2f} s  {len(made['packages'])} libraries",
                    flush=True,
                )
    if given.write:
        first = next(iter(found))
        kept = {"python": first, "pythons": list(found), "extras": found[first]}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
