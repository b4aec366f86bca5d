"""What the tree's kernel works on, as pointers. Imported only where it is compiled; `run.py` makes the arrays."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at, uint8_at
from cep_pipeline.detection.instances.cells import Cells, cells_at
from cep_pipeline.detection.instances.finished import Found, found_at
from cep_pipeline.detection.instances.interpreter import Code, code_at
from cep_pipeline.detection.instances.rules import Rules, rules_at


class Layout(NamedTuple):
    """The tree, as `assembly.py` writes it: pointers to int64s. `x_starts` says where each list of `xs` begins.

    Attributes
    ----------
    variables, nodes
        How many positive variables there are, and nodes.
    parents, siblings, stored
        Of each node.
    members, rejecting
        The variables of each node, and the negated ones that are asked there.
    ascents
        Of each node and variable, as `Assembly.ascent` says.
    before, behind, excluded
        Of each negated variable the positive ones before it, after it, and those that may bind the same event.
    late
        Of each negated variable: whether it is asked when the match is final.
    groups
        The groups of conjuncts: of each node, of an element that continues a list and of one that begins it (for each
        variable), and of each negated variable.
    """

    variables: Any
    nodes: Any
    parents: Any
    siblings: Any
    stored: Any
    member_starts: Any
    members: Any
    rejecting_starts: Any
    rejecting: Any
    ascent_starts: Any
    ascents: Any
    before_starts: Any
    before: Any
    behind_starts: Any
    behind: Any
    excluded_starts: Any
    excluded: Any
    late: Any
    groups: Any


class Stream(NamedTuple):
    """What the tree reads.

    Attributes
    ----------
    steps, rows
        How many steps there are, and the row of each.
    expires, due
        The step at which the window that begins with each step has ended, and at which its timestamp has passed.
    fits, stride
        Whether the event of a row fits variable v: `fits[v * stride + row]`.
    negated
        For each negated variable the address of its rows, their number, and the address of where each key's begin.
    """

    steps: Any
    rows: Any
    expires: Any
    due: Any
    fits: Any
    stride: Any
    negated: Any


class Stores(NamedTuple):
    """The instances of each node, and behind the nodes the lists of each Kleene variable that can be continued.

    Attributes
    ----------
    words
        All instances.
    bases, sizes
        For each store where in `words` it begins, and how many instances have room.
    tails, marks
        How many it holds, and how many before the current event.
    newest, different
        The newest instance of each store and key, and how many keys there are.
    deaths
        For each node and step how many instances expire.
    alive, peaks
        For each node.
    counts, saved
        Counts of each node, and what they and the condition evaluations were before the current event.
    bound
        The slots of the tuple under test.
    held
        For each step how many instances there are behind it.
    """

    words: Any
    bases: Any
    sizes: Any
    tails: Any
    marks: Any
    newest: Any
    different: Any
    deaths: Any
    alive: Any
    peaks: Any
    counts: Any
    saved: Any
    bound: Any
    held: Any


class Waiting(NamedTuple):
    """How far the kernel is, and the matches that wait until no event can reject them any more.

    Attributes
    ----------
    progress
        The words of `codes.PROGRESS`.
    first_row
        Matches that are final at their last event count from this row on.
    finality
        When a match is final: `codes.AT_ONCE`, `AT_INSTANT`, `AT_WINDOW_END`.
    matches, room
        The matches that wait, and how many have room.
    heads
        For each step the first match that is final then, or -1.
    made
        The places of the matches that the current event made wait.
    """

    progress: Any
    first_row: Any
    finality: Any
    matches: Any
    room: Any
    heads: Any
    made: Any


class Machine(NamedTuple):
    """All of it."""

    layout: Layout
    stream: Stream
    stores: Stores
    waiting: Waiting
    rules: Rules
    code: Code
    cells: Cells
    found: Found


@njit(error_model="numpy")
def _part(words: Any, number: int) -> Any:
    return int64_at(words[0] + 8 * int64_at(words[0])[number])


@njit(error_model="numpy")
def machine_at(words: Any) -> Machine:
    """The pointers in the words that `run.py` writes, in the order of the attributes."""
    layout = Layout(
        words[1],
        words[2],
        _part(words, 0),
        _part(words, 1),
        _part(words, 2),
        _part(words, 3),
        _part(words, 4),
        _part(words, 5),
        _part(words, 6),
        _part(words, 7),
        _part(words, 8),
        _part(words, 9),
        _part(words, 10),
        _part(words, 11),
        _part(words, 12),
        _part(words, 13),
        _part(words, 14),
        _part(words, 15),
        _part(words, 16),
    )
    stream = Stream(
        words[3],
        int32_at(words[4]),
        int32_at(words[5]),
        int32_at(words[6]),
        uint8_at(words[7]),
        words[8],
        int64_at(words[9]),
    )
    stores = Stores(
        int32_at(words[10]),
        int64_at(words[11]),
        int64_at(words[12]),
        int64_at(words[13]),
        int64_at(words[14]),
        int32_at(words[15]),
        words[16],
        int32_at(words[17]),
        int64_at(words[18]),
        int64_at(words[19]),
        int64_at(words[20]),
        int64_at(words[21]),
        int32_at(words[22]),
        int32_at(words[23]),
    )
    waiting = Waiting(
        int64_at(words[24]),
        words[25],
        words[26],
        int32_at(words[27]),
        words[28],
        int32_at(words[29]),
        int32_at(words[30]),
    )
    return Machine(
        layout,
        stream,
        stores,
        waiting,
        rules_at(words, words[31]),
        code_at(words, words[32]),
        cells_at(words, words[33]),
        found_at(words, words[34]),
    )
