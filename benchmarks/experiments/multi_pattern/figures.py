"""The cells of `cep experiment multi_pattern`, one row a contender, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, geometric_mean

from benchmarks.experiments.cells import Figure, Row, number, taken_apart
from benchmarks.experiments.multi_pattern.runs import ALL, TRIVIAL, TRIVIAL_NFA


def by_contender(rows: Iterable[Row]) -> list[Row]:
    """One row a cell and contender, with its throughput and its gain over the trivial plan on the same mechanism.

    What a plan needs of created partial matches and of candidates is told as a share of the trivial plan's, too.
    """
    apart: list[Row] = []
    for row in rows:
        key, own = taken_apart(row, ":")
        for contender in ALL:
            if contender.name not in own:
                continue
            figures = own[contender.name]
            trivial = own.get(TRIVIAL_NFA.name if contender.sharing == "prefix" else TRIVIAL.name, own[TRIVIAL.name])
            derived: dict[str, Figure] = {
                "throughput": number(row, "events") / number(figures, "seconds"),
                "gain": number(trivial, "seconds") / number(figures, "seconds"),
                "less_tried": number(trivial, "candidates") / max(number(figures, "candidates"), 1.0),
            }
            apart.append({**key, "contender": contender.name, **figures, **derived})
    return apart


def mean_of(rows: Iterable[Row], name: str) -> float:
    """Geometric mean of a figure."""
    return geometric_mean([number(row, name) for row in rows])


def values_of(rows: Iterable[Row]) -> list[float]:
    """The values of a part's parameter, ascending."""
    return sorted({number(row, "value") for row in rows})


def averaged(rows: Sequence[Row], names: Sequence[str] = ()) -> list[Row]:
    """One row a part, stream, contender and value: geometric means of the gains over its workloads.

    Parameters
    ----------
    names
        Other figures, whose arithmetic means are wanted.
    """
    groups: dict[tuple[Figure, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["part"], row["stream"], row["contender"], row["value"]), []).append(row)
    return [
        {**own[0], "gain": mean_of(own, "gain"), **{name: fmean(number(row, name) for row in own) for name in names}}
        for own in groups.values()
    ]


def gains(rows: Iterable[Row], contender: str, stream: str | None = None) -> dict[tuple[Figure, ...], float]:
    """The gain of a contender by stream, value and workload."""
    return {
        (row["part"], row["stream"], row["value"], row["number"]): number(row, "gain")
        for row in rows
        if row["contender"] == contender and stream in (None, row["stream"])
    }


def ratios(rows: Sequence[Row], one: str, other: str, stream: str | None = None) -> list[float]:
    """The quotients of two contenders' gains, in each cell that has both."""
    first, second = gains(rows, one, stream), gains(rows, other, stream)
    return [gain / second[cell] for cell, gain in first.items() if cell in second]


def over_best(rows: Sequence[Row], contender: str, others: Sequence[str]) -> dict[tuple[Figure, ...], float]:
    """A contender's gain as a multiple of the best of some others', by cell."""
    own = gains(rows, contender)
    of_others = [gains(rows, other) for other in others]
    return {
        cell: gain / max(other[cell] for other in of_others if cell in other)
        for cell, gain in own.items()
        if any(cell in other for other in of_others)
    }
