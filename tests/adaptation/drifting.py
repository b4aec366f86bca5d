"""Patterns and snapshots whose numbers are drawn, for invariants: what planners see, without a stream."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import strategies as st

from cep_pipeline.adaptation.invariants import Verification
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics import LeafRate, Selectivity, Source, StatisticsSnapshot
from cep_pipeline.statistics.terms import terms_of
from tests.adaptation.memo_cells import CellCheck
from tests.statistics.market import parse

PATTERNS = [
    "NAME one PATTERN SEQ(A a, B b) WITHIN 2 seconds",
    "NAME one PATTERN SEQ(A a, B b, C c) WHERE a.diff < c.diff WITHIN 2 seconds",
    "NAME one PATTERN AND(A a, B b, C c, D d) WHERE a.diff < c.diff AND b.price < d.price WITHIN 2 seconds",
    "NAME one PATTERN SEQ(A a, AND(B b, C c), D d, E e) WHERE a.diff < c.diff AND b.diff < e.diff WITHIN 2 seconds",
    "NAME one PATTERN SEQ(A a, B+ b[], C c, D d) WHERE a.diff < c.diff AND [sector] WITHIN 2 seconds",
    "NAME one PATTERN OR(SEQ(A a, B b, C c), SEQ(D d, E e, F f)) WHERE a.diff < c.diff WITHIN 2 seconds",
    "NAME one PATTERN AND(A a, B b, C c, D d, E e, F f) WHERE a.diff < f.diff AND b.diff < e.diff WITHIN 2 seconds",
]

RATES = st.one_of(st.floats(0.01, 100.0), st.sampled_from([0.5, 1.0, 1.0, 2.0, 4.0]))
SHARES = st.one_of(st.floats(0.001, 1.0), st.sampled_from([1.0, 1.0, 0.5, 0.25]))


@st.composite
def patterns(draw: st.DrawFn, max_number: int = len(PATTERNS)) -> list[Pattern]:
    """One of some patterns of two to six variables."""
    return parse(draw(st.sampled_from(PATTERNS[:max_number])))


@st.composite
def snapshots(draw: st.DrawFn, of: Sequence[Pattern]) -> StatisticsSnapshot:
    """Any numbers for all that the patterns ask for, ties among them."""
    leaves, conditions = terms_of(of)
    return snapshot(
        {leaf.key: draw(RATES) for leaf in leaves}, {condition.key: draw(SHARES) for condition in conditions}
    )


def snapshot(rates: dict[str, float], shares: dict[str, float] | None = None) -> StatisticsSnapshot:
    """Statistics by the keys of leaves and conditions."""
    return StatisticsSnapshot(
        stream="market",
        events=1000,
        start_us=0,
        end_us=10**9,
        rates=tuple(LeafRate(leaf, per_s) for leaf, per_s in rates.items()),
        selectivities=tuple(
            Selectivity(condition, share, 1000, 1000, Source.ALL_PAIRS) for condition, share in (shares or {}).items()
        ),
    )


def rounding_decides(verification: Verification | CellCheck) -> bool:
    """Whether the two sides differ by so little that the way in which a sum is taken may decide what is a tie.

    Costs are compared in cells of 1e-9; a chain of ties may add up to more of them.
    """
    apart = abs(verification.left - verification.right)
    edge = max(abs(math.remainder(side * 1e9, 1.0)) for side in (verification.left, verification.right))
    return 1e-11 < apart < 1e-7 or (apart <= 1e-11 and edge > 0.45)
