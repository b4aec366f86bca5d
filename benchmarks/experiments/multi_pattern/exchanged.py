"""Input whose types are exchanged, on the page of `cep experiment multi_pattern`: finding, table, chart and text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from benchmarks.charts import Axis, line_chart
from benchmarks.experiments.cells import Row
from benchmarks.experiments.findings import Measured, Verdict, finding, ratio_range, verdict_at_least
from benchmarks.experiments.multi_pattern.adaptive import (
    ANEW,
    EXCHANGES,
    FIRST,
    HINDSIGHT,
    LOOP,
    LOOP_STATIC,
    PHASES,
    STATIC,
    AdaptiveSizes,
)
from benchmarks.experiments.multi_pattern.figures import mean_of, number, rows_of, values_of
from benchmarks.experiments.multi_pattern.streams import GREATEST_STEP, LEAST_STEP, STREAMS
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast

DYNAMIC = 10.0
LONGEST = 1_000
"""The patent's largest x."""
_BASE = {LOOP: LOOP_STATIC}
"""The run that candidates are compared with, where that is not the static plan over all events."""

_HOW = """\
In every x events, 5 of the workload's 12 types are put in random order. An event of one of them becomes one of the \
type that follows its own ([0150]). The text leaves some things open:

- How exchanges follow each other: *{anew}* changes the stream as it was each time ("randomly and independently \
transforms every x incoming events"). The finding is judged by this, for x up to 1,000. *{on_top}* changes what the \
exchange before has left, so that soon all types have changed.
- The static plan is made from statistics of the stream as it was, which were "calculated in advance" ([0131]).
- Events keep their attributes, so exchanges change selectivities only where types have other values. The trades of \
the other parts are alike in that. Here the differences of each stock have their own size, {least:g} to {greatest:g} \
cents as in minute bars of NASDAQ. *{alike}* shows the input without.
- Workloads have {patterns} patterns without KL. A pattern is drawn anew where it has too many matches in the \
exchanged input, too.
- A window has {windows} events. The patent's windows have ten thousands of events, and many exchanges.

The adaptive version is the product's own loop with a `constant_threshold`. Every {every} windows it looks at the \
statistics of the last {reach}. Where a rate or selectivity has grown by {threshold:.0%}, the search goes on from the \
plan in use for {steps:,} steps. A plan that saves {gain:.0%} of the cost is put in use. Throughput is that of \
detection in the loop, with the making of networks; each loop ran once."""


def exchanged_how(rows: Sequence[Row], sizes: AdaptiveSizes) -> str:
    """A text on how the part with exchanged types was measured."""
    windows = ", ".join(f"{mean_of(rows_of(rows, stream=name), 'window'):,.0f} ({name})" for name in STREAMS)
    anew, on_top, alike = EXCHANGES
    return _HOW.format(
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


@finding
def adaptive_over_static(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 13; by the means over workloads ([0135])."""
    judged = [row for row in rows_of(rows, exchange=ANEW.name) if number(row, "value") <= LONGEST]
    found = [_gain(rows_of(judged, stream=stream, value=x)) for stream, x in product(STREAMS, values_of(judged))]
    verdict = verdict_at_least(min(found), DYNAMIC, noise=noise)
    # Plans that know the events beforehand bound what any replanning could save.
    most = max(_fewer(row, name) for row in judged for name in (HINDSIGHT, PHASES))
    if verdict is Verdict.DIFFERS and most < DYNAMIC:
        verdict = Verdict.UNDECIDED
    return verdict, {"times": ratio_range(found)}


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
    fewer = ["first windows", "in hindsight", "each phase", "the loop"]
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
        "Candidates against x, the events between two exchanges of types (figure 13)",
        line_chart(
            points,
            Axis("x", "events between two exchanges", log=True),
            Axis("fewer", "times fewer candidates than the static plan", log=True),
            "plan",
            facet="stream",
        ),
    )


def _gain(rows: Sequence[Row]) -> float:
    """The gain of throughput by the adaptive loop."""
    return mean_of(rows, f"{LOOP_STATIC}:seconds") / mean_of(rows, f"{LOOP}:seconds")


def _fewer(row: Row, name: str) -> float:
    """The static plan's candidates, as a multiple of another run's; a loop is compared with the static loop."""
    return number(row, f"{_BASE.get(name, STATIC)}:candidates") / number(row, f"{name}:candidates")


def _mean_fewer(rows: Sequence[Row], name: str) -> float:
    return mean_of(rows, f"{_BASE.get(name, STATIC)}:candidates") / mean_of(rows, f"{name}:candidates")


def _total(rows: Sequence[Row], name: str) -> int:
    return int(sum(number(row, f"{LOOP}:{name}") for row in rows))
