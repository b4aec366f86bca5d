"""The page of `cep experiment join_plans`: findings, charts and tables of the cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import harmonic_mean, mean

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
    ZSTREAM,
    average_gain,
    changes_by_alpha,
    cheap_patterns,
    correlation_of,
    dearer_is_slower,
    distinct_plans,
    geometric_gain,
    held_share,
    most_dear,
    noise_of,
    pairs_by,
    pairs_of,
    per_s,
    total_gain,
)
from benchmarks.experiments.join_plans.findings import all_findings
from benchmarks.experiments.join_plans.patterns import (
    CANDIDATES_EACH,
    GREATEST_SELECTIVITY,
    LEAST_SELECTIVITY,
    MATCHES_EACH,
    SEQUENCE,
    SETS,
)
from benchmarks.experiments.join_plans.streams import STOCKS, TRAFFIC, WINDOW_S
from benchmarks.experiments.page import Page, Picture, findings_page, made_by, zeros_not_drawn
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.match_chart import PALETTE

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
Value = Callable[[Row], float]
Text = Callable[[float], str]
RATE, HELD = Axis("per_s", "events/s", log=True), Axis("held", "partial matches and events", log=True)
SIZE = Axis("size", "events of the pattern")


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request, descriptions: Mapping[str, str]) -> Page:
    """The page of finished cells; each of them checked that all plans found the same."""
    rows = by_planner(rows)
    return findings_page(
        "Plans as join query plans",
        made_by("join_plans", request.full, request.seed),
        _RAN,
        all_findings(rows),
        [*_pictures(rows)],
        _sections(rows),
        _measured(rows, sizes, descriptions),
    )


_RAN = f"""\
Every planner plans generated patterns over a stream of stocks and one of traffic, and every plan is run: orders on \
`{CHAIN}`, trees on `{TREE}`. The paper's EFREQ is `{EFREQ}`, its DP-LD `{DP_LD}`, its DP-B `{DP_B}`."""


def _measured(rows: Sequence[Row], sizes: Sizes, descriptions: Mapping[str, str]) -> Iterator[str]:
    yield (
        "Patterns are made as in section 7.2 of the paper:\n\n"
        "- Sets: sequences, sequences with a negated event, conjunctions, sequences with an event under KL, and "
        "disjunctions of three sequences.\n"
        f"- Number: {sizes.patterns.get(STOCKS, 0)} of each set on the stocks for each of "
        f"{', '.join(map(str, sizes.sizes))} events (of a disjunction: in each sequence).\n"
        f"- Window: {WINDOW_S // 60} minutes.\n"
        "- Conditions: half as many comparisons of differences as events. Each asks one difference to be above another "
        f"by a margin, drawn so that selectivities lie between {LEAST_SELECTIVITY} and {GREATEST_SELECTIVITY}."
    )
    yield (
        "A pattern that would be too dear is drawn anew. So the largest patterns are those whose worst plans are still "
        "bearable, and gains are smaller than they would be otherwise. Too dear is a pattern\n\n"
        f"- of which any planner's plan is expected to hold more than {sizes.dearest:,.0f} partial matches at a time,\n"
        f"- or to test more than {CANDIDATES_EACH:g} times as many candidates at a join,\n"
        f"- or that has more than {MATCHES_EACH:g} times as many matches in all."
    )
    yield (
        f"Streams: {descriptions[STOCKS]}; {descriptions[TRAFFIC]}. Beside the plans, `{FUSED}` runs DP-LD's order by "
        f"the cost of its kernel, and stores no partial matches; `{NFAB}` runs the language's own strategies in the "
        "pattern's order. Held in memory are the most partial matches, and the most buffered events."
    )
    yield (
        f"Seconds are those of the processor, the median of up to {sizes.repetitions} runs in turn after one that does "
        "not count. Plans that are the same are measured once. Seconds of planning are those of the fastest of up to "
        "three runs. That all plans find equally many matches is checked."
    )
    yield (
        f"The noise is a factor of {noise_of(rows):.3f}: the median, over all runs that were repeated, of the second "
        "least time over the least. A ratio of times that is nearer than this to the bound of a finding decides "
        "nothing. Counts, such as costs and what is held, are the same in every run."
    )


def _sections(rows: Sequence[Row]) -> Iterator[str]:
    stocks, traffic = (rows_of(rows, part=PATTERNS, stream=name) for name in (STOCKS, TRAFFIC))
    large, alpha, strategy = (rows_of(rows, part=part) for part in (LARGE, ALPHA, STRATEGY))
    yield from _gains(stocks)
    yield from _sets(stocks, "Stocks")
    yield from _sets(traffic, "Traffic")
    if traffic:
        yield (
            "Candidates that are tested, for an event of the stream. A window of the traffic has about two events of a "
            "sensor, and a cost of a few partial matches, so that all plans read the stream and do little else."
        )
        yield _table(traffic, "set", lambda row: number(row, "candidates") / number(row, "events"), mean, _three)
    yield "## Predictions (figure 16)"
    yield (
        "Rank correlations over the plans on the stocks. The last column says how often, of two plans of one pattern "
        "whose costs differ by half or more, the cheaper one is the faster one."
    )
    yield _prediction_table(stocks)
    yield "## Large patterns (figure 17)"
    yield (
        "Sequences that are planned and not run: the cost of EFREQ's order over that of the plan, geometric means. "
        "Higher is better. A tree's cost counts all its leaves, an order's only the first one's."
    )
    yield _large_costs(large)
    yield "The most that a plan of a heuristic costs, relative to the exact plan of its kind."
    yield markdown_table(["planner", "times"], [[name, times_as_fast(most)] for name, most in most_dear(large).items()])
    yield "Seconds of planning, means."
    yield _table(large, "size", lambda row: number(row, "planning_s"), mean, _seconds)
    yield "## Throughput against latency (figure 18)"
    yield (
        "Latency is counted: the candidates that are looked at where the last event of the sequence takes part, for "
        "each such event. Average events a second for each alpha, then the average latency."
    )
    yield _table(alpha, "alpha", per_s, mean, count_per_s)
    yield _table(alpha, "alpha", lambda row: number(row, "after_last"), mean, _three)
    yield "With the greatest alpha over that with the least, and how many plans are others."
    yield markdown_table(
        ["planner", "latency", "throughput", "other plans"],
        [
            [name, times_as_fast(latency), times_as_fast(rate), f"{share:.0%}"]
            for name, (latency, rate, share) in changes_by_alpha(alpha).items()
        ],
    )
    yield "## Selection strategies (figure 19)"
    yield (
        "Average events a second of sequences on the stocks. Contiguity is made of conditions on the numbers of "
        "neighbouring events, and planned by `consume_matched`, as section 6.2 of the paper says. "
        f"`{NFAB}` runs skip till any match and strict contiguity. The paper's skip till next match is left out: it "
        "binds an event to one partial match only, and no plan here runs so."
    )
    yield _table(strategy, "strategy", per_s, mean, count_per_s)


def _gains(rows: Sequence[Row]) -> Iterator[str]:
    """Tables of the ratios that the first findings are about."""
    compared = ((DP_LD, EFREQ), (DP_B, ZSTREAM), (DP_B, DP_LD))
    yield "## Gains on the stocks"
    for text, gain in (
        (
            "How many times as fast the plans of one planner are as those of another, by average throughput.",
            average_gain,
        ),
        ("The same, by the seconds of all patterns of a set together.", total_gain),
        ("What the plans of the one hold in memory, relative to those of the other, on average.", held_share),
    ):
        yield text
        lines = []
        for better, worse in compared:
            by_set = pairs_by(rows, "set", better, worse)
            lines.append([f"{better} / {worse}", *(times_as_fast(gain(by_set[kind])) for kind in SETS)])
        yield markdown_table(["plans", *SETS], lines)
    sequences = pairs_by(rows_of(rows, set=SEQUENCE), "size", DP_B, ZSTREAM)
    yield "DP-B's trees against ZSTREAM's on sequences, by their size."
    yield markdown_table(
        ["events", *(f"{size}" for size in sequences)],
        [
            [text, *(times_as_fast(gain(pairs)) for pairs in sequences.values())]
            for text, gain in (("average throughput", average_gain), ("all patterns together", total_gain))
        ],
    )
    yield (
        "Cheap are patterns on which even the worse plan takes less than twice as long as the cheapest run of all, "
        "which reads the stream and little else. The gain over the others is a geometric mean."
    )
    lines = []
    for better, worse, mechanism in ((DP_LD, EFREQ, CHAIN), (DP_B, ZSTREAM, TREE)):
        cheap, dear = cheap_patterns(rows, better, worse, mechanism)
        gain_of_dear = times_as_fast(geometric_gain(dear)) if dear else ""
        lines.append([f"{better} / {worse}", f"{len(cheap)}", f"{len(dear)}", gain_of_dear])
    yield markdown_table(["plans", "cheap patterns", "others", "gain over the others"], lines)


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


def _sets(rows: Sequence[Row], title: str) -> Iterator[str]:
    if not rows:
        return
    yield f"## {title}: pattern types (figures 4 and 5)"
    yield "Average events a second."
    yield _table(rows, "set", per_s, mean, count_per_s)
    yield "Events a second over all patterns of a set together, which is the throughput of the dear ones."
    yield _table(rows, "set", per_s, harmonic_mean, count_per_s)
    yield "Held in memory, on average."
    yield _table(rows, "set", lambda row: number(row, "held"), mean, _whole)
    yield f"## {title}: pattern sizes (figures 6 to 15)"
    yield "For each set the average events a second by the size of the pattern, then what is held in memory."
    for kind in SETS:
        own = rows_of(rows, set=kind)
        if own:
            yield f"Set: {kind}."
            yield _table(own, "size", per_s, mean, count_per_s)
            yield _table(own, "size", lambda row: number(row, "held"), mean, _whole)


def _table(
    rows: Sequence[Row], across: str, value: Value, together: Callable[[Sequence[float]], float], text: Text
) -> str:
    """Planners down, the values of `across` from left to right."""
    columns = list(dict.fromkeys(row[across] for row in rows))
    lines = []
    for planner in (name for name in STYLES if rows_of(rows, planner=name)):
        by_column = ([value(row) for row in rows_of(rows, planner=planner, **{across: one})] for one in columns)
        lines.append([planner, *(text(together(own)) if own else "" for own in by_column)])
    return markdown_table(["planner", *map(str, columns)], lines)


def _large_costs(rows: Sequence[Row]) -> str:
    points = _normalized(rows)
    sizes = list(dict.fromkeys(point["size"] for point in points))
    lines = []
    for planner in dict.fromkeys(str(point["planner"]) for point in points):
        own = {point["size"]: number(point, "gain") for point in points if point["planner"] == planner}
        lines.append([planner, *(times_as_fast(own[size]) for size in sizes)])
    return markdown_table(["planner", *map(str, sizes)], lines)


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
        chart = scatter_chart(plans, cost, axis, "set", facet="kind")
        caption = f"Figure 16: a point for each plan on the stocks.{zeros_not_drawn(plans, axis.field, 'set')}"
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
        "Figure 18: a point for each alpha. Where alpha changes no plan, points differ by chance only.",
        line_chart(_alpha_points(alpha), after, reached, "planner", styles=STYLES, width=480),
    )
    by_strategy = _means(strategy, ("strategy",))
    shown = [row for name in STRATEGIES for row in rows_of(by_strategy, strategy=name)]
    yield Picture(
        "strategies",
        "Throughput by strategy",
        "Figure 19: sequences on the stocks; higher is better.",
        bar_chart(shown, Axis("strategy", ""), RATE, "planner", styles=STYLES, width=640),
    )


def _pictures_of_sets(rows: Sequence[Row], stream: str) -> Iterator[Picture]:
    by_size = _means(rows, ("set", "size"))
    kept = [row for row in by_size if row["planner"] != FUSED]
    yield Picture(
        f"{stream}-sets",
        f"Throughput by pattern type: {stream}",
        "Figure 4: averages; higher is better.",
        bar_chart(_means(rows, ("set",)), Axis("set", ""), RATE, "planner", styles=STYLES, width=640),
    )
    yield Picture(
        f"{stream}-throughput",
        f"Throughput against size: {stream}",
        "Figures 6 to 14: averages; higher is better.",
        line_chart(by_size, SIZE, RATE, "planner", styles=STYLES, facet="set", width=220),
    )
    yield Picture(
        f"{stream}-memory",
        f"Memory against size: {stream}",
        f"Figures 7 to 15: averages; lower is better. `{FUSED}` holds nothing."
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


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _three(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
