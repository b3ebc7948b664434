"""What a driver has: one short session before the search, so that nothing is drawn that it lacks (§7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from attrs import define

from ..protocol.fault import RigFault
from .drawn import GATES, TOOLS, text
from .ledger import Json, items
from .local import MakeRig, Rig

OPTION = "max_parallel_tool_calls"
_PROBES: tuple[tuple[str, tuple[Json, ...]], ...] = (
    ("inbox", ({"do": "inbox", "op": "append", "target": "next-turn", "message": text("probe")},
               {"do": "inbox", "op": "prepend", "target": "next-step", "message": text("probe2")},
               {"do": "inbox", "op": "splice", "target": "next-step", "start": 0, "delete_count": 0, "inserted": []},
               {"do": "inbox", "op": "replace", "message_id": "probe2", "message": text("probe3")},
               {"do": "inbox", "op": "remove", "message_id": "probe3"}, {"do": "inbox", "op": "clear"})),
    ("listen", ({"do": "listen", "on": "turn/start", "nth": 99, "request": {"do": "cancel"}},)),
)  # fmt: skip


@define
class Survey:
    """What a rig tells of its driver.

    Attributes:
        driver: name and version.
        features: words of ``hello``.
        lacks: verbs, options and kinds of gates that it does not have.
        unable: why nothing can be judged, in one sentence; empty when something can.
        refused: ``open`` was refused, and not for something that the driver lacks.
        fault: the rig does not keep to the protocol.
    """

    driver: str = "unnamed"
    features: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()
    unable: str = ""
    refused: bool = False
    fault: RigFault | None = None

    @property
    def judgeable(self) -> bool:
        """Whether a search makes sense."""
        return not self.unable and self.fault is None


class Session:
    """One rig for a few requests, numbered; leaving it gives the rig up where it stands."""

    def __init__(self, make_rig: MakeRig) -> None:
        self._rig: Rig = make_rig()
        self._count = 0

    def ask(self, request: Json) -> Json:
        """The reply to one request."""
        self._count += 1
        return self._rig.ask({"id": self._count, **request})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        drop: Callable[[], None] = getattr(self._rig, "drop", self._rig.stop)
        drop()


def survey(make_rig: MakeRig, *, core: bool = False) -> Survey:
    """Look at a driver.

    Args:
        make_rig: starts it.
        core: ask for nothing beyond the core.
    """
    found = Survey()
    try:
        with Session(make_rig) as session:
            _look(found, session, make_rig, core=core)
    except RigFault as fault:
        found.fault = fault
    return found


def _look(found: Survey, session: Session, make_rig: MakeRig, *, core: bool) -> None:
    hello = session.ask({"do": "hello"})
    if not hello.get("ok"):
        found.unable = f"`hello` is refused: {_why(hello)}"
        return
    driver: Json = hello.get("driver", {})
    found.driver = f"{driver.get('name', 'unnamed')} {driver.get('version', '')}".strip()
    found.features = frozenset(items(hello, "features"))
    found.lacks = frozenset(items(hello, "lacks"))
    opened = _open(found, session, make_rig, core=core)
    if not opened.get("ok"):
        lacking = code_of(opened) == "unsupported"
        found.refused = not lacking
        found.unable = f"`open` is {'unsupported' if lacking else 'refused'}: {_why(opened)}"
        return
    for word, requests in _PROBES if not core else ():
        if word not in found.lacks and any(code_of(session.ask(request)) == "unsupported" for request in requests):
            found.lacks |= {word}
    waking: Json = {"do": "deliver", "message": text("m"), "target": "next-turn", "wakeup": True}
    if code_of(session.ask(waking)) == "unsupported":
        found.unable = "`deliver` is unsupported: no turn can be opened"


def _open(found: Survey, session: Session, make_rig: MakeRig, *, core: bool) -> Json:
    """Open with everything, or with all that is not unsupported when it is asked for alone."""
    gates = [kind for kind in (("tool",) if core else GATES) if kind not in found.lacks]
    options: Json = {} if core or OPTION in found.lacks else {OPTION: 2}
    reply = session.ask(_opening(gates, options))
    if code_of(reply) != "unsupported":
        return reply
    if options and _unsupported(make_rig, [], options):
        found.lacks |= {OPTION}
        options = {}
    found.lacks |= {kind for kind in gates if _unsupported(make_rig, [kind], {})}
    return session.ask(_opening([kind for kind in gates if kind not in found.lacks], options))


def _unsupported(make_rig: MakeRig, gates: list[str], options: Json) -> bool:
    with Session(make_rig) as session:
        session.ask({"do": "hello"})
        return code_of(session.ask(_opening(gates, options))) == "unsupported"


def _opening(gates: list[str], options: Json) -> Json:
    return {"do": "open", "session": "s1", "gates": gates, "tools": TOOLS, "options": options}


def code_of(reply: Json) -> str | None:
    """Why a reply is a refusal; nothing when it is none."""
    error: Json = reply.get("error") or {}
    return error.get("code", "") if not reply.get("ok") else None


def _why(reply: Json) -> str:
    error: Json = reply.get("error") or {}
    return f"{error.get('message') or error.get('code')}"
