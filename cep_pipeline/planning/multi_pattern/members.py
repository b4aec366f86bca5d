"""Members of a workload: each clause of each pattern, which is what the patent calls a pattern (MCEP [0057]).

At the end stands the multi-pattern graph: which members have which sub-patterns in common (MCEP [0096]-[0099], [0158]).
Its vertices are the members, with an edge between two that have a sub-pattern in common. Nothing of it is stored:
`components` follows its edges, and `common_subpatterns` has what its edges carry, with the members of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain, combinations
from operator import or_
from typing import NamedTuple, TypeAlias, TypeVar

from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, remembered
from cep_pipeline.planning.clause_statistics import mask_of
from cep_pipeline.planning.multi_pattern.canonical import ClauseForms, NodeForm, SubsetKeys, bits_of, digest
from cep_pipeline.planning.trees import Join, Tree, nodes_of, without_order_tests

MemberId: TypeAlias = tuple[str, int]
"""The name of a member in a workload: the pattern's name and the index of the clause."""
MOST_MEMBERS = 1 << 11
"""Members that are kept with what has been worked out of them."""


@dataclass(frozen=True, eq=False)
class Member:
    """One clause of one pattern. Two members are the same only if they are the same object; `id` names one.

    Only its positive variables are planned and shared. Its negated variables, and its conjuncts without a variable, are
    asked for the member alone, whatever else it shares.

    Raises
    ------
    ValueError
        The clause is none of the pattern's.
    """

    pattern: Pattern
    clause: Clause

    def __post_init__(self) -> None:
        clauses = self.pattern.clauses
        if not (self.clause.index < len(clauses) and clauses[self.clause.index] == self.clause):
            raise ValueError(f"clause {self.clause.index} is none of pattern {self.pattern.name!r}")

    @cached_property
    def id(self) -> MemberId:
        """The pattern's name and the index of the clause."""
        return self.pattern.name, self.clause.index

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The positive variables in pattern order."""
        return tuple(variable.name for variable in self.clause.positive)

    @property
    def window(self) -> int:
        """The size of its window: microseconds, or events (`forms.counted`)."""
        return self.pattern.window.time_us or self.pattern.window.events or 0

    @cached_property
    def forms(self) -> ClauseForms:
        """The keys by which parts of the member are found equal to parts of other members."""
        return ClauseForms(self.pattern, self.clause)

    @cached_property
    def subsets(self) -> SubsetKeys:
        """The keys of its sub-patterns."""
        return SubsetKeys(self.forms)

    def nodes(self, tree: Tree) -> tuple[NodeForm, ...]:
        """The nodes of a tree, each after those below it; a test of order stands behind the nodes of what it tests.

        Where a join asks for a test that can do nothing (`has_order`), or has a list below it, it is made in order.
        """
        tests = {
            frozenset(one.leaves): one
            for one in nodes_of(tree)
            if isinstance(one, Join) and one.in_order and self.has_order(one.leaves)
        }
        plain = self.forms.tree_nodes(without_order_tests(tree))
        if not tests:
            return plain
        found: list[NodeForm] = []

        def add(number: int) -> int:
            form = plain[number]
            test = tests.get(frozenset(form.slots))
            if test is not None:
                form = self._order_test(test, form, found)
            elif form.left is not None and form.right is not None:
                sides = form.left, form.right
                left, right = map(add, sides)
                keys = found[left].key, found[right].key
                over_a_test = keys != (plain[sides[0]].key, plain[sides[1]].key)
                key = digest("over a test", form.key, *keys) if over_a_test else form.key
                form = replace(form, key=key, left=left, right=right)
            found.append(form)
            return len(found) - 1

        add(len(plain) - 1)
        return tuple(found)

    def has_order(self, names: Collection[str]) -> bool:
        """True if some of these variables follow one another, and none of them is a list."""
        if any(self.clause.by_name[name].kleene for name in names):
            return False
        return any(one in names and other in names for one, other in self.clause.precedence)

    def _order_test(self, tree: Join, form: NodeForm, found: list[NodeForm]) -> NodeForm:
        """The node that makes a tree in order of the same one without order, whose nodes are added to those found."""
        begin = len(found)
        for one in self.unordered.forms.tree_nodes(without_order_tests(tree)):
            left, right = (None if side is None else begin + side for side in (one.left, one.right))
            found.append(replace(one, left=left, right=right, unordered=True))
        below = found[-1]
        turned = tuple(map(form.slots.index, below.slots))
        return NodeForm(digest("in order", below.key, form.key), form.slots, len(found) - 1, turned=turned)

    @cached_property
    def unordered(self) -> Member:
        """The clause without its temporal order, an AND of its variables, under the id of this member."""
        return _Unordered(self.pattern, replace(self.clause, precedence=frozenset()))

    def __str__(self) -> str:
        name, clause = self.id
        return name if len(self.pattern.clauses) == 1 else f"{name} ({clause + 1})"


@dataclass(frozen=True, eq=False)
class _Unordered(Member):
    """A member whose clause is not the pattern's: it has no order."""

    def __post_init__(self) -> None:
        pass


def members_of(patterns: Iterable[Pattern]) -> tuple[Member, ...]:
    """All members of a workload, in the order of the patterns and of their clauses.

    The same patterns have the same members again, with the keys that have been worked out of them, as a workload is
    planned and run many times.

    Raises
    ------
    ValueError
        Two patterns have one name.

    Examples
    --------
    >>> from cep_pipeline.events.schema import StreamSchema
    >>> from cep_pipeline.language.parser import parse_patterns
    >>> schema = StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string"}})
    >>> text = '''NAME either PATTERN OR(A a, SEQ(B b, C c)) WITHIN 1 second;
    ...           NAME both PATTERN AND(A x, B y) WITHIN 1 second'''
    >>> [(member.id, member.names) for member in members_of(parse_patterns(text, schema))]
    [(('either', 0), ('a',)), (('either', 1), ('b', 'c')), (('both', 0), ('x', 'y'))]
    """
    found = tuple(_member_of(pattern, clause) for pattern in patterns for clause in pattern.clauses)
    for name, uses in Counter(member.id for member in found).items():
        if uses > 1:
            raise ValueError(f"two patterns of a workload have one name: {name[0]!r}")
    return found


_member_of = remembered(MOST_MEMBERS)(Member)


MOST_PARTS = 1000
"""Most parts of one size that are looked at in one member: of up to twelve common variables all. Of more variables the
larger parts are not shared by the search."""
T = TypeVar("T")


def components(vertices: Iterable[T], members: Sequence[tuple[T, Member]], size: int) -> list[tuple[T, ...]]:
    """The connected components, which can be planned apart (MCEP [0098]); in the order of their first vertices.

    Parameters
    ----------
    members
        Each with its vertex. A vertex may have several, or none.
    size
        1 if a single variable in common connects two members, 2 if it takes two: subtrees of one variable are shared
        whatever the trees.

    Notes
    -----
    Members with a larger sub-pattern in common have one or two of its variables in common as well, so that no maximal
    common sub-patterns have to be found.
    """
    component_of = {vertex: [vertex] for vertex in vertices}
    having: dict[str, dict[T, None]] = {}
    uses = Counter(leaf for _, member in members for leaf in member.subsets.masks_of_leaves)
    for vertex, member in members:
        shared = [place for place, leaf in enumerate(member.forms.leaf_keys) if uses[leaf] > 1]
        for places in combinations(shared, size):
            having.setdefault(member.subsets.key(mask_of(places)), {})[vertex] = None
    for connected in having.values():
        joined, *others = {id(one): one for one in map(component_of.__getitem__, connected)}.values()
        for other in others:
            joined += other
            component_of.update(dict.fromkeys(other, joined))
    found: dict[int, list[T]] = {}
    for vertex, component in component_of.items():
        found.setdefault(id(component), []).append(vertex)
    return [tuple(component) for component in found.values()]


class Use(NamedTuple):
    """A use of a common sub-pattern: the place of a member, the variables as a set, and the variable in each slot."""

    member: int
    inside: int
    slots: tuple[int, ...]


def common_subpatterns(members: Sequence[Member], min_size: int) -> list[list[Use]]:
    """All sub-patterns of two members or more, with their uses: Gamma of MCEP [0094], the smaller ones first.

    Equal slots of different uses of one are equal variables.

    Parameters
    ----------
    min_size
        The least number of variables.

    Notes
    -----
    All parts of a common sub-pattern are common. So from those of one size come the candidates for the next one, as in
    the algorithm Apriori (Agrawal and Srikant, VLDB 1994).

    Examples
    --------
    MCEP [0095]:

    >>> from cep_pipeline.events.schema import StreamSchema
    >>> from cep_pipeline.language.parser import parse_patterns
    >>> from cep_pipeline.planning.multi_pattern.members import members_of
    >>> schema = StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string"}})
    >>> text = '''NAME p1 PATTERN SEQ(A a, B b, C c, D d) WITHIN 10 seconds;
    ...           NAME p2 PATTERN SEQ(A a, E e, C c, D d) WITHIN 20 seconds'''
    >>> p1, p2 = members_of(parse_patterns(text, schema))
    >>> ["".join(sorted(p1.subsets.names(uses[0].inside))) for uses in common_subpatterns([p1, p2], 2)]
    ['ac', 'ad', 'cd', 'acd']
    """
    found: list[list[Use]] = []
    candidates = [[1 << place for place in range(len(member.names))] for member in members]
    size = 1
    while any(candidates):
        by_key: dict[str, list[Use]] = {}
        for place, (member, masks) in enumerate(zip(members, candidates, strict=True)):
            for mask in masks:
                by_key.setdefault(member.subsets.key(mask), []).append(Use(place, mask, member.subsets.slots(mask)))
        common = [uses for uses in by_key.values() if len({use.member for use in uses}) > 1]
        if size >= min_size:
            found += common
        known: list[set[int]] = [set() for _ in members]
        for use in chain.from_iterable(common):
            known[use.member].add(use.inside)
        candidates = [_larger(masks) for masks in known]
        size += 1
    return found


def _larger(masks: set[int]) -> list[int]:
    """The sets with one variable more of which all parts with one less are among these, ascending."""
    variables = bits_of(reduce(or_, masks, 0))
    wider = {mask | 1 << place for mask in masks for place in variables if 1 << place > mask}
    found = sorted(one for one in wider if all(one ^ 1 << place in masks for place in bits_of(one)))
    return found if len(found) <= MOST_PARTS else []
