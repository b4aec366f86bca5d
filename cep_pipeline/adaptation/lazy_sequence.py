"""Sequences whose items are made when somebody asks for them: decisions are many, and few of them are read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

Item = TypeVar("Item")


class LazySequence(Sequence[Item]):
    """A sequence that makes its items; it equals any sequence of the same items."""

    @abstractmethod
    def item(self, place: int) -> Item:
        """The item at a place from 0 on."""

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        places = range(len(self))[place]
        return self.item(places) if isinstance(places, int) else tuple(map(self.item, places))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
