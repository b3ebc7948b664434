"""Whether the long job runs: the same tests, many times as much of them. ``TREADLE_WEB_LONG=1 pytest tests/adapters/web``."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("TREADLE_WEB_LONG"))
