"""Members of a workload: each clause of each pattern, which is what the patent calls a pattern (MCEP [0057])."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.multi_pattern.canonical import ClauseForms, NodeForm, SubsetKeys, digest
from cep_pipeline.planning.trees import Join, Tree, nodes_of, without_order_tests

MemberId: TypeAlias = tuple[str, int]
"""The name of a member in a workload: the pattern's name and the index of the clause."""
MOST_MEMBERS = 1 << 11
"""Members that are kept with what has been worked out of them; those that were not asked for longest go first."""


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


_members: OrderedDict[int, Member] = OrderedDict()


def _member_of(pattern: Pattern, clause: Clause) -> Member:
    """The member of this very clause of this very pattern."""
    known = _members.get(id(clause))
    if known is not None and known.pattern is pattern:  # it holds the clause, so that no other one can have its id
        _members.move_to_end(id(clause))
        return known
    made = _members[id(clause)] = Member(pattern, clause)
    while len(_members) > MOST_MEMBERS:
        _members.popitem(last=False)
    return made
