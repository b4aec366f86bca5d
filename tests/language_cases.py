"""Small cases of the pattern language whose answers were worked out by hand, one rule of docs/language.md each.

They are what remains of the conformance suite where `../shared` is missing, and are never skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.streams import SECOND, Row

_READERS: Mapping[str, Any] = {
    "id": int,
    "x": int,
    "y": float,
    "s": str,
    "f": lambda text: text == "true",
    "h": lambda text: [None if part == "null" else float(part) for part in text.split(",")],
}


def stream(text: str) -> list[Row]:
    """Rows from `type seconds [attribute=value ...]` parted by `;`. Type `-` is null; so is every attribute not given.

    >>> stream("A 0 x=1; - 1.5 y=nan")[0]["kind"], stream("A 0 x=1; - 1.5 y=nan")[1]["timestamp"]
    ('A', 1500000)
    """
    rows: list[Row] = []
    for part in filter(str.strip, text.split(";")):
        kind, seconds, *fields = part.split()
        row: Row = dict.fromkeys(_READERS)
        row["timestamp"] = round(float(seconds) * SECOND)
        row["kind"] = None if kind == "-" else kind
        for field_text in fields:
            name, _, value = field_text.partition("=")
            row[name] = _READERS[name](value)
        rows.append(row)
    return rows


@dataclass(frozen=True)
class LanguageCase:
    """A statement, a stream, and its matches as `variable` + `seq` (the place in the stream) in the page's order."""

    name: str
    text: str
    events: str
    matches: Sequence[str]
    returns: Sequence[tuple[Any, ...]] | None = None
    params: Mapping[str, Sequence[Any]] = field(default_factory=dict)


CASES = (
    # Section 3.1, structure; section 5, order of the answer
    LanguageCase("pairs", "PATTERN SEQ(A a, B b) WITHIN 10 seconds", "A 0; A 1; B 2", ["a0 b2", "a1 b2"]),
    LanguageCase(
        "order_by_last_event_then_seqs",
        "PATTERN SEQ(A a, A b, A c) WITHIN 9 seconds",
        "A 0; A 1; A 2; A 3",
        ["a0 b1 c2", "a0 b1 c3", "a0 b2 c3", "a1 b2 c3"],
    ),
    LanguageCase("and_is_unordered", "PATTERN AND(A a, B b) WITHIN 9 seconds", "B 0; A 1; B 2", ["a1 b0", "a1 b2"]),
    LanguageCase("and_of_one_type", "PATTERN AND(A a, A b) WITHIN 9 seconds", "A 0; A 1", ["a0 b1", "a1 b0"]),
    LanguageCase("one_operand", "PATTERN A a WITHIN 1 us", "A 0; B 0; A 1", ["a0", "a2"]),
    LanguageCase("no_events", "PATTERN AND(A a, B b) WITHIN 1 us", "", []),
    LanguageCase("one_event", "PATTERN AND(Ev a, Ev b) WITHIN 1 day", "A 0", []),
    LanguageCase(
        "base_type_binds_every_event",
        "PATTERN SEQ(Ev e, B b) WITHIN 9 seconds",
        "Unknown 0; - 1; B 2; B 3",
        ["e0 b2", "e1 b2", "e0 b3", "e1 b3", "e2 b3"],
    ),
    LanguageCase("quoted_type", 'PATTERN SEQ("X.1" p, A a) WITHIN 9 seconds', "X.1 0; A 1", ["p0 a1"]),
    LanguageCase(
        "or_of_branches",
        "PATTERN SEQ(A a, OR(B b, SEQ(C c, D d)), E e) WITHIN 10 seconds",
        "A 0; C 1; B 2; D 3; E 4",
        ["a0 c1 d3 e4", "a0 b2 e4"],
    ),
    LanguageCase(
        "partial_order", "PATTERN SEQ(AND(A a, B b), C c) WITHIN 9 seconds", "B 0; A 1; C 2; A 3", ["a1 b0 c2"]
    ),
    LanguageCase("or_of_one_event", "PATTERN OR(A a, A b) WITHIN 1 second", "A 0", ["a0", "b0"]),
    # Section 3.2, ties
    LanguageCase("ties_arrival", "PATTERN SEQ(A a, B b) WITHIN 5 seconds", "B 0; A 0; B 0; B 1", ["a1 b2", "a1 b3"]),
    LanguageCase("ties_strict", "PATTERN SEQ(A a, B b) WITHIN 5 seconds TIES STRICT", "B 0; A 0; B 0; B 1", ["a1 b3"]),
    LanguageCase(
        "ties_any",
        "PATTERN SEQ(A a, B b) WITHIN 5 seconds TIES ANY",
        "B 0; A 0; B 0; B 1",
        ["a1 b0", "a1 b2", "a1 b3"],
    ),
    LanguageCase("ties_any_is_distinct", "PATTERN SEQ(A a, A b) WITHIN 5 seconds TIES ANY", "A 0", []),
    # Section 3.3, windows
    LanguageCase("window_is_inclusive", "PATTERN SEQ(A a, B b) WITHIN 10 seconds", "A 0; B 10; B 10.000001", ["a0 b1"]),
    LanguageCase("window_spans_all", "PATTERN AND(A a, B b, C c) WITHIN 2 seconds", "A 0; B 2; C 3; A 4", ["a3 b1 c2"]),
    LanguageCase(
        "count_window_counts_every_event",
        "PATTERN SEQ(A a, B b) WITHIN 3 EVENTS",
        "A 0; - 0; B 0; B 0",
        ["a0 b2"],
    ),
    LanguageCase(
        "count_window_in_partition",
        "PATTERN SEQ(A a, B b) WITHIN 2 EVENTS PARTITION BY id",
        "A 0 id=1; C 1 id=2; B 2 id=1; C 3; B 4 id=1",
        ["a0 b2"],
    ),
    # Section 3.4, conditions
    LanguageCase(
        "increasing",
        "PATTERN SEQ(A a, B b, C c) WHERE a.y < b.y AND b.y < c.y WITHIN 9 seconds",
        "A 0 y=1; A 0 y=5; B 1 y=2; B 1; C 2 y=2; C 3 y=2.5; C 4 y=nan",
        ["a0 b2 c5"],
    ),
    LanguageCase(
        "unknown_or_true",
        "PATTERN A a WHERE a.x > 1 OR a.y > 1 WITHIN 1 us",
        "A 0 y=2; A 1 x=2 y=nan; A 2 x=0; A 3",
        ["a0", "a1"],
    ),
    LanguageCase(
        "not_unknown", "PATTERN A a WHERE NOT (a.y = 1) WITHIN 1 us", "A 0; A 1 y=nan; A 2 y=1; A 3 y=2", ["a3"]
    ),
    LanguageCase(
        "not_in_and_null",
        "PATTERN A a WHERE a.x NOT IN (1, 2) AND a.s IN ('p', 'it''s') WITHIN 1 us",
        "A 0 x=3 s=p; A 1 s=p; A 2 x=1 s=p; A 3 x=3; A 4 x=-1 s=it's",
        ["a0", "a4"],
    ),
    LanguageCase(
        "parameter",
        "PATTERN AND(A a, B b) WHERE a.y IN $ys AND b.y NOT IN $ys WITHIN 9 seconds",
        "A 0 y=2; B 1 y=2; B 2 y=3; A 3 y=3",
        ["a0 b2"],
        params={"ys": [2, 9]},
    ),
    LanguageCase(
        "between",
        "PATTERN SEQ(A a, B b) WHERE b.x BETWEEN a.x AND a.x + 2 AND b.y NOT BETWEEN 0 AND 1 WITHIN 9 seconds",
        "A 0 x=3; B 1 x=3 y=2; B 2 x=5 y=-0.5; B 3 x=6 y=2; B 4 x=4 y=1; B 5 x=4",
        ["a0 b1", "a0 b2"],
    ),
    LanguageCase(
        "exact_comparison_of_int_and_float",
        "PATTERN A a WHERE a.x > a.y AND a.x != a.y WITHIN 1 us",
        "A 0 x=9007199254740993 y=9007199254740992; A 1 x=9007199254740992 y=9007199254740992; "
        "A 2 x=9223372036854775807 y=9223372036854775808",
        ["a0"],
    ),
    LanguageCase(
        "int64_overflow_is_null",
        "PATTERN A a WHERE a.x + 1 > 0 OR a.x + 1 <= 0 WITHIN 1 us",
        "A 0 x=9223372036854775807; A 1 x=9223372036854775806; A 2 x=-9223372036854775808",
        ["a1", "a2"],
    ),
    LanguageCase(
        "overflow_of_product_minus_and_abs",
        "PATTERN A a WHERE a.x * 2 IN (0, 4) OR -a.x < 0 OR abs(a.x) = 1 WITHIN 1 us",
        "A 0 x=-9223372036854775808; A 1 x=4611686018427387904; A 2 x=-1; A 3 x=-4611686018427387904",
        ["a1", "a2"],
    ),
    LanguageCase(
        "remainder_and_division",
        "PATTERN A a WHERE a.x % 3 = -1 AND a.x / 2 = -2 AND a.y % a.x = 1.5 WITHIN 1 us",
        "A 0 x=-4 y=5.5; A 1 x=4 y=5.5; A 2 x=-4 y=-5.5",
        ["a0"],
    ),
    LanguageCase(
        "division_by_zero_is_null",
        "PATTERN A a WHERE a.x / a.id >= 0 OR a.x / a.id < 0 OR a.x % a.id = 0 WITHIN 1 us",
        "A 0 x=1 id=0; A 1 x=0 id=0; A 2 x=1 id=1",
        ["a2"],
    ),
    LanguageCase(
        "functions_out_of_domain",
        "PATTERN A a WHERE sqrt(a.y) >= 0 OR ln(a.y) < 0 WITHIN 1 us",
        "A 0 y=-1; A 1 y=0; A 2 y=0.5; A 3 y=nan",
        ["a1", "a2"],
    ),
    LanguageCase(
        "percent_or_modulo",
        "PATTERN A a WHERE a.y < 80% AND 7 % 4 = 3 WITHIN 1 us",
        "A 0 y=0.75; A 1 y=0.8; A 2 y=7",
        ["a0"],
    ),
    LanguageCase(
        "strings_by_code_point",
        "PATTERN A a WHERE a.s > 'Z' AND a.s < '\U0001f600' WITHIN 1 us",
        "A 0 s=a; A 1 s=Z; A 2 s=\U0001f600; A 3 s=\uffff; A 4 s=A",
        ["a0", "a3"],
    ),
    LanguageCase("bools", "PATTERN A a WHERE a.f != TRUE WITHIN 1 us", "A 0 f=true; A 1 f=false; A 2", ["a1"]),
    LanguageCase(
        "corr",
        "PATTERN SEQ(A a, B b) WHERE corr(a.h, b.h) > 0.9 WITHIN 9 seconds",
        "A 0 h=1,2,3; B 1 h=2,4,6.5; B 2 h=3,2,1; B 3 h=5,5,5; B 4 h=1,2; B 5 h=1,2,null; B 6 h=1,2,nan; B 7",
        ["a0 b1"],
    ),
    LanguageCase(
        "conjuncts_by_branch",
        "PATTERN SEQ(B b, OR(A a, D d)) WHERE (a.x = 1 AND d.x = 1) OR b.x = 1 WITHIN 10 seconds",
        "B 0 x=2; B 1 x=1; A 2 x=2; A 3 x=1; D 4 x=2",
        ["b1 a2", "b0 a3", "b1 a3", "b1 d4"],
    ),
    LanguageCase(
        "equivalence",
        "PATTERN SEQ(A a, B b) WHERE [id, y] WITHIN 9 seconds",
        "A 0 id=1 y=0.0; B 1 id=1 y=-0.0; B 2 id=2 y=0; B 3 id=1; B 4 id=1 y=nan",
        ["a0 b1"],
    ),
    LanguageCase("equivalence_of_null", "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 9 seconds", "A 0; B 1", []),
    LanguageCase("equivalence_of_one_event", "PATTERN A a WHERE [id] WITHIN 9 seconds", "A 0; A 1 id=1", ["a0", "a1"]),
    LanguageCase(
        "partition_by",
        "PATTERN AND(A a, B b) WITHIN 9 seconds PARTITION BY s",
        "A 0 s=p; B 1 s=q; B 2 s=p; B 3; A 4",
        ["a0 b2"],
    ),
    # Section 3.5, negation
    LanguageCase(
        "negation_between",
        "PATTERN SEQ(A a, ~N n, B b) WITHIN 9 seconds",
        "A 0; B 1; N 2; A 3; B 4",
        ["a0 b1", "a3 b4"],
    ),
    LanguageCase(
        "negation_with_condition",
        "PATTERN SEQ(A a, ~N n, B b) WHERE n.x > a.x WITHIN 9 seconds",
        "A 0 x=1; N 1 x=1; N 2; B 3; N 4 x=2; B 5",
        ["a0 b3"],
    ),
    LanguageCase("leading_negation", "PATTERN SEQ(~N n, A a, B b) WITHIN 5 seconds", "N 0; A 1; B 5; B 6", ["a1 b3"]),
    LanguageCase("trailing_negation", "PATTERN SEQ(A a, ~N n) WITHIN 5 seconds", "A 0; A 1; N 5.5; A 6", ["a0", "a3"]),
    LanguageCase(
        "negation_ignores_the_match",
        "PATTERN SEQ(A a, ~A n, A b) WITHIN 9 seconds",
        "A 0; A 1; A 2",
        ["a0 b1", "a1 b2"],
    ),
    LanguageCase(
        "union_of_negations",
        "PATTERN SEQ(A a, OR(~N n, ~M m), B b) WITHIN 9 seconds",
        "A 0; B 1; N 2; B 3; M 4; B 5",
        ["a0 b1", "a0 b3"],
    ),
    # Section 3.6, Kleene closure
    LanguageCase(
        "every_sub_list",
        "PATTERN SEQ(A a, K+ k[], B b) WITHIN 9 seconds",
        "A 0; K 1; K 2; B 3",
        ["a0 k1 k2 b3", "a0 k1 b3", "a0 k2 b3"],
    ),
    LanguageCase(
        "adjacent_elements",
        "PATTERN K+ k[] WHERE k[i].x > k[i-1].x WITHIN 9 seconds",
        "K 0 x=1; K 1 x=3; K 2 x=2",
        ["k0", "k0 k1", "k1", "k0 k2", "k2"],
    ),
    LanguageCase(
        "aggregates_skip_nulls",
        "PATTERN K+ k[] WHERE k.LEN = 3 AND count(k[].x) = 2 AND avg(k[].x) = 2.5 AND k[1].x < k[k.LEN].x "
        "WITHIN 9 seconds",
        "K 0 x=1; K 1; K 2 x=4",
        ["k0 k1 k2"],
    ),
    LanguageCase(
        "equal_seqs_order_by_position",
        "PATTERN SEQ(K+ k[], K+ l[]) WITHIN 9 seconds",
        "K 0; K 1; K 2",
        ["k0 l1", "k0 k1 l2", "k0 l1 l2", "k0 l2", "k1 l2"],
    ),
    # Section 4, runs
    LanguageCase(
        "next_match_takes_the_first",
        "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { b.x > a.x } WITHIN 9 seconds",
        "A 0 x=1; A 1 x=2; B 2 x=2; B 3 x=3",
        ["a0 b2", "a1 b3"],
    ),
    LanguageCase(
        "next_match_leaves_and_stays",
        "PATTERN SEQ(K+ k[], B b) WHERE skip_till_next_match { 1 = 1 } WITHIN 9 seconds",
        "K 0; B 1; K 2; B 3",
        ["k0 b1", "k0 k2 b3", "k2 b3"],
    ),
    LanguageCase(
        "next_match_leaves_a_full_list",
        "PATTERN SEQ(K{1,2} k[], B b) WHERE skip_till_next_match { 1 = 1 } WITHIN 9 seconds",
        "K 0; K 1; B 2; B 3",
        ["k0 k1 b2", "k1 b2", "k1 b3"],
    ),
    LanguageCase(
        "partition_contiguity",
        "PATTERN SEQ(A a, B b) WHERE partition_contiguity { [id] } WITHIN 9 seconds",
        "A 0 id=1; A 1 id=2; C 2 id=2; B 3 id=1; B 4 id=2",
        ["a0 b3"],
    ),
    LanguageCase(
        "strict_contiguity",
        "PATTERN SEQ(A a, B b) WHERE strict_contiguity { [id] } WITHIN 9 seconds",
        "A 0 id=1; A 1 id=2; B 2 id=1; A 3 id=1; B 4 id=1",
        ["a3 b4"],
    ),
    LanguageCase(
        "unordered_run",
        "PATTERN AND(A a, B b) WHERE skip_till_next_match { 1 = 1 } WITHIN 9 seconds",
        "B 0; C 1; A 2; A 3; B 4",
        ["a2 b0", "a2 b4", "a3 b4"],
    ),
    # Section 5, output
    LanguageCase(
        "non_overlap",
        "PATTERN SEQ(A a, B b) WITHIN 9 seconds OUTPUT NON_OVERLAP",
        "A 0; A 1; B 2; B 3; A 4; B 5",
        ["a0 b2", "a4 b5"],
    ),
    LanguageCase(
        "consume",
        "PATTERN SEQ(A a, B b) WITHIN 9 seconds CONSUME MATCHED",
        "A 0; A 1; B 2; B 3; B 4",
        ["a0 b2", "a1 b3"],
    ),
    LanguageCase(
        "returns",
        "PATTERN SEQ(A a, B b) WITHIN 9 seconds "
        "RETURN a.x + 1 AS p, b.x / 2, b.y, a.s, a.f, a.x * b.y AS q, b.seq, b.id",
        "A 0 x=1 s=p f=true; B 1 x=3 y=nan",
        ["a0 b1"],
        returns=[(2, 1.5, float("nan"), "p", True, float("nan"), 1, None)],
    ),
    LanguageCase(
        "returns_of_other_branches",
        "PATTERN OR(SEQ(A a, K+ k[]), B b) WITHIN 9 seconds RETURN a.x AS p, sum(k[].x) AS q, k.LEN AS n, b.s AS t",
        "A 0 x=1; K 1 x=2; K 2; B 3 s=p",
        ["a0 k1", "a0 k1 k2", "a0 k2", "b3"],
        returns=[(1, 2, 1, None), (1, 2, 2, None), (1, None, 1, None), (None, None, None, "p")],
    ),
)
