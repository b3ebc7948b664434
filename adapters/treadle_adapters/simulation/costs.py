"""What each statement of a replica takes from the database: one table, measured."""

from __future__ import annotations

from attrs import frozen


@frozen
class Statement:
    """What a statement costs.

    Attributes:
        name: what it does.
        begins: how its text begins, blanks collapsed; this is how it is recognised.
        processor: milliseconds of one processor of the server.
        row: the same for each row that it returns or changes.
        waits: milliseconds that pass beside: the way back, and a commit on disk.
        row_waits: the same for each row.
    """

    name: str
    begins: str
    processor: float
    row: float = 0.0
    waits: float = 0.1
    row_waits: float = 0.0

    def seconds(self, rows: int) -> tuple[float, float]:
        """Seconds of a processor, and beside it, for so many rows."""
        return (self.processor + self.row * rows) / 1000, (self.waits + self.row_waits * rows) / 1000


STATEMENTS = (
    Statement("enter a replica", "insert into replicas", 0.2, waits=0.2),
    Statement("beat", "update replicas set beat", 0.2, waits=0.2),
    Statement("look at all beats", "select id, beat, lease from replicas", 0.04, row=0.00045),
    Statement("bury", "update replicas set dead = true where id = %s and beat", 0.04),
    Statement("is it buried?", "select dead from replicas", 0.03),
    Statement("leave", "update replicas set dead = true where id = %s", 0.2, waits=0.2),
    Statement("forget who owns nothing", "delete from replicas", 0.1, row=0.2),
    Statement("who has left sessions behind?", "select id from replicas where dead", 0.06, row=0.007),
    Statement("claim", "update sessions set owner = %(me)s", 0.05, row=0.02, waits=0.2, row_waits=0.045),
    Statement("let go of a session", "update sessions set owner = null", 0.2, waits=0.2),
    Statement("look for letters", "select m.session, s.epoch", 0.06),
    Statement("look for letters to nobody's sessions", "select distinct m.session", 0.06),
    Statement("open a session", "open", 0.52, waits=0.4),
    Statement("write an event", "append", 0.2, waits=0.2),
)
"""Processor times are those that the server's process used, by the kernel's count, on PostgreSQL 15 with 1,000 replicas
and 240,000 sessions; whole times are those of the prototype on a quiet machine of two processors: 0.4 ms for a commit of one
row, 14,000 claims a second by hundreds. Where only one of the two was measured, a commit takes 0.2 ms beside its processor
time, and the way there and back 0.1 ms."""

SPREAD = 0.3
"""Of the logarithm of each time: the slowest of a hundred takes twice the median, as was measured."""
RESUMING = 0.002
"""Seconds of the replica's own processor to resume one session."""
