"""Patterns that compose others, day by day: together the days publish what one run over all of them finds."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.configuration import LimitSettings, PatternSet, check_runnable
from cep_pipeline.storage import read_data_file
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA
from tests.pipeline.local_days import LocalDays, events_by_day

SCHEMA = cep.StreamSchema.from_dict(
    {
        "name": "ticks",
        "type_attribute": "kind",
        "attributes": {"kind": "string", "x": "int64", "y": "float64", "key": "string"},
    }
)

SETS = {
    "plain": """\
NAME pair PATTERN SEQ(A a, B b) WHERE a.x <= b.x WITHIN 9 hours RETURN a.x AS low, b.y AS y, a.key AS key;
NAME twice PATTERN SEQ(pair p, C c, pair q) WHERE p.low <= q.low WITHIN 15 hours RETURN p.y + q.y AS s, c.x;
NAME same PATTERN AND(pair p, pair q) WHERE p.match_id < q.match_id AND [key] WITHIN 11 hours
""",
    "trailing negation": """\
NAME quiet PATTERN SEQ(A a, ~B n) WITHIN 8 hours RETURN a.x AS x;
NAME after PATTERN SEQ(quiet p, C c) WHERE p.x >= c.x WITHIN 10 hours;
NAME calm PATTERN SEQ(C c, ~quiet q, A a) WITHIN 14 hours;
NAME ended PATTERN SEQ(quiet p, ~C c) WITHIN 7 hours
""",
    "kept": """\
NAME pair PATTERN SEQ(A a, B b) WITHIN 20 hours OUTPUT NON_OVERLAP RETURN b.x AS x;
NAME lone PATTERN SEQ(A a, ~C n) WITHIN 5 hours CONSUME MATCHED;
NAME most PATTERN SEQ(pair p, lone q) WITHIN 30 hours OUTPUT NON_OVERLAP;
NAME once PATTERN SEQ(pair p, A a) WITHIN 30 hours CONSUME MATCHED;
NAME many PATTERN SEQ(lone+ p[], C c) WITHIN 16 hours OUTPUT NON_OVERLAP CONSUME MATCHED
""",
    "deep": """\
NAME quiet PATTERN SEQ(A a, ~B n) WHERE n.x < 2 WITHIN 4 hours RETURN a.x AS x, a.y AS y;
NAME next PATTERN SEQ(quiet q, A a, ~C n) WITHIN 9 hours OUTPUT NON_OVERLAP RETURN q.x AS x, q.start_ts AS since;
NAME third PATTERN SEQ(next n, quiet q) WHERE n.x <= q.x AND q.timestamp >= n.since WITHIN 25 hours;
NAME fourth PATTERN AND(third t, next n, B b) WHERE t.match_id != n.match_id WITHIN 30 hours
""",
    "other strategies": """\
NAME pair PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { a.x < 9 } WITHIN 9 hours RETURN a.key AS key;
NAME run PATTERN SEQ(pair+ p[], C c) WHERE skip_till_next_match(p[], c) { c.x > 0 } WITHIN 30 hours;
NAME near PATTERN SEQ(B b, pair p) WHERE strict_contiguity(b, p) { b.x >= 0 } WITHIN 9 hours;
NAME own PATTERN SEQ(A a, pair p) WHERE partition_contiguity(a, p) { [key] } WITHIN 20 hours
""",
    "counted": """\
NAME pair PATTERN SEQ(A a, B b, ~C n) WITHIN 5 EVENTS RETURN a.x AS x;
NAME next PATTERN SEQ(pair p, A a) WITHIN 8 EVENTS RETURN a.x AS x;
NAME wait PATTERN SEQ(next n, ~pair p) WITHIN 4 EVENTS;
NAME timed PATTERN SEQ(B b, pair p, ~C c) WITHIN 12 hours;
NAME last PATTERN SEQ(timed t, A a) WITHIN 6 EVENTS
""",
    "counted by key": """\
NAME pair PATTERN SEQ(A a, B b) WITHIN 3 EVENTS PARTITION BY key RETURN a.x AS x, a.key AS key, b.y AS y;
NAME next PATTERN SEQ(pair p, A a) WITHIN 4 EVENTS RETURN a.key AS key;
NAME mixed PATTERN SEQ(pair p, ~C n, pair q) WITHIN 20 hours PARTITION BY key;
NAME apart PATTERN AND(next n, pair p) WITHIN 9 hours PARTITION BY key OUTPUT NON_OVERLAP;
NAME near PATTERN SEQ(B b, pair p) WHERE partition_contiguity(b, p) { [key] } WITHIN 20 hours PARTITION BY key
""",
    "ties": """\
NAME pair PATTERN AND(A a, B b) WITHIN 9 hours TIES ANY;
NAME tied PATTERN SEQ(pair p, ~C n, A a) WITHIN 12 hours TIES ANY;
NAME open PATTERN SEQ(~pair n, A a, pair p) WITHIN 8 hours TIES STRICT
""",
}


def random_days(seed: int, count: int = 70) -> dict[date, pa.Table]:
    drawn = random.Random(seed)
    rows = [
        {
            "kind": drawn.choice("AABBC"),
            "x": drawn.randrange(5),
            "y": drawn.choice([0.5, 2.0, float("nan"), None]),
            "key": drawn.choice(["k", "l", None]),
        }
        for _ in range(count)
    ]
    gaps = [drawn.choice([0, 0.5, 1, 1, 2, 4, 40 if drawn.random() < 0.2 else 3]) for _ in rows]
    return events_by_day(SCHEMA, rows, gaps)


def over_all_days(patterns: Sequence[Pattern], events: Iterable[pa.Table]) -> dict[str, dict[str, Any]]:
    """Pattern -> id -> row, of one detection over all events."""
    found = cep.detect(patterns, pa.concat_tables(events))
    return {name: {str(row["match_id"]): row for row in found[name].to_pylist()} for name in found}


def published(local: LocalDays) -> dict[str, list[dict[str, Any]]]:
    """Pattern -> its published rows, day after day."""
    found: dict[str, list[dict[str, Any]]] = {pattern.name: [] for pattern in local.patterns}
    for _, detected in sorted(local.detected.items()):
        for path in sorted(detected.files):
            for row in read_data_file(path, MATCHES_SCHEMA).to_pylist():
                found[row["pattern"]].append(row)
    return found


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("seed", range(2))
def test_the_days_publish_what_one_run_finds(tmp_path: Path, name: str, seed: int) -> None:
    patterns = cep.parse_patterns(SETS[name], SCHEMA)
    days = random_days(seed)
    local = LocalDays(SCHEMA, tuple(patterns), tmp_path, slices=seed + 1)
    for day, events in days.items():
        local.publish_events(day, events)
        local.detect(day, end_of_stream=day == max(days))
    expected = over_all_days(patterns, days.values())
    for pattern in patterns:
        rows = published(local)[pattern.name]
        assert len({row["match_id"] for row in rows}) == len(rows)
        assert {str(row["match_id"]) for row in rows} == set(expected[pattern.name]), pattern.name
        for row in rows:
            known = expected[pattern.name][str(row["match_id"])]
            told = {one: row[one] for one in ("start_ts", "end_ts", "bindings")}
            assert told == {one: known[one] for one in told}
            inside = known.get("composed")
            texts = inside and [{**one, "match_id": str(one["match_id"])} for one in inside]
            assert row["composed"] == texts
            returns = json.loads(row["returns"] or "{}")
            assert [str(value) for value in returns.values()] == [
                "NaN" if known[one] != known[one] else str(known[one]) for one in returns
            ]
    assert sum(len(expected[pattern.name]) for pattern in patterns if pattern.composes) > 5


def test_a_day_that_is_done_again_or_later_gives_the_same(tmp_path: Path) -> None:
    patterns = cep.parse_patterns(SETS["kept"], SCHEMA)
    days = random_days(5)
    local = LocalDays(SCHEMA, tuple(patterns), tmp_path)
    for day, events in days.items():
        local.publish_events(day, events)
    for day in days:
        local.detect(day, end_of_stream=day == max(days))
    whole, states = published(local), {day: found.carry_out for day, found in local.detected.items()}
    assert any("composed" in state and "patterns" in state for state in states.values())
    for day in days:
        local.detect(day, end_of_stream=day == max(days))
        assert local.detected[day].carry_out == states[day]
    assert published(local) == whole


def test_what_a_day_composes_waits_until_it_is_known(tmp_path: Path) -> None:
    patterns = cep.parse_patterns(SETS["deep"], SCHEMA)
    days = random_days(4)
    local = LocalDays(SCHEMA, tuple(patterns), tmp_path)
    for day, events in days.items():
        local.publish_events(day, events)
        found = local.detect(day)
    expected = over_all_days(patterns, days.values())
    missing = {name: len(rows) - len(published(local)[name]) for name, rows in expected.items()}
    assert {name: number for name, number in missing.items() if number} == found.pending == {"fourth": 30}
    later = max(days) + timedelta(days=1)
    local.publish_events(later, next(iter(days.values())).slice(0, 0))
    local.detect(later, end_of_stream=True)
    assert {name: {str(row["match_id"]) for row in rows} for name, rows in published(local).items()} == {
        name: set(rows) for name, rows in expected.items()
    }


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("NAME pair PATTERN SEQ(A a, B b) WITHIN 3 EVENTS PARTITION BY key RETURN a.key AS key;", "later"),
        ("NAME pair PATTERN SEQ(A a, ~B b) WITHIN 3 EVENTS PARTITION BY key RETURN a.key AS key;", "both"),
        ("NAME pair PATTERN SEQ(A a, ~B b) WITHIN 3 EVENTS RETURN a.key AS key;", "later"),
        ("NAME pair PATTERN SEQ(A a, ~B b) WITHIN 3 hours PARTITION BY key RETURN a.key AS key;", "later"),
    ],
)
def test_days_refuse_what_waits_for_events_of_a_partition(text: str, refused: str) -> None:
    text += "NAME both PATTERN SEQ(pair p, pair q) WITHIN 9 hours;"
    text += "NAME later PATTERN SEQ(pair p, C c) WITHIN 3 EVENTS PARTITION BY key"
    patterns = cep.parse_patterns(text, SCHEMA)
    composing = [pattern for pattern in patterns if pattern.composes]
    pattern_set = PatternSet("s", Path("s.sase"), (patterns[0],), "v1", "trivial", None, composing=tuple(composing))
    with pytest.raises(cep.InputError, match=rf"s\.sase: daily runs do not publish pattern '{refused}'"):
        check_runnable([pattern_set])
    check_runnable([replace(pattern_set, composing=())])
    if refused == "later":
        check_runnable([replace(pattern_set, composing=(composing[0],))])


def test_days_refuse_neighbours_in_the_stream_that_are_counted_in_partitions() -> None:
    text = "NAME near PATTERN SEQ(A a, B b) WHERE strict_contiguity {{ {} }} WITHIN 3 EVENTS {}"
    counted, stream = (
        cep.parse_patterns(text.format(*one), SCHEMA) for one in (("TRUE", "PARTITION BY key"), ("[key]", ""))
    )
    pattern_set = PatternSet("s", Path("s.sase"), tuple(counted), "v1", "trivial", None)
    with pytest.raises(cep.InputError, match=r"do not publish pattern 'near', which .* as in \[symbol\]"):
        check_runnable([pattern_set])
    check_runnable([replace(pattern_set, patterns=tuple(stream))])


def test_a_limited_pattern_limits_what_composes_it(tmp_path: Path) -> None:
    patterns = cep.parse_patterns(SETS["plain"], SCHEMA)
    days = random_days(0)
    local = LocalDays(SCHEMA, tuple(patterns), tmp_path, limits=LimitSettings(max_matches=1))
    local.publish_events(min(days), days[min(days)])
    found = local.detect(min(days))
    assert {name: one.limit for name, one in found.limited.items()} == {
        "pair": "max_matches 1",
        "twice": "max_matches 1 of pair",
        "same": "max_matches 1 of pair",
    }
    (tmp_path / "other").mkdir()
    other = LocalDays(SCHEMA, tuple(patterns), tmp_path / "other", limits=LimitSettings(max_matches=9))
    rows = [{"kind": kind, "x": 1, "y": 1.0, "key": "k"} for kind in "AAABBBC"]
    for day, events in events_by_day(SCHEMA, rows, [0.5] * 6 + [20.0]).items():
        other.publish_events(day, events)
        found = other.detect(day)
    assert found.matches["pair"] == 9
    assert {name: str(one) for name, one in found.limited.items()} == {
        "same": "stopped by its limit, max_matches 9: none of its matches is published, it has at least 36 matches"
    }


def test_groups_of_a_composing_pattern_are_put_together_over_days(tmp_path: Path) -> None:
    text = """\
NAME quiet PATTERN SEQ(A a, ~B n) WITHIN 8 hours RETURN a.x AS x;
NAME after PATTERN SEQ(quiet p, C c) WITHIN 10 hours SUMMARIZE count(*) AS n, sum(p.x) AS s GROUP BY c.x AS x
"""
    patterns = cep.parse_patterns(text, SCHEMA)
    days = random_days(1)
    local = LocalDays(SCHEMA, tuple(patterns), tmp_path)
    together = PartialSummary(patterns[1])
    for day, events in days.items():
        local.publish_events(day, events)
        found = local.detect(day, end_of_stream=day == max(days))
        together.add(PartialSummary.from_json(patterns[1], found.summaries["after"]))
        assert found.matches["after"] == 0
    expected = cep.detect(patterns, pa.concat_tables(days.values()))["after"]
    assert together.table().to_pylist() == expected.to_pylist()
    assert expected.num_rows > 1
