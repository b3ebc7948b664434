"""Times of a log whose clock was set back: no duration is negative, and it is said once.

A log tells the time of the wall. Where it steps back, what is drawn goes on as if it had stood still for that moment.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from attrs import define

from treadle import Event

from ..drawing.units import duration


@define
class SteadyClock:
    """Takes the events of a log in order.

    Attributes:
        ahead: milliseconds by which the times it gives are ahead of those of the log.
        last: the time of the last event, as given.
    """

    ahead: int = 0
    last: int | None = None

    def take(self, entry: Event) -> Event:
        """The event, with a time that is not before that of the one before."""
        time = entry.time + self.ahead
        if self.last is not None and time < self.last:
            self.ahead += self.last - time
            time = self.last
        self.last = time
        return entry if not self.ahead else msgspec.structs.replace(entry, time=time)


def steadied(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events of a log, with times that never go back."""
    clock = SteadyClock()
    return tuple([clock.take(entry) for entry in events])


def set_back_text(milliseconds: int) -> str:
    """What is said once of a clock that was set back."""
    return f"the clock was set back by {duration(milliseconds)} here: times that follow are told as if it had not been"
