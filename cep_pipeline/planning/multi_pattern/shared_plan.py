"""`SharedPlan`: the orders or trees of all members with equal nodes merged (MCEP [0066]-[0076], [0119]-[0121]).

With `sharing="prefix"` it is the multi-pattern tree, MPT: nodes are the states of the multi-pattern NFA, and equal
beginnings of orders are one node. With `"subexpression"` it is the multi-pattern multitree, MPM: equal subtrees are one
node. With `"none"` each member has its own nodes. Everything is shared that can be: what should not be shared gets
another order or tree.

A small workload::

    members = members_of(patterns)  # rise: SEQ(A a, B b, C c) within 10 s; fall: SEQ(A p, B q, D r) within 20 s
    plan = share(members, [("a", "b", "c"), ("p", "q", "r")], "prefix")
    first, second, third, fourth = plan  # nodes below others come first
    second.sharers  # {("rise", 0): (("a", "b"),), ("fall", 0): (("p", "q"),)}
    second.window, third.window  # 20 s, 10 s in microseconds: the largest of the sharers
    third.members  # [("rise", 0)]: its partial matches are matches of rise, unless a negated event rejects them
    second.conjuncts, second.clause  # over the slots s0 and s1
    plan.remove(("rise", 0))  # leaves first, second and fourth, whose windows do not change here

A mechanism keeps partial matches by node. Those of a node are bindings of its slots within the node's window; each
sharer's own window is tested where its nodes are its own, or at the end. A member may use one node twice (two variables
that are alike), and the two sides of a join may be one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.expressions import Aggregate, Expression, Length, Reference
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.planning.clause_plans import SHARINGS, Sharing
from cep_pipeline.planning.multi_pattern.canonical import NodeForm, private_key
from cep_pipeline.planning.multi_pattern.members import Member, MemberId, members_of
from cep_pipeline.planning.plans import Plan, validate
from cep_pipeline.planning.trees import (
    Join,
    OrderOrTree,
    as_tree,
    has_order_tests,
    leaves_of,
    without_order_tests,
)

Slots: TypeAlias = tuple[str, ...]
"""A member's variable in each slot of a node."""


def slot_name(slot: int) -> str:
    """The variable of a slot in a node's clause and conjuncts.

    Examples
    --------
    >>> slot_name(2)
    's2'
    """
    return f"s{slot}"


@dataclass(eq=False)
class SharedNode:
    """A node of a shared plan, used by one member or more.

    Attributes
    ----------
    index
        Its number in the plan; larger than those of the nodes below it. Numbers are not used again.
    key
        As in `ClauseForms`, or a private one.
    left, right
        The nodes below it; none: a leaf, or the first state of an order. Without a right one it is a state of an order:
        the left one's partial matches are extended by an event (of a Kleene variable: a list) of the last slot; or a
        test of order. Slots are the left one's, then the right one's; the two may be one node.
    sharers
        Of each member that uses the node its variables in the slots: once, or more often where variables are alike.
    by_window
        The sharers by the sizes of their windows.
    members
        Those whose root this is: all their positive variables are bound.
    model
        One member that uses it or did, and its variables in the slots: its conjuncts are the node's.
    below
        How many slots the left node has, and the right one.
    turned
        Of a test of order its own slot for each slot of the left node: it has those of the left one's partial matches
        that are in the order of the clause. () for others.
    unordered
        The sharers that use it without the temporal order of their clauses, since they test that above it.
    """

    index: int
    key: str
    left: int | None
    right: int | None
    model: tuple[Member, Slots] = field(repr=False)
    below: tuple[int, ...] = ()
    turned: tuple[int, ...] = ()
    unordered: set[MemberId] = field(default_factory=set)
    sharers: dict[MemberId, tuple[Slots, ...]] = field(default_factory=dict)
    members: list[MemberId] = field(default_factory=list)
    by_window: dict[int, set[MemberId]] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """The number of slots."""
        return len(self.model[1])

    @property
    def window(self) -> int:
        """The largest window of the sharers: microseconds, or events where they are counted."""
        return max(self.by_window)

    @property
    def uses(self) -> int:
        """The number of nodes of single plans that it stands for."""
        return sum(map(len, self.sharers.values()))

    @property
    def counted(self) -> bool:
        """True if windows count events: in the stream, or in the partition by `clause.partition_by`."""
        return self.model[0].forms.counted

    @cached_property
    def clause(self) -> Clause:
        """All that a binding of the slots must satisfy beside the window: a clause of the variables `slot_name(k)`.

        Positive variables are the slots in their order. Of the attributes to agree on, `partition_by` are those by
        which the positions of a count window are counted; a node that is one single event has no others.
        """
        return project(*self.model)


def project(member: Member, slots: Slots) -> Clause:
    """The projection of a member's clause on some of its positive variables, which become the slots of a node."""
    clause = member.clause
    number = {name: place for place, name in enumerate(slots)}
    alone = len(slots) == 1 and not clause.by_name[slots[0]].kleene
    partition_by = tuple(sorted(set(clause.partition_by))) if member.forms.counted else ()
    others = () if alone else tuple(sorted(set(clause.agree_on) - set(partition_by)))

    def renamed(node: Expression) -> Expression:
        if isinstance(node, Reference | Length | Aggregate):
            return replace(node, variable=slot_name(number[node.variable]))
        return node

    return Clause(
        index=0,
        positive=tuple(
            replace(clause.by_name[name], name=slot_name(place), position=place) for place, name in enumerate(slots)
        ),
        negated=(),
        precedence=frozenset(
            (slot_name(number[one]), slot_name(number[other]))
            for one, other in clause.precedence
            if one in number and other in number
        ),
        conjuncts=tuple(
            rewritten(conjunct, renamed)
            for conjunct in clause.conjuncts
            if conjunct.variables and conjunct.variables <= number.keys()
        ),
        equivalences=others,
        partition_by=partition_by,
    )


class SharedPlan:
    """Orders or trees of members with equal nodes merged; iterating gives the nodes, those below before those above.

    Attributes
    ----------
    sharing
        The rule: one of `SHARINGS`.
    members, plans
        By id: the members, and the order or tree of each.
    roots
        By id: the node that binds all positive variables.

    Raises
    ------
    PlanError
        `sharing` is no rule.
    """

    def __init__(self, sharing: Sharing) -> None:
        if sharing not in SHARINGS:
            raise PlanError(f"there is no sharing {sharing!r}; there are: {', '.join(SHARINGS)}")
        self.sharing = sharing
        self.members: dict[MemberId, Member] = {}
        self.plans: dict[MemberId, OrderOrTree | str] = {}
        self.roots: dict[MemberId, int] = {}
        self._nodes: dict[int, SharedNode] = {}
        self._by_key: dict[str, int] = {}
        self._of_member: dict[MemberId, tuple[int, ...]] = {}
        self._next = 0

    def __iter__(self) -> Iterator[SharedNode]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, index: int) -> SharedNode:
        return self._nodes[index]

    def node_of(self, key: str) -> SharedNode | None:
        """The node of this key; None where no member has one."""
        index = self._by_key.get(key)
        return None if index is None else self._nodes[index]

    def widest(self, node: SharedNode) -> MemberId:
        """The sharer that a node is measured by: one with the largest window."""
        return max(node.by_window[node.window])

    def nodes_of(self, member: MemberId) -> tuple[SharedNode, ...]:
        """The nodes of a member, those below before those above; one that it uses twice stands there twice."""
        return tuple(self._nodes[index] for index in self._of_member[member])

    @property
    def shared(self) -> list[SharedNode]:
        """The nodes that stand for more than one node of single plans."""
        return [node for node in self if node.uses > 1]

    def add(self, member: Member, order_or_tree: OrderOrTree | str) -> None:
        """Add a member by its order or tree: O(m) dictionary entries for m variables (MCEP [0073]).

        Raises
        ------
        PlanError
            The plan has the member already, the order or tree binds other variables than the member's, or it is a tree
            where beginnings of orders are shared.
        """
        if member.id in self.members:
            raise PlanError(f"the shared plan has {member} already")
        forms = self.forms(member, order_or_tree)
        indices: list[int] = []
        for form in forms:
            below = [indices[side] for side in (form.left, form.right) if side is not None]
            node = self._node(form, below, member)
            node.sharers[member.id] = (*node.sharers.get(member.id, ()), form.slots)
            if form.unordered:
                node.unordered.add(member.id)
            node.by_window.setdefault(member.window, set()).add(member.id)
            indices.append(node.index)
        self._nodes[indices[-1]].members.append(member.id)
        self.members[member.id] = member
        self.plans[member.id] = order_or_tree
        self.roots[member.id] = indices[-1]
        self._of_member[member.id] = tuple(indices)

    def remove(self, member: MemberId) -> None:
        """Remove a member, and the nodes that no other one uses: O(m) for m variables.

        Raises
        ------
        PlanError
            The plan does not have it.
        """
        window = self._known(member).window
        del self.members[member], self.plans[member]
        self._nodes[self.roots.pop(member)].members.remove(member)
        for index in set(self._of_member.pop(member)):
            node = self._nodes[index]
            del node.sharers[member]
            node.unordered.discard(member)
            node.by_window[window].discard(member)
            if not node.by_window[window]:
                del node.by_window[window]
            if not node.sharers:
                del self._nodes[index], self._by_key[node.key]

    def replace(self, member: MemberId, order_or_tree: OrderOrTree | str) -> None:
        """Give a member another order or tree."""
        known = self._known(member)
        self.forms(known, order_or_tree)  # refuses what is none of the member's before anything is removed
        self.remove(member)
        self.add(known, order_or_tree)

    def without_order_tests(self) -> SharedPlan:
        """The plan without tests of order: all is made in order. A plan that has none is returned as it is."""
        if not any(map(has_order_tests, self.plans.values())):
            return self
        plain = (without_order_tests(one) if isinstance(one, Join) else one for one in self.plans.values())
        return share(self.members.values(), plain, self.sharing)

    def _known(self, member: MemberId) -> Member:
        if member not in self.members:
            raise PlanError(f"the shared plan has no member {member}; it has {len(self.members)} others")
        return self.members[member]

    def _node(self, form: NodeForm, below: Sequence[int], member: Member) -> SharedNode:
        known = self._by_key.get(form.key)
        if known is not None:
            return self._nodes[known]
        left, right = (*below, None, None)[:2]
        sizes = tuple(self._nodes[index].size for index in below)
        model = member.unordered if form.unordered else member
        node = SharedNode(self._next, form.key, left, right, (model, form.slots), sizes, form.turned)
        self._nodes[node.index] = node
        self._by_key[form.key] = node.index
        self._next += 1
        return node

    def forms(self, member: Member, order_or_tree: OrderOrTree | str) -> tuple[NodeForm, ...]:
        """The nodes that a member has by an order or a tree; PlanError where it is none of the member's."""
        is_tree = isinstance(order_or_tree, Join | str)
        names = leaves_of(order_or_tree) if isinstance(order_or_tree, Join | str) else tuple(order_or_tree)
        if sorted(names) != sorted(member.names):
            raise PlanError(
                f"{member} binds {', '.join(member.names)}, its order or tree {', '.join(names)}: "
                "it has each positive variable once; plan the pattern again"
            )
        if self.sharing == "subexpression":
            return member.nodes(order_or_tree if isinstance(order_or_tree, Join | str) else as_tree(order_or_tree))
        if self.sharing == "prefix" and is_tree and len(names) > 1:
            raise PlanError(f"{member} has the tree {order_or_tree}: beginnings of orders are shared, not trees")
        if self.sharing == "prefix":
            return member.forms.nodes(names)
        forms = member.forms.nodes(order_or_tree)  # all is made in order
        return tuple(replace(form, key=private_key(member.id, place)) for place, form in enumerate(forms))


def shared_plan_of(plan: Plan, patterns: Iterable[Pattern]) -> SharedPlan:
    """The shared plan of patterns by what a plan says of them: its orders and trees, and its rule of sharing.

    Raises
    ------
    PlanError
        The plan was not made for the patterns.
    """
    patterns = list(patterns)
    validate(plan, patterns)
    members = members_of(patterns)
    plans = [clause.order_or_tree for pattern in patterns for clause in plan.for_pattern(pattern.name).clauses]
    return share(members, plans, plan.sharing)


def share(members: Iterable[Member], orders_or_trees: Iterable[OrderOrTree | str], sharing: Sharing) -> SharedPlan:
    """The shared plan of members by their orders or trees, in the same order.

    Raises
    ------
    PlanError
        As `SharedPlan.add`.

    Examples
    --------
    >>> from cep_pipeline.events.schema import StreamSchema
    >>> from cep_pipeline.language.parser import parse_patterns
    >>> from cep_pipeline.planning.multi_pattern.members import members_of
    >>> schema = StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string", "x": "int64"}})
    >>> text = '''NAME rise PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 10 seconds;
    ...           NAME fall PATTERN SEQ(A p, B q, D r) WHERE q.x > p.x WITHIN 20 seconds'''
    >>> plan = share(members_of(parse_patterns(text, schema)), [("a", "b", "c"), ("p", "q", "r")], "prefix")
    >>> [(node.window // 1_000_000, dict(node.sharers)) for node in plan.shared]
    ... # doctest: +NORMALIZE_WHITESPACE
    [(20, {('rise', 0): (('a',),), ('fall', 0): (('p',),)}),
     (20, {('rise', 0): (('a', 'b'),), ('fall', 0): (('p', 'q'),)})]
    >>> plan.remove(("rise", 0))
    >>> len(plan), plan.shared
    (3, [])
    """
    plan = SharedPlan(sharing)
    for member, order_or_tree in zip(members, orders_or_trees, strict=True):
        plan.add(member, order_or_tree)
    return plan
