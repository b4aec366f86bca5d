"""Input whose types are exchanged, on the page of `cep experiment multi_pattern`: the text, the finding, the table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from benchmarks.charts import Axis, line_chart
from benchmarks.experiments.cells import Row
from benchmarks.experiments.findings import Finding, ratio_range
from benchmarks.experiments.multi_pattern.adaptive import (
    ANEW,
    EXCHANGES,
    FIRST,
    HINDSIGHT,
    LOOP,
    LOOP_STATIC,
    ON_TOP,
    PHASES,
    STATIC,
    AdaptiveSizes,
)
from benchmarks.experiments.multi_pattern.figures import mean_of, number, rows_of, values_of
from benchmarks.experiments.multi_pattern.streams import GREATEST_STEP, LEAST_STEP, STREAMS
from benchmarks.report import markdown_table
from cep_pipeline.cli.figures import count_per_s, format_seconds, times_as_fast

DYNAMIC = 10.0
LONGEST = 1_000
"""The patent's largest x."""
_BASE = {LOOP: LOOP_STATIC}
"""What candidates are compared with, where that is not the run of the static plan over all."""

_TEXT = """\
In every x events, 5 of the workload's 12 types are put in random order, and an event of one of them becomes one of \
the type that follows its own ([0150]). What the text leaves open is measured by each reading:

- *{anew}*: each exchange changes the stream as it was ("randomly and independently transforms every x incoming \
events"). This is the reading that the finding is judged by, for x up to 1,000.
- *{on_top}*: each changes what the one before it has left, so that soon all types have changed.
- The static plan is made by statistics of the stream as it was, which were "calculated in advance" ([0131]); beside \
it stands the plan of the statistics of the first {every} windows of the exchanged input.
- Events keep their attributes, so that exchanges change selectivities where types differ in their values. The \
generated trades of the other parts are alike in that; here the differences of each stock have their own size, \
{least:g} to {greatest:g} cents as in minute bars of NASDAQ. *{alike}* shows what it is without.

{patterns} patterns without KL. A pattern is drawn anew where it has too many matches, as in the other parts, in the \
exchanged input too: they cost the same by any plan. Windows of the patent have ten thousands of events, and many \
exchanges; these have {windows} events, and x = 10,000 is more than any of them has.

The adaptive version is the product's own loop with a `constant_threshold`: every {every} windows the statistics of \
the last {reach} are looked at, and where a rate or selectivity has grown by {threshold:.0%} the search goes on from \
the plan in use for {steps:,} steps; what it finds is used where it saves {gain:.0%} of the cost and more, for a \
switch takes as long as some windows of detection. Static and adaptive throughput are those of detection in the loop, \
with the making of networks; deciding and planning, in all, stand beside them. Behind these: how many times fewer \
candidates than the static plan are tested by the plan of the first windows, by that of the statistics of all that is \
to come, by those of each phase's own statistics (of {reach} windows, or x events where that is more), and in the \
loop beside the loop with the static plan. The middle two nobody has beforehand."""


def exchanged_text(rows: Sequence[Row], sizes: AdaptiveSizes) -> str:
    """What is measured, and how."""
    windows = ", ".join(f"{stream} {mean_of(rows_of(rows, stream=stream), 'window'):,.0f}" for stream in STREAMS)
    anew, on_top, alike = EXCHANGES
    return _TEXT.format(
        anew=anew,
        on_top=on_top,
        alike=alike,
        every=sizes.every_windows,
        reach=sizes.reach_windows,
        least=LEAST_STEP,
        greatest=GREATEST_STEP,
        patterns=sizes.patterns,
        windows=windows,
        threshold=sizes.threshold,
        gain=sizes.minimum_gain,
        steps=sizes.steps,
    )


def adaptive_over_static(rows: Sequence[Row]) -> Finding:
    """Figure 13; by the means over workloads ([0135])."""
    expected = (
        "on input whose types are exchanged the adaptive version has at least 10 times the static one's throughput"
    )
    judged = [row for row in rows_of(rows, exchange=ANEW.name) if number(row, "value") <= LONGEST]
    found = [_gain(rows_of(judged, stream=s, value=x)) for s, x in product(STREAMS, values_of(judged))]
    others = rows_of(rows, exchange=ON_TOP.name)
    most = {name: max(_fewer(row, name) for row in others) for name in (HINDSIGHT, PHASES)}
    longer = mean_of(judged, f"{LOOP_STATIC}:seconds") / mean_of(judged, f"{STATIC}:seconds")
    why = (
        "It is not in this input: the plan of the statistics of all that is to come tests "
        f"{ratio_range(_fewer(row, HINDSIGHT) for row in judged)} times fewer candidates than the static one, plans of "
        f"each phase's own {ratio_range(_fewer(row, PHASES) for row in judged)}, and the loop's "
        f"{ratio_range(_fewer(row, LOOP) for row in judged)}. While exchanges are drawn anew, seven of the twelve "
        "types are what they were at any time; where exchanges stand on top of each other it is up to "
        f"{times_as_fast(most[HINDSIGHT])} and {times_as_fast(most[PHASES])} times. What there is to do "
        "in windows of so few events is little beside what it takes to make a network for each stretch of a plan, and "
        "to read the window behind it, too: by the static plan alone the loop takes "
        f"{times_as_fast(longer)} times as long as one run over all."
    )
    return Finding(expected, f"{ratio_range(found)} times", min(found) >= DYNAMIC, why)


def exchanged_table(rows: Sequence[Row]) -> str:
    """One line a reading, stream and x: means over workloads."""
    lines = []
    for exchange, stream in product(EXCHANGES, STREAMS):
        own = rows_of(rows, exchange=exchange, stream=stream)
        for value in values_of(own):
            of = rows_of(own, value=value)
            lines.append(
                [
                    exchange,
                    stream,
                    f"{value:,.0f}",
                    *(
                        count_per_s(mean_of(of, "events") / mean_of(of, f"{name}:seconds"))
                        for name in (LOOP_STATIC, LOOP)
                    ),
                    times_as_fast(_gain(of)),
                    *(times_as_fast(_mean_fewer(of, name)) for name in (FIRST, HINDSIGHT, PHASES, LOOP)),
                    f"{_total(of, 'planned')} of {_total(of, 'checks')}",
                    f"{_total(of, 'switches')}",
                    format_seconds(mean_of(of, f"{LOOP}:deciding")),
                    format_seconds(mean_of(of, f"{LOOP}:planning")),
                ]
            )
    header = ["exchanges", "stream", "x", "static", "adaptive", "gain"]
    fewer = ["first windows: fewer candidates", "in hindsight", "each phase", "the loop"]
    return markdown_table([*header, *fewer, "planned", "switched", "deciding", "planning"], lines)


def exchanged_chart(rows: Sequence[Row]) -> tuple[str, str]:
    """Candidates of each plan against x."""
    points: list[Row] = [
        {
            "stream": stream,
            "x": x,
            "plan": plan,
            "fewer": _mean_fewer(rows_of(rows, **where, stream=stream, value=x), name),
        }
        for where in ({"exchange": ANEW.name},)
        for stream in STREAMS
        for x in values_of(rows_of(rows, **where, stream=stream))
        for plan, name in (("adaptive", LOOP), ("in hindsight", HINDSIGHT), ("of each phase", PHASES))
    ]
    return (
        "Candidates against x",
        line_chart(
            points,
            Axis("x", "events between two exchanges", log=True),
            Axis("fewer", "times fewer candidates than the static plan", log=True),
            "plan",
            facet="stream",
        ),
    )


def _gain(rows: Sequence[Row]) -> float:
    """Of throughput, by the loop."""
    return mean_of(rows, f"{LOOP_STATIC}:seconds") / mean_of(rows, f"{LOOP}:seconds")


def _fewer(row: Row, name: str) -> float:
    """How many times fewer candidates than the static plan tests, of the loop than in the loop."""
    return number(row, f"{_BASE.get(name, STATIC)}:candidates") / number(row, f"{name}:candidates")


def _mean_fewer(rows: Sequence[Row], name: str) -> float:
    return mean_of(rows, f"{_BASE.get(name, STATIC)}:candidates") / mean_of(rows, f"{name}:candidates")


def _total(rows: Sequence[Row], name: str) -> int:
    return int(sum(number(row, f"{LOOP}:{name}") for row in rows))
