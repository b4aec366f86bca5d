"""The page of `cep experiment nfab`: findings, charts and tables of the cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import linear_regression

from benchmarks.charts import Axis, Style, bar_chart, line_chart
from benchmarks.experiments.cells import Row, number, rows_of
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.nfab.experiment import (
    BACKTRACKING,
    GROWING,
    MATCHING,
    MATCHING_APART,
    MATCHING_BACK,
    MERGING,
    NON_OVERLAPPING,
    Sizes,
)
from benchmarks.experiments.nfab.findings import EXPENSIVE, Noise, all_findings, growth_of
from benchmarks.experiments.nfab.runs import BACKTRACK, BASIC, MERGE, by_algorithm
from benchmarks.experiments.page import Page, Picture, as_text, findings_page, table_across, zeros_not_drawn
from benchmarks.report import markdown_table
from benchmarks.sase_stream import SYMBOLS
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.errors import CepError

PAPERS_LENGTHS = {"p1s2": "250", "p1s3": "250", "p2s2": "4.5", "p2s3": "140", "p3s2": "250", "p3s3": "250"}
PAPERS_RUNS = {"p1s2": "2", "p1s3": "2", "p2s2": "0.01", "p2s3": "2", "p3s2": "2", "p3s3": "2"}
"""Table 2, which was measured with a window of 500 events."""
STYLES = {BASIC: Style("#3b82d6"), MERGE: Style("#2a9d5c"), BACKTRACK: Style("#d1495b")}


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of finished cells.

    Raises
    ------
    CepError
        Algorithms found different numbers of matches of one query.
    """
    refuse_different_matches(rows)
    apart = [_with_rates(row) for row in by_algorithm(rows)]
    by_rising = {rising: rows_of(apart, rising=rising) for rising in sizes.rising}
    pictures: list[Picture] = []
    for place, (rising, own) in enumerate(by_rising.items()):
        suffix = f"-{rising:g}".replace(".", "_") if place else ""
        pictures += _pictures(own, suffix, f" Prices rise with probability {rising:g}." if len(by_rising) > 1 else "")
    return findings_page(
        "nfab",
        request,
        all_findings(rows),
        pictures,
        streams=[{"rising": rising, **_tables(own, sizes)} for rising, own in by_rising.items()],
        sizes=sizes,
        noise=Noise.of(apart),
    )


def refuse_different_matches(rows: Sequence[Row]) -> None:
    """Raise where two algorithms found different numbers of matches of one query.

    Raises
    ------
    CepError
        It names them.
    """
    found: dict[tuple[object, ...], Row] = {}
    for row in by_algorithm(rows):
        query = tuple(row[name] for name in ("part", "rising", "window", "query"))
        other = found.setdefault(query, row)
        if other["matches"] != row["matches"]:
            raise CepError(
                f"nfab: {row['algorithm']} finds {row['matches']:,} matches of {row['query']}, {other['algorithm']} "
                f"finds {other['matches']:,}; all algorithms must find the same"
            )


def _pictures(rows: Sequence[Row], suffix: str, where: str) -> Iterator[Picture]:
    basic = rows_of(rows, part=GROWING)
    rate, complexity = Axis("per_s", "events/s", log=True), Axis("output_complexity", "output complexity", log=True)
    side_by_side = rows_of(rows, part=BACKTRACKING) or [row for row in basic if row["window"] == basic[0]["window"]]
    yield Picture(
        f"windows{suffix}",
        "Throughput against the partition window",
        f"Figure 8b: the basic algorithm; higher is better.{where}",
        line_chart(basic, Axis("window", "partition window (events)"), rate, "query", width=480),
    )
    yield Picture(
        f"output{suffix}",
        "Seconds against output complexity",
        f"Figure 8c: the basic algorithm, a point for each window.{where}"
        f"{zeros_not_drawn(basic, 'output_complexity', 'query')}",
        line_chart(basic, complexity, Axis("seconds", "seconds", log=True), "query", width=480),
    )
    yield Picture(
        f"algorithms{suffix}",
        "Throughput by algorithm",
        f"Figure 8d: all results; higher is better.{where}",
        bar_chart(side_by_side, Axis("query", "query"), rate, "algorithm", styles=STYLES),
    )


def _tables(rows: Sequence[Row], sizes: Sizes) -> dict[str, str]:
    growing, merging, matching = (rows_of(rows, part=part) for part in (GROWING, MERGING, MATCHING))
    merged = rows_of(merging, algorithm=MERGE)

    def matching_share(row: Row) -> str:
        return f"{number(row, 'seconds') / number(_basic_of(merging, row), 'seconds'):.0%}"

    return {
        "profile": _profile_table(rows_of(growing, window=sizes.windows[0])),
        "growing": _by_window(growing, lambda row: count_per_s(number(row, "per_s"))),
        "growth": _growth_table(growing),
        "backtrack": _backtrack_table(rows_of(rows, part=BACKTRACKING), rows_of(rows, part=MATCHING_BACK)),
        "anew": _anew_table(rows_of(merging, algorithm=BASIC, query="p1s3")),
        "non_overlap": _non_overlap_table(rows_of(rows, part=NON_OVERLAPPING), rows_of(rows, part=MATCHING_APART)),
        "gain": _by_window(merged, _gain),
        "gain_in_matching": _by_window(rows_of(matching, algorithm=MERGE), _gain),
        "merged": _by_window(merged, _merged),
        "shown_less": _by_window(merged, lambda row: _times(_basic_of(merging, row), row, "events_read")),
        "matching_share": _by_window(rows_of(matching, algorithm=BASIC), matching_share),
    }


def _gain(row: Row) -> str:
    return times_as_fast(number(row, "ratio"))


def _merged(row: Row) -> str:
    return f"{number(row, 'runs_merged') / max(number(row, 'runs_started'), 1):.0%}"


def _basic_of(rows: Sequence[Row], row: Row) -> Row:
    (basic,) = rows_of(rows, algorithm=BASIC, query=row["query"], window=row["window"])
    return basic


def _times(one: Row, other: Row, figure: str) -> str:
    return times_as_fast(number(one, figure) / number(other, figure)) if other[figure] else ""


def _profile_table(rows: Sequence[Row]) -> str:
    header = ["query", "events/s", "matches", "output complexity", "most runs"]
    header += ["mean length", "in the paper", "runs a time step", "in the paper"]
    lines = [
        [
            as_text(row["query"]),
            count_per_s(number(row, "per_s")),
            f"{row['matches']:,}",
            f"{row['output_complexity']:,}",
            f"{row['peak_runs']:,}",
            f"{number(row, 'output_complexity') / max(number(row, 'matches'), 1):.3g}",
            PAPERS_LENGTHS.get(str(row["query"]), ""),
            f"{len(SYMBOLS) * number(row, 'events_read') / number(row, 'events'):.2g}",
            PAPERS_RUNS.get(str(row["query"]), ""),
        ]
        for row in rows
    ]
    return markdown_table(header, lines)


def _by_window(rows: Sequence[Row], text: Callable[[Row], str]) -> str:
    return table_across(rows, "query", "window", "window", lambda own: text(own[0]))


def _growth_table(rows: Sequence[Row]) -> str:
    lines = []
    for query in EXPENSIVE:
        growth = growth_of(rows, query)
        if growth is not None:
            slope = linear_regression(growth.sizes, growth.seconds).slope
            lines.append([query, f"{growth.explained:.1%}", times_as_fast(growth.power), f"{slope * 1e9:.3g} ns"])
    return markdown_table(["query", "explained by a line", "power", "for each event of a match"], lines)


def _backtrack_table(rows: Sequence[Row], matching: Sequence[Row]) -> str:
    lines = []
    for basic, backtrack in zip(rows_of(rows, algorithm=BASIC), rows_of(rows, algorithm=BACKTRACK), strict=True):
        (alone,) = rows_of(matching, algorithm=BACKTRACK, query=basic["query"])
        lines.append(
            [
                as_text(basic["query"]),
                *(count_per_s(number(row, "per_s")) for row in (basic, backtrack)),
                *(times_as_fast(1 / number(row, "ratio")) for row in (backtrack, alone)),
                *(_an_event(row, "events_read") for row in (basic, backtrack)),
                _an_event(backtrack, "events_read_again"),
            ]
        )
    header = ["query", "basic, events/s", "backtrack, events/s", "times as fast", "in matching alone"]
    return markdown_table([*header, "basic: shown", "backtrack: shown", "read again"], lines)


def _anew_table(rows: Sequence[Row]) -> str:
    lines = [
        [f"{row['window']}", _an_event(row, "events_read"), _an_event(row, "output_complexity")]
        for row in rows
        if row["events_read"]
    ]
    return markdown_table(["window", "basic: shown", "each run anew"], lines)


def _an_event(row: Row, figure: str) -> str:
    return f"{number(row, figure) / number(row, 'events'):.3g}"


def _non_overlap_table(rows: Sequence[Row], matching: Sequence[Row]) -> str:
    lines = []
    for basic, backtrack in zip(rows_of(rows, algorithm=BASIC), rows_of(rows, algorithm=BACKTRACK), strict=True):
        (alone,) = rows_of(matching, algorithm=BACKTRACK, query=basic["query"], window=basic["window"])
        lines.append(
            [
                as_text(basic["query"]),
                f"{basic['window']}",
                f"{basic['matches']:,}",
                *(format_seconds(number(row, "seconds")) for row in (basic, backtrack)),
                *(times_as_fast(1 / number(row, "ratio")) for row in (backtrack, alone)),
                *(_an_event(row, "events_read") for row in (basic, backtrack)),
            ]
        )
    header = ["query", "window", "matches kept", "basic", "backtrack", "times as fast", "in matching alone"]
    return markdown_table([*header, "basic: shown", "backtrack: shown"], lines)


def _with_rates(row: Row) -> Row:
    return {**row, "per_s": number(row, "events") / number(row, "seconds")}
