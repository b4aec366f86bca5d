"""Contract of the vectorized evaluation: for every binding it says what the oracle's reading of the page says."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import given, settings

from cep_pipeline.expressions.columns import TableColumns
from cep_pipeline.expressions.evaluate import conjunct_holds, expression_values
from tests.answers import comparable_value
from tests.oracle.clauses import Conjunct
from tests.oracle.events import read_events
from tests.oracle.values import Choice, value_of
from tests.pattern_strategies import FIRST_SLICE, Statement, statements
from tests.streams import Row, events_table, rows
from tests.thoroughness import examples

FEATURES = replace(FIRST_SLICE, max_operands=3)


@settings(max_examples=examples(300), deadline=None)
@given(statements(FEATURES), rows(min_size=1, max_size=7))
def test_conjuncts_hold_where_the_oracle_says(statement: Statement, stream_rows: list[Row]) -> None:
    pattern = statement.pattern
    table = events_table(stream_rows)
    events = read_events(table, pattern)
    names = [operand.variable for operand in pattern.operands]
    places = np.array(list(product(range(len(events)), repeat=len(names))))
    chosen = {name: places[:, column].astype(np.int32) for column, name in enumerate(names)}
    bindings = [{name: (events[place],) for name, place in zip(names, row, strict=True)} for row in places]
    source = TableColumns(table)
    for conjunct in pattern.clauses[0].conjuncts:
        found = conjunct_holds(conjunct, source, chosen)
        assert found.tolist() == [Conjunct(conjunct.atoms).holds(binding) for binding in bindings]
    for item in pattern.returns:
        column = expression_values(item.expression, source, chosen)
        expected = [value_of(item.expression, binding, Choice()) for binding in bindings]
        valid = np.ones(len(column), bool) if column.valid is None else column.valid
        found_values = [
            (value if column.dictionary is None else column.dictionary[value]) if known else None
            for value, known in zip(column.values.tolist(), valid.tolist(), strict=True)
        ]
        assert [comparable_value(value) for value in found_values] == [comparable_value(value) for value in expected]
