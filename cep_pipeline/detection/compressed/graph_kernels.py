"""Passes over the shared buffer and over listed matches. Imported only to compile them."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import further, uint8_at


def graphs_of_ends(
    nodes: int,
    ends: int,
    offsets: Any,
    sources: Any,
    stamps: Any,
    numbers: Any,
    reached: Any,
    amounts: Any,
    state: Any,
    most_edges: int,
    edge_counts: Any,
    node_counts: Any,
    edges: Any,
    source_places: Any,
    target_places: Any,
) -> int:
    """Take the graphs of ends of matches out of a graph of many; return the number of those that there is room for.

    Parameters
    ----------
    nodes, ends, offsets, sources
        Node n has the edges from `offsets[n]` to `offsets[n + 1]`; each comes from a node less than n, or from -1, the
        beginning. The ends are nodes behind all others.
    stamps, numbers, reached, amounts
        int64, room of one element for each node and end; the stamps are less than that of `state`.
    state
        int64 (2,): the first end that is not taken yet, and the next stamp, which are moved on.
    most_edges
        The room for edges. If the first graph has more, none is taken.
    edge_counts, node_counts
        Written of each end: the edges of its graph, and its nodes with the beginning, which is place 0.
    edges, source_places, target_places
        Written of each of these edges: its number, and the places in the graph of the nodes that it joins.

    Notes
    -----
    `amounts` has the number of paths to each node, at most 2^61.
    """
    first, stamp = state[0], state[1]
    used, taken = 0, first
    while taken < ends:
        end = nodes + taken
        reached[0] = end
        stamps[end] = stamp
        found, place, own_edges = 1, 0, 0
        while place < found:
            node = reached[place]
            place += 1
            own_edges += offsets[node + 1] - offsets[node]
            for edge in range(offsets[node], offsets[node + 1]):
                source = sources[edge]
                if source >= 0 and stamps[source] != stamp:
                    stamps[source] = stamp
                    reached[found] = source
                    found += 1
        _order(reached, found, stamps, stamp)
        stamp += 1
        if used + own_edges > most_edges:
            break
        for place in range(found):
            node = reached[place]
            numbers[node] = place + 1
            amount = 0
            for edge in range(offsets[node], offsets[node + 1]):
                source = sources[edge]
                amount = min(amount + (1 if source < 0 else amounts[source]), 1 << 61)
                edges[used] = edge
                source_places[used] = 0 if source < 0 else numbers[source]
                target_places[used] = place + 1
                used += 1
            amounts[node] = amount
        edge_counts[taken - first], node_counts[taken - first] = own_edges, found + 1
        taken += 1
    state[0], state[1] = taken, stamp
    return int(taken - first)


def paths_through(
    nodes: int,
    edges: int,
    sources: Any,
    targets: Any,
    variables: Any,
    events: Any,
    event_count: int,
    fixed: Any,
    current: int,
    latest: int,
    exactly: int,
    times: Any,
    amounts: Any,
    useful: Any,
) -> int:
    """Mark the edges of the paths from node 0 to the last node that bind what is fixed; return their number.

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
    times, amounts
        int64, room: of one element for each node, and for `times` of `event_count + 1` further ones.
    useful
        uint8, written: of each edge.

    Returns
    -------
    int
        2^61 where there are more.
    """
    sums = further(times, nodes)
    sums[0] = 0
    for event in range(event_count):
        sums[event + 1] = sums[event] + (1 if fixed[event] >= 0 else 0)
    for node in range(nodes):
        amounts[node] = 0
    times[0], amounts[0] = 0, 1  # the event before which the runs of a node end, plus 1; the paths to it
    for edge in range(edges):
        source, target, event, variable = sources[edge], targets[edge], events[edge], variables[edge]
        useful[edge] = 0
        times[target] = event + 1
        if amounts[source] == 0 or sums[event] != sums[times[source]]:
            continue  # nothing leads there, or it passes a fixed event by
        wanted = fixed[event]
        if wanted >= 0:
            if variable != wanted:
                continue
        elif variable >= 0 and (exactly or variable < current or (variable == current and event < latest)):
            continue
        useful[edge] = 1
        amounts[target] = min(amounts[target] + amounts[source], 1 << 61)
    found = amounts[nodes - 1]
    amounts[nodes - 1] = -1  # where a node leads to the last one
    for edge in range(edges - 1, -1, -1):
        if useful[edge] and amounts[targets[edge]] < 0:
            amounts[sources[edge]] = -1
        else:
            useful[edge] = 0
    return int(found)


def events_of_ends(
    ends: int,
    bounds: Any,
    rows: Any,
    stamps: Any,
    place_of_event: Any,
    stamp: int,
    counts: Any,
    distinct: Any,
    places: Any,
) -> int:
    """Find the events of the matches with each end, each once; return the number of all of them.

    Parameters
    ----------
    bounds, rows
        The elements of end e are those from `bounds[e]` to `bounds[e + 1]`, int64; the event of each, int32.
    stamps, place_of_event, stamp
        int32, room of one element for each event; the stamps are less than `stamp`, and then less than `stamp + ends`.
    counts, distinct, places
        Written: of each end the number of its events, int64, and these, ascending, int32; and of each element the place
        of its event among them, int32.
    """
    events = 0
    for end in range(ends):
        begin, stop, count, own = bounds[end], bounds[end + 1], 0, further(distinct, events)
        for element in range(begin, stop):
            row = rows[element]
            if stamps[row] != stamp:
                stamps[row] = stamp
                own[count] = row
                count += 1
        _order(own, count, stamps, stamp)
        for place in range(count):
            place_of_event[own[place]] = place
        for element in range(begin, stop):
            places[element] = place_of_event[rows[element]]
        counts[end] = count
        events, stamp = events + count, stamp + 1
    return int(events)


def copy_ranges(count: int, sources: Any, targets: Any, sizes: Any, source_from: int, target_from: int) -> int:
    """Copy ranges of bytes: so many from each source, counted from an address, to each target, from another one."""
    for number in range(count):
        source, target = uint8_at(source_from + sources[number]), uint8_at(target_from + targets[number])
        for byte in range(sizes[number]):
            target[byte] = source[byte]
    return count


@njit(inline="always")
def _order(numbers: Any, count: int, stamps: Any, stamp: int) -> None:
    """Sort so many different numbers, ascending: they alone have this stamp."""
    least, most = numbers[0], numbers[0]
    for place in range(count):
        least, most = min(least, numbers[place]), max(most, numbers[place])
    if most - least < 8 * count:
        place = 0
        for number in range(least, most + 1):
            if stamps[number] == stamp:
                numbers[place] = number
                place += 1
        return
    gap = 1  # Shell's sort
    while 3 * gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(gap, count):
            number, at = numbers[place], place
            while at >= gap and numbers[at - gap] > number:
                numbers[at] = numbers[at - gap]
                at -= gap
            numbers[at] = number
        gap //= 3
