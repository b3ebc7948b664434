"""Dynamic contexts: durable user-role snapshots, made only when something changed (R1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from attrs import define, field

from ..ids import new_id
from ..words.events import Replace, UserMessageAdded
from ..words.messages import SOURCES, Source, Text, UserMessage

if TYPE_CHECKING:
    from ..session.log import Session


@SOURCES.register
class ContextSource(msgspec.Struct, Source, frozen=True, gc=False, rename="camel", tag_field="kind", tag="context"):
    """A dynamic context of the prompt; ``name`` says which (R1)."""

    name: str


@define(eq=False)
class Snapshots:
    """What the model was last told under each name.

    It is read from the log: so it holds after a resume, and a snapshot that a hook took out, or that left the history,
    is made again.

    Attributes:
        seen: events of the log that were looked at.
        latest: the text last told, by the context's name.
    """

    seen: int = 0
    latest: dict[str, str] = field(factory=lambda: {})

    def follow(self, session: Session) -> None:
        """Look at the events that came since the last time; costs those only."""
        seen, self.seen = self.seen, len(session)
        if seen == self.seen:
            return
        fresh = session.events[seen:] if seen >= session.base else ()
        if seen < session.base or any([type(entry.surface_op) is Replace for entry in fresh]):
            self.latest.clear()
            for message in session.surface.messages:
                if isinstance(message, UserMessage):
                    self._note(message)
            return
        for entry in fresh:
            if type(entry.data) is UserMessageAdded:
                self._note(entry.data.message)

    def _note(self, message: UserMessage) -> None:
        if isinstance(message.source, ContextSource):
            self.latest[message.source.name] = "".join([part.text for part in message.content if type(part) is Text])

    def changed(self, name: str, text: str | None) -> UserMessage | None:
        """The snapshot to enter, ``None`` where the model knows it already or there is nothing to say."""
        if not text or self.latest.get(name) == text:
            return None
        return UserMessage(new_id(), (Text(text),), ContextSource(name))
