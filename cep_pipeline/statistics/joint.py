"""Joint selectivities: the conditions of a clause that one is of, and what it changes where several overlap.

A joint selectivity is named by the keys of its conditions and by the variables that each of them is over, numbered in
pattern order: `a.x < b.x` and `b.x < c.x` of three A have one key, and are not `a.x < b.x` and `a.x < c.x`. Every
clause that asks the same question shares the number, as with selectivities.

Joint selectivities are of conditions on the same two variables. These are tested on the same pairs, so that their joint
share (`JointPairs`) costs no more than an AND. All conditions that a clause asks of two variables are counted under a
key of their own beside the conditions themselves; snapshots decide what of it becomes a joint selectivity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from cep_pipeline.errors import InputError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.snapshot import JointSelectivity, Selectivity, StatisticsSnapshot
from cep_pipeline.statistics.terms import (
    FIRST,
    SECOND,
    PairCondition,
    PairScope,
    agreeing_attributes,
    agreement,
    leaf_of,
    pair_of,
    positive_conjuncts,
    rename,
    tuple_of,
)

SMALLEST = 1e-30
"""Least rate and selectivity that planning uses; smaller ones count as this."""


Members = tuple[tuple[str, tuple[int, ...]], ...]
"""Keys of conditions, sorted, each with its variables: what `JointSelectivity.members` has."""
DEPENDENT_FACTOR = 2.0
"""Shares that are off by more than this factor make conditions count as dependent, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Term:
    """A condition of a clause whose selectivity has a key.

    Attributes
    ----------
    key
        Of the selectivity.
    names
        The variables, those of `FIRST`, `SECOND` and so on of the key one after the other.
    conjunct
        None where it is agreement on an attribute.
    attribute
        That attribute.
    condition
        What is measured under the key, where it is on pairs.
    """

    key: str
    names: tuple[str, ...]
    conjunct: Conjunct | None = None
    attribute: str = ""
    condition: PairCondition | None = None


class ClauseTerms:
    """The conditions of a clause over several single events, and what is known of them together.

    Parameters
    ----------
    snapshot
        Whose selectivities count, and its joint ones.
    """

    def __init__(self, pattern: Pattern, clause: Clause, snapshot: StatisticsSnapshot) -> None:
        self.pattern, self.clause, self.snapshot = pattern, clause, snapshot
        self.positions = {variable.name: place for place, variable in enumerate(clause.positive)}
        self.terms = tuple(terms_of_clause(pattern, clause))
        self._on_pairs = self._by_pairs()

    def by(self, snapshot: StatisticsSnapshot) -> ClauseTerms:
        """The same conditions by another snapshot; what joint selectivities apply to is found again only if need be."""
        found = copy(self)
        found.snapshot = snapshot
        if snapshot.joints != self.snapshot.joints:
            for name in ("increments", "joints"):
                found.__dict__.pop(name, None)
        return found

    @cached_property
    def increments(self) -> dict[frozenset[int], float]:
        """Sets of terms, and the logarithm of what each multiplies the estimate of every set by that holds it.

        A joint selectivity replaces the product for its terms, joints of some of them (of other patterns) included:
        what these do already is taken off.
        """
        found: dict[frozenset[int], float] = {}
        for terms, joint in self.joints.items():
            ratio = ln_planned(joint.value, joint.tested) - ln_planned(joint.independent, joint.tested)
            found[terms] = ratio - sum(known for smaller, known in found.items() if smaller < terms)
        return found

    @cached_property
    def joints(self) -> dict[frozenset[int], JointSelectivity]:
        """The joint selectivities of sets of terms on two variables, smaller sets first."""
        found: dict[frozenset[int], JointSelectivity] = {}
        for joint in sorted(self.snapshot.joints, key=lambda joint: len(joint.members)):
            for known in self._on_pairs:
                if known.keys() >= set(joint.members):
                    found[frozenset(known[member] for member in joint.members)] = joint
        return found

    def _by_pairs(self) -> list[dict[tuple[str, tuple[int, ...]], int]]:
        """The terms of each two variables that have several, by what a joint selectivity calls them."""
        found: dict[frozenset[str], dict[tuple[str, tuple[int, ...]], int]] = {}
        for place, term in enumerate(self.terms):
            if len(term.names) == 2:
                earlier = min(term.names, key=self.positions.__getitem__)
                over = tuple(int(name != earlier) for name in term.names)
                found.setdefault(frozenset(term.names), {})[term.key, over] = place
        return [known for known in found.values() if len(known) > 1]

    def within(self, names: Collection[str]) -> frozenset[int]:
        """The terms all of whose variables are among these."""
        inside = frozenset(names)
        found = (place for name in inside for place in self._by_first.get(name, ()))
        return frozenset(place for place in found if inside.issuperset(self.terms[place].names))

    def names_of(self, terms: Iterable[int]) -> frozenset[str]:
        """The variables of terms."""
        return frozenset(name for place in terms for name in self.terms[place].names)

    @cached_property
    def _by_first(self) -> dict[str, list[int]]:
        """The terms by their first variable."""
        found: dict[str, list[int]] = {}
        for place, term in enumerate(self.terms):
            found.setdefault(term.names[0], []).append(place)
        return found


_SEVERAL = "[["
"""The beginning of such a text, with which no key of a condition begins."""


def split_joints(
    measured: Iterable[Selectivity], factor: float
) -> tuple[tuple[Selectivity, ...], tuple[JointSelectivity, ...]]:
    """Selectivities of single conditions, and those of several that are off from the product by more than a factor.

    Parameters
    ----------
    measured
        Those of conditions, and of `JointPairs` by their keys.
    """
    single: list[Selectivity] = []
    together: list[Selectivity] = []
    for selectivity in measured:
        (together if selectivity.condition.startswith(_SEVERAL) else single).append(selectivity)
    by_key = {selectivity.condition: selectivity for selectivity in single}
    joints = []
    for selectivity in together:
        members = tuple((condition, tuple(over)) for condition, over in json.loads(selectivity.condition))
        if all(key in by_key for key, _ in members):
            joint = _dependent(selectivity, members, [by_key[key] for key, _ in members], factor)
            if joint is not None:
                joints.append(joint)
    return tuple(single), tuple(joints)


def _dependent(
    measured: Selectivity, members: Members, parts: Sequence[Selectivity], factor: float
) -> JointSelectivity | None:
    """The joint selectivity, if it is surely off from the product of its parts, and by more than the factor."""
    independent, least, most = 1.0, 1.0, 1.0
    for part in parts:
        independent *= part.value
        least *= part.value if part.low is None else part.low
        most *= part.value if part.high is None else part.high
    low = measured.value if measured.low is None else measured.low
    high = measured.value if measured.high is None else measured.high
    above = measured.value > factor * independent and low > most
    below = factor * measured.value < independent and high < least
    if not (above or below):
        return None
    return JointSelectivity(
        tuple(key for key, _ in members),
        measured.value,
        low,
        high,
        measured.tested,
        independent,
        tuple(over for _, over in members),
        measured.source,
    )


def check_factor(factor: float) -> None:
    """Raise InputError for a factor that is no measure of dependence."""
    if not (math.isfinite(factor) and factor > 1):
        raise InputError(
            f"the factor by which shares are off where conditions depend on each other is above 1, not {factor}"
        )


def ln_planned(share: float, tested: int) -> float:
    """Logarithm of the share that planning works with: of none, half a tuple of those tested."""
    return math.log(max(share if share > 0 else 0.5 / (tested + 1), SMALLEST))


def terms_of_clause(pattern: Pattern, clause: Clause) -> Iterator[Term]:
    """The conditions of a clause over several single events that have a key, each once.

    A clause may ask the same twice: by a comparison, and by an equivalence test or PARTITION BY.
    """
    asked: set[tuple[str, tuple[str, ...]]] = set()
    for term in _all_terms(pattern, clause):
        if (term.key, term.names) not in asked:
            asked.add((term.key, term.names))
            yield term


def _all_terms(pattern: Pattern, clause: Clause) -> Iterator[Term]:
    single = [variable.name for variable in clause.positive if not variable.kleene]
    for conjunct in positive_conjuncts(clause):
        if not conjunct.variables <= set(single):
            continue
        measured = pair_of(pattern, clause, conjunct)
        larger = tuple_of(pattern, clause, conjunct) if len(conjunct.variables) > 2 else None
        if larger is not None:
            yield Term(larger.key, tuple(name for name in single if name in conjunct.variables), conjunct)
        elif measured is not None:
            names = _as_in_key(pattern, clause, measured, conjunct.variables, conjunct)
            yield Term(measured.key, names, conjunct, condition=measured)
    for attribute in agreeing_attributes(pattern, clause):
        for pair in combinations(single, 2):
            measured = agreement(pattern, clause, attribute, *pair)
            yield Term(measured.key, _as_in_key(pattern, clause, measured, pair), None, attribute, measured)


def _as_in_key(
    pattern: Pattern,
    clause: Clause,
    condition: PairCondition,
    variables: Collection[str],
    conjunct: Conjunct | None = None,
) -> tuple[str, ...]:
    """The variables that are the first and the second event of a condition's pairs."""
    one, other = sorted(variables, key=lambda name: clause.by_name[name].position)
    for first, second in ((one, other), (other, one)):
        leaves = leaf_of(pattern, clause, first), leaf_of(pattern, clause, second)
        fits = leaves == (condition.scope.first, condition.scope.second)
        if fits and (conjunct is None or rename(conjunct, {first: FIRST, second: SECOND}) == condition.conjunct):
            return first, second
    raise ValueError(f"{condition.key!r} is no condition of {one!r} and {other!r}")


@dataclass(frozen=True)
class JointPairs:
    """Conditions of one scope on the same two events.

    Attributes
    ----------
    parts
        The conditions; all have one scope.
    swapped
        Of which the first event is the second one of the others: where both are of one leaf, in no order.
    members
        What `JointSelectivity.members` has.
    """

    parts: tuple[PairCondition, ...]
    swapped: tuple[bool, ...]
    members: Members

    @property
    def scope(self) -> PairScope:
        """The scope of the pairs."""
        return self.parts[0].scope

    @cached_property
    def key(self) -> str:
        """The members as text: what the pairs are counted under."""
        return json.dumps(self.members, ensure_ascii=False)

    def holds(self, events: PreparedEvents, first: Array, second: Array, known: Mapping[str, Array]) -> Array:
        """bool, for each pair of rows: all of them hold; it is known by key which pairs pass each of the conditions."""
        passing = np.ones(len(first), dtype=bool)
        for part, swapped in zip(self.parts, self.swapped, strict=True):
            around = {FIRST: second, SECOND: first}
            passing &= conjunct_holds(part.conjunct, events, around) if swapped else known[part.key]
        return passing


def joint_pairs(patterns: Iterable[Pattern]) -> list[JointPairs]:
    """The conditions that clauses ask of two single events together, each set once."""
    found: dict[Members, JointPairs] = {}
    for pattern in patterns:
        for clause in pattern.clauses:
            positions = {variable.name: place for place, variable in enumerate(clause.positive)}
            on_pair: dict[frozenset[str], list[Term]] = {}
            for term in terms_of_clause(pattern, clause):
                if isinstance(term.condition, PairCondition):
                    on_pair.setdefault(frozenset(term.names), []).append(term)
            for names, terms in on_pair.items():
                earlier = min(names, key=positions.__getitem__)
                if len(terms) > 1:
                    joint = _joint(terms, earlier)
                    found.setdefault(joint.members, joint)
    return list(found.values())


def _joint(terms: Sequence[Term], earlier: str) -> JointPairs:
    named = sorted(
        ((term.key, tuple(int(name != earlier) for name in term.names), term) for term in terms),
        key=lambda entry: entry[:2],
    )
    parts = tuple(term.condition for _, _, term in named if isinstance(term.condition, PairCondition))
    first = named[0][1]
    return JointPairs(parts, tuple(over != first for _, over, _ in named), tuple((key, over) for key, over, _ in named))
