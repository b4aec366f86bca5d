"""Patterns as in JQPG section 7.2: five sets, about half as many comparisons of differences as events, 20 minutes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from benchmarks.experiments.join_plans.streams import WINDOW_S, JoinStream
from cep_pipeline.detection.compare_plans import PlanRun, measure_runs
from cep_pipeline.errors import TooManyMatches
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.explain.compare import compare_planners
from cep_pipeline.planning.numbers.clause_questions import clause_statistics
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics, ln_partial_matches
from cep_pipeline.planning.trees import Join, Tree, leaves_of
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION = "sequence", "negation", "conjunction", "Kleene", "disjunction"
SETS = (SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION)
SEQUENCES_OF_A_DISJUNCTION = 3
LEAST_SELECTIVITY, GREATEST_SELECTIVITY = 0.002, 0.88
"""The paper's range; where in it a condition lies is drawn evenly on a logarithmic scale."""
MOST_KLEENE_EVENTS = 8.0
"""In a window: their lists double with each one."""
MOST_DRAWS = 300
CANDIDATES_EACH = 40.0
"""A tree may hold little and look at very much: all pairs of what its sides hold."""
MATCHES_EACH = 10.0
"""For each partial match that may be held at a time; conditions that share a variable pass together more often than
their selectivities say, and plans hold more than is expected."""
PAIRS = 2_000
"""Of differences, by which it is chosen what a condition compares them with."""
BOUNDING_PLANNERS = ("trivial", "event_frequency", "greedy", "zstream", "zstream_ordered")
"""Those whose plans can be dear; the others' are none of them dearer than the dearest of these."""


@dataclass(frozen=True)
class Drawn:
    """A pattern that was drawn.

    Attributes
    ----------
    text, pattern
        The statement, and what it says.
    snapshot
        Statistics of its stream.
    draws
        How many were drawn until one was no dearer than wanted.
    """

    text: str
    pattern: Pattern
    snapshot: StatisticsSnapshot
    draws: int


def draw_pattern(stream: JoinStream, kind: str, size: int, number: int, seed: int, dearest: float) -> Drawn:
    """Draw a pattern of a set; the same for the same arguments.

    Parameters
    ----------
    stream
        The stream that it is for.
    kind
        One of `SETS`.
    size
        Events of the pattern, the negated one and the one under KL among them; of a disjunction, events of each of its
        three sequences.
    number, seed
        Which pattern of this set and size, and of which run.
    dearest
        Drawn anew until no planner's plan is expected to hold more partial matches at a time, nor to look at more than
        `CANDIDATES_EACH` candidates for each of so many, nor there are more than `MATCHES_EACH` matches for each; the
        cheapest of `MOST_DRAWS` where there is none.
    """
    random = np.random.default_rng((seed, SETS.index(kind), size, number))
    best: tuple[float, str, Pattern, StatisticsSnapshot] | None = None
    draws = 0
    while draws < MOST_DRAWS:
        draws += 1
        text = _drawn_text(random, stream, kind, size)
        (pattern,) = parse_patterns(text, stream.schema)
        snapshot = estimate_statistics([pattern], stream.events)
        held = _ln_dearest(pattern, snapshot)
        if held > math.log(dearest):
            too_dear = held
        elif math.isinf(dearest) or has_fewer_matches(pattern, snapshot, stream, MATCHES_EACH * dearest):
            return Drawn(text, pattern, snapshot, draws)
        else:
            too_dear = math.inf
        if best is None or too_dear < best[0]:
            best = too_dear, text, pattern, snapshot
    assert best is not None
    return Drawn(*best[1:], draws)


def _ln_dearest(pattern: Pattern, snapshot: StatisticsSnapshot) -> float:
    """ln of what the dearest plan holds, in partial matches; candidates count by what is allowed for each."""
    plans = compare_planners(pattern, snapshot, BOUNDING_PLANNERS, "throughput")
    held = [planned.ln_cost for planned in plans]
    for place, clause in enumerate(pattern.clauses):
        statistics = clause_statistics(pattern, clause, snapshot)
        for planned in plans:
            order = planned.orders[place]
            tree = order if isinstance(order, Join) else _left_deep(order)
            if isinstance(tree, Join):
                held.append(ln_candidates(statistics, tree) - math.log(CANDIDATES_EACH))
    return max(held)


def _left_deep(order: Sequence[str]) -> Tree:
    tree: Tree = order[0]
    for name in order[1:]:
        tree = Join(tree, name)
    return tree


def has_fewer_matches(pattern: Pattern, snapshot: StatisticsSnapshot, stream: JoinStream, most: float) -> bool:
    """Whether a pattern has at most so many matches: what the estimates do not see where conditions correlate."""
    (planned,) = compare_planners(pattern, snapshot, ["dp_left_deep"], "kernel")
    try:
        measure_runs(pattern, {"count": PlanRun("fused", planned.orders)}, stream.events, 0, limit=int(most))
    except TooManyMatches:
        return False
    return True


def ln_candidates(statistics: ClauseStatistics, tree: Join) -> float:
    """ln of the most pairs that a join of a tree looks at in a window: of what both of its sides hold."""
    sides = (tree.left, tree.right)
    at_most = sum(
        ln_partial_matches(statistics, [statistics.names.index(name) for name in leaves_of(side)]) for side in sides
    )
    return max(at_most, *(ln_candidates(statistics, side) for side in sides if isinstance(side, Join)), -math.inf)


def large_pattern(stream: JoinStream, size: int, number: int, seed: int) -> Drawn:
    """A sequence that is planned, and not run."""
    return draw_pattern(stream, SEQUENCE, size, number, seed, math.inf)


def contiguous(drawn: Drawn, stream: JoinStream) -> Pattern:
    """The sequence with its strict contiguity as conditions on the events' numbers (JQPG section 6.2)."""
    names = [operand.variable for operand in drawn.pattern.operands]
    adjacent = [f"{later}.seq = {earlier}.seq + 1" for earlier, later in pairwise(names)]
    head, _, tail = drawn.text.rpartition(" WITHIN ")
    return parse_patterns(f"{head} AND {' AND '.join(adjacent)} WITHIN {tail}", stream.schema)[0]


def with_strategy(drawn: Drawn, stream: JoinStream, strategy: str) -> Pattern:
    """The pattern under a selection strategy."""
    text = drawn.text.replace(" WHERE ", f" WHERE {strategy} {{ ").replace(" WITHIN ", " } WITHIN ")
    return parse_patterns(text, stream.schema)[0]


def _drawn_text(random: np.random.Generator, stream: JoinStream, kind: str, size: int) -> str:
    if kind == DISJUNCTION:
        parts = [
            _operator(random, stream, SEQUENCE, variable_names(size, f"{place + 1}"))
            for place in range(SEQUENCES_OF_A_DISJUNCTION)
        ]
        structure = f"OR({', '.join(structure for structure, _ in parts)})"
        conditions = [condition for _, own in parts for condition in own]
    else:
        structure, conditions = _operator(random, stream, kind, variable_names(size))
    return f"NAME p PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN {WINDOW_S // 60} minutes"


def variable_names(size: int, suffix: str = "") -> list[str]:
    """The names of variables of a drawn pattern.

    Examples
    --------
    >>> variable_names(3, "1")
    ['a1', 'b1', 'c1']
    """
    return [f"{chr(ord('a') + place)}{suffix}" for place in range(size)]


def _operator(
    random: np.random.Generator, stream: JoinStream, kind: str, names: Sequence[str]
) -> tuple[str, list[str]]:
    """One operator over variables of these names, and its conditions."""
    size = len(names)
    special = int(random.integers(1, size - 1))
    types = random.choice(len(stream.types), size, replace=False)
    if kind == KLEENE:
        slow = np.flatnonzero(stream.per_window <= max(MOST_KLEENE_EVENTS, stream.per_window.min()))
        repeated = random.choice(slow)
        types[types == repeated] = types[special]  # no type twice
        types[special] = repeated
    operands = [f'"{stream.types[code]}" {name}' for code, name in zip(types, names, strict=True)]
    if kind in (NEGATION, KLEENE):
        operands[special] = f"{'NOT' if kind == NEGATION else 'KL'}({operands[special]})"
    pairs = list(combinations(range(size), 2))
    chosen = sorted(random.choice(len(pairs), size // 2, replace=False))
    conditions = []
    for one, other in (pairs[place] for place in chosen):
        margin = _margin(random, stream, types[one], types[other])
        left, right = (
            f"{names[place]}{'[i]' if kind == KLEENE and place == special else ''}.diff" for place in (one, other)
        )
        conditions.append(f"{right} - {left} > {margin:.6g}")
    return f"{'AND' if kind == CONJUNCTION else 'SEQ'}({', '.join(operands)})", conditions


def _margin(random: np.random.Generator, stream: JoinStream, one: int, other: int) -> float:
    """By how much a difference has to be above the other one, so that as many pairs pass as is drawn."""
    selectivity = math.exp(random.uniform(math.log(LEAST_SELECTIVITY), math.log(GREATEST_SELECTIVITY)))
    of_pairs = random.choice(stream.differences[other], PAIRS) - random.choice(stream.differences[one], PAIRS)
    return float(np.quantile(of_pairs, 1 - selectivity, method="higher")) - 1e-6
