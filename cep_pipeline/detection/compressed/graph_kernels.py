"""Passes over the shared buffer and over listed matches. Imported only to compile them."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

from numba import carray, njit

from cep_pipeline.compiled.pointers import float64_at, further, int64_at, uint8_at


def read_lanes(
    lanes: int,
    starts: Any,
    stops: Any,
    begins: Any,
    closing: int,
    places: int,
    rows: Any,
    fits: Any,
    variables: int,
    may_bind: Any,
    places_in_pattern: Any,
    slots: int,
    slot_words_at: Any,
    needed: Any,
    tests: int,
    test_words_at: Any,
    most_runs: int,
    state_of_run: Any,
    node_of_run: Any,
    group_of_run: Any,
    slots_of_run: Any,
    table: Any,
    table_stamps: Any,
    table_size: int,
    bound_at: Any,
    state: Any,
    most_edges: int,
    most_ends: int,
    most_work: int,
    sources: Any,
    targets: Any,
    edge_variables: Any,
    edge_rows: Any,
    end_sources: Any,
    end_variables: Any,
    end_rows: Any,
) -> int:
    """Read lanes one after another with merged runs that remember single events; return the next lane.

    The edges of their graph are written.

    Parameters
    ----------
    lanes, starts, stops, begins, closing
        As `Lanes` has them.
    places, rows, fits
        int64, of each place of the sequence: its event, and the variables that it fits, a bit of each.
    variables, may_bind, places_in_pattern
        int64: for each state, a set of bound variables, those that may be bound next; and for each variable the number
        that edges have in its place, and behind them that of an event that is ignored.
    slots, slot_words
        int64, shape (slots, 3): the events that a run remembers: the variable; 1 for its first event, and 0 for its
        last one; and the address of an int64 for each event, equal for events that no test tells apart.
    needed
        int64: for each state the slots that are not forgotten, a bit of each.
    tests, test_words
        int64, shape (tests, 7): what is asked when an event is bound: the variable; 1 where that is asked of its first
        event only, 2 of further ones only; the variable that must have been bound before; the slot of the other event;
        the comparison, 1 for less, 2 for equal and 4 for greater, added up; and addresses for the bound event and for
        the other one: of a float64 of each event, NaN where it has no value.
    most_runs, state_of_run, node_of_run, group_of_run, slots_of_run
        Room for the runs of one lane.
    table, table_stamps, table_size
        int64, room to find runs in, of a power of 2 of elements, twice the number of runs or more; the stamps are less
        than that of `state`.
    bound
        int64, shape (6, most_runs): room for what runs bind an event to.
    state
        int64 (12,): the next lane, and the next stamp, which are moved on; then the numbers of nodes, of edges and of
        ends that lanes read to their end have, and the most runs of a lane; why no more is read: 0 for want of room
        for edges or ends, or as all are read, 1 for want of room for runs, 2 to look whether the work shall go on; and
        for the latter the place that the next lane is read up to, -1 otherwise, its runs, and the numbers of nodes,
        edges and ends with it, to be read on with the same arrays.
    most_edges, most_ends
        Room for edges and ends. If there is not enough for the first lane, none is written.
    most_work
        The work is interrupted when runs have been tried so often.
    sources, targets, edge_variables, edge_rows, end_sources, end_variables, end_rows
        int64: the edges and ends, as `Edges` has them.
    """
    slot_words, test_words = carray(slot_words_at, (slots, 3)), carray(test_words_at, (tests, 7))
    bound = carray(bound_at, (6, most_runs))
    full = (1 << variables) - 1
    lane, stamp = state[0], state[1]
    nodes, edges, ends, peak, runs = 0, 0, 0, 0, 0
    work, interrupted_at = 0, state[7]
    if interrupted_at >= 0:
        runs, nodes, edges, ends = state[8], state[9], state[10], state[11]
    else:
        state[2], state[3], state[4] = 0, 0, 0
    state[5], state[6], state[7] = 0, 0, -1
    while lane < lanes:
        begin_place = starts[lane]
        if interrupted_at >= 0:
            begin_place, interrupted_at = interrupted_at, -1
        else:
            runs = 0
        stop = stops[lane]
        enough = True
        for place in range(begin_place, stop):
            if work >= most_work:
                state[6], state[7], state[8] = 2, place, runs
                state[9], state[10], state[11] = nodes, edges, ends
                enough = False
                break
            row, fitting = rows[place], fits[place]
            is_last = closing != 0 and place == stop - 1
            begun = runs
            if runs + (begun + 1) * variables >= most_runs:
                # Each run may bind the event to each variable, and then be a new one.
                state[6], enough = 1, False
                break
            if edges + (begun + 1) * (variables + 1) > most_edges or ends + (begun + 1) * variables > most_ends:
                enough = False
                break
            work += begun + 1
            bindings, groups, latest = 0, 0, -1
            for source in range(begun + 1 if place < begins[lane] else begun):
                # The run behind the others is that without events.
                has = source < begun
                old = state_of_run[source] if has else 0
                wanted = fitting & may_bind[old]
                while wanted:
                    variable = 0
                    while not (wanted >> variable) & 1:
                        variable += 1
                    wanted &= wanted - 1
                    bit = 1 << variable
                    holds = True
                    for test in range(tests):
                        if test_words[test, 0] != variable:
                            continue
                        when = test_words[test, 1]
                        if (when == 1 and old & bit) or (when == 2 and not old & bit):
                            continue
                        if not (old >> test_words[test, 2]) & 1:
                            continue
                        other = slots_of_run[source * slots + test_words[test, 3]]
                        own, its = float64_at(test_words[test, 5])[row], float64_at(test_words[test, 6])[other]
                        sign = 1 if own < its else 2 if own == its else 4 if own > its else 0
                        if not test_words[test, 4] & sign:
                            holds = False
                            break
                    if not holds:
                        continue
                    new = old | bit
                    node = node_of_run[source] if has else -1
                    if new == full and (is_last or closing == 0):
                        end_sources[ends], end_rows[ends] = node, row
                        end_variables[ends] = places_in_pattern[variable]
                        ends += 1
                    if is_last or may_bind[new] == 0:
                        continue
                    same = latest >= 0 and state_of_run[latest] == new
                    for slot in range(slots):
                        value = slots_of_run[source * slots + slot] if has else -1
                        if slot_words[slot, 0] == variable and not (slot_words[slot, 1] and old & bit):
                            value = int64_at(slot_words[slot, 2])[row]
                        if not (needed[new] >> slot) & 1:
                            value = -1
                        slots_of_run[runs * slots + slot] = value
                        same = same and slots_of_run[latest * slots + slot] == value
                    run = latest if same else -1  # as most runs that bind an event are then
                    if not same:
                        word = new * 0x9E3779B97F4A7C1
                        for slot in range(slots):
                            word = (word ^ (slots_of_run[runs * slots + slot] + 1)) * 0x2545F4914F6CDD1D
                            word ^= (word >> 29) & 0x7FFFFFFFF
                        entry = (word ^ (word >> 32)) & (table_size - 1)
                        while table_stamps[entry] == stamp:
                            run = table[entry]
                            same = state_of_run[run] == new
                            for slot in range(slots):
                                same = same and slots_of_run[run * slots + slot] == slots_of_run[runs * slots + slot]
                            if same:
                                break
                            entry = (entry + 1) & (table_size - 1)
                        if not same:
                            run = runs
                            table_stamps[entry], table[entry] = stamp, run
                            state_of_run[run], node_of_run[run], group_of_run[run] = new, -1, -1
                            runs += 1
                        latest = run
                    group = group_of_run[run]
                    if group < 0:
                        group = groups
                        group_of_run[run] = group
                        bound[3, group], bound[4, group] = run, bindings
                        groups += 1
                    else:
                        bound[2, bound[5, group]] = bindings
                    bound[0, bindings], bound[1, bindings] = node, places_in_pattern[variable]
                    bound[2, bindings], bound[5, group] = -1, bindings
                    bindings += 1
            for group in range(groups):
                run = bound[3, group]
                group_of_run[run] = -1
                if run < begun:
                    sources[edges], targets[edges], edge_rows[edges] = node_of_run[run], nodes, row
                    edge_variables[edges] = places_in_pattern[variables]
                    edges += 1
                binding = bound[4, group]
                while binding >= 0:
                    sources[edges], targets[edges], edge_rows[edges] = bound[0, binding], nodes, row
                    edge_variables[edges] = bound[1, binding]
                    edges += 1
                    binding = bound[2, binding]
                node_of_run[run] = nodes
                nodes += 1
            peak = max(peak, runs)
        if state[6] != 2:
            stamp += 1
        if not enough:
            break
        lane += 1
        state[2], state[3], state[4] = nodes, edges, ends
    state[0], state[1], state[5] = lane, stamp, peak
    return int(lane)


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
