"""Hold the drivers of other projects to the fair profile, each in a virtual environment of its own.

    python examples/rigs/run.py pydantic_ai              # installs the pinned version into .rigs/, runs, keeps the report
    python examples/rigs/run.py --install pydantic_ai    # installs it, and no more
    python examples/rigs/run.py --check pydantic_ai      # keeps no report; exit status 1 if other rules are broken than it says

The report goes to ``examples/rigs/reports/``; ``python -m treadle_specs.reports.conformance_table --write`` makes
``docs/conformance.md`` from all of them. The rigs of this repository itself, `asyncio_toy` and `node_toy`, need no install.
"""

import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEPT = ROOT / ".rigs"
TOYS = {"asyncio_toy": f"{sys.executable} examples/asyncio_rig.py", "node_toy": "node examples/node_rig.mjs"}
OPTIONS = ["--profile", "fair", "--seconds", "45", "--seed", "1", "--jobs", "1", "--no-corpus"]


def pinned(rig: Path) -> list[str]:
    """What the script asks for in its first lines."""
    block = re.search(r"^# /// script\n(.*?)^# ///$", rig.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert block is not None, f"{rig.name} names no versions"
    return tomllib.loads(re.sub(r"^# ?", "", block[1], flags=re.MULTILINE))["dependencies"]


def environment(name: str) -> str | Path:
    """The interpreter of a framework's own environment, which is made when it is not there."""
    folder = KEPT / name
    script = HERE / f"{name}_rig.mjs"
    if script.is_file():
        wanted = re.search(r"^// npm: (\S+)$", script.read_text(encoding="utf-8"), re.MULTILINE)[1]
        if not (folder / "node_modules").is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                [shutil.which("npm") or "npm", "install", "--silent", "--no-audit", "--prefix", folder, wanted],
                check=True,
            )
        return "node"
    python = folder / "bin" / "python"
    done = folder / "installed"
    wanted = "\n".join(pinned(HERE / f"{name}_rig.py"))
    if not done.is_file() or done.read_text(encoding="utf-8") != wanted:
        if uv := shutil.which("uv"):
            subprocess.run([uv, "venv", "-q", "--clear", folder], check=True)
            subprocess.run([uv, "pip", "install", "-q", "--python", python, *wanted.split("\n")], check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", *wanted.split("\n")], check=True)
        done.write_text(wanted, encoding="utf-8")
    return python


def broken(report: Path) -> set[str]:
    """The rules that a report says are broken; none when there is no report."""
    if not report.is_file():
        return set()
    return {one["rule"] for one in json.loads(report.read_text(encoding="utf-8"))["broken"]}


def confirmed(name: str, rule: str) -> bool:
    """Whether the plain script against the framework's public API shows it too."""
    plain = next((HERE / "plain").glob(f"plain_{name}.*"), None)
    if plain is None:
        return False
    return subprocess.run([environment(name), plain, rule], check=False, stdout=sys.stderr, timeout=120).returncode == 0


def main(words: list[str]) -> int:
    """Install, run and report each framework that is named."""
    names = [word for word in words if not word.startswith("-")]
    checked = "--check" in words
    changed = False
    for name in names:
        rig = TOYS.get(name) or f"{environment(name)} {next(HERE.glob(f'{name}_rig.*')).relative_to(ROOT)}"
        if "--install" in words:
            continue
        before = broken(HERE / "reports" / f"{name}.json")
        report = KEPT / f"{name}.json" if checked else HERE / "reports" / f"{name}.json"
        report.parent.mkdir(parents=True, exist_ok=True)
        drawings = KEPT / f"{name}.found"
        shutil.rmtree(drawings, ignore_errors=True)
        command = [
            sys.executable,
            "-m",
            "treadle_cli",
            "conform",
            "--rig",
            rig,
            *OPTIONS,
            "--save",
            drawings,
            "-f",
            "json",
            "-o",
            report,
        ]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "specs")}, check=False)
        told = json.loads(report.read_text(encoding="utf-8"))
        for one in told["broken"]:
            one["drawing"] = (drawings / f"{one['rule']}.mmd").read_text(encoding="utf-8")
        told["confirmed"] = [one["rule"] for one in told["broken"] if confirmed(name, one["rule"])]
        told |= {"date": dt.datetime.now(dt.UTC).date().isoformat(), "options": OPTIONS}
        report.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{told['driver']}: {told['verdict']}, {told['runs']} runs, confirmed: {told['confirmed']}")
        if checked and broken(report) != before:
            print(f"{name}: the report says {sorted(before)} are broken, this run {sorted(broken(report))}")
            changed = True
    return 2 if not names else 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
