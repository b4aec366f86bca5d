"""Clause statistics for tests: drawn ones, and a literal version of PM and of the order's cost to compare with."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import permutations

from hypothesis import strategies as st

from cep_pipeline.planning.clause_statistics import Agreement, ClauseStatistics, JointCondition, PlanCondition

KINDS = st.sampled_from(["number"] * 3 + ["root", "correlation", "clock"])
SELECTIVITIES = st.one_of(st.floats(0.001, 1.0), st.sampled_from([1.0, 1e-30, 0.5]))
INSTANCES = st.one_of(st.floats(0.01, 1000.0), st.sampled_from([1e-30, 1e12, 1.0, 1.0]))


def random_statistics(size: int, seed: int) -> ClauseStatistics:
    """Statistics by a seed, of clauses too large to draw: pairs with conditions, and half of them in order."""
    draw = random.Random(seed)
    pairs = [tuple(sorted(draw.sample(range(size), 2))) for _ in range(size)]
    return ClauseStatistics(
        names=tuple(f"v{position}" for position in range(size)),
        ln_instances=tuple(math.log(draw.uniform(0.1, 100)) for _ in range(size)),
        conditions=tuple(PlanCondition(pair, math.log(draw.uniform(0.01, 1))) for pair in pairs),
        sequences=(tuple((position,) for position in range(size)),) if draw.random() < 0.5 else (),
        last=draw.randrange(size),
    )


@st.composite
def clause_statistics(draw: st.DrawFn, max_size: int = 7, min_size: int = 1) -> ClauseStatistics:
    """Any numbers: rates down to nothing and up to 10^12, selectivities of (nearly) 0 and of 1, ties."""
    size = draw(st.integers(min_size, max_size))
    conditions = draw(
        st.lists(
            st.tuples(st.sets(st.integers(0, size - 1), min_size=1, max_size=3), SELECTIVITIES, KINDS),
            max_size=size + 2,
        )
    )
    agreements = []
    for _ in range(draw(st.integers(0, 1))):
        matrix = [[0.0] * size for _ in range(size)]
        for i in range(size):
            for j in range(i):
                matrix[i][j] = matrix[j][i] = math.log(draw(SELECTIVITIES))
        agreements.append(Agreement(tuple(tuple(row) for row in matrix)))
    joints = draw(st.lists(st.tuples(st.sets(st.integers(0, size - 1), min_size=1), st.floats(-5, 5)), max_size=2))
    return ClauseStatistics(
        names=tuple(f"v{position}" for position in range(size)),
        ln_instances=tuple(math.log(draw(INSTANCES)) for _ in range(size)),
        conditions=tuple(
            PlanCondition(tuple(sorted(found)), math.log(value), kind=kind) for found, value, kind in conditions
        ),
        agreements=tuple(agreements),
        sequences=draw(sequences(tuple(range(size)))),
        joints=tuple(JointCondition(tuple(sorted(found)), ln_ratio) for found, ln_ratio in joints),
    )


@st.composite
def sequences(draw: st.DrawFn, members: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Nested SEQ and AND over the positions, as the groups of each SEQ."""
    if len(members) < 2:
        return ()
    cut = draw(st.integers(1, len(members) - 1))
    parts = (members[:cut], members[cut:])
    inner = tuple(group for part in parts for group in draw(sequences(part)))
    return (parts, *inner) if draw(st.booleans()) else inner


def order_share(statistics: ClauseStatistics, members: Sequence[int]) -> float:
    """Share of the orderings of the members in which each SEQ's groups follow one another, by trying all."""
    allowed = 0
    for ordering in permutations(members):
        place = {member: index for index, member in enumerate(ordering)}
        allowed += all(
            place[one] < place[other]
            for groups in statistics.sequences
            for index, group in enumerate(groups)
            for later in groups[index + 1 :]
            for one in group
            for other in later
            if one in place and other in place
        )
    return allowed / math.factorial(len(members))


def ln_partial_matches(statistics: ClauseStatistics, members: Sequence[int]) -> float:
    """PM of JQPG section 4.1, factor by factor."""
    total = math.log(order_share(statistics, members))
    for place, member in enumerate(sorted(members)):
        total += statistics.ln_instances[member]
        for agreement in statistics.agreements:
            earlier = sorted(members)[:place]
            total += min((agreement.ln_selectivities[member][other] for other in earlier), default=0.0)
    for condition in statistics.conditions:
        if all(position in members for position in condition.positions):
            total += condition.ln_selectivity
    for joint in statistics.joints:
        if all(position in members for position in joint.positions):
            total += joint.ln_ratio
    return total


def ln_cost(statistics: ClauseStatistics, order: Sequence[int]) -> float:
    """Cost of an order: the sum of PM over its beginnings."""
    terms = [ln_partial_matches(statistics, order[:length]) for length in range(1, len(order) + 1)]
    largest = max(terms)
    return largest + math.log(sum(math.exp(term - largest) for term in terms))
