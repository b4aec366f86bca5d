"""Matches of a clause with one Kleene variable counted without listing them, as integers of any size.

Without conditions between its elements, k candidates of a list give 2**k - 1 lists. With conditions on adjacent
elements, the lists that end with an element are counted from those that end with the elements before it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep_pipeline.detection.kleene.bindings import Bindings
from cep_pipeline.detection.kleene.clause import KleeneRun
from cep_pipeline.detection.kleene.compiled_lists import CompiledLists, lists_at_once
from cep_pipeline.detection.kleene.extension import CANDIDATES_AT_ONCE, Extension, ListCandidates
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import pieces, ranges

INT64_ELEMENTS = 62
"""Candidates of a list up to which the number of its lists fits an int64."""


def counts_at_once(run: KleeneRun) -> bool:
    """Return whether the matches of a run can be counted without listing them."""
    return run.owned == (None, None) and lists_at_once(run.clause)


def count_matches(run: KleeneRun) -> int:
    """The number of matches of a run that `counts_at_once` lets pass."""
    [extension] = run.extensions
    counted = run.compiled_lists()
    if counted is not None:
        total = _compiled(extension, counted)
    else:
        total = sum(_behind(extension, bindings, anchors) for bindings, anchors in run.skeletons())
    extension.tested = extension.passed = total
    return total


def _compiled(extension: Extension, counted: CompiledLists) -> int:
    total = 0
    for places, found in counted.counted():
        if not counted.conditions.adjacent:
            total += _subsets(found, anchored=counted.anchored)
            continue
        large = np.flatnonzero(found < 0)
        if len(large):
            found = np.maximum(found, 0)
            total += _behind(extension, *counted.bindings(places[:, large]))
        total += _sum(found)
    return total


def _behind(extension: Extension, bindings: Bindings, anchors: Array | None) -> int:
    """The lists behind partial matches, by vectors over many of them."""
    sizes = extension.free_sizes(bindings, anchors)
    if sizes is not None:
        return _subsets(sizes + (anchors is not None), anchored=anchors is not None)
    return sum(
        _count(extension, part)
        for candidates in extension.candidates(bindings, anchors)
        for part in _with_windows(extension, candidates)
    )


def _count(extension: Extension, candidates: ListCandidates) -> int:
    """The lists of candidates that are all in one window."""
    if extension.conditions.adjacent:
        return _paths(extension, candidates)
    anchored = candidates.anchors is not None
    return _subsets(np.diff(candidates.offsets) + anchored, anchored=anchored)


def _subsets(sizes: Array, *, anchored: bool) -> int:
    """All non-empty sub-lists of so many candidates, or those that begin with the first one, if there is any."""
    often = np.bincount(sizes)
    some = (int(size) for size in np.flatnonzero(often) if size)
    return sum(int(often[size]) * (2 ** (size - 1) if anchored else 2**size - 1) for size in some)


def _with_windows(extension: Extension, candidates: ListCandidates) -> Iterator[ListCandidates]:
    """The candidates, with each possible first element as an anchor where they are not all in one window."""
    if candidates.anchors is not None or not len(candidates.rows):
        yield candidates
        return
    sizes = np.diff(candidates.offsets)
    some = np.flatnonzero(sizes)
    rules, rows = extension.rules, candidates.rows
    first, last = rows[candidates.offsets[some]], rows[candidates.offsets[some + 1] - 1]
    wide = np.zeros(len(candidates), dtype=bool)
    wide[some] = rules.window.of_row[last] - rules.window.of_row[first] > rules.window.width
    if not wide.any():
        yield candidates
        return
    narrow = np.flatnonzero(~wide)
    yield _some(candidates, narrow)
    owner = np.repeat(np.arange(len(candidates), dtype=np.int64), sizes)
    keys = owner * (len(rules.events) + 1) + rows
    end = rules.window.end_row_within(rows)
    following = np.searchsorted(keys, owner * (len(rules.events) + 1) + end, "left") - np.arange(len(rows)) - 1
    anchors = np.flatnonzero(wide[owner])
    for start, stop in pieces(following[anchors] + 1, CANDIDATES_AT_ONCE):
        part = anchors[start:stop]
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(following[part])))
        behind = rows[ranges(part + 1, following[part])]
        yield ListCandidates(candidates.bindings.take(owner[part]), rows[part], offsets, behind)


def _some(candidates: ListCandidates, members: Array) -> ListCandidates:
    sizes = np.diff(candidates.offsets)[members]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    rows = candidates.rows[ranges(candidates.offsets[members], sizes)]
    return ListCandidates(candidates.bindings.take(members), None, offsets, rows)


def _paths(extension: Extension, candidates: ListCandidates) -> int:
    """The lists whose adjacent elements may follow each other."""
    rows, offsets = candidates.rows, candidates.offsets
    if candidates.anchors is not None:  # the anchor is the first candidate, and no list begins behind it
        rows = np.insert(rows, offsets[:-1], candidates.anchors)
        offsets = offsets + np.arange(len(offsets))
    sizes = np.diff(offsets)
    total = 0
    for dtype, members in ((np.int64, sizes <= INT64_ELEMENTS), (object, sizes > INT64_ELEMENTS)):
        owner = np.flatnonzero(members & (sizes > 0))
        if len(owner):
            total += _path_sum(extension, candidates, owner, rows, offsets, dtype)
    return total


def _path_sum(
    extension: Extension, candidates: ListCandidates, owner: Array, rows: Array, offsets: Array, dtype: type
) -> int:
    starts, sizes = offsets[owner], np.diff(offsets)[owner]
    ends_with: Array = np.zeros(len(rows), dtype)
    ends_with[starts if candidates.anchors is not None else ranges(starts, sizes)] = 1
    for step in range(1, int(sizes.max())):
        longer = sizes > step
        starts, sizes, owner = starts[longer], sizes[longer], owner[longer]
        before = ranges(starts, np.full(len(starts), step))
        here = np.repeat(starts + step, step)
        may_follow = extension.steps(candidates, np.repeat(owner, step), np.stack((rows[before], rows[here]), axis=1))
        counted = np.where(may_follow, ends_with[before], 0).reshape(len(starts), step).sum(axis=1)
        ends_with[starts + step] += counted
    if dtype is object:
        return int(sum(ends_with))
    return _sum(ends_with)


def _sum(numbers: Array) -> int:
    """The exact sum of int64s that are not negative."""
    return (int((numbers >> 32).sum()) << 32) + int((numbers & (2**32 - 1)).sum())
