"""SEQ nodes that are served by AND nodes: MOTTO's operator transformation, in MCEP [0147].

An AND over some events has all matches of a SEQ over them, with the same conditions, and others that are not in order.
So where a pattern makes such an AND already, another pattern can take what that makes and test its order, in place of
a join of its own. A join of a tree says so by `Join.in_order`. Whether it pays is a matter of cost: a join tests all
pairs that are in a window, a test of order what has passed the AND's conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_not

from cep_pipeline.planning.clause_plans import PatternPlan
from cep_pipeline.planning.clause_statistics import mask_of
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.multi_pattern.costs import Statistics, exchange, ln_cost, take_cheaper
from cep_pipeline.planning.multi_pattern.members import Member, MemberId
from cep_pipeline.planning.multi_pattern.shared_plan import SharedNode, SharedPlan
from cep_pipeline.planning.trees import (
    Join,
    OrderOrTree,
    Tree,
    has_order_tests,
    leaves_of,
    pruned,
    without_order_tests,
)

MOST_VARIABLES = 12
"""The most variables of a clause whose sets of variables are looked for among the nodes of others."""


def serve_by_and_nodes(plan: SharedPlan, statistics: Statistics, model: CostModel, among: Iterable[MemberId]) -> None:
    """Let nodes of AND serve members that have the same in order, where the plan costs less then.

    Parameters
    ----------
    plan
        A plan whose equal subtrees are shared; it is changed.
    statistics, model
        The numbers of each member, and the model that the plan is costed by.
    among
        The members whose trees may change; they have no tests of order yet.
    """
    if plan.sharing != "subexpression":
        return
    made, served = _AndNodes(plan), dict[MemberId, list[Join]]()
    for name in among:
        member = plan.members[name]
        if isinstance(plan.plans[name], Join) and len(member.names) <= MOST_VARIABLES:
            served[name] = list(made.serving(member))
    # A join that several have is given up by all of them: one alone would save nothing.
    for node in [one for one in plan if len(one.sharers) > 1 and one.right is not None and one.clause.precedence]:
        if plan.node_of(node.key) is node and served.keys() >= node.sharers.keys():
            _serve_all(plan, node, served, statistics, model)
    for name, parts in served.items():
        planned = plan.plans[name]
        assert isinstance(planned, Join)
        ways = dict.fromkeys(way for part in parts for way in _around(part, planned))
        take_cheaper(plan, name, list(ways), statistics, model)
    # Each member has saved by what the others had then. The tests of all together may cost more than none.
    plain = plan.without_order_tests()
    if plain is not plan and ln_cost(plan, statistics, model) >= ln_cost(plain, statistics, model):
        for name in served:
            plan.replace(name, plain.plans[name])


def _serve_all(
    plan: SharedPlan,
    node: SharedNode,
    served: Mapping[MemberId, Sequence[Join]],
    statistics: Statistics,
    model: CostModel,
) -> None:
    """Let an AND serve all members that have a node, if that costs less."""
    trees: dict[MemberId, Tree] = {}
    for name, uses in node.sharers.items():
        inside, planned = frozenset(uses[0]), plan.plans[name]
        part = next((one for one in served[name] if frozenset(one.leaves) == inside), None)
        if part is None or len(uses) > 1 or not isinstance(planned, Join):
            return
        trees[name] = _exchanged(planned, part, inside)
    exchange(plan, trees, statistics, model)


def give_up_order_tests(plan: SharedPlan, statistics: Statistics, model: CostModel) -> None:
    """Let members make joins of their own again where tests of order no longer pay: others may have changed theirs."""
    for name, planned in list(plan.plans.items()):
        if isinstance(planned, Join) and has_order_tests(planned):
            take_cheaper(plan, name, [without_order_tests(planned)], statistics, model)


def with_trees(plan: PatternPlan, trees: Mapping[MemberId, OrderOrTree | str]) -> PatternPlan:
    """The plan of a pattern with these trees of its clauses in place of the same ones with other tests of order."""
    clauses = []
    for clause in plan.clauses:
        tree = trees[plan.pattern, clause.clause]
        if isinstance(tree, Join) and clause.tree is not None and tree != clause.tree:
            clauses.append(replace(clause, tree=tree))
        else:
            clauses.append(clause)
    return replace(plan, clauses=tuple(clauses)) if any(map(is_not, clauses, plan.clauses)) else plan


@dataclass(frozen=True, eq=False)
class _AndNode:
    """A join among whose variables there is no order: its sub-pattern, its leaves, and its tree."""

    key: str
    subpattern: str
    leaves: tuple[str, ...]
    member: Member
    mask: int
    tree: Tree


class _AndNodes:
    """The joins of a plan without order, by the key of a leaf."""

    def __init__(self, plan: SharedPlan) -> None:
        self._by_leaf: dict[str, list[_AndNode]] = {}
        for node in plan:
            member, slots = node.model
            if node.right is None or node.clause.precedence:
                continue
            if any(member.clause.by_name[name].kleene for name in slots):
                continue
            mask = mask_of(member.names.index(name) for name in slots)
            found = _AndNode(
                node.key,
                member.subsets.key(mask),
                member.subsets.leaves(mask),
                member,
                mask,
                _tree_of(plan, node, slots),
            )
            self._by_leaf.setdefault(found.leaves[0], []).append(found)

    def serving(self, member: Member) -> Iterator[Join]:
        """The trees of some variables of a member that others make without order; the member has them in order."""
        for leaf in dict.fromkeys(member.forms.leaf_keys):
            for node in self._by_leaf.get(leaf, ()):
                subsets = member.unordered.subsets
                for mask in subsets.masks_with(node.subpattern, node.leaves):
                    names = dict(zip(node.member.subsets.names(node.mask), subsets.names(mask), strict=True))
                    if not member.has_order(names.values()):
                        continue
                    tree = _renamed(node.tree, names)
                    assert isinstance(tree, Join)
                    if member.unordered.forms.tree_key(tree) == node.key:
                        yield Join(tree.left, tree.right, in_order=True)


def _tree_of(plan: SharedPlan, node: SharedNode, slots: Sequence[str]) -> Tree:
    """The tree of a node over the variables in its slots."""
    if node.left is None or node.right is None:
        return slots[0]
    cut = node.below[0]
    return Join(_tree_of(plan, plan[node.left], slots[:cut]), _tree_of(plan, plan[node.right], slots[cut:]))


def _renamed(tree: Tree, names: dict[str, str]) -> Tree:
    return names[tree] if isinstance(tree, str) else Join(_renamed(tree.left, names), _renamed(tree.right, names))


def _around(served: Join, planned: Join) -> Iterator[Join]:
    """The trees that a member can have around a part that is served: as now, with all else joined, or one by one."""
    inside = frozenset(served.leaves)
    others = pruned(planned, frozenset(planned.leaves) - inside)
    if others is None:
        yield served
        return
    exchanged = _exchanged(planned, served, inside)
    if isinstance(exchanged, Join) and exchanged != planned:
        yield exchanged
    yield Join(served, others)
    tree = served
    for name in leaves_of(others):
        tree = Join(tree, name)
    yield tree


def _exchanged(tree: Tree, served: Join, inside: frozenset[str]) -> Tree:
    """A tree with a part in place of the subtree of the same variables; the tree itself where there is none."""
    if isinstance(tree, str):
        return tree
    if frozenset(tree.leaves) == inside:
        return served
    return Join(_exchanged(tree.left, served, inside), _exchanged(tree.right, served, inside))
