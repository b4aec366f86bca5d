"""Reasons for the distance between the decision functions of `cep experiment adaptation`.

They are the costs of planning and switching, the costs of keeping statistics, and how far the clock can be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean, median

from benchmarks.experiments.adaptation.figures import INVARIANT, cell_of, cells_of, number, ratios, rows_of
from benchmarks.experiments.adaptation.patterns import PAIRS_A_CHECK
from benchmarks.experiments.adaptation.sizes import (
    CONTENDERS,
    SAME,
    STATIC,
    UNCONDITIONAL,
    Sizes,
    distance_name,
    threshold_name,
)
from benchmarks.experiments.cells import Row
from cep_pipeline.cli.figures import format_seconds, times_as_fast


def reasons_text(rows: Sequence[Row], compared: Sequence[Row], sizes: Sizes) -> str:
    """What holds the decision functions together, in some paragraphs.

    Parameters
    ----------
    rows, compared
        Of the comparison: those of everything that was tried, as `by_decision` returns them, and those of what is
        compared.
    """
    return "\n\n".join(
        (f"{_planned_alike(rows, sizes)} {of_costs(compared)}", _of_switches(compared), _of_the_clock(rows, sizes))
    )


def _planned_alike(rows: Sequence[Row], sizes: Sizes) -> str:
    """Why decision functions cannot be far apart where planning costs little beside detection."""
    tightest, least = distance_name(min(sizes.distances)), threshold_name(min(sizes.thresholds))
    same = {
        name: sum(ratio == 1.0 for ratio in ratios(rows, name, UNCONDITIONAL, "candidates").values())
        for name in (tightest, least)
    }
    cells = len(ratios(rows, STATIC, UNCONDITIONAL, "candidates"))
    share = geometric_mean([max(number(row, "overhead"), 1e-6) for row in rows_of(rows, decision=UNCONDITIONAL)])
    return (
        "Planning is cheap here. A new plan is only used where it costs less on the latest statistics, whoever asked "
        f"for it. So the plans of {tightest} were those of planning again at every check in {same[tightest]} of "
        f"{cells} cells, and those of {least} in {same[least]}: they differ by what planning costs, which even "
        f"unconditionally is {share:.1%} of the time, and more of t or of d by changes that are seen late, or are not "
        "worth a switch. In the patent unconditional planning took up to 11 % of the time."
    )


def of_costs(rows: Sequence[Row]) -> str:
    """What deciding and planning cost beside detection."""
    own = [row for row in rows_of(rows, decision=INVARIANT) if number(row, "checks")]
    checks, planned = (sum(number(row, name) for row in own) for name in ("checks", "planned"))
    deciding, planning, detecting = (
        sum(number(row, name) for row in own) for name in ("deciding", "planning", "detecting")
    )
    if not checks:
        return ""
    plans = planned + len(own)  # the first plans too
    intervals = checks + sum(number(row, "reach") + 1 for row in own)  # those before the first check, and the last
    return (
        f"A check takes {1e6 * deciding / checks:.0f} µs of processor time and a plan "
        f"{1e6 * planning / plans:.0f} µs, with cold caches; detection between two checks takes the kernels "
        f"{format_seconds(detecting / intervals)}."
    )


def per_try_text(rows: Sequence[Row]) -> str:
    """What a try takes where plans stay, and where they are switched."""
    switched = [row for row in rows if number(row, "switches")]
    if not switched:
        return "No plan was switched."
    static, others = (
        geometric_mean([1e9 * number(row, "detecting") / max(number(row, "candidates"), 1.0) for row in own])
        for own in (rows_of(rows, decision=STATIC), switched)
    )
    return (
        f"Gains are not those of tries alone: runs of the static plan take {static:.0f} ns a try in the mean, and runs "
        f"that switch {others:.0f} ns. By another plan a try tests other conditions, and other things come of it. "
        "Where plans are switched detection runs over shorter pieces, each of which reads one window more; where they "
        "stay, over all of the stream at once."
    )


def estimating_text(rows: Sequence[Row]) -> str:
    """What keeping statistics costs beside, for each planner: detection takes some of them little time."""
    found = []
    for contender in CONTENDERS:
        shares, longer = [], []
        for cell in cells_of(rows_of(rows, contender=contender.name)):
            [own], [static] = (rows_of(cell, decision=name) for name in (INVARIANT, STATIC))
            whole = number(own, "seconds") + number(own, "estimating")
            shares.append(number(own, "estimating") / whole)
            longer.append(whole / number(static, "seconds"))
        if shares:
            times = times_as_fast(geometric_mean(longer))
            found.append(
                f"{contender.name} {median(shares):.0%} of the time with it in the middle, {max(shares):.0%} at most, "
                f"by which invariants take {times} times as long as the static plan in the mean"
            )
    return (
        f"Keeping statistics, {PAIRS_A_CHECK:,} pairs of events being tested a condition between two decisions, is not "
        f"in these figures. It takes {'; '.join(found)}."
    )


def _of_switches(rows: Sequence[Row]) -> str:
    """What switching costs, and how far plans go on to be what they were chosen for."""
    own = rows_of(rows, decision=UNCONDITIONAL)
    checks, switches = (sum(number(row, name) for row in own) for name in ("checks", "switches"))
    prices = [number(row, "switch_price") for row in own]
    kept = [geometric_mean([number(row, name) for row in own]) for name in ("by_latest", "by_next", "less_work")]
    invariants = rows_of(rows, decision=INVARIANT)
    worse = [row for row in invariants if number(row, "less_work") < 1 - SAME]
    return (
        f"Planning at every decision puts a new plan in use at {switches / max(checks, 1):.0%} of them. On the "
        f"statistics that they were chosen by these plans cost {times_as_fast(kept[0])} times less than the first one, "
        f"in the mean, on those of the events that they ran over {times_as_fast(kept[1])} times, and "
        f"measured {times_as_fast(kept[2])} times: part of what they are chosen for does not stay. And an old plan "
        "reads on for a window beside the new one, but for the events that only new matches begin with: that costs "
        f"{min(prices):.0%} to {max(prices):.0%} of its work in a window, {median(prices):.0%} in the middle. In "
        f"{len(worse)} of {len(invariants)} cells plans of invariants that cost less on the latest statistics did more "
        "work on the events that followed than the first plan, switches included."
    )


def _of_the_clock(rows: Sequence[Row], sizes: Sizes) -> str:
    """How much the figures of the clock differ from run to run."""
    if sizes.repetitions == 1:
        return (
            "Each run was timed once: by how much such figures differ from run to run was not measured here. Numbers "
            "of tries and of replannings are the same in each run of the command."
        )
    # Decision functions with the same plans have the same run.
    spreads = [*{(*cell_of(row), row["detecting"]): number(row, "spread") for row in rows}.values()]
    return (
        "Figures of the clock are those of a shared machine. Each run was timed until two times were within "
        f"{SAME:.0%} of each other, {sizes.repetitions} times at most, and the least time counts: the two least are "
        f"{median(spreads):.1%} apart in the middle, {max(spreads):.0%} at most, and in "
        f"{sum(spread > SAME for spread in spreads)} of {len(spreads)} runs by more than that. Numbers of tries and of "
        "replannings are the same in each run of the command."
    )
