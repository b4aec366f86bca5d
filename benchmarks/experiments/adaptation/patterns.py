"""The patterns of `cep experiment adaptation`: the patent's five sets, each event compared with the one before."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.experiments.adaptation.streams import PASSING, WINDOW_S, Stretch
from benchmarks.experiments.join_plans.patterns import variable_names
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern

SEQUENCE, CONJUNCTION, NEGATION, KLEENE, DISJUNCTION = "sequence", "conjunction", "negation", "Kleene", "disjunction"
SETS = (SEQUENCE, CONJUNCTION, NEGATION, KLEENE, DISJUNCTION)
DRAWN_PAIRS = 20_000
"""Pairs of events by which it is said how far above the one before the next event has to be."""
BEGIN_WINDOWS = 20
"""Windows of the stretch that are looked at for this."""
_SPREAD = 1.5
"""A selectivity is at most so many times the middle one, or that much smaller."""


def pattern_of(stretch: Stretch, kind: str, size: int, seed: int) -> Pattern:
    """A pattern of a set: of the rarest type and the most frequent ones, in an order that the seed draws.

    Parameters
    ----------
    stretch
        Its beginning says how far numbers of its types are from each other.
    kind, size
        One of `SETS`; events, of a disjunction those of each of its two sequences.
    """
    random = np.random.default_rng((seed, size, SETS.index(kind)))
    begin = stretch.events.slice(0, BEGIN_WINDOWS * stretch.window)
    # A list is of the rarest type, which others are frequent beside, for lists double with each event.
    types = [*stretch.types[:1], *stretch.types[len(stretch.types) - size + 1 :]]
    parts = []
    conditions: list[str] = []
    names = variable_names(2 * size)
    for variables in (names[:size], names[size:])[: 2 if kind == DISJUNCTION else 1]:
        drawn = [str(one) for one in random.permutation(types)]
        operands = [f'"{of}" {name}' for of, name in zip(drawn, variables, strict=True)]
        references = list(variables)
        if kind == NEGATION:
            operands[-2] = f"~{operands[-2]}"
        elif kind == KLEENE:
            place = drawn.index(types[0])
            operands[place] = f'"{types[0]}"{{1,2}} {variables[place]}[]'
            references[place] += "[i]"
        for place, ((one, other), pair) in enumerate(zip(pairwise(references), pairwise(drawn), strict=True)):
            attribute = "xy"[place % 2]
            passing = PASSING[stretch.name] * math.exp(random.uniform(-1, 1) * math.log(_SPREAD))
            least = _least_difference(random, begin, pair, attribute, passing)
            conditions.append(f"{other}.{attribute} - {one}.{attribute} > {least:.4g}")
        parts.append(f"{'AND' if kind == CONJUNCTION else 'SEQ'}({', '.join(operands)})")
    structure = f"OR({', '.join(parts)})" if kind == DISJUNCTION else parts[0]
    text = f"NAME p PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN {WINDOW_S[stretch.name]} seconds"
    (pattern,) = parse_patterns(text, stretch.schema)
    return pattern


def _least_difference(
    random: np.random.Generator, events: pa.Table, types: tuple[str, str], attribute: str, passing: float
) -> float:
    """The difference that so many events of a window pass, of the more frequent type with one of the other."""
    numbers = [events.filter(pc.equal(events.column("kind"), of)).column(attribute).to_numpy() for of in types]
    before, after = (random.choice(of, DRAWN_PAIRS) for of in numbers)
    share = passing * BEGIN_WINDOWS / max(map(len, numbers))
    return float(np.quantile(after - before, max(1 - share, 0.0)))
