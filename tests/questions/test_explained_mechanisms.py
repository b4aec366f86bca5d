"""The mechanism of each pattern and how it is run, in words."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from cep_pipeline.questions.explained_mechanisms import explained_choice
from tests.statistics.market import market

EVENTS = market(200)


def test_what_follows_from_conditions_is_explained() -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    swept = "many matches are counted by a sweep over the events, without being found"
    conditions = {
        "a.x < b.x AND b.x < c.x": f"{swept}; it follows that a.x < c.x",
        "b.timestamp - a.timestamp <= 10000000 AND c.timestamp - b.timestamp <= 500000": (
            "b.timestamp - a.timestamp <= 10000000 is a range of times, which is not tested; "
            "c.timestamp - b.timestamp <= 500000 is a range of times, which is not tested; "
            "it follows that c is at most 10500 ms later than a"
        ),
        "a.x < b.x": swept,
        "a.x > 3 AND a.x < b.x": f"{swept}; it follows that b.x > 3",
        "a.x + 1 = b.x AND (b.x != c.x OR a.x = 3)": "a.x + 1 = b.x is a key of a and b",
    }
    for condition, said in conditions.items():
        patterns = cep.parse_patterns(f"PATTERN SEQ(A a, B b, C c) WHERE {condition} WITHIN 1 hour", schema)
        assert explained_choice(patterns)["pattern_1"] == f"fused, the fastest mechanism; {said}"
        assert explained_choice(patterns, "multitree")["pattern_1"] == "multitree, as asked for"
    for_all = {
        "a.x < 3 AND a.x > 5": "it has no matches: no events fulfil a.x < 3 and a.x > 5",
        "c.timestamp - a.timestamp > 2 hours AND a.x < b.x": (
            "it has no matches: no events within 1 h, in the order of the pattern, fulfil "
            "c.timestamp - a.timestamp > 2 hours"
        ),
        "a.x = b.x AND c.x = b.x": "a.x = b.x AND c.x = b.x is a key of all events, like [x]",
    }
    for condition, said in for_all.items():
        patterns = cep.parse_patterns(f"PATTERN SEQ(A a, B b, C c) WHERE {condition} WITHIN 1 hour", schema)
        counted = "" if "no matches" in said else f"; {swept}"
        assert explained_choice(patterns)["pattern_1"] == f"fused, the fastest mechanism{counted}; {said}"
        assert explained_choice(patterns, "multitree")["pattern_1"] == f"multitree, as asked for; {said}"
    text = "PATTERN SEQ(A? a, B b) WHERE a.x < b.x AND b.x < a.x WITHIN 1 hour"
    explained = explained_choice(cep.parse_patterns(text, schema))["pattern_1"]
    assert "; clause 1 has no matches, since no events fulfil a.x < b.x and b.x < a.x" in explained


def test_it_is_explained_what_is_done_for_preferred_matches() -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}})
    selected = "fused, the fastest mechanism; all matches are listed, and of those with one first event the preferred"
    in_order = "; NON_OVERLAP and CONSUME go through these in the order of first events"
    for clauses, then in {"": "", " NON_OVERLAP": in_order, " CONSUME MATCHED": in_order}.items():
        [pattern] = cep.parse_patterns(f"PATTERN SEQ(A a, B b) WITHIN 1 hour OUTPUT PREFERRED{clauses}", schema)
        assert explained_choice([pattern])["pattern_1"] == f"{selected} one is selected{then}"
    runs = "WHERE strict_contiguity { TRUE }"
    for structure, where, said in (
        (
            "SEQ(A a, B* b[])",
            runs,
            "nfab, the fastest that runs it: no faster one runs the strategy strict_contiguity; preferred matches",
        ),
        ("SEQ(A a, B+ b[])", "", "fused, the fastest mechanism; preferred lists are found by a sweep over the window"),
        ("SEQ(A? a, B+ b[])", "", "fused, the fastest mechanism; preferred lists are found by a sweep over the window"),
        ("SEQ(A a, B+ b[])", "WHERE b.LEN != 3", "fused, the fastest mechanism; all matches are listed"),
    ):
        [pattern] = cep.parse_patterns(f"PATTERN {structure} {where} WITHIN 1 hour OUTPUT PREFERRED", schema)
        assert explained_choice([pattern])["pattern_1"].startswith(said)


def test_it_is_explained_how_groups_are_made() -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    counted = "groups are made by sweeps over the events, and matches are not listed"
    listed = "matches are listed to make groups, since "
    for text, said in {
        "SEQ(A a, C c, B b) WITHIN 1 s SUMMARIZE count(*) GROUP BY a.x, bucket(1 h)": counted,
        "SEQ(A a, C c, B? b) WITHIN 1 s SUMMARIZE count(*) GROUP BY a.x": f"{listed}branches of the pattern have",
        "SEQ(A a, B b, C c) WITHIN 1 s SUMMARIZE sum(a.x + c.x)": counted,
        "SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 1 s SUMMARIZE min(a.x), max(c.x)": counted,
        "SEQ(A a, B b, C c) WITHIN 1 s SUMMARIZE min(a.x * c.x)": f"{listed}one value is read of a and c",
        "SEQ(A a, B b, C c) WHERE a.x <> c.x WITHIN 1 s SUMMARIZE min(a.x)": f"{listed}no sweep tests its conditions",
        "SEQ(A a, B+ b[], C c) WHERE b[].x > 1 WITHIN 1 s SUMMARIZE avg(b.LEN)": counted,
        "SEQ(A a, B+ b[], C c) WITHIN 1 s SUMMARIZE max(b.LEN)": f"{listed}the length of each list is asked for",
        "SEQ(A a, B+ b[], C c) WITHIN 1 s SUMMARIZE max(stddev(b[].x))": f"{listed}one value is made of",
        "SEQ(A a, ~B b, C c) WITHIN 1 s SUMMARIZE max(a.x), sum(a.x + c.x)": counted,
        "SEQ(A a, C c) WITHIN 1 s OUTPUT NON_OVERLAP SUMMARIZE max(a.x)": f"{listed}OUTPUT and CONSUME choose",
    }.items():
        told = explained_choice(cep.parse_patterns(f"PATTERN {text}", schema))["pattern_1"]
        assert f"; {said}" in told, text


@pytest.mark.parametrize(
    ("condition", "tried"),
    [
        ("sum(b[].x) < 3", False),
        ("b.LEN = 2", False),
        ("max(b[].x) < a.x", False),
        ("avg(b[].x) < 3", True),
    ],
)
def test_lists_that_no_condition_ends_are_explained(condition: str, tried: bool) -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    patterns = cep.parse_patterns(f"PATTERN SEQ(A a, B+ b[]) WHERE {condition} WITHIN 1 hour", schema)
    said = f"; for {condition}, which only a whole list decides, all lists are tried: 2**n of n events"
    assert explained_choice(patterns)["pattern_1"].endswith(said) is tried


def test_lists_that_are_counted_by_parts_are_explained() -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    text = "PATTERN SEQ(A a, B+ b[]) WHERE b[i].x + b[b.LEN].x > b[1].x WITHIN 1 hour"
    patterns = cep.parse_patterns(text, schema)
    listed = "they are listed to be compressed, because of "
    assert f"; matches are counted without being listed; {listed}" in explained_choice(patterns)["pattern_1"]
    assert "counted without being listed" not in explained_choice(patterns, "lazy_chain_nfa")["pattern_1"]


@pytest.mark.parametrize(
    ("condition", "mechanism", "apart"),
    [
        ("b[1].x < c[1].x", "fused", False),
        ("b[1].x < c[1].x", "lazy_chain_nfa", True),
        ("b[].x < c[].x", "fused", False),
        ("b[1].x < 3 AND c[1].x > 3", "lazy_chain_nfa", False),
    ],
)
def test_lists_that_keep_runs_apart_are_explained(condition: str, mechanism: str, apart: bool) -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    patterns = cep.parse_patterns(f"PATTERN SEQ(A a, B+ b[], C+ c[]) WHERE {condition} WITHIN 1 hour", schema)
    said = f"counted and compressed without being listed; for {condition}, which joins two lists, runs are kept apart"
    assert (said in explained_choice(patterns, mechanism)["pattern_1"]) is apart
