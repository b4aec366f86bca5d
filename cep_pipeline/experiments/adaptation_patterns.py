"""Patterns as in the patent's experiments: five sets of sizes 3 to 8, over growing differences or readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.decisions import Static
from cep_pipeline.detection.detect import COUNT_SCHEMA
from cep_pipeline.experiments.adaptation_streams import ExperimentStream, Floats
from cep_pipeline.experiments.join_patterns import variable_names
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern

SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION = "sequence", "negation", "conjunction", "Kleene", "disjunction"
SETS = (SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION)
SEQUENCES_OF_A_DISJUNCTION = 3
DRAWN_PAIRS = 20_000
"""Pairs of events by which it is said how far above the one before the next event has to be."""
By = tuple[str, str | None, str]
"""Planner, cost model (None: that of the mechanism) and mechanism, by which a window is chosen."""
CHAIN_BY: By = ("greedy", None, "lazy_chain_nfa")
TREE_BY: By = ("zstream", "instances", "evaluation_tree")
TRIED_PLACES, TRIED_INTERVALS = 4, 2
"""Where windows are tried, evenly spread, each time on so many intervals, by a plan of the first of all."""
LESS_OF_KLEENE = 3
"""With an event under KL, whose lists double with each event, the shortest window is so many times shorter."""
LONGER, HALVINGS = 1.25, 2
"""Each window that is tried is so many times the one before; the step that is too far is halved so often."""
LONGER_INTERVALS, ENOUGH = (1, 2, 3, 4, 6), 0.5
"""Intervals of light patterns, as multiples of that of others: the first with a window for this share of the work."""
MOST_INTERVALS = max(LONGER_INTERVALS)
MADE_COUNTS = 2
"""Making a partial match is so many tries."""
WORK_A_MATCH = 10
"""And a match, which no plan saves: a pattern is not to spend its time there."""
PAIRS_A_CHECK = 4000
"""Pairs that the statistics test a scope between two decisions."""


@dataclass(frozen=True)
class Fitted:
    """A pattern with the window that gives it about the work that was asked for: its statement, and what it says.

    Attributes
    ----------
    every
        Events between two decisions.
    """

    text: str
    pattern: Pattern
    window_s: int
    every: int


@cache
def fitted_pattern(
    stream: ExperimentStream, kind: str, size: int, seed: int, work: float, every: int, checks: int, by: By = TREE_BY
) -> Fitted:
    """The pattern of a set and size, with the longest window under which it is no more work than wanted.

    Its types are drawn. A number of each event has to be below the next one's, as in the patent, and by as much as
    makes the selectivity, which is drawn: without that there are so many matches that no plan saves much. Which number
    that is takes turns, so that conditions of neighbours are about independent: the patent's A.diff < B.diff < C.diff
    are not, and planners multiply selectivities. A negated event is one more than the size.

    Parameters
    ----------
    stream, kind, size, seed
        The stream, one of `SETS`, the number of events, and of which run the pattern is.
    work
        Tries of an event on a partial match that the mechanism makes between two decisions, at most, and if there are
        longer windows or intervals for it about as many.
    every, checks
        Events of the shortest interval between two decisions, and how many intervals the stream is read for.
    by
        Planner, cost model and mechanism.
    """
    for times in LONGER_INTERVALS:
        tried = partial(_tried, stream, kind, size, seed, times * every, checks, by)
        least_s = stream.least_window_s // (LESS_OF_KLEENE if kind == KLEENE else 1)
        window_s, found = _longest_window(tried, work, least_s, stream.longest_window_s)
        if found >= ENOUGH * work:
            break
    text = pattern_text(stream, kind, size, seed, window_s)
    (pattern,) = parse_patterns(text, stream.schema)
    return Fitted(text, pattern, window_s, times * every)


def _longest_window(tried: Callable[[int], float], work: float, window_s: int, longest: int) -> tuple[int, float]:
    """The longest window that is tried under which there is no more work than wanted, and its work."""
    found = tried(window_s)
    too_long = None
    while too_long is None and found < work and window_s < longest:
        longer = min(max(round(window_s * LONGER), window_s + 1), longest)
        of_longer = tried(longer)
        if of_longer > work:
            too_long = longer
        else:
            window_s, found = longer, of_longer
    for _ in range(HALVINGS if too_long else 0):
        between = round(math.sqrt(window_s * (too_long or longest)))
        of_between = tried(between)
        if of_between > work:
            too_long = between
        else:
            window_s, found = between, of_between
    return window_s, found


def _tried(
    stream: ExperimentStream, kind: str, size: int, seed: int, every: int, checks: int, by: By, window_s: int
) -> float:
    """Tries of an interval, or what its matches count as, in the mean over some of them."""
    (pattern,) = parse_patterns(pattern_text(stream, kind, size, seed, window_s), stream.schema)
    planner, cost, mechanism = by
    first = range(0, min(every * checks, stream.events.num_rows), max(checks // TRIED_PLACES, TRIED_INTERVALS) * every)
    events = pa.concat_tables([stream.events.slice(row, TRIED_INTERVALS * every) for row in first])
    loop = AdaptiveDetection(
        planner=planner,
        cost=cost,
        mechanism=mechanism,
        decision=Static(),
        every_events=every,
        seed=seed,
        max_pairs=PAIRS_A_CHECK,
    )
    tables, report = loop.detect([pattern], events, output=output_of(pattern))
    tries = sum(node.candidates + MADE_COUNTS * node.created for node in report.metrics.nodes)
    work = max(tries, WORK_A_MATCH * matches_in(tables[pattern.name]))
    return float(work) * every / float(events.num_rows)


def output_of(pattern: Pattern) -> str:
    """Matches are counted, for writing them takes all plans alike; those with lists would be counted by no plan."""
    return "verbose" if any(operand.kleene for operand in pattern.operands) else "count"


def matches_in(output: pa.Table) -> int:
    """How many matches there are in an output of `output_of`."""
    return int(output.column("count")[0].as_py()) if output.schema == COUNT_SCHEMA else int(output.num_rows)


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


@cache
def _numbers(stream: ExperimentStream, event_type: str, attribute: str) -> Floats:
    """What events of a type have of an attribute; where there are none, what all have."""
    own = stream.events.filter(pc.equal(stream.events.column(stream.schema.type_attribute), event_type))
    found: Floats = (own if own.num_rows else stream.events).column(attribute).to_numpy().astype(np.float64)
    return found


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
    conditions = []
    for place, (one, next_one) in enumerate(pairwise(references)):
        attribute = stream.compared[place % len(stream.compared)]
        least_share, most_share = stream.selectivities
        selectivity = least_share * (most_share / least_share) ** random.random()
        pair = types[place : place + 2]
        earlier, later = (random.choice(_numbers(stream, of, attribute), DRAWN_PAIRS) for of in pair)
        least = float(np.quantile(later - earlier, 1 - selectivity))
        conditions.append(f"{next_one}.{attribute} - {one}.{attribute} > {least:.4g}")
    if kind == NEGATION:
        operands.insert(special, f'NOT("{types[-1]}" x)')
        conditions += [f"x.{attribute} > {names[special]}.{attribute}" for attribute in stream.compared]
    return f"{'AND' if kind == CONJUNCTION else 'SEQ'}({', '.join(operands)})", conditions
