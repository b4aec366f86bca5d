"""How often it is decided: the same patterns of the stocks over the same events, decided about more and less often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import geometric_mean

from benchmarks.experiments.adaptation.figures import best_gain, cells_of, number, per_cell, rows_of
from benchmarks.experiments.adaptation.sizes import UNCONDITIONAL, Sizes, distance_name, threshold_name
from benchmarks.experiments.cells import Row
from benchmarks.report import markdown_table
from cep_pipeline.cli.figures import times_as_fast

_WHAT = """\
A sequence and a conjunction of {size} events over the stocks, in windows as above. How often it is decided while a \
window passes is changed, and nothing else: statistics reach back over one window each time, with as many tested \
pairs. Gains are over the static plan; t and d are here those that are best for each pattern, of as many tried. The \
more often it is decided, the more often plans follow noise, and the more of them are at work at a time: of {often} \
decisions a window, planning unconditionally has {unconditional} times the throughput of the static plan in the mean, \
of {seldom} {once} times. The best distance has {distance} times the throughput of d = 0, and {distance_once} times; \
beside the best threshold it has {lead} and {lead_once} times."""


def frequency_text(rows: Sequence[Row], sizes: Sizes) -> str:
    """What the table says, in the geometric mean over the patterns and planners."""
    seldom, often = (rows_of(rows, **{"a window": of(sizes.frequencies)}) for of in (min, max))
    return _WHAT.format(
        size=sizes.frequency_size,
        often=max(sizes.frequencies),
        seldom=min(sizes.frequencies),
        unconditional=_mean(often, lambda cell: _gain(cell, UNCONDITIONAL)),
        once=_mean(seldom, lambda cell: _gain(cell, UNCONDITIONAL)),
        distance=_mean(often, lambda cell: _of_distances(cell, sizes) / _gain(cell, distance_name(0.0))),
        distance_once=_mean(seldom, lambda cell: _of_distances(cell, sizes) / _gain(cell, distance_name(0.0))),
        lead=_mean(often, lambda cell: _of_distances(cell, sizes) / _of_thresholds(cell, sizes)),
        lead_once=_mean(seldom, lambda cell: _of_distances(cell, sizes) / _of_thresholds(cell, sizes)),
    )


def frequency_table(rows: Sequence[Row], sizes: Sizes) -> str:
    """Planners, patterns and decisions a window down."""

    def line(cell: Sequence[Row]) -> list[str]:
        first = cell[0]
        best = max(_named(cell, [distance_name(d) for d in sizes.distances]), key=lambda row: number(row, "gain"))
        [always] = _named(cell, [UNCONDITIONAL])
        gains = (
            number(always, "gain"),
            _of_thresholds(cell, sizes),
            _gain(cell, distance_name(0.0)),
            number(best, "gain"),
        )
        return [
            str(first["contender"]),
            f"{first['set']} {first['size']}",
            f"{first['a window']}",
            *map(times_as_fast, gains),
            f"{always['switches']}",
            f"{best['switches']}",
            f"{number(best, 'overhead'):.1%}",
        ]

    cells = sorted(cells_of(rows), key=lambda cell: tuple(map(str, (cell[0]["contender"], cell[0]["set"]))))
    gains = ["unconditional", "best t", "d = 0", "best d"]
    new = ["new plans, unconditional", "new plans, best d", "deciding and planning, best d"]
    return markdown_table(["planner", "set", "decisions a window", *gains, *new], [line(cell) for cell in cells])


def _mean(rows: Sequence[Row], value: Callable[[Sequence[Row]], float]) -> str:
    return times_as_fast(geometric_mean(per_cell(rows, value)))


def _of_distances(cell: Sequence[Row], sizes: Sizes) -> float:
    return best_gain(cell, map(distance_name, sizes.distances))


def _of_thresholds(cell: Sequence[Row], sizes: Sizes) -> float:
    return best_gain(cell, map(threshold_name, sizes.thresholds))


def _gain(cell: Sequence[Row], decision: str) -> float:
    [row] = _named(cell, [decision])
    return number(row, "gain")


def _named(cell: Sequence[Row], names: Sequence[str]) -> list[Row]:
    return [row for row in cell if row["decision"] in names]
