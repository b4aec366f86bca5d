"""The page of `cep experiment multi_pattern`: gains of contenders, the patent's findings, charts and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
from benchmarks.experiments.multi_pattern.experiment import (
    ADAPTIVE,
    ALL,
    ANEW,
    BASELINES,
    COMPARED_BY_GAINS,
    COUNT,
    DENSITY,
    ENOUGH_S,
    EXCHANGES,
    FIRST,
    HINDSIGHT,
    INVARIANTS,
    LOOP,
    LOOP_STATIC,
    MOST_RUNS,
    PHASES,
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
from benchmarks.experiments.multi_pattern.workloads import (
    DEAREST,
    DEAREST_IN_LONG,
    GREATEST_STEP,
    LEAST_STEP,
    MORE_MATCHES,
    MOST_MATCHES,
    SELECTIVE,
    SELECTIVITIES,
    STOCKS,
    STREAMS,
    TRAFFIC,
)
from benchmarks.experiments.page import Page, Picture, findings_page
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.vega import PALETTE


def by_contender(rows: Iterable[Row]) -> list[Row]:
    """One row a cell and contender, with its throughput and its gain over the trivial plan on the same mechanism.

    What a plan needs of created partial matches and of candidates is told as a share of the trivial plan's, too.
    """
    apart: list[Row] = []
    for row in rows:
        key, own = taken_apart(row, ":")
        for contender in ALL:
            if contender.name not in own:
                continue
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


def gains(rows: Iterable[Row], contender: str, stream: str | None = None) -> dict[tuple[Figure, ...], float]:
    """The gain of a contender by stream, value and workload."""
    return {
        (row["part"], row["stream"], row["value"], row["number"]): number(row, "gain")
        for row in rows
        if row["contender"] == contender and stream in (None, row["stream"])
    }


def ratios(rows: Sequence[Row], one: str, other: str, stream: str | None = None) -> list[float]:
    """The quotients of two contenders' gains, in each cell that has both."""
    first, second = gains(rows, one, stream), gains(rows, other, stream)
    return [gain / second[cell] for cell, gain in first.items() if cell in second]


def over_best(rows: Sequence[Row], contender: str, others: Sequence[str]) -> dict[tuple[Figure, ...], float]:
    """A contender's gain as a multiple of the best of some others', by cell."""
    own = gains(rows, contender)
    of_others = [gains(rows, other) for other in others]
    return {
        cell: gain / max(other[cell] for other in of_others if cell in other)
        for cell, gain in own.items()
        if any(cell in other for other in of_others)
    }


DYNAMIC = 10.0
LONGEST = 1_000
"""The patent's largest x."""
_BASE = {LOOP: LOOP_STATIC, INVARIANTS: LOOP_STATIC}
"""The run that candidates are compared with, where that is not the static plan over all events."""


@finding
def adaptive_over_static(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 13; by the means over workloads ([0135])."""
    judged = [row for row in rows_of(rows, exchange=ANEW) if number(row, "value") <= LONGEST]
    found = [_gain(rows_of(judged, stream=stream, value=x)) for stream, x in product(STREAMS, values_of(judged))]
    verdict = verdict_at_least(min(found), DYNAMIC, noise=noise)
    # Plans that know the events beforehand bound what any replanning could save.
    most = max(_fewer(row, name) for row in judged for name in (HINDSIGHT, PHASES))
    if verdict is Verdict.DIFFERS and most < DYNAMIC:
        verdict = Verdict.UNDECIDED
    return verdict, {"times": ratio_range(found)}


def exchanged_table(rows: Sequence[Row]) -> str:
    """One line a reading, stream and x: means over workloads."""
    lines = []
    for exchange, stream in product(EXCHANGES, STREAMS):
        own = rows_of(rows, exchange=exchange, stream=stream)
        for value in values_of(own):
            of = rows_of(own, value=value)
            lines.append(
                [
                    exchange,
                    stream,
                    f"{value:,.0f}",
                    *(
                        count_per_s(mean_of(of, "events") / mean_of(of, f"{name}:seconds"))
                        for name in (LOOP_STATIC, LOOP)
                    ),
                    times_as_fast(_gain(of)),
                    times_as_fast(_gain(of, INVARIANTS)),
                    *(times_as_fast(_mean_fewer(of, name)) for name in (FIRST, HINDSIGHT, PHASES, LOOP, INVARIANTS)),
                    f"{_total(of, 'planned')} of {_total(of, 'checks')}",
                    f"{_total(of, 'switches')}",
                    format_seconds(mean_of(of, f"{LOOP}:deciding")),
                    format_seconds(mean_of(of, f"{LOOP}:planning")),
                ]
            )
    header = ["exchanges", "stream", "x", "static", "adaptive", "gain", "by invariants"]
    fewer = ["first windows", "in hindsight", "each phase", "the loop", "with invariants"]
    return markdown_table([*header, *fewer, "planned", "switched", "deciding", "planning"], lines)


def exchanged_chart(rows: Sequence[Row]) -> tuple[str, str]:
    """Candidates of each plan against x."""
    points: list[Row] = [
        {
            "stream": stream,
            "x": x,
            "plan": plan,
            "fewer": _mean_fewer(rows_of(rows, **where, stream=stream, value=x), name),
        }
        for where in ({"exchange": ANEW},)
        for stream in STREAMS
        for x in values_of(rows_of(rows, **where, stream=stream))
        for plan, name in (("adaptive", LOOP), ("in hindsight", HINDSIGHT), ("of each phase", PHASES))
    ]
    return (
        "Candidates against x, the events between two exchanges of types (figure 13)",
        line_chart(
            points,
            Axis("x", "events between two exchanges", log=True),
            Axis("fewer", "times fewer candidates than the static plan", log=True),
            "plan",
            facet="stream",
        ),
    )


def _gain(rows: Sequence[Row], loop: str = LOOP) -> float:
    """The gain of throughput by an adaptive loop."""
    return mean_of(rows, f"{LOOP_STATIC}:seconds") / mean_of(rows, f"{loop}:seconds")


def _fewer(row: Row, name: str) -> float:
    """The static plan's candidates, as a multiple of another run's; a loop is compared with the static loop."""
    return number(row, f"{_BASE.get(name, STATIC)}:candidates") / number(row, f"{name}:candidates")


def _mean_fewer(rows: Sequence[Row], name: str) -> float:
    return mean_of(rows, f"{_BASE.get(name, STATIC)}:candidates") / mean_of(rows, f"{name}:candidates")


def _total(rows: Sequence[Row], name: str) -> int:
    return int(sum(number(row, f"{LOOP}:{name}") for row in rows))


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
    measured = [row for row in rows if row["part"] in COMPARED_BY_GAINS]
    apart = by_contender(measured)
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


STYLES = {
    "SA-EDGE": Style(PALETTE[1]),
    "SA-VERTEX4": Style(PALETTE[5]),
    "SA-VERTEX8": Style(PALETTE[7]),
    "SA-EDGE-PREFIX": Style(PALETTE[4]),
    "TS-EDGE": Style(PALETTE[1], True),
    "TS-VERTEX4": Style(PALETTE[5], True),
    "TS-VERTEX8": Style(PALETTE[7], True),
    "TS-EDGE-PREFIX": Style(PALETTE[4], True),
    "RE": Style(PALETTE[2]),
    "SH": Style(PALETTE[0]),
    "SH-RR": Style(PALETTE[3]),
    "SH-MDT": Style(PALETTE[6]),
}
PARTS: Mapping[str, tuple[str, str, str]] = {
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
    RATES: (
        "Gain against the difference of rates (figures 14C, 14D)",
        "rates",
        "largest difference of rates",
    ),
}
"""Part -> heading, name of its chart, and what its values are."""


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of finished cells; that all plans found the same was checked in each of them."""
    apart = by_contender(row for row in rows if row["part"] in COMPARED_BY_GAINS)
    means = averaged(apart, ("throughput", "candidates", "created", "cost", "planning"))
    exchanged = rows_of(rows, part=ADAPTIVE)
    charts = _charts(means, exchanged)
    workloads = rows_of(apart, part=WORKLOAD)
    noise = noise_of(apart)
    return findings_page(
        "multi_pattern",
        request,
        all_findings(rows),
        [Picture(name, shows, f"{shows}.", svg) for name, (shows, svg) in charts.items()],
        parts=PARTS,
        gains=lambda part, value: _gains(rows_of(means, part=part), value),
        plans=_plans(rows_of(means, part=WORKLOAD)),
        prefixes=_prefixes(workloads),
        searched=_searched(rows_of(apart, part=SEARCH)),
        densities=_densities(apart),
        exchanged=exchanged_table(exchanged),
        sizes=sizes,
        descriptions={name: stream_named(name, sizes, request).description for name in STREAMS},
        noise=noise,
        is_noise_unknown=math.isinf(noise),
        enough_s=ENOUGH_S,
        most_runs=MOST_RUNS,
        selectivities=SELECTIVITIES,
        selective=SELECTIVE,
        dearest=DEAREST,
        dearest_in_long=DEAREST_IN_LONG,
        most_matches=MOST_MATCHES,
        more_matches=MORE_MATCHES,
        exchanges=EXCHANGES,
        steps=(f"{LEAST_STEP:g}", f"{GREATEST_STEP:g}"),
        exchanged_windows=", ".join(
            f"{mean_of(rows_of(exchanged, stream=name), 'window'):,.0f} ({name})" for name in STREAMS
        ),
    )


def _gains(rows: Sequence[Row], value: str) -> str:
    """Contenders down, streams and values across."""
    columns = [(stream, number_) for stream in STREAMS for number_ in values_of(rows_of(rows, stream=stream))]
    lines = []
    for contender in ALL:
        own = {
            (str(row["stream"]), number(row, "value")): times_as_fast(number(row, "gain"))
            for row in rows_of(rows, contender=contender.name)
        }
        if own and not contender.is_trivial:
            lines.append([contender.name, *(own.get(column, "") for column in columns)])
    return markdown_table([f"gain by {value}", *(f"{stream} {at:g}" for stream, at in columns)], lines)


def _plans(means: Sequence[Row]) -> str:
    lines = [
        [
            stream,
            str(row["contender"]),
            count_per_s(number(row, "throughput")),
            f"{number(row, 'candidates'):,.0f}",
            f"{number(row, 'created'):,.0f}",
            f"{row['nodes']:,}",
            f"{number(row, 'cost'):,.0f}",
            format_seconds(number(row, "planning")),
        ]
        for stream in STREAMS
        for row in rows_of(means, stream=stream, value=max(values_of(means)))
    ]
    return markdown_table(
        ["stream", "plan", "events/s", "candidates", "created", "nodes", "cost", "planning"],
        lines,
    )


def _prefixes(rows: Sequence[Row]) -> str:
    lines = []
    for stream in STREAMS:
        any_part, prefix = (rows_of(rows, stream=stream, contender=n) for n in ("SA-EDGE", "SA-EDGE-PREFIX"))
        shared = {(row["value"], row["number"]) for row in prefix}
        any_part = [row for row in any_part if (row["value"], row["number"]) in shared]
        times = (
            times_as_fast(mean_of(prefix, name) / mean_of(any_part, name))
            for name in ("cost of joins", "candidates", "created")
        )
        of_pairs = mean_of(any_part, "candidates of pairs") / mean_of(any_part, "candidates")
        lines.append([stream, *times, f"{of_pairs:.0%}"])
    columns = ["cost of joins", "candidates", "partial matches", "joins of two events"]
    return markdown_table(["stream", *columns], lines)


def _searched(rows: Sequence[Row]) -> str:
    seconds = values_of(rows)
    lines = []
    for stream in STREAMS:
        for name in dict.fromkeys(str(row["contender"]) for row in rows if row["contender"] != TRIVIAL.name):
            own = rows_of(rows, stream=stream, contender=name)
            lines.append([stream, name, *(f"{mean_of(rows_of(own, value=at), 'cost'):,.0f}" for at in seconds)])
    return markdown_table(["stream", "search", *(f"{at:g} s" for at in seconds)], lines)


def _densities(rows: Sequence[Row]) -> str:
    lines = []
    own = rows_of(rows, part=DENSITY, contender=SA_EDGE.name)
    for row in averaged(own, ("density", "density of pairs")):
        lines.append(
            [
                str(row["stream"]),
                f"{number(row, 'value'):g}",
                f"{number(row, 'density'):.2f}",
                f"{number(row, 'density of pairs'):.2f}",
            ]
        )
    return markdown_table(["stream", "types", "density", "of subpatterns of two types and more"], lines)


def _charts(means: Sequence[Row], exchanged: Sequence[Row]) -> dict[str, tuple[str, str]]:
    charts = {}
    for part, (heading, name, value) in PARTS.items():
        shown = [row for row in rows_of(means, part=part) if row["contender"] in STYLES]
        log = part in (WORKLOAD, SEARCH)
        gain = Axis("gain", "times the trivial plan's throughput", log=True)
        chart = line_chart(shown, Axis("value", value, log=log), gain, "contender", styles=STYLES, facet="stream")
        charts[name] = heading, chart
    return {**charts, "exchanged": exchanged_chart(exchanged)}
