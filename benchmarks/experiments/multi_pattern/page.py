"""The page of `cep experiment multi_pattern`: findings, pictures, reasons, tables, and how it was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.charts import Axis, Style, line_chart
from benchmarks.experiments.cells import Row
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.multi_pattern import parts as part_names
from benchmarks.experiments.multi_pattern.costs import KINDS
from benchmarks.experiments.multi_pattern.exchanged import exchanged_chart, exchanged_how, exchanged_table
from benchmarks.experiments.multi_pattern.experiment import Sizes
from benchmarks.experiments.multi_pattern.figures import averaged, by_contender, mean_of, number, rows_of, values_of
from benchmarks.experiments.multi_pattern.findings import all_findings, noise_of
from benchmarks.experiments.multi_pattern.runs import ALL, ENOUGH_S, MOST_RUNS, SA_EDGE, SEARCHES, TRIVIAL
from benchmarks.experiments.multi_pattern.streams import STOCKS, STREAMS, TRAFFIC
from benchmarks.experiments.multi_pattern.workloads import (
    DEAREST,
    GREATEST_SELECTIVITY,
    LEAST_SELECTIVITY,
    MORE_MATCHES,
    MOST_MATCHES,
)
from benchmarks.experiments.page import Page, Picture, findings_page, made_by
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.match_chart import PALETTE
from cep_pipeline.planning.multi_pattern.costs import SHARED_COSTS

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
    part_names.WORKLOAD: ("Gain against the number of patterns (figures 10, 12A, 12E)", "patterns", "patterns"),
    part_names.SIZE: ("Gain against the size of patterns (figures 11A, 12B, 12F)", "size", "events of a pattern"),
    part_names.SEARCH: ("Gain against the time of search (figure 11B)", "search", "seconds of search"),
    part_names.TIME: ("Gain against the time window (figures 11C, 12C, 12G)", "window_s", "seconds of the window"),
    part_names.COUNT: (
        "Gain against the count window (figures 11D, 12D, 12H)",
        "window_events",
        "seconds in which so many events come in the mean",
    ),
    part_names.DENSITY: (
        "Gain against the density of the multi-pattern graph (figures 14A, 14B)",
        "density",
        "types of the workload",
    ),
    part_names.RATES: (
        "Gain against the difference of rates (figures 14C, 14D)",
        "rates",
        "largest difference of rates",
    ),
}
"""Part -> heading, name of its chart, and what its values are."""


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request, descriptions: Mapping[str, str]) -> Page:
    """The page of finished cells; that all plans found the same was checked in each of them."""
    apart = by_contender(row for row in rows if row["part"] in part_names.COMPARED_BY_GAINS)
    means = averaged(apart, ("throughput", "candidates", "created", "cost", "planning"))
    exchanged = rows_of(rows, part=part_names.ADAPTIVE)
    findings, charts = all_findings(rows), _charts(means, exchanged)
    workloads = rows_of(apart, part=part_names.WORKLOAD)
    sections: dict[str, tuple[str, ...]] = {
        heading: ("Times the throughput of the trivial plan.", _gains(rows_of(means, part=part), value))
        for part, (heading, _, value) in PARTS.items()
    }
    sections |= {
        "Plans of the largest workloads": (
            "The largest workloads that all contenders were measured in, then those that only the best searches and "
            "the baselines were. Candidates tested, partial matches created and most held at a time, nodes of the "
            "plan, its cost (nanoseconds a window, of trees with the events themselves), and seconds on the wall to "
            "make it, statistics not among them.",
            *_plans(rows_of(means, part=part_names.WORKLOAD)),
        ),
        "Work of subexpressions and of prefixes": (
            "Plans of the same workloads that share prefixes (SA-EDGE-PREFIX), as a multiple of those that share any "
            "subexpression (SA-EDGE); and the share of candidates of the latter that are joins of two events.",
            _prefixes(workloads),
        ),
        "Plans on fused": (
            "The mechanism `fused`, which counts column-wise, ran the same plans.",
            _fused(workloads),
        ),
        "Cost by time of search": (
            "Cost of the plan found, in nanoseconds a window, by the seconds of search.",
            _searched(rows_of(apart, part=part_names.SEARCH)),
        ),
        "Density of the graphs": (
            "Edges of the multi-pattern graph, as a share of all there could be, by the number of types. The last "
            "column counts shared subpatterns of two types and more alone.",
            _densities(apart),
        ),
        "Types that are exchanged": (
            "Events a second of the static and the adaptive loop. Then times fewer candidates than by the static plan: "
            "by the plan of the first windows, by that of the statistics of all that is to come, by plans of each "
            "phase's own statistics, and in the loop beside the loop with the static plan. Nobody has the second and "
            "the third beforehand. Then how often the loop planned anew and switched.",
            exchanged_table(exchanged),
        ),
        "Costs of plans, and the clock": (
            f"{sizes.costed} random orders and {sizes.costed} random trees of a workload of {sizes.base} patterns were "
            "run, from the cheapest of each pattern by itself to drawn ones. The rank correlation of their costs with "
            "their times is 1 where a cost ranks plans as the clock does. `throughput` is the patent's cost.",
            _costs(rows_of(rows, part=part_names.COSTS)),
        ),
        "Costs by differences": (
            "A search that updates costs by differences, and the same search that computes all of them anew in each "
            "step.",
            _recomputed(rows_of(rows, part=part_names.RECOMPUTED)),
        ),
    }
    return findings_page(
        "Hundreds of patterns at once: shared plans by local search",
        made_by("multi_pattern", request.full, request.seed),
        _WHAT,
        findings,
        [Picture(name, shows, f"{shows}.", svg) for name, (shows, svg) in charts.items()],
        [part for heading, texts in sections.items() for part in (f"## {heading}", *texts)],
        (
            _how(noise_of(apart), sizes, request, descriptions),
            "### The exchanges of types",
            exchanged_how(exchanged, sizes.adaptive),
        ),
    )


_WHAT = """\
All patterns of a workload are planned together and run on one network. A search by simulated annealing or tabu moves \
from plan to plan and shares what is worth it. Its gain is over the trivial plan, which has every pattern by itself in \
its own order on the same mechanism. Workloads of many shapes ran over generated stocks and over road traffic, beside \
baselines that only share, only reorder, or do both by rules."""

_HOW = """\
- Plans: orders that share beginnings run on `multi_pattern_nfa`, trees that share any subtree on `multitree`. In the \
trivial plan, too, the events of a type are read once for all.
- Names: SA is simulated annealing, TS tabu search; EDGE, VERTEX4 and VERTEX8 are the neighbourhoods; PREFIX shares \
beginnings, all others subexpressions; PM searches by the patent's cost, partial matches alone. SH shares as much as \
it can, RE reorders, SH-RR is SPASS (redundancy ratio), SH-MDT is MOTTO (merge, decomposition, operator \
transformation). Of the last the patent has the name alone: here an AND serves a SEQ by a test of its order, in \
MOTTO's plans and in those of local searches that share subexpressions, where the cost falls.
- Same matches: all plans found the same number of matches of every pattern, which was checked cell by cell.
- Times are of the processor, from the first event to the last match, without making the network. A plan is run until \
its runs took {enough:g} s together, {runs} times at most, and the least time counts. Means of gains are geometric.
- Noise: {noise}
- Workloads: gains that are to grow have to do so in the mean, and in each workload that was drawn for all values. \
Where these disagree, the finding is not decidable.
- Cost: what the nodes of a plan do in a window, shared ones once, in nanoseconds (`instances`). All searches and \
baselines go by it where nothing else is said.
- Search: {search} where nothing else is said. With steps instead of seconds, plans are the same whatever else the \
machine does.
- Stocks: {stocks}.
- Traffic: {traffic}. An event counts for a pattern where the sensor's average speed and its number of vehicles both \
rise, or both fall.
- Rates: the patent's types have 2 to 47 events a second. Here a stock has as many trades in a window of 15 minutes, \
and zones of sensors differ as much. With thousands of events, sequences of five would be beyond counting.
- Patterns: 5 events in the mean, over 12 types, sequences and conjunctions, 20 % of them with NOT or KL; drawn with \
seed {seed}. A workload draws once which two types are compared, by how much (selectivities of {low} to {high}), and \
the order that its sequences follow, so that its patterns agree on them.
- Drawn anew is a pattern whose own order is expected to hold more than {dearest:,.0f} partial matches in a window of \
15 minutes, or to find more than {matches:g} matches there, or that has {more:g} times as many: matches cost the same \
by any plan.
- Workloads drawn: {workloads}. In the other parts {elsewhere} of each shape, of {base} patterns. The patent has means \
over ten."""


def _how(noise: float, sizes: Sizes, request: Request, descriptions: Mapping[str, str]) -> str:
    noise_text = (
        "each plan ran once, so nothing is known of it, and no finding about times has a verdict."
        if math.isinf(noise)
        else f"the two least times of a plan differ by a factor of {noise:.3f} in the middle. A quotient of times that "
        "is within this factor of its bound decides nothing. Costs and candidates are counted, and have no noise."
    )
    return _HOW.format(
        enough=ENOUGH_S,
        runs=MOST_RUNS,
        noise=noise_text,
        search=sizes.search,
        stocks=descriptions[STOCKS],
        traffic=descriptions[TRAFFIC],
        seed=request.seed,
        low=LEAST_SELECTIVITY,
        high=GREATEST_SELECTIVITY,
        dearest=DEAREST,
        matches=MOST_MATCHES,
        more=MORE_MATCHES,
        workloads=", ".join(f"{many} of {patterns} patterns" for patterns, many in sizes.patterns.items()),
        elsewhere=sizes.workloads,
        base=sizes.base,
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


def _plans(means: Sequence[Row]) -> list[str]:
    """A table for the largest number of patterns that all contenders have, and one for the largest of all."""
    by_all = max(values_of(rows_of(means, contender=SEARCHES[-1].name)))
    return [_plans_table(rows_of(means, value=value)) for value in sorted({by_all, max(values_of(means))})]


def _plans_table(means: Sequence[Row]) -> str:
    lines = [
        [
            stream,
            f"{number(row, 'value'):g}",
            str(row["contender"]),
            count_per_s(number(row, "throughput")),
            f"{number(row, 'candidates'):,.0f}",
            f"{number(row, 'created'):,.0f}",
            f"{row['peak']:,}",
            f"{row['nodes']:,}",
            f"{number(row, 'cost'):,.0f}",
            format_seconds(number(row, "planning")),
        ]
        for stream in STREAMS
        for row in rows_of(means, stream=stream)
    ]
    header = ["stream", "patterns", "plan", "events/s", "candidates", "created", "peak", "nodes", "cost", "planning"]
    return markdown_table(header, lines)


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


def _fused(rows: Sequence[Row]) -> str:
    lines = []
    own = [row for row in rows if "fused" in row]
    for stream in STREAMS:
        for patterns in values_of(rows_of(own, stream=stream)):
            of = rows_of(own, stream=stream, value=patterns)
            trivial, best = (rows_of(of, contender=contender.name) for contender in (TRIVIAL, SA_EDGE))
            lines.append(
                [
                    stream,
                    f"{patterns:g}",
                    format_seconds(mean_of(trivial, "fused")),
                    format_seconds(mean_of(best, "fused")),
                    times_as_fast(mean_of(best, "fused_gain")),
                    format_seconds(mean_of(trivial, "seconds")),
                    format_seconds(mean_of(best, "seconds")),
                ]
            )
    header = [
        "stream",
        "patterns",
        "fused, trivial",
        "fused, SA-EDGE",
        "gain",
        "multitree, trivial",
        "multitree, SA-EDGE",
    ]
    return markdown_table(header, lines)


def _densities(rows: Sequence[Row]) -> str:
    lines = []
    own = rows_of(rows, part=part_names.DENSITY, contender=SA_EDGE.name)
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


def _recomputed(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        for name, what in (("ours", "differences"), ("recomputed", "all anew")):
            seconds = number(row, f"{name}:search_s")
            lines.append(
                [
                    str(row["stream"]),
                    f"{row['value']}",
                    what,
                    format_seconds(seconds),
                    f"{row[f'{name}:steps']:,}",
                    f"{count_per_s(number(row, f'{name}:steps') / seconds)}",
                    f"{number(row, f'{name}:cost'):,.1f}",
                ]
            )
    return markdown_table(["stream", "patterns", "costs by", "search", "steps", "steps/s", "cost"], lines)


def _costs(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        for kind in (*KINDS, "both"):
            seconds = format_seconds(number(row, f"{kind}:seconds")) if kind in KINDS else ""
            ranks = [f"{number(row, f'{name}:{kind}'):.3f}" for name in reversed(SHARED_COSTS)]
            lines.append([str(row["stream"]), kind, *ranks, seconds])
    return markdown_table(["stream", "plans", *reversed(SHARED_COSTS), "in the median"], lines)


def _charts(means: Sequence[Row], exchanged: Sequence[Row]) -> dict[str, tuple[str, str]]:
    charts = {}
    for part, (heading, name, value) in PARTS.items():
        shown = [row for row in rows_of(means, part=part) if row["contender"] in STYLES]
        log = part in (part_names.WORKLOAD, part_names.SEARCH)
        gain = Axis("gain", "times the trivial plan's throughput", log=True)
        chart = line_chart(shown, Axis("value", value, log=log), gain, "contender", styles=STYLES, facet="stream")
        charts[name] = heading, chart
    return {**charts, "exchanged": exchanged_chart(exchanged)}
