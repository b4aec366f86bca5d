"""Joint selectivities of two variables: found in every clause that asks the same, and right where they overlap."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.planning.clause_questions import clause_statistics
from cep_pipeline.planning.clause_statistics import ln_partial_matches
from cep_pipeline.statistics.joint import ClauseTerms, ln_planned
from cep_pipeline.statistics.snapshot import JointSelectivity, StatisticsSnapshot
from tests.statistics.market import market, parse
from tests.thoroughness import examples

TEXT = """
NAME p PATTERN SEQ(A a, A b, B c)
WHERE a.price < b.price AND a.diff < b.diff AND a.price < 2 * b.diff AND b.price < c.price AND b.diff < c.diff
WITHIN 2 seconds
"""
[PATTERN] = parse(TEXT)
SNAPSHOT = replace(cep.estimate_statistics([PATTERN], market(400)), joints=())
TERMS = ClauseTerms(PATTERN, PATTERN.clauses[0], SNAPSHOT)
PLACES = {names: [at for at, term in enumerate(TERMS.terms) if {*term.names} == {*names}] for names in ("ab", "bc")}


def ln_independent(chosen: frozenset[int]) -> float:
    conjuncts = (TERMS.terms[place].conjunct for place in chosen)
    shares = (SNAPSHOT.selectivity(PATTERN, PATTERN.clauses[0], one) for one in conjuncts if one is not None)
    return sum(ln_planned(share.value, share.tested) for share in shares)


def joint_of(chosen: frozenset[int], value: float) -> JointSelectivity:
    names = sorted(TERMS.names_of(chosen))
    terms = [TERMS.terms[place] for place in chosen]
    members = sorted((term.key, tuple(names.index(name) for name in term.names)) for term in terms)
    conditions, over = zip(*members, strict=True)
    return JointSelectivity(conditions, value, value, value, 1000, math.exp(ln_independent(chosen)), over)


def with_joints(joints: list[JointSelectivity]) -> StatisticsSnapshot:
    return replace(SNAPSHOT, joints=tuple({joint.members: joint for joint in joints}.values()))


SETS = st.sets(
    st.one_of(*(st.frozensets(st.sampled_from(places), min_size=2) for places in PLACES.values())), max_size=4
)


@settings(deadline=None, max_examples=examples(50))
@given(chosen=SETS, data=st.data())
def test_plans_expect_what_a_joint_selectivity_says(chosen: set[frozenset[int]], data: st.DataObject) -> None:
    """However they overlap: what joints of some of the conditions do already is taken off."""
    values = {one: data.draw(st.floats(1e-6, 1.0)) for one in sorted(chosen, key=sorted)}
    snapshot = with_joints([joint_of(one, value) for one, value in values.items()])
    known = ClauseTerms(PATTERN, PATTERN.clauses[0], snapshot)
    assert set(known.increments) == chosen

    def ln_correction(inside: frozenset[int]) -> float:
        return sum(ln_ratio for terms, ln_ratio in known.increments.items() if terms <= inside)

    for one, value in values.items():
        assert ln_independent(one) + ln_correction(one) == pytest.approx(math.log(value), abs=1e-9)
    plain, corrected = (clause_statistics(PATTERN, PATTERN.clauses[0], of) for of in (SNAPSHOT, snapshot))
    for size in range(1, 4):
        for positions in combinations(range(3), size):
            inside = known.within([plain.names[position] for position in positions])
            change = ln_partial_matches(corrected, positions) - ln_partial_matches(plain, positions)
            assert change == pytest.approx(ln_correction(inside), abs=1e-9)


EQUALITIES = "a.sector = b.sector AND b.sector = c.sector AND a.sector = c.sector"


@pytest.mark.parametrize(
    "equalities", [EQUALITIES, "a.sector = b.sector AND a.sector = c.sector", "b.sector = c.sector"]
)
def test_equalities_that_join_the_same_variables_count_as_agreement(equalities: str) -> None:
    free, joined = (
        parse(f"NAME p PATTERN AND(A a, B b, C c, A d) WHERE a.price < d.price{more} WITHIN 2 seconds")[0]
        for more in ("", f" AND {equalities}")
    )
    snapshot = cep.estimate_statistics([free, joined], market(400))
    of_free, of_joined = (
        ln_partial_matches(clause_statistics(one, one.clauses[0], snapshot), (0, 1, 2)) for one in (free, joined)
    )

    def ln_equal(one: str, other: str) -> float:
        share = snapshot.agreement(joined, joined.clauses[0], "sector", one, other)
        return ln_planned(share.value, share.tested)

    earlier = {"b": "a", "c": "ab"} if "a." in equalities else {"c": "b"}
    expected = sum(min(ln_equal(one, later) for one in before) for later, before in earlier.items())
    assert of_joined - of_free == pytest.approx(expected, abs=1e-9)


def test_joints_of_other_conditions_change_nothing() -> None:
    [other] = parse(TEXT.replace("2 seconds", "3 seconds"))
    snapshot = with_joints([joint_of(frozenset(PLACES["ab"]), 0.5)])
    assert ClauseTerms(other, other.clauses[0], snapshot).increments == {}


def test_a_joint_selectivity_survives_json() -> None:
    snapshot = with_joints([joint_of(frozenset(PLACES["bc"]), 0.25)])
    assert StatisticsSnapshot.from_json(snapshot.to_json()) == snapshot


def test_what_is_no_joint_selectivity_is_refused() -> None:
    with pytest.raises(ValueError, match="two or more conditions in order"):
        JointSelectivity(("one",), 0.5, 0.5, 0.5, 1, 0.5, ((0, 1),))
    with pytest.raises(ValueError, match="two or more conditions in order"):
        JointSelectivity(("b", "a"), 0.5, 0.5, 0.5, 1, 0.5, ((0, 1), (0, 1)))
    with pytest.raises(ValueError, match="two or more conditions in order"):
        JointSelectivity(("a", "a"), 0.5, 0.5, 0.5, 1, 0.5, ((0, 1), (0, 1)))
    assert JointSelectivity(("a", "a"), 0.5, 0.5, 0.5, 1, 0.5, ((0, 1), (1, 2))).over == ((0, 1), (1, 2))
