"""`OrderSearch` of a clause whose sets' costs are known: the same orders by logarithms, without a known one to measure
them against."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cep_pipeline.planning.cardinality import mask_of
from cep_pipeline.planning.comparisons import Way
from cep_pipeline.planning.ln_tables import SetTables, ln_add
from cep_pipeline.planning.ordering import grains
from cep_pipeline.planning.set_tables import positions_in


class SmallOrderSearch:
    """The cheapest order of every set.

    Parameters
    ----------
    tables
        The costs of the clause's sets.
    size
        The number of its variables.
    """

    def __init__(self, tables: SetTables, size: int) -> None:
        self._tables = tables
        self._best, self._last = [-math.inf], [-1]
        self._below: list[dict[int, float]] = [{}]
        """Of each set the cost without its last step's node, by the variable that is bound last."""
        for members in range(1, 1 << size):
            below = {position: self._ln_below(members, position) for position in positions_in(members)}
            least = min(below.values())
            cells = (
                {position: grains(ln) for position, ln in below.items()} if len(below) > 1 else dict.fromkeys(below, 0)
            )
            self._below.append(below)
            self._last.append(min(reversed(cells), key=cells.__getitem__))
            self._best.append(ln_add(tables.node[members], least))

    def order(self, members: int) -> tuple[int, ...]:
        """The cheapest order of a set; of equal ones the one that binds the pattern's last variables last."""
        found: list[int] = []
        while members:
            found.append(self._last[members])
            members ^= 1 << self._last[members]
        return tuple(reversed(found))

    def ways(self, beginning: Sequence[int]) -> Iterator[Way]:
        """The ways to bind the variables of the beginning of an order: by each of them last, after the cheapest order
        of the others."""
        members = mask_of(beginning)
        for position, below in self._below[members].items():
            yield Way((*self.order(members ^ 1 << position), position), below, (-position,))

    def _ln_below(self, members: int, last: int) -> float:
        rest = members ^ 1 << last
        return ln_add(self._best[rest], self._tables.ln_own_step(rest, last))
