"""What SIGMOD'08 found about NFA^b, and whether the cells of `cep experiment nfab` show it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import linear_regression
from typing import cast

from benchmarks.experiments.cells import Row
from benchmarks.experiments.findings import Finding, explained_by_a_line, log_slope, ratio_range
from benchmarks.experiments.nfab.experiment import (
    BACKTRACKING,
    GROWING,
    MATCHING,
    MATCHING_APART,
    MATCHING_BACK,
    MERGING,
    NON_OVERLAPPING,
)
from benchmarks.experiments.nfab.queries import LONGER
from benchmarks.experiments.nfab.runs import BACKTRACK, BASIC, MERGE, by_algorithm
from cep_pipeline.cli.figures import times_as_fast

EXPENSIVE = ("p1s3", "p2s3", "p3s3")
"""The queries of experiment 6."""
UNSELECTIVE = ("p1s3", "p3s3")
SELECTIVE = "p2s2"
TWO_ORDERS, ONE_ORDER = 100.0, 10.0
LEAST_MERGING_GAIN = 1.4
"""Rounded to one digit, as the paper gives it."""
EXPLAINED, LINEAR = 0.95, 1.15
"""A straight line has to explain so much of a cost; a linear one bends upwards no more than this (as a power)."""
SMALL_EFFECT = 2.0
COMPARABLE = 10.0
IN_COLUMNS = (
    "Under s2 hardly any event is in a run, and what is left is the same for both: the columns of the conditions on "
    "one event, which are computed for all events at once."
)
READING_AGAIN = (
    "What runs here is section 5.2.3 with its figure 7, word for word: the single run of a partition goes on until it "
    "matches or fails, runs that are created meanwhile are put on a stack with their state and event, and the one "
    "created last is resumed 'at state id q1 by reading events in the buffer starting from e3', the event at which it "
    "was postponed, not its first one. The counts of the paper are met, too: those of table 2, nearly all, as the "
    "table below shows, and the events read again, by which it explains its factor of 200 to 300: 'an average 0.6 "
    "time for each event for queries using s3'. With that, an event is read less than twice: a factor of hundreds "
    "cannot come from the events read, only from what going back costs in the paper's implementation, of which it "
    "says nothing. Here a postponed run keeps its computation state (the paper adapts its basic algorithm, too), and "
    "the event from which it goes on is a place in a column."
)
COPIED = (
    "What matches have in common is copied, at so little cost that what every event costs, and what grows with the "
    "number of runs, counts beside it: seconds grow more slowly than the lengths of the matches."
)
RUNS_TO_THE_END = (
    "How far behind backtracking is depends on the window: a run that finds no c reads up to the end of it, and then "
    "the next one is tried, while the basic algorithm has met the match that ends all of them long before."
)
MAKING_MATCHES = (
    "Merging saves in matching alone, which is a part of the time here (60% and more in the paper). The other parts "
    "are the same with and without it: the columns of the conditions, and writing the matches, which is copying in "
    "both, across the places where runs were merged, too. So the gain is that of matching, weighed by its share."
)
FEW_EQUAL_RUNS = (
    "No more can be gained than how much less often events are shown to runs: few runs live at a time in a small "
    "window, and runs of p3 are equal only if the least price so far is, too. What an event costs beside its runs "
    "is the same for both."
)


def all_findings(rows: Sequence[Row]) -> list[Finding]:
    """The findings of sections 6.1 to 6.3, of the cells of the first probability of rising."""
    rising = rows[0]["rising"] if rows else None
    own = by_algorithm([row for row in rows if row["rising"] == rising])
    return [
        skipping_costs_with_a_selective_predicate(own),
        cost_an_event_grows_with_the_window(own),
        window_matters_little_to_selective_queries(own),
        cost_is_linear_in_output_complexity(own),
        basic_beats_backtrack(own),
        backtrack_is_comparable_on_short_runs(own),
        basic_beats_backtrack_on_longer_patterns(own),
        merging_gains(own),
        merging_gains_in_matching(own),
    ]


def skipping_costs_with_a_selective_predicate(rows: Sequence[Row]) -> Finding:
    """Experiment 1."""
    expected = "with the selective p2, s2 and s3 differ by an order of magnitude in throughput"
    window = _first_window(rows)
    contiguous = _one(rows, query=SELECTIVE, part=GROWING, algorithm=BASIC, window=window)
    skipping = _one(rows, query="p2s3", part=GROWING, algorithm=BASIC, window=window)
    if contiguous is None or skipping is None:
        return _missing(expected)
    ratio = _per_event(skipping) / _per_event(contiguous)
    measured = f"s2 is {times_as_fast(ratio)} times as fast as s3 at a window of {window:g} events"
    alone = [_one(rows, query=query, part=MATCHING, algorithm=BASIC, window=window) for query in ("p2s3", SELECTIVE)]
    if alone[0] is not None and alone[1] is not None:
        measured += f", {times_as_fast(_per_event(alone[0]) / _per_event(alone[1]))} times in matching alone"
    return Finding(expected, measured, ratio >= ONE_ORDER, IN_COLUMNS)


def cost_an_event_grows_with_the_window(rows: Sequence[Row]) -> Finding:
    """Experiment 2: throughput falls quadratically."""
    expected = "the throughput of p1 and p3 under s3 falls quadratically with the window"
    squares, lines = [], []
    for query in UNSELECTIVE:
        own = _of(rows, query=query, part=GROWING, algorithm=BASIC)
        if len(own) > 2:
            windows, costs = [_number(row, "window") for row in own], [_per_event(row) for row in own]
            squares.append(explained_by_a_line([window**2 for window in windows], costs))
            lines.append(explained_by_a_line(windows, costs))
    if not squares:
        return _missing(expected)
    measured = (
        f"the square of the window explains {min(squares):.1%} or more of the differences in the cost of an event, the "
        f"window itself {min(lines):.1%}"
    )
    quadratic = all(square >= EXPLAINED and square >= line for square, line in zip(squares, lines, strict=True))
    return Finding(expected, measured, quadratic, COPIED)


def window_matters_little_to_selective_queries(rows: Sequence[Row]) -> Finding:
    """Experiment 2: p2s2."""
    expected = "the window has little effect on p2 under s2"
    costs = [_per_event(row) for row in _of(rows, query=SELECTIVE, part=GROWING, algorithm=BASIC)]
    if len(costs) < 2:
        return _missing(expected)
    ratio = max(costs) / min(costs)
    measured = f"over all windows the cost an event differs by a factor of {times_as_fast(ratio)}"
    return Finding(expected, measured, ratio <= SMALL_EFFECT)


def cost_is_linear_in_output_complexity(rows: Sequence[Row]) -> Finding:
    """Experiment 2, figure 8(c)."""
    expected = "the cost of a query is linear in its output complexity, the sum of the lengths of all matches"
    shares, slopes, constants = [], [], []
    for query in EXPENSIVE:
        own = [row for row in _of(rows, query=query, part=GROWING, algorithm=BASIC) if row["output_complexity"]]
        if len({row["output_complexity"] for row in own}) > 2:
            sizes, seconds = ([_number(row, name) for row in own] for name in ("output_complexity", "seconds"))
            shares.append(explained_by_a_line(sizes, seconds))
            slopes.append(log_slope(sizes, seconds))
            constants.append(linear_regression(sizes, seconds).slope * 1e9)
    if not shares:
        return _missing(expected)
    measured = (
        f"for {', '.join(EXPENSIVE)} a straight line through the windows explains {min(shares):.1%} or more of the "
        f"differences in seconds, at {ratio_range(constants)} ns for each event of a match; seconds grow with output "
        f"complexity to the power of {ratio_range(slopes)}, since there is also what every event costs in any window"
    )
    return Finding(expected, measured, min(shares) >= EXPLAINED and max(slopes) <= LINEAR, COPIED)


def basic_beats_backtrack(rows: Sequence[Row]) -> Finding:
    """Experiment 3."""
    expected = "the basic algorithm is two orders of magnitude faster than backtracking on p1 and p3"
    ratios = _slower(rows, BACKTRACKING, ("p1s2", "p1s3", "p3s2", "p3s3"))
    if not ratios:
        return _missing(expected)
    listed = ", ".join(f"{query} {times_as_fast(ratio)}" for query, ratio in ratios.items())
    again = [_number(row, "events_read_again") / _number(row, "events") for row in _backtracking(rows, ratios)]
    shown = [
        ratio_range([_number(row, "events_read") / _number(row, "events") for row in own])
        for own in (_backtracking(rows, ratios, BASIC), _backtracking(rows, ratios))
    ]
    alone = ratio_range(list(_slower(rows, MATCHING_BACK, tuple(ratios)).values()))
    measured = (
        f"times as fast: {listed}; in matching alone {alone}. For each event, the basic algorithm shows {shown[0]} "
        f"events to runs, and backtracking {shown[1]}; backtracking reads {ratio_range(again)} times each event again"
        f"{_read_from_the_first_event(rows)}"
    )
    return Finding(expected, measured, min(ratios.values()) >= TWO_ORDERS, READING_AGAIN)


def _read_from_the_first_event(rows: Sequence[Row]) -> str:
    """What going back to the first event of a run would take, where runs take all events in between: p1."""
    own = [row for row in _of(rows, part=MERGING, algorithm=BASIC, query="p1s3") if row["events_read"]]
    if not own:
        return ""
    times = [_number(row, "output_complexity") / _number(row, "events_read") for row in own]
    return (
        "; were each run of p1 read anew from its first event, as in matching over strings without a stack, that would "
        f"be {ratio_range(times)} times as many events as the basic algorithm shows, the more the larger the window"
    )


def backtrack_is_comparable_on_short_runs(rows: Sequence[Row]) -> Finding:
    """Experiment 3: p2s2."""
    expected = "on p2 under s2, where runs are short, both are comparable"
    ratios = _slower(rows, BACKTRACKING, (SELECTIVE,))
    if not ratios:
        return _missing(expected)
    ratio = ratios[SELECTIVE]
    return Finding(expected, f"basic is {times_as_fast(ratio)} times as fast", 1 / COMPARABLE <= ratio <= COMPARABLE)


def basic_beats_backtrack_on_longer_patterns(rows: Sequence[Row]) -> Finding:
    """Experiment 4, of which the paper does not tell the window: with the largest."""
    expected = "for non-overlapping results the basic algorithm is an order of magnitude faster only on p3*s3"
    longer = f"p3{LONGER}s3"
    ratios = {
        part: {query: _slower_by_window(rows, part, query) for query in ("p3s2", "p3s3", f"p3{LONGER}s2", longer)}
        for part in (NON_OVERLAPPING, MATCHING_APART)
    }
    whole = ratios[NON_OVERLAPPING]
    if not whole[longer]:
        return _missing(expected)
    listed = [
        "; ".join(f"{query} {', '.join(map(times_as_fast, own))}" for query, own in by_query.items() if own)
        for by_query in ratios.values()
    ]
    windows = ", ".join(f"{row['window']}" for row in _of(rows, part=NON_OVERLAPPING, query=longer, algorithm=BASIC))
    measured = f"for windows of {windows} events: {listed[0]}; in matching alone {listed[1]}"
    others = [ratio for query, own in whole.items() if query != longer for ratio in own]
    return Finding(expected, measured, whole[longer][-1] >= ONE_ORDER > max(others, default=0), RUNS_TO_THE_END)


def merging_gains(rows: Sequence[Row]) -> Finding:
    """Experiment 5, which is that of experiment 1: with the first window."""
    expected = "merging gains a factor of 1.4 or 1.5 under s3 in the smallest window, making the matches included"
    return _merging(rows, MERGING, expected, MAKING_MATCHES, _first_window(rows))


def merging_gains_in_matching(rows: Sequence[Row]) -> Finding:
    """Experiment 6."""
    expected = "in matching alone merging gains a factor of 1.4 to 2.1, more for larger windows"
    return _merging(rows, MATCHING, expected, FEW_EQUAL_RUNS)


def _merging(rows: Sequence[Row], part: str, expected: str, reason: str, window: float | None = None) -> Finding:
    """Whether merging gains enough: in one window, or in all."""
    own = [row for row in _of(rows, part=part, algorithm=MERGE) if row["query"] in EXPENSIVE]
    if not own:
        return _missing(expected)
    listed = []
    for query in dict.fromkeys(str(row["query"]) for row in own):
        gains = ", ".join(times_as_fast(_number(row, "ratio")) for row in _of(own, query=query))
        listed.append(f"{query} {gains}")
    windows = ", ".join(f"{row['window']}" for row in _of(own, query=own[0]["query"]))
    basic = [row for row in _of(rows, part=part, algorithm=BASIC) if row["query"] in EXPENSIVE]
    shown = [(_number(one, "events_read"), _number(two, "events_read")) for one, two in zip(basic, own, strict=True)]
    fewer = [one / two if two else 1.0 for one, two in shown]
    measured = (
        f"for windows of {windows} events: {'; '.join(listed)}; {_share_of_matching(rows) if part == MERGING else ''}"
        f"events are shown to runs {ratio_range(fewer)} times less often"
    )
    decisive = [row for row in own if window is None or row["window"] == window]
    holds = min(round(_number(row, "ratio"), 1) for row in decisive) >= LEAST_MERGING_GAIN
    return Finding(expected, measured, holds, reason)


def _share_of_matching(rows: Sequence[Row]) -> str:
    """How much of the basic algorithm's time matching alone takes."""
    shares = []
    for matching in (row for row in _of(rows, part=MATCHING, algorithm=BASIC) if row["query"] in EXPENSIVE):
        whole = _one(rows, part=MERGING, algorithm=BASIC, query=matching["query"], window=matching["window"])
        if whole is not None and _number(whole, "seconds"):
            shares.append(_number(matching, "seconds") / _number(whole, "seconds"))
    return f"matching is {min(shares):.0%} to {max(shares):.0%} of the basic algorithm's time; " if shares else ""


def _slower(rows: Sequence[Row], part: str, queries: Sequence[str]) -> dict[str, float]:
    """Query -> how many times as long backtracking takes as the basic algorithm."""
    own = _of(rows, part=part, algorithm=BACKTRACK)
    return {str(row["query"]): 1 / _number(row, "ratio") for row in own if row["query"] in queries}


def _slower_by_window(rows: Sequence[Row], part: str, query: str) -> list[float]:
    """The same for one query, window after window."""
    return [1 / _number(row, "ratio") for row in _of(rows, part=part, algorithm=BACKTRACK, query=query)]


def _backtracking(rows: Sequence[Row], queries: Collection[str], algorithm: str = BACKTRACK) -> list[Row]:
    return [row for row in _of(rows, part=BACKTRACKING, algorithm=algorithm) if row["query"] in queries]


def _missing(expected: str) -> Finding:
    return Finding(expected, "an algorithm that it is about is not there", None)


def _first_window(rows: Sequence[Row]) -> float:
    return min((_number(row, "window") for row in rows), default=0.0)


def _of(rows: Sequence[Row], **wanted: object) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def _one(rows: Sequence[Row], **wanted: object) -> Row | None:
    return next(iter(_of(rows, **wanted)), None)


def _per_event(row: Row) -> float:
    return _number(row, "seconds") / _number(row, "events")


def _number(row: Row, name: str) -> float:
    return cast(float, row[name])
