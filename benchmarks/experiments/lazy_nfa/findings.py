"""Findings of DEBS'15 about lazy evaluation, compared with the cells of `cep experiment lazy_nfa`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.experiments.cells import Row, number, rows_of
from benchmarks.experiments.findings import Finding, not_measured, ratio_range, verdict_at_least, verdict_at_most
from benchmarks.experiments.lazy_nfa.experiment import (
    CHAINS,
    CHANGING,
    EAGER,
    FREQUENCY,
    INPUT,
    OWN_TREE,
    SEQUENCES,
    TREE,
    steps_of,
)
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
    claim, paper = "chain NFAs that start with c compute far less than the eager NFA", "10 to 1,000 times less"
    complete = _complete(_by_share(rows, "abc"), EAGER.name, *RARE_FIRST)
    if not complete:
        return not_measured(claim, paper)
    lowest = min(complete)
    ratios = [complete[lowest][EAGER.name] / complete[lowest][name] for name in RARE_FIRST]
    verdict = verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE, surpassed=THREE_ORDERS)
    reason = "Until c comes these automata buffer events and have no instances. The rarer c is, the more they save."
    return Finding(claim, paper, f"{ratio_range(ratios)} times less for f_c = {lowest:g}", verdict, reason)


def other_chains_are_like_eager(rows: Sequence[Row]) -> Finding:
    """Observation 2 on figure 7."""
    claim, paper = "chain NFAs that take c second or third gain no such factor", "as many computations as the eager NFA"
    complete = _complete(_by_share(rows, "abc"), EAGER.name, *ALL_CHAINS)
    if not complete:
        return not_measured(claim, paper)
    figures = complete[min(complete)]
    ratios = [figures[name] / min(figures[best] for best in RARE_FIRST) for name in RARE_LATER]
    ours = f"{ratio_range(ratios)} times the best chain's for f_c = {min(complete):g}"
    reason = "They make an instance of each a, or of each b, as the eager NFA does, and most instances never meet a c."
    return Finding(claim, paper, ours, verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE), reason)


def tree_is_as_good_as_the_best_chain(rows: Sequence[Row]) -> Finding:
    """Observation 4 on figure 7."""
    claim = "the tree NFA computes no more than the best chain NFA for a, b, c, whatever f_c is"
    reason = (
        "The tree NFA takes the type with the fewest events in the buffer, where a chain always takes the same one. It "
        "does not ask how many of them pass the conditions: the one by expected tests does, and computes less. Up to "
        "1.26 times, a line's width in the paper's figures, counts as no more."
    )
    return _tree_against_chains(rows, ("abc",), claim, reason)


def tree_is_as_good_for_every_sequence(rows: Sequence[Row]) -> Finding:
    """Figure 8."""
    claim = "the tree NFA computes no more than the best chain NFA for c, b, a and a, c, b either"
    reason = (
        "The tree NFA chooses by what the buffer holds. The events between two others of the sequence are fewer than "
        "those before or behind them, and the number in the buffer does not tell."
    )
    return _tree_against_chains(rows, tuple(one for one in SEQUENCES if one != "abc"), claim, reason)


def _tree_against_chains(rows: Sequence[Row], sequences: Sequence[str], claim: str, reason: str) -> Finding:
    paper = "slightly fewer"
    ratios, own = (
        [
            figures[tree] / min(figures[name] for name in ALL_CHAINS)
            for sequence in sequences
            for figures in _complete(_by_share(rows, sequence), tree, *ALL_CHAINS).values()
        ]
        for tree in (TREE.name, OWN_TREE.name)
    )
    if not ratios:
        return not_measured(claim, paper)
    reason += _by_tests(f"{ratio_range(own)} times" if own else "")
    return Finding(claim, paper, f"{ratio_range(ratios)} times", verdict_at_most(max(ratios), NOT_WORSE), reason)


def _by_tests(figures: str) -> str:
    """A sentence on what the tree NFA reaches that goes by expected tests."""
    return f" The tree NFA by expected tests has {figures}." if figures else ""


def sequences_do_not_matter_to_lazy(rows: Sequence[Row]) -> Finding:
    """Figure 8, first observation."""
    claim, paper = "the cost of a lazy NFA does not depend on the order of the sequence", "the same"
    per_sequence = [_by_share(rows, sequence) for sequence in SEQUENCES]
    ratios = []
    for share in per_sequence[0]:
        for name in (*ALL_CHAINS, TREE.name):
            costs = [figures[share][name] for figures in per_sequence if name in figures.get(share, {})]
            if len(costs) == len(SEQUENCES):
                ratios.append(max(costs) / min(costs))
    if not ratios:
        return not_measured(claim, paper)
    ours = f"sequences differ by a factor of {ratio_range(ratios)}"
    reason = (
        "A chain takes events in an order of its own. The sequence only decides on which side of an event it looks for "
        "the next one, and so how many candidates there are. Less than 3.16 times, half a decade, counts as the same."
    )
    return Finding(claim, paper, ours, verdict_at_most(max(ratios), NEARLY_EQUAL), reason)


def sequences_matter_to_eager(rows: Sequence[Row]) -> Finding:
    """Figure 8, second observation."""
    claim, paper = "the eager NFA gains much where the sequence itself starts with c", "a significant gain"
    begins, ends = (_complete(_by_share(rows, sequence), EAGER.name) for sequence in ("cba", "abc"))
    ratios = {share: ends[share][EAGER.name] / begins[share][EAGER.name] for share in ends if share in begins}
    if not ratios:
        return not_measured(claim, paper)
    lowest = min(ratios)
    ours = f"{times_as_fast(ratios[lowest])} times fewer than for a, b, c (f_c = {lowest:g})"
    reason = "For c, b, a the order of the events is the order from rare to frequent."
    return Finding(claim, paper, ours, verdict_at_least(ratios[lowest], ORDER_OF_MAGNITUDE), reason)


def lazy_needs_fewer_instances(rows: Sequence[Row]) -> Finding:
    """Observation 1 on figure 9."""
    claim, paper = "chain NFAs that start with c hold far fewer instances than the eager NFA", "far fewer"
    complete = _complete(_by_input(rows), EAGER.name, *RARE_FIRST).values()
    if not complete:
        return not_measured(claim, paper)
    chains = [max(figures[name] for name in RARE_FIRST) for figures in complete]
    eager = [figures[EAGER.name] for figures in complete]
    ratios = [one / max(other, 1) for one, other in zip(eager, chains, strict=True)]
    reason = "An instance of theirs begins with a c and ends almost at once: all it waits for is already in the buffer."
    ours = f"{_counts(chains)}, and the eager NFA {_counts(eager)}"
    return Finding(claim, paper, ours, verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE), reason)


def tree_needs_as_few_instances(rows: Sequence[Row]) -> Finding:
    """Observation 4 on figure 9."""
    claim, paper = "the tree NFA holds as few instances as the most frugal chain NFA", "comparable"
    complete = _complete(_by_input(rows), TREE.name, *ALL_CHAINS).values()
    if not complete:
        return not_measured(claim, paper)
    own = [figures[OWN_TREE.name] for figures in _complete(_by_input(rows), OWN_TREE.name).values()]
    tree, chain = [one[TREE.name] for one in complete], [min(one[name] for name in ALL_CHAINS) for one in complete]
    ratios = [one / max(other, 1) for one, other in zip(tree, chain, strict=True)]
    reason = (
        "A chain that starts with c holds next to no instances at a time. The tree NFA holds more, most likely because "
        "it starts with another type for moments in which that one looks rarer."
    )
    ours = f"{_counts(tree)}, and the chain {_counts(chain)}"
    reason += _by_tests(_counts(own) if own else "")
    return Finding(claim, paper, ours, verdict_at_most(max(ratios), NEARLY_EQUAL), reason)


def tree_is_flat(rows: Sequence[Row]) -> Finding:
    """Figure 10: the tree NFA."""
    claim, paper = "on changing input the tree NFA stays flat, below every chain NFA", "flat, and lowest throughout"
    complete = [*_complete(_by_step(rows), TREE.name, *ALL_CHAINS).values()]
    if not complete:
        return not_measured(claim, paper)
    step, worst = _peaks_of_steps(complete, TREE.name)
    ours = f"at most {times_as_fast(step)} times its median step, {times_as_fast(worst)} times a chain"
    verdict = verdict_at_most(max(step / NEARLY_EQUAL, worst / NOT_WORSE), 1.0)
    reason = (
        "The tree NFA chooses its order anew for each instance. A change of the rare type costs it nothing. Up to 1.26 "
        "times the cheapest chain counts as below it."
    )
    if own := [*_complete(_by_step(rows), OWN_TREE.name, *ALL_CHAINS).values()]:
        reason += _by_tests(" and ".join(map(times_as_fast, _peaks_of_steps(own, OWN_TREE.name))))
    return Finding(claim, paper, ours, verdict, reason)


def _peaks_of_steps(steps: Sequence[Figures], tree: str) -> tuple[float, float]:
    """The dearest step of a tree NFA beside its median step, and beside the cheapest chain in the same step."""
    costs = sorted(figures[tree] for figures in steps)
    beside = max(figures[tree] / min(figures[name] for name in ALL_CHAINS) for figures in steps)
    return costs[-1] / costs[len(costs) // 2], beside


def chains_are_not_flat(rows: Sequence[Row]) -> Finding:
    """Figure 10: the chain NFAs."""
    claim = "each chain NFA is best for a while, and far worse once another type is rare"
    paper = "up to two orders of magnitude"
    steps = _by_step(rows)
    costs = [[figures[name] for figures in steps.values() if name in figures] for name in ALL_CHAINS]
    ratios = [max(own) / min(own) for own in costs if own]
    if not ratios:
        return not_measured(claim, paper)
    ours = f"the dearest step costs {ratio_range(ratios)} times the cheapest"
    reason = "The order of a chain is fixed. In two of three phases it starts with a frequent type."
    return Finding(claim, paper, ours, verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE), reason)


def _complete(by: dict[float, Figures], *names: str) -> dict[float, Figures]:
    """Return the figures in which all of these contenders are."""
    return {key: figures for key, figures in by.items() if all(name in figures for name in names)}


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
