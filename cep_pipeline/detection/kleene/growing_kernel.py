"""The loops that grow the lists of Kleene variables behind partial matches. Imported only to be compiled.

The variables take their lists in turn. The candidates of one lie in a range of its events, and each is tested alone.
Lists grow by one candidate a step, depth first; one that breaks a condition which every longer list breaks, too, does
not grow. A list of which all holds is bound, and the next variable takes its lists behind it. A match is complete when
all have one.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import Int64s, float64_at, further, int32_at, int64_at, reader_of
from cep_pipeline.detection.conditions.cells import (
    Cells,
    append,
    cells_at,
    drop_newest,
    first_row_of,
    row_of,
)
from cep_pipeline.detection.conditions.codes import EQUAL, GREATER, ITEM_WORDS, LESS, LESS_EQUAL, NEWEST, PREVIOUS
from cep_pipeline.detection.conditions.evaluator import Code, code_at, compare, group_holds
from cep_pipeline.detection.conditions.rules import (
    Rules,
    add_match,
    contains,
    first_at_least,
    first_row,
    found_at,
    last_row,
    onset_of,
    reach_of,
    rejected,
    rules_at,
)
from cep_pipeline.detection.kleene import words as at

machine_at = reader_of(at.ListArrays)
"""The machine whose words begin at a place."""


@njit(error_model="numpy", forceinline=True)
def parts_at(words: Any) -> tuple[at.ListArrays, Cells, Code, Rules]:
    """All parts behind the words: arrays, cells of lists, conditions and rules."""
    return machine_at(words, 0), cells_at(words, at.RING), code_at(words, at.CODE), rules_at(words, at.RULES)


@njit(error_model="numpy", forceinline=True)
def level_at(machine: at.ListArrays, number: int) -> Int64s:
    """The words of a variable."""
    return further(machine.levels, number * at.LEVEL_WORDS)


@njit(error_model="numpy")
def holds(words: Any, group: int) -> bool:
    """Test whether the conjuncts of a group (-1: none) hold on what is bound."""
    machine, cells, code, _ = parts_at(words)
    return group < 0 or group_holds(code, cells, group, machine.slots, 0)


@njit(error_model="numpy")
def first_from(rows: Any, low: int, high: int, row: int, near: int) -> int:
    """The same as `first_at_least`, sooner where it is near a place."""
    near, step = max(low, min(near, high)), 1
    if near < high and rows[near] < row:
        low = near + 1
        while near + step < high and rows[near + step] < row:
            low = near + step + 1
            step *= 2
        high = min(high, near + step)
    else:
        high = near
        while near - step >= low and rows[near - step] >= row:
            high = near - step
            step *= 2
        low = max(low, near - step)
    return first_at_least(rows, low, high, row)


@njit(error_model="numpy")
def find_candidates(words: Any, number: int) -> None:
    """Find the candidates of a variable, ascending, behind what is bound; the first is given where nothing is.

    They are a range of the variable's events, where none of these is tested alone.
    """
    machine, cells, _, rules = parts_at(words)
    level, related = level_at(machine, number), machine.single_slots
    rows, starts = int32_at(level[at.L_ROWS]), int64_at(level[at.L_STARTS])
    candidates = further(machine.candidates, level[at.L_STACK])
    first, last, count = level[at.L_FIRST], level[at.L_LAST], 0
    level[at.L_COUNT] = level[at.L_DEPTH] = 0
    level[at.L_FOUND] = words[at.CANDIDATES] + at.ROW_BYTES * level[at.L_STACK]
    further(machine.places, level[at.L_STACK])[0] = 0
    if last < 0:
        first = machine.bound[machine.registers[at.PARTIAL] - 1]  # it has begun
        if not passes_alone(words, number, first):
            return
        candidates[0], count, lower = first, 1, first + 1
    else:
        lower = 0 if level[at.L_BEHIND] else rules.floor[last]
    upper = rules.size if level[at.L_AHEAD] else rules.ceiling[first] + 1
    for place in range(level[at.L_BEFORE], level[at.L_AFTER]):
        lower = max(lower, onset_of(rules, last_row(rules, cells, machine.slots, 0, related[place])))
    for place in range(level[at.L_AFTER], level[at.L_SHARING]):
        upper = min(upper, reach_of(rules, first_row(rules, cells, machine.slots, 0, related[place])))
    key = int32_at(level[at.L_KEYS])[first] if level[at.L_KEYS] != 0 else 0
    if key >= 0:
        end = starts[key + 1]
        place = level[at.L_PLACE] = first_from(rows, starts[key], end, lower, level[at.L_PLACE])
        if not level[at.L_PICKED]:
            level[at.L_FOUND] = level[at.L_ROWS] + at.ROW_BYTES * (place - count)
            level[at.L_COUNT] = count + first_from(rows, place, end, upper, place) - place
            return
        while place < end and rows[place] < upper:
            if not is_taken(words, number, rows[place]) and passes_alone(words, number, rows[place]):
                candidates[count] = rows[place]
                count += 1
            place += 1
    level[at.L_COUNT] = count


@njit(error_model="numpy", forceinline=True)
def is_taken(words: Any, number: int, row: int) -> bool:
    """True if what is bound has an event already."""
    machine, cells, _, rules = parts_at(words)
    level = level_at(machine, number)
    for place in range(level[at.L_SHARING], level[at.L_RELATED]):
        if contains(rules, cells, machine.slots, 0, machine.single_slots[place], row):
            return True
    return False


@njit(error_model="numpy", forceinline=True)
def passes_alone(words: Any, number: int, row: int) -> bool:
    """Test an event as an element, whatever else is in the list."""
    machine, cells, _, _ = parts_at(words)
    level = level_at(machine, number)
    if level[at.L_ELEMENTS] < 0:
        return True
    machine.slots[level[at.L_SLOT]] = append(cells, level[at.L_SLOT], -1, row, row)
    passes = holds(words, level[at.L_ELEMENTS])
    drop_newest(cells)
    return passes


@njit(error_model="numpy")
def begin(words: Any, partial: int) -> None:
    """Bind the single variables of a partial match."""
    machine, _, _, rules = parts_at(words)
    first, last = rules.size, -1
    for single in range(machine.singles):
        row = machine.bound[single * machine.partials + partial]
        machine.slots[machine.single_slots[single]] = row
        first, last = min(first, row), max(last, row)
    if machine.variables > 0:
        level = level_at(machine, 0)
        level[at.L_FIRST], level[at.L_LAST] = first, last


@njit(error_model="numpy", forceinline=True)
def follows(code: Code, group: int, slots: Any, before: int, row: int) -> bool:
    """Test whether an element may follow another one, by the conjuncts of a group (-1: none) on neighbours."""
    if group < 0:
        return True
    items, tested, holds = code.items, 0, True
    for item in range(code.groups[group], code.groups[group + 1]):
        own = further(items, item * ITEM_WORDS)
        left, right = own[6] & 7, own[6] >> 3
        one = row if left == NEWEST else before if left == PREVIOUS else slots[own[3]]
        other = row if right == NEWEST else before if right == PREVIOUS else slots[own[5]]
        tested += 1
        if not compare(own[1], float64_at(own[2])[one], float64_at(own[4])[other]):
            holds = False
            break
    code.counts[0] += tested
    return holds


@njit(error_model="numpy")
def put_out(words: Any, depth: int) -> bool:
    """Put out what is bound, a complete match, unless an event rejects it; False where there is no room.

    Of the last list, if it is plain, so many candidates are put out.
    """
    machine, cells, code, rules = parts_at(words)
    if rules.negations > 0:
        first, last = rules.size, -1
        for slot in range(rules.positive):
            first = min(first, first_row(rules, cells, machine.slots, 0, slot))
            last = max(last, last_row(rules, cells, machine.slots, 0, slot))
        if rejected(rules, code, cells, machine.slots, 0, first, last):
            return True
    level = level_at(machine, max(machine.variables - 1, 0))
    plain = level[at.L_SLOT] if level[at.L_PLAIN] else -1
    candidates, places = int32_at(level[at.L_FOUND]), further(machine.places, level[at.L_STACK])
    return add_match(found_at(words, at.FOUND), rules, cells, machine.slots, plain, candidates, places, depth)


@njit(error_model="numpy")
def grow(words: Any, number: int, counts: Any) -> int:
    """Grow the lists of a variable until one may be bound for the next variable; why it returns.

    The match is put out if there is no next variable. What `places` says of the longest list is more than there are
    candidates once it has been left.
    """
    machine, cells, code, rules = parts_at(words)
    level = level_at(machine, number)
    slot, count, depth, minimum = level[at.L_SLOT], level[at.L_COUNT], level[at.L_DEPTH], level[at.L_MINIMUM]
    begins, grows, first, last = level[at.L_BEGINS], level[at.L_GROWS], level[at.L_FIRST], level[at.L_LAST]
    candidates, places = int32_at(level[at.L_FOUND]), further(machine.places, level[at.L_STACK])
    stack, begun, plain = further(machine.cells, level[at.L_STACK]), first, level[at.L_PLAIN]
    alone, beside = machine.singles == 0 and number == 0, level[at.L_BEHIND] or level[at.L_AHEAD]
    if depth > 0:
        begun = min(first, candidates[places[0] - 1])
    why = at.PAUSED
    for _ in range(at.STEPS_A_CALL):
        place = places[depth]
        fits = place < count and depth + count - place >= minimum
        if fits and depth > 0:
            fits = beside or rules.floor[max(last, candidates[place])] <= begun
        elif fits and alone:
            fits = place == 0
        if fits:
            row = candidates[place]
            if plain:
                places[depth] = place + 1
                if depth > 0 and not follows(code, grows, machine.slots, candidates[places[depth - 1] - 1], row):
                    continue
            else:
                cell = append(cells, slot, stack[depth - 1] if depth > 0 else -1, row, row)
                if cell < 0:
                    why = at.CELLS_FULL
                    break
                places[depth] = place + 1
                machine.slots[slot] = cell
                group = grows if depth > 0 else begins
                if group >= 0 and not holds(words, group):
                    drop_newest(cells)
                    continue
                stack[depth] = cell
            if depth == 0:
                begun = min(first, row)
            depth += 1
            places[depth] = place + 1 if depth < level[at.L_MAXIMUM] else count
            if machine.longer_first:
                continue
        elif depth == 0:
            why = at.DONE
            break
        elif machine.longer_first and place <= count:
            places[depth] = count + 1
        else:
            depth -= 1
            if not plain:
                drop_newest(cells)
            continue
        if depth < minimum:
            continue
        if not plain:
            machine.slots[slot] = stack[depth - 1]
        counts[0] += 1
        if level[at.L_LEFT] >= 0 and not holds(words, level[at.L_LEFT]):
            continue
        counts[1] += 1
        if number + 1 < machine.variables or not put_out(words, depth):
            why = at.BOUND
            break
    level[at.L_DEPTH] = depth
    return why


@njit(error_model="numpy")
def is_one_comparison(words: Any) -> bool:
    """True if all that the first variable's lists are asked is one order of columns of neighbours."""
    machine, _, code, _ = parts_at(words)
    grows = level_at(machine, 0)[at.L_GROWS]
    item = further(code.items, code.groups[grows] * ITEM_WORDS)
    neighbours = item[6] in (NEWEST | PREVIOUS << 3, PREVIOUS | NEWEST << 3)
    return code.groups[grows + 1] - code.groups[grows] == 1 and neighbours and item[1] < EQUAL


@njit(error_model="numpy")
def read_compared(words: Any, rows: Any, low: int, high: int) -> None:
    """Read what one comparison of neighbours compares, of each of some rows as the later and as the earlier one."""
    machine, _, code, _ = parts_at(words)
    item = further(code.items, code.groups[level_at(machine, 0)[at.L_GROWS]] * ITEM_WORDS)
    newest = item[6] & 7 == NEWEST
    later, earlier = float64_at(item[2] if newest else item[4]), float64_at(item[4] if newest else item[2])
    for place in range(low, high):
        machine.later[place], machine.earlier[place] = later[rows[place]], earlier[rows[place]]


@njit(error_model="numpy")
def count_chains(words: Any, low: int, done: int, high: int, every: bool, once: bool) -> int:
    """The number of plain lists that end with a candidate from `done` on; `endings` has those that end with others.

    Nothing branches on what one comparison gives, which nobody foresees.
    """
    machine, _, code, _ = parts_at(words)
    level, endings, total = level_at(machine, 0), machine.endings, 0
    candidates, grows = int32_at(level[at.L_FOUND]), level[at.L_GROWS]
    item = further(code.items, code.groups[grows] * ITEM_WORDS)
    comparator = item[1] if item[6] & 7 == NEWEST else item[1] ^ 2
    begun = 0 if level[at.L_PICKED] else (level[at.L_FOUND] - level[at.L_ROWS]) // at.ROW_BYTES
    later, earlier = further(machine.later, begun), further(machine.earlier, begun)
    if once:
        code.counts[0] += (high - done) * (done + high - 1 - 2 * low) // 2
        if level[at.L_PICKED]:
            read_compared(words, candidates, done, high)
    for place in range(done, high):
        lists = int(every or place == low)
        if not once:
            for before in range(low, place):
                if endings[before] > 0 and follows(code, grows, machine.slots, candidates[before], candidates[place]):
                    lists += endings[before]
        elif comparator == LESS:
            for before in range(low, place):
                lists += endings[before] if later[place] < earlier[before] else 0
        elif comparator == GREATER:
            for before in range(low, place):
                lists += endings[before] if later[place] > earlier[before] else 0
        elif comparator == LESS_EQUAL:
            for before in range(low, place):
                lists += endings[before] if later[place] <= earlier[before] else 0
        else:
            for before in range(low, place):
                lists += endings[before] if later[place] >= earlier[before] else 0
        endings[place] = lists
        total += lists
        if total > at.MOST_LISTS:
            break
    return total


@njit(error_model="numpy")
def count_behind(words: Any, low: int, high: int, every: bool, once: bool) -> int:
    """The number of lists of the first variable's candidates from one place on and before another, in one window.

    They begin with the first of these candidates, or with `every` one. Neighbours are all that is compared, and
    `once` is whether that is one comparison.
    """
    machine, cells, _, _ = parts_at(words)
    level, endings, registers = level_at(machine, 0), machine.endings, machine.registers
    candidates, grows, total = int32_at(level[at.L_FOUND]), level[at.L_GROWS], 0
    if level[at.L_PLAIN]:
        again = every and once and not level[at.L_PICKED]
        if not (again and level[at.L_PLACE] == registers[at.BEGUN] and registers[at.ENDED] <= high):
            registers[at.BEGUN], registers[at.ENDED], registers[at.CHAINS] = level[at.L_PLACE], low, 0
        registers[at.CHAINS] += count_chains(words, low, registers[at.ENDED], high, every, once)
        registers[at.ENDED] = high if again else at.MOST_LISTS
        return registers[at.CHAINS]
    for place in range(low, high):
        endings[place] = int(every or place == low)
    for place in range(low, high):
        lists = endings[place]  # that end with this candidate
        total += lists
        if total > at.MOST_LISTS:
            return total
        element = append(cells, level[at.L_SLOT], -1, candidates[place], candidates[place])
        for behind in range(place + 1 if lists > 0 else high, high):
            row = candidates[behind]
            machine.slots[level[at.L_SLOT]] = append(cells, level[at.L_SLOT], element, row, row)
            if holds(words, grows):
                endings[behind] += lists
            drop_newest(cells)
        drop_newest(cells)
    return total


@njit(error_model="numpy")
def count_lists(words: Any) -> int:
    """Count the lists of the only variable behind all partial matches: their number, or how many candidates they have.

    Where no candidate is compared with others, `sizes` counts for each the candidates that can be in a list that begins
    with it, or `endings` their number, where any may be with any others.
    """
    machine, _, _, rules = parts_at(words)
    registers, plain = machine.registers, level_at(machine, 0)[at.L_PLAIN] != 0
    once = plain and level_at(machine, 0)[at.L_GROWS] >= 0 and is_one_comparison(words)
    if once and not level_at(machine, 0)[at.L_PICKED] and registers[at.PARTIAL] == 0:
        read_compared(words, int32_at(level_at(machine, 0)[at.L_ROWS]), 0, machine.events)
    for _ in range(at.COUNTS_A_CALL):
        if registers[at.PARTIAL] == machine.partials:
            return at.DONE
        begin(words, registers[at.PARTIAL])
        registers[at.PARTIAL] += 1
        find_candidates(words, 0)
        level = level_at(machine, 0)
        count, candidates, end = level[at.L_COUNT], int32_at(level[at.L_FOUND]), 0
        every = level[at.L_BEHIND] or level[at.L_AHEAD]
        if count > 0 and machine.singles > 0 and not every:
            span = min(level[at.L_FIRST], candidates[0]), max(level[at.L_LAST], candidates[count - 1])
            every = rules.floor[span[1]] <= span[0]
        if level[at.L_GROWS] < 0:
            registers[at.MOST] = max(registers[at.MOST], count)
        if every and level[at.L_GROWS] < 0:
            machine.endings[count] += 1
            continue
        for place in range(min(count, 1) if machine.singles == 0 or every else count):
            first = min(level[at.L_FIRST], candidates[place])
            while end < count and (every or rules.floor[max(level[at.L_LAST], candidates[end])] <= first):
                end += 1
            if level[at.L_GROWS] < 0:
                machine.sizes[end - place] += 1
                continue
            registers[at.TOTAL] += count_behind(words, place, end, every, once)
            if registers[at.TOTAL] > at.MOST_LISTS:
                return at.TOO_MANY
    return at.PAUSED


def grow_lists(words: Any, counts: Any) -> int:
    """Make, or count, all matches of the partial matches, or as many as there is room for; then call it again.

    Parameters
    ----------
    words
        int64: what `parts_at` reads.
    counts
        int64, shape (variables, 2): the lists of each that were tried, and that were bound.
    """
    machine, cells, _, _ = parts_at(words)
    registers = machine.registers
    if machine.counting:
        return count_lists(words)
    while registers[at.LEVEL] >= 0 or registers[at.PARTIAL] < machine.partials:
        number = registers[at.LEVEL]
        if number < 0:
            begin(words, registers[at.PARTIAL])
            registers[at.PARTIAL] += 1
            registers[at.LEVEL], registers[at.ENTERING] = 0, 1
        elif number == machine.variables:
            if not put_out(words, level_at(machine, max(number - 1, 0))[at.L_DEPTH]):
                return at.FOUND_FULL
            registers[at.LEVEL], registers[at.ENTERING] = number - 1, 0
        elif registers[at.ENTERING]:
            if cells.ends[1] > cells.mask:
                return at.CELLS_FULL
            registers[at.ENTERING] = 0
            find_candidates(words, number)
        else:
            why = grow(words, number, further(counts, 2 * number))
            if why == at.DONE:
                registers[at.LEVEL] = number - 1
            elif why != at.BOUND:
                return why
            else:
                registers[at.LEVEL], registers[at.ENTERING] = number + 1, 1
                if number + 1 < machine.variables:
                    level, following = level_at(machine, number), level_at(machine, number + 1)
                    newest = machine.slots[level[at.L_SLOT]]
                    following[at.L_FIRST] = min(level[at.L_FIRST], first_row_of(cells, newest))
                    following[at.L_LAST] = max(level[at.L_LAST], row_of(cells, newest))
    return at.DONE
