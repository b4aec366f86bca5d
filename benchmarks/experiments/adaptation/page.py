"""The page of `cep experiment adaptation`: findings, who is ahead, what was tried, where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from benchmarks.charts import Axis, line_chart
from benchmarks.experiments.adaptation import streams
from benchmarks.experiments.adaptation.decisions import AVERAGE, DISTANCE, META, STATIC, UNCONDITIONAL, named
from benchmarks.experiments.adaptation.experiment import FULL, MECHANISMS, PRICED, REACH, Sizes
from benchmarks.experiments.adaptation.figures import (
    INVARIANT,
    OVERHEAD,
    THRESHOLD,
    Case,
    Place,
    cases_of,
)
from benchmarks.experiments.adaptation.findings import all_findings
from benchmarks.experiments.cells import Row, number
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.page import Page, Picture, findings_page
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import count_per_s, format_seconds

ZERO = named(DISTANCE, 0.0)
OTHERS = (THRESHOLD, UNCONDITIONAL, STATIC)
SHOWN = (STATIC, UNCONDITIONAL, THRESHOLD, INVARIANT, ZERO, AVERAGE, META)
PRICES = tuple(f"{name}, {PRICED}" for name in (UNCONDITIONAL, ZERO))


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of the cells."""
    cases = cases_of(rows)
    places = {other: [of.ahead_of(INVARIANT, other).place for of in cases] for other in OTHERS}
    said = (f"{one}: {', '.join(f'{at} in {found.count(at)}' for at in Place)}" for one, found in places.items())
    return findings_page(
        "adaptation",
        request,
        all_findings(cases),
        [_picture(cases)],
        cases=cases,
        ahead="; ".join(said),
        ahead_table=_ahead_table(cases),
        hindsight=_hindsight_table(cases),
        times=_times_table(cases),
        tried=_tried_tables(cases),
        tries=[of.mean(STATIC, "tries") for of in cases],
        shares=[number(row, "matches") / number(row, "events") for row in rows],
        windows=[round(number(row, "events") / number(row, "windows")) for row in rows],
        described=dict.fromkeys(f"{row['stream']}: {row['stream is']}" for row in rows),
        streams=streams,
        has_month=any(of.stream == streams.AARHUS for of in cases),
        mechanisms=MECHANISMS,
        reach=REACH,
        sizes=sizes,
        is_full=sizes is FULL,
    )


def _ahead_table(cases: Sequence[Case]) -> str:
    lines = [
        [str(of), of.chosen(THRESHOLD), of.chosen(INVARIANT), *(str(of.ahead_of(INVARIANT, one)) for one in OTHERS)]
        for of in cases
    ]
    return markdown_table(["case", "threshold", "distance", *(f"beside {one}" for one in OTHERS)], lines)


def _hindsight_table(cases: Sequence[Case]) -> str:
    lines = []
    for of in cases:
        threshold, distance = of.in_hindsight(THRESHOLD), of.in_hindsight(INVARIANT)
        lines.append([str(of), threshold, distance, str(of.ahead_of(distance, threshold))])
    return markdown_table(["case", "best threshold", "best distance", "invariants beside threshold"], lines)


def _times_table(cases: Sequence[Case]) -> str:
    lines = []
    for of in cases:
        for name in (*SHOWN, *PRICES):
            counts = (f"{of.mean(name, figure):,.1f}" for figure in ("alarms", "switches"))
            seconds = (format_seconds(of.mean(name, figure)) for figure in (*OVERHEAD, "detecting"))
            throughput = fmean(number(row, "events") for row in of.rows) / fmean(of.seconds(name))
            lines.append(
                [str(of), name, *counts, f"{of.mean(name, 'tries'):.2g}", *seconds, count_per_s(throughput)],
            )
    header = ["case", "decision", "alarms", "switches", "tries", *OVERHEAD, "detecting"]
    return markdown_table([*header, "events/s, all of it"], lines)


def _tried_tables(cases: Sequence[Case]) -> list[str]:
    """All seconds by each value of t and d: a table a kind of decision function."""
    tables = []
    by_kind: dict[str, list[str]] = {}
    for name in (*cases[0].of_kind(THRESHOLD), *cases[0].of_kind(INVARIANT)):
        by_kind.setdefault(name.partition("=")[0], []).append(name)
    for kind, names in by_kind.items():
        lines = [[str(of), *(format_seconds(fmean(of.seconds(name))) for name in names)] for of in cases]
        tables.append(markdown_table([kind, *(name.partition("=")[2] for name in names)], lines))
    return tables


def _picture(cases: Sequence[Case]) -> Picture:
    points: list[Row] = []
    for of in cases:
        for name in of.of_kind(INVARIANT):
            over = of.ahead_of(name, ZERO).middle
            case = f"{of.planner}, {of.kind}, {of.often} a window"
            points.append(
                {"d": float(name.partition("=")[2]), "throughput": over, "case": case, "stream": of.stream},
            )
    shows = "Throughput against the minimal distance"
    svg = line_chart(points, Axis("d", "d"), Axis("throughput", "times that of d = 0"), "case", facet="stream")
    return Picture("distance", shows, "Throughput against the minimal distance d (figure 6).", svg)
