"""A component of a workload as arrays of integers: what the compiled search knows of its members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain, combinations, permutations

import numpy as np

from cep_pipeline.planning.costs.model import Array
from cep_pipeline.planning.multi_pattern.local_plans import JoinCosts, LocalPlans
from cep_pipeline.planning.multi_pattern.members import Member, MemberId
from cep_pipeline.planning.multi_pattern.pattern_graph import CommonSubpattern, common_subpatterns
from cep_pipeline.planning.numbers.clause_statistics import mask_of

MAX_PERMUTED = 6
"""Conjuncts over more variables are not compared by the search: it expects their nodes not to be shared."""


@dataclass(frozen=True, eq=False)
class SearchProblem:
    """Members that share sub-patterns, with the numbers that orders or trees of them cost.

    Attributes
    ----------
    members
        In the order of the workload.
    local
        Of each its local plans.
    common
        What they have in common.
    trees
        Whether plans are trees, or else orders.
    """

    members: tuple[Member, ...]
    local: tuple[LocalPlans, ...]
    common: tuple[CommonSubpattern, ...]
    trees: bool

    @classmethod
    def of(cls, members: Sequence[Member], local: Mapping[MemberId, LocalPlans], *, trees: bool) -> SearchProblem:
        """The problem of some members; for trees a single variable is shared whatever they are."""
        own = tuple(local[member.id] for member in members)
        return cls(tuple(members), own, common_subpatterns(members, 2 if trees else 1), trees)

    @cached_property
    def width(self) -> int:
        """The most variables of a member."""
        return max(plans.size for plans in self.local)

    @cached_property
    def ln_scale(self) -> float:
        """ln of what all costs are divided by."""
        return max(plans.ln_least for plans in self.local)

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """The different windows, ascending."""
        return tuple(sorted({member.window for member in self.members}))

    @cached_property
    def sizes(self) -> Array:
        """The number of variables of each member: int64, shape (n,)."""
        return np.array([plans.size for plans in self.local], np.int64)

    @cached_property
    def window_ranks(self) -> Array:
        """The place of each member's window among all windows: int64, shape (n,)."""
        rank = {window: place for place, window in enumerate(self.windows)}
        return np.array([rank[member.window] for member in self.members], np.int64)

    @cached_property
    def tables_at(self) -> Array:
        """The beginning of each member's sets in `costs`, `first` and `second`: int64, shape (n,)."""
        return np.cumsum([0, *(1 << plans.size for plans in self.local[:-1])]).astype(np.int64)

    @cached_property
    def costs(self) -> JoinCosts:
        """The costs of each member's sets in the member's window, one member behind the other."""
        return JoinCosts.behind_one_another(plans.costs(self.ln_scale) for plans in self.local)

    @cached_property
    def first(self) -> Array:
        """One side of the cheapest tree of each member's set, or the last variable of its cheapest order: int64."""
        return np.concatenate([plans.sides if self.trees else plans.last_and_next[0] for plans in self.local])

    @cached_property
    def second(self) -> Array:
        """The next variable of the cheapest way on from an order that begins with each member's set: int64."""
        if self.trees:
            return np.zeros(len(self.first), np.int64)
        return np.concatenate([plans.last_and_next[1] for plans in self.local])

    @cached_property
    def leaves(self) -> Array:
        """A hash of the leaf of each member's variable: int64, shape (n, width)."""
        found = np.zeros((len(self.members), self.width), np.int64)
        for place, member in enumerate(self.members):
            keys = member.forms.leaf_keys
            found[place, : len(keys)] = [_hash(key) for key in keys]
        return found

    @cached_property
    def agreement(self) -> Array:
        """A hash of the attributes on which all events of a member's match agree: int64, shape (n,)."""
        return np.array([_hash(repr(sorted(set(member.clause.agree_on)))) for member in self.members], np.int64)

    @cached_property
    def relations(self) -> Relations:
        """The relations between the variables of each member."""
        return Relations.of(self.members)

    @cached_property
    def entries_at(self) -> Array:
        """The beginning of the uses of each common sub-pattern: int64, shape (number of sub-patterns + 1,)."""
        return np.cumsum([0, *(len(subpattern.uses) for subpattern in self.common)]).astype(np.int64)

    @cached_property
    def entries(self) -> tuple[Array, Array, Array]:
        """The member, the set and the slots (-1: none) of each use: int64, shapes (m,), (m,), (m, width)."""
        uses = list(chain.from_iterable(subpattern.uses for subpattern in self.common))
        slots = np.full((len(uses), self.width), -1, np.int64)
        for place, (_, _, own) in enumerate(uses):
            slots[place, : len(own)] = own
        return np.array([use[0] for use in uses], np.int64), np.array([use[1] for use in uses], np.int64), slots


@dataclass(frozen=True, eq=False)
class Relations:
    """The relations between variables of members, as hashes.

    Attributes
    ----------
    at
        Where the relations of each member begin: int64, shape (n + 1,).
    sets
        The variables of each relation as a set: int64, shape (r,).
    places_at, places
        The same, ascending: where those of each begin, and all of them.
    templates_at, templates
        Of each relation the hashes of what it says, by the permutation that the slots of its variables are of their
        places, in lexicographic order: where they begin, and all of them.
    """

    at: Array
    sets: Array
    places_at: Array
    places: Array
    templates_at: Array
    templates: Array

    @classmethod
    def of(cls, members: Sequence[Member]) -> Relations:
        """The relations of members."""
        at, sets, places_at, places, templates_at, templates = [0], [], [0], [], [], []  # type: ignore[var-annotated]
        for member in members:
            for mentioned, compared, texts in _relations(member):
                sets.append(mask_of(mentioned))
                places += compared
                places_at.append(len(places))
                templates_at.append(len(templates))
                templates += [_hash(text) for text in texts]
            at.append(len(sets))
        # One more, of no member: an array has a first element.
        arrays = (at, [*sets, 0], places_at, [*places, 0], [*templates_at, 0], [*templates, 0])
        return cls(*(np.array(array, np.int64) for array in arrays))


def _relations(member: Member) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], list[str]]]:
    """The variables of each relation, those whose slots matter, and what it says by the permutation of these."""
    forms = member.forms
    everything = range(len(forms.names))
    for pair in combinations(everything, 2):
        one, other = member.subsets.relation(*pair), member.subsets.relation(*reversed(pair))
        if one[0] or one[1]:  # conjuncts, or which one comes before
            yield pair, pair, [repr(one), repr(other)]
    larger = {tuple(sorted(mentioned)) for mentioned in forms.conjuncts_within(tuple(everything)).values()}
    for places in sorted(places for places in larger if len(places) > 2):
        if len(places) > MAX_PERMUTED:
            yield places, places[:1], [repr((member.id, places))]
            continue
        texts = []
        for ranks in permutations(range(len(places))):
            ordered = tuple(place for _, place in sorted(zip(ranks, places, strict=True)))
            within = forms.conjuncts_within(ordered)
            texts.append(repr(sorted(text for text, mentioned in within.items() if len(mentioned) == len(places))))
        yield places, places, texts


def _hash(text: str) -> int:
    """64 bits of a text, as a signed number."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
