"""What the acep-invariants patent found, and whether the cells of `cep experiment adaptation` show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean, median

from benchmarks.experiments.adaptation.figures import (
    INVARIANT,
    THRESHOLD,
    Best,
    Lead,
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
from benchmarks.experiments.adaptation.reasons import of_costs
from benchmarks.experiments.adaptation.sizes import (
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
from benchmarks.experiments.adaptation.streams import STOCKS, TRAFFIC
from benchmarks.experiments.cells import Row
from benchmarks.experiments.findings import Finding, ratio_range
from cep_pipeline.cli.figures import times_as_fast

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
    own = [row for row in of_part(rows) if row["contender"] in names]  # all that was tried
    compared = compared_rows(own, best)
    return [
        some_distance_is_best(own, best),
        invariants_are_ahead(compared, f"{_by_own_best(own, sizes)} {_headroom(compared, own)}"),
        far_ahead_in_traffic(compared, own),
        ahead_in_stocks(compared, own),
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
    above = sum(best[stream, contender.name].distance > 0 for stream, contender in _cases())
    measured = f"a distance above 0 is the best in {above} of {len(gains)} cases: {'; '.join(found)}"
    why = "A replanning that brings little costs little here; the next section has figures."
    return Finding(expected, measured, min(gains) >= 2.0, why)


def invariants_are_ahead(rows: Sequence[Row], why: str) -> Finding:
    """Figures 7 and 8: throughput."""
    expected = "invariants are ahead of the best constant threshold everywhere"
    found, tries = (lead(rows, INVARIANT, THRESHOLD, figure) for figure in ("throughput", "less_work"))
    measured = (
        f"ahead in {found.ahead} of {len(found.ratios)} cells, behind in {found.behind}, alike in the others, to "
        f"within {SAME:.0%} or what two runs of one differ by; {ratio_range(found.ratios)} times the throughput, "
        f"{times_as_fast(found.mean)} in the mean. By events tried on partial matches, which no clock disturbs, ahead "
        f"in {tries.ahead}, behind in {tries.behind}, {times_as_fast(tries.mean)} in the mean"
    )
    return Finding(expected, measured, found.behind == 0 and found.ahead > 0, why)


def far_ahead_in_traffic(rows: Sequence[Row], tried: Sequence[Row]) -> Finding:
    """Figure 7, the greatest lead."""
    expected = "in the traffic they have up to 6 times the throughput of the best constant threshold"
    own = rows_of(rows, stream=TRAFFIC)
    found = ratios(own, INVARIANT, THRESHOLD)
    measured = f"up to {times_as_fast(max(found.values()))} times{_over_static(own)}"
    return Finding(
        expected, measured, max(found.values()) >= OF_TRAFFIC, _headroom(own, rows_of(tried, stream=TRAFFIC))
    )


def ahead_in_stocks(rows: Sequence[Row], tried: Sequence[Row]) -> Finding:
    """Figure 8."""
    expected = "in the stocks 1.3 to 1.6 times"
    own = rows_of(rows, stream=STOCKS)
    found = ratios(own, INVARIANT, THRESHOLD)
    mean = geometric_mean(found.values())
    measured = f"{ratio_range(found.values())} times, {times_as_fast(mean)} in the mean{_over_static(own)}"
    return Finding(expected, measured, mean >= OF_STOCKS, _headroom(own, rows_of(tried, stream=STOCKS)))


def fewer_replannings(rows: Sequence[Row]) -> Finding:
    """Figures 7C, 7G, 8C, 8G, for each stream."""
    expected = (
        "invariants plan again less often than the best constant threshold, and both less than unconditionally, in "
        "the traffic and in the stocks"
    )
    functions = INVARIANT, THRESHOLD, UNCONDITIONAL
    parts: list[str] = []
    fewer: list[str] = []
    fewer_new: list[str] = []
    for stream in (TRAFFIC, STOCKS):
        own = rows_of(rows, stream=stream)
        planned, switched = ([total(own, name, figure) for name in functions] for figure in ("planned", "switches"))
        of_each = zip(functions, planned, switched, strict=True)
        told = (f"{name} {of:.0f} times with {new:.0f} new plans" for name, of, new in of_each)
        parts.append(f"{stream} {', '.join(told)}")
        for found, kept in ((planned, fewer), (switched, fewer_new)):
            if found == sorted(set(found)):
                kept.append(stream)
    of_thresholds = rows_of(rows, decision=THRESHOLD)
    settled = sum(not number(row, "planned") for row in of_thresholds)
    why = f"By plans put in use, which the patent counts, it is so in: {', '.join(fewer_new) or 'neither'}"
    if settled:
        why += (
            f". In {settled} of {len(of_thresholds)} cells the best threshold never plans again: it is the static plan"
        )
    return Finding(expected, f"{'; '.join(parts)}. {why}", len(fewer) == len(parts))


def little_overhead(rows: Sequence[Row]) -> Finding:
    """Figures 7D, 7H, 8D, 8H."""
    expected = "deciding and planning take less than 1 % of the time with invariants"
    shares = [number(row, "overhead") for row in rows_of(rows, decision=INVARIANT)]
    measured = f"{min(shares):.1%} to {max(shares):.1%}, {median(shares):.1%} in the middle"
    return Finding(expected, measured, max(shares) < OVERHEAD, f"{_most_overhead(rows)} {of_costs(rows)}")


def unconditional_is_worst_in_stocks(rows: Sequence[Row]) -> Finding:
    """Figure 8, on the static plan."""
    expected = "in the stocks the static plan is decidedly ahead of replanning unconditionally"
    own = rows_of(rows, stream=STOCKS)
    found, tries = (lead(own, STATIC, UNCONDITIONAL, figure) for figure in ("throughput", "less_work"))
    times = f"{ratio_range(found.ratios)} times its throughput, {times_as_fast(found.mean)} in the mean"
    measured = f"{_counted(found)}; {times}. By events tried {_counted(tries)}, {times_as_fast(tries.mean)} in the mean"
    decided = all(of.mean > 1 + SAME and 2 * of.ahead > len(of.ratios) for of in (found, tries))
    return Finding(expected, measured, decided)


def more_for_trees(rows: Sequence[Row]) -> Finding:
    """The last observation."""
    expected = "invariants gain more with zstream than with greedy"
    parts, holds = [], True
    for other, over in ((STATIC, "the static plan"), (THRESHOLD, "the best constant threshold")):
        for figure, what in (("throughput", ""), ("less_work", " by events tried")):
            gains = [
                geometric_mean(ratios(rows, INVARIANT, other, figure, contenders=(contender,)).values())
                for contender in (TREE, CHAIN)
            ]
            holds &= gains[0] > max(gains[1], 1.0) * (1 + SAME)
            told = (f"{one.name} {times_as_fast(of)}" for one, of in zip((TREE, CHAIN), gains, strict=True))
            parts.append(f"over {over}{what} {', '.join(told)}")
    return Finding(expected, "; ".join(parts), holds)


def average_is_near_the_best(rows: Sequence[Row], best: Chosen, sizes: Sizes) -> Finding:
    """The validation of the average relative difference, on sequences of size 6 and more in the traffic."""
    expected = (
        "in the traffic the average relative difference is close to the best distance, within 10 %, for sequences of 6 "
        "and more (here: by the throughput that it has)"
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
        "The mean is that of |f2 - f1| / min(f1, f2) over the tightest comparison of each block (over all comparisons "
        f"it is {ratio_range(of_all)}). It is ruled by those that are not close: rates of the classes of roads differ "
        "by orders of magnitude, and an event that no condition joins with those before it costs as many times more "
        "as the condition of another one selects. With such a distance few changes are a violation. The values "
        "themselves, which the patent compares, can only be within 10 % of a best distance that was tried."
    )
    measured = f"{'; '.join(found)}. By the values themselves {sum(near)} of {len(near)} are within 10 %"
    return Finding(expected, measured, min(kept) >= 1 - WITHIN, why)


def _cases() -> Iterable[tuple[str, Contender]]:
    return [(stream, contender) for stream in (TRAFFIC, STOCKS) for contender in OF_THE_PATENT]


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


def _counted(of: Lead) -> str:
    return f"ahead in {of.ahead} of {len(of.ratios)} cells, behind in {of.behind}"


def _headroom(rows: Sequence[Row], tried: Sequence[Row]) -> str:
    """What there is to gain here at all, by events tried on partial matches."""
    of_best = per_cell(tried, lambda of: max(number(row, "less_work") for row in of))
    threshold, invariants = (
        geometric_mean([number(row, "less_work") for row in rows_of(rows, decision=name)])
        for name in (THRESHOLD, INVARIANT)
    )
    of_static = rows_of(rows, decision=STATIC)
    told = [number(row, "in_hindsight") for row in of_static]
    beyond = [number(row, "in_hindsight") / number(row, "less_work") for row in rows_of(rows, decision=THRESHOLD)]
    switches = sum(number(row, "hindsight_switches") for row in of_static)
    return (
        f"The best of all that was tried in a cell has {ratio_range(of_best)} times fewer events tried on partial "
        f"matches than the static plan, {times_as_fast(geometric_mean(of_best))} in the mean; the invariants that are "
        f"compared {times_as_fast(invariants)} times, the constant threshold {times_as_fast(threshold)}. "
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
