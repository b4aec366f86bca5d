"""The output profiler: in which temporal orders the events of reported matches appear (JQPG section 6.1).

The latency of a plan depends on which event comes last, and a conjunction does not say which. The profiler looks at the
matches that are reported and counts the orders of their events, so that the latency cost model can go by the order
that is most probable.

Differs from the paper, which keeps orders only: how often each variable is the last one is counted beside them,
exactly, because many rare orders may end with the same variable. A Kleene variable stands where its last event does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern

MOST_ORDERS = 1024
"""Orders that are kept of a clause: all that there can be of 6 variables, and mostly all that there are of more."""
_PACKED = 15
"""Most variables whose order fits into an int64."""


@dataclass(frozen=True)
class OrderProfile:
    """The temporal orders of the matches of the clauses of a pattern that bind the same variables.

    Attributes
    ----------
    pattern, variables
        Name of the pattern, and the positive variables in pattern order.
    matches
        How many matches were looked at.
    last
        For each variable, in how many of them its event is the last.
    orders
        (variables in temporal order, matches), the most frequent first; at most as many as were to be kept.
    missed
        No order has more than this many matches beyond what is counted of it; 0 where all orders are kept.
    """

    pattern: str
    variables: tuple[str, ...]
    matches: int
    last: tuple[int, ...]
    orders: tuple[tuple[tuple[str, ...], int], ...]
    missed: int = 0

    def __post_init__(self) -> None:
        if len(self.last) != len(self.variables) or sum(self.last) != self.matches:
            raise ValueError(f"profile of {self.pattern!r}: one of the variables is the last in each match")
        if not 0 <= self.missed <= self.matches or sum(count for _, count in self.orders) > self.matches:
            raise ValueError(f"profile of {self.pattern!r}: its orders have more matches than there are")
        if any(sorted(order) != sorted(self.variables) or count < 1 for order, count in self.orders):
            raise ValueError(f"profile of {self.pattern!r}: an order has each variable once, and at least one match")
        ordered = sorted(self.orders, key=lambda entry: (-entry[1], entry[0]))
        object.__setattr__(self, "orders", tuple(ordered))

    @property
    def likely_last(self) -> str | None:
        """The variable that is the last one most often, of equals the pattern's last one; None without a match."""
        if not self.matches:
            return None
        return self.variables[max(range(len(self.last)), key=lambda position: (self.last[position], position))]

    def share(self, order: Sequence[str]) -> float:
        """Share of the matches with this order, as far as it was kept."""
        return dict(self.orders).get(tuple(order), 0) / max(self.matches, 1)

    def last_share(self, variable: str) -> float:
        """Share of the matches in which the variable's event is the last."""
        return self.last[self.variables.index(variable)] / max(self.matches, 1)

    def plus(self, other: OrderProfile, most: int = MOST_ORDERS) -> OrderProfile:
        """The profile of both, with at most so many orders.

        Raises
        ------
        ValueError
            They are of different patterns or variables.
        """
        if (self.pattern, self.variables) != (other.pattern, other.variables):
            raise ValueError(
                f"profiles of {self.pattern!r} over {', '.join(self.variables)} and of {other.pattern!r} over "
                f"{', '.join(other.variables)} do not add up"
            )
        counts = dict(self.orders)
        for order, count in other.orders:
            counts[order] = counts.get(order, 0) + count
        kept, cut = _most_frequent(counts, most)
        return OrderProfile(
            self.pattern,
            self.variables,
            self.matches + other.matches,
            tuple(one + more for one, more in zip(self.last, other.last, strict=True)),
            tuple(kept.items()),
            self.missed + other.missed + cut,
        )

    def shortened(self, most: int) -> OrderProfile:
        """The profile with its most frequent orders only."""
        kept, dropped = self.orders[:most], self.orders[most:]
        missed = max(self.missed, self.missed + dropped[0][1] if dropped else 0)
        return OrderProfile(self.pattern, self.variables, self.matches, self.last, kept, missed)

    def to_json(self) -> dict[str, Any]:
        """The profile as JSON values; an order is a list of positions in `variables`."""
        position = {name: place for place, name in enumerate(self.variables)}
        return {
            "pattern": self.pattern,
            "variables": list(self.variables),
            "matches": self.matches,
            "last": list(self.last),
            "orders": [[[position[name] for name in order], count] for order, count in self.orders],
            "missed": self.missed,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> OrderProfile:
        """Read what `to_json` wrote.

        Raises
        ------
        ValueError, IndexError
            `content`, of the form `profile_form`, is no profile; who reads a document says where it stands.
        """
        names = tuple(content["variables"])
        return cls(
            content["pattern"],
            names,
            content["matches"],
            tuple(content["last"]),
            tuple((tuple(names[place] for place in order), count) for order, count in content["orders"]),
            content["missed"],
        )


@cache
def profile_form() -> Any:
    """The JSON form of a profile."""
    from cep_pipeline.documents import form_of

    return form_of(OrderProfile, {"orders": tuple[tuple[tuple[int, ...], int], ...]})


class OutputProfiler:
    """Counts the temporal orders of matches as they are reported.

    Parameters
    ----------
    patterns
        Those whose matches it is shown. What the structure puts in order is not counted: only clauses are looked at
        where it leaves open which event comes last.
    most
        Orders kept of a clause.

    Notes
    -----
    Memory is bounded by `most` whatever the matches. Where more orders are seen, the counters are those of Misra and
    Gries, which add up over slices and days with an error of at most matches / (most + 1) [1]_.

    References
    ----------
    .. [1] Agarwal, Cormode, Huang, Phillips, Wei, Yi: Mergeable Summaries. PODS 2012, section 3.
    """

    def __init__(self, patterns: Iterable[Pattern], most: int = MOST_ORDERS) -> None:
        self._most = most
        self._counted: dict[tuple[str, tuple[str, ...]], OrderProfile] = {}
        self._patterns: dict[str, list[tuple[str, ...]]] = {}
        for pattern in patterns:
            self._patterns[pattern.name] = sorted({_names(clause) for clause in pattern.clauses})
            for names in (_names(clause) for clause in pattern.clauses if is_open(clause)):
                self._counted[pattern.name, names] = OrderProfile(pattern.name, names, 0, (0,) * len(names), ())

    def add_rows(self, pattern: str, matches: pa.RecordBatch | pa.Table) -> None:
        """Count the matches of a pattern as rows of a table, by their column `bindings`."""
        if not matches.num_rows or not any(name == pattern for name, _ in self._counted):
            return
        bindings = matches.column("bindings")
        for chunk in bindings.chunks if isinstance(bindings, pa.ChunkedArray) else [bindings]:
            self._add_bindings(pattern, chunk)

    def _add_bindings(self, pattern: str, bindings: pa.ListArray) -> None:
        elements = bindings.flatten()
        seqs = elements.field("seq").to_numpy()
        sets = self._patterns[pattern]
        if len(sets) == 1 and len(seqs) == len(bindings) * len(sets[0]):  # all of them bind each variable once
            self._add(pattern, sets[0], seqs.reshape(-1, len(sets[0])).T)
            return
        encoded = elements.field("variable").dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = encoded.indices.to_numpy()
        offsets = bindings.offsets.to_numpy().astype(np.int64)
        offsets -= offsets[0]
        # The elements of a variable follow one another in stream order: the last of each is kept.
        match = np.repeat(np.arange(len(bindings)), np.diff(offsets))
        last = np.ones(len(codes), dtype=bool)
        last[:-1] = (codes[1:] != codes[:-1]) | (match[1:] != match[:-1])
        match, codes, seqs = match[last], codes[last], seqs[last]
        widths = np.bincount(match, minlength=len(bindings))
        starts = np.cumsum(widths) - widths
        for own in sets:
            if (pattern, own) not in self._counted or not set(own) <= set(names):
                continue
            wanted = np.array([names.index(name) for name in own])
            fitting = starts[widths == len(own)]
            places = fitting[:, np.newaxis] + np.arange(len(own))
            chosen = places[(codes[places] == wanted).all(axis=1)]
            if len(chosen):
                self._add(pattern, own, seqs[chosen].T)

    def _add(self, pattern: str, names: tuple[str, ...], instants: Array) -> None:
        """Count matches: shape (variables, n), distinct numbers in each column that grow with time."""
        orders, counts = _count_orders(instants)
        last = np.bincount(orders[:, -1], counts, len(names)).astype(np.int64)
        named = (
            (tuple(names[place] for place in order), int(count)) for order, count in zip(orders, counts, strict=True)
        )
        found = OrderProfile(pattern, names, int(counts.sum()), tuple(last.tolist()), tuple(named))
        self._counted[pattern, names] = self._counted[pattern, names].plus(found, self._most)

    def profiles(self) -> tuple[OrderProfile, ...]:
        """The profiles of clauses with at least one match."""
        return tuple(profile for profile in self._counted.values() if profile.matches)


def merge_profiles(profiles: Iterable[OrderProfile]) -> tuple[OrderProfile, ...]:
    """The profiles of slices or days together, one for each pattern and its variables."""
    merged: dict[tuple[str, tuple[str, ...]], OrderProfile] = {}
    for profile in profiles:
        key = profile.pattern, profile.variables
        merged[key] = merged[key].plus(profile) if key in merged else profile
    return tuple(merged.values())


def is_open(clause: Clause) -> bool:
    """True where the structure leaves open which variable's event comes last."""
    names = _names(clause)
    return not any(all(other == name or (other, name) in clause.precedence for other in names) for name in names)


def _count_orders(instants: Array) -> tuple[Array, Array]:
    """The orders that occur, shape (orders, variables): positions by time; and how often each does."""
    variables = len(instants)
    orders = np.argsort(instants, axis=0)
    if variables > _PACKED:
        found, counts = np.unique(orders.T, axis=0, return_counts=True)
        return found, counts
    weights = variables ** np.arange(variables, dtype=np.int64)
    packed, counts = np.unique((orders * weights[:, np.newaxis]).sum(axis=0), return_counts=True)
    return packed[:, np.newaxis] // weights % variables, counts


def _most_frequent(counts: dict[Any, int], most: int) -> tuple[dict[Any, int], int]:
    """The `most` largest counters less the next largest one, and that one: 0 where there are no more."""
    if len(counts) <= most:
        return counts, 0
    cut = sorted(counts.values(), reverse=True)[most]
    return {order: count - cut for order, count in counts.items() if count > cut}, cut


def _names(clause: Clause) -> tuple[str, ...]:
    return tuple(variable.name for variable in clause.positive)
