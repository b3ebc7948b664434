"""What requests say and answers hold, as JSON: camelCase, unknown keys refused."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from treadle import Agent, Block, UserMessage
from treadle.errors import InvalidData
from treadle.models import BLOCKS
from treadle.session import Listed, encode_hook, title_of

from .problems import Refused

ENCODER = msgspec.json.Encoder(enc_hook=encode_hook)
"""Writes what answers and streams hold, blocks of unknown kinds included."""


class _Asked(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of what requests say."""


class _Told(msgspec.Struct, frozen=True, rename="camel"):
    """Base of what answers hold."""


class Nothing(_Asked, frozen=True):
    """A request without content."""


class NewSession(_Asked, frozen=True):
    """A session to be made; ``message`` is its first follow-up."""

    preset: str | None = None
    message: str | None = None


class ForkAt(_Asked, frozen=True):
    """A fork: it inherits the first ``upto`` events, all unless given; the point must lie outside a turn (S5)."""

    upto: int | None = None


class Delivery(_Asked, frozen=True):
    """A message to be delivered. Its id is the key: sent twice, it is delivered once.

    Attributes:
        id: made up unless given; without one a repeated request is another message.
        text: what it says, unless ``content`` does.
        content: its blocks, as in the log.
        mode: ``followup`` opens a turn of its own, ``steer`` enters the running one, ``inject`` rides along (D1).
    """

    id: str | None = None
    text: str | None = None
    content: list[dict[str, Any]] | None = None
    mode: Literal["followup", "steer", "inject"] = "followup"

    def blocks(self) -> tuple[Block, ...] | str:
        """What it says.

        Raises:
            Refused: both or neither of text and content are given, or a block is wrong.
        """
        if (self.text is None) == (self.content is None):
            raise Refused(422, "INVALID_MESSAGE", "give either text or content")
        return self.text if self.text is not None else blocks_of(self.content or [])


class Edit(_Asked, frozen=True):
    """The new text of a pending message."""

    text: str


class Order(_Asked, frozen=True):
    """The ids of all messages that wait for a turn, in the order that they shall have."""

    ids: list[str]


class Cancelling(_Asked, frozen=True):
    """What to stop: the turn alone (``keepInbox``), or the turn and what is pending (C1)."""

    keep_inbox: bool = False


class MaintenanceAsked(_Asked, frozen=True):
    """A task between turns, by the name that the application gave it (M1)."""

    task: str


class AnswerTo(_Asked, frozen=True):
    """The answer to a call that waits for approval."""

    approved: bool


class SessionView(_Told, frozen=True):
    """A session. ``state`` and ``status`` are told of live ones; times are milliseconds since the epoch."""

    id: str
    created_at: int
    live: bool
    title: str = ""
    status: str | None = None
    state: str | None = None
    modified: int | None = None
    events: int | None = None
    parent: str | None = None
    preset: str | None = None


class SessionList(_Told, frozen=True):
    """Sessions, newest first. ``next`` is where the next page begins, when there is one."""

    sessions: list[SessionView]
    next: str | None = None
    unreadable: int = 0


class MessageFate(_Told, frozen=True):
    """What became of a message.

    Attributes:
        fate: ``pending``, ``admitted`` or ``rejected``.
        turn: the turn that it entered.
        reason: why it was rejected.
        duplicate: whether it had been delivered before, and was not delivered again.
    """

    id: str
    fate: Literal["pending", "admitted", "rejected"]
    turn: int | None = None
    reason: str | None = None
    duplicate: bool = False


class InboxView(_Told, frozen=True):
    """The pending messages (§3)."""

    next_turn: tuple[UserMessage, ...]
    next_step: tuple[UserMessage, ...]


class Applied(_Told, frozen=True):
    """A change was made."""

    applied: bool = True


def blocks_of(content: list[dict[str, Any]]) -> tuple[Block, ...]:
    """Blocks from their JSON.

    Raises:
        Refused: one is none, or of a kind that is unknown here.
    """
    try:
        return tuple([BLOCKS.build(block) for block in content])
    except InvalidData as error:
        raise Refused(422, "INVALID_MESSAGE", f"a content block is wrong: {error}") from error


def live_view(agent: Agent) -> SessionView:
    """A live session."""
    header, session = agent.session.header, agent.session
    title = next((told for told in map(title_of, session.events) if told), "")
    return SessionView(
        header.id, header.created_at, True, title, agent.status, agent.state.value, None,
        len(session), header.parent_session, header.agent_preset,
    )  # fmt: skip


def stored_view(listed: Listed) -> SessionView:
    """A session of the store that no agent drives."""
    header = listed.header
    return SessionView(
        header.id, header.created_at, False, listed.title, None, None, listed.modified, listed.events,
        header.parent_session, header.agent_preset,
    )  # fmt: skip
