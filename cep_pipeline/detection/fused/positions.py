"""Positions of events, which count windows measure: in the stream, or in the partition."""

from __future__ import annotations

import numpy as np

from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.fused.keys import agreement_codes
from cep_pipeline.detection.fused.routines import gather, group_rows
from cep_pipeline.detection.fused.views import View
from cep_pipeline.detection.prepared import PreparedEvents


def positions_of(events: PreparedEvents, view: View, partition_by: tuple[str, ...]) -> Array:
    """int64, padded: the position of each of the view's rows; ascending within a group of one partition."""
    return events.derive(
        ("positions of", view.identity, partition_by), lambda: gather(_positions(events, partition_by), view.rows)
    )


def _positions(events: PreparedEvents, partition_by: tuple[str, ...]) -> Array:
    """int64: every event's position, all of them, also those that no pattern names; 0 where it is alone."""

    def make() -> Array:
        positions = np.zeros(len(events), np.int64)
        order, starts = _ordered(events, partition_by)
        positions[order] = np.arange(len(order)) - np.repeat(starts[:-1], np.diff(starts))
        return positions

    return events.derive(("positions", partition_by), make)


def _ordered(events: PreparedEvents, partition_by: tuple[str, ...]) -> tuple[Array, Array]:
    """The rows that have a partition, partition after partition, and where each starts."""
    if not partition_by:
        return np.arange(len(events)), np.array([0, len(events)])
    codes, groups = agreement_codes(events, partition_by)
    present = np.flatnonzero(codes >= 0)
    order, starts = group_rows(codes[present], groups)
    return present[order], starts
