"""Positions of events, which count windows measure: in the stream, or in the partition."""

from __future__ import annotations

from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.fused.routines import gather
from cep_pipeline.detection.fused.views import View
from cep_pipeline.detection.partitions import partitions_of
from cep_pipeline.detection.prepared import PreparedEvents


def positions_of(events: PreparedEvents, view: View, partition_by: tuple[str, ...]) -> Array:
    """int64, padded: the position of each of the view's rows; ascending within a group of one partition."""
    return events.derive(
        ("positions of", view.identity, partition_by), lambda: gather(all_positions(events, partition_by), view.rows)
    )


def all_positions(events: PreparedEvents, partition_by: tuple[str, ...]) -> Array:
    """int64: every event's position, all of them, also those that no pattern names; 0 where it is alone."""
    return events.derive(("positions", partition_by), lambda: partitions_of(events, partition_by).positions)
