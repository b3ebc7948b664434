"""The items of a response, found again by whatever an event names them with (Q5, Q13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from attrs import define, field

from .shapes import as_text
from .tellings import MAX_TELLINGS, Telling, contradiction
from .writer import MAX_NAME, too_much

MAX_ITEMS = 10_000
"""How many items one answer may have (X3)."""

Channel = Literal["text", "summary", "thought"]
"""Which of an item's texts a part belongs to: what is said, a summary of reasoning, or reasoning itself."""


def _arguments() -> Telling:
    return Telling("the arguments of a call", json=True)


@define(eq=False)
class Item:
    """One item of the output under way.

    Attributes:
        kind: ``message``, ``reasoning``, ``function_call`` or another word of the protocol.
        parts: its texts, by channel and place.
        arguments: what a call is called with.
        call_id: the id that a call's result names.
        name: the tool's name.
        block: the block that its call is written to, once it has one.
        opened: whether its start was told.
        closed: whether its end was told.
        place: where it stands in the output, if that was told.
        named: whether it has an id.
        current: the part of each channel whose start was told last.
        tellings: how often it was told whole.
    """

    kind: str
    parts: dict[tuple[Channel, int], Telling] = field(factory=dict[tuple[Channel, int], Telling])
    arguments: Telling = field(factory=_arguments)
    call_id: str = ""
    name: str = ""
    block: int | None = None
    opened: bool = False
    closed: bool = False
    place: int | None = None
    named: bool = False
    current: dict[Channel, int] = field(factory=dict[Channel, int])
    tellings: int = 0

    def begin_part(self, channel: Channel, place: int | None) -> None:
        """Take the start of a part; without a place it is the next."""
        self.current[channel] = self.current.get(channel, -1) + 1 if place is None else place

    def part(self, channel: Channel, place: int) -> Telling:
        """One of its texts."""
        found = self.parts.get((channel, place))
        if found is None:
            if len(self.parts) >= MAX_ITEMS:
                raise too_much(f"more than {MAX_ITEMS} parts in one item")
            found = self.parts[channel, place] = Telling("a text")
        return found

    def told(self, channel: Channel) -> str:
        """All texts of one channel, joined."""
        return "".join([self.parts[key].text for key in sorted(self.parts) if key[0] == channel])

    def count_telling(self) -> None:
        """Count one more telling of the whole item.

        Raises:
            ModelFailure: there are too many (X3).
        """
        self.tellings += 1
        if self.tellings > MAX_TELLINGS:
            raise too_much(f"an item of its answer more than {MAX_TELLINGS} times")

    def identify(self, told: dict[str, Any]) -> None:
        """Take a call's id and its tool's name, where ``told`` gives them.

        Raises:
            ModelFailure: one of them is too long (X3), or the tool is another than was told before (Q13).
        """
        call_id, name = as_text(told.get("call_id")), as_text(told.get("name"))
        if len(call_id) > MAX_NAME or len(name) > MAX_NAME:
            raise too_much(f"a call's id or name of more than {MAX_NAME} characters")
        if name and self.name and name != self.name:
            raise contradiction(f"told two tools for one call, {self.name!r} and {name!r}")
        self.call_id = self.call_id or call_id
        self.name = self.name or name


class Items:
    """The items of one response, in the order of their first mention.

    An event names its item by id, by place, by both or by neither. An id is believed before a place, for some servers
    give every item the place 0; a place before a call's id, for some give an item another id in each event.
    """

    def __init__(self) -> None:
        self._all: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._by_place: dict[tuple[str, int], Item] = {}
        self._by_call: dict[str, Item] = {}
        self._latest: dict[str, Item] = {}

    def __iter__(self) -> Iterator[Item]:
        return iter(self._all)

    def opened(self, kind: str, event: dict[str, Any], item: dict[str, Any]) -> Item:
        """The item whose start is told: a new one, unless deltas of it came before its start."""
        found = self._named(kind, event, item)
        if found is None or (found.opened and as_text(item.get("id")) not in self._by_id):
            found = self._new(kind)
        found.opened = True
        return self._known(found, event, item)

    def mentioned(self, kind: str, event: dict[str, Any]) -> Item:
        """The item that an event adds to: the one it names; where it names none, the latest of its kind."""
        found = self._named(kind, event, {})
        if found is None and not isinstance(event.get("output_index"), int) and not _names(event, {}):
            found = self._open(kind)
        return self._known(found or self._new(kind), event, {})

    def ended(self, kind: str, event: dict[str, Any], item: dict[str, Any]) -> Item:
        """The item whose end is told: the one it names, else the latest of its kind, if nothing tells them apart."""
        found = self._named(kind, event, item)
        if found is not None and found.closed and as_text(item.get("id")) not in self._by_id:
            found = None
        if found is None:
            found = self._open(kind)
            if found is not None and found.named and _names(event, item):
                found = None
        return self._known(found or self._new(kind), event, item)

    def listed(self, output: list[dict[str, Any]]) -> list[Item]:
        """The items that the whole answer lists: by id, by a call's id, else as the first, second, … of their kind."""
        known: dict[str, list[Item]] = {}
        for item in self._all:
            known.setdefault(item.kind, []).append(item)
        for same in known.values():
            if all([item.place is not None for item in same]):
                same.sort(key=lambda item: item.place or 0)
        numbers: dict[str, int] = {}
        found: list[Item] = []
        for told in output:
            kind = as_text(told.get("type"))
            number = numbers[kind] = numbers.get(kind, -1) + 1
            item = self._by_id.get(as_text(told.get("id"))) or self._by_call.get(as_text(told.get("call_id")))
            if item is None or item.kind != kind:
                same = known.get(kind, [])
                item = same[number] if number < len(same) else self._new(kind)
            found.append(self._known(item, {}, told))
        return found

    def _open(self, kind: str) -> Item | None:
        latest = self._latest.get(kind)
        return None if latest is None or latest.closed else latest

    def _named(self, kind: str, event: dict[str, Any], item: dict[str, Any]) -> Item | None:
        for name in _names(event, item):
            if name in self._by_id and self._by_id[name].kind == kind:
                return self._by_id[name]
        place = event.get("output_index")
        if isinstance(place, int) and (kind, place) in self._by_place:
            return self._by_place[kind, place]
        found = self._by_call.get(as_text(item.get("call_id")) or as_text(event.get("call_id")))
        return found if found is not None and found.kind == kind else None

    def _new(self, kind: str) -> Item:
        if len(self._all) >= MAX_ITEMS:
            raise too_much(f"more than {MAX_ITEMS} items in one answer")
        found = self._latest[kind] = Item(kind)
        self._all.append(found)
        return found

    def _known(self, found: Item, event: dict[str, Any], item: dict[str, Any]) -> Item:
        for name in _names(event, item):
            self._by_id[name[:MAX_NAME]] = found
            found.named = True
        place = event.get("output_index")
        if isinstance(place, int):
            self._by_place[found.kind, place] = found
            found.place = place
        call = as_text(item.get("call_id"))
        if call:
            self._by_call[call[:MAX_NAME]] = found
        return found


def _names(event: dict[str, Any], item: dict[str, Any]) -> list[str]:
    return [name for name in (as_text(event.get("item_id")), as_text(item.get("id"))) if name]
