"""OUTPUT and CONSUME as one pass over ordered matches of any width, in one call or many, against the page's words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import clause_runs
from cep_pipeline.detection import matches as matches_module
from cep_pipeline.detection.output_policy import (
    Candidates,
    KeptMatches,
    has_output_policy,
    partition_keys,
    policy_text,
)
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents
from tests.streams import events_table, stream_schema
from tests.thoroughness import examples

Match = tuple[str | None, tuple[int, ...]]
"""A partition, and the positions of events."""
WINDOW_US = 60
POLICIES = ["OUTPUT NON_OVERLAP", "CONSUME MATCHED", "OUTPUT NON_OVERLAP CONSUME MATCHED", "OUTPUT ALL CONSUME NONE"]


def pattern_of(clauses: str, window: str = f"{WINDOW_US} us") -> Pattern:
    [pattern] = cep.parse_patterns(f"PATTERN SEQ(A a, B b) WITHIN {window} PARTITION BY id {clauses}", stream_schema())
    return pattern


def candidates(matches: Sequence[Match]) -> Candidates:
    """Matches as a batch; an event at position p lies at the microsecond 10 p."""
    positions = np.array([position for _, events in matches for position in events], np.int64)
    offsets = np.cumsum([0, *(len(events) for _, events in matches)])
    keys = pa.array([key for key, _ in matches], pa.string()).dictionary_encode()
    return Candidates(offsets, positions, positions * 10, keys)


def by_the_page(pattern: Pattern, matches: Sequence[Match]) -> list[bool]:
    ends: dict[object, int] = {}
    consumed: set[int] = set()
    decisions = []
    for key, events in matches:
        partition: object = events[0] if key is None else key
        keep = not ("NON_OVERLAP" in policy_text(pattern) and min(events) <= ends.get(partition, -1))
        keep = keep and not ("CONSUME" in policy_text(pattern) and consumed & set(events))
        if keep:
            ends[partition] = max(events)
            consumed |= set(events)
        decisions.append(keep)
    return decisions


@st.composite
def ordered_matches(draw: st.DrawFn) -> list[Match]:
    """Matches in the order of their last events, none longer than the window; of a null partition only single ones."""
    drawn = []
    for _ in range(draw(st.integers(0, 25))):
        last = draw(st.integers(0, 30))
        key = draw(st.sampled_from(["[1]", "[2]", "[3]", None]))
        others = st.sets(st.integers(max(0, last - WINDOW_US // 10), last), max_size=0 if key is None else 4)
        drawn.append((key, (*sorted(draw(others) - {last}), last)))
    return sorted(drawn, key=lambda match: (match[1][-1], match[1]))


@pytest.mark.parametrize("clauses", POLICIES)
@settings(max_examples=examples(150), deadline=None)
@given(matches=ordered_matches(), data=st.data())
def test_parts_one_after_another_are_one_call(clauses: str, matches: list[Match], data: st.DataObject) -> None:
    pattern = pattern_of(clauses)
    expected = by_the_page(pattern, matches)
    assert KeptMatches(pattern).keep(candidates(matches)).tolist() == expected
    cuts = sorted(data.draw(st.lists(st.integers(0, len(matches)), max_size=5)))
    policy, found = KeptMatches(pattern), []
    for start, end in pairwise([0, *cuts, len(matches)]):
        found += policy.keep(candidates(matches[start:end])).tolist()
        if data.draw(st.booleans()):
            policy = KeptMatches(pattern, json.loads(json.dumps(policy.to_json())))
        if end < len(matches) and data.draw(st.booleans()):
            policy.forget(matches[end][1][-1] * 10 - WINDOW_US)
    assert found == expected


@pytest.mark.parametrize("clauses", POLICIES)
@settings(max_examples=examples(100), deadline=None)
@given(matches=ordered_matches(), cut=st.integers(0, 25))
def test_what_is_remembered_at_a_time_does_not_depend_on_the_parts(
    clauses: str, matches: list[Match], cut: int
) -> None:
    pattern = pattern_of(clauses)
    now = (matches[-1][1][-1] if matches else 0) * 10 + 1
    whole, twice = KeptMatches(pattern), KeptMatches(pattern)
    whole.keep(candidates(matches))
    twice.keep(candidates(matches[:cut]))
    twice = KeptMatches(pattern, twice.to_json())
    twice.keep(candidates(matches[cut:]))
    for policy in (whole, twice):
        policy.forget(now - WINDOW_US)
    assert whole.to_json() == twice.to_json()
    assert json.dumps(whole.to_json()) == json.dumps(KeptMatches(pattern, whole.to_json()).to_json())
    instants = [end[1] for end in whole.to_json().get("ends", {}).values()]
    instants += [event[1] for event in whole.to_json().get("consumed", [])]
    assert all(instant >= now - WINDOW_US for instant in instants)
    whole.forget(now + 1)
    assert whole.to_json() == {}


def test_the_state_says_which_events() -> None:
    policy = KeptMatches(pattern_of("OUTPUT NON_OVERLAP CONSUME MATCHED"))
    assert policy.keep(candidates([("[2]", (1, 3)), ("[1]", (2, 4)), ("[2]", (3, 5)), (None, (6,))])).tolist() == [
        True,
        True,
        False,
        True,
    ]
    assert policy.to_json() == {
        "ends": {"": [6, 60], "[1]": [4, 40], "[2]": [3, 30]},
        "consumed": [[1, 10], [2, 20], [3, 30], [4, 40], [6, 60]],
    }


def test_one_event_alone_in_its_partition_is_kept_once() -> None:
    policy = KeptMatches(pattern_of("OUTPUT NON_OVERLAP"))
    matches: list[Match] = [(None, (4,)), (None, (4,)), ("[1]", (4,)), (None, (5,))]
    assert policy.keep(candidates(matches)).tolist() == [True, False, True, True]


def test_count_windows_forget_nothing_by_themselves() -> None:
    policy = KeptMatches(pattern_of("CONSUME MATCHED", "5 EVENTS"))
    policy.keep(candidates([("[1]", (1,)), ("[1]", (900,))]))
    assert policy.to_json() == {"consumed": [[1, 10, "[1]"], [900, 9000, "[1]"]]}


def test_count_windows_forget_what_is_out_of_reach_in_its_partition() -> None:
    pattern = pattern_of("OUTPUT NON_OVERLAP CONSUME MATCHED", "5 EVENTS")
    policy = KeptMatches(pattern)
    policy.keep(candidates([("[1]", (1, 4)), ("[2]", (2, 5)), ("[3]", (3, 6)), (None, (7,))]))
    for state in (policy.to_json(), KeptMatches(pattern, policy.to_json()).to_json()):
        again = KeptMatches(pattern, state)
        again.forget_partitions({"[1]": 4, "[2]": 6, None: 100})
        assert again.to_json() == {
            "ends": {"[1]": [4, 40], "[3]": [6, 60]},
            "consumed": [[3, 30, "[3]"], [4, 40, "[1]"], [6, 60, "[3]"]],
        }
        assert again.keep(candidates([("[1]", (4, 8)), ("[2]", (5, 9)), ("[3]", (6, 10))])).tolist() == [
            False,
            True,
            False,
        ]


def test_what_is_ruled_out_is_never_kept() -> None:
    policy = KeptMatches(pattern_of("OUTPUT NON_OVERLAP CONSUME MATCHED"))
    assert policy.rules_out(candidates([("[1]", (1,))])).tolist() == [False]
    policy.keep(candidates([("[1]", (3, 5))]))
    later = candidates([("[1]", (4, 6)), ("[1]", (6, 7)), ("[2]", (4, 6)), ("[2]", (5, 8)), (None, (3,))])
    assert policy.rules_out(later).tolist() == [True, False, False, True, True]
    assert policy.rules_out(candidates([])).tolist() == []


def test_which_patterns_have_a_policy() -> None:
    assert [has_output_policy(pattern_of(clauses)) for clauses in POLICIES] == [True, True, True, False]
    assert [policy_text(pattern_of(clauses)) for clauses in POLICIES] == [*POLICIES[:3], ""]


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("id", ["[1]", "[2]", None, "[1]"]),
        ("s", ['["p"]', '["é\\"]"]', '["p"]', None]),
        ("f", ["[true]", "[false]", "[false]", None]),
        ("y", ["[0.0]", "[0.0]", None, "[Infinity]"]),
        ("y, id", ["[0.0,1]", "[0.0,2]", None, "[Infinity,1]"]),
        ("s, id", ['["p",1]', '["é\\"]",2]', None, None]),
    ],
)
def test_partitions_are_told_by_values(by: str, keys: list[str | None]) -> None:
    [pattern] = cep.parse_patterns(f"PATTERN A a WITHIN 1 second PARTITION BY {by} OUTPUT NON_OVERLAP", stream_schema())
    rows = [
        {"timestamp": 0, "kind": "A", "id": 1, "s": "p", "y": -0.0, "f": True},
        {"timestamp": 1, "kind": "A", "id": 2, "s": 'é"]', "y": 0.0, "f": False},
        {"timestamp": 2, "kind": "A", "id": None, "s": "p", "y": float("nan"), "f": False},
        {"timestamp": 3, "kind": "A", "id": 1, "s": None, "y": float("inf"), "f": None},
    ]
    events = PreparedEvents(events_table(rows), type_attribute="kind", base_type="Ev")
    assert partition_keys(pattern, events, np.arange(4)).to_pylist() == keys
    assert partition_keys(pattern, events, np.array([3, 0, 3])).to_pylist() == [keys[3], keys[0], keys[3]]
    assert partition_keys(pattern, events, np.array([], np.int64)).to_pylist() == []


def test_parts_and_batches_of_a_detection_hand_the_state_on(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = cep.parse_patterns(
        "NAME o PATTERN SEQ(A a, B b) WITHIN 90 us OUTPUT NON_OVERLAP;"
        "NAME c PATTERN AND(A a, B b) WITHIN 90 us CONSUME MATCHED",
        stream_schema(),
    )
    events = events_table([{"timestamp": 10 * (i // 2), "kind": "AB"[i % 3 % 2]} for i in range(60)])
    whole = cep.detect(patterns, events)
    assert whole["o"].num_rows > 3 and whole["c"].num_rows > 10
    monkeypatch.setattr(clause_runs, "MATCHES_AT_ONCE", 7)
    monkeypatch.setattr(matches_module, "BATCH_ROWS", 3)
    assert {name: table.to_pylist() for name, table in cep.detect(patterns, events).items()} == {
        name: table.to_pylist() for name, table in whole.items()
    }
