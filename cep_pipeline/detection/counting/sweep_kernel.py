"""Sweeps over events that count matches. Imported only to be compiled; `sweep.py` calls it.

Numbers are of a semiring, by `modulus`. `GREATEST` is that of the greatest rank: a sum is the greater of two ranks, a
product too, and 0 stands for no match. All others are rings: 0 stands for arithmetic modulo 2^64, `MERSENNE` for the
prime 2^61 - 1; any other modulus is a number from 2^54 - 1023 to 2^54, or below 2^31. Where numbers are only added,
behind first events, `ROUNDED` stands for the bits of float64, whose sums tell about how large a count is.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic

MERSENNE = np.uint64(2**61 - 1)
GREATEST, ROUNDED = np.uint64(2**64 - 1), np.uint64(2**64 - 2)
_61, _54, _10, _3 = np.uint64(61), np.uint64(54), np.uint64(10), np.uint64(3)
_LOW_54, _LOW_32 = np.uint64(2**54 - 1), np.uint64(2**32 - 1)
_0, _1 = np.uint64(0), np.uint64(1)


@intrinsic
def rounded_sum(typing_context: Any, one: Any, other: Any) -> Any:
    """The bits of the sum of two float64, of whose bits it is told."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total = builder.fadd(*(builder.bitcast(argument, ir.DoubleType()) for argument in arguments))
        return builder.bitcast(total, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@njit
def plus(one: Any, other: Any, modulus: Any) -> Any:
    """The sum in the semiring."""
    if modulus >= ROUNDED:
        return max(one, other) if modulus == GREATEST else rounded_sum(one, other)
    total = one + other
    if modulus != _0 and total >= modulus:
        total -= modulus
    return total


@njit
def minus(one: Any, other: Any, modulus: Any) -> Any:
    """The difference in the ring."""
    if modulus != _0 and one < other:
        return one + (modulus - other)
    return one - other


@intrinsic
def high_product(typing_context: Any, one: Any, other: Any) -> Any:
    """The upper 64 bits of the product of two words: one instruction of the processor."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@njit
def times(one: Any, other: Any, modulus: Any) -> Any:
    """The product in the semiring."""
    if modulus == GREATEST:
        return max(one, other) if one != _0 and other != _0 else _0
    if modulus == _0:
        return one * other
    if modulus < _LOW_32:
        return one * other % modulus
    low, high = one * other, high_product(one, other)
    if modulus == MERSENNE:
        # 2^61 is 1 in this ring: what lies above it is added to what lies below.
        total = (low & MERSENNE) + (high << _3 | low >> _61)
        return total - MERSENNE if total >= MERSENNE else total
    apart = _LOW_54 + _1 - modulus  # 2^54 is this in the ring
    total = (low & _LOW_54) + (high << _10 | low >> _54) * apart
    total = (total & _LOW_54) + (total >> _54) * apart
    return total - modulus if total >= modulus else total


@njit
def half(number: Any, modulus: Any) -> Any:
    """The number whose double this is, where the modulus is odd."""
    return number >> _1 if number & _1 == _0 else (number >> _1) + (modulus >> _1) + _1


@njit
def add_at(tree: Any, size: int, place: int, values: Any, negative: bool, modulus: Any) -> None:
    """Add numbers, or take them away, at a place of a Fenwick tree of so many places."""
    node = place + 1
    while node <= size:
        if negative:
            for lane in range(len(values)):
                tree[node, lane] = minus(tree[node, lane], values[lane], modulus)
        else:
            for lane in range(len(values)):
                tree[node, lane] = plus(tree[node, lane], values[lane], modulus)
        node += node & -node


@njit
def add_between(tree: Any, first: int, stop: int, sums: Any, modulus: Any) -> None:
    """Add the sums of a Fenwick tree over the places [first, stop) to some numbers."""
    node, behind = max(first, stop), first
    while node > first:
        for lane in range(len(sums)):
            sums[lane] = plus(sums[lane], tree[node, lane], modulus)
        node -= node & -node
    while behind > node:
        for lane in range(len(sums)):
            sums[lane] = minus(sums[lane], tree[behind, lane], modulus)
        behind -= behind & -behind


@njit
def apply(to: Any, of: Any, operation: Any, weights: Any, step: int, weighted: int, modulus: Any) -> None:
    """Add the ways of one state, times the weight of an event, to those of another one; or multiply those of a state.

    These are multiplied by 1, or 0 where the event rejects them, and the weight in each list that it may be added to.
    """
    if operation[1] == operation[2]:
        factor = np.uint64(operation[3])
        for variable in range(weights.shape[1]):
            if (operation[0] >> variable) & 1:
                factor = plus(factor, np.uint64(weights[step, variable]) if weighted else _1, modulus)
        for state in range(len(to)):
            to[state] = times(to[state], factor, modulus)
    elif weighted:
        weight = np.uint64(weights[step, operation[0]])
        for state in range(len(to)):
            to[state] = plus(to[state], times(of[state], weight, modulus), modulus)
    else:
        for state in range(len(to)):
            to[state] = plus(to[state], of[state], modulus)


def count_states(
    steps: int,
    groups: int,
    group_starts_at: Any,
    lefts_at: Any,
    kinds_at: Any,
    counted_at: Any,
    weighted: int,
    weights_at: Any,
    variables: int,
    states: int,
    kind_count: int,
    widest: int,
    forward_offsets_at: Any,
    backward_offsets_at: Any,
    ends_offsets_at: Any,
    operation_count: int,
    operations_at: Any,
    modulus_number: int,
    front_at: Any,
    matrices_at: Any,
    total_at: Any,
) -> int:
    """Count the ways through a set of states within a sliding window.

    `sweep.Steps` has the events, `sweep._operations` the operations on states.

    A window is a queue of two stacks: of the events before a point, and of those from it on. Of each suffix of the
    first stack the ways from the start are kept, and of the whole second one the ways from each state to each. So an
    event costs some operations on states, whatever the window holds, and nothing is ever subtracted.
    """
    group_starts = carray(group_starts_at, groups + 1)
    lefts = carray(lefts_at, steps)
    kinds = carray(kinds_at, steps)
    counted = carray(counted_at, steps)
    weights = carray(weights_at, (steps if weighted else 1, variables))
    forward_offsets = carray(forward_offsets_at, kind_count + 1)
    backward_offsets = carray(backward_offsets_at, kind_count + 1)
    ends_offsets = carray(ends_offsets_at, kind_count + 1)
    operations = carray(operations_at, (operation_count, 4))
    total = carray(total_at, 2)
    modulus = np.uint64(modulus_number)
    front = carray(front_at, (widest + 1, states))
    matrices = carray(matrices_at, (2, states, states))
    suffix, back = matrices[0], matrices[1]
    low, high = _0, _0
    for group in range(groups):
        first, stop = group_starts[group], group_starts[group + 1]
        if first == stop:
            continue
        border = first
        back[:] = _0
        for state in range(states):
            back[state, state] = _1
        for step in range(first, stop):
            left = lefts[step]
            if left > border:
                border = step
                suffix[:] = _0
                for state in range(states):
                    suffix[state, state] = _1
                    back[state] = _0
                    back[state, state] = _1
                for earlier in range(step - 1, left - 1, -1):
                    kind = kinds[earlier]
                    for place in range(backward_offsets[kind], backward_offsets[kind + 1]):
                        source, target = suffix[operations[place, 1]], suffix[operations[place, 2]]
                        apply(source, target, operations[place], weights, earlier, weighted, modulus)
                    for state in range(states):
                        front[border - 1 - earlier, state] = suffix[0, state]
            kind = kinds[step]
            if counted[step]:
                for place in range(ends_offsets[kind], ends_offsets[kind + 1]):
                    source = operations[place, 1]
                    if left == border:
                        ways = back[0, source]
                    else:
                        ways = _0
                        for state in range(states):
                            more = times(front[border - 1 - left, state], back[state, source], modulus)
                            ways = plus(ways, more, modulus)
                    if weighted:
                        ways = times(ways, np.uint64(weights[step, operations[place, 0]]), modulus)
                    if modulus != _0:
                        low = plus(low, ways, modulus)
                    else:
                        low += ways
                        if low < ways:
                            high += _1
            for place in range(forward_offsets[kind], forward_offsets[kind + 1]):
                source, target = back[:, operations[place, 1]], back[:, operations[place, 2]]
                apply(target, source, operations[place], weights, step, weighted, modulus)
    total[0], total[1] = low, high
    return 0


@njit
def bind(ways: Any, inverse: Any, fits: int, both: bool, loops: Any, states: int, modulus: Any) -> None:
    """Multiply the ways from state to state by those of one more event, and their inverse from the other side.

    An event enters a state where it fits the variable before it, and doubles the ways to it where it fits the list that
    may grow there, by its bit in `loops`. Without `both`, only the inverse is multiplied.
    """
    if both:
        for target in range(states - 1, 0, -1):
            if fits & loops[target]:
                for state in range(target + 1):
                    ways[state, target] = plus(ways[state, target], ways[state, target], modulus)
            if (fits >> (target - 1)) & 1:
                for state in range(target):
                    ways[state, target] = plus(ways[state, target], ways[state, target - 1], modulus)
    for source in range(states - 1, -1, -1):
        if source + 1 < states and (fits >> source) & 1:
            for state in range(source + 1, states):
                inverse[source, state] = minus(inverse[source, state], inverse[source + 1, state], modulus)
        if fits & loops[source]:
            for state in range(source, states):
                inverse[source, state] = half(inverse[source, state], modulus)


def count_joined(
    steps: int,
    groups: int,
    group_starts_at: Any,
    lefts_at: Any,
    fits_at: Any,
    counted_at: Any,
    variables: int,
    states: int,
    loops_at: Any,
    one: int,
    other: int,
    one_size: int,
    other_size: int,
    places_at: Any,
    ranges_at: Any,
    modulus_number: int,
    left_tree_at: Any,
    right_tree_at: Any,
    kept_at: Any,
    matrices_at: Any,
    vectors_at: Any,
    total_at: Any,
) -> int:
    """Count the matches of a sequence in which a condition joins two variables; `sweep.count_chain` says how.

    The number of ways from an event to a later one is the product of two factors, one for each: the inverse of the ways
    up to the one, times the ways up to the other. So pairs are summed by trees over the values that are compared.
    """
    group_starts = carray(group_starts_at, groups + 1)
    lefts = carray(lefts_at, steps)
    fits = carray(fits_at, steps)
    counted = carray(counted_at, steps)
    places = carray(places_at, (2, steps))
    ranges = carray(ranges_at, (2, steps, 2))
    loops = carray(loops_at, states)
    total = carray(total_at, 2)
    modulus = np.uint64(modulus_number)
    last_state = states - 1
    before, between, after = one + 1, other - one, max(last_state - other, 0)
    left_count, right_count = before * between, between * after
    room = max(left_count, right_count, 1)
    left_tree = carray(left_tree_at, (one_size + 1, left_count))
    right_tree = carray(right_tree_at, (other_size + 1 if after else 1, max(right_count, 1)))
    # Of each event that stands for `one`: the ways to it, and from it; and the same for `other`.
    kept = carray(kept_at, (steps, before + 2 * between + after))
    to_one, from_one = kept[:, :before], kept[:, before : before + between]
    to_other, from_other = kept[:, before + between : before + 2 * between], kept[:, before + 2 * between :]
    matrices = carray(matrices_at, (4, states, states))
    ways, inverse, gone, pairs = matrices[0], matrices[1], matrices[2], matrices[3]
    vectors = carray(vectors_at, (3, room))
    column, left_values, left_sums = vectors[0], vectors[1, :left_count], vectors[2, :left_count]
    right_values, right_sums = vectors[1, :right_count], vectors[2, :right_count]
    left_tree[:] = _0
    right_tree[:] = _0
    low, high = _0, _0
    for group in range(groups):
        first, stop = group_starts[group], group_starts[group + 1]
        ways[:] = _0
        inverse[:] = _0
        gone[:] = _0
        pairs[:] = _0
        for state in range(states):
            ways[state, state] = inverse[state, state] = gone[state, state] = _1
        out = first
        for step in range(first, stop + 1):
            left = stop if step == stop else lefts[step]
            while out < left:
                event = fits[out]
                if after and (event >> other) & 1 and places[1, out] >= 0:
                    for middle in range(between):
                        for state in range(after):
                            product = times(to_other[out, middle], from_other[out, state], modulus)
                            right_values[middle * after + state] = product
                    add_at(right_tree, other_size, places[1, out], right_values, True, modulus)
                if (event >> one) & 1 and places[0, out] >= 0:
                    if after and step < stop:
                        right_sums[:] = _0
                        add_between(right_tree, ranges[1, out, 0], ranges[1, out, 1], right_sums, modulus)
                        for state in range(after):
                            behind = _0
                            for middle in range(between):
                                product = times(from_one[out, middle], right_sums[middle * after + state], modulus)
                                behind = plus(behind, product, modulus)
                            for source in range(before):
                                product = times(to_one[out, source], behind, modulus)
                                pairs[source, state] = minus(pairs[source, state], product, modulus)
                    for source in range(before):
                        for middle in range(between):
                            product = times(to_one[out, source], from_one[out, middle], modulus)
                            left_values[source * between + middle] = product
                    add_at(left_tree, one_size, places[0, out], left_values, True, modulus)
                if one > 0:
                    bind(ways, gone, event, False, loops, states, modulus)
                out += 1
            if step == stop:
                break
            event = fits[step]
            is_other = (event >> other) & 1 and places[1, step] >= 0
            if is_other:
                left_sums[:] = _0
                add_between(left_tree, ranges[0, step, 0], ranges[0, step, 1], left_sums, modulus)
                for middle in range(between):
                    column[middle] = ways[one + 1 + middle, other]
            if counted[step] and (event >> (variables - 1)) & 1:
                found = _0
                if not after:
                    if is_other:
                        for source in range(before):
                            reached = _0
                            for middle in range(between):
                                product = times(left_sums[source * between + middle], column[middle], modulus)
                                reached = plus(reached, product, modulus)
                            found = plus(found, times(gone[0, source], reached, modulus), modulus)
                else:
                    for state in range(after):
                        behind = ways[other + 1 + state, variables - 1]
                        if states > variables:
                            behind = plus(behind, ways[other + 1 + state, variables], modulus)
                        reached = _0
                        for source in range(before):
                            reached = plus(reached, times(gone[0, source], pairs[source, state], modulus), modulus)
                        found = plus(found, times(reached, behind, modulus), modulus)
                low += found
                if low < found:
                    high += _1
            if (event >> one) & 1:
                for source in range(before):
                    to_one[step, source] = ways[source, one]
            bind(ways, inverse, event, True, loops, states, modulus)
            if is_other and after:
                for state in range(after):
                    from_other[step, state] = inverse[other + 1, other + 1 + state]
                for source in range(before):
                    reached = _0
                    for middle in range(between):
                        product = times(left_sums[source * between + middle], column[middle], modulus)
                        reached = plus(reached, product, modulus)
                    for state in range(after):
                        product = times(reached, from_other[step, state], modulus)
                        pairs[source, state] = plus(pairs[source, state], product, modulus)
                for middle in range(between):
                    to_other[step, middle] = column[middle]
                    for state in range(after):
                        right_values[middle * after + state] = times(column[middle], from_other[step, state], modulus)
                add_at(right_tree, other_size, places[1, step], right_values, False, modulus)
            if (event >> one) & 1 and places[0, step] >= 0:
                for middle in range(between):
                    from_one[step, middle] = inverse[one + 1, one + 1 + middle]
                for source in range(before):
                    for middle in range(between):
                        product = times(to_one[step, source], from_one[step, middle], modulus)
                        left_values[source * between + middle] = product
                add_at(left_tree, one_size, places[0, step], left_values, False, modulus)
    total[0], total[1] = low, high
    return 0


@njit
def ranked(used: Any, places: Any, begin: int, end: int) -> int:
    """Number the values of the candidates [begin, end) in order: `used` becomes how many there are before each."""
    used[:] = 0
    for candidate in range(begin, end):
        if places[candidate] >= 0:
            used[places[candidate]] = 1
    number = 0
    for place in range(len(used)):
        number += used[place]
        used[place] = number - used[place]
    return number


def count_chain(
    steps: int,
    width: int,
    anchors: int,
    starts_at: Any,
    untils_at: Any,
    stops_at: Any,
    variables: int,
    lists: int,
    fits_at: Any,
    test_count: int,
    test_variables_at: Any,
    anchor_places_at: Any,
    test_ranges_at: Any,
    size: int,
    places_at: Any,
    ranges_at: Any,
    own_ranges_at: Any,
    modulus_number: int,
    trees_at: Any,
    used_at: Any,
    lanes_at: Any,
    weighted: int,
    weights_at: Any,
    begins_at: Any,
    total_at: Any,
) -> int:
    """Count the matches of a sequence behind its anchors, as `sweep._sweep_behind` says.

    There are as many anchors as fill the lanes, `width` at a time; one whose window is empty stands for none. An event
    of the second variable begins a chain in the lanes where it lies between `starts` and `untils`; an event of a later
    one goes on with the chains that end with an event of the variable before whose value lies in a range, which a tree
    over these values sums, and the last one comes before `stops`. One of a list, other than the last variable, goes on
    with the chains that end with an event of the list, too. Tests compare an event with the anchor of each lane.

    The matches of an anchor are multiplied by its number in `begins`, and by the `weights` of the events that are bound
    to the `weighted` variables.

    Of each event, `places` says where its value stands among those of its variable, and `ranges` which values of the
    variable before it may follow; `own_ranges` which of its own list, `test_ranges` which anchors, by their
    `anchor_places`.
    """
    starts = carray(starts_at, anchors)
    untils = carray(untils_at, anchors)
    stops = carray(stops_at, anchors)
    fits = carray(fits_at, steps)
    test_variables = carray(test_variables_at, max(test_count, 1))
    anchor_places = carray(anchor_places_at, (max(test_count, 1), anchors))
    test_ranges = carray(test_ranges_at, (max(test_count, 1), steps, 2))
    joints = variables - 2
    places = carray(places_at, (joints, steps))
    ranges = carray(ranges_at, (joints, steps, 2))
    own_ranges = carray(own_ranges_at, (joints if lists else 1, steps if lists else 1, 2))
    trees = carray(trees_at, (joints, size + 1, width))
    used = carray(used_at, (joints, size + 1))
    lanes = carray(lanes_at, (2, width))
    weights = carray(weights_at, (variables if weighted else 1, steps if weighted else 1))
    begins = carray(begins_at, anchors)
    total = carray(total_at, 2)
    modulus = np.uint64(modulus_number)
    totals, ways = lanes[0], lanes[1]
    last = variables - 1
    low, high = _0, _0
    for batch in range(0, anchors, width):
        begin, end = starts[batch] + 1, 0
        for lane in range(batch, batch + width):
            end = max(end, stops[lane])
        for joint in range(joints):
            known = ranked(used[joint], places[joint], begin, end) + 1
            trees[joint, :known] = _0
        totals[:] = _0
        for step in range(begin, end):
            event = fits[step]
            for variable in range(last, 0, -1):
                joint = variable - 1
                if not (event >> variable) & 1:
                    continue
                if variable < last and places[joint, step] < 0:
                    continue
                looped = (lists >> variable) & 1
                if variable == 1:
                    for lane in range(width):
                        ways[lane] = begins[batch + lane] if starts[batch + lane] < step < untils[batch + lane] else _0
                else:
                    first, stop = ranges[joint - 1, step, 0], ranges[joint - 1, step, 1]
                    if first >= stop and not looped:
                        continue
                    ways[:] = _0
                    add_between(trees[joint - 1], used[joint - 1, first], used[joint - 1, stop], ways, modulus)
                if looped:
                    first, stop = own_ranges[joint, step, 0], own_ranges[joint, step, 1]
                    add_between(trees[joint], used[joint, first], used[joint, stop], ways, modulus)
                if variable == last:
                    for lane in range(width):
                        if step >= stops[batch + lane]:
                            ways[lane] = _0
                for test in range(test_count):
                    if test_variables[test] == variable:
                        first, stop = test_ranges[test, step, 0], test_ranges[test, step, 1]
                        for lane in range(width):
                            if not first <= anchor_places[test, batch + lane] < stop:
                                ways[lane] = _0
                if (weighted >> variable) & 1:
                    for lane in range(width):
                        ways[lane] = times(ways[lane], weights[variable, step], modulus)
                if variable == last:
                    for lane in range(len(totals)):
                        totals[lane] = plus(totals[lane], ways[lane], modulus)
                else:
                    add_at(trees[joint], used[joint, size], used[joint, places[joint, step]], ways, False, modulus)
        for lane in range(width):
            if modulus != _0:
                low = plus(low, totals[lane], modulus)
            else:
                low += totals[lane]
                if low < totals[lane]:
                    high += _1
    total[0], total[1] = low, high
    return 0
