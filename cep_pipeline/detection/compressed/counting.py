"""Matches of a pattern counted without listing them, as integers of any size."""

from __future__ import annotations

from cep_pipeline.detection.compressed.components import NeedsLists
from cep_pipeline.detection.compressed.groups import groups_of
from cep_pipeline.detection.compressed.lanes import Sequence
from cep_pipeline.detection.compressed.runs import MergedRuns
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents


def count_merged(pattern: Pattern, events: PreparedEvents, counters: Counters) -> int | None:
    """The number of matches of a pattern under skip_till_any_match, equal bindings of several clauses once.

    Returns
    -------
    int or None
        None where a condition asks for the lists themselves (`groups.reason_to_list` says which).
    """
    try:
        groups = groups_of(pattern)
    except NeedsLists:
        return None
    total = 0
    for group in groups:
        runs = MergedRuns(Sequence(pattern, group, events))
        total += runs.run()
        counters.count_peak(runs.peak)
    return total
