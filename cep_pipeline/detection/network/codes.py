"""Numbers that the kernel of join networks and its driver agree on."""

from __future__ import annotations

FINISHED, GO_ON, FOUND_FULL, STORE_FULL, CELLS_FULL, NEW_STATE = range(6)
"""Why the kernel returns: all steps are done, it has worked a while, there is no room for what an event makes, or a
state of a lazy tree is reached for the first time."""
TESTS_A_CALL = 1 << 27
"""Conjuncts tested before a call returns, so that a run can be interrupted."""

EVENTS, LISTS, JOIN, IN_ORDER, STATE, WAITING = range(6)
"""Kinds of nodes: the events that fit a variable, as they lie in the slice; lists of events of a Kleene variable, each
for a partial match of the node before it if there is one; joins of two nodes; what another node makes without the order
of the pattern, and is in order; the instances in a state of an eager automaton; those of a
lazy tree that wait for one variable."""

NODE_WORDS = 28
N_KIND, N_WIDTH, N_PLACES, N_CODE, N_RULES, N_EDGES, N_EDGES_END, N_OUTPUTS, N_OUTPUTS_END = range(9)
"""int64 words of a node: its kind; how many slots it has, and where their places in the tuple under test are; where the
words of its conditions and rules begin; its edges and outputs."""
N_GROUP, N_BEGINS, N_GROWS, N_LISTS, N_MASKS, N_REJECTS, N_FROM = range(9, 16)
"""The groups of conjuncts that a tuple (or a complete list) is tested for, the first element of a list, and a later
one; the store of lists that may grow (-1: it has no lists); where the masks of what is bound are, before there is a
list and with it; whether events of negated variables reject tuples here; the row from which on its tuples are wanted.
"""
N_STORED, N_HEADS, N_CEILING, N_KEYS, N_ROWS, N_STARTS, N_READ, N_EVENT_TYPE = range(16, 24)
"""Whether later events can meet its instances; where its newest instance of each key is (-1: events need not agree);
the addresses of where windows that begin with each row end, and of the keys (0: none). Of events the addresses of their
rows by key, of where those of each key begin, and of how many of each are read; and the place of their type among those
of lists."""
N_FINAL, N_CHOICES, N_SHARE, N_OPEN = range(24, NODE_WORDS)
"""Of a lazy tree: the node whose outputs its matches are (else its own), the place of its choices (-1: none), the share
that its tests count in (0: none), and whether later events can make more of its instances."""

EDGE_WORDS = 8
E_PARENT, E_ROLE, E_SIBLING, E_OWN, E_OTHER, E_ASCENTS, E_GROUP, E_MASK = range(EDGE_WORDS)
"""int64 words of an edge: the node above; what the node below is to it; the node on the other side (-1: none); the
first slot of this side and of the other one; where the ascents are of each slot with the newest event; the group of
conjuncts that is tested along it; and where the mask is of what the other side has bound, if events become elements
of lists (else -1)."""
SIDE, BEFORE_LIST, TESTED, BEGIN = range(4)
"""Roles of edges: a side of a join; the partial matches that lists are made for; what is tested for its order; the
events that instances begin with (`E_OTHER`: those of a lazy tree's first variable only, if it is this one)."""

OUTPUT_WORDS = 5
O_FOUND, O_CODE, O_RULES, O_PLACES, O_FROM = range(OUTPUT_WORDS)
"""int64 words of an output: where the words are of its matches, conditions and rules; where the places of the node's
slots are in a match; and the row from which on the last event of a match lies."""

FIRST, LAST, KEY, OLDER, SLOTS = range(5)
"""int32 words of a stored instance: its first and its last row, its key, the older instance of that key, and from
`SLOTS` on its slots."""

FRAME_WORDS = 5
F_NODE, F_BEGIN, F_END, F_EDGE, F_SLOT = range(FRAME_WORDS)
"""int64 words of what is still to be joined: new instances of a node, the next edge, the slot of the newest event."""

CANDIDATES, PASSES, CREATED, COUNTS = range(4)
"""Counts of a node, and how many there are."""

CHOICE_WORDS = 3
H_NODE, H_SHARE, H_LINKED = range(CHOICE_WORDS)
"""int64 words of each variable that a lazy tree may bind next: the node of the instances that wait for it, or one of
the numbers below; the share of its tests; and the unbound variables, as bits, that it joins to bound ones."""
UNMADE, BOUND = -1, -2

SHARE_WORDS = 2
"""int64: tests of late and passes among them; the first share is that of all conjuncts together."""
RECENT = 4096
"""Tests after which those of late are halved, so that the share that passed follows the stream."""
PRIOR = 8.0
"""Tests with the average share of all conjuncts that are added to those of one conjunct, which may be few."""
LISTS_LAST = 1e30
"""Added to the cost of lists: there are more of them than of events."""

ANY, NO_ROOT = -2, -1
"""In place of a lazy tree's first variable: where none is chosen, and before one is."""

WEIGHED = 128
"""Parts of the buffer: when the events of one have come, a lazy tree weighs if its first variable is the cheapest."""

REGISTERS = 20
STEPS, STEP, ROW, DEPTH, EPOCH, TOUCHED, TOUCHED_OUTPUTS, SHORT_OF, NODES, LISTING, CELLS_MADE = range(11)
"""The registers: how many steps there are, the step, its row, frames in use, the number of the attempt, nodes and
outputs that it has touched, the node (or output) that is full, the number of nodes, whether there are lists, and the
cells that there were before the event."""
ROOT, REPLAYING, BEGUN, OLDEST, VARIABLES, KEYS, BY_COUNTER, CHOSEN, ARRIVED = range(11, REGISTERS)
"""Of a lazy tree: its first variable, whether a new one searches the buffer, the step that begins next, the oldest step
in the buffer, numbers of variables and keys, whether the smallest counter is bound next, the variable that a new state
waits for, and how many events have come since the first variable was weighed."""

MACHINE_WORDS = 36
"""Words of `stores.machine_at` before those of the ring of cells."""
