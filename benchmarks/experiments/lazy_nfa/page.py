"""The page of `cep experiment lazy_nfa`: findings, charts and tables of the cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import mean

from benchmarks.charts import Axis, Style, line_chart
from benchmarks.experiments.cells import Row, number, rows_of
from benchmarks.experiments.changing_trades import PHASES
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.lazy_nfa.experiment import (
    CHAINS,
    CHANGING,
    EAGER,
    FREQUENCY,
    INPUT,
    OWN_TREE,
    SEQUENCES,
    STOCK_OF,
    THRESHOLD,
    TREE,
    WINDOW_S,
    Sizes,
    steps_of,
    summed,
)
from benchmarks.experiments.lazy_nfa.findings import all_findings
from benchmarks.experiments.page import Page, Picture, findings_page, table_across, zeros_not_drawn
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import count_per_s
from cep_pipeline.errors import CepError

STYLES = {
    EAGER.name: Style("#d1495b"),
    **{
        chain.name: Style({"c": "#3b82d6", "a": "#b7791f", "b": "#8e6bbf"}[chain.order[0]], dashed)
        for chain, dashed in zip(CHAINS, (False, True, False, False, True, True), strict=True)
    },
    TREE.name: Style("#2a9d5c"),
    OWN_TREE.name: Style("#2a9d5c", dashed=True),
}
"""Chains by the event that they wait for first, the second of them dashed."""


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request, description: str) -> Page:
    """The page of finished cells.

    Raises
    ------
    CepError
        Contenders found different numbers of matches in the same events.
    """
    refuse_different_matches(rows)
    rows = summed(rows)
    changing = steps_of(rows_of(rows, part=CHANGING))
    frequency = rows_of(rows, part=FREQUENCY)
    by_frequency = rows_of(frequency, sequence="abc")
    return findings_page(
        "lazy_nfa",
        request,
        all_findings(rows),
        [*_pictures(rows, changing, sizes)],
        sizes=sizes,
        description=description,
        window_s=WINDOW_S,
        threshold=THRESHOLD,
        computations=_tables(frequency, _figure("computations")),
        evaluations=_tables(frequency, _figure("evaluations")),
        throughput=_tables(frequency, lambda row: count_per_s(number(row, "events") / number(row, "seconds"))),
        peaks_by_input=_table(
            rows_of(rows, part=INPUT), "part_of_input", "share of the input", _figure("peak_instances")
        ),
        peaks_by_frequency=_table(by_frequency, "share", "f_c", _figure("peak_instances")),
        buffered=_table(by_frequency, "share", "f_c", _figure("events_buffered")),
        phases=_phase_table(changing, sizes),
    )


def _pictures(rows: Sequence[Row], changing: Sequence[Row], sizes: Sizes) -> Iterator[Picture]:
    frequency = [{**row, "panel": f"sequence {_spaced(str(row['sequence']))}"} for row in rows_of(rows, part=FREQUENCY)]
    growing = rows_of(rows, part=INPUT)
    computations = Axis("computations", "computations", log=True)
    share, events = Axis("share", "f_c", log=True), Axis("events", "events of the input")
    peaks, last = Axis("peak_instances", "peak instances", log=True), Axis("last", "events from the beginning")
    yield Picture(
        "computations",
        "Computations against the frequency of c",
        f"Figures 7 and 8: lower is better.{zeros_not_drawn(frequency, 'computations', 'contender')}",
        line_chart(frequency, share, computations, "contender", styles=STYLES, facet="panel", width=220),
    )
    yield Picture(
        "instances",
        "Peak instances against the length of the input",
        f"Figure 9, for f_c = {sizes.input_share:g}: lower is better."
        f"{zeros_not_drawn(growing, 'peak_instances', 'contender')}",
        line_chart(growing, events, peaks, "contender", styles=STYLES, width=480),
    )
    yield Picture(
        "changing",
        f"Computations at every {sizes.step:,} events of a changing stream",
        f"Figure 10: the rare stock changes after every {sizes.phase:,} events."
        f"{zeros_not_drawn(changing, 'computations', 'contender')}",
        line_chart(changing, last, computations, "contender", styles=STYLES, points=False, width=640),
    )


def refuse_different_matches(rows: Iterable[Row]) -> None:
    """Raise where two contenders found different numbers of matches in the same events.

    Raises
    ------
    CepError
        It names them.
    """
    found: dict[tuple[object, ...], Row] = {}
    for row in rows:
        events = tuple(row.get(name) for name in ("part", "sequence", "share", "draw", "part_of_input", "up_to"))
        other = found.setdefault(events, row)
        if other["matches"] != row["matches"]:
            raise CepError(
                f"lazy_nfa: {row['contender']} finds {row['matches']:,} matches where {other['contender']} finds "
                f"{other['matches']:,}; all mechanisms must find the same"
            )


Text = Callable[[Row], str]
"""The text of a table's cell."""


def _figure(name: str) -> Text:
    return lambda row: f"{row[name]:,}"


def _tables(rows: Sequence[Row], text: Text) -> str:
    """A table for each sequence, under its letters."""
    return "\n\n".join(
        f"Sequence {_spaced(sequence)}:\n\n{_table(rows_of(rows, sequence=sequence), 'share', 'f_c', text)}"
        for sequence in SEQUENCES
    )


def _table(rows: Sequence[Row], across: str, header: str, text: Text) -> str:
    return table_across(rows, "contender", across, header, lambda own: text(own[0]))


def _phase_table(rows: Sequence[Row], sizes: Sizes) -> str:
    letters = {stock: letter for letter, stock in STOCK_OF.items()}
    by_phase: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        steps = by_phase.setdefault(str(row["contender"]), {})
        steps.setdefault(int(number(row, "first")) // sizes.phase, []).append(number(row, "computations"))
    header = [f"{phase + 1}: {letters[PHASES[phase % len(PHASES)]]} is rare" for phase in next(iter(by_phase.values()))]
    lines = [[name, *(f"{mean(own):,.0f}" for own in phases.values())] for name, phases in by_phase.items()]
    return markdown_table(["phase", *header], lines)


def _spaced(letters: str) -> str:
    return ", ".join(letters)
