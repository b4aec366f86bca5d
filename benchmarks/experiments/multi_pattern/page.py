"""The page of `cep experiment multi_pattern`: gains of contenders, the patent's findings, charts and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from statistics import fmean, geometric_mean

from benchmarks.charts import Axis, Style, line_chart
from benchmarks.experiments.experiment import Figure, Request, Row, number, rows_of, taken_apart
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
from benchmarks.experiments.multi_pattern import workloads
from benchmarks.experiments.multi_pattern.experiment import (
    ADAPTIVE,
    ALL,
    BASELINES,
    COMPARED_BY_GAINS,
    COUNT,
    DENSITY,
    ENOUGH_S,
    HINDSIGHT,
    LOOP,
    MOST_RUNS,
    RATES,
    RE,
    SA_EDGE,
    SEARCH,
    SH,
    SIZE,
    STATIC,
    TIME,
    TRIVIAL,
    TRIVIAL_NFA,
    TS_EDGE,
    WORKLOAD,
    Sizes,
    stream_named,
)
from benchmarks.experiments.multi_pattern.workloads import STOCKS, STREAMS, TRAFFIC
from benchmarks.experiments.page import Page, Picture, columns_table, findings_page, table_across
from cep_pipeline.charts import PALETTE
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast


def by_contender(rows: Iterable[Row]) -> list[Row]:
    """One row a cell and contender, with its throughput, and its gain over the trivial plan on the same mechanism."""
    apart: list[Row] = []
    for row in rows:
        key, own = taken_apart(row, ":")
        for contender in (one for one in ALL if one.name in own):
            figures = own[contender.name]
            trivial = own.get(TRIVIAL_NFA.name if contender.sharing == "prefix" else TRIVIAL.name, own[TRIVIAL.name])
            derived: dict[str, Figure] = {
                "throughput": number(row, "events") / number(figures, "seconds"),
                "gain": number(trivial, "seconds") / number(figures, "seconds"),
                "less_tried": number(trivial, "candidates") / max(number(figures, "candidates"), 1.0),
            }
            apart.append({**key, "contender": contender.name, **figures, **derived})
    return apart


def mean_of(rows: Iterable[Row], name: str) -> float:
    """Geometric mean of a figure."""
    return geometric_mean([number(row, name) for row in rows])


def values_of(rows: Iterable[Row]) -> list[float]:
    """The values of a part's parameter, ascending."""
    return sorted({number(row, "value") for row in rows})


def averaged(rows: Sequence[Row], names: Sequence[str] = ()) -> list[Row]:
    """One row a part, stream, contender and value: geometric means of the gains over its workloads.

    Parameters
    ----------
    names
        Other figures, whose arithmetic means are wanted.
    """
    groups: dict[tuple[Figure, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["part"], row["stream"], row["contender"], row["value"]), []).append(row)
    return [
        {**own[0], "gain": mean_of(own, "gain"), **{name: fmean(number(row, name) for row in own) for name in names}}
        for own in groups.values()
    ]


def ratios(rows: Iterable[Row], contender: str, others: Sequence[str], figure: str = "gain") -> list[float]:
    """A contender's figure as a multiple of the best of some others', in each cell that has them all."""
    cells: dict[tuple[Figure, ...], dict[Figure, float]] = {}
    for row in rows:
        cell = (row["part"], row["stream"], row["value"], row["number"])
        cells.setdefault(cell, {})[row["contender"]] = number(row, figure)
    return [
        own[contender] / max(own[other] for other in others)
        for own in cells.values()
        if own.keys() >= {contender, *others}
    ]


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
DYNAMIC = 10.0
LONGEST = 1_000
"""The patent's largest x."""
BEST = (SA_EDGE.name, TS_EDGE.name)


def all_findings(rows: Sequence[Row]) -> list[Finding]:
    """The findings of the section, by the rows of the cells."""
    apart = by_contender(row for row in rows if row["part"] in COMPARED_BY_GAINS)
    noise = noise_of(apart)
    of = {part: rows_of(apart, part=part) for part in COMPARED_BY_GAINS}
    compared = [row for part in (WORKLOAD, SIZE, TIME, COUNT) for row in of[part]]
    return [
        gains_grow(of[WORKLOAD], noise),
        edge_is_best(of[WORKLOAD], noise),
        subexpressions_over_prefixes(of[WORKLOAD], noise),
        longer_patterns(of[SIZE], noise),
        longer_search(of[SEARCH]),
        larger_windows(of[TIME], noise),
        count_windows(of[TIME], of[COUNT], noise),
        ahead_of_all(compared, noise),
        up_to_three_times(compared, noise),
        adaptive_over_static(rows_of(rows, part=ADAPTIVE), noise),
        never_below_either([*of[DENSITY], *of[RATES]], noise),
        reordering_and_rates(of[RATES], noise),
        sharing_and_density(of[DENSITY], noise),
    ]


def noise_of(rows: Iterable[Row]) -> float:
    """The factor by which two times of the same run differ; infinite where each run was timed once."""
    times = [(number(row, "seconds"), number(row, "next_seconds")) for row in rows if row["next_seconds"] is not None]
    return noise_of_runs(times) if times else math.inf


@finding
def gains_grow(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 10."""
    means = averaged(rows_of(rows, contender=SA_EDGE.name))
    largest = min(max(number(row, "gain") for row in rows_of(means, stream=stream)) for stream in STREAMS)
    least, most = GAINS
    verdict = _worst([_growth(rows, SA_EDGE.name, noise), verdict_at_least(largest, least, noise=noise)])
    if verdict is Verdict.HOLDS and largest >= most * noise:
        verdict = Verdict.SURPASSED
    return verdict, _range_of_means(rows, SA_EDGE.name)


@finding
def edge_is_best(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 10, the neighbourhoods; in the workloads that all of them were measured in."""
    pairs = [(f"{short}-EDGE", [f"{short}-{place}"]) for short, place in product(("SA", "TS"), ("VERTEX4", "VERTEX8"))]
    means, tried = (
        [geometric_mean(ratios(rows, *pair, figure)) for pair in pairs] for figure in ("gain", "less_tried")
    )
    # Where plans test as many candidates, the clock has nothing to tell them apart by.
    verdict = _agreed(verdict_at_least(min(of), 1.0, noise=noise) for of in (means, tried))
    return verdict, {"gains": ratio_range(means)}


@finding
def subexpressions_over_prefixes(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 10, EDGE and EDGE-PREFIX."""
    # Throughputs are compared: on two mechanisms gains are over different plans.
    found = [
        ratio
        for short in ("SA", "TS")
        for ratio in ratios(rows, f"{short}-EDGE", [f"{short}-EDGE-PREFIX"], "throughput")
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
        costs = [mean_of(rows_of(own, value=value), "cost") for value in values_of(own)]
        kept.append(costs[-1] / costs[0])
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

    def gains(rows: Sequence[Row], stream: str) -> list[float]:
        return [number(row, "gain") for row in rows_of(rows, stream=stream, value=largest, contender=SA_EDGE.name)]

    stocks, traffic = (
        [one / other for one, other in zip(gains(count_rows, stream), gains(time_rows, stream), strict=True)]
        for stream in (STOCKS, TRAFFIC)
    )
    in_traffic = geometric_mean(traffic)
    more = _agreed(verdict_at_least(ratio, 1.0, noise=noise) for ratio in stocks)
    as_much = verdict_at_least(AS_MUCH / max(in_traffic, 1 / in_traffic), 1.0, noise=noise)
    figures = {"stocks": times_as_fast(geometric_mean(stocks)), "traffic": times_as_fast(in_traffic)}
    return _worst([more, as_much]), figures


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
def adaptive_over_static(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 13; by the means over workloads ([0135])."""
    judged = [row for row in rows if number(row, "value") <= LONGEST]
    found = [_saved(rows_of(judged, stream=stream, value=x), LOOP) for stream, x in product(STREAMS, values_of(judged))]
    verdict = verdict_at_least(min(found), DYNAMIC, noise=noise)
    # A plan that knows the events beforehand bounds what replanning could save while exchanges are within a window.
    if verdict is Verdict.DIFFERS and max(_saved([row], HINDSIGHT, "candidates") for row in judged) < DYNAMIC:
        verdict = Verdict.UNDECIDED
    return verdict, {"times": ratio_range(found)}


def _saved(rows: Sequence[Row], run: str, figure: str = "seconds") -> float:
    """The static plan's figure as a multiple of another run's, by their means."""
    return mean_of(rows, f"{STATIC}:{figure}") / mean_of(rows, f"{run}:{figure}")


@finding
def never_below_either(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 14."""
    found = [ratio for name in BEST for ratio in ratios(rows, name, [SH.name, RE.name])]
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


def _over_baselines(rows: Sequence[Row]) -> list[float]:
    """The mean gain of SA-EDGE as a multiple of that of the best baseline, by part, stream and value."""
    means = [{**row, "number": 0} for row in averaged(rows)]
    return ratios(means, SA_EDGE.name, [baseline.name for baseline in BASELINES])


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
    return next((worse for worse in (Verdict.DIFFERS, Verdict.UNDECIDED) if worse in found), Verdict.HOLDS)


def _gains_of_means(rows: Sequence[Row], contender: str) -> list[float]:
    return [number(row, "gain") for row in averaged(rows_of(rows, contender=contender))]


def _range_of_means(rows: Sequence[Row], contender: str) -> dict[str, str]:
    """The least and the greatest mean gain of a contender over the values of a part, as a figure of a finding."""
    return {"gains": ratio_range(_gains_of_means(rows, contender))}


STYLES = {
    **{
        f"{short}-{place}": Style(PALETTE[color], short == "TS")
        for short in ("SA", "TS")
        for place, color in (("EDGE", 1), ("VERTEX4", 5), ("VERTEX8", 7), ("EDGE-PREFIX", 4))
    },
    **{name: Style(PALETTE[color]) for name, color in (("RE", 2), ("SH", 0), ("SH-RR", 3), ("SH-MDT", 6))},
}
PARTS = {
    WORKLOAD: ("Gain against the number of patterns (figures 10, 12A, 12E)", "patterns", "patterns"),
    SIZE: ("Gain against the size of patterns (figures 11A, 12B, 12F)", "size", "events of a pattern"),
    SEARCH: ("Gain against the time of search (figure 11B)", "search", "seconds of search"),
    TIME: ("Gain against the time window (figures 11C, 12C, 12G)", "window_s", "seconds of the window"),
    COUNT: (
        "Gain against the count window (figures 11D, 12D, 12H)",
        "window_events",
        "seconds in which so many events come in the mean",
    ),
    DENSITY: (
        "Gain against the density of the multi-pattern graph (figures 14A, 14B)",
        "density",
        "types of the workload",
    ),
    RATES: ("Gain against the difference of rates (figures 14C, 14D)", "rates", "largest difference of rates"),
}
"""Part -> heading, name of its chart, and what its values are."""


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of finished cells; that all plans found the same was checked in each of them."""
    apart = by_contender(row for row in rows if row["part"] in COMPARED_BY_GAINS)
    by_value = sorted(apart, key=lambda row: (STREAMS.index(str(row["stream"])), row["value"]))
    means = averaged(by_value, ("throughput", "candidates", "created", "cost", "planning", "density of pairs"))
    largest = [row for stream in STREAMS for row in _largest(rows_of(means, part=WORKLOAD, stream=stream))]
    searched = [row for row in rows_of(means, part=SEARCH) if row["contender"] in BEST]
    exchanged = rows_of(rows, part=ADAPTIVE)
    noise = noise_of(apart)
    return findings_page(
        "multi_pattern",
        request,
        all_findings(rows),
        [*_gain_pictures(means), _exchanged_picture(exchanged)],
        parts=PARTS,
        gains=lambda part, value: _by_contender(rows_of(means, part=part), f"gain by {value}", "gain", times_as_fast),
        plans=columns_table(
            largest,
            {
                "stream": lambda row: str(row["stream"]),
                "plan": lambda row: str(row["contender"]),
                "events/s": lambda row: count_per_s(number(row, "throughput")),
                "candidates": lambda row: f"{number(row, 'candidates'):,.0f}",
                "created": lambda row: f"{number(row, 'created'):,.0f}",
                "nodes": lambda row: f"{row['nodes']:,}",
                "cost": lambda row: f"{number(row, 'cost'):,.0f}",
                "planning": lambda row: format_seconds(number(row, "planning")),
            },
        ),
        prefixes=_prefixes(rows_of(apart, part=WORKLOAD)),
        searched=_by_contender(searched, "seconds", "cost", "{:,.0f}".format),
        densities=table_across(
            rows_of(means, part=DENSITY, contender=SA_EDGE.name),
            "stream",
            "value",
            "types",
            lambda own: f"{number(own[0], 'density of pairs'):.2f}",
        ),
        exchanged=_exchanged_table(exchanged),
        sizes=sizes,
        descriptions={name: stream_named(name, request, sizes.windows).description for name in STREAMS},
        noise=noise,
        is_noise_unknown=math.isinf(noise),
        enough_s=ENOUGH_S,
        most_runs=MOST_RUNS,
        drawn=workloads,
        exchanged_windows=", ".join(
            f"{mean_of(rows_of(exchanged, stream=name), 'window'):,.0f} ({name})" for name in STREAMS
        ),
    )


def _largest(rows: Sequence[Row]) -> list[Row]:
    return rows_of(rows, value=max(values_of(rows)))


def _by_contender(rows: Sequence[Row], corner: str, figure: str, text: Callable[[float], str]) -> str:
    """Contenders down, streams and values across."""
    columns = [
        {**row, "column": f"{row['stream']} {number(row, 'value'):g}"} for row in rows if row["contender"] in STYLES
    ]
    return table_across(columns, "contender", "column", corner, lambda own: text(number(own[0], figure)))


def _prefixes(rows: Sequence[Row]) -> str:
    lines: list[Row] = []
    for stream in STREAMS:
        own = rows_of(rows, stream=stream)
        less = {
            figure: 1 / geometric_mean(ratios(own, SA_EDGE.name, [f"{SA_EDGE.name}-PREFIX"], figure))
            for figure in ("candidates", "created")
        }
        edge = rows_of(own, contender=SA_EDGE.name)
        lines.append(
            {"stream": stream, **less, "pairs": mean_of(edge, "candidates of pairs") / mean_of(edge, "candidates")}
        )
    return columns_table(
        lines,
        {
            "stream": lambda row: str(row["stream"]),
            "candidates": lambda row: times_as_fast(number(row, "candidates")),
            "partial matches": lambda row: times_as_fast(number(row, "created")),
            "joins of two events": lambda row: f"{number(row, 'pairs'):.0%}",
        },
    )


def _exchanged_table(rows: Sequence[Row]) -> str:
    """One line a stream and x: means over workloads."""

    def rate(name: str) -> Callable[[Sequence[Row]], str]:
        return lambda own: count_per_s(mean_of(own, "events") / mean_of(own, f"{name}:seconds"))

    def total(own: Sequence[Row], name: str) -> int:
        return int(sum(number(row, f"{LOOP}:{name}") for row in own))

    return columns_table(
        [rows_of(rows, stream=stream, value=value) for stream in STREAMS for value in values_of(rows)],
        {
            "stream": lambda own: str(own[0]["stream"]),
            "x": lambda own: f"{own[0]['value']:,}",
            "static": rate(STATIC),
            "adaptive": rate(LOOP),
            "gain": lambda own: times_as_fast(_saved(own, LOOP)),
            "in hindsight": lambda own: times_as_fast(_saved(own, HINDSIGHT, "candidates")),
            "the loop": lambda own: times_as_fast(_saved(own, LOOP, "candidates")),
            "planned": lambda own: f"{total(own, 'planned')} of {total(own, 'checks')}",
            "switched": lambda own: f"{total(own, 'switches')}",
            "deciding": lambda own: format_seconds(mean_of(own, f"{LOOP}:deciding")),
            "planning": lambda own: format_seconds(mean_of(own, f"{LOOP}:planning")),
        },
    )


def _gain_pictures(means: Sequence[Row]) -> list[Picture]:
    gain = Axis("gain", "times the trivial plan's throughput", log=True)
    pictures = []
    for part, (heading, name, value) in PARTS.items():
        shown = [row for row in rows_of(means, part=part) if row["contender"] in STYLES]
        axis = Axis("value", value, log=part in (WORKLOAD, SEARCH))
        chart = line_chart(shown, axis, gain, "contender", styles=STYLES, facet="stream")
        pictures.append(Picture(name, heading, f"{heading}.", chart))
    return pictures


def _exchanged_picture(rows: Sequence[Row]) -> Picture:
    points: list[Row] = [
        {
            "stream": stream,
            "x": x,
            "plan": plan,
            "fewer": _saved(rows_of(rows, stream=stream, value=x), run, "candidates"),
        }
        for stream, x in product(STREAMS, values_of(rows))
        for plan, run in (("adaptive", LOOP), ("in hindsight", HINDSIGHT))
    ]
    shows = "Candidates against x, the events between two exchanges of types (figure 13)"
    x = Axis("x", "events between two exchanges", log=True)
    fewer = Axis("fewer", "times fewer candidates than the static plan")
    return Picture("exchanged", shows, f"{shows}.", line_chart(points, x, fewer, "plan", facet="stream"))
