"""Messages and content blocks: what the model reads and writes (S4, S7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec

from ..errors import InvalidData, InvalidMessage
from ..lossless import MAX_EVENT_BYTES, MAX_PART_BYTES, check_bytes, check_text, text_is_lossless
from ..sums import ENCODER, Opaque, OpenSum

MAX_BLOCKS = 10_000
"""How many blocks one message may hold (X3)."""

MOST_TEXT = MAX_PART_BYTES // 8
"""Characters that fit whatever they are: none takes more than six bytes as JSON."""


class Block:
    """One piece of a message's content; members carry a ``type`` tag."""

    __slots__ = ()


class OpaqueBlock(Opaque, Block):
    """A content block of a kind this process does not know."""

    __slots__ = ()


BLOCKS: OpenSum[Block] = OpenSum(Block, OpaqueBlock, "type")
"""The kinds of blocks there are; ``BLOCKS.register`` adds one (S2)."""


@BLOCKS.register
class Text(msgspec.Struct, Block, frozen=True, gc=False, rename="camel", tag_field="type", tag="text"):
    """Plain text."""

    text: str


@BLOCKS.register
class Reasoning(
    msgspec.Struct,
    Block,
    frozen=True,
    gc=False,
    rename="camel",
    tag_field="type",
    tag="reasoning",
    omit_defaults=True,
):
    """The model's reasoning. ``replay`` is private to the adapter that produced it (Q10)."""

    text: str
    replay: Any = None


@BLOCKS.register
class ToolCall(
    msgspec.Struct,
    Block,
    frozen=True,
    gc=False,
    rename="camel",
    tag_field="type",
    tag="tool-call",
    omit_defaults=True,
):
    """A tool call the model asks for. ``arguments`` is the raw text, unparsed end to end (Q5)."""

    call_id: str
    name: str
    arguments: str = ""
    replay: Any = None


@BLOCKS.register
class ToolResult(
    msgspec.Struct,
    Block,
    frozen=True,
    gc=False,
    rename="camel",
    tag_field="type",
    tag="tool-result",
    omit_defaults=True,
):
    """The result of one tool call, as the model reads it. ``code`` tells kinds of errors apart by a field (C4)."""

    call_id: str
    content: tuple[Block, ...] = ()
    is_error: bool = False
    code: str | None = None


class ToolBody(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What the body of a call came to, where hooks or the tool's last word made another result of it (K2).

    Attributes:
        content: what the model would have read.
        is_error: whether the body failed.
        code: the kind of failure.
        concludes_turn: whether the tool asked to end the turn here (T5).
        value: the structured value.
        contexts: how many of the messages that were handed over beside the result are the body's own (K11).
    """

    content: tuple[Block, ...] = ()
    is_error: bool = False
    code: str | None = None
    concludes_turn: bool = False
    value: Any = None
    contexts: int = 0


class Source:
    """Who supplied a message; members carry a ``kind`` tag."""

    __slots__ = ()


class OpaqueSource(Opaque, Source):
    """A source of a kind this process does not know."""

    __slots__ = ()


SOURCES: OpenSum[Source] = OpenSum(Source, OpaqueSource, "kind")
"""The kinds of sources there are; ``SOURCES.register`` adds one (S2)."""


@SOURCES.register
class UserSource(msgspec.Struct, Source, frozen=True, gc=False, rename="camel", tag_field="kind", tag="user"):
    """A person typed it."""


@SOURCES.register
class ToolSource(msgspec.Struct, Source, frozen=True, gc=False, rename="camel", tag_field="kind", tag="tool"):
    """A tool handed it over beside its result (K11)."""

    call_id: str


@SOURCES.register
class HookSource(msgspec.Struct, Source, frozen=True, gc=False, rename="camel", tag_field="kind", tag="hook"):
    """A hook added it; ``name`` says which."""

    name: str


@SOURCES.register
class AgentSource(msgspec.Struct, Source, frozen=True, gc=False, rename="camel", tag_field="kind", tag="agent"):
    """Another agent sent it."""

    agent_id: str


USER = cast("UserSource", SOURCES.bare["user"])


class UserMessage(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A message of the user role; ``id`` is its only identity (I1). Compaction keeps a ``pinned`` one as it is (Z2)."""

    id: str
    content: tuple[Block, ...]
    source: Source = USER
    role: Literal["user"] = "user"
    pinned: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def text(self) -> str:
        """All text blocks, joined."""
        return text_of(self.content)


class SystemMessage(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The system prompt at one point of the history (Q3)."""

    content: tuple[Block, ...]
    role: Literal["system"] = "system"

    @property
    def text(self) -> str:
        """All text blocks, joined."""
        return text_of(self.content)


class AssistantMessage(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What the model answered. ``adapter`` names the one that may be handed ``replay`` data back (Q10)."""

    content: tuple[Block, ...]
    adapter: str | None = None
    replay: Any = None
    role: Literal["assistant"] = "assistant"

    @property
    def text(self) -> str:
        """All text blocks, joined."""
        return text_of(self.content)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls asked for, in the model's order."""
        return tuple([block for block in self.content if type(block) is ToolCall])


class ToolResultMessage(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One tool's result in the history: a user-role message that holds one result block (S4)."""

    content: tuple[ToolResult]
    role: Literal["user"] = "user"

    @property
    def result(self) -> ToolResult:
        """The result block."""
        return self.content[0]

    @property
    def text(self) -> str:
        """All text blocks of the result, joined."""
        return text_of(self.content[0].content)


Message = UserMessage | SystemMessage | AssistantMessage | ToolResultMessage
"""One message of the derived history (S4)."""


def text_of(content: tuple[Block, ...]) -> str:
    """Join the text blocks of ``content``."""
    if len(content) == 1 and type(content[0]) is Text:
        return content[0].text
    return "".join([block.text for block in content if type(block) is Text])


def user_message(text: str, id: str, source: Source = USER) -> UserMessage:
    """Make a user message of one text block; ``treadle.message`` makes up the id as well."""
    return UserMessage(id=id, content=(Text(text),), source=source)


def check_user_message(message: object) -> UserMessage:
    """Check a message before it is accepted (D3).

    Raises:
        InvalidMessage: no user message, an empty id, no content, content that is not losslessly JSON, or more of it
            than can be recorded (X3).
    """
    if type(message) is not UserMessage:
        raise InvalidMessage(f"a treadle.UserMessage is needed, not {type(message).__name__} (D3)")
    content: object = message.content
    if type(message.id) is not str or not message.id or len(message.id) > 512 or not text_is_lossless(message.id):
        raise InvalidMessage(f"a message needs an id of 1 to 512 characters, not {message.id!r} (D3)")
    if message.role != "user":
        raise InvalidMessage(f"message {message.id!r} has the role {message.role!r}; only 'user' is delivered (D3)")
    if type(content) is not tuple or not content or len(content) > MAX_BLOCKS:  # pyright: ignore[reportUnknownArgumentType]
        raise InvalidMessage(f"message {message.id!r} needs a tuple of 1 to {MAX_BLOCKS} content blocks (D3)")
    if message.pinned is not msgspec.UNSET and type(message.pinned) is not bool:
        raise InvalidMessage(f"message {message.id!r}: pinned is True or False, not {message.pinned!r} (D3)")
    if not isinstance(message.source, Source):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidMessage(f"message {message.id!r} needs a source (D3)")
    for index, block in enumerate(message.content):
        _check_block(message.id, index, block)
    if message.source is not USER:
        _check(SOURCES, message.source, message.id, "source")
    first = next(iter(message.content))
    if len(message.content) > 1 or type(first) is not Text or len(first.text) > MOST_TEXT:
        _check_bytes(len(ENCODER.encode(message)), f"message {message.id!r}", MAX_PART_BYTES)
    return message


def check_batch(messages: Sequence[UserMessage]) -> None:
    """Check that messages which are recorded together fit into one event.

    Raises:
        InvalidMessage: they do not (X3).
    """
    if len(messages) > MAX_EVENT_BYTES // MAX_PART_BYTES - 1:
        size = sum([len(ENCODER.encode(message)) for message in messages])
        _check_bytes(size, f"a batch of {len(messages)} messages", MAX_EVENT_BYTES - MAX_PART_BYTES)


def _check_bytes(size: int, what: str, most: int) -> None:
    try:
        check_bytes(size, what, most)
    except InvalidData as error:
        raise InvalidMessage(f"{error}; hand over a file's name instead (D3)") from error


def _check_block(message_id: str, index: int, block: object) -> None:
    if type(block) is Text:
        if type(block.text) is not str:
            raise InvalidMessage(
                f"message {message_id!r}: content[{index}] has {type(block.text).__name__} for text (D3)"
            )
        try:
            check_text(block.text, f"content[{index}]")
        except InvalidData as error:
            raise InvalidMessage(f"message {message_id!r}: {error} (D3)") from error
    elif type(block) is ToolCall or type(block) is ToolResult:
        raise InvalidMessage(
            f"message {message_id!r}: content[{index}] is a {type(block).__name__}; calls and results are the log's own (N1)"
        )
    elif isinstance(block, Block):
        _check(BLOCKS, block, message_id, f"content[{index}]")
    else:
        raise InvalidMessage(f"message {message_id!r}: content[{index}] is a {type(block).__name__}, no content block")


def _check(family: OpenSum[Any], value: object, message_id: str, where: str) -> None:
    try:
        family.check(value, where)
    except InvalidData as error:
        raise InvalidMessage(f"message {message_id!r}: {error} (D3, S1)") from error
