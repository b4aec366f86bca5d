"""The page of `cep experiment join_plans`: tables and charts of the cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from benchmarks.charts import Axis, Style, bar_chart, line_chart, scatter_chart
from benchmarks.experiments.cells import Row
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.findings import findings_text, geometric_mean
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
from benchmarks.experiments.join_plans.figures import distinct_plans, figure, mean, pairs_of, per_s, rows_of
from benchmarks.experiments.join_plans.findings import all_findings
from benchmarks.experiments.join_plans.patterns import (
    CANDIDATES_EACH,
    GREATEST_SELECTIVITY,
    LEAST_SELECTIVITY,
    MATCHES_EACH,
    SETS,
)
from benchmarks.experiments.join_plans.streams import STOCKS, TRAFFIC, WINDOW_S
from benchmarks.experiments.page import Page
from benchmarks.report import machine, markdown_table
from cep_pipeline.band_charts import PALETTE
from cep_pipeline.cli.figures import count_per_s, format_seconds, times_as_fast

STYLES: Mapping[str, Style] = {
    name: Style(color, dashed)
    for name, color, dashed in (
        ("trivial", PALETTE[7], True),
        ("event_frequency", PALETTE[0], False),
        ("greedy", PALETTE[3], False),
        ("ii_random", PALETTE[4], True),
        ("ii_greedy", PALETTE[4], False),
        ("dp_left_deep", PALETTE[2], False),
        ("zstream", PALETTE[6], False),
        ("zstream_ordered", PALETTE[5], False),
        ("dp_bushy", PALETTE[1], False),
        (FUSED, "#79818c", True),
        (NFAB, "#79818c", False),
    )
}
Value = Callable[[Row], float]
Text = Callable[[float], str]


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request, descriptions: Mapping[str, str]) -> Page:
    """The page of finished cells; that all plans found the same was checked in each of them."""
    rows = by_planner(rows)
    stocks, traffic = (rows_of(rows, part=PATTERNS, stream=name) for name in (STOCKS, TRAFFIC))
    large, alpha, strategy = (rows_of(rows, part=part) for part in (LARGE, ALPHA, STRATEGY))
    parts = [
        "# Plans as join query plans",
        f"Made by `cep experiment join_plans{' --full' if request.full else ''} --seed {request.seed}` on {machine()}.",
        _WHAT.format(
            minutes=WINDOW_S // 60,
            low=LEAST_SELECTIVITY,
            high=GREATEST_SELECTIVITY,
            dearest=sizes.dearest,
            each_candidates=CANDIDATES_EACH,
            each_match=MATCHES_EACH,
            each=sizes.patterns.get(STOCKS, 0),
            sizes=", ".join(map(str, sizes.sizes)),
            stocks=descriptions[STOCKS],
            traffic=descriptions[TRAFFIC],
            repetitions=sizes.repetitions,
        ),
        "## What the paper found, and what we find",
        findings_text(all_findings(rows)),
        *_sets(stocks, "Stocks", "stocks"),
        *_sets(traffic, "Traffic", "traffic"),
        *(
            [
                "A window of the traffic has about two events of a sensor, and a cost of a few partial matches: all "
                "plans read the stream and little else. What they do beside it, in candidates for an event of the "
                "stream:",
                _table(traffic, "set", lambda row: figure(row, "candidates") / figure(row, "events"), mean, _three),
            ]
            if traffic
            else []
        ),
        "## Cost against throughput and memory (figure 16)",
        "A point for each plan on the stocks.",
        "{chart:cost-throughput}",
        "{chart:cost-memory}",
        "## Large patterns (figure 17)",
        "Sequences that are planned and not run. Cost of EFREQ's order over that of the plan, geometric means (higher "
        "is better; a tree's cost counts its leaves too, an order's only the first one's):",
        "{chart:large-cost}",
        _large_costs(large),
        "Seconds of planning, means; fast planners are the fastest of three runs:",
        "{chart:planning}",
        _table(large, "size", lambda row: figure(row, "planning_s"), mean, _seconds),
        "## Throughput against latency (figure 18)",
        "Latency is counted: the candidates that are looked at, where the last event of the sequence takes part, for "
        "each such event. A point for each alpha; where alpha changes no plan, points differ by chance only.",
        "{chart:alpha}",
        _alpha_table(alpha),
        "## Selection strategies (figure 19)",
        "Sequences on the stocks. Each event in one match: `CONSUME MATCHED`, planned by its own cost model "
        "(section 6.2 of the paper calls this skip till next match). Contiguity: conditions on the numbers of "
        f"neighbouring events, as in section 6.2. Beside the plans, {NFAB} runs the language's own strategies in the "
        "pattern's order: skip till any match, skip till next match, strict contiguity. Average events a second:",
        "{chart:strategies}",
        _table(strategy, "strategy", per_s, mean, count_per_s),
    ]
    return Page("\n\n".join(parts) + "\n", dict(_charts(stocks, traffic, large, alpha, strategy)))


_WHAT = """\
Patterns are made as in section 7.2 of the paper: sequences, sequences with a negated event, conjunctions, \
sequences with an event under KL, and disjunctions of three sequences; {each} of each set on the stocks for each \
of {sizes} events (of a disjunction: in each sequence), within {minutes} minutes, with half as many comparisons \
of differences as events. A comparison asks one difference to be above another by a margin, drawn so that \
selectivities lie between {low} and {high}, as in the paper. A pattern that any planner's plan is expected to \
hold more than {dearest:,.0f} partial matches of at a time, or to test more than {each_candidates:g} times as \
many candidates at a join, or that has more than {each_match:g} times as many matches in all, is drawn anew: so \
the largest patterns are those whose worst plans are still bearable, and gains are smaller than they would be \
without that. Streams: {stocks}; {traffic}. Orders run on `lazy_chain_nfa`, trees on `evaluation_tree`; `fused` \
runs DP-LD's order by the cost of its kernel, and stores no partial matches. All list all matches, and find \
equally many, which is checked. Seconds are those of the processor, the median of up to {repetitions} runs in \
turn after one that does not count; plans that are the same are measured once. EFREQ is `event_frequency`, DP-LD \
`dp_left_deep`, DP-B `dp_bushy`. Held in memory: the most partial matches, and the most buffered events."""


def _sets(rows: Sequence[Row], title: str, name: str) -> Iterator[str]:
    if not rows:
        return
    yield f"## {title}: pattern types (figures 4 and 5)"
    yield "Average events a second:"
    yield f"{{chart:{name}-sets}}"
    yield _table(rows, "set", per_s, mean, count_per_s)
    yield "Events a second over all patterns of a set together, which is the throughput of the dear ones:"
    yield _table(rows, "set", lambda row: 1 / per_s(row), lambda values: 1 / mean(values), count_per_s)
    yield "Held in memory, on average:"
    yield _table(rows, "set", lambda row: figure(row, "held"), mean, _whole)
    yield f"## {title}: pattern sizes (figures 6 to 15)"
    yield f"{{chart:{name}-throughput}}"
    yield f"{{chart:{name}-memory}}"
    for kind in SETS:
        own = rows_of(rows, set=kind)
        if own:
            yield f"{kind[0].upper()}{kind[1:]}s, average events a second, then held in memory:"
            yield _table(own, "size", per_s, mean, count_per_s)
            yield _table(own, "size", lambda row: figure(row, "held"), mean, _whole)


def _table(
    rows: Sequence[Row], across: str, value: Value, together: Callable[[Sequence[float]], float], text: Text
) -> str:
    """Planners down, the values of `across` from left to right."""
    columns = list(dict.fromkeys(row[across] for row in rows))
    lines = []
    for planner in (name for name in STYLES if rows_of(rows, planner=name)):
        line = [planner]
        for column in columns:
            own = [value(row) for row in rows_of(rows, planner=planner, **{across: column})]
            line.append(text(together(own)) if own else "")
        lines.append(line)
    return markdown_table(["planner", *map(str, columns)], lines)


def _large_costs(rows: Sequence[Row]) -> str:
    points = _normalized(rows)
    sizes = list(dict.fromkeys(point["size"] for point in points))
    lines = []
    for planner in dict.fromkeys(str(point["planner"]) for point in points):
        own = {point["size"]: figure(point, "gain") for point in points if point["planner"] == planner}
        lines.append([planner, *(times_as_fast(own[size]) for size in sizes)])
    return markdown_table(["planner", *map(str, sizes)], lines)


def _normalized(rows: Sequence[Row]) -> list[Row]:
    """Cost of EFREQ's order over that of each planner's plan, by size."""
    from math import exp

    points: list[Row] = []
    for planner in (name for name in STYLES if rows_of(rows, planner=name)):
        for size in dict.fromkeys(row["size"] for row in rows):
            pairs = pairs_of(rows_of(rows, size=size), "event_frequency", planner)
            gains = [exp(figure(one, "ln_cost") - figure(other, "ln_cost")) for one, other in pairs]
            if planner != "event_frequency" and gains:
                points.append({"planner": planner, "size": size, "gain": geometric_mean(gains)})
    return points


def _alpha_points(rows: Sequence[Row]) -> list[Row]:
    points: list[Row] = []
    for planner in WEIGHED:
        for alpha in dict.fromkeys(row["alpha"] for row in rows):
            own = rows_of(rows, planner=planner, alpha=alpha)
            latency, rate = mean([figure(row, "after_last") for row in own]), mean([per_s(row) for row in own])
            points.append({"planner": planner, "alpha": alpha, "after_last": latency, "per_s": rate})
    return points


def _alpha_table(rows: Sequence[Row]) -> str:
    points = _alpha_points(rows)
    alphas = list(dict.fromkeys(point["alpha"] for point in points))
    lines = []
    for planner in dict.fromkeys(str(point["planner"]) for point in points):
        own = rows_of(points, planner=planner)
        cells = [f"{count_per_s(figure(point, 'per_s'))}/s; {_three(figure(point, 'after_last'))}" for point in own]
        lines.append([planner, *cells])
    return markdown_table(["planner", *(f"alpha {alpha:g}" for alpha in alphas)], lines)


def _charts(
    stocks: Sequence[Row], traffic: Sequence[Row], large: Sequence[Row], alpha: Sequence[Row], strategy: Sequence[Row]
) -> Iterator[tuple[str, tuple[str, str]]]:
    rate, held = Axis("per_s", "events/s", log=True), Axis("held", "partial matches and events", log=True)
    size = Axis("size", "events of the pattern")
    for name, rows in ((STOCKS, stocks), (TRAFFIC, traffic)):
        if not rows:
            continue
        by_set = _means(rows, ("set",))
        yield (
            f"{name}-sets",
            (
                "Throughput by pattern type",
                bar_chart(by_set, Axis("set", ""), rate, "planner", styles=STYLES, width=640),
            ),
        )
        by_size = _means(rows, ("set", "size"))
        yield (
            f"{name}-throughput",
            (
                "Throughput against size",
                line_chart(by_size, size, rate, "planner", styles=STYLES, facet="set", width=220),
            ),
        )
        kept = [row for row in by_size if row["planner"] != FUSED]
        yield (
            f"{name}-memory",
            ("Memory against size", line_chart(kept, size, held, "planner", styles=STYLES, facet="set", width=220)),
        )
    plans = [
        {**row, "kind": kind, "cost": 10 ** min(figure(row, "ln_cost") / _LN_10, 300), "per_s": per_s(row)}
        for kind, mechanism in (("orders", CHAIN), ("trees", TREE))
        for row in distinct_plans(stocks, mechanism)
    ]
    cost = Axis("cost", "cost: partial matches alive", log=True)
    for name, axis in (("throughput", rate), ("memory", held)):
        yield f"cost-{name}", (f"Cost against {name}", scatter_chart(plans, cost, axis, "set", facet="kind"))
    gain = Axis("gain", "cost of EFREQ's order / cost", log=True)
    yield (
        "large-cost",
        (
            "Normalized cost against size",
            line_chart(_normalized(large), size, gain, "planner", styles=STYLES, width=480),
        ),
    )
    planning = Axis("planning_s", "seconds", log=True)
    yield (
        "planning",
        (
            "Planning time against size",
            line_chart(_means(large, ("size",)), size, planning, "planner", styles=STYLES, width=480),
        ),
    )
    after, reached = Axis("after_last", "candidates after the last event"), Axis("per_s", "events/s")
    yield (
        "alpha",
        (
            "Throughput against latency",
            line_chart(_alpha_points(alpha), after, reached, "planner", styles=STYLES, width=480),
        ),
    )
    by_strategy = _means(strategy, ("strategy",))
    shown = [row for name in STRATEGIES for row in by_strategy if row["strategy"] == name]
    yield (
        "strategies",
        ("Throughput by strategy", bar_chart(shown, Axis("strategy", ""), rate, "planner", styles=STYLES, width=640)),
    )


_LN_10 = 2.302585092994046


def _means(rows: Sequence[Row], fields: Sequence[str]) -> list[Row]:
    """A row for each planner and value of the fields, with the means of its figures."""
    grouped: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row["planner"], *(row[field] for field in fields)), []).append(row)
    return [
        {
            **{field: own[0][field] for field in ("planner", *fields)},
            **{name: mean(values) for name, values in _figures(own)},
        }
        for own in grouped.values()
    ]


def _figures(rows: Iterable[Row]) -> Iterator[tuple[str, list[float]]]:
    own = list(rows)
    if "planning_s" in own[0]:
        yield "planning_s", [figure(row, "planning_s") for row in own]
    if "seconds" in own[0]:
        yield "per_s", [per_s(row) for row in own]
        yield "held", [figure(row, "held") for row in own]


def _seconds(value: float) -> str:
    return f"{value * 1e6:.0f} µs" if value < 1e-4 else format_seconds(value)


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _three(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
