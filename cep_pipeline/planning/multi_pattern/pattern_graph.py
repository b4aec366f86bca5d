"""The multi-pattern graph: which members of a workload have which sub-patterns in common (MCEP [0096]-[0099], [0158]).

Its vertices are the members of the workload, with an edge between two that have a sub-pattern in common. Nothing of it
is stored: `components` follows its edges, and `common_subpatterns` has what its edges carry, with the members of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import chain, combinations
from operator import or_
from typing import NamedTuple, TypeVar

from cep_pipeline.planning.clause_statistics import mask_of
from cep_pipeline.planning.multi_pattern.canonical import bits_of
from cep_pipeline.planning.multi_pattern.members import Member

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
