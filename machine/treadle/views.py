"""Read-only views of lists that only grow: a snapshot without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar, overload

from attrs import define

T = TypeVar("T")


@define(eq=False, repr=False)
class Snapshot(Sequence[T], Generic[T]):
    """The first ``length`` items of a list that is only ever appended to; later items stay out of sight."""

    _items: list[T]
    _length: int

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return self._items[: self._length][index]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"index out of the {self._length} items of this snapshot")
        return self._items[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (Snapshot, list, tuple)):
            return list(self) == list(other)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Snapshot({list(self)!r})"
