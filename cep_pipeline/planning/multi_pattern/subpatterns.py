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
from itertools import islice

from cep_pipeline.planning.cardinality import mask_of
from cep_pipeline.planning.multi_pattern.members import Member
from cep_pipeline.planning.multi_pattern.shared_plan import Slots
from cep_pipeline.planning.multi_pattern.subset_keys import SubsetKeys, bits_of

MAX_CLIQUES = 10_000
"""So many maximal mappings between two members are looked at; only where many variables are alike there are as many."""


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
    mask = mask_of(member.names.index(name) for name in names)
    return _subpattern(member.subsets, mask)


def maximal_common(one: Member, other: Member) -> tuple[Subpattern, ...]:
    """The maximal common sub-patterns of two members, the largest first.

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
    masks = (sum(member.subsets.masks_of_leaves[leaf] for leaf in both) for member in (one, other))
    return maximal_within(one.subsets, next(masks), other.subsets, next(masks))


def maximal_within(one: SubsetKeys, mask: int, other: SubsetKeys, other_mask: int) -> tuple[Subpattern, ...]:
    """The maximal common sub-patterns of some variables of two clauses, the largest first."""
    if one.key(mask) == other.key(other_mask):
        return (_subpattern(one, mask),)
    pairs = [
        (here, there)
        for here in bits_of(mask)
        for there in bits_of(other_mask)
        if one.forms.leaf_keys[here] == other.forms.leaf_keys[there]
    ]
    near = [
        mask_of(
            place
            for place, (v, w) in enumerate(pairs)
            if v != here and w != there and one.relation(here, v) == other.relation(there, w)
        )
        for here, there in pairs
    ]
    found: dict[str, tuple[int, Subpattern]] = {}
    for clique in islice(_maximal_cliques(near), MAX_CLIQUES):
        mapping = dict(pairs[place] for place in bits_of(clique))
        for part in _without_other_conjuncts(one, other, mapping):
            found.setdefault(one.key(part), (part, _subpattern(one, part)))
    return _maximal(one, found)


def _subpattern(subsets: SubsetKeys, mask: int) -> Subpattern:
    return Subpattern(subsets.key(mask), subsets.leaves(mask))


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


def _maximal(subsets: SubsetKeys, found: dict[str, tuple[int, Subpattern]]) -> tuple[Subpattern, ...]:
    """Those that are in no other one, the largest first; each with its variables in one of the two clauses."""
    kept: list[tuple[int, Subpattern]] = []
    for mask, part in sorted(found.values(), key=lambda pair: (-pair[1].size, pair[1].key)):
        if not any(subsets.masks_with(part.key, part.leaves, among=larger) for larger, _ in kept):
            kept.append((mask, part))
    return tuple(part for _, part in kept)


def _maximal_cliques(near: list[int]) -> Iterator[int]:
    """The maximal cliques of a graph, vertices as bits; by the algorithm of Bron and Kerbosch with pivots."""
    waiting = [(0, (1 << len(near)) - 1, 0)]
    while waiting:
        clique, candidates, excluded = waiting.pop()
        if not candidates and not excluded:
            yield clique
            continue
        pivot = max(bits_of(candidates | excluded), key=lambda vertex: (near[vertex] & candidates).bit_count())
        for vertex in bits_of(candidates & ~near[pivot]):
            waiting.append((clique | 1 << vertex, candidates & near[vertex], excluded & near[vertex]))
            candidates &= ~(1 << vertex)
            excluded |= 1 << vertex
