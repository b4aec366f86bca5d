"""What the MCEP patent found, and whether the cells of `cep experiment multi_pattern` show it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from benchmarks.experiments.cells import Figure, Row
from benchmarks.experiments.findings import Finding, rank_correlation, ratio_range
from benchmarks.experiments.multi_pattern import parts as part_names
from benchmarks.experiments.multi_pattern.exchanged import adaptive_over_static
from benchmarks.experiments.multi_pattern.figures import (
    averaged,
    by_contender,
    mean_of,
    number,
    over_best,
    ratios,
    rows_of,
    values_of,
)
from benchmarks.experiments.multi_pattern.runs import BASELINES, RE, SA_EDGE, SH, TS_EDGE
from benchmarks.experiments.multi_pattern.streams import STOCKS, STREAMS, TRAFFIC
from cep_pipeline.cli.figures import times_as_fast

LEAST_GAIN = 21.0
OVER_PREFIXES = 5.0
AHEAD = 1.25
UP_TO = 3.0
SAME = 0.1
"""Throughputs that differ by less are alike: of runs of milliseconds on a machine that does other things."""
PLACES = ("EDGE", "VERTEX4", "VERTEX8")
BEST = (SA_EDGE.name, TS_EDGE.name)


def all_findings(rows: Sequence[Row]) -> list[Finding]:
    """The findings of the section, by the rows of the cells."""
    measured = [row for row in rows if row["part"] in part_names.COMPARED_BY_GAINS]
    apart = by_contender(measured)
    of = {part: rows_of(apart, part=part) for part in part_names.COMPARED_BY_GAINS}
    compared = [
        row for part in (part_names.WORKLOAD, part_names.SIZE, part_names.TIME, part_names.COUNT) for row in of[part]
    ]
    return [
        gains_grow(of[part_names.WORKLOAD]),
        edge_is_best(of[part_names.WORKLOAD]),
        subexpressions_over_prefixes(of[part_names.WORKLOAD]),
        longer_patterns(of[part_names.SIZE]),
        longer_search(of[part_names.SEARCH]),
        larger_windows(of[part_names.TIME]),
        count_windows(of[part_names.TIME], of[part_names.COUNT]),
        ahead_of_all(compared),
        up_to_three_times(compared),
        adaptive_over_static(rows_of(rows, part=part_names.ADAPTIVE)),
        never_below_either([*of[part_names.DENSITY], *of[part_names.RATES]]),
        reordering_and_rates(of[part_names.DENSITY], of[part_names.RATES]),
        sharing_and_density(of[part_names.DENSITY]),
        in_less_time(rows_of(rows, part=part_names.RECOMPUTED)),
    ]


def gains_grow(rows: Sequence[Row]) -> Finding:
    """Figure 10."""
    expected = "gains over the trivial plan are 21 to 72, larger for larger workloads"
    means = averaged(rows)
    parts, grows, least = [], [], []
    for stream in STREAMS:
        own = sorted(rows_of(means, stream=stream, contender=SA_EDGE.name), key=lambda row: number(row, "value"))
        found = [number(row, "gain") for row in own]
        parts.append(f"{stream} {', '.join(map(times_as_fast, found))} for {_listed(own)} patterns (SA-EDGE)")
        grows.append(rank_correlation(values_of(own), found) > 0)
        least.append(max(found) >= LEAST_GAIN)
    why = (
        "What a workload gains is ruled by its few dearest patterns, which small workloads have by chance: "
        + "; ".join(
            f"in the {stream} RE alone, which shares nothing, gains "
            + ", ".join(times_as_fast(number(row, "gain")) for row in rows_of(means, stream=stream, contender=RE.name))
            for stream in STREAMS
        )
        + "."
    )
    return Finding(expected, "; ".join(parts), all(grows) and all(least), why)


def edge_is_best(rows: Sequence[Row]) -> Finding:
    """Figure 10, the neighbourhoods."""
    expected = "of the neighbourhoods edge is the best"
    means = {
        (short, place): mean_of(rows_of(rows, contender=f"{short}-{place}"), "gain")
        for short in ("SA", "TS")
        for place in PLACES
    }
    measured = "; ".join(
        f"{short} " + ", ".join(f"{place} {times_as_fast(means[short, place])}" for place in PLACES)
        for short in ("SA", "TS")
    )
    holds = all(means[short, "EDGE"] > means[short, place] for short in ("SA", "TS") for place in PLACES[1:])
    costs = {
        place: mean_of([row for row in rows if row["contender"] in (f"SA-{place}", f"TS-{place}")], "cost")
        for place in PLACES
    }
    why = (
        "The plans' costs differ as little: "
        + ", ".join(f"{place} {cost:,.0f}" for place, cost in costs.items())
        + " ns a window in the mean. The patent's reason is that time is short for the many neighbours of a "
        "vertex; here a second is enough for some hundred thousand, by which all have come to about the same plans."
    )
    return Finding(expected, f"gains in the mean {measured}", holds, why)


def subexpressions_over_prefixes(rows: Sequence[Row]) -> Finding:
    """Figure 10, EDGE and EDGE-PREFIX."""
    expected = "subexpressions have up to 5 times the throughput of prefixes"
    found = [
        ratio for short in ("SA", "TS") for ratio in _throughput_ratios(rows, f"{short}-EDGE", f"{short}-EDGE-PREFIX")
    ]
    own = {name: rows_of(rows, contender=name) for name in ("SA-EDGE", "SA-EDGE-PREFIX")}
    costed, tested, made = (
        times_as_fast(mean_of(own["SA-EDGE-PREFIX"], name) / mean_of(own["SA-EDGE"], name))
        for name in ("cost of joins", "candidates", "created")
    )
    of_pairs = mean_of(own["SA-EDGE"], "candidates of pairs") / mean_of(own["SA-EDGE"], "candidates")
    why = (
        f"The patent's reason is that an order shares one part only. Here what joins are expected to cost is {costed} "
        f"times as much in plans of prefixes; they test {tested} times the candidates of those of subexpressions and "
        f"make {made} times the partial matches: {of_pairs:.0%} of the "
        "candidates of trees are joins of two events, which orders that begin with them share as well; what is joined "
        "behind them is rare, and leaves little for a second part to save."
    )
    return Finding(expected, f"{ratio_range(found)} times", max(found) >= OVER_PREFIXES, why)


def longer_patterns(rows: Sequence[Row]) -> Finding:
    """Figure 11A."""
    return _monotone(rows, "longer patterns gain more, up to two orders of magnitude", "patterns of {} events")


def longer_search(rows: Sequence[Row]) -> Finding:
    """Figure 11B; by cost, which is what is searched for."""
    expected = "plans are the better the longer they are searched for"
    parts, falls = [], []
    for stream in STREAMS:
        for name in BEST:
            own = sorted(rows_of(rows, stream=stream, contender=name), key=lambda row: number(row, "value"))
            means = [mean_of(rows_of(own, value=value), "cost") for value in values_of(own)]
            parts.append(f"{stream} by {name} {', '.join(f'{cost:,.0f}' for cost in means)}")
            falls.append(means[-1] <= means[0])
    seconds = ", ".join(f"{value:g}" for value in values_of(rows))
    return Finding(
        expected,
        f"costs in ns a window after {seconds} s: {'; '.join(parts)}",
        all(falls),
        "A search begins with the cheapest plan of each pattern and keeps the best plan found; how far a seed's random "
        "moves get by then is not in the order of the limits.",
    )


def larger_windows(rows: Sequence[Row]) -> Finding:
    """Figure 11C."""
    return _monotone(rows, "larger time windows gain more", "windows of {} s")


def count_windows(time_rows: Sequence[Row], count_rows: Sequence[Row]) -> Finding:
    """Figure 11D."""
    expected = "count windows gain still more in the stocks, and as much in the traffic"
    found = {}
    for stream in STREAMS:
        largest = max(values_of(rows_of(count_rows, stream=stream)))
        by_count, by_time = (
            mean_of(rows_of(rows, stream=stream, value=largest, contender=SA_EDGE.name), "gain")
            for rows in (count_rows, time_rows)
        )
        found[stream] = by_count, by_time
    measured = "; ".join(
        f"{stream} {times_as_fast(by_count)} by count and {times_as_fast(by_time)} by time in the largest window"
        for stream, (by_count, by_time) in found.items()
    )
    holds = found[STOCKS][0] > found[STOCKS][1] and abs(found[TRAFFIC][0] / found[TRAFFIC][1] - 1) < 3 * SAME
    why = (
        "The generated trades come at constant rates, so that both kinds of windows have as many events at all times; "
        "the patent's stocks come in bursts. Here it is the readings that come at once, every five minutes."
    )
    return Finding(expected, measured, holds, why)


def ahead_of_all(rows: Sequence[Row]) -> Finding:
    """Figure 12; by the means over workloads, as the patent has them ([0135])."""
    expected = "SA-EDGE is at least 25 % ahead of every baseline"
    found = _over_baselines(rows)
    behind = [cell for cell, ratio in found.items() if ratio < AHEAD]
    measured = (
        f"{ratio_range(found.values())} times the best of them, {times_as_fast(geometric_mean(found.values()))} in the "
        f"mean; by 25 % and more in {len(found) - len(behind)} of {len(found)} places of the figures"
    )
    values = values_of(rows_of(rows, part=part_names.WORKLOAD))
    of_largest, of_smallest = (
        " and ".join(
            times_as_fast(ratio)
            for (part, _, at, _), ratio in found.items()
            if (part, at) == (part_names.WORKLOAD, value)
        )
        for value in (max(values), min(values))
    )
    why = (
        f"The best baseline is RE in most; sharing comes on top of its orders, the more the more patterns there are: "
        f"{of_largest} times with {max(values):g} patterns, {of_smallest} with {min(values):g}, which have little in "
        "common."
    )
    return Finding(expected, measured, not behind, why)


def up_to_three_times(rows: Sequence[Row]) -> Finding:
    """Figure 12, the largest lead."""
    expected = "and up to 3 times the second best"
    largest = max(_over_baselines(rows).values())
    return Finding(expected, f"up to {times_as_fast(largest)} times", largest >= UP_TO)


def _over_baselines(rows: Sequence[Row]) -> dict[tuple[Figure, ...], float]:
    """How many times the mean gain of SA-EDGE is that of the best baseline, by part, stream and value."""
    means = [{**row, "number": 0} for row in averaged(rows)]
    return over_best(means, SA_EDGE.name, [baseline.name for baseline in BASELINES])


def never_below_either(rows: Sequence[Row]) -> Finding:
    """Figure 14."""
    expected = "for every density and rate difference local search is above the better of SH and RE"
    found = [ratio for name in BEST for ratio in over_best(rows, name, (SH.name, RE.name)).values()]
    below = sum(ratio < 1 - SAME for ratio in found)
    measured = f"{ratio_range(found)} times the better one, below by more than {SAME:.0%} in {below} of {len(found)}"
    tried = [
        number(row, "candidates") / number(other, "candidates")
        for row in rows_of(rows, contender=RE.name)
        for other in rows_of(
            rows,
            contender=SA_EDGE.name,
            part=row["part"],
            stream=row["stream"],
            value=row["value"],
            number=row["number"],
        )
    ]
    why = f"RE's plans try {ratio_range(tried)} times as many candidates as those of SA-EDGE."
    return Finding(expected, measured, below == 0, why)


def reordering_and_rates(density: Sequence[Row], rates: Sequence[Row]) -> Finding:
    """Figure 14, RE."""
    expected = "RE gains with the rate difference"
    parts, grows = _ends(averaged(rates), RE.name)
    why = "Which rates a workload has beside their differences changes too: few differ little but the slow ones. "
    of_density, _ = _ends(averaged(density), RE.name)
    return Finding(expected, parts, grows, f"{why}Against density, of which it is to be independent: {of_density}.")


def sharing_and_density(rows: Sequence[Row]) -> Finding:
    """Figure 14, SH."""
    expected = "SH gains with density"
    means = averaged(rows, ("density of pairs",))
    parts, grows = _ends([{**row, "value": number(row, "density of pairs")} for row in means], SH.name)
    why = (
        "SH shares the most nodes whatever they cost, and joins blocks without a comparison with each other: its plans "
        f"test {times_as_fast(1 / mean_of(rows_of(rows, contender=SH.name), 'less_tried'))} times the candidates of "
        "the trivial ones in the mean, and which patterns have the dear blocks is chance."
    )
    return Finding(expected, parts, grows, why)


def in_less_time(rows: Sequence[Row]) -> Finding:
    """What the incremental cost is worth."""
    ratio = number(rows[0], "ratio")
    expected = (
        f"the search reaches at most the cost that the same search with all costs computed anew reaches in {ratio:g} "
        "times the time"
    )
    measured = "; ".join(
        f"{row['stream']} {number(row, 'ours:cost'):,.1f} in {number(row, 'ours_s'):g} s and "
        f"{number(row, 'recomputed:cost'):,.1f} in {ratio * number(row, 'ours_s'):g} s, in {row['ours:steps']:,} and "
        f"{row['recomputed:steps']:,} steps from {number(row, 'start:cost'):,.1f} on"
        for row in rows
    )
    holds = all(number(row, "ours:cost") <= number(row, "recomputed:cost") * (1 + 1e-9) for row in rows)
    return Finding(
        expected,
        measured,
        holds,
        "Of so few patterns computing all anew takes some ten times as long, so that in the longer time there are more "
        "steps of it; both have to come to the same plan.",
    )


def _monotone(rows: Sequence[Row], expected: str, what: str) -> Finding:
    means = averaged(rows)
    parts, grows = [], []
    for stream in STREAMS:
        own = sorted(rows_of(means, stream=stream, contender=SA_EDGE.name), key=lambda row: number(row, "value"))
        found = [number(row, "gain") for row in own]
        parts.append(f"{stream} {', '.join(map(times_as_fast, found))} for {what.format(_listed(own))}")
        grows.append(rank_correlation(values_of(own), found) > 0)
    tried = "; ".join(
        f"{stream} "
        + ", ".join(
            f"{number(row, 'candidates'):,.0f}"
            for row in sorted(rows_of(means, stream=stream, contender="trivial"), key=lambda row: number(row, "value"))
        )
        for stream in STREAMS
    )
    why = f"The trivial plan, whose candidates are to be saved, has {tried} of them; a workload's few dearest rule it."
    return Finding(expected, "; ".join(parts), all(grows), why)


def _ends(rows: Sequence[Row], contender: str) -> tuple[str, bool]:
    """The gains at the least and at the greatest value, and whether the latter are larger."""
    parts, grows = [], []
    for stream in STREAMS:
        own = sorted(rows_of(rows, stream=stream, contender=contender), key=lambda row: number(row, "value"))
        found = [number(row, "gain") for row in own]
        values = ", ".join(f"{number(row, 'value'):.3g}" for row in own)
        parts.append(f"{stream} {', '.join(map(times_as_fast, found))} for {values}")
        grows.append(rank_correlation([number(row, "value") for row in own], found) > 0)
    return "; ".join(parts), all(grows)


def _throughput_ratios(rows: Sequence[Row], one: str, other: str) -> list[float]:
    """How many times one contender's throughput is the other's: on two mechanisms gains are over different plans."""
    return ratios([{**row, "gain": number(row, "throughput")} for row in rows], one, other)


def _listed(rows: Sequence[Row]) -> str:
    texts = [f"{number(row, 'value'):g}" for row in rows]
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]
