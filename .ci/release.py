"""What a release is made of: its notes, its files, and what they bring along.

    python .ci/release.py notes 0.2.0       # the fragments of changes/ become a section of CHANGELOG.md
    python .ci/release.py build dist        # archive and wheel, built twice: equal byte for byte, or it fails
    python .ci/release.py sbom dist         # the bill of materials of dist's wheel with all extras (CycloneDX)

The version stands in `machine/treadle/__init__.py`. `sbom` needs the network, the others none.
"""

from __future__ import annotations

import argparse
import datetime as dt
import filecmp
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
"""Kinds of changes, in the order of a section."""


def notes(root: Path, version: str, today: str) -> None:
    """Make the section of a version of what CHANGELOG.md holds as unreleased and of the fragments, which are taken away.

    Raises:
        SystemExit: a fragment is of no known kind, or the changelog has no unreleased section.
    """
    changelog = root / "CHANGELOG.md"
    before, mark, rest = changelog.read_text(encoding="utf-8").partition("## [Unreleased]\n")
    if not mark:
        raise SystemExit("CHANGELOG.md has no section [Unreleased]")
    held, new, older = rest.partition("\n## [")
    parts = re.split(r"^### (\w+)\n", held, flags=re.MULTILINE)
    texts = {title.lower(): text.strip("\n") for title, text in zip(parts[1::2], parts[2::2], strict=True)}
    fragments = sorted(path for path in (root / "changes").glob("*.md") if path.name != "README.md")
    for path in fragments:
        kind = path.name.split(".")[-2]
        if kind not in KINDS:
            raise SystemExit(f"{path.name}: the kind before .md must be one of {', '.join(KINDS)}, not {kind!r}")
        entry = "- " + path.read_text(encoding="utf-8").strip().replace("\n", "\n  ")
        texts[kind] = f"{texts[kind]}\n{entry}" if texts.get(kind) else entry
    section = "".join([f"\n### {kind.title()}\n\n{texts[kind].strip()}\n" for kind in KINDS if texts.get(kind)])
    changelog.write_text(f"{before}{mark}\n## [{version}] – {today}\n{section}{new}{older}", encoding="utf-8")
    for path in fragments:
        path.unlink()


def build(root: Path, out: Path) -> list[Path]:
    """Build archive and wheel twice; returns the files.

    Raises:
        SystemExit: the builds differ.
    """
    asked = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": commit or "315532800"}
    with tempfile.TemporaryDirectory() as again:
        for place in (out, Path(again)):
            words = [sys.executable, "-m", "hatchling", "build", "-d", str(place.resolve())]
            subprocess.run(words, cwd=root, env=environment, check=True, stdout=subprocess.DEVNULL)
        made = sorted(path for path in Path(again).iterdir())
        differ = [path.name for path in made if not filecmp.cmp(path, out / path.name, shallow=False)]
    if differ:
        raise SystemExit(f"built twice, these differ: {', '.join(differ)}")
    return [out / path.name for path in made]


def sbom(out: Path) -> Path:
    """Write what the wheel brings along with all extras; returns the file."""
    wheel = next(out.glob("treadle-*.whl"))
    target = out / f"{wheel.name.split('-py')[0]}.cdx.json"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        inside = f"{folder}/bin/python"
        subprocess.run([inside, "-m", "pip", "install", "-q", f"treadle[all] @ {wheel.resolve().as_uri()}"], check=True)
        subprocess.run([inside, "-m", "pip", "uninstall", "-q", "-y", "pip", "setuptools"], check=True)
        materials(inside, target)
    return target


def materials(python: str, target: Path) -> None:
    """Write what is installed beside an interpreter, as CycloneDX, the same for the same packages."""
    words = [
        "environment",
        "--output-reproducible",
        "--pyproject",
        str(ROOT / "pyproject.toml"),
        "-o",
        str(target),
        python,
    ]
    subprocess.run([sys.executable, "-m", "cyclonedx_py", *words], check=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("notes").add_argument("version")
    for name in ("build", "sbom"):
        parts.add_parser(name).add_argument("out", type=Path)
    given = parser.parse_args(arguments)
    if given.part == "notes":
        notes(ROOT, given.version, dt.datetime.now(dt.UTC).date().isoformat())
    elif given.part == "build":
        print(*build(ROOT, given.out), sep="\n")
    else:
        print(sbom(given.out))


if __name__ == "__main__":
    main()
