"""The page of `cep experiment nfab`: tables and charts of the cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from benchmarks.charts import Axis, Style, bar_chart, line_chart
from benchmarks.experiments.cells import Row
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.findings import findings_text
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
from benchmarks.experiments.nfab.findings import all_findings
from benchmarks.experiments.nfab.runs import ALGORITHMS, BACKTRACK, BASIC, MERGE, by_algorithm, is_there
from benchmarks.experiments.page import Page
from benchmarks.report import machine, markdown_table
from benchmarks.sase_stream import SYMBOLS
from cep_pipeline.cli.figures import count_per_s, format_seconds, times_as_fast
from cep_pipeline.errors import CepError

PAPERS_LENGTHS = {"p1s2": "250", "p1s3": "250", "p2s2": "4.5", "p2s3": "140", "p3s2": "250", "p3s3": "250"}
PAPERS_RUNS = {"p1s2": "2", "p1s3": "2", "p2s2": "0.01", "p2s3": "2", "p3s2": "2", "p3s3": "2"}
"""Of table 2, which was measured with a window of 500 events."""
STYLES = {BASIC: Style("#3b82d6"), MERGE: Style("#2a9d5c"), BACKTRACK: Style("#d1495b")}


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of finished cells.

    Raises
    ------
    CepError
        Algorithms found different numbers of matches of one query.
    """
    refuse_different_matches(rows)
    missing = [f"`{algorithm}`" for algorithm in ALGORITHMS if not is_there(algorithm)]
    parts = [
        "# NFA^b: Kleene closure, strategies and sharing",
        f"Made by `cep experiment nfab{' --full' if request.full else ''} --seed {request.seed}` on {machine()}.",
        _WHAT.format(length=sizes.length),
        *([f"Not run by the mechanism, and left out: {', '.join(missing)}."] if missing else []),
        "## What the paper found, and what we find",
        findings_text(all_findings(rows)),
    ]
    charts: dict[str, tuple[str, str]] = {}
    for rising in sizes.rising:
        own = [_with_rates(row) for row in by_algorithm(rows) if row["rising"] == rising]
        suffix = "" if rising == sizes.rising[0] else f"-{rising:g}".replace(".", "_")
        if len(sizes.rising) > 1:
            parts.append(f"## Prices rise with probability {rising:g}")
        parts += _sections(own, sizes, suffix, "###" if len(sizes.rising) > 1 else "##")
        charts.update(_charts(own, suffix))
    return Page("\n\n".join(parts) + "\n", charts)


_WHAT = """\
The queries are those of the paper: `SEQ(Stock+ a[], Stock b)` with `[symbol]`, `a[1].price % 500 = 0` and \
`b.volume < 150`, under partition contiguity (s2) or skip till next match (s3), with no predicate on a (p1), \
`a[i].price > a[i-1].price` (p2) or `a[i].price > min(a[..i-1].price)` (p3; max and avg with `--full`), within a \
window of so many events of the partition. p3* goes on with a third event whose price lies between those of a. The \
stream has two symbols, whose prices change by 1, and for each of them {length:,} windows of events, in memory; one \
core. *basic* runs all runs at once over the shared match buffer, *merge* also merges \
equivalent runs, *backtrack* follows one run at a time. Algorithms run in turn, several times; seconds are those of \
the processor, and medians; \
ratios are medians of the ratios of runs that followed each other. All matches are made, and all algorithms find the \
same number of them, which is checked. Output complexity is the sum of the lengths of all matches."""


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


def _sections(rows: Sequence[Row], sizes: Sizes, suffix: str, mark: str) -> list[str]:
    first = sizes.windows[0]
    growing = _of(rows, part=GROWING)
    return [
        f"{mark} Predicates and strategies, window of {first} events (experiment 1, figure 8a)",
        "Runs a time step: those of all symbols that live while an event is read. In the paper: table 2.",
        _profile_table(_of(growing, window=first)),
        f"{mark} Growing windows (experiment 2, figures 8b and 8c)",
        "Events a second of the basic algorithm:",
        f"{{chart:windows{suffix}}}",
        _window_table(growing),
        "Seconds against output complexity, a point for each window (the windows of a query were measured in turn):",
        f"{{chart:output{suffix}}}",
        f"{mark} Basic against backtrack, all results (experiment 3, figure 8d)",
        "Shown: events shown to runs, for each event of the stream. Read again: those of them that had been shown to a "
        "run before. Matching alone: over events that are prepared; no match is made.",
        f"{{chart:algorithms{suffix}}}",
        _backtrack_table(_of(rows, part=BACKTRACKING), _of(rows, part=MATCHING_BACK)),
        f"{mark} Non-overlapping results (experiment 4, figure 8e)",
        "OUTPUT NON_OVERLAP keeps the match that ends first, and ends all runs that would overlap it: the basic "
        "algorithm ends them when it meets the match; backtracking, which may find a later one first, reads no event "
        "behind those that it has found. Preparing the events and writing the matches is part of the time.",
        _non_overlap_table(_of(rows, part=NON_OVERLAPPING), _of(rows, part=MATCHING_APART)),
        f"{mark} Merging equivalent runs (experiments 5 and 6, figures 8f and 8g)",
        "Throughput of merging over that of the basic algorithm, and the share of runs that were merged. Preparing the "
        "events and making the matches is part of both:",
        _merging_table(_of(rows, part=MERGING, algorithm=MERGE)),
        "In matching alone, over events that are prepared; no match is made:",
        _merging_table(_of(rows, part=MATCHING, algorithm=MERGE)),
    ]


def _charts(rows: Sequence[Row], suffix: str) -> dict[str, tuple[str, str]]:
    basic = _of(rows, part=GROWING)
    rate = Axis("per_s", "events/s", log=True)
    side_by_side = _of(rows, part=BACKTRACKING) or _of(basic, window=basic[0]["window"] if basic else None)
    return {
        f"windows{suffix}": (
            "Throughput against the partition window",
            line_chart(basic, Axis("window", "partition window (events)"), rate, "query", width=480),
        ),
        f"output{suffix}": (
            "Seconds against output complexity",
            line_chart(
                basic,
                Axis("output_complexity", "output complexity (events)", log=True),
                Axis("seconds", "seconds", log=True),
                "query",
                width=480,
            ),
        ),
        f"algorithms{suffix}": (
            "Throughput by algorithm",
            bar_chart(side_by_side, Axis("query", "query"), rate, "algorithm", styles=STYLES),
        ),
    }


def _profile_table(rows: Sequence[Row]) -> str:
    header = ["query", "events/s", "matches", "output complexity", "most runs"]
    header += ["mean length", "in the paper", "runs a time step", "in the paper"]
    lines = [
        [
            str(row["query"]),
            count_per_s(_number(row, "per_s")),
            f"{row['matches']:,}",
            f"{row['output_complexity']:,}",
            f"{row['peak_runs']:,}",
            f"{_number(row, 'output_complexity') / max(_number(row, 'matches'), 1):.3g}",
            PAPERS_LENGTHS.get(str(row["query"]), ""),
            f"{len(SYMBOLS) * _number(row, 'events_read') / _number(row, 'events'):.2g}",
            PAPERS_RUNS.get(str(row["query"]), ""),
        ]
        for row in rows
    ]
    return markdown_table(header, lines)


def _window_table(basic: Sequence[Row]) -> str:
    return _by_window(basic, lambda row: count_per_s(_number(row, "per_s")))


def _by_window(rows: Sequence[Row], text: Callable[[Row], str]) -> str:
    """Queries down, windows from left to right."""
    windows = list(dict.fromkeys(row["window"] for row in rows))
    lines = []
    for query in dict.fromkeys(str(row["query"]) for row in rows):
        own = {row["window"]: row for row in rows if row["query"] == query}
        lines.append([query, *(text(own[window]) for window in windows)])
    return markdown_table(["window", *(f"{window}" for window in windows)], lines)


def _backtrack_table(rows: Sequence[Row], matching: Sequence[Row]) -> str:
    lines = []
    for basic, backtrack in zip(_of(rows, algorithm=BASIC), _of(rows, algorithm=BACKTRACK), strict=True):
        (alone,) = _of(matching, algorithm=BACKTRACK, query=basic["query"])
        lines.append(
            [
                str(basic["query"]),
                *(count_per_s(_number(row, "per_s")) for row in (basic, backtrack)),
                times_as_fast(1 / _number(backtrack, "ratio")),
                times_as_fast(1 / _number(alone, "ratio")),
                *(f"{_number(row, 'events_read') / _number(row, 'events'):.3g}" for row in (basic, backtrack)),
                f"{_number(backtrack, 'events_read_again') / _number(backtrack, 'events'):.3g}",
            ]
        )
    header = ["query", "basic, events/s", "backtrack, events/s", "basic is x as fast", "in matching alone"]
    return markdown_table([*header, "basic: shown", "backtrack: shown", "read again"], lines)


def _non_overlap_table(rows: Sequence[Row], matching: Sequence[Row]) -> str:
    lines = []
    for basic, backtrack in zip(_of(rows, algorithm=BASIC), _of(rows, algorithm=BACKTRACK), strict=True):
        (alone,) = _of(matching, algorithm=BACKTRACK, query=basic["query"], window=basic["window"])
        lines.append(
            [
                str(basic["query"]),
                f"{basic['window']}",
                f"{basic['matches']:,}",
                *(format_seconds(_number(row, "seconds")) for row in (basic, backtrack)),
                times_as_fast(1 / _number(backtrack, "ratio")),
                times_as_fast(1 / _number(alone, "ratio")),
                *(f"{_number(row, 'events_read') / _number(row, 'events'):.3g}" for row in (basic, backtrack)),
            ]
        )
    header = ["query", "window", "matches kept", "basic", "backtrack", "basic is x as fast", "in matching alone"]
    return markdown_table([*header, "basic: shown", "backtrack: shown"], lines)


def _merging_table(rows: Sequence[Row]) -> str:
    def text(row: Row) -> str:
        merged = _number(row, "runs_merged") / max(_number(row, "runs_started"), 1)
        return f"{times_as_fast(_number(row, 'ratio'))} ({merged:.0%})"

    return _by_window(rows, text)


def _of(rows: Sequence[Row], **wanted: object) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def _with_rates(row: Row) -> Row:
    return {**row, "per_s": _number(row, "events") / _number(row, "seconds")}


def _number(row: Row, name: str) -> float:
    return cast(float, row[name])
