"""The page of `cep experiment lazy_nfa`: tables and charts of the cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from benchmarks.charts import Axis, Style, line_chart
from benchmarks.experiments.cells import Row
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.findings import findings_text
from benchmarks.experiments.lazy_nfa.experiment import (
    CHAINS,
    CHANGING,
    CONTENDERS,
    EAGER,
    FREQUENCY,
    INPUT,
    SEQUENCES,
    THRESHOLD,
    TREE,
    WINDOW_S,
    Sizes,
    steps_of,
    summed,
)
from benchmarks.experiments.lazy_nfa.findings import all_findings
from benchmarks.experiments.page import Page
from benchmarks.report import machine, markdown_table
from cep_pipeline.cli.figures import count_per_s
from cep_pipeline.errors import CepError

STYLES = {
    EAGER.name: Style("#d1495b"),
    **{
        chain.name: Style({"c": "#3b82d6", "a": "#b7791f", "b": "#8e6bbf"}[chain.order[0]], dashed)
        for chain, dashed in zip(CHAINS, (False, True, False, False, True, True), strict=True)
    },
    TREE.name: Style("#2a9d5c"),
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
    named = {contender.mechanism: contender.name for contender in CONTENDERS if not contender.is_there}
    missing = [f"`{mechanism}`" for mechanism in named]
    frequency, growing = (_of(rows, part=part) for part in (FREQUENCY, INPUT))
    changing = steps_of(_of(rows, part=CHANGING))
    parts = [
        "# Lazy evaluation: eager, chain and tree NFA",
        f"Made by `cep experiment lazy_nfa{' --full' if request.full else ''} --seed {request.seed}` on {machine()}.",
        _WHAT.format(
            draws=_draws(sizes),
            threshold=THRESHOLD,
            window=WINDOW_S,
            s="" if WINDOW_S == 1 else "s",
            trades=description,
        ),
        *(["Not among the mechanisms, and left out: " + ", ".join(missing) + "."] if missing else []),
        "## What the paper found, and what we find",
        findings_text(all_findings(rows)),
        "## Computations (figures 7 and 8)",
        "The paper's measure: how many times the condition on an edge of the automaton is evaluated, that is, an event "
        "in order and window is tried on an instance. f_c: how often c comes, relative to a and to b.",
        "{chart:computations}",
        *_tables(frequency, _figure("computations")),
        "## Condition evaluations",
        "Tests of one conjunct on the events of one tuple, here correlations of two histories; what type, order and "
        "window decide is not among them. An edge between a and c costs nothing by this measure, and a chain that "
        "takes the rare event second does not pay for the instances that wait for it.",
        *_tables(frequency, _figure("evaluations")),
        "## Throughput",
        "Events a second of processor time, in one run of each, preparation of the events included.",
        *_tables(frequency, _per_s),
        "## Memory (figure 9)",
        f"The most instances alive at a time, over growing parts of the input, with f_c = {sizes.input_share:g}.",
        "{chart:instances}",
        _table(growing, "part_of_input", "share of the input", _figure("peak_instances")),
        "The same over the whole input against f_c, for the sequence a, b, c; then the most events that wait outside "
        "instances.",
        _table(_of(frequency, sequence="abc"), "share", "f_c", _figure("peak_instances")),
        _table(_of(frequency, sequence="abc"), "share", "f_c", _figure("events_buffered")),
        f"## A rare type that changes every {sizes.phase:,} events (figure 10)",
        f"Computations at every {sizes.step:,} events of {sizes.changing:,} generated trades; the rare one "
        f"comes {sizes.changing_share:g} times as often as each of the others. First c is rare, then a, then b.",
        "{chart:changing}",
        _phase_table(changing, sizes),
    ]
    return Page("\n\n".join(parts) + "\n", _charts(frequency, growing, changing))


_WHAT = """\
The pattern asks for one trade of each of three stocks in a given order, the price histories of a and b, and of b and \
c, correlated by more than {threshold:g}, within {window} second{s}; stocks are event types. c is the rare one. Over \
{trades}; trades of c are left out at random{draws}. The eager NFA binds events as they come; a chain NFA waits for \
events in a fixed order of its own, and takes what came before from its input buffer; the tree NFA chooses that order \
anew for each instance, by what the buffer holds. All find the same matches, which is checked."""


def _draws(sizes: Sizes) -> str:
    return "" if sizes.draws == 1 else f", in {sizes.draws} draws, over which figures are summed"


def _charts(frequency: Sequence[Row], growing: Sequence[Row], changing: Sequence[Row]) -> dict[str, tuple[str, str]]:
    computations = Axis("computations", "computations", log=True)
    by_sequence = [{**row, "sequence": f"sequence {_spaced(str(row['sequence']))}"} for row in frequency]
    inputs = Axis("events", "events of the input")
    peaks = Axis("peak_instances", "peak instances", log=True)
    return {
        "computations": (
            "Computations against the relative frequency of c",
            line_chart(
                by_sequence,
                Axis("share", "f_c", log=True),
                computations,
                "contender",
                styles=STYLES,
                facet="sequence",
                width=220,
            ),
        ),
        "instances": (
            "Peak instances against the length of the input",
            line_chart(growing, inputs, peaks, "contender", styles=STYLES, width=480),
        ),
        "changing": (
            "Computations at every 10,000 events of a changing stream",
            line_chart(
                changing,
                Axis("last", "events from the beginning of the stream"),
                computations,
                "contender",
                styles=STYLES,
                points=False,
                width=640,
            ),
        ),
    }


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
"""What stands in a table's cell."""


def _figure(name: str) -> Text:
    return lambda row: f"{row[name]:,}"


def _per_s(row: Row) -> str:
    return count_per_s(_number(row, "events") / _number(row, "seconds"))


def _tables(rows: Sequence[Row], text: Text) -> list[str]:
    tables = []
    for sequence in SEQUENCES:
        tables.append(f"Sequence {_spaced(sequence)}:")
        tables.append(_table(_of(rows, sequence=sequence), "share", "f_c", text))
    return tables


def _table(rows: Sequence[Row], across: str, header: str, text: Text) -> str:
    """Contenders down, the values of `across` from left to right."""
    values = list(dict.fromkeys(row[across] for row in rows))
    names = list(dict.fromkeys(str(row["contender"]) for row in rows))
    lines = []
    for name in names:
        own = {row[across]: row for row in rows if row["contender"] == name}
        lines.append([name, *(text(own[value]) if value in own else "" for value in values)])
    return markdown_table([header, *(f"{value:g}" for value in values)], lines)


def _phase_table(rows: Sequence[Row], sizes: Sizes) -> str:
    from benchmarks.experiments.changing_trades import PHASES
    from benchmarks.experiments.lazy_nfa.experiment import STOCK_OF

    letters = {stock: letter for letter, stock in STOCK_OF.items()}
    phases = list(dict.fromkeys(int(_number(row, "first")) // sizes.phase for row in rows))
    lines = []
    for name in dict.fromkeys(str(row["contender"]) for row in rows):
        own = [row for row in rows if row["contender"] == name]
        means = []
        for phase in phases:
            steps = [_number(row, "computations") for row in own if int(_number(row, "first")) // sizes.phase == phase]
            means.append(f"{sum(steps) / len(steps):,.0f}")
        lines.append([name, *means])
    header = [f"{phase + 1}: {letters[PHASES[phase % len(PHASES)]]} is rare" for phase in phases]
    return markdown_table(["mean of the steps of phase", *header], lines)


def _of(rows: Iterable[Row], **wanted: object) -> list[Row]:
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def _number(row: Row, name: str) -> float:
    return cast(float, row[name])


def _spaced(letters: str) -> str:
    return ", ".join(letters)
