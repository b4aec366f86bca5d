"""The page of `cep experiment multi_pattern`: tables and charts of the cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.charts import Axis, Style, line_chart
from benchmarks.experiments.cells import Row
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.findings import findings_text
from benchmarks.experiments.multi_pattern import parts as part_names
from benchmarks.experiments.multi_pattern.costs import KINDS
from benchmarks.experiments.multi_pattern.exchanged import exchanged_chart, exchanged_table, exchanged_text
from benchmarks.experiments.multi_pattern.experiment import Sizes
from benchmarks.experiments.multi_pattern.figures import averaged, by_contender, mean_of, number, rows_of, values_of
from benchmarks.experiments.multi_pattern.findings import all_findings
from benchmarks.experiments.multi_pattern.runs import ALL, MOST_RUNS, SA_EDGE, TRIVIAL
from benchmarks.experiments.multi_pattern.streams import STOCKS, STREAMS, TRAFFIC
from benchmarks.experiments.multi_pattern.workloads import (
    DEAREST,
    GREATEST_SELECTIVITY,
    LEAST_SELECTIVITY,
    MORE_MATCHES,
    MOST_MATCHES,
)
from benchmarks.experiments.page import Page
from benchmarks.report import machine, markdown_table
from cep_pipeline.band_charts import PALETTE
from cep_pipeline.cli.figures import count_per_s, format_seconds, times_as_fast
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
    part_names.WORKLOAD: (
        "Throughput gain against the number of patterns (figures 10, 12A, 12E)",
        "patterns",
        "patterns",
    ),
    part_names.SIZE: ("Against the average size of patterns (figures 11A, 12B, 12F)", "size", "events of a pattern"),
    part_names.SEARCH: ("Against the time of search (figure 11B)", "search", "seconds of search"),
    part_names.TIME: ("Against the time window (figures 11C, 12C, 12G)", "window_s", "seconds of the window"),
    part_names.COUNT: (
        "Against the count window (figures 11D, 12D, 12H)",
        "window_events",
        "seconds in which so many events come in the mean",
    ),
    part_names.DENSITY: (
        "Against the density of the multi-pattern graph (figures 14A, 14B)",
        "density",
        "types of the workload",
    ),
    part_names.RATES: ("Against the difference of rates (figures 14C, 14D)", "rates", "largest difference of rates"),
}
"""Part -> heading, name of its chart, and what its values are."""
Text = Callable[[Row], str]


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request, descriptions: Mapping[str, str]) -> Page:
    """The page of finished cells; that all plans found the same was checked in each of them."""
    measured = [row for row in rows if row["part"] in part_names.COMPARED_BY_GAINS]
    apart = by_contender(measured)
    means = averaged(apart, ("throughput", "candidates", "created", "cost", "planning"))
    exchanged = rows_of(rows, part=part_names.ADAPTIVE)
    full = " --full" if request.full else ""
    parts = [
        "# Hundreds of patterns at once: shared plans by local search",
        f"Made by `cep experiment multi_pattern{full} --seed {request.seed}` on {machine()}.",
        _WHAT.format(
            stocks=descriptions[STOCKS],
            traffic=descriptions[TRAFFIC],
            low=LEAST_SELECTIVITY,
            high=GREATEST_SELECTIVITY,
            dearest=DEAREST,
            matches=MOST_MATCHES,
            more=MORE_MATCHES,
            seed=request.seed,
            base=sizes.base,
            search=sizes.search,
            workloads=", ".join(
                f"{many} workloads of {patterns} patterns" if many > 1 else f"one of {patterns}"
                for patterns, many in sizes.patterns.items()
            ),
            elsewhere=sizes.workloads,
            runs=MOST_RUNS,
        ),
        "## What the patent found, and what we find",
        findings_text(all_findings(rows)),
    ]
    for part, (heading, name, value) in PARTS.items():
        own = rows_of(means, part=part)
        parts += [
            f"## {heading}",
            f"{{chart:{name}}}",
            _table(own, value, lambda row: times_as_fast(number(row, "gain"))),
        ]
        if part == part_names.WORKLOAD:
            parts += [*_details(own, value), "`fused`, which counts column-wise, by the same plans:", _fused(apart)]
        if part == part_names.DENSITY:
            parts += ["The density of the graph that these types make:", _densities(apart)]
    parts += [
        "## Input whose types are exchanged (figure 13)",
        exchanged_text(exchanged, sizes.adaptive),
        "{chart:exchanged}",
        exchanged_table(exchanged),
        "## What plans cost, and the clock",
        _COSTS.format(plans=sizes.costed, patterns=sizes.base),
        _costs(rows_of(rows, part=part_names.COSTS)),
        "## What computing costs by differences is worth",
        _recomputed(rows_of(rows, part=part_names.RECOMPUTED)),
    ]
    return Page("\n\n".join(parts) + "\n", _charts(means, exchanged))


_WHAT = """\
All patterns of a workload are planned together and run on one network: orders that share beginnings on \
`multi_pattern_nfa`, trees that share any subtree on `multitree`. The trivial plan, over which gains are, has every \
pattern by itself in its own order on the same mechanism; there, too, the events of a type are read once for all. All \
plans find the same number of matches of every pattern, which is checked cell by cell.

Stocks: {stocks}. Traffic: {traffic}; an event counts for a pattern where the sensor's average speed and its number \
of vehicles both rise, or both fall. The patent's types have 2 to 47 events a second; here a stock has as many trades \
in a window of 15 minutes, and not thousands, of which sequences of five would be beyond counting, and zones of \
sensors differ as much.

Workloads are drawn with seed {seed}: patterns of 5 events in the mean, over 12 types, sequences and conjunctions, \
20 % of them with NOT or KL. Which two types are compared by their differences, and by how much (selectivities of \
{low} to {high}), is drawn once a workload, and so is the order that its sequences follow, so that patterns with two \
types agree on them. A pattern is drawn anew where its own order is expected to hold more than {dearest:,.0f} \
partial matches in a window of 15 minutes, where more than {matches:g} matches are expected there, or where it has \
{more:g} times as many: matches cost the same by any plan. Where nothing else is said a workload has {base} patterns \
and a local search {search}: with steps instead of seconds plans are the same whatever else the machine does. There \
are {workloads}, and {elsewhere} of each shape in the other parts: what a workload gains is ruled by its few dearest \
patterns, which it has by chance; the patent has means over ten.

Plans cost what their nodes do in a window, shared ones once: by `instances`, the nanoseconds that it takes to test \
candidates and to make partial matches. All searches go by it, and all baselines that look at costs (RE, SH-RR, \
SH-MDT); PM marks searches by the patent's cost, partial matches alone.

SA is simulated annealing, TS tabu search; EDGE, VERTEX4 and VERTEX8 are the neighbourhoods; PREFIX shares beginnings, \
all others subexpressions. SH shares as much as it can, RE reorders, SH-RR is SPASS (redundancy ratio) and SH-MDT is \
MOTTO (merge, decomposition). Of its third technique, operator transformation, the patent has the name alone: neither \
which operators become which, nor what that costs, nor what a node then tests; partial matches of sequences and of \
conjunctions are not shared with each other by any plan here. A workload that several parts have is planned and run \
once, where the limit of the search is the same. Times are of the processor, from the first event to the last match, \
the least of up to {runs} runs; means of gains are geometric."""

_COSTS = """\
{plans} random orders and {plans} random trees of a workload of {patterns} patterns were run: from those that are the \
cheapest of each pattern by itself to such that were drawn. Rank correlation of their costs with seconds of the \
processor, 1 where a cost ranks plans as the clock does; `throughput` is the patent's cost, of orders and trees \
together what it says of one kind beside the other."""


def _table(rows: Sequence[Row], value: str, text: Text) -> str:
    """Contenders down, streams and values across."""
    columns = [(stream, number_) for stream in STREAMS for number_ in values_of(rows_of(rows, stream=stream))]
    lines = []
    for contender in ALL:
        own = {(str(r["stream"]), number(r, "value")): text(r) for r in rows_of(rows, contender=contender.name)}
        if own and not contender.is_trivial:
            lines.append([contender.name, *(own.get(column, "") for column in columns)])
    return markdown_table([f"gain by {value}", *(f"{stream} {at:g}" for stream, at in columns)], lines)


def _details(rows: Sequence[Row], value: str) -> list[str]:
    """What stands behind the gains of the largest workloads."""
    lines = []
    for stream in STREAMS:
        own = rows_of(rows, stream=stream)
        own = rows_of(own, value=max(values_of(own)))
        for row in own:
            lines.append(
                [
                    stream,
                    str(row["contender"]),
                    count_per_s(number(row, "throughput")),
                    f"{number(row, 'candidates'):,.0f}",
                    f"{number(row, 'created'):,.0f}",
                    f"{row['peak']:,}",
                    f"{row['nodes']:,}",
                    f"{number(row, 'cost'):,.0f}",
                    f"{row['steps']:,}",
                    format_seconds(number(row, "planning")),
                ]
            )
    header = ["stream", "plan", "events/s", "candidates", "created", "peak", "nodes", "cost", "steps", "planning"]
    largest = f"{max(values_of(rows)):g} {value}"
    text = (
        f"The largest workloads, of {largest}: candidates tested, partial matches created and most held at a time, "
        "nodes of the plan, its cost (nanoseconds a window, of trees with the events themselves), and seconds "
        "on the wall to make it, statistics not among them."
    )
    return [text, markdown_table(header, lines)]


def _fused(rows: Sequence[Row]) -> str:
    lines = []
    own = [row for row in rows_of(rows, part=part_names.WORKLOAD) if "fused" in row]
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
        charts[name] = (
            heading,
            line_chart(
                shown,
                Axis("value", value, log=log),
                Axis("gain", "times the trivial plan's throughput", log=True),
                "contender",
                styles=STYLES,
                facet="stream",
            ),
        )
    charts["exchanged"] = exchanged_chart(exchanged)
    return charts
