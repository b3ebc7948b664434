"""The kit on every store that ships, and on stores that break a promise."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from treadle import Event, MemoryStore, SessionHeader
from treadle.session import BatchWriter, Listing, OpenSession, SessionStore, StoredSession
from treadle.session.memory import Kept
from treadle_specs.kits import check_store
from treadle_specs.kits.store import checks_for, run_check
from treadle_specs.kits.store_bench import Check

from .makers import KINDS, MEMORY, Kind

CASES = [
    pytest.param(kind, check, id=f"{kind}-{check.__name__}") for kind in KINDS for check in checks_for(kind.faults)
]


@pytest.mark.rule("P1", "P2", "P3", "P5", "P6", "S11")
@pytest.mark.parametrize(("kind", "check"), CASES)
def test_a_store_keeps_each_promise(kind: Kind, check: Check) -> None:
    run_check(check, kind.make, kind.faults)


# --- stores that break one promise each -------------------------------------------------------------------------------


class Forgetful(MemoryStore):
    """Says that events are durable, and drops the last one of each batch."""

    def _writer(self, id: str, kept: Kept) -> BatchWriter:
        writer = super()._writer(id, kept)
        write = writer._sink.write

        async def forget(first: int, records: Sequence[bytes], durable: bool) -> bool:
            return await write(first, records[:-1], durable)

        writer._sink.write = forget  # type: ignore[method-assign]
        return writer


class Eager(MemoryStore):
    """Batches nothing."""

    def __init__(self, shelf: dict[str, Kept]) -> None:
        super().__init__(shelf, window=0)


class Lazy(MemoryStore):
    """Never writes in the background."""

    def __init__(self, shelf: dict[str, Kept]) -> None:
        super().__init__(shelf, window=1e9)


class Lawless(MemoryStore):
    """Lets any number of writers in."""

    async def open_write(self, session_id: str) -> OpenSession:
        kept = self.shelf.get(session_id)
        if kept is not None:
            kept.owner = None
        return await super().open_write(session_id)


class Overwriting(MemoryStore):
    """Takes an id twice."""

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> BatchWriter:
        self.shelf.pop(header.id, None)
        return await super().create(header, events)


class Lenient(MemoryStore):
    """Hides damage."""

    async def open_read(self, session_id: str) -> StoredSession:
        return await self.inspect(session_id)


class Blind(MemoryStore):
    """Leaves out of its listing what it cannot read."""

    async def list(self) -> Listing:
        return Listing((await super().list()).sessions)


class Marking(MemoryStore):
    """Adds something whenever a session is opened."""

    async def open_write(self, session_id: str) -> OpenSession:
        opened = await super().open_write(session_id)
        self.shelf[session_id].records.append(b"{}")
        return opened


class Trusting(MemoryStore):
    """Takes any id."""

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> BatchWriter:
        await trio.lowlevel.checkpoint()
        kept = self.shelf[header.id] = Kept(b"", [])
        return self._writer(header.id, kept)


@pytest.mark.rule("P1", "P2", "P3", "P6")
@pytest.mark.parametrize(
    ("broken", "caught"),
    [
        (Forgetful, "every_text_comes_back"),
        (Eager, "live_events_wait_for_a_window_only"),
        (Lazy, "live_events_wait_for_a_window_only"),
        (Lawless, "a_second_writer_is_refused"),
        (Overwriting, "an_id_is_stored_once"),
        (Lenient, "damage_before_the_tail_is_corruption"),
        (Blind, "other_formats_are_no_corruption"),
        (Marking, "opening_adds_nothing"),
        (Trusting, "hostile_ids_are_refused_first"),
    ],
)
def test_a_store_that_breaks_a_promise_is_caught_by_its_check(
    broken: Any, caught: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle_specs.kits.store_bench.PATIENCE", 0.1)
    shelves: dict[Path, dict[str, Kept]] = {}

    def make(directory: Path) -> SessionStore:
        return broken(shelves.setdefault(directory, {}))

    faults = MEMORY.faults
    if broken is Lenient:
        from treadle_specs.kits import Faults

        def spoil(directory: Path, session_id: str) -> None:
            shelves[directory][session_id].records[3] = b"{"

        faults = Faults(spoil=spoil)
    check = next(check for check in checks_for(faults) if check.__name__ == caught)
    with pytest.raises(AssertionError, match=caught):
        run_check(check, make, faults)


@pytest.mark.rule("P1")
def test_the_kit_is_one_call() -> None:
    check_store(MEMORY.make, MEMORY.faults)
    check_store(MEMORY.make)
