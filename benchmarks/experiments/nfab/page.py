"""The page of `cep experiment nfab`: the paper's findings, charts and tables of the cells."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from statistics import linear_regression

from benchmarks.charts import Axis, Style, bar_chart, line_chart
from benchmarks.experiments.experiment import Request, Row, number, refuse_different_matches, rows_of
from benchmarks.experiments.findings import (
    Finding,
    Measured,
    Verdict,
    explained_by_a_line,
    finding,
    log_slope,
    noise_of_runs,
    ratio_range,
    said_of_noise,
    verdict_at_least,
    verdict_at_most,
)
from benchmarks.experiments.nfab.experiment import (
    BACKTRACK,
    BACKTRACKING,
    BASIC,
    GROWING,
    LONGER,
    MATCHING,
    MATCHING_APART,
    MATCHING_BACK,
    MERGE,
    MERGING,
    NON_OVERLAPPING,
    Sizes,
    by_algorithm,
)
from benchmarks.experiments.page import Page, Picture, as_text, findings_page, table_across, zeros_not_drawn
from benchmarks.report import markdown_table
from benchmarks.sase_stream import SYMBOLS
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast

EXPENSIVE = ("p1s3", "p2s3", "p3s3")
"""The queries of experiment 6."""
UNSELECTIVE = ("p1s3", "p3s3")
SELECTIVE = "p2s2"
TWO_ORDERS, ONE_ORDER = 100.0, 9.5
"""An order of magnitude is ten times, rounded."""
LEAST_MERGING_GAIN = 1.35
"""The least that is 1.4 with one digit, as the paper gives it."""
MOST_MERGING_GAIN, MOST_MATCHING_GAIN = 1.55, 2.15
"""Gains from here on are greater than any of the paper's."""
BETWEEN_LINE_AND_SQUARE = 1.5
"""A cost that grows by this power or more of the window counts as quadratic."""
EXPLAINED, LINEAR = 0.95, 1.15
"""A straight line has to explain so much of a cost; a linear one bends upwards no more than this (as a power)."""
SMALL_EFFECT = 2.0
COMPARABLE = 10.0


def all_findings(rows: Sequence[Row]) -> list[Finding]:
    """The findings of sections 6.1 to 6.3, by the cells of the first probability of rising."""
    rising = rows[0]["rising"] if rows else None
    own = by_algorithm(rows_of(rows, rising=rising))
    noise = Noise.of(own)
    return said_of_noise(
        find(own, noise)
        for find in (
            skipping_costs_with_a_selective_predicate,
            cost_an_event_grows_with_the_window,
            window_matters_little_to_selective_queries,
            cost_is_linear_in_output_complexity,
            basic_beats_backtrack,
            backtrack_is_comparable_on_short_runs,
            basic_beats_backtrack_on_longer_patterns,
            merging_gains,
            merging_gains_in_matching,
        )
    )


@dataclass(frozen=True)
class Noise:
    """The factor by which a figure differs between the earlier and the later half of its runs, in the middle.

    Attributes
    ----------
    seconds
        That of the seconds of one algorithm.
    ratio
        That of the ratio of two algorithms, which take turns.
    """

    seconds: float
    ratio: float

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Noise:
        """The noise of rows taken apart by algorithm."""
        others = [row for row in rows if row["algorithm"] != BASIC]
        return cls(_between_halves(rows, "seconds"), _between_halves(others, "ratio"))


def _between_halves(rows: Sequence[Row], figure: str) -> float:
    early, late = f"{figure}_early", f"{figure}_late"
    return noise_of_runs([(number(row, early), number(row, late)) for row in rows if early in row])


@finding
def skipping_costs_with_a_selective_predicate(rows: Sequence[Row], noise: Noise) -> Measured:
    """Experiment 1."""
    ratios = [
        per_event(skipping) / per_event(contiguous)
        for part in (GROWING, MATCHING)
        for contiguous in rows_of(rows, query=SELECTIVE, part=part, algorithm=BASIC, window=_first_window(rows))
        for skipping in rows_of(rows, query="p2s3", part=part, algorithm=BASIC, window=contiguous["window"])
    ]
    verdict = verdict_at_least(ratios[0], ONE_ORDER, noise=noise.seconds)
    return verdict, {"ratio": times_as_fast(ratios[0]), "alone": times_as_fast(ratios[1])}


@finding
def cost_an_event_grows_with_the_window(rows: Sequence[Row], noise: Noise) -> Measured:
    """Experiment 2: throughput falls quadratically."""
    costs = [{number(row, "window"): per_event(row) for row in _growing(rows, query)} for query in UNSELECTIVE]
    wider = max(costs[0]) / min(costs[0])
    growths = [own[max(own)] / own[min(own)] for own in costs]
    verdict = verdict_at_least(min(growths), wider**BETWEEN_LINE_AND_SQUARE, noise=noise.seconds)
    # A cost that grows more slowly than the paper's is the better one; one that grows like the cube is worse.
    if verdict is Verdict.DIFFERS:
        verdict = Verdict.SURPASSED
    elif verdict is Verdict.HOLDS:
        verdict = verdict_at_most(max(growths), wider ** (1 + BETWEEN_LINE_AND_SQUARE), noise=noise.seconds)
    return verdict, {"growths": ratio_range(growths), "wider": wider, "square": wider**2}


@finding
def window_matters_little_to_selective_queries(rows: Sequence[Row], noise: Noise) -> Measured:
    """Experiment 2: p2s2."""
    costs = [per_event(row) for row in _growing(rows, SELECTIVE)]
    ratio = max(costs) / min(costs)
    return verdict_at_most(ratio, SMALL_EFFECT, noise=noise.seconds), {"ratio": times_as_fast(ratio)}


@dataclass(frozen=True)
class Growth:
    """The cost of a query against its output complexity, over windows.

    Attributes
    ----------
    explained
        Share of the differences in seconds that a straight line explains.
    power
        The power of output complexity by which seconds grow.
    sizes, seconds
        Output complexity and seconds of each window.
    """

    explained: float
    power: float
    sizes: tuple[float, ...]
    seconds: tuple[float, ...]


def growth_of(rows: Sequence[Row], query: str) -> Growth:
    """The cost of a query against its output complexity."""
    own = _growing(rows, query)
    sizes, seconds = (tuple(number(row, name) for row in own) for name in ("output_complexity", "seconds"))
    return Growth(explained_by_a_line(sizes, seconds), log_slope(sizes, seconds), sizes, seconds)


@finding
def cost_is_linear_in_output_complexity(rows: Sequence[Row], noise: Noise) -> Measured:
    """Experiment 2, figure 8(c)."""
    growths = [growth_of(rows, query) for query in EXPENSIVE]
    # A power p is a factor of range**p over the range of output complexities, in which noise is a factor, too.
    bent = max((max(growth.sizes) / min(growth.sizes)) ** (growth.power - LINEAR) for growth in growths)
    verdict = verdict_at_most(bent, 1.0, noise=noise.seconds)
    explained = min(growth.explained for growth in growths)
    if verdict is Verdict.HOLDS and explained < EXPLAINED:
        verdict = Verdict.DIFFERS
    powers = ratio_range(growth.power for growth in growths)
    return verdict, {"explained": explained, "powers": powers, "linear": LINEAR}


@finding
def basic_beats_backtrack(rows: Sequence[Row], noise: Noise) -> Measured:
    """Experiment 3."""
    ratios = _slower(rows, ("p1s2", "p1s3", "p3s2", "p3s3"))
    return verdict_at_least(min(ratios), TWO_ORDERS, noise=noise.ratio), {"ratios": ratio_range(ratios)}


@finding
def backtrack_is_comparable_on_short_runs(rows: Sequence[Row], noise: Noise) -> Measured:
    """Experiment 3: p2s2."""
    ratios = _slower(rows, (SELECTIVE,))
    (ratio,) = ratios
    return verdict_at_most(max(ratio, 1 / ratio), COMPARABLE, noise=noise.ratio), {"ratio": times_as_fast(ratio)}


@finding
def basic_beats_backtrack_on_longer_patterns(rows: Sequence[Row], noise: Noise) -> Measured:
    """Experiment 4, of which the paper does not tell the window: with the largest."""
    longer = f"p3{LONGER}s3"
    own = rows_of(rows, part=NON_OVERLAPPING, algorithm=BACKTRACK)
    ratios = [1 / number(row, "ratio") for row in own if row["query"] == longer]
    others = [1 / number(row, "ratio") for row in own if row["query"] != longer]
    verdict = verdict_at_least(ratios[-1], ONE_ORDER, noise=noise.ratio)
    if verdict is Verdict.HOLDS:
        verdict = verdict_at_most(max(others), ONE_ORDER, noise=noise.ratio)
    return verdict, {"ratio": times_as_fast(ratios[-1]), "others": ratio_range(others)}


@finding
def merging_gains(rows: Sequence[Row], noise: Noise) -> Measured:
    """Experiment 5, which is that of experiment 1: with the first window."""
    own = rows_of(rows, part=MERGING, algorithm=MERGE, window=_first_window(rows))
    return _merging(own, noise, MOST_MERGING_GAIN)


@finding
def merging_gains_in_matching(rows: Sequence[Row], noise: Noise) -> Measured:
    """Experiment 6."""
    return _merging(rows_of(rows, part=MATCHING, algorithm=MERGE), noise, MOST_MATCHING_GAIN)


def _merging(rows: Sequence[Row], noise: Noise, most: float) -> Measured:
    gains = [number(row, "ratio") for row in rows if row["query"] in EXPENSIVE]
    verdict = verdict_at_least(min(gains), LEAST_MERGING_GAIN, noise=noise.ratio, surpassed=most)
    return verdict, {"gains": ratio_range(gains)}


def per_event(row: Row) -> float:
    """Seconds for each event of the stream."""
    return number(row, "seconds") / number(row, "events")


def _growing(rows: Sequence[Row], query: str) -> list[Row]:
    return rows_of(rows, query=query, part=GROWING, algorithm=BASIC)


def _slower(rows: Sequence[Row], queries: Collection[str]) -> list[float]:
    """Return the time of backtracking as a multiple of the basic algorithm's, for all results."""
    own = rows_of(rows, part=BACKTRACKING, algorithm=BACKTRACK)
    return [1 / number(row, "ratio") for row in own if row["query"] in queries]


def _first_window(rows: Sequence[Row]) -> float:
    return min((number(row, "window") for row in rows), default=0.0)


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
    refuse_different_matches(by_algorithm(rows), ("part", "rising", "window", "query"), "algorithm")
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
