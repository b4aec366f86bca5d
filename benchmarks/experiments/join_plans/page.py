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
Text = Callable[[float], str]
RATE, HELD = Axis("per_s", "events/s", log=True), Axis("held", "partial matches and events", log=True)
SIZE = Axis("size", "events of the pattern")
AT_LIMIT = " Runs that reached the time limit are drawn at the throughput that they have at most."


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
        "No pattern is drawn anew, however dear it is. An event under KL is of a type with at most "
        f"{MOST_KLEENE_EVENTS:g} events a window, since its lists double with each one. A run is ended after "
        f"{sizes.limit_s:g} s of processor time, which bounds its seconds from below and its throughput from above:\n\n"
        "- A figure of which one bound is known is marked with >= or <=, one with two bounds is written from one to "
        "the other, and one without any is open.\n"
        "- Of two plans that both reached the limit nothing is known, and gains leave the pair out. Where one reached "
        "it, the gain is at least, or at most, what it is with the limit in the place of the seconds.\n"
        "- What a plan holds or tests is known where it ended. Tables of these have the patterns of which all plans in "
        "the table ended.\n"
        "- A finding whose two bounds have different verdicts is not decided."
    )
    yield (
        f"Streams: {descriptions[STOCKS]}; {descriptions[TRAFFIC]}. Beside the plans, `{FUSED}` runs DP-LD's order by "
        f"the cost of its kernel, and stores no partial matches; `{NFAB}` runs the language's own strategies in the "
        "pattern's order. Held in memory are the most partial matches, and the most buffered events."
    )
    yield (
        f"Seconds are those of the processor, the median of up to {sizes.repetitions} runs in turn after one that does "
        "not count. Plans that are the same are measured once. Seconds of planning are those of the fastest of up to "
        "three runs. That all plans that end find equally many matches is checked."
    )
    yield (
        f"The noise is a factor of {noise_of(rows):.3f}: the median, over all runs that were repeated, of the second "
        "least time over the least. A ratio of times that is nearer than this to the bound of a finding decides "
        "nothing. Counts, such as costs and what is held, are the same in every run."
    )


def _sections(rows: Sequence[Row]) -> Iterator[str]:
    stocks, traffic = (rows_of(rows, part=PATTERNS, stream=name) for name in (STOCKS, TRAFFIC))
    large, alpha, strategy = (rows_of(rows, part=part) for part in (LARGE, ALPHA, STRATEGY))
    yield from _runs_at_limit(stocks)
    yield from _gains(stocks)
    yield from _sets(stocks, "Stocks")
    yield from _sets(traffic, "Traffic")
    if traffic:
        yield (
            "Candidates that are tested, for an event of the stream. A window of the traffic has about two events of a "
            "sensor, and a cost of a few partial matches, so that all plans read the stream and do little else."
        )
        per_event = _mean_of(lambda row: number(row, "candidates") / number(row, "events"), _three)
        yield _table(finished_by_all(traffic), "set", per_event)
    yield "## Predictions (figure 16)"
    yield (
        "Rank correlations over the plans on the stocks. The last column says how often, of two plans of one pattern "
        "whose costs differ by half or more, the cheaper one is the faster one. Plans that reached the limit share the "
        "last rank of throughput, and have no part in the columns of candidates and memory."
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
    yield _table(large, "size", _mean_of(lambda row: number(row, "planning_s"), _seconds))
    yield "## Throughput against latency (figure 18)"
    yield (
        "Latency is counted: the candidates that are looked at where the last event of the sequence takes part, for "
        "each such event. Average events a second for each alpha, then the average latency of the sequences of which "
        "all runs ended."
    )
    yield _table(alpha, "alpha", _average)
    ended = finished_by_all(alpha)
    yield _table(ended, "alpha", _mean_of(lambda row: number(row, "after_last"), _three))
    yield "With the greatest alpha over that with the least, and how many plans are others."
    yield markdown_table(
        ["planner", "latency", "throughput", "other plans"],
        [
            [name, latency.text(), rate.text(), f"{share:.0%}"]
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
    yield _table(strategy, "strategy", _average)


COMPARED = ((DP_LD, EFREQ), (DP_B, ZSTREAM), (DP_B, DP_LD))
"""Planners whose gains are shown, the better one first."""


def _runs_at_limit(rows: Sequence[Row]) -> Iterator[str]:
    """Tables that count the runs and pairs of runs that reached the time limit."""
    yield "## Runs that reached the time limit"
    yield "Of the patterns of a set on the stocks, those of which the planner's plan reached the limit."
    yield _table(rows, "set", lambda own: f"{sum(map(reached_limit, own))} of {len(own)}")
    yield (
        "Of two planners' plans for a pattern: how often the first one alone reached the limit, how often the second "
        "one alone, and how often both, of which nothing is known."
    )
    lines = []
    for better, worse in COMPARED:
        by_set = pairs_by(rows, "set", better, worse)
        lines.append([f"{better} / {worse}"])
        for kind in SETS:
            ends = [(reached_limit(a), reached_limit(b)) for a, b in by_set[kind]]
            lines[-1].append(", ".join(str(ends.count(one)) for one in ((True, False), (False, True), (True, True))))
    yield markdown_table(["plans", *SETS], lines)


def _gains(rows: Sequence[Row]) -> Iterator[str]:
    """Tables of the ratios that the first findings are about."""
    yield "## Gains on the stocks"
    for text, gain in (
        (
            "How many times as fast the plans of one planner are as those of another, by average throughput.",
            average_gain,
        ),
        ("The same, by the seconds of all patterns of a set together.", total_gain),
        (
            "What the plans of the one hold in memory, relative to those of the other, on average, where both ended.",
            held_share,
        ),
    ):
        yield text
        lines = []
        for better, worse in COMPARED:
            by_set = pairs_by(rows, "set", better, worse)
            lines.append([f"{better} / {worse}", *(gain(by_set[kind]).text() for kind in SETS)])
        yield markdown_table(["plans", *SETS], lines)
    sequences = pairs_by(rows_of(rows, set=SEQUENCE), "size", DP_B, ZSTREAM)
    yield "DP-B's trees against ZSTREAM's on sequences, by their size."
    yield markdown_table(
        ["events", *(f"{size}" for size in sequences)],
        [
            [text, *(gain(pairs).text() for pairs in sequences.values())]
            for text, gain in (("average throughput", average_gain), ("all patterns together", total_gain))
        ],
    )
    yield (
        "Cheap are patterns on which even the worse plan takes less than twice as long as the cheapest run of all, "
        "which reads the stream and little else. The gain over the others is a geometric mean. Pairs that both reached "
        "the limit are neither."
    )
    lines = []
    for better, worse, mechanism in ((DP_LD, EFREQ, CHAIN), (DP_B, ZSTREAM, TREE)):
        cheap, dear = cheap_patterns(rows, better, worse, mechanism)
        gain_of_dear = geometric_gain(dear).text() if dear else ""
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
    yield _table(rows, "set", _average)
    yield "Events a second over all patterns of a set together, which is the throughput of the dear ones."
    yield _table(rows, "set", lambda own: rate_together(own).text(count_per_s))
    ended = finished_by_all(rows)
    of_all = f"{_patterns(ended)} of {_patterns(rows)} patterns"
    yield f"Held in memory, on average over the {of_all} of which all plans ended."
    yield _table(ended, "set", _held)
    yield f"## {title}: pattern sizes (figures 6 to 15)"
    yield (
        "For each set the average events a second by the size of the pattern, then what is held in memory where all "
        "plans ended."
    )
    for kind in SETS:
        own = rows_of(rows, set=kind)
        if own:
            yield f"Set: {kind}."
            yield _table(own, "size", _average)
            yield _table(finished_by_all(own), "size", _held)


def _average(rows: Sequence[Row]) -> str:
    return average_rate(rows).text(count_per_s)


def _held(rows: Sequence[Row]) -> str:
    return f"{mean(number(row, 'held') for row in rows):,.0f}"


def _mean_of(value: Callable[[Row], float], text: Text) -> Callable[[Sequence[Row]], str]:
    return lambda rows: text(mean(map(value, rows)))


def _patterns(rows: Sequence[Row]) -> int:
    return len({tuple(row.get(name) for name in PATTERN) for row in rows})


def _table(rows: Sequence[Row], across: str, cell: Callable[[Sequence[Row]], str]) -> str:
    """Planners down, the values of `across` from left to right."""
    columns = list(dict.fromkeys(row[across] for row in rows))
    lines = []
    for planner in (name for name in STYLES if rows_of(rows, planner=name)):
        by_column = (rows_of(rows, planner=planner, **{across: one}) for one in columns)
        lines.append([planner, *(cell(own) if own else "" for own in by_column)])
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
