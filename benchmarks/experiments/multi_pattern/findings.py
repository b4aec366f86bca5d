"""The findings of the MCEP patent, beside the figures of `cep experiment multi_pattern`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from statistics import geometric_mean

from benchmarks.experiments.cells import Row
from benchmarks.experiments.findings import (
    Finding,
    Verdict,
    noise_of_runs,
    rank_correlation,
    ratio_range,
    verdict_at_least,
)
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
from cep_pipeline.cli.terminal import times_as_fast

GAINS = (21.0, 72.0)
"""The patent's smallest and largest gain of a workload size."""
OVER_PREFIXES = 5.0
LONGER = 100.0
AHEAD = 1.25
UP_TO = 3.0
BEYOND = 1.5
"""A figure that is so many times the patent's largest one surpasses it."""
AS_MUCH = 1.3
"""Gains whose quotient is no further from 1 are about the same."""
PLACES = ("EDGE", "VERTEX4", "VERTEX8")
BEST = (SA_EDGE.name, TS_EDGE.name)


def all_findings(rows: Sequence[Row]) -> list[Finding]:
    """The findings of the section, by the rows of the cells."""
    measured = [row for row in rows if row["part"] in part_names.COMPARED_BY_GAINS]
    apart = by_contender(measured)
    noise = noise_of(apart)
    of = {part: rows_of(apart, part=part) for part in part_names.COMPARED_BY_GAINS}
    compared = [
        row for part in (part_names.WORKLOAD, part_names.SIZE, part_names.TIME, part_names.COUNT) for row in of[part]
    ]
    return [
        gains_grow(of[part_names.WORKLOAD], noise),
        edge_is_best(of[part_names.WORKLOAD], noise),
        subexpressions_over_prefixes(of[part_names.WORKLOAD], noise),
        longer_patterns(of[part_names.SIZE], noise),
        longer_search(of[part_names.SEARCH]),
        larger_windows(of[part_names.TIME], noise),
        count_windows(of[part_names.TIME], of[part_names.COUNT], noise),
        ahead_of_all(compared, noise),
        up_to_three_times(compared, noise),
        adaptive_over_static(rows_of(rows, part=part_names.ADAPTIVE), noise),
        never_below_either([*of[part_names.DENSITY], *of[part_names.RATES]], noise),
        reordering_and_rates(of[part_names.RATES], noise),
        sharing_and_density(of[part_names.DENSITY], noise),
        in_less_time(rows_of(rows, part=part_names.RECOMPUTED)),
    ]


def noise_of(rows: Iterable[Row]) -> float:
    """The factor by which two times of the same run differ; infinite where each run was timed once."""
    times = [
        (number(row, "seconds"), number(row, "next_seconds")) for row in rows if row.get("next_seconds") is not None
    ]
    return noise_of_runs(times) if times else math.inf


def gains_grow(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 10."""
    largest = [max(number(row, "gain") for row in own) for own in _means_by_stream(rows, SA_EDGE.name)]
    least, most = GAINS
    verdict = _worst([_growth(rows, SA_EDGE.name, noise), verdict_at_least(min(largest), least, noise=noise)])
    if verdict is Verdict.HOLDS and min(largest) >= most * noise:
        verdict = Verdict.SURPASSED
    return Finding(
        "gains over the trivial plan are large, and larger for larger workloads",
        "21 to 72 times",
        f"{_range_of_means(rows, SA_EDGE.name)} times (SA-EDGE)",
        verdict,
        "A gain is over plans of each pattern by itself. The dearest few patterns rule what a workload gains, and the "
        "more patterns there are, the more of them are dear. So RE, which shares nothing, gains as well; sharing comes "
        "on top of its orders.",
    )


def edge_is_best(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 10, the neighbourhoods; in the workloads that all of them were measured in."""
    pairs = [(f"{short}-EDGE", f"{short}-{place}") for short, place in product(("SA", "TS"), PLACES[1:])]
    means, tried = (
        [geometric_mean(ratios([{**row, "gain": row[name]} for row in rows], *pair)) for pair in pairs]
        for name in ("gain", "less_tried")
    )
    return Finding(
        "of the neighbourhoods, edge is the best",
        "best of the three",
        f"{ratio_range(means)} times the gain of the others",
        # Where plans test as many candidates, the clock has nothing to tell them apart by.
        _agreed(verdict_at_least(min(of), 1.0, noise=noise) for of in (means, tried)),
        "The patent's reason is that time is too short for the many neighbours of a vertex. Here a search makes some "
        "hundred thousand steps in a second, and by then all neighbourhoods have come to plans that cost about the "
        "same and test about as many candidates (*Plans of the largest workloads*).",
    )


def subexpressions_over_prefixes(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 10, EDGE and EDGE-PREFIX."""
    found = [
        ratio for short in ("SA", "TS") for ratio in _throughput_ratios(rows, f"{short}-EDGE", f"{short}-EDGE-PREFIX")
    ]
    return Finding(
        "plans that share any subexpression are faster than those that share prefixes",
        "up to 5 times",
        f"{ratio_range(found)} times",
        verdict_at_least(max(found), OVER_PREFIXES, noise=noise, surpassed=OVER_PREFIXES * BEYOND),
        "The patent's reason is that an order shares only one part with other patterns. Here most of the work is in "
        "joins of two events (*Work of subexpressions and of prefixes*). Orders that begin with them share these as "
        "well. What is joined behind them is rare, and leaves little for a second part to save.",
    )


def longer_patterns(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 11A."""
    verdict = _growth(rows, SA_EDGE.name, noise)
    if verdict is Verdict.HOLDS and max(_gains_of_means(rows, SA_EDGE.name)) >= LONGER * BEYOND * noise:
        verdict = Verdict.SURPASSED
    return Finding(
        "longer patterns gain more",
        "up to two orders of magnitude",
        f"{_range_of_means(rows, SA_EDGE.name)} times",
        verdict,
        "The work of the trivial plan grows fast with the length of patterns, and a few dear patterns rule it. A good "
        "plan keeps to the rare events first.",
    )


def longer_search(rows: Sequence[Row]) -> Finding:
    """Figure 11B; by cost, which is what is searched for."""
    kept = []
    for stream, name in product(STREAMS, BEST):
        own = rows_of(rows, stream=stream, contender=name)
        first, last = (mean_of(rows_of(own, value=value), "cost") for value in _ends(own))
        kept.append(last / first)
    return Finding(
        "plans are the better the longer they are searched for",
        "gains grow with the time limit",
        f"costs fall by {1 - max(kept):.1%} to {1 - min(kept):.1%}",
        Verdict.HOLDS if max(kept) <= 1 else Verdict.DIFFERS,
        "Costs are counted, so this has no noise. They fall by little: the shortest limit is already enough for most "
        "of what a search finds (*Cost by time of search*).",
    )


def larger_windows(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 11C."""
    return Finding(
        "larger time windows gain more",
        "gains grow with the window",
        f"{_range_of_means(rows, SA_EDGE.name)} times",
        _growth(rows, SA_EDGE.name, noise),
        "All windows have the same workloads, so each workload by itself has to gain more in larger windows. The work "
        "of the trivial plan grows with the window; so does that of a good plan, though, and what remains is matches, "
        "which cost the same by any plan.",
    )


def count_windows(time_rows: Sequence[Row], count_rows: Sequence[Row], noise: float) -> Finding:
    """Figure 11D, in the largest windows."""
    largest = max(values_of(count_rows))
    found = {}
    for stream in STREAMS:
        by_count, by_time = (
            rows_of(rows, stream=stream, value=largest, contender=SA_EDGE.name) for rows in (count_rows, time_rows)
        )
        found[stream] = [
            number(one, "gain") / number(other, "gain") for one, other in zip(by_count, by_time, strict=True)
        ]
    means = {stream: geometric_mean(of) for stream, of in found.items()}
    more = _agreed(verdict_at_least(ratio, 1.0, noise=noise) for ratio in found[STOCKS])
    apart = max(means[TRAFFIC], 1 / means[TRAFFIC])
    as_much = verdict_at_least(AS_MUCH / apart, 1.0, noise=noise)
    return Finding(
        "beside time windows, count windows gain still more in the stocks, as much in the traffic",
        "more in the stocks, as much in the traffic",
        f"{times_as_fast(means[STOCKS])} times in the stocks, {times_as_fast(means[TRAFFIC])} in the traffic",
        _worst([more, as_much]),
        "The patent's stocks come in bursts, in which a window of time is full for a moment only. The generated trades "
        "come at constant rates, so both kinds of windows hold as many events at all times. In the traffic here it is "
        "the other way round: the readings come at once, every five minutes.",
    )


def ahead_of_all(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 12; by the means over workloads, as the patent has them ([0135])."""
    found = _over_baselines(rows)
    return Finding(
        "SA-EDGE is ahead of every baseline",
        "by 25 % and more",
        f"{ratio_range(found)} times the best of them",
        verdict_at_least(min(found), AHEAD, noise=noise),
        "RE or SH-MDT is the best baseline nearly everywhere. A search begins with the orders of RE and shares what is "
        "worth it. It gains the more over RE the more patterns there are, for small workloads have little in common.",
    )


def up_to_three_times(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 12, the largest lead."""
    largest = max(_over_baselines(rows))
    return Finding(
        "the lead of SA-EDGE over the second best is large",
        "up to 3 times",
        f"up to {times_as_fast(largest)} times",
        verdict_at_least(largest, UP_TO, noise=noise, surpassed=UP_TO * BEYOND),
        "All contenders run on one mechanism here, so a lead is one of plans alone. The cost that the search goes by "
        "ranks plans nearly as the clock does (*Costs of plans, and the clock*).",
    )


def never_below_either(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 14."""
    found = [ratio for name in BEST for ratio in over_best(rows, name, (SH.name, RE.name)).values()]
    return Finding(
        "for every density and rate difference, local search is above SH and RE",
        "above the better of the two",
        f"{ratio_range(found)} times the better one",
        verdict_at_least(min(found), 1.0, noise=noise),
        "A search begins with the cheapest plan of each pattern, which is that of RE, and keeps what costs less. It is "
        "behind only where the clock does not rank two plans as their costs do.",
    )


def reordering_and_rates(rates: Sequence[Row], noise: float) -> Finding:
    """Figure 14, RE."""
    return Finding(
        "reordering (RE) gains with the difference of rates",
        "gains grow",
        f"{_range_of_means(rates, RE.name)} times",
        _growth(rates, RE.name, noise),
        "Each difference of rates has other patterns: few patterns differ little but those of the slow types. Which "
        "dear patterns a workload has is chance, and moves its gain as well.",
    )


def sharing_and_density(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 14, SH; the density of a value is the mean over its workloads."""
    density = {
        (row["stream"], row["value"]): number(row, "density of pairs") for row in averaged(rows, ("density of pairs",))
    }
    return Finding(
        "sharing (SH) gains with the density of the graph",
        "gains grow",
        f"{_range_of_means(rows, SH.name)} times",
        _growth([{**row, "value": density[row["stream"], row["value"]]} for row in rows], SH.name, noise),
        "SH shares as many nodes as it can, whatever they cost, and joins blocks that no condition compares. So its "
        "plans may even do more work than the trivial ones, and which patterns have the dear blocks is chance.",
    )


AS_FAR = 1.001
"""A search gets as far as another one if its plan costs at most so many times as much."""


def in_less_time(rows: Sequence[Row]) -> Finding:
    """The worth of costs by differences; costs are counted."""
    found = [number(row, "ours:cost") / number(row, "recomputed:cost") for row in rows]
    return Finding(
        f"a search gets as far as one that computes all costs anew in {number(rows[0], 'ratio'):g} times the time",
        "180 s for a search",
        f"{min(found):.4f} to {max(found):.4f} times its cost",
        Verdict.HOLDS if max(found) <= AS_FAR else Verdict.DIFFERS,
        "Both searches make the same moves. The one that updates costs by differences makes more of them in a second "
        "(*Costs by differences*). Costs that differ by a thousandth count as alike: the number of moves in a second "
        "depends on what else the machine does.",
    )


def _over_baselines(rows: Sequence[Row]) -> list[float]:
    """The mean gain of SA-EDGE as a multiple of that of the best baseline, by part, stream and value."""
    means = [{**row, "number": 0} for row in averaged(rows)]
    return [*over_best(means, SA_EDGE.name, [baseline.name for baseline in BASELINES]).values()]


def _growth(rows: Sequence[Row], contender: str, noise: float) -> Verdict:
    """The verdict on gains that grow with the value of a part.

    In each stream the means over the workloads have to grow, and so have the gains of each workload that was drawn for
    all of the values. Where these disagree, or are alike but for noise, nothing is decided.
    """
    found = []
    for stream in STREAMS:
        own = rows_of(rows, stream=stream, contender=contender)
        numbers = dict.fromkeys(row["number"] for row in own)
        series = [averaged(own), *(rows_of(own, number=drawn) for drawn in numbers)]
        whole = max(map(len, series))
        found.append(_agreed(_grows(of, noise) for of in series if len(of) == whole))
    return _worst(found)


def _grows(rows: Sequence[Row], noise: float) -> Verdict:
    points = sorted((number(row, "value"), number(row, "gain")) for row in rows)
    xs, ys = zip(*points, strict=True)
    by_ends = verdict_at_least(ys[-1] / ys[0], 1.0, noise=noise)
    by_ranks = Verdict.HOLDS if rank_correlation(xs, ys) > 0 else Verdict.DIFFERS
    return _agreed([by_ends, by_ranks])


def _agreed(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that all say; undecided where they disagree."""
    [found, *others] = {*verdicts}
    return Verdict.UNDECIDED if others else found


def _worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim of several parts: it differs where one part does, and holds where all of them do."""
    found = {*verdicts}
    for verdict in (Verdict.DIFFERS, Verdict.UNDECIDED):
        if verdict in found:
            return verdict
    return Verdict.HOLDS


def _means_by_stream(rows: Sequence[Row], contender: str) -> list[list[Row]]:
    means = averaged(rows_of(rows, contender=contender))
    return [rows_of(means, stream=stream) for stream in STREAMS]


def _gains_of_means(rows: Sequence[Row], contender: str) -> list[float]:
    return [number(row, "gain") for own in _means_by_stream(rows, contender) for row in own]


def _range_of_means(rows: Sequence[Row], contender: str) -> str:
    """The least and the greatest mean gain of a contender over the values of a part."""
    return ratio_range(_gains_of_means(rows, contender))


def _ends(rows: Sequence[Row]) -> tuple[float, float]:
    values = values_of(rows)
    return values[0], values[-1]


def _throughput_ratios(rows: Sequence[Row], one: str, other: str) -> list[float]:
    """The quotients of two contenders' throughputs: on two mechanisms gains are over different plans."""
    return ratios([{**row, "gain": number(row, "throughput")} for row in rows], one, other)
