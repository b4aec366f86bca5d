"""Passes over the shared buffer and over listed matches. Imported only to compile them."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

from numba import carray, njit

from cep_pipeline.compiled.pointers import int32_at, int64_at, uint8_at


def read_lanes(
    lanes: int,
    starts_at: Any,
    stops_at: Any,
    begins_at: Any,
    closing: int,
    places: int,
    rows_at: Any,
    fits_at: Any,
    variables: int,
    may_bind_at: Any,
    places_in_pattern_at: Any,
    slots: int,
    slot_words_at: Any,
    needed_at: Any,
    tests: int,
    test_words_at: Any,
    most_runs: int,
    state_of_run_at: Any,
    node_of_run_at: Any,
    group_of_run_at: Any,
    slots_of_run_at: Any,
    table_at: Any,
    table_stamps_at: Any,
    table_size: int,
    bound_at: Any,
    state_at: Any,
    most_edges: int,
    most_ends: int,
    most_work: int,
    sources_at: Any,
    targets_at: Any,
    edge_variables_at: Any,
    edge_rows_at: Any,
    end_sources_at: Any,
    end_variables_at: Any,
    end_rows_at: Any,
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
        int64, shape (tests, 9): what is asked when an event is bound: the variable; 1 where that is asked of its first
        event only, 2 of further ones only; the variable that must have been bound before; the slot of the other event;
        the comparison, 1 for less, 2 for equal and 4 for greater, added up; and addresses for the bound event and for
        the other one: of an int64 of each event, its rank, and of a byte, 0 where it has none.
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
    starts, stops, begins = carray(starts_at, lanes), carray(stops_at, lanes), carray(begins_at, lanes)
    rows, fits = carray(rows_at, places), carray(fits_at, places)
    may_bind = carray(may_bind_at, 1 << variables)
    needed = carray(needed_at, 1 << variables)
    places_in_pattern = carray(places_in_pattern_at, variables + 1)
    slot_words, test_words = carray(slot_words_at, (slots, 3)), carray(test_words_at, (tests, 9))
    state_of_run, node_of_run = carray(state_of_run_at, most_runs), carray(node_of_run_at, most_runs)
    group_of_run, slots_of_run = carray(group_of_run_at, most_runs), carray(slots_of_run_at, most_runs * slots)
    table, table_stamps = carray(table_at, table_size), carray(table_stamps_at, table_size)
    bound = carray(bound_at, (6, most_runs))
    state = carray(state_at, 12)
    sources, targets = carray(sources_at, most_edges), carray(targets_at, most_edges)
    edge_variables, edge_rows = carray(edge_variables_at, most_edges), carray(edge_rows_at, most_edges)
    end_sources, end_variables = carray(end_sources_at, most_ends), carray(end_variables_at, most_ends)
    end_rows = carray(end_rows_at, most_ends)
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
                        if not (uint8_at(test_words[test, 6])[row] and uint8_at(test_words[test, 8])[other]):
                            holds = False
                            break
                        own, its = int64_at(test_words[test, 5])[row], int64_at(test_words[test, 7])[other]
                        sign = 1 if own < its else 2 if own == its else 4
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


def write_graphs(
    ends: int,
    end_offsets_at: Any,
    end_sources_at: Any,
    end_variables_at: Any,
    end_rows_at: Any,
    nodes: int,
    edge_offsets_at: Any,
    edge_sources_at: Any,
    edge_variables_at: Any,
    edge_rows_at: Any,
    head_from: int,
    head_size: int,
    events: int,
    timestamps_at: Any,
    seqs_at: Any,
    node_stamps_at: Any,
    numbers_at: Any,
    reached_at: Any,
    event_stamps_at: Any,
    places_at: Any,
    distinct_at: Any,
    digits: int,
    digits_at: Any,
    state_at: Any,
    most_ends: int,
    most_bytes: int,
    counts_at: Any,
    row_offsets_at: Any,
    rows_at: Any,
    buffer_offsets_at: Any,
    buffers_from: int,
) -> int:
    """Write the graphs of ends of matches, each as its buffer has it before it is compressed; return their number.

    Parameters
    ----------
    ends, end_offsets
        The number of ends that are left; end e has the entries from `end_offsets[e]` to `end_offsets[e + 1]`.
    end_sources, end_variables, end_rows
        int64, of each entry: the node before the last event, or -1; and the event, by variable and row.
    nodes, edge_offsets
        Node n has the edges from `edge_offsets[n]` to `edge_offsets[n + 1]`.
    edge_sources, edge_variables, edge_rows
        int64, of each edge: the node before the event, which is less than n, or -1; and the event.
    head_from, head_size
        What each graph has before it: an address, with 7 readable bytes behind; in bytes.
    node_stamps, numbers, reached
        int64, room of one element for each node, and one more for `reached`; the stamps are less than that of `state`.
    event_stamps, places, distinct
        Room of one element for each event, and one more for `distinct`; the stamps are less than that of `state`.
    digits, digits_at
        A number of matches has so many digits of 32 bits; int64, room for those of each node, and of one more.
    state
        int64 (3,): the first end that is not written yet, and the next stamp, which are moved on; and why no more is
        written: 0 for want of room, 1 for want of digits.
    most_ends, most_bytes
        The room for graphs. If the first one has not enough of it, none is written.
    counts, row_offsets, rows, buffer_offsets, buffers_from
        Written of each end: the digits of its number of matches, the least first; the rows of its events; and its
        graph, which lies at an address.
    """
    state = carray(state_at, 3)
    first, stamp = state[0], state[1]
    end_offsets = carray(end_offsets_at, ends + 1)
    end_sources = carray(end_sources_at, end_offsets[ends])
    end_variables = carray(end_variables_at, end_offsets[ends])
    end_rows = carray(end_rows_at, end_offsets[ends])
    edge_offsets = carray(edge_offsets_at, nodes + 1)
    edge_sources = carray(edge_sources_at, edge_offsets[nodes])
    edge_variables = carray(edge_variables_at, edge_offsets[nodes])
    edge_rows = carray(edge_rows_at, edge_offsets[nodes])
    timestamps, seqs = carray(timestamps_at, events), carray(seqs_at, events)
    node_stamps, numbers, reached = carray(node_stamps_at, nodes), carray(numbers_at, nodes), carray(reached_at, nodes)
    event_stamps, places = carray(event_stamps_at, events), carray(places_at, events)
    distinct = carray(distinct_at, events + 1)
    amounts = carray(digits_at, (nodes + 1) * digits)
    counts = carray(counts_at, (most_ends, digits))
    row_offsets, rows = carray(row_offsets_at, most_ends + 1), carray(rows_at, most_bytes // 16)
    buffer_offsets = carray(buffer_offsets_at, most_ends + 1)
    row_offsets[0] = 0
    buffer_offsets[0] = 0
    used, used_rows, written = 0, 0, 0
    state[2] = 0
    while first < ends and written < most_ends:
        begin, stop = end_offsets[first], end_offsets[first + 1]
        # The nodes before the end, in order.
        found, taken = 0, 0
        edges = stop - begin
        for entry in range(begin, stop):
            node = end_sources[entry]
            if node >= 0 and node_stamps[node] != stamp:
                node_stamps[node] = stamp
                reached[found] = node
                found += 1
        while taken < found:
            node = reached[taken]
            taken += 1
            edges += edge_offsets[node + 1] - edge_offsets[node]
            for edge in range(edge_offsets[node], edge_offsets[node + 1]):
                source = edge_sources[edge]
                if source >= 0 and node_stamps[source] != stamp:
                    node_stamps[source] = stamp
                    reached[found] = source
                    found += 1
        _order(reached, found, node_stamps, stamp, nodes)
        # The events, in order.
        event_stamps[end_rows[begin]] = stamp
        distinct[0], count = end_rows[begin], 1
        for place in range(found):
            node = reached[place]
            numbers[node] = place + 1
            row = -1
            for edge in range(edge_offsets[node], edge_offsets[node + 1]):
                if edge_rows[edge] != row:
                    row = edge_rows[edge]
                    if event_stamps[row] != stamp:
                        event_stamps[row] = stamp
                        distinct[count] = row
                        count += 1
        _order(distinct, count, event_stamps, stamp, events)
        for place in range(count):
            places[distinct[place]] = place
        stamp += 1
        room = head_size + 12 + 16 * count + 14 * edges
        if used + room + 8 > most_bytes:
            break
        # The number of paths to each node.
        needed = 1
        for place in range(found + 1):
            node = reached[place] if place < found else -1
            at = place * digits
            for digit in range(digits):
                amounts[at + digit] = 0
            from_edge = edge_offsets[node] if node >= 0 else begin
            to_edge = edge_offsets[node + 1] if node >= 0 else stop
            for edge in range(from_edge, to_edge):
                source = edge_sources[edge] if node >= 0 else end_sources[edge]
                if source < 0:
                    amounts[at] += 1
                else:
                    own = (numbers[source] - 1) * digits
                    for digit in range(needed):
                        amounts[at + digit] += amounts[own + digit]
            for digit in range(needed):
                carry = amounts[at + digit] >> 32
                amounts[at + digit] &= 0xFFFFFFFF
                if carry:
                    if digit + 1 == digits:
                        state[2] = 1
                        break
                    amounts[at + digit + 1] += carry
                    if digit + 1 == needed:
                        needed += 1
            if state[2]:
                break
        if state[2]:
            break
        for digit in range(digits):
            counts[written, digit] = amounts[found * digits + digit]
        # The graph.
        source_words, target_words = int64_at(head_from), int64_at(buffers_from + used)
        for word in range((head_size + 7) // 8):  # what is behind the head is written later
            target_words[word] = source_words[word]
        at = buffers_from + used + head_size
        sizes = int32_at(at)
        sizes[0], sizes[1], sizes[2] = count, edges, found + 2
        times_of_buffer, seqs_of_buffer = int64_at(at + 12), int64_at(at + 12 + 8 * count)
        time, seq = 0, 0
        for place in range(count):
            row = distinct[place]
            rows[used_rows + place] = row
            times_of_buffer[place], seqs_of_buffer[place] = timestamps[row] - time, seqs[row] - seq
            time, seq = timestamps[row], seqs[row]
        at += 12 + 16 * count
        targets, sources, of_edges = int32_at(at), int32_at(at + 4 * edges), int32_at(at + 8 * edges)
        edge_of_buffer, event = 0, 0
        for place in range(found + 1):
            node = reached[place] if place < found else -1
            from_edge = edge_offsets[node] if node >= 0 else begin
            to_edge = edge_offsets[node + 1] if node >= 0 else stop
            step = 1
            for edge in range(from_edge, to_edge):
                source = edge_sources[edge] if node >= 0 else end_sources[edge]
                row = edge_rows[edge] if node >= 0 else end_rows[edge]
                targets[edge_of_buffer] = step
                sources[edge_of_buffer] = (0 if source < 0 else numbers[source]) - (place + 1)
                of_edges[edge_of_buffer] = places[row] - event
                variable = edge_variables[edge] if node >= 0 else end_variables[edge]
                int32_at(at + 12 * edges + 2 * edge_of_buffer)[0] = variable  # the next one is written over its half
                event, step = places[row], 0
                edge_of_buffer += 1
        used += room
        used_rows += count
        first += 1
        written += 1
        row_offsets[written] = used_rows
        buffer_offsets[written] = used
    state[0], state[1] = first, stamp
    return written


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


def write_listed(
    matches: int,
    width: int,
    match_step: int,
    step: int,
    offsets: Any,
    rows: Any,
    variables_alike: int,
    variables: Any,
    statement_from: int,
    statement_size: int,
    digest: int,
    timestamps: Any,
    seqs: Any,
    attributes: int,
    attribute_words_at: Any,
    stamps: Any,
    places: Any,
    distinct: Any,
    state: Any,
    most_ends: int,
    most_bytes: int,
    end_seqs: Any,
    end_times: Any,
    count_offsets: Any,
    counts: Any,
    buffer_offsets: Any,
    buffers_from: int,
) -> int:
    """Write the buffers of matches that are in order, one for all that end with the same event; return their number.

    Parameters
    ----------
    matches, width, match_step, step
        Element e of match m is `rows[m * match_step + e * step]`, e below `width`. With width 0 they are of different
        sizes: the elements of match m are those from `offsets[m]` to `offsets[m + 1]`.
    variables, variables_alike
        int16, of each element; where `variables_alike`, only those of one match, which all others bind, too.
    statement_from, statement_size, digest
        The address of the statement, with 7 readable bytes behind it; its bytes; and its digest.
    attribute_words
        int64, shape (attributes, 5): the bytes of a value, 1 or 8, and 0 for texts; and addresses: of the value of each
        event, which is the number of a text (int32) where there are texts; of a byte for each event, 0 where it has no
        value, or 0 if all have one; of the bounds of the texts (int64); and of their letters.
    stamps, places, distinct
        Room of one element for each event, and one more for `distinct`; the stamps are less than that of `state`.
    state
        int64 (3,): the first match that is not written yet, and the next stamp, which are moved on; and 0 where the
        next buffer has the statement, which is then set to 1: the others have the digest in its place.
    most_ends, most_bytes
        The room for buffers. If the first one has not enough of it, none is written.
    end_seqs, end_times, count_offsets, counts, buffer_offsets, buffers_from
        Written: seq and time of each end, its number of matches as text, and its buffer, which lies at an address.
    """
    attribute_words, buffers = carray(attribute_words_at, (attributes, 5)), uint8_at(buffers_from)
    first, stamp = state[0], state[1]
    used, letters, ends = 0, 0, 0
    count_offsets[0] = 0
    buffer_offsets[0] = 0
    while first < matches and ends < most_ends:
        stop, last, count, elements = first, -1, 0, 0
        while stop < matches:
            begin = stop * match_step if width else offsets[stop]
            length = width if width else offsets[stop + 1] - begin
            high = -1
            for element in range(length):
                high = max(high, rows[begin + element * step])
            if stop > first and high != last:
                break
            last = high
            stamps[last] = stamp
            for element in range(length):
                row = rows[begin + element * step]
                if stamps[row] != stamp:
                    stamps[row] = stamp
                    distinct[count] = row
                    count += 1
            elements += length
            stop += 1
        _order(distinct, count, stamps, stamp, last)
        distinct[count] = last
        count += 1
        stamp += 1
        for place in range(count):
            places[distinct[place]] = place
        place_size = 1 if count <= 256 else 2 if count <= 65536 else 4
        room = (32 if state[2] else 36 + statement_size) + 16 * count + place_size * elements
        room += 2 * width if width else 4 * (stop - first) + 2 * elements
        for attribute in range(attributes):
            value_size = attribute_words[attribute, 0]
            room += (1 + value_size if value_size else 5) * count
            if value_size == 0:
                for place in range(count):
                    room += _text_of(attribute_words, attribute, distinct[place])[1]
        if used + room + 8 > most_bytes:
            break
        at = used
        head = buffers_from + at
        if state[2]:
            int64_at(head)[0] = 0x42504543 | 3 << 32 | 1 << 40  # the magic, the version and the kind
            int64_at(head)[1] = digest
            sizes = int32_at(head + 16)
            at += 32
        else:
            int64_at(head)[0] = 0x42504543 | 2 << 32 | 1 << 40
            int64_at(head)[1] = room - 16
            int32_at(head + 16)[0] = statement_size
            sizes = int32_at(head + 20)
            at += 36
            source, target = int64_at(statement_from), int64_at(buffers_from + at)
            for word in range((statement_size + 7) // 8):  # what is behind the text is written later
                target[word] = source[word]
            at += statement_size
            state[2] = 1
        sizes[0], sizes[1], sizes[2], sizes[3] = count, stop - first, width, place_size
        times_of_buffer, seqs_of_buffer = int64_at(buffers_from + at), int64_at(buffers_from + at + 8 * count)
        for place in range(count):
            row = distinct[place]
            times_of_buffer[place], seqs_of_buffer[place] = timestamps[row], seqs[row]
        at += 16 * count
        if width:
            begin = 0 if variables_alike else first * width
            for element in range(width):
                _put(buffers, at + 2 * element, variables[begin + element])
            at += 2 * width
        else:
            for match in range(first, stop):
                int32_at(buffers_from + at)[0] = offsets[match + 1] - offsets[match]
                at += 4
            begin = offsets[first]
            for element in range(elements):
                _put(buffers, at + 2 * element, variables[begin + element])
            at += 2 * elements
        for match in range(first, stop):
            begin = match * match_step if width else offsets[match]
            length = width if width else offsets[match + 1] - begin
            for element in range(length):
                place = places[rows[begin + element * step]]
                if place_size == 1:
                    buffers[at] = place
                elif place_size == 2:
                    _put(buffers, at, place)
                else:
                    int32_at(buffers_from + at)[0] = place
                at += place_size
        for attribute in range(attributes):
            value_size = attribute_words[attribute, 0]
            presence_from = attribute_words[attribute, 2]
            for place in range(count):
                buffers[at + place] = 1 if presence_from == 0 else uint8_at(presence_from)[distinct[place]]
            presence, at = at, at + count
            if value_size == 8:
                values, target = int64_at(attribute_words[attribute, 1]), int64_at(buffers_from + at)
                for place in range(count):
                    target[place] = values[distinct[place]] * buffers[presence + place]
                at += 8 * count
            elif value_size == 1:
                truths = uint8_at(attribute_words[attribute, 1])
                for place in range(count):
                    buffers[at + place] = truths[distinct[place]] & buffers[presence + place]
                at += count
            else:
                lengths = int32_at(buffers_from + at)
                at += 4 * count
                for place in range(count):
                    letters_from, length = _text_of(attribute_words, attribute, distinct[place])
                    lengths[place] = length
                    source, target = int64_at(letters_from), int64_at(buffers_from + at)
                    for word in range((length + 7) // 8):  # what is behind the text is written later
                        target[word] = source[word]
                    at += length
        used = at
        end_seqs[ends], end_times[ends] = seqs[last], timestamps[last]
        left, digits, tens = stop - first, 1, 10
        while left >= tens:
            digits, tens = digits + 1, 10 * tens
        for digit in range(digits - 1, -1, -1):
            counts[letters + digit] = 48 + left % 10
            left //= 10
        letters += digits
        ends += 1
        count_offsets[ends] = letters
        buffer_offsets[ends] = used
        first = stop
    state[0], state[1] = first, stamp
    return ends


def read_listed(
    first: int,
    stop: int,
    offsets: Any,
    data_from: int,
    digest: int,
    operands: int,
    attributes: int,
    attribute_words_at: Any,
    fills: int,
    totals: Any,
    timestamps: Any,
    seqs: Any,
    match_offsets: Any,
    events: Any,
    variables: Any,
) -> int:
    """Read buffers of version 3 that lie one after another; return the number of those that are as they should be.

    It ends before a buffer of another version or statement, and before one that is damaged, or has more than a few
    events whose seqs do not rise.

    Parameters
    ----------
    first, stop, offsets, data_from
        Buffer b lies from `offsets[b]` to `offsets[b + 1]` behind an address.
    digest, operands
        Of their pattern: the digest of its statement, and how many variables it has.
    attribute_words
        int64, shape (attributes, 4): the bytes of a value, 1 or 8, and 0 for texts; and the addresses that `fills`
        asks for: of a byte for each event, 0 where it has no value; of the values, or the length of each text (int32);
        and of the letters.
    fills
        0: what comes next stays as it is, and only `totals` is set.
    totals
        int64 (3 + attributes,), written: the number of events, of matches and of their elements, and the letters of
        each attribute's texts.
    timestamps, seqs, match_offsets, events, variables
        Written: of each event; where the elements of each match begin, and behind the last one; and of each element
        its event, counted through all buffers, and its variable.
    """
    attribute_words = carray(attribute_words_at, (attributes, 4))
    all_events, all_matches, all_elements = 0, 0, 0
    for total in range(3 + attributes):
        totals[total] = 0
    if fills:
        match_offsets[0] = 0
    for number in range(first, stop):
        at, end = data_from + offsets[number], data_from + offsets[number + 1]
        if end - at < 32 or int64_at(at)[0] != 0x42504543 | 3 << 32 | 1 << 40 or int64_at(at)[1] != digest:
            return number - first
        sizes = int32_at(at + 16)
        count, matches, width, place_size = sizes[0], sizes[1], sizes[2], sizes[3]
        at += 32
        is_right = count > 0 and matches > 0 and width >= 0 and 0 < place_size <= 4 and place_size != 3
        if not is_right or 16 * count + (2 * width if width else 4 * matches) > end - at:
            return number - first
        times_of_buffer, seqs_of_buffer = int64_at(at), int64_at(at + 8 * count)
        at += 16 * count
        rising = True
        for event in range(1, count):
            is_right = is_right and times_of_buffer[event - 1] <= times_of_buffer[event]
            rising = rising and seqs_of_buffer[event - 1] < seqs_of_buffer[event]
        if not rising:
            is_right = is_right and count <= 64
            for event in range(count if is_right else 0):
                for other in range(event):
                    is_right = is_right and seqs_of_buffer[other] != seqs_of_buffer[event]
        lengths, elements = int32_at(at), width * matches
        if width == 0:
            for match in range(matches):
                is_right = is_right and lengths[match] > 0
                elements += lengths[match]
            at += 4 * matches
        bound, own_variables = uint8_at(at), width if width else elements
        if not is_right or elements > end - at or 2 * own_variables + place_size * elements > end - at:
            return number - first
        for variable in range(own_variables):
            is_right = is_right and bound[2 * variable] + 256 * bound[2 * variable + 1] < operands
        at += 2 * own_variables
        for element in range(elements):
            place = _place_at(at, element, place_size)
            is_right = is_right and 0 <= place < count
        places_at = at
        at += place_size * elements
        values_at = at
        for attribute in range(attributes):
            size = attribute_words[attribute, 0]
            at += count + (size if size else 4) * count
            if at > end:
                return number - first
            if size == 0:
                texts, letters = int32_at(at - 4 * count), 0
                for event in range(count):
                    is_right = is_right and texts[event] >= 0
                    letters += texts[event]
                if not is_right or letters > end - at:
                    return number - first
                at += letters
        if not is_right or at != end:
            return number - first
        if fills:
            for event in range(count):
                timestamps[all_events + event] = times_of_buffer[event]
                seqs[all_events + event] = seqs_of_buffer[event]
            offset = all_elements
            for match in range(matches):
                offset += width if width else lengths[match]
                match_offsets[all_matches + match + 1] = offset
            variable = 0
            for element in range(elements):
                variables[all_elements + element] = bound[2 * variable] + 256 * bound[2 * variable + 1]
                variable = 0 if variable + 1 == width else variable + 1
                events[all_elements + element] = all_events + _place_at(places_at, element, place_size)
        at = values_at
        for attribute in range(attributes):
            size, presence = attribute_words[attribute, 0], uint8_at(at)
            at += count
            if fills:
                kept = uint8_at(attribute_words[attribute, 1] + all_events)
                for event in range(count):
                    kept[event] = presence[event]
                kept = uint8_at(attribute_words[attribute, 2] + (size if size else 4) * all_events)
                source = uint8_at(at)
                for byte in range((size if size else 4) * count):
                    kept[byte] = source[byte]
            if size:
                at += size * count
                continue
            texts, letters = int32_at(at), 0
            for event in range(count):
                letters += texts[event]
            at += 4 * count
            if fills:
                kept, source = uint8_at(attribute_words[attribute, 3] + totals[3 + attribute]), uint8_at(at)
                for letter in range(letters):
                    kept[letter] = source[letter]
            totals[3 + attribute] += letters
            at += letters
        all_events, all_matches, all_elements = all_events + count, all_matches + matches, all_elements + elements
        totals[0], totals[1], totals[2] = all_events, all_matches, all_elements
    return stop - first


@njit(inline="always")
def _place_at(address: int, element: int, size: int) -> int:
    """The place of an event, of 1, 2 or 4 bytes, that an element has."""
    if size == 4:
        return int(int32_at(address)[element])
    places = uint8_at(address + size * element)
    return int(places[0]) + (256 * int(places[1]) if size == 2 else 0)


@njit(inline="always")
def _put(target: Any, at: int, number: int) -> None:
    """Write a number as two bytes, the less significant one first."""
    target[at] = number & 255
    target[at + 1] = (number >> 8) & 255


@njit(inline="always")
def _text_of(attribute_words: Any, attribute: int, row: int) -> Any:
    """The address and the length of the text that an event has, of length 0 if it has none."""
    presence_from = attribute_words[attribute, 2]
    if presence_from != 0 and uint8_at(presence_from)[row] == 0:
        return attribute_words[attribute, 4], 0
    text = int32_at(attribute_words[attribute, 1])[row]
    bounds = int64_at(attribute_words[attribute, 3])
    return attribute_words[attribute, 4] + bounds[text], bounds[text + 1] - bounds[text]


@njit(inline="always")
def _order(numbers: Any, count: int, stamps: Any, stamp: int, stop: int) -> None:
    """Sort so many different numbers, ascending: of those below `stop` they alone have this stamp."""
    least, most, rising = stop, -1, True
    for place in range(count):
        rising = rising and numbers[place] > most
        least, most = min(least, numbers[place]), max(most, numbers[place])
    if rising:
        return
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
