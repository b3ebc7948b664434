"""Header and events as stored records (S7, S8, P5): what every store writes and reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from attrs import frozen

from ..errors import InvalidData, MisuseError
from ..ids import session_id
from ..sums import ENCODER, to_builtins
from ..words.events import Event, decode_event
from .log import SessionHeader
from .upgrade import Chain, chain_from

HEADER_TAG = "session"
"""The ``type`` of the header record, which stands before event 0."""


class _Versioned(msgspec.Struct):
    """As much of a header as tells how to read the rest."""

    type: str
    formatVersion: int  # noqa: N815  # the key on the wire


_VERSIONED = msgspec.json.Decoder(_Versioned)
_JSON = msgspec.json.Decoder()


def encode_header(header: SessionHeader) -> bytes:
    """Encode a header as a record; its version is always written."""
    fields: dict[str, Any] = to_builtins(header)
    fields.pop("formatVersion", None)
    return ENCODER.encode({"type": HEADER_TAG, "formatVersion": header.format_version, **fields})


@frozen
class Reader:
    """Reads the records of one session, whatever version wrote them.

    Attributes:
        header: the session's header, in the current version.
        version: the format the records are in.
    """

    header: SessionHeader
    version: int
    chain: Chain

    @property
    def upgrades(self) -> bool:
        """Whether the records are older than the current version."""
        return bool(self.chain.steps)

    def event(self, record: bytes) -> Event:
        """Decode one event record.

        Raises:
            InvalidData: it is no event, or no strict UTF-8 (N6).
            SessionFormatUnsupported: its type is unknown here and not ignorable (S2).
        """
        if not record.isascii():
            try:
                record.decode()
            except UnicodeDecodeError as error:
                raise InvalidData(f"no strict UTF-8 (N6): {error}") from error
        if self.chain.steps:
            record = ENCODER.encode(self.chain.event(_object(record)))
        return decode_event(record)


def read_header(record: bytes) -> Reader:
    """Decode and check a header record; what is returned reads the events that follow it.

    Raises:
        InvalidData: it is no header.
        SessionFormatUnsupported: it is of a version that cannot be read here (P5).
    """
    if not record.strip():
        raise InvalidData("no session header: there is nothing")
    try:
        known = _VERSIONED.decode(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidData(f"no session header: {error}") from error
    if known.type != HEADER_TAG:
        raise InvalidData(f"no session header, but a record of type {known.type!r}")
    chain = chain_from(known.formatVersion)
    raw = chain.header(_object(record))
    raw.pop("formatVersion", None)
    try:
        header = msgspec.convert(raw, SessionHeader)
    except msgspec.ValidationError as error:
        raise InvalidData(f"no session header: {error}") from error
    try:
        session_id(header.id)
    except MisuseError as error:
        raise InvalidData(str(error)) from error
    if not Path(header.cwd).is_absolute() or header.inherited < 0 or header.delegation_depth < 0:
        raise InvalidData("no session header: cwd must be absolute, counts must not be negative (S8)")
    return Reader(header, known.formatVersion, chain)


def _object(record: bytes) -> dict[str, Any]:
    try:
        raw = _JSON.decode(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidData(f"no JSON: {error}") from error
    if not isinstance(raw, dict):
        raise InvalidData("no JSON object")
    return raw  # pyright: ignore[reportUnknownVariableType]
