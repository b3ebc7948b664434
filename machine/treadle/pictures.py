"""Pictures for notebooks. ``treadle_diagrams`` draws them; without it there are none, and nothing else is missing."""

from __future__ import annotations

import importlib
from typing import Any


def picture(name: str, shown: object) -> str | None:
    """Have ``treadle_diagrams.notebook`` draw something; ``None`` when it is not installed.

    It is looked up when a picture is asked for: the core does not depend on it.
    """
    try:
        drawings: Any = importlib.import_module("treadle_diagrams.notebook")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "treadle_diagrams":
            raise
        return None
    drawn: str = getattr(drawings, name)(shown)
    return drawn
