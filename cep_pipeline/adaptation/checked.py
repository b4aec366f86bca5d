"""What was found of invariants: one by one where somebody asks, and beforehand only whether one is violated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from cep_pipeline.adaptation.invariants import Invariant

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """An invariant on fresh statistics.

    Attributes
    ----------
    left, right
        Natural logarithms of f1, what was chosen, and f2, what it was chosen over.
    distance
        The minimal distance d that it was verified with.
    distance_to_violation
        ln((1 + d) f2 / f1): how far f1 may still grow beside f2; negative where it is violated, and 0 at a tie.
    violated
        Whether it no longer holds.
    """

    invariant: Invariant
    left: float
    right: float
    distance: float
    violated: bool

    @property
    def distance_to_violation(self) -> float:
        return self.right - self.left + math.log1p(self.distance)


class CheckedPart:
    """Invariants of one clause as one program has measured them.

    Attributes
    ----------
    invariants, count
        The invariants, and how many of them count.
    distances
        The minimal distance of all, or of each.
    registers
        What the program has measured.
    sides
        int64, shape (invariants, 3): the registers of both sides, and whether the chosen one wins ties.
    violations
        The places of those that are violated.
    """

    __slots__ = ("count", "distances", "invariants", "registers", "sides", "violations")

    def __init__(
        self,
        invariants: Sequence[Invariant],
        count: int,
        distances: float | Sequence[float],
        registers: Array,
        sides: Array,
        violations: Sequence[int],
    ) -> None:
        self.invariants, self.count, self.distances = invariants, count, distances
        self.registers, self.sides, self.violations = registers, sides, violations

    def verification(self, place: int) -> Verification:
        """One of them by its place."""
        left, right, _ = self.sides[place].tolist()
        distance = self.distances if isinstance(self.distances, int | float) else self.distances[place]
        sides = float(self.registers[left]), float(self.registers[right])
        return Verification(self.invariants[place], *sides, distance, place in self.violations)


class Checked(Sequence[Verification]):
    """Verifications in their order, each made when one of them is asked for."""

    def __init__(self, parts: Sequence[CheckedPart]) -> None:
        self._parts = parts
        self._all: tuple[Verification, ...] | None = None

    @classmethod
    def of(cls, verifications: Iterable[Verification]) -> Checked:
        """Those that have been made."""
        found = cls(())
        found._all = tuple(verifications)
        return found

    @property
    def is_violated(self) -> bool:
        """Whether one of the invariants is."""
        if self._all is None:
            return any(part.violations for part in self._parts)
        return any(one.violated for one in self._all)

    @property
    def violated(self) -> tuple[Invariant, ...]:
        """The invariants that are."""
        if self._all is not None:
            return tuple(one.invariant for one in self._all if one.violated)
        return tuple(part.invariants[place] for part in self._parts for place in part.violations)

    @property
    def first_violated(self) -> Verification:
        """The first of them; there is one."""
        if self._all is None:
            part = next(part for part in self._parts if part.violations)
            return part.verification(part.violations[0])
        return next(one for one in self._all if one.violated)

    def __len__(self) -> int:
        return sum(part.count for part in self._parts) if self._all is None else len(self._all)

    @overload
    def __getitem__(self, place: int) -> Verification: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Verification, ...]: ...
    def __getitem__(self, place: int | slice) -> Verification | tuple[Verification, ...]:
        return self._made[place]

    def __iter__(self) -> Iterator[Verification]:
        return iter(self._made)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checked | tuple) and self._made == tuple(other)

    def __hash__(self) -> int:
        return hash(self._made)

    def __repr__(self) -> str:
        return repr(self._made)

    @property
    def _made(self) -> tuple[Verification, ...]:
        if self._all is None:
            self._all = tuple(part.verification(place) for part in self._parts for place in range(part.count))
        return self._all
