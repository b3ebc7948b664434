"""A rig inside the tester's process, which can also be advanced tick by tick, in a drawn order of tasks (§4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..exploration.task_order import Order
from ..exploration.violation import Violation
from ..logs.checker import check_events
from ..rig.desk import Desk
from .ledger import Json

TICKS = "tick"
"""The feature of rigs that know the verbs ``tick`` and ``look``."""


class Rig(Protocol):
    """What a tester needs of a driver: the rig protocol, however it is spoken."""

    def ask(self, request: Json) -> Json:
        """The reply to one request."""
        ...

    def stop(self) -> None:
        """End the driver."""
        ...

    def close(self, *, kill: bool = False) -> None:
        """End the driver by a close, or by a kill where it has a process: nothing is wound down."""
        ...


MakeRig = Callable[[], Rig]


class SteppedDesk(Desk):
    """A desk with two verbs more: ``tick`` lets the loop run a little, ``look`` reports without letting it run.

    ``{"do": "tick", "count": 3, "order": [1, 0]}`` runs three batches of tasks; the integers decide the order within
    them. ``settle`` takes an ``order``, too.
    """

    def __init__(self) -> None:
        super().__init__(Order())
        self._verbs |= {"tick": self._tick, "look": self._look, "settle": self._ordered}

    def _hello(self, request: Json) -> Json:
        told = super()._hello(request)
        return {**told, "features": [*told["features"], TICKS]}

    def _tick(self, request: Json) -> Json:
        self.stepper.order.feed(request.get("order") or ())
        self.stepper.tick(request["count"])
        return self._look(request)

    def _look(self, request: Json) -> Json:
        return self._seat(request).report()

    def _ordered(self, request: Json) -> Json:
        self.stepper.order.feed(request.get("order") or ())
        return self._settle(request)

    @property
    def agents(self) -> list[Any]:
        """The agents of this desk."""
        return [seat.agent for seat in self._seats.values()]


class LocalRig:
    """Our own driver in this process."""

    def __init__(self) -> None:
        self.desk = SteppedDesk()

    def ask(self, request: Json) -> Json:
        """The reply to one request."""
        return self.desk.ask(request)

    def drop(self) -> None:
        """Give up a driver that broke: whatever it comes to is thrown away."""
        self.desk.stepper.drop()

    def close(self, *, kill: bool = False) -> None:
        """End by a close; the process is the tester's own, and not killed."""
        del kill
        self.ask({"do": "close"})
        self.desk.stepper.abandon()

    def stop(self) -> None:
        """Wind everything down.

        Raises:
            Violation: a log that the run leaves breaks a rule.
        """
        sessions = [agent.session for agent in self.desk.agents]
        self.desk.leave()
        for session in sessions:
            for found in check_events(session.events, header=session.header, finished=True).findings:
                raise Violation(found.rule, str(found))
