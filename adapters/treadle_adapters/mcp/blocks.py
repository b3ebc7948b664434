"""Content that servers send beside text, as blocks of results."""

from __future__ import annotations

import msgspec

from treadle import Block
from treadle.models import BLOCKS


@BLOCKS.register
class Image(msgspec.Struct, Block, frozen=True, gc=False, rename="camel", tag_field="type", tag="image"):
    """A picture; ``data`` is base64."""

    data: str
    mime_type: str


@BLOCKS.register
class Audio(msgspec.Struct, Block, frozen=True, gc=False, rename="camel", tag_field="type", tag="audio"):
    """Sound; ``data`` is base64."""

    data: str
    mime_type: str


@BLOCKS.register
class Resource(
    msgspec.Struct, Block, frozen=True, gc=False, rename="camel", tag_field="type", tag="resource", omit_defaults=True
):
    """A resource that is no text; ``data`` is base64."""

    uri: str
    data: str
    mime_type: str | None = None
