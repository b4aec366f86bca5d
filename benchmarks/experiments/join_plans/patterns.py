"""Patterns as in JQPG section 7.2: five sets, about half as many comparisons of differences as events, 20 minutes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from benchmarks.experiments.join_plans.streams import WINDOW_S, JoinStream
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION = "sequence", "negation", "conjunction", "Kleene", "disjunction"
SETS = (SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION)
SEQUENCES_OF_A_DISJUNCTION = 3
LEAST_SELECTIVITY, GREATEST_SELECTIVITY = 0.002, 0.88
"""The paper's range; where in it a condition lies is drawn evenly on a logarithmic scale."""
MOST_KLEENE_EVENTS = 8.0
"""The most events of a list in a window: lists double with each one."""
PAIRS = 2_000
"""Number of pairs of differences by which the constant of a condition is chosen."""


@dataclass(frozen=True)
class Drawn:
    """A pattern that was drawn.

    Attributes
    ----------
    text, pattern
        The statement, and what it says.
    snapshot
        Statistics of its stream.
    """

    text: str
    pattern: Pattern
    snapshot: StatisticsSnapshot


def draw_pattern(stream: JoinStream, kind: str, size: int, number: int, seed: int) -> Drawn:
    """Draw a pattern of a set; the same for the same arguments, whatever its plans cost.

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
    """
    random = np.random.default_rng((seed, SETS.index(kind), size, number))
    text = _drawn_text(random, stream, kind, size)
    (pattern,) = parse_patterns(text, stream.schema)
    return Drawn(text, pattern, estimate_statistics([pattern], stream.events))


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
    """Choose the margin by which a difference has to be above another one, so that the drawn share of pairs passes."""
    selectivity = math.exp(random.uniform(math.log(LEAST_SELECTIVITY), math.log(GREATEST_SELECTIVITY)))
    of_pairs = random.choice(stream.differences[other], PAIRS) - random.choice(stream.differences[one], PAIRS)
    return float(np.quantile(of_pairs, 1 - selectivity, method="higher")) - 1e-6
