"""Facts about a clause that do not depend on the slice, computed once for all slices that a process runs it over.

It is found by the clause as an object: a task has one for all its slices, and to compare clauses would take longer than
to work most of it out again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from cep_pipeline.patterns.normal_form import Clause

MOST_CLAUSES = 1 << 12
"""Clauses that are remembered; those not run for longest go first."""

T = TypeVar("T")


@dataclass(eq=False)
class ClauseCache:
    """Cache of slice-independent facts about one clause, by key."""

    clause: Clause
    _known: dict[Hashable, Any] = field(default_factory=dict)

    def once(self, key: Hashable, work_out: Callable[[], T]) -> T:
        """Return the fact kept under a key, computed on first use; it must depend on the clause and the key alone."""
        try:
            return cast(T, self._known[key])
        except KeyError:
            found = self._known[key] = work_out()
            return found


_caches: OrderedDict[int, ClauseCache] = OrderedDict()


def clause_cache_of(clause: Clause) -> ClauseCache:
    """The cache of this very clause object."""
    known = _caches.get(id(clause))
    if known is not None:  # it holds the clause, so that no other one can have its id
        _caches.move_to_end(id(clause))
        return known
    made = _caches[id(clause)] = ClauseCache(clause)
    while len(_caches) > MOST_CLAUSES:
        _caches.popitem(last=False)
    return made
