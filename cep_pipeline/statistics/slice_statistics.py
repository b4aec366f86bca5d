"""One slice of a stream counted, as a state to merge with those of the slices before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
from cep_pipeline.statistics.estimate import owned_rows, prepare
from cep_pipeline.statistics.samples import Sample, Terms, rows_of_leaves, sample_scopes
from cep_pipeline.statistics.scope_keys import scope_keys
from cep_pipeline.statistics.windowed import EPSILON, WindowedStatistics

Array = np.ndarray[Any, Any]

PAIRS_A_SLICE = 16_384
"""Pairs that are tested a scope in each slice, unless told otherwise."""
CELLS = 512
"""Parts of a slice, of equal numbers of events, that the tested pairs of a scope are told apart by."""


def windowed_statistics(
    patterns: Sequence[Pattern],
    events: pa.Table | PreparedEvents,
    window: Window,
    epsilon: float = EPSILON,
    *,
    start: Boundary | None = None,
    end: Boundary | None = None,
    seed: int = 0,
    max_pairs: int = PAIRS_A_SLICE,
    threads: int = 1,
) -> WindowedStatistics:
    """Count one slice of a stream, as a state to merge with those of the slices before and after it.

    Parameters
    ----------
    patterns
        Patterns of one stream.
    events
        The events of the slice, with the look-back before `start` that the longest window of a pattern takes.
    start, end
        The slice is `[start, end)`: its events are counted, and the pairs whose later event it has.
    seed
        Decides which pairs are drawn.
    max_pairs
        At most this many pairs are tested a scope; where there are fewer, all are.
    threads
        Scopes whose pairs are found at once; what is found does not depend on it.

    Raises
    ------
    InputError
        The patterns are of several streams, or the events are not in the order of time.
    """
    prepared = prepare(patterns, events)
    times = prepared.timestamps
    if len(times) > 1 and (times[1:] < times[:-1]).any():
        raise InputError("the events are not in the order of time: sort them by (timestamp, seq)")
    owned = owned_rows(prepared, start, end)
    terms = Terms.of(patterns)
    rows = rows_of_leaves(terms.leaves, prepared)
    state = WindowedStatistics(
        patterns[0].stream, window, epsilon, [leaf.key for leaf in terms.leaves], scope_keys(terms)
    )
    first, last = owned
    own = times[first:last]
    if not len(own):
        return state
    arrivals = {}
    for leaf in terms.leaves:
        found = rows[leaf]
        mine = found[np.searchsorted(found, first) : np.searchsorted(found, last)]
        arrivals[leaf.key] = (own if len(mine) == len(own) else times[mine]), mine.astype(np.int64) - first
    edges = first + np.arange(CELLS + 1) * len(own) // CELLS
    conditions = {scope.key: scope.conditions for scope in state.scopes}
    cells = {
        scope.key: _cells(sample, conditions[scope.key], times, edges)
        for scope, sample in sample_scopes(
            terms, prepared, rows, owned, seed=seed, max_pairs=max_pairs, count_orders=False, threads=threads
        )
    }
    state.take_in(own, arrivals, cells)
    return state


def _cells(sample: Sample, conditions: Sequence[str], times: Array, edges: Array) -> tuple[Array, Array]:
    """The tested tuples of a slice by the cell of their last event: spans, and the sums of each."""
    cell = np.searchsorted(edges, sample.last, "right") - 1
    count = len(edges) - 1
    weights = np.ones(len(sample.last)) if sample.whole else sample.weights
    squared = np.zeros(len(weights)) if sample.whole else weights * weights
    rows = [np.bincount(cell, weights, count), np.bincount(cell, minlength=count), np.bincount(cell, squared, count)]
    for condition in conditions:
        holds = sample.holds[condition]
        rows += [np.bincount(cell[holds], by[holds], count) for by in (weights, squared)]
    some = edges[1:] > edges[:-1]
    spans = np.stack((times[edges[:-1][some]], times[edges[1:][some] - 1]))
    return spans, np.stack(rows)[:, some].astype(np.float64)
