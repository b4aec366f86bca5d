"""What executors take, and all thresholds by which one way is taken in place of another.

Times are of one core of a server of 2024, as `cep bench detection` measures them.
"""

from __future__ import annotations

import math

import numpy as np

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.counting.choice import (
    LANES,
    Joining,
    Sweep,
    counted_as_chain,
    joins_neighbours,
    orders_of,
)
from cep_pipeline.expressions.comparison import compare
from cep_pipeline.expressions.evaluate import expression_values
from cep_pipeline.patterns.conditions import Comparator
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import ANY_EVENT, View, leaf_of, view_of_leaf, without_name

CANDIDATE_NS, REJECTED_NS, LISTED_S = 1.5, 0.4, 40e-9
"""Time to find matches, a candidate, without and with negation, which rejects most; to write one to a buffer."""
FIXED_NS, STEP_NS, STATE_NS, JOINING_NS, BEHIND_NS = 500_000.0, 60.0, 4.0, 350.0, 600.0
"""Times of a sweep: fixed; for each event without a comparison, and for each pair of its states; with one comparison;
and behind 64 first events."""
ELEMENT_NS = 3.5
"""Time to count lists of compared neighbours for each element between two single events."""
LONG_NS = 50e6
"""Time to find partial matches that is worth another try to do without."""
SAMPLED = 1024
"""Pairs of events that tell how many pass a condition: a share of 3 % is told within a fifth."""
CLEARLY = 100.0
"""The ratio by which finding has to look dearer where comparisons join three variables and a sweep counts behind first
events. Finding removes the events that are in no match first, which leaves a much smaller part than a sample tells."""
FEW_SUMMARIZED = 1 << 20
"""Matches that are listed in less time (0.1 s) than most summaries take without a list."""
FEW_COMPRESSED, FEW_AN_EVENT = 1 << 17, 2
"""Matches, and more for each event, that are listed for buffers sooner (5 ms) than any graph is made."""
FEW_S = 0.1
"""Lists are looked for so long, whatever a graph would cost: of very many, few may be matches."""
COUNTED_SHARE = 0.1
"""Matches are counted before they are listed, for this share of the time that a graph takes."""
MOST_LISTED = 1 << 27
"""Events of listed matches that buffers may hold, which take 1 to 4 bytes each: half a gigabyte."""
COUNTING_S = 20.0
"""Longest time to count matches for which there is no memory: a user waits for an error."""
FEWEST_SINGLES = 3
"""Single events of a sequence from which on the preferred ones are swept: pairs are listed in less time."""


# Whether a call makes a plan (`planned.worth_planning`).
CALL_NS, ROW_NS, PATTERN_NS = 1.8e6, 2.7, 2e6
"""Nanoseconds of planning: to estimate any statistics, to read an event of the table, to plan a pattern."""
SAVED = 0.5
"""The share of the time of finding that a plan is taken to save: W1 is counted in half the time by its plan."""
TESTED_NS = 4.0
"""Time to test a candidate, and to go on with those that pass: half of them, for each condition. Over a million events
35 ms are told so for W1 and 25 for W2, and 33 and 24 are taken."""

# Whether events that are in no match are removed before any are combined (`fused.reduction`).
FEWEST_COMBINATIONS, FEWEST_CANDIDATES, CANDIDATES_AN_EVENT = 1 << 22, 1 << 28, 800
"""Fewer combinations of events are tested in less time than it takes to look at each event; fewer candidates in some
tenths of a second; so many are tested while one event is held against the events of another variable."""
UNEVEN = 2.0
"""Combinations of events that come unevenly, beside those of as many events that come evenly."""
LOOKED_AT, PAIRS_SAMPLED, ASKED = 1 << 14, 1 << 13, 64
"""Events of a variable whose ranges are looked at; pairs of events that tell how many pass; events of each variable
that are held against those of each other one to see how many go."""
WORTH_IT, WORTH_AGAIN = 0.5, 0.2
"""Share of the combinations that may stay at most; share of the events that a round has to remove for another one."""
ROUNDS, MOST_PAIRS = 2, 6
"""Times that all pairs are gone through; of more pairs only those with a comparison or a key are."""

# What ways around listing take at least.
EVENT_S, STEP_S, READ_S = 1.4e-6, 2e-4, 1e-7
"""Seconds of merged runs for one event of one lane, for one step of all lanes, and to see which events have a lane."""
LISTED_NS, LEAST_S = 200.0, 0.1
"""Time to list a match for a summary, and the least limit: sweeps stop where they take longer than both."""
LONG_LISTS, MOST_OF_ENDS = 48, 2
"""Candidates from which on lists are swept in any case, since their number may exceed a word; lanes of ends may read so
many times the events that lanes of beginnings do."""


def few_matches(events: PreparedEvents) -> int:
    """The number of matches up to which they are listed, whatever a graph would cost."""
    return FEW_COMPRESSED + FEW_AN_EVENT * len(events)


def listed_in(seconds: float, pattern: Pattern) -> int:
    """The number of matches that are listed in the time of a graph, and that buffers may hold."""
    return min(int(seconds / LISTED_S), MOST_LISTED // len(pattern.operands))


def pays(of: ClauseSlice, sweep: Sweep, views: dict[str, View]) -> bool:
    """Return whether a sweep takes less time than to find the matches."""
    clause = of.clause
    sizes = {one.name: len(views[one.name]) for one in clause.positive if not one.kleene}
    groups = agreement_codes(of.events, sweep.agree_on)[1] if sweep.agree_on else 1
    orders = len(orders_of(clause))
    candidates = candidates_of(of, groups, sizes)
    finding_ns = candidates * (REJECTED_NS if clause.negated else CANDIDATE_NS)
    if finding_ns <= FIXED_NS:
        return False
    behind = bool(sweep.joining) and not counted_as_chain(sweep.joining)
    if not sweep.joining:
        event_ns = STEP_NS + STATE_NS * (len(clause.positive) + 1) ** 2
    elif not behind:
        event_ns = JOINING_NS * orders
    else:
        order, share = orders_of(clause)[0], _share_of_window(of)
        if joins_neighbours(order, sweep.joining):
            share = min(share, 1 - share)  # windows that reach the last event end alike
        anchors = min(sizes[order[0].name], sizes[order[-1].name]) * share / (groups or 1)
        elements = sum(len(views[one.name]) for one in order if one.kleene) * _share_of_window(of) / (groups or 1)
        event_ns = BEHIND_NS * orders * (1 + anchors / LANES) * (1 + elements / 64)  # a word more for 64 elements
        if any(one.is_of_list for one in sweep.joining):
            finding_ns *= 1 + ELEMENT_NS / CANDIDATE_NS * elements / 2
        if len(order) == len(sizes):  # elements of lists are not left out early
            finding_ns *= orders / math.factorial(len(sizes) - 1)
    sweeping_ns = FIXED_NS + event_ns * sum(map(len, views.values()))
    if behind and finding_ns > sweeping_ns and len(sizes) == len(clause.positive):
        passing = sorted(_share_passing(of, joining, views) for joining in sweep.joining)
        share = math.prod(passing[:-1]) / (CLEARLY if len(sizes) == 3 else 1.0)
        finding_ns *= max(share, math.prod(passing))
    return finding_ns > sweeping_ns


def _share_passing(of: ClauseSlice, joining: Joining, views: dict[str, View]) -> float:
    """The share of the pairs of events within a window that pass a condition, by a sample of them."""
    one, other = (views[name].rows for name in joining.variables)
    some = np.linspace(0, len(one) - 1, SAMPLED).astype(np.int64)
    apart = np.arange(SAMPLED) * math.sqrt(2) % 2 - 1  # spread evenly, ahead and behind
    near = np.searchsorted(other, one[some]) + (apart * len(other) * _share_of_window(of)).astype(np.int64)
    rows = one[some], other[np.clip(near, 0, len(other) - 1)]
    passed = np.ones(SAMPLED, bool)
    compared = [(Comparator.EQ, sides) for sides in joining.equal]
    for comparator, sides in (*compared, (joining.comparator, joining.sides)):
        left, right = (
            expression_values(without_name(side, name), of.events, {ANY_EVENT: own})
            for side, name, own in zip(sides, joining.variables, rows, strict=True)
        )
        passed &= compare(comparator, left, right)
    return max(float(passed.mean()), 1 / SAMPLED)


def _share_of_window(of: ClauseSlice) -> float:
    """The share of a slice that a window is."""
    window = of.pattern.window
    if window.time_us is not None:
        return min(window.time_us / max(of.events.span_us, 1), 1.0)
    return min((window.events or 0) / max(len(of.events), 1), 1.0)


def candidates_of(of: ClauseSlice, groups: int | None, sizes: dict[str, int]) -> float:
    """Estimate the candidates that are tested to find matches, by the events that a window holds on average.

    Parameters
    ----------
    groups
        The number of values of a key on which the events of a match agree; None: those of what the clause agrees on.
    sizes
        The number of events of each single variable.
    """
    if groups is None:
        groups = agreement_codes(of.events, of.clause.agree_on)[1] if of.clause.agree_on else 1
    ascending, share = sorted(sizes.values()), _share_of_window(of)
    return math.prod((*ascending[:1], *(size * share / groups for size in ascending[1:])))


def finding_ns(of: ClauseSlice) -> float:
    """Estimate the time that it takes to find the events of the single variables of matches, in the pattern's order.

    Events that have to come in order share a window: of k of them, one in k! orders is tested.
    """
    clause, events = of.clause, of.events
    single = [one for one in clause.positive if not one.kleene]
    events.split(one.event_type for one in single)
    sizes = [len(view_of_leaf(events, leaf_of(clause, one.name), 0, len(events))) for one in single]
    groups = agreement_codes(events, clause.agree_on)[1] if clause.agree_on else 1
    within, tested, passed, bound = _share_of_window(of) / groups, 0.0, float(next(iter(sizes), 0)), set[str]()
    for place, (size, one) in enumerate(zip(sizes, single, strict=True)):
        if place:
            ordered = any((earlier, one.name) in clause.precedence for earlier in bound)
            tested += (candidates := passed * size * within * (1 / place if ordered else 2))
            asked = sum(one.name in conjunct.variables <= bound | {one.name} for conjunct in clause.conjuncts)
            passed = candidates * 0.5**asked
        bound.add(one.name)
    return tested * TESTED_NS
