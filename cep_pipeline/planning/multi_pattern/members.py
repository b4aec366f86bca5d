"""Members of a workload: each clause of each pattern, which is what the patent calls a pattern (MCEP [0057])."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.multi_pattern.canonical import ClauseForms, SubsetKeys

MemberId: TypeAlias = tuple[str, int]
"""What names a member in a workload: the pattern's name and the index of the clause."""
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
        """Its keys: what of it equals what of other members."""
        return ClauseForms(self.pattern, self.clause)

    @cached_property
    def subsets(self) -> SubsetKeys:
        """The keys of its sub-patterns."""
        return SubsetKeys(self.forms)

    def __str__(self) -> str:
        name, clause = self.id
        return name if len(self.pattern.clauses) == 1 else f"{name} ({clause + 1})"


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
