"""JSON, read within bounds."""

from __future__ import annotations

import json

from .documents import Document, Fault, Faulty


def read_json(text: str) -> Document:
    """Read a JSON document.

    Raises:
        Faulty: it is none, or it is out of bounds.
    """
    try:
        return Document(json.loads(text))
    except json.JSONDecodeError as error:
        raise Faulty(Fault(error.lineno, error.colno, f"no valid JSON: {error.msg}")) from error
    except RecursionError as error:
        raise Faulty(Fault(0, 0, "nested too deep (X3)")) from error
    except ValueError as error:
        raise Faulty(Fault(0, 0, f"holds a number that is too long: {error} (X3)")) from error
