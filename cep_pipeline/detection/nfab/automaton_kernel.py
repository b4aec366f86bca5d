"""The algorithms of the automaton, in one kernel (`advance`). Imported only where it is compiled.

The basic algorithm (`advance_all`, SIGMOD'08 section 5.2.1) goes through the tree of runs breadth first and reads every
event once. Runs stand in lists by the variable that they bound last. An event is shown to the lists from the last state
to the first, so that no run sees it twice; a list whose variable and next variable it does not fit is passed over where
events may be skipped. A run that goes on to the next variable leaves a copy where its list is not full, or where any
event may be skipped. While no run lives, events are passed over up to the next one that can begin the pattern. If only
non-overlapping matches are wanted, a match ends all other runs of its partition.

Buffer (section 5.1): all runs share a ring of entries, the events that they selected. Each has a link to the entry that
the same run had before, so that runs that split share what they selected until then. The match of a run is found by
going back from its newest entry. The paper stores an event once, with pointers of all runs that selected it, and tells
them apart by version numbers. Here a link names the entry of its run, which leaves nothing to tell apart. The entries
are as many as the paper's pointers. Those that the window has left are used again (section 5.3).

Merging (`merge_state`, section 5.2.2): runs in one state whose value vectors agree under the state's mask take the same
events from now on. They become one run. A junction of the buffer leads on to the entries of both. The run starts when
the youngest of them does, so that it lives as long as one of them would; the way back leaves out those that have
expired.

Backtracking (`backtrack`, section 5.2.3) goes through the tree depth first. It shows an event to one run alone. All
runs that come of it are put on a stack with the place behind the event: the one that has begun the next variable on
top. The run on top goes on; one that was postponed reads again what has been read. When the stack is empty, the next
event that can begin the pattern starts a run. If only non-overlapping matches are wanted, the one that ends first is
kept of those that overlap, and which run finds it is not known beforehand. So a match that was found does not end the
search, but bounds it: the runs that were postponed, and those that start up to there, read no event behind its last
one. The next run starts behind the match.

The arrays belong to `automaton_runs.py`. It writes their addresses into one array of words, in the order of
`words.AutomatonArrays`; `machine_at` turns the words into pointers.

A run is a row of the pool. It has the following state (SIGMOD'08, section 5.2.1):

- a slot for each variable: the row of its event, or the newest cell of its list, which has the running aggregates;
- its newest event in the match buffer, from which its match can be read backwards;
- the place and the instant of its first event;
- where runs are merged, the value vector by which two runs are compared.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import further, int64_at, reader_of
from cep_pipeline.detection.conditions.cells import (
    Cells,
    append,
    cell_before,
    cells_at,
    drop_newest,
    first_row_of,
    length_of,
    row_of,
)
from cep_pipeline.detection.conditions.codes import BORN, LINK_WORDS
from cep_pipeline.detection.conditions.evaluator import Code, code_at, group_holds
from cep_pipeline.detection.conditions.rules import Rules, rejected, rules_at
from cep_pipeline.detection.nfab import words as at

machine_at = reader_of(at.AutomatonArrays)
"""The machine whose words begin at a place."""


@njit(error_model="numpy", forceinline=True)
def parts_at(words: Any) -> tuple[at.AutomatonArrays, Cells, Code, Cells, Rules]:
    """All parts behind the words: arrays, cells of lists, conditions, match buffer, and rules of negation."""
    return (
        machine_at(words, 0),
        cells_at(words, at.CELLS),
        code_at(words, at.CODE),
        cells_at(words, at.BUFFER),
        rules_at(words, at.RULES),
    )


@njit(error_model="numpy", forceinline=True)
def run_at(machine: at.AutomatonArrays, run: int) -> Any:
    """The words of a run."""
    return further(machine.runs, run * machine.run_words)


@njit(error_model="numpy")
def allocate(words: Any) -> int:
    """Take a run from the pool, which must have one."""
    machine = machine_at(words, 0)
    machine.control[at.FREE_RUNS] -= 1
    machine.control[at.ALIVE] += 1
    return machine.free[machine.control[at.FREE_RUNS]]


@njit(error_model="numpy")
def release(words: Any, run: int) -> None:
    """Give a run back to the pool."""
    machine = machine_at(words, 0)
    machine.free[machine.control[at.FREE_RUNS]] = run
    machine.control[at.FREE_RUNS] += 1
    machine.control[at.ALIVE] -= 1


@njit(error_model="numpy")
def copy_of(words: Any, run: int) -> int:
    """Copy a run."""
    machine = machine_at(words, 0)
    copy = allocate(words)
    for variable in range(machine.variables):
        machine.slots[copy * machine.stride + variable] = machine.slots[run * machine.stride + variable]
    for word in range(at.R_HASH):
        run_at(machine, copy)[word] = run_at(machine, run)[word]
    run_at(machine, copy)[at.R_STATE] = -1
    return copy


@njit(error_model="numpy")
def holds(words: Any, group: int, base: int) -> bool:
    """Test whether the conjuncts of a group hold on the run whose slots begin at `base`.

    This is the one place where conditions are compiled in: six of them took a compiler three times as long.
    """
    machine, cells, code, _, _ = parts_at(words)
    return group_holds(code, cells, group, machine.slots, base)


@njit(error_model="numpy")
def start(words: Any, place: int) -> int:
    """Start a run with the event at a place; returns -1 if the conditions on that event alone do not hold."""
    machine, cells, _, _, _ = parts_at(words)
    row = machine.rows[place]
    run = allocate(words)
    base = run * machine.stride
    machine.slots[base] = append(cells, 0, -1, row, row) if machine.most[0] else row
    machine.counts[0] += 1
    if machine.groups[0] >= 0 and not holds(words, machine.groups[0], base):
        if machine.most[0]:
            drop_newest(cells)
        release(words, run)
        return -1
    machine.counts[1] += 1
    machine.control[at.STARTED] += 1
    run_at(machine, run)[at.R_STATE] = -1
    run_at(machine, run)[at.R_EVENT] = -1
    run_at(machine, run)[at.R_BEGUN] = machine.instants[place]
    run_at(machine, run)[at.R_FIRST] = place
    run_at(machine, run)[at.R_KEY] = machine.keys[place] if machine.options & at.AGREEING else 0
    run_at(machine, run)[at.R_NEWEST] = 0
    _selected(words, run, 0, place)
    machine.change[row] += 1
    return run


@njit(error_model="numpy")
def agrees(words: Any, run: int, place: int) -> bool:
    """Test whether an event agrees with those of a run; true where the sequence is sorted so that all do."""
    machine = machine_at(words, 0)
    if not machine.options & at.AGREEING:
        return True
    key = run_at(machine, run)[at.R_KEY]
    return key >= 0 and key == machine.keys[place]


@njit(error_model="numpy")
def begin(words: Any, run: int, variable: int, place: int) -> int:
    """Follow the begin edge: returns a copy of the run that binds the event to the next variable, or -1."""
    machine, cells, _, _, _ = parts_at(words)
    if machine.options & at.COMPARES_CLOCKS and machine.clocks[place] <= run_at(machine, run)[at.R_NEWEST]:
        return -1
    row = machine.rows[place]
    machine.counts[2 * variable] += 1
    left = machine.groups[3 * variable - 1]  # what is bound only now that the variable before is left
    if left >= 0 and not holds(words, left, run * machine.stride):
        return -1
    copy = copy_of(words, run)
    base = copy * machine.stride
    if machine.most[variable]:
        machine.slots[base + variable] = append(cells, variable, -1, row, row)
    else:
        machine.slots[base + variable] = row
    tested = machine.groups[3 * variable]
    if tested >= 0 and not holds(words, tested, base):
        if machine.most[variable]:
            drop_newest(cells)
        release(words, copy)
        return -1
    machine.counts[2 * variable + 1] += 1
    _selected(words, copy, variable, place)
    machine.change[row] += 1
    return copy


@njit(error_model="numpy")
def take(words: Any, run: int, variable: int, place: int) -> bool:
    """The take edge: add the event to the list of the run, if it may be."""
    machine, cells, _, _, _ = parts_at(words)
    row = machine.rows[place]
    base = run * machine.stride
    machine.counts[2 * variable] += 1
    before = machine.slots[base + variable]
    machine.slots[base + variable] = append(cells, variable, before, row, row)
    tested = machine.groups[3 * variable + 1]
    if tested >= 0 and not holds(words, tested, base):
        machine.slots[base + variable] = before
        drop_newest(cells)
        return False
    machine.counts[2 * variable + 1] += 1
    _selected(words, run, variable, place)
    return True


@njit(error_model="numpy")
def _selected(words: Any, run: int, variable: int, place: int) -> None:
    """Note in the buffer that a run binds an event to a variable."""
    machine, _, _, buffer, _ = parts_at(words)
    row = machine.rows[place]
    entry = append(buffer, 0, run_at(machine, run)[at.R_EVENT], row, row)
    buffer.links[(entry & buffer.mask) * LINK_WORDS + at.STATE] = variable
    run_at(machine, run)[at.R_EVENT] = entry
    run_at(machine, run)[at.R_PLACE] = place
    if machine.options & at.COMPARES_CLOCKS:
        run_at(machine, run)[at.R_NEWEST] = machine.clocks[place]


@njit(error_model="numpy")
def is_open(words: Any, run: int, variable: int) -> bool:
    """Tell whether the variable that a run has bound last is a list that is not full."""
    machine, cells, _, _, _ = parts_at(words)
    most = machine.most[variable]
    return most > 0 and length_of(cells, machine.slots[run * machine.stride + variable]) < most


@njit(error_model="numpy")
def goes_on(words: Any, run: int, variable: int, place: int) -> bool:
    """Finish a run that has bound an event to the last variable; tell whether it may bind more, or end it if not."""
    machine = machine_at(words, 0)
    if variable == machine.variables - 1:
        finish(words, run)
        if not is_open(words, run, variable):
            end(words, run, machine.rows[place])
            return False
    return True


@njit(error_model="numpy")
def finish(words: Any, run: int) -> None:
    """Note the matches of a run that has bound all variables, if the last conditions hold and nothing rejects it."""
    machine, cells, code, _, rules = parts_at(words)
    left = machine.groups[3 * machine.variables - 1]
    if left >= 0 and not holds(words, left, run * machine.stride):
        return
    if machine.options & at.NEGATION:
        first, last = machine.rows[run_at(machine, run)[at.R_FIRST]], machine.rows[run_at(machine, run)[at.R_PLACE]]
        if rejected(rules, code, cells, machine.slots, run * machine.stride, first, last):
            return
    number = machine.control[at.FINISHED_RUNS]
    machine.finished[number] = run_at(machine, run)[at.R_EVENT]
    machine.control[at.FINISHED_RUNS] = number + 1
    machine.control[at.FINISHES] += 1


@njit(error_model="numpy")
def end(words: Any, run: int, row: int) -> None:
    """End a run with the event of a row."""
    machine = machine_at(words, 0)
    machine.change[row] -= 1
    release(words, run)


@njit(error_model="numpy")
def expire(words: Any, run: int) -> None:
    """End a run because its window, or its partition, has ended."""
    machine = machine_at(words, 0)
    machine.expired[run_at(machine, run)[at.R_FIRST]] += 1
    release(words, run)


@njit(error_model="numpy")
def merge_state(words: Any, variable: int, place: int) -> None:
    """Merge the runs in the state of a variable, after some of them have changed with the event at a place.

    No two of them are equal that have not changed since they were compared.
    """
    machine, _, _, buffer, _ = parts_at(words)
    lists = variable * machine.capacity
    number = machine.list_sizes[variable]
    changed = False
    for index in range(number):
        run = machine.lists[lists + index]
        if run_at(machine, run)[at.R_PLACE] >= 0:
            run_at(machine, run)[at.R_PLACE] = -1
            changed |= instantiate(words, variable, run)
    if not changed:
        return
    mask = 15
    while mask < 2 * number:
        mask = 2 * mask + 1
    for slot in range(mask + 1):
        machine.table[slot] = -1
    kept = 0
    for index in range(number):
        run = machine.lists[lists + index]
        slot = run_at(machine, run)[at.R_HASH] & mask
        other = machine.table[slot]
        while other >= 0 and not equivalent(words, variable, run, other):
            slot = (slot + 1) & mask
            other = machine.table[slot]
        if other < 0:
            machine.table[slot] = run
            machine.lists[lists + kept] = run
            kept += 1
            continue
        younger, elder = (
            (run, other) if run_at(machine, run)[at.R_BEGUN] > run_at(machine, other)[at.R_BEGUN] else (other, run)
        )
        row = machine.rows[place]
        junction = append(buffer, 0, run_at(machine, younger)[at.R_EVENT], JUNCTION, row)
        append(buffer, 0, run_at(machine, elder)[at.R_EVENT], JUNCTION, row)
        run_at(machine, other)[at.R_EVENT] = junction
        if younger == run:
            run_at(machine, other)[at.R_BEGUN] = run_at(machine, run)[at.R_BEGUN]
            run_at(machine, other)[at.R_FIRST] = run_at(machine, run)[at.R_FIRST]
        machine.change[machine.rows[place]] -= 1
        machine.control[at.MERGED] += 1
        release(words, run)
    machine.list_sizes[variable] = kept


@njit(error_model="numpy")
def equivalent(words: Any, variable: int, one: int, other: int) -> bool:
    """Tell whether two runs in the state of a variable agree on all values that its mask selects."""
    machine = machine_at(words, 0)
    for word in range(machine.vector_starts[variable + 1] - machine.vector_starts[variable] + 1):
        if run_at(machine, one)[at.R_HASH + word] != run_at(machine, other)[at.R_HASH + word]:
            return False
    return bool(run_at(machine, one)[at.R_KEY] == run_at(machine, other)[at.R_KEY])


@njit(error_model="numpy")
def instantiate(words: Any, variable: int, run: int) -> bool:
    """Compute the value vector of a run in the state of a variable, and its hash; whether it has changed."""
    machine, cells, _, _, _ = parts_at(words)
    changed = run_at(machine, run)[at.R_STATE] != variable
    run_at(machine, run)[at.R_STATE] = variable
    hashed = run_at(machine, run)[at.R_KEY]
    first = machine.vector_starts[variable]
    for number in range(first, machine.vector_starts[variable + 1]):
        word = at.VALUE_WORDS * number
        how, source = machine.vector[word], machine.vector[word + 2]
        slot = machine.slots[run * machine.stride + machine.vector[word + 1]]
        is_cell = machine.vector[word + 3] != 0
        if how == at.VALUE_OF_FIRST:
            value = int64_at(source)[first_row_of(cells, slot) if is_cell else slot]
        elif how == at.VALUE_OF_NEWEST:
            value = int64_at(source)[row_of(cells, slot) if is_cell else slot]
        elif how == at.LENGTH_OF_LIST:
            value = length_of(cells, slot)
        elif how == at.WORD_OF_CELL:
            value = cells.wholes[(slot & cells.mask) * cells.words + source]
        elif how == at.SIGN_OF_CELL:
            value = 1 if cells.wholes[(slot & cells.mask) * cells.words + source] > 0 else 0
        else:
            value = slot
        kept = at.R_VALUES + number - first
        changed |= run_at(machine, run)[kept] != value
        run_at(machine, run)[kept] = value
        hashed = (hashed ^ value) * 0x9E3779B97F4A7C1
        hashed ^= hashed >> 29
    run_at(machine, run)[at.R_HASH] = hashed
    return changed


LEAST_FREED = 4
"""Pruning has to leave one in so many places of a ring free."""


@njit(error_model="numpy")
def advance_all(words: Any) -> int:
    """Read events until the end, or until room is wanted; the code says which."""
    machine, cells, _, buffer, _ = parts_at(words)
    control = machine.control
    sure = 0  # there is room of all kinds for so many
    shown = 0
    while True:
        if control[at.FINISHED_RUNS] + control[at.TOP] > 0 and not write_finished(words):
            return at.OUTPUT_FULL
        if shown > at.RUNS_A_CALL:
            return at.PAUSED
        place = control[at.PLACE]
        if control[at.ALIVE] > 0 and (place >= control[at.GROUP_END] or machine.rows[place] >= machine.end_row):
            drop_all(words)
        if control[at.ALIVE] == 0:
            if control[at.NEXT_START] >= machine.number_of_starts:
                return at.DONE
            place = machine.starts[control[at.NEXT_START]]
            control[at.PLACE] = place
            control[at.GROUP_END] = machine.ends[place]
            buffer.ends[0] = buffer.ends[1] = 0
            cells.ends[0] = cells.ends[1] = 0
        most = 2 * control[at.ALIVE] + 2
        if sure < 2 * most:
            wanted = wanted_room(words, most, machine.instants[place] - machine.width)
            if wanted != at.DONE:
                return wanted
            sure = sure_room(words)
        sure -= 2 * most
        shown += control[at.ALIVE] + 1
        finishes = control[at.FINISHES]
        show(words, place)
        if control[at.NEXT_START] < machine.number_of_starts and machine.starts[control[at.NEXT_START]] == place:
            start_next(words, place)
        if machine.options & at.MERGING:
            for variable in range(machine.variables):
                if machine.list_sizes[variable] > 1 and machine.list_sizes[machine.variables + variable] == place:
                    merge_state(words, variable, place)
        control[at.PLACE] = place + 1
        if machine.options & at.PRUNING and control[at.FINISHES] > finishes:
            prune_runs(words, machine.rows[place])


@njit(error_model="numpy")
def wanted_room(words: Any, most: int, earliest: int) -> int:
    """The kind of memory of which there is too little to make so many runs with their cells and entries.

    Where pruning frees little of a ring, it grows: one that the window just fits in would be pruned with every event.
    """
    machine, cells, _, buffer, _ = parts_at(words)
    if machine.control[at.FREE_RUNS] < most:
        return at.RUNS_FULL
    if machine.finished_capacity - machine.control[at.FINISHED_RUNS] < most:
        return at.FINISHED_FULL
    if is_scarce(words, buffer, 4 * most, earliest):
        return at.BUFFER_FULL
    if is_scarce(words, cells, most, earliest):
        return at.CELLS_FULL
    return at.DONE


@njit(error_model="numpy")
def sure_room(words: Any) -> int:
    """The number of runs that there is room for in every kind of memory, before anything is pruned."""
    machine, cells, _, buffer, _ = parts_at(words)
    least = min(machine.control[at.FREE_RUNS], machine.finished_capacity - machine.control[at.FINISHED_RUNS])
    least = min(least, cells.mask + 1 - (cells.ends[1] - cells.ends[0]))
    return min(least, (buffer.mask + 1 - (buffer.ends[1] - buffer.ends[0])) // 2)


@njit(error_model="numpy")
def is_scarce(words: Any, ring: Cells, most: int, earliest: int) -> bool:
    """Tell whether a ring has no room for so many, even without what belongs to events before an instant."""
    if ring.mask + 1 - (ring.ends[1] - ring.ends[0]) >= most:
        return False
    instants = machine_at(words, 0).instants_of_rows
    head, tail = ring.ends[0], ring.ends[1]
    while head < tail and instants[ring.links[(head & ring.mask) * LINK_WORDS + BORN]] < earliest:
        head += 1
    ring.ends[0] = head
    return ring.mask + 1 - (tail - head) < max(most, (ring.mask + 1) // LEAST_FREED)


JUNCTION = -1
"""The row of a junction: its entry leads on to the events of the younger run, the entry behind it to the elder's."""
PENDING_WORDS = 2
"""int32 words of what waits for the way back: an entry, and how many events lie behind it."""


@njit(error_model="numpy")
def write_finished(words: Any) -> bool:
    """Write the matches of the finished runs; False where the output is full before all are written."""
    machine = machine_at(words, 0)
    control = machine.control
    if machine.options & at.MATCHING_ONLY:
        control[at.FINISHED_RUNS] = 0
    while control[at.WRITTEN_RUNS] < control[at.FINISHED_RUNS] or control[at.TOP] > 0:
        if control[at.TOP] == 0:
            machine.pending[0] = machine.finished[control[at.WRITTEN_RUNS]]
            machine.pending[1] = 0
            control[at.TOP] = 1
            control[at.WRITTEN_RUNS] += 1
        if control[at.MATCHES] == machine.out_matches or not write_match(words):
            return False
    control[at.WRITTEN_RUNS] = 0
    control[at.FINISHED_RUNS] = 0
    return True


@njit(error_model="numpy")
def write_match(words: Any) -> bool:
    """Write the match whose entry was put last on the stack of the way back; False where there is no room for it.

    What lies behind the entry is the beginning of the path, which has the events of the way, newest first. At a
    junction the elder run waits on the stack, unless it has expired.
    """
    machine, _, _, buffer, _ = parts_at(words)
    control, pending, path = machine.control, machine.pending, machine.path
    earliest = machine.instants[control[at.PLACE] - 1] - machine.width
    kept = top = control[at.TOP] - 1
    begun = entry = pending[PENDING_WORDS * top]
    behind = depth = pending[PENDING_WORDS * top + 1]
    while entry >= 0:
        if row_of(buffer, entry) != JUNCTION:
            path[depth] = entry
            depth += 1
        elif machine.instants_of_rows[first_row_of(buffer, entry + 1)] >= earliest:
            pending[PENDING_WORDS * top] = cell_before(buffer, entry + 1)
            pending[PENDING_WORDS * top + 1] = depth
            top += 1
        entry = cell_before(buffer, entry)
    written = control[at.WRITTEN]
    if written + depth > machine.out_capacity:
        pending[PENDING_WORDS * kept] = begun
        pending[PENDING_WORDS * kept + 1] = behind
        return False
    for step in range(depth):
        entry = path[depth - 1 - step]
        machine.out_rows[written + step] = row_of(buffer, entry)
        machine.out_variables[written + step] = buffer.links[(entry & buffer.mask) * LINK_WORDS + at.STATE]
    control[at.TOP] = top
    control[at.WRITTEN] = written + depth
    control[at.MATCHES] += 1
    machine.out_offsets[control[at.MATCHES]] = written + depth
    return True


@njit(error_model="numpy")
def drop_all(words: Any) -> None:
    """End all runs: their partition, or what there is to read, has ended."""
    machine = machine_at(words, 0)
    for variable in range(machine.variables):
        for index in range(machine.list_sizes[variable]):
            expire(words, machine.lists[variable * machine.capacity + index])
        machine.list_sizes[variable] = 0


@njit(error_model="numpy")
def prune_runs(words: Any, row: int) -> None:
    """End all runs with the event that has finished a match: what else they find would overlap it (section 5.2.1)."""
    machine = machine_at(words, 0)
    for variable in range(machine.variables):
        for index in range(machine.list_sizes[variable]):
            end(words, machine.lists[variable * machine.capacity + index], row)
        machine.list_sizes[variable] = 0


@njit(error_model="numpy")
def show(words: Any, place: int) -> None:
    """Show an event to the runs of all lists."""
    machine = machine_at(words, 0)
    size, last = machine.size, machine.variables - 1
    for variable in range(last, -1, -1):
        if machine.list_sizes[variable] == 0:
            continue
        takes = machine.most[variable] > 0 and machine.fits[variable * size + place] != 0
        begins = variable < last and machine.fits[(variable + 1) * size + place] != 0
        if takes or begins or machine.options & at.CONTIGUOUS:
            _show(words, variable, place, takes, begins)


@njit(error_model="numpy")
def start_next(words: Any, place: int) -> None:
    """Start a run with the next event that can begin the pattern."""
    machine_at(words, 0).control[at.NEXT_START] += 1
    run = start(words, place)
    if run >= 0:
        _arrive(words, run, 0, place)


@njit(error_model="numpy", forceinline=True)
def _show(words: Any, variable: int, place: int, takes: bool, begins: bool) -> None:
    """Show an event to the runs in the state of a variable: they begin the next one, take it, ignore it, or end."""
    machine = machine_at(words, 0)
    lists = variable * machine.capacity
    number = machine.list_sizes[variable]
    earliest = machine.instants[place] - machine.width
    row = machine.rows[place]
    any_match = machine.options & at.ANY_MATCH != 0
    contiguous = machine.options & at.CONTIGUOUS != 0
    made = 0
    kept = 0
    machine.control[at.READ] += number
    for index in range(number):
        run = machine.lists[lists + index]
        if run_at(machine, run)[at.R_BEGUN] < earliest:
            expire(words, run)
            continue
        agreeing = agrees(words, run, place)
        left = False
        if begins and agreeing:
            copy = begin(words, run, variable + 1, place)
            if copy >= 0:
                left = True
                _arrive(words, copy, variable + 1, place)
        if takes and agreeing:
            copy = copy_of(words, run) if any_match else run
            if take(words, copy, variable, place):
                machine.list_sizes[machine.variables + variable] = place
                if any_match:
                    machine.change[row] += 1
                if goes_on(words, copy, variable, place):
                    machine.lists[lists + (number + made if any_match else kept)] = copy
                    made += any_match
                    kept += not any_match
                if not any_match:
                    continue
            elif any_match:
                release(words, copy)
        if not contiguous and (any_match or not left or is_open(words, run, variable)):
            machine.lists[lists + kept] = run
            kept += 1
        else:
            end(words, run, row)
    for index in range(made):
        machine.lists[lists + kept + index] = machine.lists[lists + number + index]
    machine.list_sizes[variable] = kept + made


@njit(error_model="numpy")
def _arrive(words: Any, run: int, variable: int, place: int) -> None:
    """A run has begun a variable: it joins the list of that state, or is finished."""
    machine = machine_at(words, 0)
    if not goes_on(words, run, variable, place):
        return
    size = machine.list_sizes[variable]
    machine.lists[variable * machine.capacity + size] = run
    machine.list_sizes[variable] = size + 1
    machine.list_sizes[machine.variables + variable] = place


@njit(error_model="numpy")
def backtrack(words: Any) -> int:
    """Read events until the end, or until room is wanted; the code says which."""
    machine, cells, _, buffer, _ = parts_at(words)
    control = machine.control
    shown = 0
    while True:
        if not write_finished(words):
            return at.OUTPUT_FULL
        if shown > at.RUNS_A_CALL:
            return at.PAUSED
        shown += 1
        run = machine.table[control[at.POSTPONED] - 1] if control[at.POSTPONED] > 0 else -1
        if run >= 0:
            postponed = run_at(machine, run)
            place, begun = postponed[at.R_HASH], postponed[at.R_BEGUN]
            cells.ends[1], buffer.ends[1] = postponed[at.R_VALUES], postponed[at.R_VALUES + 1]
        elif control[at.NEXT_START] < machine.number_of_starts:
            place = machine.starts[control[at.NEXT_START]]
            begun = machine.instants[place]
            if place >= control[at.BOUND]:
                control[at.BOUND] = 0
            control[at.GROUP_END] = machine.ends[place]
            buffer.ends[0] = buffer.ends[1] = 0
            cells.ends[0] = cells.ends[1] = 0
        else:
            return at.DONE
        wanted = wanted_room(words, 4, begun)
        if wanted != at.DONE:
            return wanted
        finishes = control[at.FINISHES]
        if run >= 0:
            control[at.POSTPONED] -= 1
            if control[at.BOUND] and place >= control[at.BOUND]:
                end(words, run, machine.rows[control[at.BOUND] - 1])
                continue
            if place >= control[at.GROUP_END] or machine.rows[place] >= machine.end_row:
                expire(words, run)
                continue
            control[at.READ_AGAIN] += place < control[at.FURTHEST]
            control[at.FURTHEST] = max(control[at.FURTHEST], place + 1)
            state = run_at(machine, run)[at.R_STATE]
            machine.lists[state * machine.capacity] = run
            machine.list_sizes[state] = 1
            show(words, place)
        else:
            start_next(words, place)
        control[at.PLACE] = place + 1
        if machine.options & at.PRUNING and control[at.FINISHES] > finishes:
            control[at.BOUND] = place + 1
        for variable in range(machine.variables):
            for index in range(machine.list_sizes[variable]):
                postpone(words, machine.lists[variable * machine.capacity + index], variable, place + 1)
            machine.list_sizes[variable] = 0


@njit(error_model="numpy")
def postpone(words: Any, run: int, variable: int, place: int) -> None:
    """Put a run on the stack, to go on from a place; what is made before that is let go of then."""
    machine, cells, _, buffer, _ = parts_at(words)
    postponed = run_at(machine, run)
    postponed[at.R_STATE] = variable
    postponed[at.R_HASH] = place
    postponed[at.R_VALUES] = cells.ends[1]
    postponed[at.R_VALUES + 1] = buffer.ends[1]
    machine.table[machine.control[at.POSTPONED]] = run
    machine.control[at.POSTPONED] += 1


def advance(words: Any) -> int:
    """Read events until the end, or until room is wanted; the code of `words.py` says which."""
    machine, _, _, buffer, _ = parts_at(words)
    wanted = backtrack(words) if machine.options & at.BACKTRACKING else advance_all(words)
    machine.control[at.MOST_ENTRIES] = max(machine.control[at.MOST_ENTRIES], buffer.ends[1] - buffer.ends[0])
    return int(wanted)
