"""Passes over the shared buffer. Imported only to compile them; `compressing.py` and `expansion.py` call them."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

from numba import carray, njit


def collect_edges(
    ends: int,
    end_offsets_at: Any,
    end_sources_at: Any,
    nodes: int,
    edge_offsets_at: Any,
    edge_sources_at: Any,
    stamps_at: Any,
    stack_at: Any,
    first_end: int,
    found_offsets_at: Any,
    found_at: Any,
    capacity: int,
) -> int:
    """Find the edges from which each end is reached, end after end from `first_end` on.

    Edges are sorted by target: node n has those from `edge_offsets[n]` to `edge_offsets[n + 1]`. Returns the end at
    which `found` was full, or `ends`. `stamps` holds for each node the last end that reached it, from 1.
    """
    end_offsets = carray(end_offsets_at, ends + 1)
    end_sources = carray(end_sources_at, end_offsets[ends])
    edge_offsets = carray(edge_offsets_at, nodes + 1)
    edge_sources = carray(edge_sources_at, edge_offsets[nodes])
    stamps = carray(stamps_at, nodes)
    stack = carray(stack_at, nodes)
    found_offsets = carray(found_offsets_at, ends + 1)
    found = carray(found_at, capacity)
    used = found_offsets[first_end]
    for end in range(first_end, ends):
        height = 0
        for place in range(end_offsets[end], end_offsets[end + 1]):
            node = end_sources[place]
            if node >= 0 and stamps[node] != end + 1:
                stamps[node] = end + 1
                stack[height] = node
                height += 1
        while height > 0:
            height -= 1
            node = stack[height]
            if used + edge_offsets[node + 1] - edge_offsets[node] > capacity:
                for again in range(nodes):  # this end is begun anew with more room
                    if stamps[again] == end + 1:
                        stamps[again] = 0
                return end
            for edge in range(edge_offsets[node], edge_offsets[node + 1]):
                found[used] = edge
                used += 1
                source = edge_sources[edge]
                if source >= 0 and stamps[source] != end + 1:
                    stamps[source] = end + 1
                    stack[height] = source
                    height += 1
        found_offsets[end + 1] = used
    return ends


def useful_edges(
    nodes: int,
    edges: int,
    sources_at: Any,
    targets_at: Any,
    variables_at: Any,
    events_at: Any,
    event_count: int,
    fixed_at: Any,
    current: int,
    latest: int,
    exactly: int,
    times_at: Any,
    forward_at: Any,
    backward_at: Any,
    useful_at: Any,
) -> int:
    """Mark the edges that lie on a path from node 0 to the last node which binds what is fixed; whether there is one.

    Parameters
    ----------
    sources, targets
        Edges sorted by target, which is greater than the source.
    variables, events
        What each edge binds; variable -1 binds nothing.
    fixed
        For each event the variable to which it must be bound, or -1.
    current, latest, exactly
        Other events may be bound to the variable `current` behind the event `latest`, and to greater variables; with
        `exactly` none.
    times
        For each node the event before which its runs end, plus 1: at least event_count + 1 further elements are room
        for sums.
    """
    sources = carray(sources_at, edges)
    targets = carray(targets_at, edges)
    variables = carray(variables_at, edges)
    events = carray(events_at, edges)
    fixed = carray(fixed_at, event_count)
    times = carray(times_at, nodes + event_count + 1)
    forward = carray(forward_at, nodes)
    backward = carray(backward_at, nodes)
    useful = carray(useful_at, edges)
    sums = nodes
    times[sums] = 0
    for event in range(event_count):
        times[sums + event + 1] = times[sums + event] + (1 if fixed[event] >= 0 else 0)
    for node in range(nodes):
        forward[node] = 0
        backward[node] = 0
    times[0] = 0
    forward[0] = 1
    for edge in range(edges):
        useful[edge] = 0
        source, event, variable = sources[edge], events[edge], variables[edge]
        times[targets[edge]] = event + 1
        if not forward[source]:
            continue
        if times[sums + event] != times[sums + times[source]]:
            continue  # it passes a fixed event by
        wanted = fixed[event]
        if wanted >= 0:
            if variable != wanted:
                continue
        elif variable >= 0 and (exactly or variable < current or (variable == current and event < latest)):
            continue
        useful[edge] = 1
        forward[targets[edge]] = 1
    if not forward[nodes - 1]:
        return 0
    backward[nodes - 1] = 1
    for edge in range(edges - 1, -1, -1):
        if useful[edge]:
            if backward[targets[edge]]:
                backward[sources[edge]] = 1
            else:
                useful[edge] = 0
    return 1


def distinct_events(
    ends: int,
    offsets_at: Any,
    rows_at: Any,
    total: int,
    stamps_at: Any,
    places_at: Any,
    own_at: Any,
    distinct_at: Any,
    distinct_offsets_at: Any,
) -> int:
    """Find the events that the matches of each end bind, each once and in order; their number, of all ends.

    Parameters
    ----------
    offsets
        The elements of an end are those from `offsets[end]` to `offsets[end + 1]`.
    rows
        The event of each element.
    stamps, places
        Room for each event of the slice: the last end that has it, from 1, and its place among the events of that end.
    own
        Takes the place of each element's event among those of its end.
    distinct, distinct_offsets
        Take the events of the ends, and where those of each end begin.
    """
    offsets = carray(offsets_at, ends + 1)
    elements = offsets[ends]
    rows = carray(rows_at, elements)
    stamps = carray(stamps_at, total)
    places = carray(places_at, total)
    own = carray(own_at, elements)
    distinct = carray(distinct_at, elements)
    distinct_offsets = carray(distinct_offsets_at, ends + 1)
    used = 0
    for end in range(ends):
        first = used
        least, greatest = total, -1
        for element in range(offsets[end], offsets[end + 1]):
            row = rows[element]
            if stamps[row] != end + 1:
                stamps[row] = end + 1
                distinct[used] = row
                used += 1
                least, greatest = min(least, row), max(greatest, row)
        count = used - first
        if greatest - least < 8 * count:  # the stamps of all rows between are soon read, in order
            place = first
            for row in range(least, greatest + 1):
                if stamps[row] == end + 1:
                    distinct[place] = row
                    place += 1
        else:
            for start in range(count // 2 - 1, -1, -1):  # a heap of the greatest row
                _sink(distinct, first, start, count)
            for last in range(count - 1, 0, -1):
                distinct[first], distinct[first + last] = distinct[first + last], distinct[first]
                _sink(distinct, first, 0, last)
        for place in range(count):
            places[distinct[first + place]] = place
        for element in range(offsets[end], offsets[end + 1]):
            own[element] = places[rows[element]]
        distinct_offsets[end + 1] = used
    return used


@njit(inline="always")
def _sink(heap: Any, first: int, start: int, count: int) -> None:
    """Let an entry of a heap sink below those that are greater."""
    parent = start
    while True:
        child = 2 * parent + 1
        if child >= count:
            return
        if child + 1 < count and heap[first + child + 1] > heap[first + child]:
            child += 1
        if heap[first + parent] >= heap[first + child]:
            return
        heap[first + parent], heap[first + child] = heap[first + child], heap[first + parent]
        parent = child
