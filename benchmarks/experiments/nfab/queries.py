"""The queries of SIGMOD'08, section 6.1: a template with an iterator predicate, a strategy and a window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from benchmarks.sase_stream import sase_schema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern

STRATEGIES: Mapping[str, str] = {"s2": "partition_contiguity", "s3": "skip_till_next_match"}
PREDICATES: Mapping[str, str] = {
    "p1": "",
    "p2": "a[i].price > a[i-1].price",
    "p3": "a[i].price > min(a[..i-1].price)",
    "p3 max": "a[i].price > max(a[..i-1].price)",
    "p3 avg": "a[i].price > avg(a[..i-1].price)",
}
"""The iterator predicates of table 1."""
LONGER = "*"
"""Suffix of a predicate's name: the pattern goes on with an event c, which most runs fail to find (experiment 4)."""
ALL, NON_OVERLAP = "ALL", "NON_OVERLAP"
"""Values of OUTPUT."""


@dataclass(frozen=True)
class Query:
    """A query of the template of section 6.

    Attributes
    ----------
    predicate, strategy
        Keys of `PREDICATES`, with `LONGER` or not, and of `STRATEGIES`.
    window
        Events of a partition.
    """

    predicate: str
    strategy: str
    window: int

    @property
    def name(self) -> str:
        """The query's name in the paper."""
        return f"{self.predicate}{self.strategy}"

    def text(self, output: str = ALL) -> str:
        """The statement."""
        longer = self.predicate.endswith(LONGER)
        conditions = [
            "[symbol]",
            "a[1].price % 500 = 0",
            PREDICATES[self.predicate.removesuffix(LONGER)],
            "b.volume < 150",
            "c.price > a[1].price AND c.price < a[a.LEN].price" if longer else "",
        ]
        return (
            f"NAME query PATTERN SEQ(Stock+ a[], Stock b{', Stock c' if longer else ''}) "
            f"WHERE {STRATEGIES[self.strategy]} {{ {' AND '.join(filter(None, conditions))} }} "
            f"WITHIN {self.window} EVENTS PARTITION BY symbol OUTPUT {output}"
        )


@cache
def pattern_of(query: Query, output: str = ALL) -> Pattern:
    """The pattern of a query."""
    return parse_patterns(query.text(output), sase_schema())[0]
