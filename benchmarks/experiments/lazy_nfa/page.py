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
    CONTENDERS,
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
from benchmarks.experiments.page import Page, Picture, findings_page, made_by, zeros_not_drawn
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
    return findings_page(
        "Lazy evaluation: eager, chain and tree NFA",
        made_by("lazy_nfa", request.full, request.seed),
        _RAN,
        all_findings(rows),
        [*_pictures(rows, changing, sizes)],
        _sections(rows, changing, sizes),
        _measured(sizes, description),
    )


_RAN = """\
An eager NFA, chain NFAs in all six orders and two tree NFAs find the same sequences of three stocks. The stock c is \
rare: f_c says how often it trades, relative to each of the others."""


def _measured(sizes: Sizes, description: str) -> Iterator[str]:
    draws = "" if sizes.draws == 1 else f", in {sizes.draws} draws; figures are sums over the draws, peaks the highest"
    yield (
        f"- Pattern: one trade of each of three stocks, in a given order, within {WINDOW_S} s. The price histories "
        f"of a and b, and of b and c, are correlated by more than {THRESHOLD:g}. Stocks are event types.\n"
        f"- Events: {description}. Trades of c are left out at random{draws}. The changing stream is generated.\n"
        "- Eager NFA: binds events as they come.\n"
        "- Chain NFA: waits for events in a fixed order of its own, and takes what came before from its buffer.\n"
        "- Tree NFA: chooses that order anew for each instance. The one of the paper takes the type with the fewest "
        "events in the buffer (option `smallest_counter`); findings are judged by it. The one by expected tests, which "
        "runs without that option, also weighs how many events passed their conditions lately."
    )
    yield (
        "Computations are the paper's measure: how many times the condition on an edge of the automaton is evaluated, "
        "that is, how many times an event in order and window is tried on an instance."
    )
    yield (
        "All findings are about counts, which are the same in every run, so that any difference counts. A count of 0 "
        "enters a ratio as 1. That all contenders find the same matches is checked."
    )
    missing = [f"`{contender.mechanism}`" for contender in CONTENDERS if not contender.is_there]
    if missing:
        yield f"Not among the mechanisms, and left out: {', '.join(missing)}."


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


def _sections(rows: Sequence[Row], changing: Sequence[Row], sizes: Sizes) -> Iterator[str]:
    frequency = rows_of(rows, part=FREQUENCY)
    by_frequency = rows_of(frequency, sequence="abc")
    yield "## Computations (figures 7 and 8)"
    yield "How many times an event is tried on an instance, for each f_c and each of the three sequences."
    yield from _tables(frequency, _figure("computations"))
    yield "## Condition evaluations"
    yield (
        "How many times a correlation of two histories is tested. Type, order and window decide without such a test, "
        "and an edge between a and c has none."
    )
    yield from _tables(frequency, _figure("evaluations"))
    yield "## Throughput"
    yield (
        "Events a second of processor time, preparation of the events included. Each was run once: no finding rests on "
        "these figures."
    )
    yield from _tables(frequency, lambda row: count_per_s(number(row, "events") / number(row, "seconds")))
    yield "## Instances (figure 9)"
    yield f"The most instances alive at a time, over growing parts of the input, with f_c = {sizes.input_share:g}."
    yield _table(rows_of(rows, part=INPUT), "part_of_input", "share of the input", _figure("peak_instances"))
    yield "The most instances alive at a time, over the whole input, for the sequence a, b, c."
    yield _table(by_frequency, "share", "f_c", _figure("peak_instances"))
    yield "The most events that wait outside instances, for the same."
    yield _table(by_frequency, "share", "f_c", _figure("events_buffered"))
    yield "## A rare type that changes (figure 10)"
    yield (
        f"Computations at every {sizes.step:,} events, the mean of a phase. In {sizes.changing:,} generated trades the "
        f"rare one comes {sizes.changing_share:g} times as often as each of the others."
    )
    yield _phase_table(changing, sizes)


def _figure(name: str) -> Text:
    return lambda row: f"{row[name]:,}"


def _tables(rows: Sequence[Row], text: Text) -> Iterator[str]:
    for sequence in SEQUENCES:
        yield f"Sequence {_spaced(sequence)}:"
        yield _table(rows_of(rows, sequence=sequence), "share", "f_c", text)


def _table(rows: Sequence[Row], across: str, header: str, text: Text) -> str:
    """Contenders down, the values of `across` from left to right."""
    values = list(dict.fromkeys(row[across] for row in rows))
    lines = []
    for name in dict.fromkeys(str(row["contender"]) for row in rows):
        own = {row[across]: row for row in rows_of(rows, contender=name)}
        lines.append([name, *(text(own[value]) if value in own else "" for value in values)])
    return markdown_table([header, *(f"{value:g}" for value in values)], lines)


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
