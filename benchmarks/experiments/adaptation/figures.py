"""The cells of `cep experiment adaptation`, one row a decision function, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import cast

from benchmarks.experiments.adaptation.patterns import SEQUENCE
from benchmarks.experiments.adaptation.sizes import (
    AVERAGE,
    CHANGES,
    COMPARISON,
    META,
    SAME,
    STATIC,
    UNCONDITIONAL,
    Contender,
    Sizes,
    distance_name,
    threshold_name,
)
from benchmarks.experiments.cells import Figure, Row
from benchmarks.experiments.findings import noise_of_runs

THRESHOLD, INVARIANT = "constant threshold", "invariants"
"""The best of all that were tried of t, and of d."""
COMPARED = (STATIC, UNCONDITIONAL, THRESHOLD, INVARIANT)


def number(row: Row, name: str) -> float:
    """A figure of a row that is a number."""
    return cast(float, row[name])


def rows_of(rows: Iterable[Row], **wanted: Figure) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def by_decision(rows: Sequence[Row]) -> list[Row]:
    """The rows of cells, taken apart: one for each decision function, with what follows from its figures.

    Returns
    -------
    list of rows
        Beside what was measured: `seconds` of detecting, deciding and planning; `throughput`, events a second of them;
        `gain`, times the throughput of the static plan; `less_work`, how many times fewer events were tried on partial
        matches than by the static plan, and `in_hindsight` by the plans that were best in hindsight, where they were
        run; `overhead`, the share of deciding and planning.
    """
    apart: list[Row] = []
    for row in rows:
        key = {name: figure for name, figure in row.items() if ":" not in name}
        names = dict.fromkeys(name.partition(":")[0] for name in row if ":" in name)
        static = {name: number(row, f"{STATIC}:{name}") for name in ("detecting", "deciding", "planning", "candidates")}
        of_static = static["detecting"] + static["deciding"] + static["planning"]
        if "hindsight_candidates" in row:
            key["in_hindsight"] = max(static["candidates"], 1.0) / max(number(row, "hindsight_candidates"), 1.0)
        for decision in names:
            own = {n.partition(":")[2]: figure for n, figure in row.items() if n.startswith(f"{decision}:")}
            aside = cast(float, own["deciding"]) + cast(float, own["planning"])
            seconds = aside + cast(float, own["detecting"])
            derived: dict[str, Figure] = {
                "seconds": seconds,
                "throughput": cast(float, row["events_read"]) / seconds,
                "gain": of_static / seconds,
                "less_work": max(static["candidates"], 1.0) / max(cast(float, own["candidates"]), 1.0),
                "overhead": aside / seconds,
            }
            apart.append({**key, "decision": decision, **own, **derived})
    return apart


@dataclass(frozen=True)
class Best:
    """The best of what was tried, for one stream and contender, over the patterns that it is chosen by."""

    threshold: float
    distance: float


def chosen_by(rows: Iterable[Row], stream: str, contender: Contender) -> list[Row]:
    """The rows by which t and d are chosen: sequences, and with permuted rates all there are."""
    own = rows_of(rows, stream=stream, contender=contender.name)
    return [row for row in own if row["part"] == CHANGES or (row["part"] == COMPARISON and row["set"] == SEQUENCE)]


def mean_gain(rows: Iterable[Row], decision: str) -> float:
    """Geometric mean of the gains of a decision function."""
    return geometric_mean([number(row, "gain") for row in rows_of(rows, decision=decision)])


def best_of(rows: Sequence[Row], stream: str, contender: Contender, sizes: Sizes) -> Best:
    """The t and d that gained the most, by the geometric mean over the sequences."""
    own = chosen_by(rows, stream, contender)
    threshold = max(sizes.thresholds, key=lambda t: mean_gain(own, threshold_name(t)))
    distance = max(sizes.distances, key=lambda d: mean_gain(own, distance_name(d)))
    return Best(threshold, distance)


def compared_rows(rows: Sequence[Row], best: Mapping[tuple[str, str], Best]) -> list[Row]:
    """The rows of what is compared, those of the best t and d by their own names; and of the two other distances."""
    found: list[Row] = []
    for row in rows:
        of = best[str(row["stream"]), str(row["contender"])]
        names = {
            STATIC: STATIC,
            UNCONDITIONAL: UNCONDITIONAL,
            threshold_name(of.threshold): THRESHOLD,
            distance_name(of.distance): INVARIANT,
            AVERAGE: AVERAGE,
            META: META,
        }
        if row["decision"] in names:
            found.append({**row, "decision": names[str(row["decision"])]})
    return found


def ratios(
    rows: Iterable[Row], one: str, other: str, figure: str = "throughput", contenders: Sequence[Contender] = ()
) -> dict[tuple[Figure, ...], float]:
    """For each cell how many times one decision function's figure is the other's."""
    names = {contender.name for contender in contenders}
    by_cell: dict[tuple[Figure, ...], dict[str, float]] = {}
    for row in rows:
        if not names or row["contender"] in names:
            by_cell.setdefault(cell_of(row), {})[str(row["decision"])] = number(row, figure)
    return {cell: of[one] / of[other] for cell, of in by_cell.items() if one in of and of.get(other)}


def noise_of(rows: Iterable[Row], sizes: Sizes) -> float:
    """The factor by which two times of the same run differ; infinite where each run was timed once."""
    if sizes.repetitions == 1:
        return math.inf
    # Decision functions with the same plans share one run.
    spreads = {(*cell_of(row), row["detecting"]): number(row, "spread") for row in rows}
    return noise_of_runs([1.0, 1.0 + spread] for spread in spreads.values())


@dataclass(frozen=True)
class Lead:
    """The cells in which one decision function is ahead of another one, and behind it; in the others they are alike.

    Attributes
    ----------
    ratios
        For each cell the quotient of the two figures.
    """

    ahead: int
    behind: int
    ratios: Sequence[float]

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios."""
        return geometric_mean(self.ratios)


def lead(rows: Sequence[Row], one: str, other: str, figure: str = "throughput", noise: float = 1.0) -> Lead:
    """Compare two decision functions cell by cell.

    Ratios within `SAME` are no lead. Throughputs have to differ by more than the noise, and by more than two runs of
    either of the two.
    """
    timed = figure == "throughput"
    spreads = {(cell_of(row), row["decision"]): number(row, "spread") for row in rows} if timed else {}
    found = ratios(rows, one, other, figure)
    alike = {
        cell: max(noise if timed else 1.0, 1 + SAME, *(1 + spreads.get((cell, name), 0.0) for name in (one, other)))
        for cell in found
    }
    ahead, behind = (sum(ratio**sign > alike[cell] for cell, ratio in found.items()) for sign in (1, -1))
    return Lead(ahead, behind, [*found.values()])


def room(rows: Iterable[Row], tried: Iterable[Row]) -> list[float]:
    """For each cell: tries of the best constant threshold, as a multiple of those of the best plans known.

    The best plans known are those of any decision function that was tried, and those that were chosen in hindsight.

    Parameters
    ----------
    rows, tried
        The rows of what is compared, and those of everything that was tried.
    """
    of_threshold = {cell_of(row): number(row, "less_work") for row in rows_of(rows, decision=THRESHOLD)}
    return [
        max(number(row, name) for row in cell for name in ("less_work", "in_hindsight"))
        / of_threshold[cell_of(cell[0])]
        for cell in cells_of(tried)
    ]


def cell_of(row: Row) -> tuple[Figure, ...]:
    """The values that tell the measured cells apart."""
    return tuple(row.get(name) for name in ("part", "stream", "contender", "set", "size", "phase", "a window"))


def best_gain(cell: Sequence[Row], decisions: Iterable[str]) -> float:
    """The greatest gain that one of these decision functions has in a cell."""
    names = set(decisions)
    return max(number(row, "gain") for row in cell if row["decision"] in names)


def total(rows: Iterable[Row], decision: str, figure: str) -> float:
    """The sum of a figure of a decision function."""
    return sum(number(row, figure) for row in rows_of(rows, decision=decision))


def cells_of(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of each cell."""
    cells: dict[tuple[Figure, ...], list[Row]] = {}
    for row in rows:
        cells.setdefault(cell_of(row), []).append(row)
    return [*cells.values()]


def per_cell(rows: Iterable[Row], value: Callable[[Sequence[Row]], float]) -> list[float]:
    """A value of the rows of each cell."""
    return [value(of) for of in cells_of(rows)]


def of_part(rows: Iterable[Row], part: str = COMPARISON) -> list[Row]:
    """The rows of a part."""
    return rows_of(rows, part=part)
