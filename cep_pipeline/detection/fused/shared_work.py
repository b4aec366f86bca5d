"""Partial matches that several patterns have in common, found once and extended by each (MCEP [0066], [0119]).

The orders and trees of a workload say which ones: equal beginnings of orders and equal subtrees, told by canonical
keys. Whether one is stored is a matter of cost and of memory, and changes no match: the kernel goes through a beginning
fast, so that storing pays where much is tested for few partial matches, or where many patterns begin alike. What is
stored is found with the largest window of those that share it; each leaves what its own window does not hold.

A beginning is stored as places in the leaves (`View.offset`), so that runs read it whatever part of the slice they own
and however their views are sorted; a subtree as rows of its events.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cep_pipeline.detection.fused.levels import Beginning, LevelCount, Levels, Place, PlannedClause, order_of
from cep_pipeline.detection.kleene.bindings import clause_over, skeleton_of
from cep_pipeline.detection.mechanisms import Orders
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.planning.multi_pattern.canonical import ClauseForms
from cep_pipeline.planning.trees import Join, OrderOrTree, pruned
from cep_pipeline.slices.blocks import MatchBlock
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import View, clock_of, filters_of, leaf_view

RunKey = tuple[str, int, tuple[str, ...]]
"""A pattern's name, the index of a clause, and the variables that a run binds, in their order."""


@dataclass(eq=False)
class AlikeNode:
    """A node that stands for equal nodes of several plans of a workload.

    Attributes
    ----------
    uses
        How many nodes.
    window
        The largest window of theirs.
    """

    uses: int = 0
    window: Window | None = None

    def use(self, window: Window) -> None:
        """One more node."""
        self.uses += 1
        if self.window is None or (window.time_us or 0) > (self.window.time_us or 0):
            self.window = window


@dataclass(eq=False)
class AlikeNodes:
    """The equal nodes of the plans of a workload, whatever the slice.

    Attributes
    ----------
    shared
        What nodes stand for, by its key.
    keys
        For each run of an order the keys of its beginnings, from the first variable alone to all.
    trees
        For each subtree its key, and the variables in the order of the key's slots.
    """

    shared: dict[str, AlikeNode] = field(default_factory=dict)
    keys: dict[RunKey, list[str]] = field(default_factory=dict)
    trees: dict[RunKey, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def add(self, pattern: Pattern, clause: Clause, plan: OrderOrTree) -> None:
        """Add the nodes of a clause's plan."""
        skeleton = skeleton_of(clause)
        if len(skeleton.positive) < 2:
            return
        forms = ClauseForms(pattern, skeleton)
        names = frozenset(forms.names)
        if isinstance(plan, Join):
            tree = pruned(plan, names)
            assert tree is not None
            self._add_tree(pattern, clause, forms, tree)
        else:
            self._add_order(pattern, clause, forms, tuple(name for name in plan if name in names))

    def _add_tree(self, pattern: Pattern, clause: Clause, forms: ClauseForms, tree: Join | str) -> None:
        order = order_of(tree)
        if order is not None:
            self._add_order(pattern, clause, forms, order)
        if isinstance(tree, str):
            return
        root = forms.tree_nodes(tree)[-1]
        key = self._full_key(root.key, pattern)
        self.trees[pattern.name, clause.index, tree.leaves] = key, root.slots
        self._use(key, pattern)
        if order is None:
            self._add_tree(pattern, clause, forms, tree.left)
            self._add_tree(pattern, clause, forms, tree.right)

    def _add_order(self, pattern: Pattern, clause: Clause, forms: ClauseForms, order: tuple[str, ...]) -> None:
        keys = [self._full_key(key, pattern) for key in forms.order_keys(order)]
        self.keys[pattern.name, clause.index, order] = keys
        for key in keys[1:-1]:  # one event is no partial match to store, and the whole is no beginning
            self._use(key, pattern)

    @staticmethod
    def _full_key(key: str, pattern: Pattern) -> str:
        """Windows of different sizes can be told apart afterwards where they measure time."""
        return key if pattern.window.events is None else f"{key} in {pattern.window.events} events"

    def _use(self, key: str, pattern: Pattern) -> None:
        self.shared.setdefault(key, AlikeNode()).use(pattern.window)


MOST_WORKLOADS = 4
"""Workloads of which is remembered which nodes are alike: to find that out takes as long as to run light patterns."""

_workloads: OrderedDict[Hashable, tuple[AlikeNodes, object]] = OrderedDict()


def alike_nodes(patterns: Sequence[Pattern], orders: Sequence[Orders]) -> AlikeNodes:
    """The alike nodes of a workload: of these very patterns, as a task has them for all its slices, found out once."""
    planned = tuple(tuple(one if isinstance(one, Join) else tuple(one) for one in plans) for plans in orders)
    key = tuple(map(id, patterns)), planned
    known = _workloads.get(key)
    if known is not None:  # it holds the patterns, so that no other ones can have their ids
        _workloads.move_to_end(key)
        return known[0]
    alike = AlikeNodes()
    for pattern, plans in zip(patterns, orders, strict=True):
        for clause, plan in zip(pattern.clauses, plans, strict=True):
            alike.add(pattern, clause, plan)
    _workloads[key] = alike, tuple(patterns)
    while len(_workloads) > MOST_WORKLOADS:
        _workloads.popitem(last=False)
    return alike


MOST_BYTES = 1 << 27
"""Partial matches are stored up to this size together; those that were not asked for longest go first."""
MOST_BYTES_OF_ONE = MOST_BYTES // 4
ENTRY_NS, CANDIDATE_NS, STORED_NS, RUN_NS = 10.0, 1.0, 6.0, 1_000_000.0
"""Costs of entering a range, of testing a candidate, of writing and reading back one event of a stored partial match,
and of preparing a separate run. The gain of storing is estimated by these."""

ROWS_AT_ONCE = 1 << 16
"""Partial matches in a block while they are found."""


@dataclass(eq=False)
class SharedPartialMatches:
    """The partial matches that the runs of a workload share over one slice; `share_work` makes it.

    Attributes
    ----------
    alike
        Which nodes are alike.
    refused
        Keys of what is not stored: it does not pay, or it is too large.
    stored, stored_bytes
        By key, the one not asked for longest first: partial matches, and how large they are together.
    found_by
        By key, where what is stored was found: the node of that run, its variables in the order of the slots.
    counted
        By key of a subtree, where what happened in finding it is counted: of each node of that run the variables, and
        the node that counts them.
    """

    events: PreparedEvents
    alike: AlikeNodes
    refused: set[str] = field(default_factory=set)
    stored: OrderedDict[str, Array] = field(default_factory=OrderedDict)
    stored_bytes: int = 0
    found_by: dict[str, Place] = field(default_factory=dict)
    counted: dict[str, list[tuple[tuple[str, ...], Place]]] = field(default_factory=dict)

    # -- beginnings of orders ---------------------------------------------------------------------------------------

    def beginning_of(self, planned: PlannedClause, leaves: list[View], views: list[View]) -> Beginning | None:
        """The longest beginning of a run's order that is stored, or is stored now because that pays; or None.

        Parameters
        ----------
        planned, leaves, views
            The run, its leaves in stream order, and as its levels visit them.
        """
        order = planned.order
        keys = self.alike.keys.get((planned.pattern.name, planned.clause.index, order), [])
        for length in range(len(keys) - 1, 1, -1):
            key = keys[length - 1]
            shared = self.alike.shared[key]
            if shared.uses < 2 or key in self.refused or _is_wider(planned, shared):
                continue
            found = self._found(key, shared, planned, length)
            if found is not None:
                places, counts, found_by = found
                return Beginning(length, self._in_views(places, shared, planned, leaves, views), counts, found_by)
        return None

    def _found(
        self, key: str, shared: AlikeNode, planned: PlannedClause, length: int
    ) -> tuple[Array, Array, Place | None] | None:
        """Places in the whole leaves, the counts of having found them, and where that was if it was another run's.

        None where they are not to be stored.
        """
        counts = np.zeros((length, 2), np.int64)
        if key in self.stored:
            return self._taken(key), counts, self.found_by[key]
        order = planned.order[:length]
        part = over_variables(planned.clause, order)
        leaves = [
            leaf_view(self.events, part.by_name[name].event_type, filters_of(part, name), 0, len(self.events))
            for name in order
        ]
        if self._expected_ns(shared, leaves) * (shared.uses - 1) < RUN_NS:
            self.refused.add(key)
            return None
        wide = PlannedClause(planned.pattern, part, order, self.events, window=shared.window)
        levels = Levels(wide, leaves, {}, as_places=True)
        counts[0] = len(leaves[0])
        blocks = [np.empty((length, 0), np.int32)]
        held = 0
        for block in levels.run(ROWS_AT_ONCE, counts):
            held += block.nbytes
            if held > MOST_BYTES_OF_ONE:
                self.refused.add(key)
                return None
            blocks.append(np.stack([view.in_leaf(own) for view, own in zip(levels.views, block, strict=True)]))
        found = np.concatenate(blocks, axis=1)
        apart_ns = ENTRY_NS * counts[:-1, 1].sum() + CANDIDATE_NS * counts[1:, 0].sum()
        if apart_ns * (shared.uses - 1) < STORED_NS * found.size * shared.uses:
            self.refused.add(key)  # this one run has it
        else:
            self._store(key, found, (planned.pattern.name, planned.clause.index, order))
        return found, counts, None

    def _expected_ns(self, shared: AlikeNode, leaves: Sequence[View]) -> float:
        """The time that one run takes for a beginning, as far as the number of events in a window tells."""
        assert shared.window is not None
        if not all(map(len, leaves)):
            return 0.0
        if shared.window.time_us is None:
            assert shared.window.events is not None
            share = shared.window.events / len(self.events)
        else:
            clock = clock_of(self.events)
            share = shared.window.time_us / max(int(clock[-1]) - int(clock[0]), 1)
        entries, expected = float(len(leaves[0])), 0.0
        for leaf in leaves[1:]:
            candidates = entries * len(leaf) * min(share, 1.0)
            expected += ENTRY_NS * entries + CANDIDATE_NS * candidates
            entries = candidates / 2
        return expected

    def _in_views(
        self, found: Array, shared: AlikeNode, planned: PlannedClause, leaves: list[View], views: list[View]
    ) -> Array:
        """Places in whole leaves as places in a run's views, without what is not in them or not in its window."""
        levels = list(zip(leaves, views, found, strict=False))
        window, widest = planned.window or planned.pattern.window, shared.window
        assert widest is not None
        narrower = window.time_us is not None and window.time_us < (widest.time_us or 0)
        if not narrower and all(leaf is view and len(leaf) == len(leaf.whole_rows) for leaf, view, _ in levels):
            return found
        kept = np.ones(found.shape[1], dtype=bool)
        if narrower:
            rows = [leaf.whole_rows[places] for leaf, places in zip(leaves, found, strict=False)]
            clock = clock_of(self.events)
            kept &= clock[np.maximum.reduce(rows)] - clock[np.minimum.reduce(rows)] <= window.time_us
        placed = []
        for leaf, view, own in levels:
            if len(leaf) < len(leaf.whole_rows):
                own = own - np.int32(leaf.offset)
                kept &= (own >= 0) & (own < len(leaf))
            if view.places is not None:
                own = places_in(self.events, view)[np.clip(own, 0, max(len(leaf) - 1, 0))]
                kept &= own >= 0
            placed.append(own)
        places = np.stack(placed)
        return places if kept.all() else np.ascontiguousarray(places[:, kept])

    # -- subtrees ---------------------------------------------------------------------------------------------------

    def subtree(
        self,
        pattern: Pattern,
        clause: Clause,
        names: tuple[str, ...],
        find: Callable[[Pattern, Clause], Iterator[MatchBlock]],
    ) -> Array | None:
        """The partial matches of a subtree of a plan that is stored, or is stored now; None where it is not.

        Parameters
        ----------
        clause
            Over the subtree's variables alone.
        names
            These variables, in the order of the plan's leaves.
        find
            Finds all of a pattern's clause in the slice.

        Returns
        -------
        Array
            int32, shape (variables, n): rows, the variables in pattern order.
        """
        known = self.alike.trees.get((pattern.name, clause.index, names))
        if known is None:
            return None
        key, slots = known
        shared = self.alike.shared[key]
        if shared.uses < 2 or key in self.refused:
            return None
        own = [slots.index(variable.name) for variable in clause.positive]
        if key not in self.stored:
            assert shared.window is not None
            blocks = [np.empty((len(own), 0), np.int32)]
            held = 0
            for block in find(replace(pattern, window=shared.window), over_variables(clause, names)):
                held += block.rows.nbytes
                if held > MOST_BYTES_OF_ONE:
                    self.refused.add(key)
                    return None
                blocks.append(block.rows)
            rows = np.concatenate(blocks, axis=1)
            by_slot = np.empty_like(rows)
            by_slot[own] = rows
            self._store(key, by_slot, (pattern.name, clause.index, slots))
        rows = self._taken(key)[own]
        window_us = pattern.window.time_us
        assert shared.window is not None
        if window_us is None or window_us >= (shared.window.time_us or 0):
            return rows
        clock = clock_of(self.events)
        return np.ascontiguousarray(rows[:, clock[rows.max(axis=0)] - clock[rows.min(axis=0)] <= window_us])

    def count_subtree(
        self, pattern: Pattern, clause: Clause, names: tuple[str, ...], counts: Sequence[LevelCount]
    ) -> None:
        """Note where a run that has found a subtree counts what happened at its nodes."""
        key, _ = self.alike.trees[pattern.name, clause.index, names]
        own = pattern.name, clause.index
        self.counted[key] = [(one.bound, one.counted_at or (*own, one.bound)) for one in counts]

    def counts_of_subtree(self, pattern: Pattern, clause: Clause, names: tuple[str, ...]) -> tuple[LevelCount, ...]:
        """The counts of a run for a subtree that another run has found."""
        key, slots = self.alike.trees[pattern.name, clause.index, names]
        variable = dict(zip(self.found_by[key][2], slots, strict=True))
        return tuple(
            LevelCount(tuple(variable[name] for name in bound), 0, 0, counted_at=place)
            for bound, place in self.counted[key]
        )

    # -- what is stored ---------------------------------------------------------------------------------------------

    def _taken(self, key: str) -> Array:
        self.stored.move_to_end(key)
        return self.stored[key]

    def _store(self, key: str, found: Array, found_by: Place) -> None:
        self.stored[key], self.found_by[key] = found, found_by
        self.stored_bytes += found.nbytes
        while self.stored_bytes > MOST_BYTES and len(self.stored) > 1:
            _, oldest = self.stored.popitem(last=False)
            self.stored_bytes -= oldest.nbytes


def share_work(patterns: Sequence[Pattern], orders: Sequence[Orders], events: PreparedEvents) -> None:
    """Let runs of these patterns over a slice share what their orders and trees have in common, from now on."""
    events.attached[SharedPartialMatches] = SharedPartialMatches(events, alike_nodes(patterns, orders))


def shared_work_of(events: PreparedEvents) -> SharedPartialMatches | None:
    """The parts of plans that the patterns of a workload share over this slice; None where they share nothing."""
    shared: SharedPartialMatches | None = events.attached.get(SharedPartialMatches)
    return shared


def _is_wider(planned: PlannedClause, shared: AlikeNode) -> bool:
    """Return whether a run's window is larger than that of all nodes of a beginning.

    So it may be where a subtree is found for all that share it: sides stand in any order in equal trees, but not in the
    orders that these run as, so that the pattern with the largest window need not have this beginning.
    """
    window, widest = planned.window or planned.pattern.window, shared.window
    assert widest is not None
    return window.time_us is not None and window.time_us > (widest.time_us or 0)


def over_variables(clause: Clause, names: Sequence[str]) -> Clause:
    """The clause over some of its positive variables, without the conjuncts that mention none: they are its own."""
    part = clause_over(clause, names)
    return replace(part, conjuncts=tuple(conjunct for conjunct in part.conjuncts if conjunct.variables))


def places_in(events: PreparedEvents, view: View) -> Array:
    """int32: for each place in the leaf of a keyed view its place in the view, -1 where it has no key."""

    def make() -> Array:
        assert view.places is not None
        places = np.full(len(view.in_stream_order), -1, np.int32)
        places[view.places] = np.arange(len(view), dtype=np.int32)
        return places

    return events.derive(("places in", view.identity), make)
