"""Which nodes of the plans of a workload are alike: equal beginnings of orders, equal subtrees, by canonical keys."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from cep_pipeline.detection.kleene.skeleton import skeleton_of
from cep_pipeline.detection.mechanisms import Orders
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.planning.multi_pattern.canonical import ClauseForms
from cep_pipeline.planning.trees import Join, OrderOrTree, pruned

RunKey = tuple[str, int, tuple[str, ...]]
"""A pattern's name, the index of a clause, and the variables that a run binds, in their order."""


@dataclass(eq=False)
class Shared:
    """What several nodes of the plans of a workload stand for.

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
    """Which nodes of the plans of a workload are alike, whatever the slice.

    Attributes
    ----------
    shared
        What nodes stand for, by its key.
    keys
        For each run of an order the keys of its beginnings, from the first variable alone to all.
    trees
        For each subtree its key, and the variables in the order of the key's slots.
    """

    shared: dict[str, Shared] = field(default_factory=dict)
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
        from cep_pipeline.detection.fused.trees import order_of

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
        self.shared.setdefault(key, Shared()).use(pattern.window)


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
