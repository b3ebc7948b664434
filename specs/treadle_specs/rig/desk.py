"""The desk: serves one request after the other; the driver advances only while it settles."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, cast

import treadle
from treadle import Agent, Host, Signal

from ..exploration.stepper import Stepper
from ..exploration.task_order import Order
from .gates import Gates
from .model import GatedModel
from .protocol import (
    FEATURES,
    PROTOCOL,
    Json,
    Refusal,
    cause_of,
    given,
    message_of,
    messages_of,
    one_of,
    refusal_of,
    refuse,
)
from .seat import Seat
from .stores import Shelf, available, shelf_key

TARGETS = ("next-turn", "next-step")
FIRST = "main"


class Desk:
    """One rig: a host, its agents, and the verbs of the protocol.

    Args:
        order: decides the order of tasks; oldest first unless given.
    """

    def __init__(self, order: Order | None = None) -> None:
        self.stepper = Stepper(order)
        self.closed = self.again = False
        self._numbers = count(1)
        self._places = count(1)
        self._gates = Gates(lambda: next(self._numbers))
        self._seats: dict[str, Seat] = {}
        self._sessions: dict[str, Seat] = {}
        self._hosts: dict[tuple[str, Path | None], tuple[Shelf, Host]] = {}
        self._verbs: dict[str, Callable[[Json], Json]] = {
            "hello": self._hello,
            "open": self._open,
            "deliver": self._deliver,
            "inbox": self._inbox,
            "cancel": self._cancel,
            "reserve": self._reserve,
            "release": self._release,
            "update": self._update,
            "maintain": self._maintain,
            "dispose": self._dispose,
            "listen": self._listen,
            "settle": self._settle,
            "pass": self._pass,
            "flush": self._flush,
            "close": self._close,
        }

    def ask(self, request: object) -> Json:
        """Serve one request; the reply says whether it was served, and why not."""
        if type(request) is not dict:
            return _refused(None, Refusal("invalid", "a request is a JSON object"))
        asked = cast("Json", request)
        try:
            return {"id": asked.get("id"), "ok": True, **self._serve(asked)}
        except Exception as error:
            refusal = refusal_of(error)
            if refusal.code == "internal":
                traceback.print_exc(file=sys.stderr)
            return _refused(asked.get("id"), refusal)

    def _serve(self, request: Json) -> Json:
        verb = given(request, "do", str)
        if verb not in self._verbs:
            refuse("unsupported", f"there is no verb {verb!r}")
        return self._verbs[verb](request)

    def leave(self) -> None:
        """End everything in this process: stubborn gates open, agents are disposed, the run ends."""
        self._gates.leave()
        self.stepper.finish()

    # --- the rig itself -----------------------------------------------------------------------------------------------

    def _hello(self, request: Json) -> Json:
        del request
        driver = {"name": "treadle", "version": treadle.__version__}
        return {"protocol": PROTOCOL, "driver": driver, "features": [*FEATURES, *available()]}

    def _open(self, request: Json) -> Json:
        name = given(request, "agent", str, FIRST)
        known = self._seats.get(name)
        if known is not None and known.agent.state is not treadle.State.DISPOSED:
            refuse("busy", f"agent {name!r} is open already")
        session, resume = given(request, "session", str), given(request, "resume", bool, False)
        kind, path = shelf_key(request)
        seat = Seat(next(self._places), request, self._gates, lambda: next(self._numbers))
        shelf, host = self._hosts.get((kind, path)) or self._enter(kind, path)

        async def create() -> treadle.AgentHandle:
            if resume:
                return await host.agents.resume(session, agent_options=seat.options, setup=seat.setup)
            return await host.agents.create(session_id=session, agent_options=seat.options, setup=seat.setup)

        seat.opened(self.stepper.run(create))
        self._seats[name] = self._sessions[session] = seat
        return shelf.artifact(session)

    def _enter(self, kind: str, path: Path | None) -> tuple[Shelf, Host]:
        shelf = Shelf(kind, path)
        host = self.stepper.enter(Host(store=shelf.store))
        host.models.register("rig", GatedModel(self._gates, self._attempt))
        self._hosts[kind, path] = shelf, host
        return shelf, host

    def _attempt(self, session: str) -> tuple[int, Json]:
        seat = self._sessions[session]
        return seat.number, seat.attempt()

    def _seat(self, request: Json) -> Seat:
        name = given(request, "agent", str, next(iter(self._seats), FIRST))
        if name not in self._seats:
            refuse("not-found", f"no agent {name!r} is open")
        return self._seats[name]

    def _agent(self, request: Json) -> Agent:
        return self._seat(request).agent

    def _settle(self, request: Json) -> Json:
        seat = self._seat(request)
        self.stepper.settle()
        return seat.report()

    def _pass(self, request: Json) -> Json:
        self._gates.passed(request)
        return {}

    def _flush(self, request: Json) -> Json:
        session = self._agent(request).id
        for shelf, _ in self._hosts.values():
            if session in shelf.writers:
                self.stepper.run(shelf.writers[session].flush)
        return {}

    def _close(self, request: Json) -> Json:
        self.again = given(request, "reset", bool, False)
        for seat in self._seats.values():
            seat.agent.session.mirror(None)  # what is recorded while the loop runs for the last time comes too late
        for shelf, _ in self._hosts.values():
            for writer in shelf.writers.values():
                self.stepper.run(writer.close)
            self.stepper.run(shelf.store.close)
        self.closed = True
        return {}

    # --- the agent ----------------------------------------------------------------------------------------------------

    def _deliver(self, request: Json) -> Json:
        agent = self._agent(request)
        message = message_of(request.get("message"))
        target = one_of(request, "target", TARGETS)
        agent.send(message, cast("Any", target), given(request, "wakeup", bool))
        return {}

    def _inbox(self, request: Json) -> Json:
        inbox = self._agent(request).inbox
        match given(request, "op", str):
            case "append":
                inbox.append(self._target(request), message_of(request.get("message")))
            case "prepend":
                inbox.prepend(self._target(request), message_of(request.get("message")))
            case "replace":
                message = message_of(request.get("message"))
                return {"pending": inbox.replace(given(request, "message_id", str), message)}
            case "remove":
                return {"pending": inbox.remove(given(request, "message_id", str))}
            case "splice":
                start, some = given(request, "start", int), given(request, "delete_count", int)
                removed = inbox.splice(self._target(request), start, some, messages_of(request, "inserted"))
                return {"removed": [message.id for message in removed]}
            case "clear":
                inbox.clear()
            case op:
                refuse("unsupported", f"there is no inbox operation {op!r}")
        return {}

    def _target(self, request: Json) -> Any:
        return one_of(request, "target", TARGETS)

    def _cancel(self, request: Json) -> Json:
        agent = self._agent(request)
        agent.cancel(cause_of(request), keep_inbox=given(request, "keep_inbox", bool, False))
        return {}

    def _reserve(self, request: Json) -> Json:
        seat = self._seat(request)
        release = seat.agent.reserve_turn_admission()
        if release is not None:
            seat.release = release
        return {"reserved": release is not None}

    def _release(self, request: Json) -> Json:
        release = self._seat(request).release
        if release is not None:
            release()
        return {}

    def _update(self, request: Json) -> Json:
        agent = self._agent(request)
        action = one_of(request, "action", ("edit", "remove", "steer"))
        text = given(request, "text", str) if action == "edit" else None
        return {"outcome": agent.update_inbox(given(request, "message_id", str), cast("Any", action), text)}

    def _maintain(self, request: Json) -> Json:
        seat = self._seat(request)

        async def task(signal: Signal) -> Any:
            return await self._gates.wait_at("maintenance", {}, signal, seat.number)

        seat.agent.run_maintenance(task)
        return {}

    def _dispose(self, request: Json) -> Json:
        seat = self._seat(request)
        assert seat.handle is not None
        seat.handle.dispose(keep_inbox=given(request, "keep_inbox", bool, False))
        return {}

    def _listen(self, request: Json) -> Json:
        seat = self._seat(request)
        nth = given(request, "nth", int, 1)
        if nth < 1:
            refuse("invalid", f"'nth' counts from 1, not {nth}")
        act = cast("Json", given(request, "request", dict))
        verb = given(act, "do", str)
        if verb == "raise":
            seat.listen(given(request, "on", str), nth, None)
            return {}
        if verb not in self._verbs or verb in ("hello", "open", "settle", "flush", "close"):
            refuse("unsupported", f"a listener cannot {verb!r}")
        if "agent" in request:
            act = {"agent": request["agent"], **act}
        seat.listen(given(request, "on", str), nth, lambda: self._act(act))
        return {}

    def _act(self, request: Json) -> None:
        """Serve a request inside a listener; a refusal is ignored, as the protocol says."""
        reply = self.ask(request)
        if not reply["ok"]:
            print("inside a listener:", reply["error"], file=sys.stderr)  # noqa: T201 (stderr is free for logs)


def _refused(number: object, refusal: Refusal) -> Json:
    return {"id": number, "ok": False, "error": {"code": refusal.code, "message": str(refusal)}}
