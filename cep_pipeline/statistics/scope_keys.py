"""What is measured of pairs and tuples, by keys alone: what a state over a stream remembers of the patterns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap

from cep_pipeline.statistics.samples import Condition, Terms
from cep_pipeline.statistics.terms import PairScope
from cep_pipeline.statistics.tuple_terms import OrderCondition, TupleScope


@dataclass(frozen=True)
class ScopeKeys:
    """The conditions of one scope: their keys, and which of them are temporal orders."""

    key: str
    conditions: tuple[str, ...]
    orders: frozenset[str]


def scope_keys(terms: Terms) -> tuple[ScopeKeys, ...]:
    """The keys of what is measured of pairs and tuples, in their order."""

    def keys(scope: PairScope | TupleScope, asked: tuple[Condition, ...]) -> ScopeKeys:
        orders = frozenset(condition.key for condition in asked if isinstance(condition, OrderCondition))
        return ScopeKeys(scope.key, tuple(condition.key for condition in asked), orders)

    return tuple(sorted(starmap(keys, terms.scopes.items()), key=lambda scope: scope.key))
