"""The tables of figures on the page of `cep experiment adaptation`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from statistics import geometric_mean, median

from benchmarks.experiments.adaptation.figures import (
    INVARIANT,
    THRESHOLD,
    Best,
    Lead,
    best_gain,
    cells_of,
    chosen_by,
    lead,
    mean_gain,
    noise_of,
    number,
    per_cell,
    ratios,
    room,
    rows_of,
    total,
)
from benchmarks.experiments.adaptation.patterns import SEQUENCE
from benchmarks.experiments.adaptation.prediction import REACHES
from benchmarks.experiments.adaptation.sizes import (
    AVERAGE,
    CONTENDERS,
    META,
    OTHER_K,
    SAME,
    STATIC,
    UNCONDITIONAL,
    Contender,
    Sizes,
    distance_name,
    threshold_name,
)
from benchmarks.experiments.adaptation.streams import PERMUTED, STOCKS, TRAFFIC
from benchmarks.experiments.cells import Row
from benchmarks.experiments.findings import ratio_range
from benchmarks.report import markdown_table
from cep_pipeline.cli.figures import format_seconds, times_as_fast

REPLANNING = (UNCONDITIONAL, THRESHOLD, INVARIANT)
OTHERS = {AVERAGE: "average relative difference", META: "meta-adaptive", OTHER_K: "the other K"}
Chosen = Mapping[tuple[str, str], Best]
"""Stream and contender -> the best t and d."""


def cases(rows: Iterable[Row]) -> list[tuple[str, Contender]]:
    """The streams and contenders that there are rows of."""
    there = {(row["stream"], row["contender"]) for row in rows}
    return [(s, c) for s, c in product((STOCKS, TRAFFIC, PERMUTED), CONTENDERS) if (s, c.name) in there]


def _by_case(rows: Iterable[Row]) -> Iterator[tuple[list[str], list[Row]]]:
    rows = [*rows]
    for stream, contender in cases(rows):
        yield [stream, contender.name], rows_of(rows, stream=stream, contender=contender.name)


def _mean(values: Iterable[float]) -> str:
    return times_as_fast(geometric_mean(values))


def leads_table(compared: Sequence[Row], tried: Sequence[Row], sizes: Sizes) -> str:
    """Cells in which one decision function is ahead of another one, by the clock and by tries."""
    noise = noise_of(tried, sizes)
    of_d, of_t = [*map(distance_name, sizes.distances)], [*map(threshold_name, sizes.thresholds)]
    found: list[tuple[str, str, str, Lead]] = []
    for stream, (one, other) in product((TRAFFIC, STOCKS), ((INVARIANT, THRESHOLD), (STATIC, UNCONDITIONAL))):
        own = rows_of(compared, stream=stream)
        found += [
            (stream, f"{one} / {other}", "throughput", lead(own, one, other, noise=noise)),
            (stream, f"{one} / {other}", "tries", lead(own, one, other, "less_work")),
        ]
        if one == INVARIANT:
            cells = cells_of(rows_of(tried, stream=stream))
            best = [best_gain(cell, of_d) / best_gain(cell, of_t) for cell in cells]
            ahead, behind = (sum(ratio**sign > max(noise, 1 + SAME) for ratio in best) for sign in (1, -1))
            by = "throughput, each pattern's own t and d"
            found.append((stream, f"{one} / {other}", by, Lead(ahead, behind, best)))
    lines = [
        [*what, str(len(of.ratios)), str(of.ahead), str(of.behind), ratio_range(of.ratios), times_as_fast(of.mean)]
        for *what, of in found
    ]
    header = ["stream", "compared", "by", "patterns", "ahead", "behind", "quotients", "in the mean"]
    return markdown_table(header, lines)


def room_table(compared: Sequence[Row], tried: Sequence[Row]) -> str:
    """Tries that other plans save, for the patterns of each stream."""
    lines = []
    for stream in (TRAFFIC, STOCKS):
        own, of_all = rows_of(compared, stream=stream), rows_of(tried, stream=stream)
        of_static = rows_of(own, decision=STATIC)
        found = {
            **{name: [number(row, "less_work") for row in rows_of(own, decision=name)] for name in REPLANNING},
            "the best that was tried": per_cell(of_all, lambda of: max(number(row, "less_work") for row in of)),
            "best in hindsight": [number(row, "in_hindsight") for row in of_static],
            "the best known / best constant threshold": room(own, of_all),
        }
        lines += [[stream, name, ratio_range(values), _mean(values)] for name, values in found.items()]
    return markdown_table(["stream", "plans", "times fewer tries", "in the mean"], lines)


def alike_table(tried: Sequence[Row], sizes: Sizes) -> str:
    """Patterns in which decision functions did exactly the same work as planning anew at every decision."""
    lines = []
    for name in (*map(distance_name, sizes.distances), *map(threshold_name, sizes.thresholds), STATIC):
        found = ratios(tried, name, UNCONDITIONAL, "candidates").values()
        lines.append([name, f"{sum(ratio == 1.0 for ratio in found)} of {len(found)}"])
    return markdown_table(["decision", "patterns with the same work"], lines)


def replannings_table(compared: Sequence[Row]) -> str:
    """Decisions of each stream, and what came of them."""
    lines = []
    for stream, name in product((TRAFFIC, STOCKS), REPLANNING):
        own = rows_of(compared, stream=stream)
        lines.append(
            [stream, name, *(f"{total(own, name, figure):,.0f}" for figure in ("checks", "planned", "switches"))]
        )
    return markdown_table(["stream", "decision", "decisions", "planned anew", "plans replaced"], lines)


def planners_table(compared: Sequence[Row]) -> str:
    """Gains of invariants by planner, in the geometric mean over all patterns."""
    lines = []
    for other, (by, figure) in product((STATIC, THRESHOLD), (("throughput", "throughput"), ("tries", "less_work"))):
        means = (_mean(ratios(compared, INVARIANT, other, figure, (one,)).values()) for one in CONTENDERS)
        lines.append([f"{INVARIANT} / {other}", by, *means])
    return markdown_table(["compared", "by", *(contender.name for contender in CONTENDERS)], lines)


def costs_table(compared: Sequence[Row]) -> str:
    """The costs of a check, a plan and the statistics, beside detection."""
    lines = []
    for contender in CONTENDERS:
        of_all = rows_of(compared, contender=contender.name)
        own = rows_of(of_all, decision=INVARIANT)
        sums = {name: sum(number(row, name) for row in own) for name in ("checks", "planned", "deciding", "planning")}
        if not sums["checks"]:
            continue
        # The first plan is made, too; intervals are also those before the first check, and the last one.
        plans = sums["planned"] + len(own)
        intervals = sums["checks"] + sum(number(row, "reach") + 1 for row in own)
        always = [number(row, "overhead") for row in rows_of(of_all, decision=UNCONDITIONAL)]
        estimating = [number(row, "estimating") / (number(row, "seconds") + number(row, "estimating")) for row in own]
        lines.append(
            [
                contender.name,
                f"{1e6 * sums['deciding'] / sums['checks']:.0f} µs",
                f"{1e6 * sums['planning'] / plans:.0f} µs",
                format_seconds(sum(number(row, "detecting") for row in own) / intervals),
                f"{max(number(row, 'overhead') for row in own):.1%}",
                f"{max(always):.1%}",
                f"{median(estimating):.0%}, {max(estimating):.0%} at most",
            ]
        )
    shares = ["invariants: at most", "always: at most", "keeping statistics, of all time"]
    return markdown_table(["planner", "a check", "a plan", "detection between two checks", *shares], lines)


def promises_table(compared: Sequence[Row]) -> str:
    """The savings that new plans promise when they are chosen, and what becomes of them."""
    lines = []
    for case, own in _by_case(compared):
        always, static = (rows_of(own, decision=name) for name in (UNCONDITIONAL, STATIC))
        if not always:
            continue
        less = (_mean(number(row, name) for row in always) for name in ("by_latest", "by_next", "less_work"))
        per_try = [
            geometric_mean(1e9 * number(row, "detecting") / max(number(row, "candidates"), 1.0) for row in rows)
            for rows in (static, always)
        ]
        price = median(number(row, "switch_price") for row in always)
        lines.append([*case, *less, f"{price:.0%}", *(f"{nanoseconds:.0f} ns" for nanoseconds in per_try)])
    less_work = ["promised", "on what followed", "measured"]
    columns = [*less_work, "a switch, of a window", "a try, static", "a try, always"]
    return markdown_table(["stream", "planner", *columns], lines)


def distance_table(rows: Sequence[Row], sizes: Sizes) -> str:
    """Throughput of each distance as a multiple of that of d = 0."""
    lines = []
    for stream, contender in cases(rows):
        own = chosen_by(rows, stream, contender)
        basic = mean_gain(own, distance_name(0.0)) if 0.0 in sizes.distances else 1.0
        gains = [times_as_fast(mean_gain(own, distance_name(distance)) / basic) for distance in sizes.distances]
        lines.append([stream, contender.name, *gains])
    return markdown_table(["stream", "planner", *(f"d = {distance:g}" for distance in sizes.distances)], lines)


def rules_table(rows: Sequence[Row], best: Chosen) -> str:
    """Gains over the static plan by the best t and d, and by distances that nobody has to try."""
    lines = []
    for stream, contender in cases(rows):
        own, of = chosen_by(rows, stream, contender), best[stream, contender.name]
        names = (threshold_name(of.threshold), distance_name(of.distance), *OTHERS)
        gains = [times_as_fast(mean_gain(own, name)) for name in names]
        lines.append([stream, contender.name, f"{of.threshold:g}", gains[0], f"{of.distance:g}", gains[1], *gains[2:]])
    header = ["stream", "planner", "best t", "gain by t", "best d", "gain by d", *OTHERS.values()]
    return markdown_table(header, lines)


def average_table(rows: Sequence[Row], best: Chosen, sizes: Sizes) -> str:
    """The average relative difference of the first plan's comparisons, beside the best distance."""
    lines = []
    for stream, contender in cases(rows):
        own = rows_of(chosen_by(rows, stream, contender), decision=AVERAGE)
        values = {row["size"]: f"{number(row, 'average_d'):.3g}, {number(row, 'average_d_of_all'):.3g}" for row in own}
        texts = [values.get(size, "") for size in sizes.sequences]
        lines.append([stream, contender.name, f"{best[stream, contender.name].distance:g}", *texts])
    return markdown_table(["stream", "planner", "best d", *(f"{size} events" for size in sizes.sequences)], lines)


def cells_table(compared: Sequence[Row]) -> str:
    """Pattern by pattern: gains over the static plan, plans put in use, and tries saved."""
    lines = []
    for cell in cells_of(compared):
        of = {str(row["decision"]): row for row in cell}
        first = cell[0]
        pattern = f"{first.get('set', SEQUENCE)} {first['size']}"
        if "phase" in first:
            pattern = f"permuted every {first['phase']:,}"
        own = [of[name] for name in REPLANNING]
        lines.append(
            [
                str(first["stream"]),
                str(first["contender"]),
                pattern,
                *(times_as_fast(number(row, "gain")) for row in own),
                *(f"{row['switches']}" for row in own),
                *(times_as_fast(number(row, "less_work")) for row in own),
                times_as_fast(number(first, "in_hindsight")),
            ]
        )
    names = "always", "t", "d"
    columns = [f"{figure}, {name}" for figure in ("gain", "plans", "fewer tries") for name in names]
    return markdown_table(["stream", "planner", "pattern", *columns, "in hindsight"], lines)


def errors_table(rows: Sequence[Row]) -> str:
    """The factor by which the mean of the last intervals misses the numbers of what follows."""
    lines = []
    for stream in dict.fromkeys(str(row["stream"]) for row in rows):
        own = rows_of(rows, stream=stream)
        errors = (geometric_mean([number(row, f"error_{reach}") for row in own]) for reach in REACHES)
        lines.append([stream, *(f"{error:.3f}" for error in errors)])
    return markdown_table(["stream", *(f"last {reach}" for reach in REACHES)], lines)


def windows_table(rows: Sequence[Row]) -> str:
    """The least and the greatest window, interval and number of events and matches, by stream and planner."""
    names = ("window_s", "interval_s", "reach", "events_read", f"{STATIC}:matches")
    lines = []
    for case, own in _by_case(rows):
        ends = ((min(of), max(of)) for of in ([number(row, name) for row in own] for name in names))
        lines.append([*case, *(f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}" for low, high in ends)])
    columns = ["window (s)", "decided every (s)", "reach (intervals)", "events", "matches"]
    return markdown_table(["stream", "planner", *columns], lines)


def frequency_table(rows: Sequence[Row], sizes: Sizes) -> str:
    """Gains over the static plan by how often it is decided, in the geometric mean over patterns and planners."""
    of_d, of_t = [*map(distance_name, sizes.distances)], [*map(threshold_name, sizes.thresholds)]
    gains: Sequence[Callable[[Sequence[Row]], float]] = (
        lambda cell: best_gain(cell, [UNCONDITIONAL]),
        lambda cell: best_gain(cell, of_t),
        lambda cell: best_gain(cell, [distance_name(0.0)]),
        lambda cell: best_gain(cell, of_d),
    )
    lines = []
    for often in sorted({int(number(row, "a window")) for row in rows}):
        own = rows_of(rows, **{"a window": often})
        replaced = f"{total(own, UNCONDITIONAL, 'switches'):,.0f}"
        lines.append([str(often), *(_mean(per_cell(own, gain)) for gain in gains), replaced])
    header = ["decisions a window", "always", "best t", "d = 0", "best d", "plans replaced, always"]
    return markdown_table(header, lines)
