"""What the acep-invariants patent found, and whether the cells of `cep experiment adaptation` show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean, median

from cep_pipeline.benchmarks.report import times_as_fast
from cep_pipeline.experiments.adaptation_figures import (
    INVARIANT,
    THRESHOLD,
    Best,
    best_gain,
    cells_of,
    chosen_by,
    compared_rows,
    lead,
    mean_gain,
    number,
    of_part,
    per_cell,
    ratios,
    rows_of,
    total,
)
from cep_pipeline.experiments.adaptation_reasons import of_costs
from cep_pipeline.experiments.adaptation_sizes import (
    AVERAGE,
    CHAIN,
    OF_THE_PATENT,
    SAME,
    STATIC,
    TREE,
    UNCONDITIONAL,
    Contender,
    Sizes,
    distance_name,
    threshold_name,
)
from cep_pipeline.experiments.adaptation_streams import STOCKS, TRAFFIC
from cep_pipeline.experiments.cells import Row
from cep_pipeline.experiments.findings import Finding, ratio_range

OF_TRAFFIC = 6.0
"""The patent's largest throughput of invariants in traffic, as a multiple of the best constant threshold's."""
OF_STOCKS = 1.3
"""Its smallest in stocks."""
OVERHEAD = 0.01
MOST_CELLS = 4
"""Cells that a finding names."""
WITHIN = 0.1
"""So close the average relative difference is to be to the best distance: the share of throughput that it may lose."""

Chosen = Mapping[tuple[str, str], Best]
"""Stream and contender -> the best t and d."""


def all_findings(rows: Sequence[Row], best: Chosen, sizes: Sizes) -> list[Finding]:
    """The findings of the section, for the two mechanisms of the patent.

    Parameters
    ----------
    rows
        As `by_decision` returns them.
    """
    names = {contender.name for contender in OF_THE_PATENT}
    own = [row for row in of_part(rows) if row["contender"] in names]
    compared = compared_rows(own, best)
    return [
        some_distance_is_best(own, best),
        invariants_are_ahead(compared, _by_own_best(own, sizes)),
        far_ahead_in_traffic(compared),
        ahead_in_stocks(compared),
        fewer_replannings(compared),
        little_overhead(compared),
        unconditional_is_worst_in_stocks(compared),
        more_for_trees(compared),
        average_is_near_the_best(own, best, sizes),
    ]


def some_distance_is_best(rows: Sequence[Row], best: Chosen) -> Finding:
    """Figure 6."""
    expected = (
        "in each of the four cases some distance above 0 is the best, with 2 to 25 times the throughput of the basic "
        "method (d = 0)"
    )
    found, gains = [], []
    for stream, contender in _cases():
        own = chosen_by(rows, stream, contender)
        d = best[stream, contender.name].distance
        gains.append(mean_gain(own, distance_name(d)) / mean_gain(own, distance_name(0.0)))
        found.append(f"{stream} by {contender.name} d = {d:g}, {times_as_fast(gains[-1])} times")
    why = "A replanning that brings little costs little here; the next section has figures."
    return Finding(expected, "; ".join(found), min(gains) >= 2.0, why)


def invariants_are_ahead(rows: Sequence[Row], by_own_best: str) -> Finding:
    """Figures 7 and 8: throughput."""
    expected = "invariants are ahead of the best constant threshold everywhere"
    found, tries = (lead(rows, INVARIANT, THRESHOLD, figure) for figure in ("throughput", "less_work"))
    measured = (
        f"ahead in {found.ahead} of {len(found.ratios)} cells, behind in {found.behind}, alike in the others, to "
        f"within {SAME:.0%} or what two runs of one differ by; {ratio_range(found.ratios)} times the throughput, "
        f"{times_as_fast(found.mean)} in the mean. By events tried on partial matches, which no clock disturbs, ahead "
        f"in {tries.ahead}, behind in {tries.behind}, {times_as_fast(tries.mean)} in the mean"
    )
    return Finding(expected, measured, found.behind == 0 and found.ahead > 0, f"{by_own_best} {_headroom(rows)}")


def far_ahead_in_traffic(rows: Sequence[Row]) -> Finding:
    """Figure 7, the greatest lead."""
    expected = "in the traffic they have up to 6 times the throughput of the best constant threshold"
    own = rows_of(rows, stream=TRAFFIC)
    found = ratios(own, INVARIANT, THRESHOLD)
    measured = f"up to {times_as_fast(max(found.values()))} times{_over_static(own)}"
    return Finding(expected, measured, max(found.values()) >= OF_TRAFFIC, _headroom(own))


def ahead_in_stocks(rows: Sequence[Row]) -> Finding:
    """Figure 8."""
    expected = "in the stocks 1.3 to 1.6 times"
    own = rows_of(rows, stream=STOCKS)
    found = ratios(own, INVARIANT, THRESHOLD)
    mean = geometric_mean(found.values())
    measured = f"{ratio_range(found.values())} times, {times_as_fast(mean)} in the mean{_over_static(own)}"
    return Finding(expected, measured, mean >= OF_STOCKS, _headroom(own))


def fewer_replannings(rows: Sequence[Row]) -> Finding:
    """Figures 7C, 7G, 8C, 8G."""
    expected = "invariants plan again less often than the best constant threshold, and both less than unconditionally"
    planned = {name: total(rows, name, "planned") for name in (INVARIANT, THRESHOLD, UNCONDITIONAL)}
    switched = {name: total(rows, name, "switches") for name in planned}
    parts = [f"{name} {planned[name]:.0f} times with {switched[name]:.0f} new plans" for name in planned]
    holds = planned[INVARIANT] < planned[THRESHOLD] < planned[UNCONDITIONAL]
    wasted = {name: 1 - switched[name] / planned[name] for name in planned if planned[name]}
    why = "Of the replannings no other plan came of " + ", ".join(f"{of:.0%} ({name})" for name, of in wasted.items())
    return Finding(expected, ", ".join(parts), holds, f"{why}.")


def little_overhead(rows: Sequence[Row]) -> Finding:
    """Figures 7D, 7H, 8D, 8H."""
    expected = "deciding and planning take less than 1 % of the time with invariants"
    shares = [number(row, "overhead") for row in rows_of(rows, decision=INVARIANT)]
    measured = f"{min(shares):.1%} to {max(shares):.1%}, {median(shares):.1%} in the middle"
    return Finding(expected, measured, max(shares) < OVERHEAD, f"{_most_overhead(rows)} {of_costs(rows)}")


def unconditional_is_worst_in_stocks(rows: Sequence[Row]) -> Finding:
    """Figure 8, on the static plan."""
    expected = "in the stocks the static plan is decidedly ahead of replanning unconditionally"
    found = ratios(rows_of(rows, stream=STOCKS), STATIC, UNCONDITIONAL)
    mean = geometric_mean(found.values())
    measured = f"{ratio_range(found.values())} times its throughput, {times_as_fast(mean)} in the mean"
    return Finding(expected, measured, mean > 1 + SAME, _headroom(rows_of(rows, stream=STOCKS)))


def more_for_trees(rows: Sequence[Row]) -> Finding:
    """The last observation."""
    expected = "invariants gain more with zstream than with greedy"
    gains = {
        contender.name: geometric_mean(ratios(rows, INVARIANT, THRESHOLD, contenders=(contender,)).values())
        for contender in (TREE, CHAIN)
    }
    measured = "over the best constant threshold " + ", ".join(f"{by} {times_as_fast(of)}" for by, of in gains.items())
    why = "Between its best and its static plan " + ", ".join(
        f"{contender.name} has {times_as_fast(_best_of_all(rows_of(rows, contender=contender.name)))} times less to try"
        for contender in (TREE, CHAIN)
    )
    return Finding(expected, measured, gains[TREE.name] > max(gains[CHAIN.name], 1.0), f"{why}.")


def average_is_near_the_best(rows: Sequence[Row], best: Chosen, sizes: Sizes) -> Finding:
    """The validation of the average relative difference, on sequences of size 6 and more in the traffic."""
    expected = (
        "in the traffic the average relative difference is within 10 % of the best distance for sequences of 6 and "
        "more, by the throughput that it has"
    )
    found, kept, near = [], [], []
    for contender in OF_THE_PATENT:
        own = chosen_by(rows, TRAFFIC, contender)
        wanted = best[TRAFFIC, contender.name].distance
        long = [row for row in own if number(row, "size") >= min(6, max(sizes.sequences))]
        values = [number(row, "average_d") for row in rows_of(long, decision=AVERAGE)]
        near += [abs(value - wanted) <= WITHIN * wanted for value in values]
        kept.append(mean_gain(long, AVERAGE) / mean_gain(long, distance_name(wanted)))
        found.append(
            f"{contender.name} {kept[-1]:.0%} of the throughput of d = {wanted:g}, which is best, with "
            f"{', '.join(f'{value:.3g}' for value in values)}"
        )
    of_all = [number(row, "average_d_of_all") for row in rows_of(rows, stream=TRAFFIC, decision=AVERAGE)]
    why = (
        "The mean is that of |f2 - f1| / min(f1, f2) over the tightest comparison of each block, which d is there for "
        f"(over all comparisons it is {ratio_range(of_all)}), and is ruled by those that are not close: rates of the "
        "classes of roads differ by orders of magnitude. A distance above all ratios keeps the first plan."
    )
    measured = f"{'; '.join(found)}. By the values themselves {sum(near)} of {len(near)} are within 10 %"
    return Finding(expected, measured, min(kept) >= 1 - WITHIN, why)


def _cases() -> Iterable[tuple[str, Contender]]:
    return [(stream, contender) for stream in (TRAFFIC, STOCKS) for contender in OF_THE_PATENT]


def _best_of_all(rows: Sequence[Row]) -> float:
    """How many times less any decision function of a cell tried than the static plan: the mean over the cells."""
    return geometric_mean(per_cell(rows, lambda of: max(number(row, "less_work") for row in of)))


def _over_static(rows: Sequence[Row]) -> str:
    """The lead over the static plan."""
    found = ratios(rows, INVARIANT, STATIC)
    mean = times_as_fast(geometric_mean(found.values()))
    return f"; {ratio_range(found.values())} times that of the static plan, {mean} in the mean"


def _by_own_best(rows: Sequence[Row], sizes: Sizes) -> str:
    """The same where t and d are chosen for each cell, not for all of a stream and planner."""
    of_d, of_t = [*map(distance_name, sizes.distances)], [*map(threshold_name, sizes.thresholds)]
    found = [best_gain(cell, of_d) / best_gain(cell, of_t) for cell in cells_of(rows)]
    ahead, behind = sum(ratio > 1 + SAME for ratio in found), sum(ratio < 1 - SAME for ratio in found)
    return (
        "One t and one d are chosen for all patterns of a stream and planner, by its sequences. Where each pattern has "
        f"its own best of both, invariants are ahead in {ahead} cells and behind in {behind}: {ratio_range(found)} "
        f"times, {times_as_fast(geometric_mean(found))} in the mean."
    )


def _headroom(rows: Sequence[Row]) -> str:
    """What there is to gain here at all, by events tried on partial matches."""
    of_best = per_cell(rows, lambda of: max(number(row, "less_work") for row in of))
    threshold, invariants = (
        geometric_mean([number(row, "less_work") for row in rows_of(rows, decision=name)])
        for name in (THRESHOLD, INVARIANT)
    )
    of_static = rows_of(rows, decision=STATIC)
    told = [number(row, "in_hindsight") for row in of_static]
    beyond = [number(row, "in_hindsight") / number(row, "less_work") for row in rows_of(rows, decision=THRESHOLD)]
    switches = sum(number(row, "hindsight_switches") for row in of_static)
    return (
        f"Here the best of all that was tried has {ratio_range(of_best)} times fewer events tried on partial matches "
        f"than the static plan, {times_as_fast(geometric_mean(of_best))} in the mean: with "
        f"invariants {times_as_fast(invariants)} times fewer, with the constant threshold {times_as_fast(threshold)}. "
        f"The plans that cost least in hindsight, {switches / len(told):.1f} switches in the mean, have "
        f"{ratio_range(told)} times fewer, {times_as_fast(geometric_mean(told))} in the mean, and than the constant "
        f"threshold {ratio_range(beyond)} times, {times_as_fast(geometric_mean(beyond))} in the mean."
    )


def _most_overhead(rows: Sequence[Row]) -> str:
    """Where deciding and planning are more than they should be."""
    above = [row for row in rows_of(rows, decision=INVARIANT) if number(row, "overhead") >= OVERHEAD]
    above.sort(key=lambda row: number(row, "overhead"), reverse=True)
    cells = "; ".join(
        f"{row['stream']}, {row['contender']}, {row['set']} {row['size']}: {number(row, 'overhead'):.1%}, with "
        f"{times_as_fast(number(row, 'gain'))} times the throughput of the static plan"
        for row in above[:MOST_CELLS]
    )
    return f"It is as much in {len(above)} of {len(rows_of(rows, decision=INVARIANT))} cells, most of all in {cells}."
