"""The tables of what statistics said of the events that followed them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from benchmarks.experiments.adaptation.figures import number, of_part, rows_of
from benchmarks.experiments.adaptation.prediction import REACHES
from benchmarks.experiments.adaptation.sizes import UNCONDITIONAL
from benchmarks.experiments.cells import Row
from benchmarks.report import markdown_table
from cep_pipeline.cli.figures import times_as_fast


def errors_table(rows: Sequence[Row]) -> str:
    """By how much the numbers of the next interval are missed, by stream and by how many intervals are averaged."""
    lines = []
    for stream in dict.fromkeys(str(row["stream"]) for row in rows):
        own = rows_of(rows, stream=stream)
        errors = (geometric_mean([number(row, f"error_{reach}") for row in own]) for reach in REACHES)
        lines.append([stream, *(f"{error:.3f}" for error in errors)])
    return markdown_table(["stream", *(f"last {reach}" for reach in REACHES)], lines)


def predictions_text(rows: Sequence[Row]) -> str:
    """What the table of predictions says, and how the three rank the cells."""
    own = _planned_always(rows)
    measured = [number(row, "less_work") for row in own]
    latest, following = (
        rank_correlation([number(row, by) for row in own], measured) for by in ("by_latest", "by_next")
    )
    return (
        "How many times less work than by the first plan it is, planning again at every decision: by the cost model on "
        "the statistics that a plan was chosen by, on those of the events that it then ran over, and measured as "
        f"events tried on partial matches. The rank correlation with what was measured is {latest:.2f} over the cells "
        f"by the latest statistics and {following:.2f} by what followed. Then measured as well, of the plans that cost "
        "least in hindsight: of all that are the best ones for what followed some interval, those that cost least "
        "together on what they ran over, switches paid for. No decision function knows as much; where these plans gain "
        "nothing there is nothing to decide, as far as the cost model sees. What a switch costs is measured by a plan "
        "that takes its own place after every window."
    )


def predictions_table(rows: Sequence[Row]) -> str:
    """Cell by cell."""
    lines = []
    for row in _planned_always(rows):
        kinds = (str(row[name]) for name in ("stream", "contender", "set", "size"))
        less = (times_as_fast(number(row, name)) for name in ("by_latest", "by_next", "less_work", "in_hindsight"))
        lines.append([*kinds, *less, f"{row['hindsight_switches']}", f"{number(row, 'switch_price'):.0%}"])
    factors = ["predicted", "on what followed", "measured", "best in hindsight"]
    columns = ["stream", "planner", "set", "size", *factors, "switches", "a switch, of a window"]
    return markdown_table(columns, lines)


def _planned_always(rows: Sequence[Row]) -> list[Row]:
    return rows_of(of_part(rows), decision=UNCONDITIONAL)


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's, ties at their mean rank; 0 where one of them is all ties.

    Examples
    --------
    >>> rank_correlation([1, 2, 5], [10, 30, 20])
    0.5
    """
    ranks = [_ranks(values) for values in (one, other)]
    means = [sum(of) / len(of) for of in ranks]
    apart = [[rank - mean for rank in of] for of, mean in zip(ranks, means, strict=True)]
    spread = [sum(of * of for of in values) for values in apart]
    if 0 in spread:
        return 0.0
    return float(sum(a * b for a, b in zip(*apart, strict=True)) / (spread[0] * spread[1]) ** 0.5)


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(of < value for of in values) + (sum(of == value for of in values) - 1) / 2 for value in values]
