"""Input whose types are exchanged, on the page of `cep experiment multi_pattern`: finding, table, chart and text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from benchmarks.charts import Axis, line_chart
from benchmarks.experiments.cells import Row, number, rows_of
from benchmarks.experiments.findings import Measured, Verdict, finding, ratio_range, verdict_at_least
from benchmarks.experiments.multi_pattern.adaptive import (
    ANEW,
    EXCHANGES,
    FIRST,
    HINDSIGHT,
    INVARIANTS,
    LOOP,
    LOOP_STATIC,
    PHASES,
    STATIC,
)
from benchmarks.experiments.multi_pattern.figures import mean_of, values_of
from benchmarks.experiments.multi_pattern.streams import STREAMS
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast

DYNAMIC = 10.0
LONGEST = 1_000
"""The patent's largest x."""
_BASE = {LOOP: LOOP_STATIC, INVARIANTS: LOOP_STATIC}
"""The run that candidates are compared with, where that is not the static plan over all events."""


@finding
def adaptive_over_static(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 13; by the means over workloads ([0135])."""
    judged = [row for row in rows_of(rows, exchange=ANEW) if number(row, "value") <= LONGEST]
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
                    times_as_fast(_gain(of, INVARIANTS)),
                    *(times_as_fast(_mean_fewer(of, name)) for name in (FIRST, HINDSIGHT, PHASES, LOOP, INVARIANTS)),
                    f"{_total(of, 'planned')} of {_total(of, 'checks')}",
                    f"{_total(of, 'switches')}",
                    format_seconds(mean_of(of, f"{LOOP}:deciding")),
                    format_seconds(mean_of(of, f"{LOOP}:planning")),
                ]
            )
    header = ["exchanges", "stream", "x", "static", "adaptive", "gain", "by invariants"]
    fewer = ["first windows", "in hindsight", "each phase", "the loop", "with invariants"]
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
        for where in ({"exchange": ANEW},)
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


def _gain(rows: Sequence[Row], loop: str = LOOP) -> float:
    """The gain of throughput by an adaptive loop."""
    return mean_of(rows, f"{LOOP_STATIC}:seconds") / mean_of(rows, f"{loop}:seconds")


def _fewer(row: Row, name: str) -> float:
    """The static plan's candidates, as a multiple of another run's; a loop is compared with the static loop."""
    return number(row, f"{_BASE.get(name, STATIC)}:candidates") / number(row, f"{name}:candidates")


def _mean_fewer(rows: Sequence[Row], name: str) -> float:
    return mean_of(rows, f"{_BASE.get(name, STATIC)}:candidates") / mean_of(rows, f"{name}:candidates")


def _total(rows: Sequence[Row], name: str) -> int:
    return int(sum(number(row, f"{LOOP}:{name}") for row in rows))
