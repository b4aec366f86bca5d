"""The page of `cep experiment lazy_nfa`: the paper's findings, charts and tables of the cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from statistics import mean

from benchmarks.charts import Axis, Style, line_chart
from benchmarks.experiments.experiment import Request, Row, number, refuse_different_matches, rows_of
from benchmarks.experiments.findings import Finding, Measured, finding, ratio_range, verdict_at_least, verdict_at_most
from benchmarks.experiments.lazy_nfa.experiment import (
    CHAINS,
    CHANGING,
    EAGER,
    FREQUENCY,
    INPUT,
    ONCE_TREE,
    OWN_TREE,
    PHASES,
    SEQUENCES,
    STOCK_OF,
    THRESHOLD,
    TREE,
    WINDOW_S,
    Sizes,
    steps_of,
    summed,
    trades_of,
)
from benchmarks.experiments.page import Page, Picture, findings_page, table_across, zeros_not_drawn
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import times_as_fast

ORDER_OF_MAGNITUDE = 10.0
THREE_ORDERS = 1_000.0
NEARLY_EQUAL = 10**0.5
"""Costs within half a decade count as alike: the paper shows them on logarithmic axes."""
NOT_WORSE = 10**0.1
"""A tenth of a decade, a line's width on these axes: the tree NFA may need so much more than the best chain."""
ALL_CHAINS = tuple(chain.name for chain in CHAINS)
RARE_FIRST = tuple(chain.name for chain in CHAINS if chain.order[0] == "c")
RARE_LATER = tuple(chain.name for chain in CHAINS if chain.order[0] != "c")

Figures = dict[str, float]
"""Contender -> figure, over the same events."""


def all_findings(rows: Sequence[Row]) -> list[Finding]:
    """The findings of section 7, in its order."""
    return [
        find(rows)
        for find in (
            chains_beat_eager,
            other_chains_are_like_eager,
            tree_is_as_good_as_the_best_chain,
            tree_is_as_good_for_every_sequence,
            sequences_do_not_matter_to_lazy,
            sequences_matter_to_eager,
            lazy_needs_fewer_instances,
            tree_needs_as_few_instances,
            tree_is_flat,
            chains_are_not_flat,
        )
    ]


@finding
def chains_beat_eager(rows: Sequence[Row]) -> Measured:
    """Observation 3 on figure 7."""
    complete = _by_share(rows, "abc")
    lowest = min(complete)
    ratios = [complete[lowest][EAGER.name] / complete[lowest][name] for name in RARE_FIRST]
    verdict = verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE, surpassed=THREE_ORDERS)
    return verdict, {"ratios": ratio_range(ratios), "lowest": lowest}


@finding
def other_chains_are_like_eager(rows: Sequence[Row]) -> Measured:
    """Observation 2 on figure 7."""
    complete = _by_share(rows, "abc")
    lowest = min(complete)
    best = min(complete[lowest][name] for name in RARE_FIRST)
    ratios = [complete[lowest][name] / best for name in RARE_LATER]
    return verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE), {"ratios": ratio_range(ratios), "lowest": lowest}


@finding
def tree_is_as_good_as_the_best_chain(rows: Sequence[Row]) -> Measured:
    """Observation 4 on figure 7."""
    return _tree_against_chains(rows, "abc")


@finding
def tree_is_as_good_for_every_sequence(rows: Sequence[Row]) -> Measured:
    """Figure 8."""
    return _tree_against_chains(rows, *(one for one in SEQUENCES if one != "abc"))


def _tree_against_chains(rows: Sequence[Row], *sequences: str) -> Measured:
    ratios, own = (
        [
            figures[tree] / min(figures[name] for name in ALL_CHAINS)
            for sequence in sequences
            for figures in _by_share(rows, sequence).values()
        ]
        for tree in (TREE.name, OWN_TREE.name)
    )
    return verdict_at_most(max(ratios), NOT_WORSE), {"ratios": ratio_range(ratios), "by_tests": ratio_range(own)}


@finding
def sequences_do_not_matter_to_lazy(rows: Sequence[Row]) -> Measured:
    """Figure 8, first observation."""
    per_sequence = [_by_share(rows, sequence) for sequence in SEQUENCES]
    ratios = []
    for share, name in product(per_sequence[0], (*ALL_CHAINS, TREE.name)):
        costs = [figures[share][name] for figures in per_sequence]
        ratios.append(max(costs) / min(costs))
    return verdict_at_most(max(ratios), NEARLY_EQUAL), {"ratios": ratio_range(ratios)}


@finding
def sequences_matter_to_eager(rows: Sequence[Row]) -> Measured:
    """Figure 8, second observation."""
    begins, ends = (_by_share(rows, sequence) for sequence in ("cba", "abc"))
    ratios = {share: ends[share][EAGER.name] / begins[share][EAGER.name] for share in ends}
    lowest = min(ratios)
    figures = {"ratio": times_as_fast(ratios[lowest]), "lowest": lowest}
    return verdict_at_least(ratios[lowest], ORDER_OF_MAGNITUDE), figures


@finding
def lazy_needs_fewer_instances(rows: Sequence[Row]) -> Measured:
    """Observation 1 on figure 9."""
    complete = _by_input(rows).values()
    chains = [max(figures[name] for name in RARE_FIRST) for figures in complete]
    eager = [figures[EAGER.name] for figures in complete]
    ratios = [one / max(other, 1) for one, other in zip(eager, chains, strict=True)]
    verdict = verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE)
    return verdict, {"chains": _counts(chains), "eager": _counts(eager)}


@finding
def tree_needs_as_few_instances(rows: Sequence[Row]) -> Measured:
    """Observation 4 on figure 9."""
    complete = _by_input(rows).values()
    tree, own = ([one[name] for one in complete] for name in (TREE.name, OWN_TREE.name))
    chain = [min(one[name] for name in ALL_CHAINS) for one in complete]
    ratios = [one / max(other, 1) for one, other in zip(tree, chain, strict=True)]
    figures = {"tree": _counts(tree), "chain": _counts(chain), "by_tests": _counts(own)}
    return verdict_at_most(max(ratios), NEARLY_EQUAL), figures


@finding
def tree_is_flat(rows: Sequence[Row]) -> Measured:
    """Figure 10: the tree NFA."""
    complete = [*_by_step(rows).values()]
    step, worst = _peaks_of_steps(complete, TREE.name)
    by_tests = " and ".join(map(times_as_fast, _peaks_of_steps(complete, OWN_TREE.name)))
    figures = {"step": times_as_fast(step), "worst": times_as_fast(worst), "by_tests": by_tests}
    return verdict_at_most(max(step / NEARLY_EQUAL, worst / NOT_WORSE), 1.0), figures


def _peaks_of_steps(steps: Sequence[Figures], tree: str) -> tuple[float, float]:
    """The dearest step of a tree NFA beside its median step, and beside the cheapest chain in the same step."""
    costs = sorted(figures[tree] for figures in steps)
    beside = max(figures[tree] / min(figures[name] for name in ALL_CHAINS) for figures in steps)
    return costs[-1] / costs[len(costs) // 2], beside


@finding
def chains_are_not_flat(rows: Sequence[Row]) -> Measured:
    """Figure 10: the chain NFAs."""
    steps = _by_step(rows)
    costs = [[figures[name] for figures in steps.values()] for name in ALL_CHAINS]
    ratios = [max(own) / min(own) for own in costs]
    return verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE), {"ratios": ratio_range(ratios)}


def _by_share(rows: Iterable[Row], sequence: str) -> dict[float, Figures]:
    """Relative frequency of c -> the computations for one sequence."""
    return _grouped(rows_of(rows, part=FREQUENCY, sequence=sequence), "share", "computations")


def _by_input(rows: Iterable[Row]) -> dict[float, Figures]:
    """Share of the input -> peak instances."""
    return _grouped(rows_of(rows, part=INPUT), "part_of_input", "peak_instances", least=0)


def _by_step(rows: Iterable[Row]) -> dict[float, Figures]:
    """First event of a step of the changing stream -> computations."""
    return _grouped(steps_of(rows_of(rows, part=CHANGING)), "first", "computations")


def _grouped(rows: Iterable[Row], by: str, figure: str, least: float = 1) -> dict[float, Figures]:
    """Figures by contender for each value of `by`, each no less than `least`, so that ratios can be taken."""
    grouped: dict[float, Figures] = {}
    for row in rows:
        grouped.setdefault(number(row, by), {})[str(row["contender"])] = max(number(row, figure), least)
    return grouped


def _counts(values: Sequence[float]) -> str:
    """The least and the greatest of some counts."""
    low, high = min(values), max(values)
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


STYLES = {
    EAGER.name: Style("#d1495b"),
    **{
        chain.name: Style({"c": "#3b82d6", "a": "#b7791f", "b": "#8e6bbf"}[chain.order[0]], dashed)
        for chain, dashed in zip(CHAINS, (False, True, False, False, True, True), strict=True)
    },
    TREE.name: Style("#2a9d5c"),
    ONCE_TREE.name: Style("#79818c"),
    OWN_TREE.name: Style("#2a9d5c", dashed=True),
}
"""Chains by the event that they wait for first, the second of them dashed."""


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of finished cells.

    Raises
    ------
    CepError
        Contenders found different numbers of matches in the same events.
    """
    refuse_different_matches(rows, ("part", "sequence", "share", "draw", "part_of_input", "up_to"), "contender")
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
        description=trades_of(request.data, sizes.days, sizes.most, request.seed).description,
        window_s=WINDOW_S,
        threshold=THRESHOLD,
        computations=_tables(frequency, _figure("computations")),
        evaluations=_tables(frequency, _figure("evaluations")),
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
