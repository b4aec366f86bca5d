"""The page of `cep experiment multi_pattern`: findings, pictures, reasons, tables, and how it was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.charts import Axis, Style, line_chart
from benchmarks.experiments.cells import Row, number, rows_of
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.multi_pattern import parts as part_names
from benchmarks.experiments.multi_pattern.adaptive import EXCHANGES
from benchmarks.experiments.multi_pattern.exchanged import exchanged_chart, exchanged_table
from benchmarks.experiments.multi_pattern.experiment import Sizes
from benchmarks.experiments.multi_pattern.figures import averaged, by_contender, mean_of, values_of
from benchmarks.experiments.multi_pattern.findings import all_findings, noise_of
from benchmarks.experiments.multi_pattern.runs import ALL, ENOUGH_S, MOST_RUNS, SA_EDGE, SEARCHES, TRIVIAL
from benchmarks.experiments.multi_pattern.streams import GREATEST_STEP, LEAST_STEP, STREAMS
from benchmarks.experiments.multi_pattern.workloads import (
    DEAREST,
    DEAREST_IN_LONG,
    MORE_MATCHES,
    MOST_MATCHES,
    SELECTIVE,
    SELECTIVITIES,
)
from benchmarks.experiments.page import Page, Picture, findings_page
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.vega import PALETTE

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
    charts = _charts(means, exchanged)
    workloads = rows_of(apart, part=part_names.WORKLOAD)
    noise = noise_of(apart)
    return findings_page(
        "multi_pattern",
        request,
        all_findings(rows),
        [Picture(name, shows, f"{shows}.", svg) for name, (shows, svg) in charts.items()],
        parts=PARTS,
        gains=lambda part, value: _gains(rows_of(means, part=part), value),
        plans=_plans(rows_of(means, part=part_names.WORKLOAD)),
        prefixes=_prefixes(workloads),
        searched=_searched(rows_of(apart, part=part_names.SEARCH)),
        densities=_densities(apart),
        exchanged=exchanged_table(exchanged),
        recomputed=_recomputed(rows_of(rows, part=part_names.RECOMPUTED)),
        sizes=sizes,
        descriptions=descriptions,
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


def _charts(means: Sequence[Row], exchanged: Sequence[Row]) -> dict[str, tuple[str, str]]:
    charts = {}
    for part, (heading, name, value) in PARTS.items():
        shown = [row for row in rows_of(means, part=part) if row["contender"] in STYLES]
        log = part in (part_names.WORKLOAD, part_names.SEARCH)
        gain = Axis("gain", "times the trivial plan's throughput", log=True)
        chart = line_chart(shown, Axis("value", value, log=log), gain, "contender", styles=STYLES, facet="stream")
        charts[name] = heading, chart
    return {**charts, "exchanged": exchanged_chart(exchanged)}
