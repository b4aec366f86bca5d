"""Run the fused kernel on a text, and say what it found in the terms of the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pyarrow as pa
import pytest

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.fused import clause as fused
from cep_pipeline.detection.fused import reduction
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import finality_of
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
from tests.oracle.answer import flat, kept_matches
from tests.oracle.events import read_events
from tests.streams import stream_schema
from tests.thoroughness import ALL

Binding = tuple[tuple[str, int], ...]
"""(variable, row in the events table) in pattern order."""
Orders = Sequence[Sequence[str]]


def pattern_of(text: str) -> Pattern:
    """The one statement of a text over the schema of `tests.streams`."""
    (pattern,) = parse_patterns(text, stream_schema())
    return pattern


def prepare(pattern: Pattern, table: pa.Table) -> PreparedEvents:
    return PreparedEvents(table, type_attribute=pattern.type_attribute, base_type=pattern.base_type)


def run_clause(
    pattern: Pattern,
    clause: Clause,
    order: Sequence[str],
    events: PreparedEvents,
    owned: tuple[Boundary | None, Boundary | None] = (None, None),
    *,
    block_rows: int = fused.BLOCK_ROWS,
) -> fused.KernelRun:
    """The run of one clause over a slice."""
    of = ClauseSlice(pattern, clause, events, owned, finality_of(pattern, clause))
    return fused.run_clause(of, order, block_rows=block_rows)


def reduce_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run be reduced."""
    monkeypatch.setattr(reduction, "FEWEST_COMBINATIONS", 0)
    monkeypatch.setattr(reduction, "FEWEST_CANDIDATES", 0)
    monkeypatch.setattr(reduction, "CANDIDATES_AN_EVENT", 0)
    monkeypatch.setattr(reduction, "WORTH_IT", 1)


def found(
    pattern: Pattern,
    events: PreparedEvents,
    orders: Orders | None = None,
    owned: tuple[Boundary | None, Boundary | None] = (None, None),
    block_rows: int = 1 << 16,
) -> list[Binding]:
    """All matches, sorted; doubles stay."""
    bindings: list[Binding] = []
    for clause, order in zip(pattern.clauses, orders or written_orders(pattern), strict=True):
        names = [variable.name for variable in clause.positive]
        for block in run_clause(pattern, clause, order, events, owned, block_rows=block_rows):
            assert 0 < len(block) <= block_rows
            bindings.extend(tuple(zip(names, match, strict=True)) for match in block.rows.T.tolist())
    return sorted(bindings)


def expected(pattern: Pattern, table: pa.Table) -> list[Binding]:
    """The oracle's matches, sorted."""
    events = read_events(table, pattern)
    return sorted(
        tuple((variable, event.place) for variable, event in flat(pattern, binding))
        for binding in kept_matches(pattern, events)
    )


def written_orders(pattern: Pattern) -> Orders:
    return [[variable.name for variable in clause.positive] for clause in pattern.clauses]


def orders_of(clause: Clause, number: int = 0) -> Sequence[tuple[str, ...]]:
    """All orders of a clause's variables; `make test` takes the third of them that has this number."""
    orders = list(permutations(variable.name for variable in clause.positive))
    return orders if ALL else orders[number % 3 :: 3] or orders


def boundaries_of(events: PreparedEvents) -> list[Boundary]:
    """The points of all events: a slice that ends at one does not own it."""
    return list(zip(events.timestamps.tolist(), events.seqs.tolist(), strict=True))
