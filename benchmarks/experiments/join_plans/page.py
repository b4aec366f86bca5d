"""The page of `cep experiment join_plans`: findings, charts and tables of the cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean

from benchmarks.charts import Axis, Style, bar_chart, line_chart, scatter_chart
from benchmarks.experiments.cells import Row, number, rows_of
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.findings import geometric_mean
from benchmarks.experiments.join_plans.experiment import (
    ALPHA,
    CHAIN,
    FUSED,
    LARGE,
    NFAB,
    PATTERNS,
    STRATEGIES,
    STRATEGY,
    TREE,
    WEIGHED,
    Sizes,
    by_planner,
)
from benchmarks.experiments.join_plans.figures import (
    DP_B,
    DP_LD,
    EFREQ,
    PATTERN,
    ZSTREAM,
    Pairs,
    average_gain,
    average_rate,
    changes_by_alpha,
    cheap_patterns,
    correlation_of,
    dearer_is_slower,
    distinct_plans,
    finished_by_all,
    geometric_gain,
    held_share,
    most_dear,
    noise_of,
    pairs_by,
    pairs_of,
    per_s,
    rate_together,
    reached_limit,
    total_gain,
)
from benchmarks.experiments.join_plans.findings import all_findings
from benchmarks.experiments.join_plans.patterns import (
    GREATEST_SELECTIVITY,
    LEAST_SELECTIVITY,
    MOST_KLEENE_EVENTS,
    SEQUENCE,
    SETS,
)
from benchmarks.experiments.join_plans.streams import STOCKS, TRAFFIC, WINDOW_S
from benchmarks.experiments.page import Page, Picture, findings_page, table_across, zeros_not_drawn
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.vega import PALETTE

STYLES: Mapping[str, Style] = {
    name: Style(color, dashed)
    for name, color, dashed in (
        ("trivial", PALETTE[7], True),
        (EFREQ, PALETTE[0], False),
        ("greedy", PALETTE[3], False),
        ("ii_random", PALETTE[4], True),
        ("ii_greedy", PALETTE[4], False),
        (DP_LD, PALETTE[2], False),
        (ZSTREAM, PALETTE[6], False),
        ("zstream_ordered", PALETTE[5], False),
        (DP_B, PALETTE[1], False),
        (FUSED, "#79818c", True),
        (NFAB, "#79818c", False),
    )
}
RATE, HELD = Axis("per_s", "events/s", log=True), Axis("held", "partial matches and events", log=True)
SIZE = Axis("size", "events of the pattern")
AT_LIMIT = " Runs that reached the time limit are drawn at the throughput that they have at most."


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request, descriptions: Mapping[str, str]) -> Page:
    """The page of finished cells; each of them checked that all plans found the same."""
    rows = by_planner(rows)
    stocks, traffic = (rows_of(rows, part=PATTERNS, stream=name) for name in (STOCKS, TRAFFIC))
    large, alpha, strategy = (rows_of(rows, part=part) for part in (LARGE, ALPHA, STRATEGY))
    return findings_page(
        "join_plans",
        request,
        all_findings(rows),
        [*_pictures(rows)],
        chain=CHAIN,
        tree=TREE,
        sizes=sizes,
        descriptions=descriptions,
        window_s=WINDOW_S,
        selectivities=(LEAST_SELECTIVITY, GREATEST_SELECTIVITY),
        most_kleene=MOST_KLEENE_EVENTS,
        noise=noise_of(rows),
        kinds=SETS,
        stocks=stocks,
        traffic=traffic,
        large=large,
        alpha=alpha,
        strategy=strategy,
        normalized=_normalized(large),
        of_set=lambda rows, kind: rows_of(rows, set=kind),
        finished=finished_by_all,
        patterns=lambda rows: len({tuple(row.get(name) for name in PATTERN) for row in rows}),
        table=_table,
        average=lambda rows: average_rate(rows).text(count_per_s),
        together=lambda rows: rate_together(rows).text(count_per_s),
        held=lambda rows: f"{mean(number(row, 'held') for row in rows):,.0f}",
        candidates=lambda rows: _three(mean(number(row, "candidates") / number(row, "events") for row in rows)),
        planning=lambda rows: _seconds(mean(number(row, "planning_s") for row in rows)),
        latency=lambda rows: _three(mean(number(row, "after_last") for row in rows)),
        gain=lambda rows: times_as_fast(number(rows[0], "gain")),
        at_limit=lambda rows: f"{sum(map(reached_limit, rows))} of {len(rows)}",
        compared=_compared,
        ends=_ends,
        average_gain=lambda pairs: average_gain(pairs).text(),
        total_gain=lambda pairs: total_gain(pairs).text(),
        held_share=lambda pairs: held_share(pairs).text(),
        sequences=_sequences(stocks),
        cheap=_cheap(stocks),
        predictions=_prediction_table(stocks),
        most_dear=markdown_table(
            ["planner", "times"], [[name, times_as_fast(most)] for name, most in most_dear(large).items()]
        ),
        changes=markdown_table(
            ["planner", "latency", "throughput", "other plans"],
            [
                [name, latency.text(), rate.text(), f"{share:.0%}"]
                for name, (latency, rate, share) in changes_by_alpha(alpha).items()
            ],
        ),
    )


COMPARED = ((DP_LD, EFREQ), (DP_B, ZSTREAM), (DP_B, DP_LD))
"""Planners whose gains are shown, the better one first."""


def _table(rows: Sequence[Row], across: str, cell: Callable[[Sequence[Row]], str]) -> str:
    """Planners down, in the order of their styles, and the values of `across` from left to right."""
    order = [*STYLES]
    ordered = sorted(rows, key=lambda row: order.index(str(row["planner"])))
    return table_across(ordered, "planner", across, "planner", cell)


def _compared(rows: Sequence[Row], text: Callable[[Pairs], str]) -> str:
    """Two planners down, sets of patterns across."""
    lines = []
    for better, worse in COMPARED:
        by_set = pairs_by(rows, "set", better, worse)
        lines.append([f"{better} / {worse}", *(text(by_set[kind]) for kind in SETS)])
    return markdown_table(["plans", *SETS], lines)


def _ends(pairs: Pairs) -> str:
    """How often the first plan alone reached the limit, how often the second one alone, and how often both."""
    ends = [(reached_limit(a), reached_limit(b)) for a, b in pairs]
    return ", ".join(str(ends.count(one)) for one in ((True, False), (False, True), (True, True)))


def _sequences(rows: Sequence[Row]) -> str:
    by_size = pairs_by(rows_of(rows, set=SEQUENCE), "size", DP_B, ZSTREAM)
    lines = [
        [text, *(gain(pairs).text() for pairs in by_size.values())]
        for text, gain in (("average throughput", average_gain), ("all patterns together", total_gain))
    ]
    return markdown_table(["events", *map(str, by_size)], lines)


def _cheap(rows: Sequence[Row]) -> str:
    lines = []
    for better, worse, mechanism in ((DP_LD, EFREQ, CHAIN), (DP_B, ZSTREAM, TREE)):
        cheap, dear = cheap_patterns(rows, better, worse, mechanism)
        gain_of_dear = geometric_gain(dear).text() if dear else ""
        lines.append([f"{better} / {worse}", f"{len(cheap)}", f"{len(dear)}", gain_of_dear])
    return markdown_table(["plans", "cheap patterns", "others", "gain over the others"], lines)


def _prediction_table(rows: Sequence[Row]) -> str:
    lines = []
    for kind, mechanism in (("orders", CHAIN), ("trees", TREE)):
        plans = distinct_plans(rows, mechanism)
        correlations = [
            correlation_of(plans, "ln_cost"),
            correlation_of(plans, "candidates"),
            correlation_of(plans, "ln_cost", with_throughput=False),
        ]
        right = f"{dearer_is_slower(plans):.0%}"
        lines.append([kind, f"{len(plans)}", *(f"{value:.2f}" for value in correlations), right])
    header = ["plans", "number", "cost, throughput", "candidates, throughput", "cost, memory", "cheaper is faster"]
    return markdown_table(header, lines)


def _normalized(rows: Sequence[Row]) -> list[Row]:
    """Cost of EFREQ's order over that of each planner's plan, by size."""
    points: list[Row] = []
    for planner in (name for name in STYLES if name != EFREQ):
        for size in dict.fromkeys(row["size"] for row in rows):
            pairs = pairs_of(rows_of(rows, size=size), EFREQ, planner)
            gains = [math.exp(number(one, "ln_cost") - number(other, "ln_cost")) for one, other in pairs]
            if gains:
                points.append({"planner": planner, "size": size, "gain": geometric_mean(gains)})
    return points


def _alpha_points(rows: Sequence[Row]) -> list[Row]:
    rows = finished_by_all(rows)
    points: list[Row] = []
    for planner in WEIGHED:
        for alpha in dict.fromkeys(row["alpha"] for row in rows):
            own = rows_of(rows, planner=planner, alpha=alpha)
            latency, rate = mean(number(row, "after_last") for row in own), mean(map(per_s, own))
            points.append({"planner": planner, "alpha": alpha, "after_last": latency, "per_s": rate})
    return points


def _pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    for stream in (STOCKS, TRAFFIC):
        own = rows_of(rows, part=PATTERNS, stream=stream)
        if own:
            yield from _pictures_of_sets(own, stream)
    stocks = rows_of(rows, part=PATTERNS, stream=STOCKS)
    large, alpha, strategy = (rows_of(rows, part=part) for part in (LARGE, ALPHA, STRATEGY))
    plans = [
        {**row, "kind": kind, "cost": 10 ** min(number(row, "ln_cost") / math.log(10), 300), "per_s": per_s(row)}
        for kind, mechanism in (("orders", CHAIN), ("trees", TREE))
        for row in distinct_plans(stocks, mechanism)
    ]
    cost = Axis("cost", "cost: partial matches alive", log=True)
    for name, axis in (("throughput", RATE), ("memory", HELD)):
        drawn = [row for row in plans if axis.field in row]
        chart = scatter_chart(drawn, cost, axis, "set", facet="kind")
        ended = AT_LIMIT if axis is RATE else " Plans that reached the time limit are left out."
        caption = f"Figure 16: a point for each plan on the stocks.{ended}{zeros_not_drawn(drawn, axis.field, 'set')}"
        yield Picture(f"cost-{name}", f"Cost against {name}", caption, chart)
    gain, planning = Axis("gain", "cost of EFREQ's order / cost", log=True), Axis("planning_s", "seconds", log=True)
    yield Picture(
        "large-cost",
        "Normalized cost against size",
        "Figure 17: sequences that are planned and not run; higher is better.",
        line_chart(_normalized(large), SIZE, gain, "planner", styles=STYLES, width=480),
    )
    yield Picture(
        "planning",
        "Planning time against size",
        "Figure 17: the same sequences; lower is better.",
        line_chart(_means(large, ("size",)), SIZE, planning, "planner", styles=STYLES, width=480),
    )
    after, reached = Axis("after_last", "candidates after the last event"), Axis("per_s", "events/s")
    yield Picture(
        "alpha",
        "Throughput against latency",
        "Figure 18: a point for each alpha, over the sequences of which all runs ended. Where alpha changes no plan, "
        "points differ by chance only.",
        line_chart(_alpha_points(alpha), after, reached, "planner", styles=STYLES, width=480),
    )
    by_strategy = _means(strategy, ("strategy",))
    shown = [row for name in STRATEGIES for row in rows_of(by_strategy, strategy=name)]
    yield Picture(
        "strategies",
        "Throughput by strategy",
        f"Figure 19: sequences on the stocks; higher is better.{AT_LIMIT}",
        bar_chart(shown, Axis("strategy", ""), RATE, "planner", styles=STYLES, width=640),
    )


def _pictures_of_sets(rows: Sequence[Row], stream: str) -> Iterator[Picture]:
    by_size = _means(rows, ("set", "size"))
    ended = _means(finished_by_all(rows), ("set", "size"))
    kept = [row for row in ended if row["planner"] != FUSED]
    yield Picture(
        f"{stream}-sets",
        f"Throughput by pattern type: {stream}",
        f"Figure 4: averages; higher is better.{AT_LIMIT}",
        bar_chart(_means(rows, ("set",)), Axis("set", ""), RATE, "planner", styles=STYLES, width=640),
    )
    yield Picture(
        f"{stream}-throughput",
        f"Throughput against size: {stream}",
        f"Figures 6 to 14: averages; higher is better.{AT_LIMIT}",
        line_chart(by_size, SIZE, RATE, "planner", styles=STYLES, facet="set", width=220),
    )
    yield Picture(
        f"{stream}-memory",
        f"Memory against size: {stream}",
        f"Figures 7 to 15: averages where all plans ended; lower is better. `{FUSED}` holds nothing."
        f"{zeros_not_drawn(kept, 'held', 'planner')}",
        line_chart(kept, SIZE, HELD, "planner", styles=STYLES, facet="set", width=220),
    )


def _means(rows: Sequence[Row], fields: Sequence[str]) -> list[Row]:
    """A row for each planner and value of the fields, with the means of those of its figures that it has."""
    grouped: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        figures = {"per_s": per_s(row)} if "seconds" in row else {}
        grouped.setdefault((row["planner"], *(row[field] for field in fields)), []).append({**row, **figures})
    return [
        {
            **{field: own[0][field] for field in ("planner", *fields)},
            **{
                name: mean(number(row, name) for row in own)
                for name in ("planning_s", "per_s", "held")
                if all(name in row for row in own)
            },
        }
        for own in grouped.values()
    ]


def _seconds(value: float) -> str:
    return f"{value * 1e6:.0f} µs" if value < 1e-4 else format_seconds(value)


def _three(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
