"""Joint selectivities: found again in every clause that asks the same, and right where they overlap."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.planning.numbers.clause_questions import clause_statistics
from cep_pipeline.planning.numbers.clause_statistics import ln_partial_matches
from cep_pipeline.statistics.joint import ClauseTerms
from cep_pipeline.statistics.snapshot import JointSelectivity, StatisticsSnapshot
from tests.statistics.market import market, parse
from tests.thoroughness import examples

TEXT = """
NAME p PATTERN SEQ(A a, A b, B c, C d)
WHERE a.price < b.price AND b.price < c.price AND c.price < d.price AND a.diff < b.diff AND a.diff < d.diff
WITHIN 2 seconds
"""
[PATTERN] = parse(TEXT)
SNAPSHOT = cep.estimate_statistics([PATTERN], market(400))


def joint_of(terms: ClauseTerms, chosen: frozenset[int], value: float) -> JointSelectivity:
    members = terms.named(chosen)
    conditions, over = zip(*members, strict=True)
    return JointSelectivity(conditions, value, value, value, 1000, math.exp(terms.ln_independent(chosen)), over)


def with_joints(joints: list[JointSelectivity]) -> StatisticsSnapshot:
    unique = {joint.members: joint for joint in joints}
    return StatisticsSnapshot(
        rates=SNAPSHOT.rates,
        selectivities=SNAPSHOT.selectivities,
        events=SNAPSHOT.events,
        start_us=SNAPSHOT.start_us,
        end_us=SNAPSHOT.end_us,
        joints=tuple(unique.values()),
    )


SETS = st.sets(st.frozensets(st.integers(0, 4), min_size=2), max_size=6)


@settings(deadline=None)
@given(chosen=SETS, data=st.data())
def test_each_joint_selectivity_is_what_is_expected_of_its_conditions(
    chosen: set[frozenset[int]], data: st.DataObject
) -> None:
    """However they overlap: what joints of some of the conditions do already is taken off."""
    terms = ClauseTerms(PATTERN, PATTERN.clauses[0], SNAPSHOT)
    assert len(terms.terms) == 5
    values = {one: data.draw(st.floats(1e-6, 1.0)) for one in sorted(chosen, key=sorted)}
    snapshot = with_joints([joint_of(terms, one, value) for one, value in values.items()])
    corrected = ClauseTerms(PATTERN, PATTERN.clauses[0], snapshot)
    assert set(corrected.increments) == chosen
    for one, value in values.items():
        assert corrected.ln_expected(one) == pytest.approx(math.log(value), abs=1e-9)
    for one in map(frozenset, chain.from_iterable(combinations(range(5), size) for size in range(6))):
        if not any(known <= one for known in chosen):
            assert corrected.ln_expected(one) == pytest.approx(terms.ln_independent(one), abs=1e-9)


@settings(deadline=None, max_examples=examples(50))
@given(chosen=SETS, data=st.data())
def test_plans_expect_the_same(chosen: set[frozenset[int]], data: st.DataObject) -> None:
    terms = ClauseTerms(PATTERN, PATTERN.clauses[0], SNAPSHOT)
    joints = [joint_of(terms, one, data.draw(st.floats(1e-6, 1.0))) for one in sorted(chosen, key=sorted)]
    plain = clause_statistics(PATTERN, PATTERN.clauses[0], SNAPSHOT)
    snapshot = with_joints(joints)
    corrected = clause_statistics(PATTERN, PATTERN.clauses[0], snapshot)
    known = ClauseTerms(PATTERN, PATTERN.clauses[0], snapshot)
    for size in range(1, 5):
        for positions in combinations(range(4), size):
            inside = known.within([plain.names[position] for position in positions])
            change = ln_partial_matches(corrected, positions) - ln_partial_matches(plain, positions)
            assert change == pytest.approx(known.ln_expected(inside) - known.ln_independent(inside), abs=1e-9)


EQUALITIES = "a.sector = b.sector AND b.sector = c.sector AND a.sector = c.sector"


@pytest.mark.parametrize(
    "equalities", [EQUALITIES, "a.sector = b.sector AND a.sector = c.sector", "b.sector = c.sector"]
)
def test_equalities_that_join_the_same_variables_count_as_agreement(equalities: str) -> None:
    """A joint selectivity of theirs is what plans expect of them, whatever follows from others."""
    free, joined = (
        parse(f"NAME p PATTERN AND(A a, B b, C c, A d) WHERE a.price < d.price{more} WITHIN 2 seconds")[0]
        for more in ("", f" AND {equalities}")
    )
    snapshot = cep.estimate_statistics([free, joined], market(400))
    terms = ClauseTerms(joined, joined.clauses[0], snapshot)
    chosen = terms.within("abc")
    for value in (None, 0.03):
        known = snapshot
        if value is not None:
            known = replace(snapshot, joints=(joint_of(terms, chosen, value),)) if len(chosen) > 1 else snapshot
        of_free, of_joined = (
            ln_partial_matches(clause_statistics(one, one.clauses[0], known), (0, 1, 2)) for one in (free, joined)
        )
        expected = ClauseTerms(joined, joined.clauses[0], known).ln_expected(chosen)
        assert of_joined - of_free == pytest.approx(expected, abs=1e-9)
        assert value is None or len(chosen) < 2 or expected == pytest.approx(math.log(value), abs=1e-9)


def test_joints_of_other_conditions_change_nothing() -> None:
    terms = ClauseTerms(PATTERN, PATTERN.clauses[0], SNAPSHOT)
    [other] = parse(TEXT.replace("2 seconds", "3 seconds"))
    snapshot = with_joints([joint_of(terms, frozenset({0, 1}), 0.5)])
    assert ClauseTerms(other, other.clauses[0], snapshot).increments == {}


def test_a_joint_selectivity_survives_json() -> None:
    terms = ClauseTerms(PATTERN, PATTERN.clauses[0], SNAPSHOT)
    snapshot = with_joints([joint_of(terms, frozenset({0, 1, 4}), 0.25)])
    assert StatisticsSnapshot.from_json(snapshot.to_json()) == snapshot


def test_what_is_no_joint_selectivity_is_refused() -> None:
    with pytest.raises(ValueError, match="two or more conditions in order"):
        JointSelectivity(("one",), 0.5, 0.5, 0.5, 1, 0.5, ((0, 1),))
    with pytest.raises(ValueError, match="two or more conditions in order"):
        JointSelectivity(("b", "a"), 0.5, 0.5, 0.5, 1, 0.5, ((0, 1), (0, 1)))
    with pytest.raises(ValueError, match="two or more conditions in order"):
        JointSelectivity(("a", "a"), 0.5, 0.5, 0.5, 1, 0.5, ((0, 1), (0, 1)))
    assert JointSelectivity(("a", "a"), 0.5, 0.5, 0.5, 1, 0.5, ((0, 1), (1, 2))).over == ((0, 1), (1, 2))
