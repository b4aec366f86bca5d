"""Maximal common sub-patterns of two members (MCEP [0094], [0161]-[0162]).

A common sub-pattern is the projection of both members on some of their variables, equal by a mapping of these: event
types, conjuncts, temporal order, TIES, the attributes on which events agree, and what windows measure; its window is
the smaller one of the two. It is maximal where no other one contains it; there may be several.

The patent intersects the event types, projects the conditions and the structure on them, and drops what differs. What
has to be dropped is a choice, and each choice may lead to another maximal sub-pattern. So here pairs of variables with
equal leaves are the vertices of a graph with an edge between two pairs where both members have the same between them;
the maximal cliques of this graph are the maximal common sub-patterns, but for conjuncts over three or more variables,
which are looked at afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from cep_pipeline.planning.multi_pattern.members import Member
from cep_pipeline.planning.multi_pattern.shared_plan import Slots
from cep_pipeline.planning.multi_pattern.subset_keys import SubsetKeys, bits_of
from cep_pipeline.planning.numbers.cardinality import mask_of

MAX_CLIQUES = 500
"""So many maximal mappings between two members are looked at. There are more only where many variables are alike; then
a maximal common sub-pattern may be missed, and is not shared."""


@dataclass(frozen=True)
class Subpattern:
    """A sub-pattern, apart from the members that contain it.

    Attributes
    ----------
    key
        As `SubsetKeys` has it; of a single variable the key of its leaf.
    leaves
        The keys of its leaves, by slot.
    """

    key: str
    leaves: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of its variables."""
        return len(self.leaves)

    def embeddings(self, member: Member) -> tuple[Slots, ...]:
        """Where it is in a member: the member's variables in the slots; none: the member does not contain it.

        There are several only where variables are alike.
        """
        subsets = member.subsets
        return tuple(subsets.names(mask) for mask in subsets.masks_with(self.key, self.leaves))

    def is_in(self, member: Member) -> bool:
        """Whether a member contains it."""
        return bool(member.subsets.masks_with(self.key, self.leaves))


def subpattern_of(member: Member, names: Iterable[str]) -> Subpattern:
    """The sub-pattern of some of a member's positive variables."""
    return subpattern_at(member, mask_of(member.names.index(name) for name in names))


def subpattern_at(member: Member, mask: int) -> Subpattern:
    """The sub-pattern of a set of a member's variables, as `SubsetKeys` writes sets."""
    return Subpattern(member.subsets.key(mask), member.subsets.leaves(mask))


def maximal_common(one: Member, other: Member) -> tuple[Subpattern, ...]:
    """The maximal common sub-patterns of two members.

    Examples
    --------
    >>> from cep_pipeline.events.schema import StreamSchema
    >>> from cep_pipeline.language.parser import parse_patterns
    >>> from cep_pipeline.planning.multi_pattern.members import members_of
    >>> schema = StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string"}})
    >>> text = "PATTERN SEQ(A a, B b, C c) WITHIN 1 second; PATTERN SEQ(A p, C q, B r) WITHIN 2 seconds"
    >>> one, other = members_of(parse_patterns(text, schema))
    >>> found = maximal_common(one, other)
    >>> sorted(["".join(sorted(part.embeddings(member)[0])) for member in (one, other)] for part in found)
    [['ab', 'pr'], ['ac', 'pq']]
    """
    both = one.subsets.masks_of_leaves.keys() & other.subsets.masks_of_leaves.keys()
    if not both:
        return ()
    here, there = (sum(member.subsets.masks_of_leaves[leaf] for leaf in both) for member in (one, other))
    return tuple(subpattern_at(one, mask) for mask in maximal_within(one.subsets, here, other.subsets, there))


def maximal_within(one: SubsetKeys, mask: int, other: SubsetKeys, other_mask: int) -> list[int]:
    """Where in the first of two clauses the maximal common sub-patterns of some of their variables are."""
    if one.key(mask) == other.key(other_mask):
        return [mask]
    leaf_keys, other_keys = one.forms.leaf_keys, other.forms.leaf_keys
    others = bits_of(other_mask)
    pairs = [(here, there) for here in bits_of(mask) for there in others if leaf_keys[here] == other_keys[there]]
    near = [0] * len(pairs)
    for place, (here, there) in enumerate(pairs):
        for earlier in range(place):
            v, w = pairs[earlier]
            if v != here and w != there and one.relation(here, v) == other.relation(there, w):
                near[place] |= 1 << earlier
                near[earlier] |= 1 << place
    cliques = [[pairs[place] for place in bits_of(clique)] for clique in _maximal_cliques(tuple(near))]
    if max(one.forms.widest, other.forms.widest) > 2:
        masks = [part for clique in cliques for part in _without_other_conjuncts(one, other, dict(clique))]
        return _maximal(one, masks)
    masks = [mask_of(here for here, _ in clique) for clique in cliques]
    return masks if one.distinct and other.distinct else _maximal(one, masks)


def _without_other_conjuncts(one: SubsetKeys, other: SubsetKeys, mapping: dict[int, int]) -> Iterator[int]:
    """The largest parts of a mapping whose conjuncts are equal: of each that is not, one variable is dropped."""
    waiting, seen = [frozenset(mapping)], set[frozenset[int]]()
    while waiting:
        places = waiting.pop()
        if places in seen:
            continue
        seen.add(places)
        here = tuple(places)
        there = tuple(mapping[place] for place in here)
        found, wanted = one.forms.conjuncts_within(here), other.forms.conjuncts_within(there)
        back = dict(zip(there, here, strict=True))
        differing = [set(found[text]) for text in found.keys() - wanted.keys()]
        differing += [{back[place] for place in wanted[text]} for text in wanted.keys() - found.keys()]
        if not differing:
            yield mask_of(places)
        else:
            waiting += [places - {place} for place in min(differing, key=len)]


def _maximal(subsets: SubsetKeys, masks: Iterable[int]) -> list[int]:
    """Of sets of a clause's variables those whose sub-pattern is in no other one's, one of each, the largest first."""
    kept: list[int] = []
    for mask in sorted({subsets.key(mask): mask for mask in masks}.values(), key=lambda mask: -mask.bit_count()):
        if not any(subsets.masks_with(subsets.key(mask), subsets.leaves(mask), among=larger) for larger in kept):
            kept.append(mask)
    return kept


@lru_cache(maxsize=4096)
def _maximal_cliques(near: tuple[int, ...]) -> tuple[int, ...]:
    """The maximal cliques of a graph, or `MAX_CLIQUES` of them, vertices as bits.

    By the algorithm of Bron and Kerbosch with pivots.
    """
    found: list[int] = []
    waiting = [(0, (1 << len(near)) - 1, 0)]
    while waiting and len(found) < MAX_CLIQUES:
        clique, candidates, excluded = waiting.pop()
        if not candidates and not excluded:
            found.append(clique)
            continue
        if not candidates:
            continue
        pivot = max(bits_of(candidates | excluded), key=lambda vertex: (near[vertex] & candidates).bit_count())
        for vertex in bits_of(candidates & ~near[pivot]):
            waiting.append((clique | 1 << vertex, candidates & near[vertex], excluded & near[vertex]))
            candidates &= ~(1 << vertex)
            excluded |= 1 << vertex
    return tuple(found)
