"""Rates and selectivities of a window from what histograms hold of it, with their bounds and intervals."""

from __future__ import annotations

from cep_pipeline.statistics.intervals import effective_number, wilson_interval
from cep_pipeline.statistics.measured import LeafRate, Selectivity, Source
from cep_pipeline.statistics.mergeable import Estimate
from cep_pipeline.statistics.sliding_window import Sums


def selectivity_in_window(condition: str, sums: Sums, row: int) -> Selectivity:
    """The share that passes in a window, and its interval: of the sample, and of what the window's edges cut."""
    total, cut = float(sums.inside[0]), float(sums.cut[0])
    passing, passing_cut = float(min(sums.inside[row], total)), float(min(sums.cut[row], cut))
    tested = round(float(sums.inside[1] + sums.cut[1]))
    pairs = max(round(total + cut / 2), tested)
    share = min((passing + passing_cut / 2) / (total + cut / 2), 1.0)
    low = passing / (total + cut - passing_cut) if total + cut > passing_cut else share
    high = (passing + passing_cut) / (total + passing_cut) if total + passing_cut > 0 else share
    squares = float(sums.inside[2] + sums.cut[2] / 2)
    if squares:
        number = effective_number(total + cut / 2, share, squares, float(sums.inside[row + 1] + sums.cut[row + 1] / 2))
        low, high = wilson_interval(min(low, 1.0), number)[0], wilson_interval(min(high, 1.0), number)[1]
    low, high = max(0.0, min(low, share)), min(1.0, max(high, share))
    source = Source.SAMPLED_PAIRS if squares else Source.ALL_PAIRS if low == high else Source.WINDOW
    return Selectivity(condition, share, pairs, tested, source, low, high)


def rate_in_window(key: str, count: Estimate, span_s: float) -> LeafRate:
    """The rate of a leaf from the number of its events in so many seconds."""
    source = Source.COUNT if count.low == count.high else Source.WINDOW
    return LeafRate(key, count.value / span_s, round(count.value), source, count.low / span_s, count.high / span_s)
