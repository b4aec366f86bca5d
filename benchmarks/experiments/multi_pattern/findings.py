"""The findings of the MCEP patent, beside the figures of `cep experiment multi_pattern`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from statistics import geometric_mean

from benchmarks.experiments.cells import Row, number, rows_of
from benchmarks.experiments.findings import (
    Finding,
    Measured,
    Verdict,
    finding,
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
    over_best,
    ratios,
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


@finding
def gains_grow(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 10."""
    largest = min(max(number(row, "gain") for row in own) for own in _means_by_stream(rows, SA_EDGE.name))
    least, most = GAINS
    verdict = _worst([_growth(rows, SA_EDGE.name, noise), verdict_at_least(largest, least, noise=noise)])
    if verdict is Verdict.HOLDS and largest >= most * noise:
        verdict = Verdict.SURPASSED
    return verdict, _range_of_means(rows, SA_EDGE.name)


@finding
def edge_is_best(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 10, the neighbourhoods; in the workloads that all of them were measured in."""
    pairs = [(f"{short}-EDGE", f"{short}-{place}") for short, place in product(("SA", "TS"), PLACES[1:])]
    means, tried = (
        [geometric_mean(ratios([{**row, "gain": row[name]} for row in rows], *pair)) for pair in pairs]
        for name in ("gain", "less_tried")
    )
    # Where plans test as many candidates, the clock has nothing to tell them apart by.
    verdict = _agreed(verdict_at_least(min(of), 1.0, noise=noise) for of in (means, tried))
    return verdict, {"gains": ratio_range(means)}


@finding
def subexpressions_over_prefixes(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 10, EDGE and EDGE-PREFIX."""
    # Throughputs are compared: on two mechanisms gains are over different plans.
    by_throughput = [{**row, "gain": row["throughput"]} for row in rows]
    found = [
        ratio for short in ("SA", "TS") for ratio in ratios(by_throughput, f"{short}-EDGE", f"{short}-EDGE-PREFIX")
    ]
    verdict = verdict_at_least(max(found), OVER_PREFIXES, noise=noise, surpassed=OVER_PREFIXES * BEYOND)
    return verdict, {"times": ratio_range(found)}


@finding
def longer_patterns(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 11A."""
    verdict = _growth(rows, SA_EDGE.name, noise)
    if verdict is Verdict.HOLDS and max(_gains_of_means(rows, SA_EDGE.name)) >= LONGER * BEYOND * noise:
        verdict = Verdict.SURPASSED
    return verdict, _range_of_means(rows, SA_EDGE.name)


@finding
def longer_search(rows: Sequence[Row]) -> Measured:
    """Figure 11B; by cost, which is what is searched for."""
    kept = []
    for stream, name in product(STREAMS, BEST):
        own = rows_of(rows, stream=stream, contender=name)
        values = values_of(own)
        first, last = (mean_of(rows_of(own, value=value), "cost") for value in (values[0], values[-1]))
        kept.append(last / first)
    verdict = Verdict.HOLDS if max(kept) <= 1 else Verdict.DIFFERS
    return verdict, {"least": 1 - max(kept), "most": 1 - min(kept)}


@finding
def larger_windows(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 11C."""
    return _growth(rows, SA_EDGE.name, noise), _range_of_means(rows, SA_EDGE.name)


@finding
def count_windows(time_rows: Sequence[Row], count_rows: Sequence[Row], noise: float) -> Measured:
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
    stocks, traffic = (geometric_mean(found[stream]) for stream in (STOCKS, TRAFFIC))
    more = _agreed(verdict_at_least(ratio, 1.0, noise=noise) for ratio in found[STOCKS])
    as_much = verdict_at_least(AS_MUCH / max(traffic, 1 / traffic), 1.0, noise=noise)
    return _worst([more, as_much]), {"stocks": times_as_fast(stocks), "traffic": times_as_fast(traffic)}


@finding
def ahead_of_all(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 12; by the means over workloads, as the patent has them ([0135])."""
    found = _over_baselines(rows)
    return verdict_at_least(min(found), AHEAD, noise=noise), {"times": ratio_range(found)}


@finding
def up_to_three_times(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 12, the largest lead."""
    largest = max(_over_baselines(rows))
    verdict = verdict_at_least(largest, UP_TO, noise=noise, surpassed=UP_TO * BEYOND)
    return verdict, {"largest": times_as_fast(largest)}


@finding
def never_below_either(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 14."""
    found = [ratio for name in BEST for ratio in over_best(rows, name, (SH.name, RE.name)).values()]
    return verdict_at_least(min(found), 1.0, noise=noise), {"times": ratio_range(found)}


@finding
def reordering_and_rates(rates: Sequence[Row], noise: float) -> Measured:
    """Figure 14, RE."""
    return _growth(rates, RE.name, noise), _range_of_means(rates, RE.name)


@finding
def sharing_and_density(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 14, SH; the density of a value is the mean over its workloads."""
    density = {
        (row["stream"], row["value"]): number(row, "density of pairs") for row in averaged(rows, ("density of pairs",))
    }
    by_density = [{**row, "value": density[row["stream"], row["value"]]} for row in rows]
    return _growth(by_density, SH.name, noise), _range_of_means(rows, SH.name)


AS_FAR = 1.001
"""A search gets as far as another one if its plan costs at most so many times as much."""


@finding
def in_less_time(rows: Sequence[Row]) -> Measured:
    """The worth of costs by differences; costs are counted."""
    found = [number(row, "ours:cost") / number(row, "recomputed:cost") for row in rows]
    verdict = Verdict.HOLDS if max(found) <= AS_FAR else Verdict.DIFFERS
    return verdict, {"ratio": rows[0]["ratio"], "least": min(found), "most": max(found)}


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


def _range_of_means(rows: Sequence[Row], contender: str) -> dict[str, str]:
    """The least and the greatest mean gain of a contender over the values of a part, as a figure of a finding."""
    return {"gains": ratio_range(_gains_of_means(rows, contender))}
