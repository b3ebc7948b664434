"""What may be asked of a session from any process: as it stands in the mailbox, and as the log records it."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from treadle import UserMessage
from treadle.models import Block
from treadle.session import Cause, decode_hook, encode_hook, event

Target = Literal["next-turn", "next-step"]


class _Asked(msgspec.Struct, frozen=True, tag_field="ask", rename="camel", omit_defaults=True):
    """Base of all that can be asked."""


class Deliver(_Asked, frozen=True, tag="deliver"):
    """Deliver a message (D1)."""

    message: UserMessage
    target: Target
    wakeup: bool


class Cancel(_Asked, frozen=True, tag="cancel"):
    """Stop the current activity (C1)."""

    cause: Cause
    keep_inbox: bool = False


class Dispose(_Asked, frozen=True, tag="dispose"):
    """End the agent, and let go of its session (O4)."""

    keep_inbox: bool = False


class ChangeInbox(_Asked, frozen=True, tag="inbox"):
    """Edit, remove or steer a pending message (I2, I9)."""

    message_id: str
    action: Literal["edit", "remove", "steer"]
    content: tuple[Block, ...] | None = None


class Reorder(_Asked, frozen=True, tag="reorder"):
    """Put the messages that wait for turns of their own in another order: these ids, if they are exactly those (I2)."""

    ids: tuple[str, ...]


class Approve(_Asked, frozen=True, tag="approve"):
    """Answer a call that waits for approval, or refuse it (K2)."""

    approval: str
    approved: bool


Asked = Deliver | Cancel | Dispose | ChangeInbox | Reorder | Approve
"""What can be asked."""
_DECODER: msgspec.json.Decoder[Asked] = msgspec.json.Decoder(Asked, dec_hook=decode_hook)
_ENCODER = msgspec.json.Encoder(enc_hook=encode_hook)


@event("mailbox/taken")
class LetterTaken(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A letter was taken that is no delivery, or a delivery that was refused; deliveries are recorded as such (I3).

    Attributes:
        id: the letter's.
        asked: what it asks.
        answer: what it came to.
    """

    id: str
    asked: Asked
    answer: str


def encode(asked: Asked) -> str:
    """What is asked, as text of JSON."""
    return _ENCODER.encode(asked).decode()


def decode(letter: str) -> Asked:
    """What a letter asks.

    Raises:
        ValueError: it is none that is known here.
    """
    return _DECODER.decode(letter)


def digest_of(letter: str) -> str:
    """What tells a letter from any other: SHA-256, in hexadecimal digits."""
    return hashlib.sha256(letter.encode()).hexdigest()
