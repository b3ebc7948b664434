"""What a refusal means (Q7, Q14)."""

from __future__ import annotations

import re

from treadle.models import Code

from .refusal_table import GENERAL, TABLE, TOO_LONG, Row
from .told import Told

STATUSES = {
    400: Code.INVALID_REQUEST,
    401: Code.INVALID_CREDENTIAL,
    402: Code.QUOTA,
    403: Code.INVALID_CREDENTIAL,
    404: Code.INVALID_REQUEST,
    407: Code.INVALID_CREDENTIAL,
    408: Code.TIMEOUT,
    409: Code.SERVER,  # a lock of the provider's; both vendors' own clients try it again
    413: TOO_LONG,  # the remedy is the same: a shorter history
    424: Code.SERVER,  # Bedrock: the model failed
    425: Code.SERVER,
    429: Code.RATE_LIMIT,
    451: Code.CONTENT_FILTER,
    498: Code.SERVER,  # Groq: no capacity in this tier
    504: Code.TIMEOUT,
    522: Code.TIMEOUT,
    524: Code.TIMEOUT,
}
"""HTTP statuses that do not follow from their class: other 4xx are INVALID_REQUEST, other 5xx are SERVER (Q7)."""

_NUMBERS = re.compile(
    r"\blimit:? ?([\d,]{1,15}).{0,80}?\brequested:? ?(?:about )?([\d,]{1,15})", re.IGNORECASE | re.DOTALL
)


def code_of_status(status: int) -> Code:
    """The code of an HTTP error status (Q7)."""
    found = STATUSES.get(status)
    if found is not None:
        return found
    if status >= 500:
        return Code.SERVER
    return Code.INVALID_REQUEST if status >= 300 else Code.MALFORMED_RESPONSE


def recognize(told: Told, status: int | None) -> Row:
    """Say what a refusal means.

    The code comes from the first row that fits, else from the HTTP status, else from a general word, else from a
    status that stands in for a code (Q7).

    Args:
        told: what its body tells.
        status: the response's HTTP status, if that is an error.
    """
    if status in TABLE[0].statuses and _asks_too_much(told.text):
        return TABLE[0]
    for row in TABLE:
        if row.fits(told, status):
            return row
    if status is not None:
        return Row(f"HTTP {status}", code_of_status(status), "all")
    for row in GENERAL:
        if row.fits(told, status):
            return row
    for word in told.words:
        if word.isascii() and word.isdigit() and len(word) == 3 and 400 <= int(word) < 600:
            return Row(f"the number {word}", code_of_status(int(word)), "gateways, inside streams")
    return Row("nothing known", Code.UNKNOWN, "nowhere")


def _asks_too_much(text: str) -> bool:
    """Whether a limit per minute is smaller than the one request."""
    found = _NUMBERS.search(text)
    if found is None:
        return False
    limit, requested = [int(number.replace(",", "") or "0") for number in found.groups()]
    return requested > limit > 0
