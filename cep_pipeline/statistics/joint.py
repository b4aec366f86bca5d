"""Which conditions of a clause a joint selectivity is of, and what it changes where several of them overlap.

A joint selectivity is named by the keys of its conditions and by the variables that each of them is over, numbered in
pattern order: `a.x < b.x` and `b.x < c.x` of three A have one key, and are not `a.x < b.x` and `a.x < c.x`. Every
clause that asks the same question shares the number, as with selectivities.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics.snapshot import JointSelectivity, Selectivity, StatisticsSnapshot
from cep_pipeline.statistics.terms import (
    FIRST,
    SECOND,
    PairCondition,
    agreeing_attributes,
    agreement,
    leaf_of,
    pair_of,
    positive_conjuncts,
    rename,
)
from cep_pipeline.statistics.tuple_terms import tuple_of

SMALLEST = 1e-30
"""No rate and no selectivity is planned with as less than this."""


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
        Whose selectivities count; its joint ones count where `joints` are not given.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        snapshot: StatisticsSnapshot,
        joints: Iterable[JointSelectivity] | None = None,
    ) -> None:
        self.pattern, self.clause, self.snapshot = pattern, clause, snapshot
        self.positions = {variable.name: place for place, variable in enumerate(clause.positive)}
        self.terms = tuple(terms_of_clause(pattern, clause))
        self._joints = tuple(snapshot.joints if joints is None else joints)

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
        return frozenset(place for place, term in enumerate(self.terms) if inside.issuperset(term.names))

    def names_of(self, terms: Iterable[int]) -> frozenset[str]:
        """The variables of terms."""
        return frozenset(name for place in terms for name in self.terms[place].names)

    def selectivity(self, term: Term) -> Selectivity:
        """What the snapshot says of one term."""
        if term.conjunct is not None:
            return self.snapshot.selectivity(self.pattern, self.clause, term.conjunct)
        return self.snapshot.agreement(self.pattern, self.clause, term.attribute, *term.names)

    def ln_independent(self, terms: Collection[int]) -> float:
        """Logarithm of the joint selectivity if conditions did not depend on each other.

        Agreement is transitive: of each further variable only the most selective pair with the earlier ones counts.
        """
        total = 0.0
        agreeing: dict[tuple[str, str], list[float]] = {}
        for place in terms:
            term = self.terms[place]
            share = self.selectivity(term)
            ln_share = ln_planned(share.value, share.tested)
            if term.conjunct is not None:
                total += ln_share
            else:
                later = max(term.names, key=self.positions.__getitem__)
                agreeing.setdefault((term.attribute, later), []).append(ln_share)
        return total + sum(map(min, agreeing.values()))

    def ln_expected(self, terms: Collection[int]) -> float:
        """Logarithm of the joint selectivity by all that is known: `ln_independent`, corrected by known joints."""
        known = frozenset(terms)
        corrections = sum(ln_ratio for smaller, ln_ratio in self.increments.items() if smaller <= known)
        return self.ln_independent(terms) + corrections

    def margins(self, terms: Collection[int]) -> tuple[float, float]:
        """How far below and above its expected logarithm the joint selectivity may lie by the terms' own intervals."""
        below, above = 0.0, 0.0
        for place in terms:
            share = self.selectivity(self.terms[place])
            if share.low is None or share.high is None:
                continue
            ln_value = ln_planned(share.value, share.tested)
            below = math.hypot(below, max(ln_value - ln_planned(share.low, share.tested), 0.0))
            above = math.hypot(above, max(ln_planned(share.high, share.tested) - ln_value, 0.0))
        return below, above

    def named(self, terms: Collection[int]) -> Members:
        """The keys of terms, sorted, each with the numbers of its variables among those of all."""
        chosen = [self.terms[place] for place in terms]
        names = sorted(self.names_of(terms), key=self.positions.__getitem__)
        return tuple(sorted((term.key, tuple(names.index(name) for name in term.names)) for term in chosen))

    def _matches(self) -> Iterator[tuple[frozenset[int], JointSelectivity]]:
        by_key: dict[str, list[int]] = {}
        for place, term in enumerate(self.terms):
            by_key.setdefault(term.key, []).append(place)
        for joint in self._joints:
            if all(key in by_key for key in joint.conditions):
                for chosen in self._choices(joint, by_key, (), {}):
                    yield frozenset(chosen), joint

    def _choices(
        self,
        joint: JointSelectivity,
        by_key: Mapping[str, Sequence[int]],
        chosen: tuple[int, ...],
        names: dict[int, str],
    ) -> Iterator[tuple[int, ...]]:
        """The terms that can be the joint's conditions one after the other: numbers are variables, in their order."""
        if len(chosen) == len(joint.conditions):
            in_order = [self.positions[names[number]] for number in sorted(names)]
            if in_order == sorted(set(in_order)):
                yield chosen
            return
        numbers = joint.over[len(chosen)]
        for place in by_key[joint.conditions[len(chosen)]]:
            own = self.terms[place].names
            if place not in chosen and len(own) == len(numbers):
                bound = dict(zip(numbers, own, strict=True))
                if all(names.get(number, name) == name for number, name in bound.items()):
                    yield from self._choices(joint, by_key, (*chosen, place), {**names, **bound})


def members_to_key(members: Members) -> str:
    """The members of a joint selectivity as text: what they are counted under."""
    return json.dumps(members, ensure_ascii=False)


_SEVERAL = "[["
"""What such a text begins with, and no key of a condition."""


def _members_of_key(key: str) -> Members:
    return tuple((condition, tuple(over)) for condition, over in json.loads(key))


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
    """The conditions of a clause over several single events that have a key."""
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
