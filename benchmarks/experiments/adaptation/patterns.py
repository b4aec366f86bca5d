"""Patterns as in the patent's experiments: five sets of sizes 3 to 8, over growing differences or readings."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.experiments.adaptation.streams import ExperimentStream, Floats
from benchmarks.experiments.join_plans.patterns import variable_names
from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.decisions import Static
from cep_pipeline.detection.detect import COUNT_SCHEMA
from cep_pipeline.detection.room import at_most
from cep_pipeline.errors import NoRoom
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics

SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION = "sequence", "negation", "conjunction", "Kleene", "disjunction"
SETS = (SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION)
SEQUENCES_OF_A_DISJUNCTION = 3
DRAWN_PAIRS = 20_000
"""Pairs of events by which it is said how far above the one before the next event has to be."""
By = tuple[str, str | None, str]
"""Planner, cost model (None: that of the mechanism) and mechanism, by which a window is chosen."""
CHAIN_BY: By = ("greedy", None, "lazy_chain_nfa")
TREE_BY: By = ("zstream", "instances", "evaluation_tree")
INTERVALS_A_WINDOW = 4
"""Decisions while a window passes."""
TRIED_PLACES, TRIED_WINDOWS = 3, 3
"""Places at which windows are tried, evenly spread, and windows at each, which run by a plan of the first one there."""
MOST_OF_FIRST = 10
"""So many times as much work the plan of the first place may be at the others."""
LESS_OF_KLEENE = 3
"""With an event under KL, whose lists double with each event, the shortest window is so many times shorter."""
LISTS_OF_TREES_S = 14
"""And for trees, which hold all lists at their leaf, this is the longest window: another few events of a type, and they
are more than there is memory for."""
LONGER, HALVINGS = 1.25, 2
"""Each window that is tried is so many times the one before; the step that is too far is halved so often."""
MADE_COUNTS = 2
"""Making a partial match is so many tries."""
WORK_A_MATCH = 42
"""And a match, which no plan saves: a pattern is not to spend its time there, nor to have more of them in all of the
stream than are held at once (`detection.parts`): some mechanisms would find them again."""
OF_SELECTIVITIES = 5
"""The size from which on conditions have the selectivities of the stream; those of fewer events are stricter, so that
all together select as much: else short patterns are all matches, which no plan saves."""
ORDERS = 2
"""A pair of a conjunction may come in either order: its conditions are so many times stricter than a sequence's."""
MOST_BYTES = 1 << 30
"""Bytes that a run over a window may hold at a time. By a plan of the night the morning may need more memory than there
is."""
PAIRS_A_CHECK = 4000
"""Pairs that the statistics test a scope between two decisions."""


@dataclass(frozen=True)
class Fitted:
    """A pattern with the window that gives it about the work that was asked for: its statement, and what it says.

    Attributes
    ----------
    every_us
        Microseconds between two decisions.
    intervals
        Decisions while a window passes.
    """

    text: str
    pattern: Pattern
    window_s: int
    every_us: int
    intervals: int = INTERVALS_A_WINDOW

    def decided(self, intervals: int) -> Fitted:
        """The same pattern over as much of the stream, decided about so often while its window passes."""
        return replace(self, intervals=intervals, every_us=self.window_s * 1_000_000 // intervals)

    def checks_of(self, checks: int) -> int:
        """The decisions over as much of the stream as `checks` of them pass in otherwise."""
        return checks * self.intervals // INTERVALS_A_WINDOW

    @property
    def pairs(self) -> int:
        """Pairs that the statistics test a scope between two decisions: as many a window, however often."""
        return PAIRS_A_CHECK * INTERVALS_A_WINDOW // self.intervals


@cache
def fitted_pattern(
    stream: ExperimentStream,
    kind: str,
    size: int,
    seed: int,
    work: float,
    checks: int,
    by: By = TREE_BY,
    most_s: int | None = None,
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
        Tries of an event on a partial match that the mechanism makes between two decisions by plans of the time, at
        most, and if there are longer windows for it about as many.
    checks
        Decisions that are taken over the stream.
    by
        Planner, cost model and mechanism.
    most_s
        Seconds of the longest window, where that is not to be the stream's.
    """
    fits = partial(_fits, stream, kind, size, seed, work, checks, by)
    least_s = stream.least_window_s // (LESS_OF_KLEENE if kind == KLEENE else 1)
    longest_s = LISTS_OF_TREES_S if kind == KLEENE and by == TREE_BY else stream.longest_window_s
    if most_s is not None:
        least_s, longest_s = min(least_s, most_s), min(longest_s, most_s)
    window_s = _longest_window(fits, least_s, longest_s)
    text = pattern_text(stream, kind, size, seed, window_s)
    (pattern,) = parse_patterns(text, stream.schema)
    return Fitted(text, pattern, window_s, interval_us(stream, window_s))


def interval_us(stream: ExperimentStream, window_s: int) -> int:
    """Microseconds between two decisions about a pattern with this window."""
    return max(window_s * 1_000_000 // INTERVALS_A_WINDOW, stream.least_interval_s * 1_000_000)


def _longest_window(fits: Callable[[int], bool], window_s: int, longest: int) -> int:
    """The longest window that is tried under which there is no more work than wanted."""
    too_long = None
    while too_long is None and window_s < longest:
        longer = min(max(round(window_s * LONGER), window_s + 1), longest)
        if fits(longer):
            window_s = longer
        else:
            too_long = longer
    for _ in range(HALVINGS if too_long else 0):
        between = round(math.sqrt(window_s * (too_long or longest)))
        if fits(between):
            window_s = between
        else:
            too_long = between
    return window_s


def _fits(
    stream: ExperimentStream, kind: str, size: int, seed: int, work: float, checks: int, by: By, window_s: int
) -> bool:
    """Tell whether a window makes no more work between two decisions than wanted, in the mean over some places."""
    (pattern,) = parse_patterns(pattern_text(stream, kind, size, seed, window_s), stream.schema)
    planner, cost, mechanism = by
    every_us, window_us = interval_us(stream, window_s), window_s * 1_000_000
    loop = AdaptiveDetection(
        planner=planner,
        cost=cost,
        mechanism=mechanism,
        decision=Static(),
        every=f"{window_us} us",
        seed=seed,
        max_pairs=PAIRS_A_CHECK,
    )
    most = work * TRIED_PLACES * TRIED_WINDOWS * window_us / every_us
    own = by_first = 0
    first = None
    for place in range(TRIED_PLACES):
        begin_us = place * checks * every_us // TRIED_PLACES
        start, behind, stop = np.searchsorted(
            stream.time_us, (begin_us, begin_us + window_us, begin_us + TRIED_WINDOWS * window_us)
        )
        events = stream.events.slice(start, stop - start)
        now = estimate_statistics([pattern], events.slice(0, behind - start), seed=seed, max_pairs=PAIRS_A_CHECK)
        own += _work(loop, pattern, events, now)
        if own > most:
            return False
        if first is None:
            first, by_first = now, own
        else:
            by_first += _work(loop, pattern, events, first)
        if by_first > MOST_OF_FIRST * most:
            return False
    return True


def _work(loop: AdaptiveDetection, pattern: Pattern, events: pa.Table, planned_from: StatisticsSnapshot) -> int:
    """Tries, or what matches count as, by the plan of some statistics; more than any where memory does not do."""
    try:
        with at_most(MOST_BYTES):
            tables, report = loop.detect([pattern], events, snapshot=planned_from, output=output_of(pattern))
    except NoRoom:
        return sys.maxsize
    tries = sum(node.candidates + MADE_COUNTS * node.created for node in report.metrics.nodes)
    return max(tries, WORK_A_MATCH * matches_in(tables[pattern.name]))


def output_of(pattern: Pattern) -> str:
    """Matches are counted, for writing them takes all plans alike; those with lists would be counted by no plan."""
    return "verbose" if any(operand.kleene for operand in pattern.operands) else "count"


def matches_in(output: pa.Table) -> int:
    """The number of matches in an output of `output_of`."""
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
    """The values of an attribute in the events of a type; where there are none, those in all events."""
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
        drawn = least_share * (most_share / least_share) ** random.random()
        selectivity = drawn ** max((OF_SELECTIVITIES - 1) / (size - 1), 1.0)
        selectivity /= ORDERS if kind == CONJUNCTION else 1
        pair = types[place : place + 2]
        earlier, later = (random.choice(_numbers(stream, of, attribute), DRAWN_PAIRS) for of in pair)
        least = float(np.quantile(later - earlier, 1 - selectivity))
        conditions.append(f"{next_one}.{attribute} - {one}.{attribute} > {least:.4g}")
    if kind == NEGATION:
        operands.insert(special, f'NOT("{types[-1]}" x)')
        conditions += [f"x.{attribute} > {names[special]}.{attribute}" for attribute in stream.compared]
    return f"{'AND' if kind == CONJUNCTION else 'SEQ'}({', '.join(operands)})", conditions
