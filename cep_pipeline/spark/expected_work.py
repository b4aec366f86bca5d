"""What plans expect to do: which kernels are worth compiling for all tasks, and how much work a row group makes."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.choice import choose_mechanisms
from cep_pipeline.detection.fused import tiers
from cep_pipeline.detection.fused.mechanism import shapes_of_plan
from cep_pipeline.detection.fused.shape import Shape
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.spark.slicing import RowGroup, Slice

_SHAPE_SHARERS = 64
"""So many clauses that need one shape are enough to make a small one of them count."""
_MAX_LN = 60.0
"""Estimates above e^60 partial matches say no more than that the slice is too large."""


def compiled_kernels(
    patterns: Sequence[Pattern], plan: Plan, mechanism: str | None, slices: Sequence[Slice]
) -> dict[str, bytes]:
    """Object code of the kernels that a plan runs over slices for long enough to need it, compiled once for all tasks.

    That is told by the partial matches that the plan expects; other shapes are interpreted by the tasks.
    """
    groups = {(group.path, group.index): group for slice_ in slices for group in slice_.row_groups}
    span_us = sum(max(group.span_us, 1) for group in groups.values())
    mechanisms = choose_mechanisms(patterns, mechanism)
    work: dict[Shape, float] = {}
    for pattern in patterns:
        if not MECHANISMS[mechanisms[pattern.name]].is_columnar:
            continue
        windows = span_us / (pattern.window.time_us or span_us or 1)
        for clause, own in zip(pattern.clauses, plan.for_pattern(pattern.name).clauses, strict=True):
            expected = windows * sum(exp(min(step.ln_partial_matches, _MAX_LN)) for step in own.steps)
            if expected < tiers.COMPILED_FROM / _SHAPE_SHARERS:
                continue
            for shape in shapes_of_plan(pattern, clause, own.order_or_tree):
                work[shape] = work.get(shape, 0.0) + expected
    return tiers.compile_shapes(shape for shape, expected in work.items() if expected >= tiers.COMPILED_FROM)


class WorkEstimate:
    """Estimated work of a row group: its events, and the partial matches that its arrival rate makes of them.

    Where events come m times as fast as on average, step k of a plan makes m^k times as many partial matches in a
    window: that is why a burst is cut finer than its number of events would say.
    """

    def __init__(self, patterns: Sequence[Pattern], plan: Plan, row_groups: Sequence[RowGroup]) -> None:
        rows = sum(group.rows for group in row_groups)
        span_us = sum(max(group.span_us, 1) for group in row_groups)
        self._mean_rate = max(rows, 1) / max(span_us, 1)
        self._steps = [
            (pattern.window.time_us or span_us, depth, step.ln_partial_matches)
            for pattern in patterns
            for clause in plan.for_pattern(pattern.name).clauses
            for depth, step in enumerate(clause.steps, start=1)
        ]

    def __call__(self, row_group: RowGroup) -> float:
        span_us = max(row_group.span_us, 1)
        density = row_group.rows / span_us / self._mean_rate
        work = float(row_group.rows)
        for window_us, depth, ln_partial_matches in self._steps:
            work += span_us / window_us * exp(min(ln_partial_matches + depth * log(density), _MAX_LN))
        return work
