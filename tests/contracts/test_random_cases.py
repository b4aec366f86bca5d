"""A hundred thousand random statements on random streams: every mechanism that runs one gives the oracle's answer.

`test_answers.py` runs some of them at every change; these are for `make test-all`.
"""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings

from cep_pipeline.detection import MECHANISMS
from tests.answers import comparable
from tests.contracts.mechanisms import answer_or_refusal
from tests.oracle import evaluate
from tests.pattern_strategies import WHOLE_LANGUAGE, Statement, statements
from tests.streams import Row, events_table, rows

CASES, PARTS = 100_000, 100


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_random_cases(part: int) -> None:
    @seed(part)
    @settings(max_examples=CASES // PARTS, deadline=None, database=None)
    @given(statement=statements(WHOLE_LANGUAGE), stream_rows=rows())
    def check(statement: Statement, stream_rows: list[Row]) -> None:
        pattern, table = statement.pattern, events_table(stream_rows)
        expected = comparable(evaluate([pattern], table))
        answers = {mechanism: answer_or_refusal(mechanism, pattern, table) for mechanism in MECHANISMS}
        assert any(found is not None for found in answers.values())
        for mechanism, found in answers.items():
            assert found is None or comparable(found) == expected, mechanism

    check()
