"""Joint selectivities: the conditions of a clause that one is of, and what it changes where several overlap.

A joint selectivity is named by the keys of its conditions and by the variables that each of them is over, numbered in
pattern order: `a.x < b.x` and `b.x < c.x` of three A have one key, and are not `a.x < b.x` and `a.x < c.x`. Every
clause that asks the same question shares the number, as with selectivities.

Conditions of one scope are tested on the same pairs, so that their joint share (`JointPairs`) costs no more than an
AND. Each set of conditions that a clause asks of two variables is counted under a key of its own beside the conditions
themselves; snapshots decide what of it becomes a joint selectivity.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice

import numpy as np

from cep_pipeline.errors import InputError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause, connected_parts
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
    equal_classes,
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

MOST_PLACES = 1000
"""A joint selectivity is used at so many places of a clause, at most."""
MOST_TOGETHER = 6
"""The most conditions on two variables of which all sets are counted; of more, all together and the first ones in
twos."""


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

    def by(self, snapshot: StatisticsSnapshot) -> ClauseTerms:
        """The same conditions by another snapshot; what joint selectivities apply to is found again only if need be."""
        found = copy(self)
        found.snapshot = snapshot
        for name in ("_shares", "increments", "joints"):
            if name != "joints" or snapshot.joints != self.snapshot.joints:
                found.__dict__.pop(name, None)
        return found

    @cached_property
    def increments(self) -> dict[frozenset[int], float]:
        """Sets of terms, and the logarithm of what each multiplies the estimate of every set by that holds it.

        A joint selectivity replaces the product for its terms, joints of some of them included: what these do already
        is taken off.
        """
        found: dict[frozenset[int], float] = {}
        for terms, joint in self.joints.items():
            ratio = ln_planned(joint.value, joint.tested) - ln_planned(joint.independent, joint.tested)
            found[terms] = ratio - sum(known for smaller, known in found.items() if smaller < terms)
        return found

    @cached_property
    def joints(self) -> dict[frozenset[int], JointSelectivity]:
        """The joint selectivities of sets of terms, smaller sets first."""
        return dict(sorted(self._matches(), key=lambda match: len(match[0])))

    def within(self, names: Collection[str]) -> frozenset[int]:
        """The terms all of whose variables are among these."""
        inside = frozenset(names)
        found = (place for name in inside for place in self._by_first.get(name, ()))
        return frozenset(place for place in found if inside.issuperset(self.terms[place].names))

    def conjuncts(self, terms: Collection[int]) -> frozenset[int]:
        """The conjuncts among the terms: all but the agreements."""
        return frozenset(place for place in terms if self.terms[place].conjunct is not None)

    def with_agreement(self, terms: Collection[int]) -> frozenset[int]:
        """The terms, and all agreement among their variables."""
        inside = self.within(self.names_of(terms))
        return frozenset(terms) | (inside - self.conjuncts(inside))

    def names_of(self, terms: Iterable[int]) -> frozenset[str]:
        """The variables of terms."""
        return frozenset(name for place in terms for name in self.terms[place].names)

    def selectivity(self, term: Term) -> Selectivity:
        """The selectivity of one term in the snapshot."""
        measured = self.snapshot.by_condition.get(term.key)
        if measured is not None:
            return measured
        if term.conjunct is not None:
            return self.snapshot.selectivity(self.pattern, self.clause, term.conjunct)
        return self.snapshot.agreement(self.pattern, self.clause, term.attribute, *term.names)

    def ln_independent(self, terms: Collection[int]) -> float:
        """Logarithm of the joint selectivity if conditions did not depend on each other.

        Agreement is transitive: of each further variable only the most selective pair with the earlier ones counts. So
        it is of several equalities of one attribute.
        """
        total = 0.0
        together = [(attribute, chosen) for attribute, own in self._equal if len(chosen := own.intersection(terms)) > 1]
        if together:
            terms = frozenset(terms).difference(*(chosen for _, chosen in together))
            total = sum(self._ln_equal(attribute, chosen) for attribute, chosen in together)
        agreeing: dict[tuple[str, str], float] = {}
        for place in terms:
            term = self.terms[place]
            ln_share, _, _ = self._shares[place]
            if term.conjunct is not None:
                total += ln_share
            else:
                one, other = term.names
                later = term.attribute, one if self.positions[one] > self.positions[other] else other
                agreeing[later] = min(agreeing.get(later, 0.0), ln_share)
        return total + sum(agreeing.values())

    def _ln_equal(self, attribute: str, chosen: Collection[int]) -> float:
        """Logarithm of the share of events that fulfil some equalities of one attribute."""
        names = sorted(self.names_of(chosen), key=self.positions.__getitem__)
        pairs = ((names.index(one), names.index(other)) for one, other in (self.terms[place].names for place in chosen))

        def ln_share(one: int, other: int) -> float:
            share = self.snapshot.agreement(self.pattern, self.clause, attribute, names[one], names[other])
            return ln_planned(share.value, share.tested)

        return sum(
            min((ln_share(earlier, later) for earlier in part[:place]), default=0.0)
            for part in connected_parts(range(len(names)), pairs)
            for place, later in enumerate(part)
        )

    @cached_property
    def _equal(self) -> list[tuple[str, frozenset[int]]]:
        """The terms that are equalities of one attribute and join the same variables, with the attribute."""
        return [
            (
                attribute,
                frozenset(
                    place
                    for place, term in enumerate(self.terms)
                    if term.conjunct is not None
                    and set(term.names) <= set(names)
                    and term.key == agreement(self.pattern, self.clause, attribute, *term.names).key
                ),
            )
            for attribute, names, _ in equal_classes(self.clause)
        ]

    def ln_expected(self, terms: Collection[int]) -> float:
        """Logarithm of the joint selectivity by all that is known: `ln_independent`, corrected by known joints."""
        known = frozenset(terms)
        corrections = sum(ln_ratio for smaller, ln_ratio in self.increments.items() if smaller <= known)
        return self.ln_independent(terms) + corrections

    def margins(self, terms: Collection[int]) -> tuple[float, float]:
        """The distances below and above its expected logarithm that the terms' intervals allow."""
        return (
            math.hypot(*(self._shares[place][1] for place in terms)),
            math.hypot(*(self._shares[place][2] for place in terms)),
        )

    @cached_property
    def _shares(self) -> list[tuple[float, float, float]]:
        """The logarithm of each term's share, and the distances to the ends of its interval."""
        found = []
        for share in map(self.selectivity, self.terms):
            ln_value = ln_planned(share.value, share.tested)
            below, above = 0.0, 0.0
            if share.low is not None and share.high is not None:
                below = max(ln_value - ln_planned(share.low, share.tested), 0.0)
                above = max(ln_planned(share.high, share.tested) - ln_value, 0.0)
            found.append((ln_value, below, above))
        return found

    def named(self, terms: Collection[int]) -> Members:
        """The keys of terms, sorted, each with the numbers of its variables among those of all."""
        chosen = [self.terms[place] for place in terms]
        names = sorted(self.names_of(terms), key=self.positions.__getitem__)
        return tuple(sorted((term.key, tuple(names.index(name) for name in term.names)) for term in chosen))

    def _matches(self) -> Iterator[tuple[frozenset[int], JointSelectivity]]:
        for joint in self.snapshot.joints:
            for chosen in islice(self._choices(joint.members, frozenset(), {}), MOST_PLACES):
                yield chosen, joint

    def _choices(self, members: Members, chosen: frozenset[int], names: dict[int, str]) -> Iterator[frozenset[int]]:
        """The terms that can be the members of a joint selectivity: its numbers are variables, in their order."""
        if not members:
            yield chosen
            return
        # The member that the fewest terms can be comes first: conditions lead from one variable to the next.
        options = [self._options(key, numbers, names) for key, numbers in members]
        fewest = min(range(len(members)), key=lambda number: len(options[number]))
        _, numbers = members[fewest]
        others = members[:fewest] + members[fewest + 1 :]
        for place in options[fewest]:
            own = self.terms[place].names
            if place in chosen or len(own) != len(numbers):
                continue
            bound = {**names, **dict(zip(numbers, own, strict=True))}
            in_order = [self.positions[bound[number]] for number in sorted(bound)]
            if all(bound[number] == name for number, name in names.items()) and in_order == sorted(set(in_order)):
                yield from self._choices(others, chosen | {place}, bound)

    def _options(self, key: str, numbers: Sequence[int], names: Mapping[int, str]) -> Sequence[int]:
        """Terms with a key, as far as its variables that are bound tell."""
        asked: list[tuple[str, int | None, str]] = [
            (key, place, names[number]) for place, number in enumerate(numbers) if number in names
        ]
        return min((self._by_key.get(one, []) for one in asked or [(key, None, "")]), key=len)

    @cached_property
    def _by_first(self) -> dict[str, list[int]]:
        """The terms by their first variable."""
        found: dict[str, list[int]] = {}
        for place, term in enumerate(self.terms):
            found.setdefault(term.names[0], []).append(place)
        return found

    @cached_property
    def _by_key(self) -> dict[tuple[str, int | None, str], list[int]]:
        """The terms by key, and by key and each of their variables with its place among them."""
        found: dict[tuple[str, int | None, str], list[int]] = {}
        for place, term in enumerate(self.terms):
            found.setdefault((term.key, None, ""), []).append(place)
            for number, name in enumerate(term.names):
                found.setdefault((term.key, number, name), []).append(place)
        return found


def members_to_key(members: Members) -> str:
    """The members of a joint selectivity as text: what they are counted under."""
    return json.dumps(members, ensure_ascii=False)


_SEVERAL = "[["
"""The beginning of such a text, with which no key of a condition begins."""


def _members_of_key(key: str) -> Members:
    return tuple((condition, tuple(over)) for condition, over in json.loads(key))


def _numbers(over: Iterable[object]) -> bool:
    return all(type(number) is int and 0 <= number < MOST_PLACES for number in over)


def check_key(key: str) -> None:
    """Raise ValueError where a key that somebody wrote begins as one of several conditions, and is none."""
    if not key.startswith(_SEVERAL):
        return
    try:
        members = _members_of_key(key)
        if members_to_key(members) == key and all(isinstance(text, str) and _numbers(over) for text, over in members):
            return
    except (TypeError, ValueError, RecursionError):
        pass
    raise ValueError(f"{reprlib.repr(key)} is no key of conditions")


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
        members = _members_of_key(selectivity.condition)
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
        return members_to_key(self.members)

    def holds(self, events: PreparedEvents, first: Array, second: Array) -> Array:
        """bool, for each pair of rows: all of them hold."""
        passing = np.ones(len(first), dtype=bool)
        for part, swapped in zip(self.parts, self.swapped, strict=True):
            left = np.flatnonzero(passing)
            one, other = (second[left], first[left]) if swapped else (first[left], second[left])
            passing[left] = conjunct_holds(part.conjunct, events, {FIRST: one, SECOND: other})
        return passing


def joint_pairs(patterns: Iterable[Pattern]) -> list[JointPairs]:
    """The sets of conditions that clauses ask of two single events, each once."""
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
                for chosen in _sets(terms):
                    joint = _joint(chosen, earlier)
                    found.setdefault(joint.members, joint)
    return list(found.values())


def _sets(terms: Sequence[Term]) -> Iterator[Sequence[Term]]:
    if len(terms) > 1:
        yield terms
    if len(terms) > 2:
        yield from combinations(terms[:MOST_TOGETHER], 2)


def _joint(terms: Sequence[Term], earlier: str) -> JointPairs:
    named = sorted(
        ((term.key, tuple(int(name != earlier) for name in term.names), term) for term in terms),
        key=lambda entry: entry[:2],
    )
    parts = tuple(term.condition for _, _, term in named if isinstance(term.condition, PairCondition))
    first = named[0][1]
    return JointPairs(parts, tuple(over != first for _, over, _ in named), tuple((key, over) for key, over, _ in named))
