"""The loop over patterns of which some compose others: the matches are those of `detect`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import cep_pipeline as cep
from tests import conformance
from tests.streams import events_table, stream_schema
from tests.thoroughness import part_of

TEXT = """
NAME pair PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 4 seconds RETURN a.x AS x, b.id AS id;
NAME twice PATTERN SEQ(pair p, C c, pair q) WHERE q.x >= p.x WITHIN 20 seconds RETURN p.x AS x;
NAME often PATTERN SEQ(twice t, C c) WITHIN 5 seconds SUMMARIZE count(*), max(t.x) GROUP BY c.id
"""


def drifting_events(number: int = 600) -> pa.Table:
    """Events whose frequent type changes half-way."""
    random = np.random.default_rng(5)
    kinds = np.where(
        np.arange(number) < number // 2,
        random.choice(list("ABC"), number, p=[0.7, 0.2, 0.1]),
        random.choice(list("ABC"), number, p=[0.1, 0.2, 0.7]),
    )
    return events_table(
        [
            {"timestamp": 500_000 * at, "kind": kind, "x": int(random.integers(9)), "id": int(random.integers(3))}
            for at, kind in enumerate(kinds)
        ]
    )


def test_composing_patterns_follow_their_own_streams() -> None:
    patterns = cep.parse_patterns(TEXT, stream_schema())
    events = drifting_events()
    expected = cep.detect(patterns, events)
    assert expected["twice"].num_rows > 100 and expected["often"].num_rows
    for given in (events, [events.slice(0, 250), *events.slice(250).to_batches()]):
        tables, report = cep.detect_adaptively(patterns, given, decision="unconditional", every_events=100)
        assert {name: table.to_pylist() for name, table in tables.items()} == {
            name: table.to_pylist() for name, table in expected.items()
        }
    assert report.events == events.num_rows and set(report.metrics.mechanisms) == set(expected)
    assert {check.pattern for check in report.checks} == {"pair", "twice", "often"}
    assert max(check.row for check in report.checks if check.pattern == "twice") > events.num_rows


def test_a_composing_pattern_alone_by_a_plan_and_a_count() -> None:
    patterns = cep.parse_patterns(TEXT, stream_schema())
    events = drifting_events()
    plan = cep.plan(patterns[1], cep.estimate_statistics(patterns[1], events))
    tables, _ = cep.detect_adaptively(patterns[1:2], events, plan, output="count", every_events=200)
    assert tables["twice"].to_pylist() == cep.detect(patterns[1], events, output="count")["twice"].to_pylist()


@pytest.mark.parametrize("every", [1, 7])
def test_cases_that_compose(every: int) -> None:
    cases = [case for case in conformance.CASES if case.matches is not None and "composition" in case.features]
    assert cases
    for case in part_of(cases, every):
        expected = cep.detect(case.patterns, case.events)
        tables, _ = cep.detect_adaptively(case.patterns, case.events, decision="unconditional", every_events=every)
        for name, table in expected.items():
            assert repr(tables[name].to_pylist()) == repr(table.to_pylist()), (case.id, name)  # NaN is NaN
