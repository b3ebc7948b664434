"""Builds the site: `python docs/build.py`, into `build/site`. Needs the extra `docs`; no network.

A warning is an error, and so is a link that leads nowhere, or to what would be loaded from elsewhere. Open `build/site/index.html`; nothing but files is needed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from docs.site.checks import faults  # noqa: E402  # this file is run by its path


def main(arguments: list[str] | None = None) -> int:
    """Build; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="where the site is written")
    parser.add_argument("--fresh", action="store_true", help="read every page anew")
    given = parser.parse_args(arguments)
    options = ["--fail-on-warning", "--keep-going", "--quiet", *(["--fresh-env"] if given.fresh else [])]
    places = ["--conf-dir", ROOT / "docs" / "site", "--doctree-dir", given.out.with_name(f"{given.out.name}.read")]
    status = build_main([*options, *map(str, [*places, ROOT / "docs", given.out])])
    wrong = [] if status else list(faults(given.out))
    sys.stdout.writelines([f"{fault}\n" for fault in wrong])
    if not status and not wrong:
        print(f"the site: {given.out / 'index.html'}")
    return status or bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
