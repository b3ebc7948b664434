"""Libraries that come with an extra: what is said when they are not installed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from treadle import TreadleError


class MissingExtra(TreadleError):
    """A command needs libraries that are not installed."""

    code = "MISSING_EXTRA"


@contextmanager
def extra_for(what: str, extra: str) -> Generator[None]:
    """Import, inside the ``with`` block, what needs an extra.

    Args:
        what: who needs it, as in ``models over HTTP need``.
        extra: the extra that has it.

    Raises:
        MissingExtra: a library is not installed; the text says what to install.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0].startswith("treadle"):
            raise
        raise MissingExtra(f"{what} {error.name}: pip install 'treadle[{extra}]'") from error
