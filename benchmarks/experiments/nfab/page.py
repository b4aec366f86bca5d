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
from benchmarks.experiments.nfab.findings import EXPENSIVE, Noise, all_findings, growth_of, shown
from benchmarks.experiments.nfab.runs import ALGORITHMS, BACKTRACK, BASIC, MERGE, by_algorithm, is_there
from benchmarks.experiments.page import Page, Picture, findings_page, made_by, zeros_not_drawn
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
    tables: list[str] = []
    for rising, own in by_rising.items():
        several = len(by_rising) > 1
        suffix = "" if own is by_rising[sizes.rising[0]] else f"-{rising:g}".replace(".", "_")
        pictures += _pictures(own, suffix, f" Prices rise with probability {rising:g}." if several else "")
        tables += [f"## Prices rise with probability {rising:g}"] if several else []
        tables += _sections(own, sizes, "###" if several else "##")
    return findings_page(
        "NFA^b: Kleene closure, strategies and sharing",
        made_by("nfab", request.full, request.seed),
        _RAN,
        all_findings(rows),
        pictures,
        tables,
        _measured(sizes, Noise.of(apart)),
    )


_RAN = """\
Queries with Kleene closure follow the prices of a stock: without a predicate (p1), with rising prices (p2), with \
prices above the least so far (p3); each under partition contiguity (s2) or skip till next match (s3). The algorithm \
*basic* follows all runs at once, *merge* also merges equivalent runs, *backtrack* follows one run at a time."""


def _measured(sizes: Sizes, noise: Noise) -> Iterator[str]:
    star = shown("p3*")
    yield (
        "- Query: `SEQ(Stock+ a[], Stock b)` with `[symbol]`, `a[1].price % 500 = 0` and `b.volume < 150`, within "
        "a window of so many events of the symbol.\n"
        "- p2: `a[i].price > a[i-1].price`.\n"
        "- p3: `a[i].price > min(a[..i-1].price)`; max and avg with `--full`.\n"
        f"- {star}: p3, and then a third event whose price lies between those of a.\n"
        f"- Events: two symbols, whose prices change by 1; for each of them {sizes.length:,} windows of events, in "
        "memory.\n"
        "- Output complexity: the sum of the lengths of all matches.\n"
        "- Matching alone: events are prepared, and no match is made."
    )
    yield (
        "Algorithms run on one core in turn, several times. Seconds are those of the processor, and medians. Ratios "
        "are medians of the ratios of runs that followed each other. That all algorithms find the same number of "
        "matches is checked."
    )
    yield (
        "The noise is the factor by which a figure differs between the earlier and the later half of its runs, the "
        f"median over all measurements: {noise.seconds:.3f} for seconds and {noise.ratio:.3f} for ratios. A figure "
        "that is nearer than this to the bound of a finding decides nothing."
    )
    missing = [f"`{algorithm}`" for algorithm in ALGORITHMS if not is_there(algorithm)]
    if missing:
        yield f"Not run by the mechanism, and left out: {', '.join(missing)}."


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


def _sections(rows: Sequence[Row], sizes: Sizes, mark: str) -> Iterator[str]:
    first = sizes.windows[0]
    growing, merging = rows_of(rows, part=GROWING), rows_of(rows, part=MERGING)
    yield f"{mark} Predicates and strategies (experiment 1, figure 8a)"
    yield (
        f"The basic algorithm with a window of {first} events, beside table 2 of the paper. Runs a time step: those of "
        "all symbols that live while an event is read."
    )
    yield _profile_table(rows_of(growing, window=first))
    yield f"{mark} Growing windows (experiment 2, figure 8b)"
    yield "Events a second of the basic algorithm, for each window."
    yield _by_window(growing, lambda row: count_per_s(number(row, "per_s")))
    yield f"{mark} Cost against output complexity (experiment 2, figure 8c)"
    yield (
        "How well a straight line through the windows explains the seconds, the power of output complexity by which "
        "they grow, and the slope of the line."
    )
    yield _growth_table(growing)
    yield f"{mark} Basic against backtrack, all results (experiment 3, figure 8d)"
    yield (
        "How many times as fast basic is. Shown: events shown to runs, for each event of the stream. Read again: those "
        "of them that had been shown to a run before."
    )
    yield _backtrack_table(rows_of(rows, part=BACKTRACKING), rows_of(rows, part=MATCHING_BACK))
    yield (
        "Events that p1s3 shows to runs, for each event of the stream; and how many they would be if each run was read "
        "anew from its first event, as in matching over strings without a stack."
    )
    yield _anew_table(rows_of(merging, algorithm=BASIC, query="p1s3"))
    yield f"{mark} Non-overlapping results (experiment 4, figure 8e)"
    yield (
        "How many times as fast basic is where the match that ends first is kept. The basic algorithm ends runs that "
        "overlap a match when it meets the match. Backtracking may find a later one first, and reads no event behind "
        "those that it has found. Seconds include preparing the events and writing the matches."
    )
    yield _non_overlap_table(rows_of(rows, part=NON_OVERLAPPING), rows_of(rows, part=MATCHING_APART))
    yield f"{mark} Merging equivalent runs (experiments 5 and 6, figures 8f and 8g)"
    yield "Throughput of merging over that of the basic algorithm, matches included."
    yield _by_window(rows_of(merging, algorithm=MERGE), _gain)
    yield "The same in matching alone."
    yield _by_window(rows_of(rows, part=MATCHING, algorithm=MERGE), _gain)
    yield "Share of runs that were merged."
    yield _by_window(rows_of(merging, algorithm=MERGE), _merged)
    yield "How many times less often events are shown to runs with merging."
    yield _by_window(rows_of(merging, algorithm=MERGE), lambda row: _times(_basic_of(merging, row), row, "events_read"))
    yield "Share of the basic algorithm's time that matching takes."
    matching = rows_of(rows, part=MATCHING, algorithm=BASIC)
    yield _by_window(matching, lambda row: f"{number(row, 'seconds') / _basic_seconds(merging, row):.0%}")


def _gain(row: Row) -> str:
    return times_as_fast(number(row, "ratio"))


def _merged(row: Row) -> str:
    return f"{number(row, 'runs_merged') / max(number(row, 'runs_started'), 1):.0%}"


def _basic_of(rows: Sequence[Row], row: Row) -> Row:
    (basic,) = rows_of(rows, algorithm=BASIC, query=row["query"], window=row["window"])
    return basic


def _basic_seconds(rows: Sequence[Row], row: Row) -> float:
    return number(_basic_of(rows, row), "seconds")


def _times(one: Row, other: Row, figure: str) -> str:
    return times_as_fast(number(one, figure) / number(other, figure)) if other[figure] else ""


def _profile_table(rows: Sequence[Row]) -> str:
    header = ["query", "events/s", "matches", "output complexity", "most runs"]
    header += ["mean length", "in the paper", "runs a time step", "in the paper"]
    lines = [
        [
            shown(str(row["query"])),
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
    """Queries down, windows from left to right."""
    windows = list(dict.fromkeys(row["window"] for row in rows))
    lines = []
    for query in dict.fromkeys(str(row["query"]) for row in rows):
        own = {row["window"]: row for row in rows_of(rows, query=query)}
        lines.append([shown(query), *(text(own[window]) for window in windows)])
    return markdown_table(["window", *(f"{window}" for window in windows)], lines)


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
                shown(str(basic["query"])),
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
                shown(str(basic["query"])),
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
