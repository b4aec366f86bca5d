"""The multi-pattern graph: which members of a workload have which sub-patterns in common (MCEP [0096]-[0099], [0158]).

Its vertices are the members of the workload, with an edge between two that have a sub-pattern in common. Nothing of it
is stored: `components` follows its edges, and `common_subpatterns` has what its edges carry, with the members of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TypeVar

from cep_pipeline.planning.multi_pattern.canonical import SubsetKeys, bits_of
from cep_pipeline.planning.multi_pattern.members import Member
from cep_pipeline.planning.numbers.clause_statistics import mask_of

MAX_CLIQUES = 500
"""Most maximal mappings between two members that are looked at. There are more only where many variables are alike;
then a maximal common sub-pattern may be missed, and is not shared."""
MAX_ALL_SUBSETS = 10
"""The largest maximal common sub-patterns of which all parts are tried; of larger ones those of up to `MAX_SMALL`
variables, and those that leave out one or none."""
MAX_SMALL = 3
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


@dataclass(frozen=True, eq=False)
class CommonSubpattern:
    """A sub-pattern that several members have: neighbours share it.

    Attributes
    ----------
    uses
        The place of a member among those that were asked for, the sub-pattern's variables as a set, and in slots: equal
        slots of different uses are equal variables.
    """

    uses: tuple[tuple[int, int, tuple[int, ...]], ...]

    @cached_property
    def members(self) -> frozenset[int]:
        """The members that have it."""
        return frozenset(member for member, _, _ in self.uses)


def common_subpatterns(members: Sequence[Member], min_size: int) -> tuple[CommonSubpattern, ...]:
    """All sub-patterns of two members or more: the parts of the maximal common ones (Gamma of MCEP [0094]).

    Parameters
    ----------
    min_size
        The least number of variables.

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
    >>> ["".join(sorted(p1.subsets.names(common.uses[0][1]))) for common in common_subpatterns([p1, p2], 2)]
    ['ac', 'ad', 'cd', 'acd']
    """
    uses: dict[str, list[tuple[int, int, tuple[int, ...]]]] = {}
    for place, (member, maximal) in enumerate(zip(members, _maximal_in_each(members), strict=True)):
        for mask in dict.fromkeys(part for whole in maximal for part in _parts(whole, min_size)):
            uses.setdefault(member.subsets.key(mask), []).append((place, mask, member.subsets.slots(mask)))
    common = (CommonSubpattern(tuple(of_key)) for of_key in uses.values())
    return tuple(subpattern for subpattern in common if len(subpattern.members) > 1)


def _parts(mask: int, min_size: int) -> Iterator[int]:
    places = bits_of(mask)
    sizes: Sequence[int] = range(min_size, len(places) + 1)
    if len(places) > MAX_ALL_SUBSETS:
        sizes = [*range(min_size, MAX_SMALL + 1), len(places) - 1, len(places)]
    for size in sizes:
        for chosen in combinations(places, size):
            yield mask_of(chosen)


def _maximal_in_each(members: Sequence[Member]) -> list[list[int]]:
    """The sets of each member's variables that are a maximal common sub-pattern of any two members."""
    found: list[list[int]] = []
    with_leaf: dict[str, dict[int, int]] = {}  # by key of leaf and place of a member before: its variables
    known: dict[str, dict[str, tuple[str, ...]]] = {}  # by first leaf and key: the leaves
    for place, member in enumerate(members):
        subsets, own = member.subsets, dict[str, int]()
        for mask in _maximal_with_others(member, members, with_leaf):
            key, leaves = subsets.key(mask), subsets.leaves(mask)
            own[key] = mask
            of_first = known.setdefault(leaves[0], {})
            if key in of_first:
                continue
            of_first[key] = leaves
            for other in min((with_leaf[leaf] for leaf in leaves), key=len):
                found[other] += members[other].subsets.masks_with(key, leaves)
        found.append([])
        for leaf in subsets.masks_of_leaves:
            for key, leaves in known.get(leaf, {}).items():
                if subsets.masks_of_leaves.keys() >= set(leaves):
                    found[place] += subsets.masks_with(key, leaves) or ([own[key]] if key in own else [])
        for leaf, mask in subsets.masks_of_leaves.items():
            with_leaf.setdefault(leaf, {})[place] = mask
    return found


def _maximal_with_others(
    member: Member, members: Sequence[Member], with_leaf: dict[str, dict[int, int]]
) -> Iterator[int]:
    """The sets of a member's variables that are its maximal common sub-patterns with members before it."""
    here: dict[int, int] = {}
    there: dict[int, int] = {}
    for leaf, mask in member.subsets.masks_of_leaves.items():
        for other, of_other in with_leaf.get(leaf, {}).items():
            here[other] = here.get(other, 0) | mask
            there[other] = there.get(other, 0) | of_other
    # Many others have the same in common: each such group is looked at once.
    groups: dict[tuple[int, str], int] = {}
    for other, mask in here.items():
        groups.setdefault((mask, members[other].subsets.key(there[other])), other)
    for (mask, _), other in groups.items():
        yield from _maximal_within(member.subsets, mask, members[other].subsets, there[other])


def _maximal_within(one: SubsetKeys, mask: int, other: SubsetKeys, other_mask: int) -> list[int]:
    """The sets of the first clause's variables whose sub-patterns are the maximal common ones of some variables."""
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
    """The sets of a clause's variables whose sub-pattern is in no other one's, one of each, the largest first."""
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
