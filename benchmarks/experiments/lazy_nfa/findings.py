"""What DEBS'15 found about lazy evaluation, and whether the cells of `cep experiment lazy_nfa` show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from benchmarks.experiments.cells import Row
from benchmarks.experiments.findings import Finding, ratio_range
from benchmarks.experiments.lazy_nfa.experiment import (
    CHAINS,
    CHANGING,
    EAGER,
    FREQUENCY,
    INPUT,
    SEQUENCES,
    TREE,
    steps_of,
)
from cep_pipeline.cli.figures import times_as_fast

ORDER_OF_MAGNITUDE = 10.0
NEARLY_EQUAL = 10**0.5
"""Costs within half a decade count as alike: the paper shows them on logarithmic axes."""
NOT_WORSE = 10**0.1
"""A tenth of a decade, a line's width on these axes: the tree NFA may need so much more than the best chain."""
RARE_FIRST = tuple(chain.name for chain in CHAINS if chain.order[0] == "c")
RARE_LATER = tuple(chain.name for chain in CHAINS if chain.order[0] != "c")

Figures = dict[str, float]
"""Contender -> figure, over the same events."""


def all_findings(rows: Sequence[Row]) -> list[Finding]:
    """The findings of section 7, in its order."""
    return [
        chains_beat_eager(rows),
        other_chains_are_like_eager(rows),
        tree_is_as_good_as_the_best_chain(rows),
        tree_is_as_good_for_every_sequence(rows),
        sequences_do_not_matter_to_lazy(rows),
        sequences_matter_to_eager(rows),
        lazy_needs_fewer_instances(rows),
        tree_needs_as_few_instances(rows),
        tree_is_flat(rows),
        chains_are_not_flat(rows),
    ]


def chains_beat_eager(rows: Sequence[Row]) -> Finding:
    """Observation 3 on figure 7."""
    expected = "chain NFAs that start with the rare event are one to three orders of magnitude below the eager NFA"
    by_share = _by_share(rows, "abc", "computations")
    ratios = [f[EAGER.name] / f[name] for f in by_share.values() for name in RARE_FIRST if _has(f, EAGER.name, name)]
    if not ratios:
        return _missing(expected)
    lowest = min(share for share, f in by_share.items() if _has(f, EAGER.name, *RARE_FIRST))
    at_rarest = [by_share[lowest][EAGER.name] / by_share[lowest][name] for name in RARE_FIRST]
    measured = (
        f"the eager NFA makes {ratio_range(at_rarest)} times as many computations where c is rarest "
        f"(f_c = {lowest:g}), and {ratio_range(ratios)} times over all f_c"
    )
    return Finding(expected, measured, min(at_rarest) >= ORDER_OF_MAGNITUDE)


def other_chains_are_like_eager(rows: Sequence[Row]) -> Finding:
    """Observation 2 on figure 7."""
    expected = "chain NFAs that take the rare event second or third do not gain like that"
    by_share = _by_share(rows, "abc", "computations")
    complete = {share: f for share, f in by_share.items() if _has(f, EAGER.name, *RARE_FIRST, *RARE_LATER)}
    if not complete:
        return _missing(expected)
    lowest = min(complete)
    ratios = [complete[lowest][name] / min(complete[lowest][n] for n in RARE_FIRST) for name in RARE_LATER]
    measured = (
        f"where c is rarest (f_c = {lowest:g}) they make {ratio_range(ratios)} times the computations of the best chain"
    )
    return Finding(expected, measured, min(ratios) >= ORDER_OF_MAGNITUDE)


def tree_is_as_good_as_the_best_chain(rows: Sequence[Row]) -> Finding:
    """Observation 4 on figure 7."""
    expected = "for a, b, c the tree NFA is at least as good as the best chain NFA, for every f_c"
    return _tree_against_chains(rows, ("abc",), expected)


def tree_is_as_good_for_every_sequence(rows: Sequence[Row]) -> Finding:
    """Figure 8."""
    expected = "so it is for c, b, a and a, c, b"
    return _tree_against_chains(rows, tuple(sequence for sequence in SEQUENCES if sequence != "abc"), expected)


def _tree_against_chains(rows: Sequence[Row], sequences: Sequence[str], expected: str) -> Finding:
    ratios = {
        sequence: [
            figures[TREE.name] / min(figures[chain.name] for chain in CHAINS)
            for figures in _by_share(rows, sequence, "computations").values()
            if _has(figures, TREE.name, *(chain.name for chain in CHAINS))
        ]
        for sequence in sequences
    }
    if not all(ratios.values()):
        return _missing(expected)
    listed = "; ".join(f"{', '.join(sequence)}: {ratio_range(own)}" for sequence, own in ratios.items())
    measured = f"its computations as a multiple of the best chain's, for all f_c: {listed}"
    return Finding(expected, measured, max(map(max, ratios.values())) <= NOT_WORSE)


def sequences_do_not_matter_to_lazy(rows: Sequence[Row]) -> Finding:
    """Figure 8, first observation."""
    expected = "what a lazy NFA costs does not depend on the order of the sequence"
    ratios = []
    per_sequence = [_by_share(rows, sequence, "computations") for sequence in SEQUENCES]
    for share in per_sequence[0]:
        for name in (*(chain.name for chain in CHAINS), TREE.name):
            costs = [figures[share][name] for figures in per_sequence if name in figures.get(share, {})]
            if len(costs) == len(SEQUENCES):
                ratios.append(max(costs) / min(costs))
    if not ratios:
        return _missing(expected)
    measured = f"between the sequences one lazy NFA's computations differ by a factor of {ratio_range(ratios)}"
    return Finding(expected, measured, max(ratios) <= NEARLY_EQUAL)


def sequences_matter_to_eager(rows: Sequence[Row]) -> Finding:
    """Figure 8, second observation."""
    expected = "the eager NFA gains much where the sequence itself starts with the rare event"
    begins, ends = (_by_share(rows, sequence, "computations") for sequence in ("cba", "abc"))
    ratios = {
        share: ends[share][EAGER.name] / begins[share][EAGER.name]
        for share in ends
        if _has(ends[share], EAGER.name) and _has(begins.get(share, {}), EAGER.name)
    }
    if not ratios:
        return _missing(expected)
    lowest = min(ratios)
    measured = (
        f"{times_as_fast(ratios[lowest])} times fewer computations for c, b, a than for a, b, c (f_c = {lowest:g})"
    )
    return Finding(expected, measured, ratios[lowest] >= ORDER_OF_MAGNITUDE)


def lazy_needs_fewer_instances(rows: Sequence[Row]) -> Finding:
    """Observation 1 on figure 9."""
    expected = "chain NFAs that start with the rare event need the fewest instances, far fewer than the eager NFA"
    ratios = [
        figures[EAGER.name] / max(figures[name] for name in RARE_FIRST)
        for figures in _by_input(rows).values()
        if _has(figures, EAGER.name, *RARE_FIRST)
    ]
    if not ratios:
        return _missing(expected)
    measured = f"the eager NFA's peak is {ratio_range(ratios)} times theirs"
    return Finding(expected, measured, min(ratios) >= ORDER_OF_MAGNITUDE)


def tree_needs_as_few_instances(rows: Sequence[Row]) -> Finding:
    """Observation 4 on figure 9."""
    expected = "the tree NFA's memory is that of the most frugal chain NFA"
    ratios = []
    for figures in _by_input(rows).values():
        chains = [figures[chain.name] for chain in CHAINS if chain.name in figures]
        if chains and TREE.name in figures:
            ratios.append(figures[TREE.name] / max(min(chains), 1))
    if not ratios:
        return _missing(expected)
    measured = f"its peak of instances is {ratio_range(ratios)} times that of the chain with the lowest"
    return Finding(expected, measured, max(ratios) <= NEARLY_EQUAL, CHANGING_ROOT)


def tree_is_flat(rows: Sequence[Row]) -> Finding:
    """Figure 10: the tree NFA."""
    expected = "on changing input the tree NFA stays flat, below every chain NFA"
    steps = _by_step(rows)
    complete = [figures for figures in steps.values() if _has(figures, TREE.name, *(chain.name for chain in CHAINS))]
    if not complete:
        return _missing(expected)
    tree = sorted(figures[TREE.name] for figures in complete)
    typical = tree[len(tree) // 2]
    worst = max(figures[TREE.name] / min(figures[chain.name] for chain in CHAINS) for figures in complete)
    measured = (
        f"its steps cost {ratio_range(cost / typical for cost in tree)} times its median step, and at most "
        f"{times_as_fast(worst)} times the best chain of the step"
    )
    return Finding(expected, measured, tree[-1] / typical <= NEARLY_EQUAL and worst <= NOT_WORSE)


def chains_are_not_flat(rows: Sequence[Row]) -> Finding:
    """Figure 10: the chain NFAs."""
    expected = "each chain NFA, best for a while, loses one to two orders of magnitude when another type gets rare"
    steps = _by_step(rows)
    ratios = []
    for chain in CHAINS:
        costs = [figures[chain.name] for figures in steps.values() if chain.name in figures]
        if costs and min(costs) > 0:
            ratios.append(max(costs) / min(costs))
    if not ratios:
        return _missing(expected)
    measured = f"a chain's dearest step costs {ratio_range(ratios)} times its cheapest"
    return Finding(expected, measured, min(ratios) >= ORDER_OF_MAGNITUDE)


def _missing(expected: str) -> Finding:
    return Finding(expected, "a mechanism that it is about is not there", None)


def _has(figures: Figures, *names: str) -> bool:
    return all(name in figures for name in names)


def _by_share(rows: Iterable[Row], sequence: str, figure: str) -> dict[float, Figures]:
    """Relative frequency of c -> the figures of one sequence."""
    own = (row for row in rows if row.get("part") == FREQUENCY and row.get("sequence") == sequence)
    return _grouped(own, "share", figure)


def _by_input(rows: Iterable[Row]) -> dict[float, Figures]:
    """Share of the input -> peak instances."""
    return _grouped((row for row in rows if row.get("part") == INPUT), "part_of_input", "peak_instances")


def _by_step(rows: Iterable[Row]) -> dict[float, Figures]:
    """First event of a step of the changing stream -> computations."""
    steps = steps_of([row for row in rows if row.get("part") == CHANGING])
    return _grouped(steps, "first", "computations")


def _grouped(rows: Iterable[Row], by: str, figure: str) -> dict[float, Figures]:
    grouped: dict[float, Figures] = {}
    for row in rows:
        grouped.setdefault(cast(float, row[by]), {})[str(row["contender"])] = max(cast(float, row[figure]), 1)
    return grouped


CHANGING_ROOT = (
    "The chain that starts with the rare event holds next to none at a time; most likely the tree NFA holds more "
    "because it changes its root for moments in which another type looks cheaper to start with."
)
