"""What detection observed on earlier days, in the statistics of a day."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from cep_pipeline.errors import InputError
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.combining import combine_observed
from cep_pipeline.statistics.observed import Observed

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import PatternSet
    from cep_pipeline.pipeline.steps import DayWork
    from cep_pipeline.warehouse.stream_reader import PinnedStatistics

logger = logging.getLogger(__name__)


def with_observed(
    work: DayWork, pattern_set: PatternSet, snapshot: StatisticsSnapshot, known: PinnedStatistics
) -> StatisticsSnapshot:
    """The day's snapshot for a pattern set, with what detection observed on the latest day before it.

    Always of a day before, not of the day itself, so that a day that is redone gets the statistics that it had. What
    cannot be read is said, and left out.
    """
    try:
        found = known.observed_before(pattern_set.name, work.day)
        if found is None:
            return snapshot
        day, content = found
        observed = Observed.from_json(content, f"what the detection of {pattern_set.name} observed on {day}")
    except InputError as error:
        logger.warning("%s; the statistics of %s are made without it", error, work.day)
        return snapshot
    combined = combine_observed(snapshot, pattern_set.patterns, observed, work.stream.statistics.dependent_factor)
    if combined == snapshot:
        return snapshot
    return replace(combined, notes=(*combined.notes, f"with what the detection of {day} observed"))
