"""Patterns as in the patent's experiments: five sets of sizes 3 to 8, over growing differences or readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.decisions import Static
from cep_pipeline.experiments.adaptation_streams import ExperimentStream
from cep_pipeline.experiments.join_patterns import variable_names
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern

SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION = "sequence", "negation", "conjunction", "Kleene", "disjunction"
SETS = (SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION)
SEQUENCES_OF_A_DISJUNCTION = 3
STEPS = 4
"""By one to so many steps of its attribute the next event has to be above the one before, which is drawn."""
FITTED_BY = (("greedy", "lazy_chain_nfa"), ("zstream", "evaluation_tree"))
LESS_OF_KLEENE = 3
"""With an event under KL, whose lists double with each event, the windows that are tried are from so many times shorter
than the shortest of others up to that one."""
LONGER = 1.35
"""Each window that is tried is so many times the one before."""
WORK_A_MATCH = 250.0
"""Matches have to be written, by any plan: a pattern is not to spend its time there."""
PAIRS = 1000
"""Pairs that the statistics test a scope, where a window is tried."""


@dataclass(frozen=True)
class Fitted:
    """A pattern with the window that gives it about the work that was asked for: its statement, and what it says."""

    text: str
    pattern: Pattern
    window_s: int


@cache
def fitted_pattern(stream: ExperimentStream, kind: str, size: int, seed: int, work: float) -> Fitted:
    """The pattern of a set and size, with the longest window under which it is no more work than wanted.

    Its types are drawn. A number of each event has to be below the next one's, as in the patent, by an amount that is
    drawn; which number that is takes turns, so that conditions of neighbours are about independent: the patent's
    A.diff < B.diff < C.diff are not, and planners multiply selectivities. A negated event is one more than the size.

    Parameters
    ----------
    stream, kind, size, seed
        The stream, one of `SETS`, the number of events, and of which run the pattern is.
    work
        Tries of an event on a partial match that chain NFA and tree make for each event of the stream, at most; of
        matches there are to be at most a `WORK_A_MATCH` th of it.
    """
    shortest, longest = stream.least_window_s, stream.longest_window_s
    if kind == KLEENE:
        shortest, longest = shortest // LESS_OF_KLEENE, shortest
    best = _fitted(stream, kind, size, seed, shortest)
    while best.window_s < longest:
        window_s = min(round(best.window_s * LONGER), longest)
        longer = _fitted(stream, kind, size, seed, window_s)
        if any(_work(stream, longer.pattern, *by) > work * stream.events.num_rows for by in FITTED_BY):
            break
        best = longer
    return best


def _work(stream: ExperimentStream, pattern: Pattern, planner: str, mechanism: str) -> float:
    loop = AdaptiveDetection(planner=planner, mechanism=mechanism, decision=Static(), max_pairs=PAIRS)
    tables, report = loop.detect([pattern], stream.events)
    tries = sum(node.candidates for node in report.metrics.nodes)
    return max(float(tries), WORK_A_MATCH * int(tables[pattern.name].num_rows))


def _fitted(stream: ExperimentStream, kind: str, size: int, seed: int, window_s: int) -> Fitted:
    text = pattern_text(stream, kind, size, seed, window_s)
    (pattern,) = parse_patterns(text, stream.schema)
    return Fitted(text, pattern, window_s)


def pattern_text(stream: ExperimentStream, kind: str, size: int, seed: int, window_s: int) -> str:
    """The statement of a set's pattern of a size."""
    random = np.random.default_rng((seed, SETS.index(kind), size))
    if kind == DISJUNCTION:
        parts = [
            _operator(random, stream, SEQUENCE, variable_names(size, str(place + 1)))
            for place in range(SEQUENCES_OF_A_DISJUNCTION)
        ]
        structure = f"OR({', '.join(structure for structure, _ in parts)})"
        conditions = [condition for _, own in parts for condition in own]
    else:
        structure, conditions = _operator(random, stream, kind, variable_names(size))
    return f"NAME p PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN {window_s} seconds"


def _operator(
    random: np.random.Generator, stream: ExperimentStream, kind: str, names: Sequence[str]
) -> tuple[str, list[str]]:
    """One operator over variables of these names, and its conditions."""
    size = len(names)
    special = int(random.integers(1, size - 1))
    types = [stream.types[code] for code in random.choice(len(stream.types), size + 1, replace=False)]
    operands = [f'"{event_type}" {name}' for event_type, name in zip(types, names, strict=False)]
    references = [*names]
    if kind == KLEENE:
        operands[special] = f"KL({operands[special]})"
        references[special] += "[i]"
    compared = [*stream.compared.items()]
    conditions = []
    for place, (one, next_one) in enumerate(pairwise(references)):
        attribute, step = compared[place % len(compared)]
        least = step * int(random.integers(1, STEPS + 1))
        conditions.append(f"{next_one}.{attribute} - {one}.{attribute} > {least:g}")
    if kind == NEGATION:
        operands.insert(special, f'NOT("{types[-1]}" x)')
        conditions += [f"x.{attribute} > {names[special]}.{attribute}" for attribute in stream.compared]
    return f"{'AND' if kind == CONJUNCTION else 'SEQ'}({', '.join(operands)})", conditions
