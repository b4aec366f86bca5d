"""The multi-pattern graph: which members of a workload have which sub-patterns in common (MCEP [0096]-[0099], [0158]).

Its vertices are the members of the workload, with an edge between two that have a sub-pattern in common. Neither edges
nor sets of common sub-patterns are stored: as the patent has it ([0160]), there are two tables. One has for each
sub-pattern that is a maximal common one of some two members all members that contain it; the other one has for each
member those of these sub-patterns that it contains. All else follows: the maximal common sub-patterns of two members
are the maximal ones of those that both contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from cep_pipeline.errors import PlanError
from cep_pipeline.planning.multi_pattern.canonical import MAX_EMBEDDINGS, SubsetKeys, bits_of
from cep_pipeline.planning.multi_pattern.members import Member, MemberId
from cep_pipeline.planning.multi_pattern.shared_plan import Slots
from cep_pipeline.planning.numbers.clause_statistics import mask_of

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
        """The places of the sub-pattern in a member, as variables in the slots; none where it is not in it.

        There are several only where variables are alike.
        """
        subsets = member.subsets
        return tuple(subsets.names(mask) for mask in subsets.masks_with(self.key, self.leaves))

    def is_in(self, member: Member) -> bool:
        """True if a member contains it."""
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


@dataclass(eq=False, slots=True)
class _Common:
    """An entry of the first table; sets of members are the bits of an integer, by their numbers.

    Attributes
    ----------
    leaves
        Its leaves, as the bits of an integer, by their numbers: only members with all of these can contain it.
    members
        Those that contain the sub-pattern.
    pairs
        The number of pairs of members of which it is a maximal common sub-pattern; where there are none left, it goes.
    """

    subpattern: Subpattern
    leaves: int
    members: int = 0
    pairs: int = 0


class PatternGraph:
    """The multi-pattern graph of a workload; members come and go.

    Parameters
    ----------
    members
        The first members.

    Examples
    --------
    MCEP [0095]:

    >>> from cep_pipeline.events.schema import StreamSchema
    >>> from cep_pipeline.language.parser import parse_patterns
    >>> from cep_pipeline.planning.multi_pattern.members import members_of
    >>> schema = StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string"}})
    >>> text = '''NAME p1 PATTERN SEQ(A a, B b, C c, D d) WITHIN 10 seconds;
    ...           NAME p2 PATTERN SEQ(A a, E e, C c, D d) WITHIN 20 seconds'''
    >>> graph = PatternGraph(members_of(parse_patterns(text, schema)))
    >>> (common,) = graph.maximal_common(("p1", 0), ("p2", 0))
    >>> sorted(common.embeddings(graph.members["p2", 0])[0]), graph.members_with(common)
    (['a', 'c', 'd'], (('p1', 0), ('p2', 0)))
    """

    def __init__(self, members: Iterable[Member] = ()) -> None:
        self.members: dict[MemberId, Member] = {}
        self._common: dict[str, _Common] = {}
        self._of_member: dict[int, dict[str, tuple[int, ...]]] = {}  # by number: the keys, and where they are in it
        self._with_leaf: dict[str, dict[int, int]] = {}  # by key of leaf and number: the member's variables
        self._with_first_leaf: dict[str, dict[str, None]] = {}  # the keys of common sub-patterns by their first leaf
        self._leaf_number: dict[str, int] = {}
        self._leaves: dict[int, int] = {}  # by number of member: its leaves, as bits
        self._number: dict[MemberId, int] = {}
        self._named: dict[int, Member] = {}
        self._free: list[int] = []
        for member in members:
            self.add(member)

    def add(self, member: Member) -> None:
        """Add a member: linear in the numbers of members and of common sub-patterns.

        Raises
        ------
        PlanError
            The graph has it already.
        """
        if member.id in self.members:
            raise PlanError(f"the pattern graph has {member} already")
        number = self._free.pop() if self._free else len(self._named)
        where: dict[str, int] = {}
        for mask in self._maximal_with_others(member):
            key = member.subsets.key(mask)
            where[key] = mask
            if key not in self._common:
                self._enter(subpattern_at(member, mask))
        self.members[member.id] = self._named[number] = member
        self._number[member.id] = number
        for leaf, mask in member.subsets.masks_of_leaves.items():
            self._with_leaf.setdefault(leaf, {})[number] = mask
        leaves = self._leaves[number] = self._bits_of_leaves(member.subsets.masks_of_leaves)
        contained: dict[str, tuple[int, ...]] = {}
        for leaf in member.subsets.masks_of_leaves:
            for key in self._with_first_leaf.get(leaf, ()):
                if self._common[key].leaves & ~leaves:
                    continue
                masks = self._masks(self._common[key].subpattern, member)
                if not masks and key in where:
                    masks = (where[key],)
                if masks:
                    contained[key] = masks
                    self._common[key].members |= 1 << number
        self._of_member[number] = contained
        for key, pairs in list(self._pairs_of(number)):
            self._common[key].pairs += pairs
            if not self._common[key].pairs:
                self._forget(key)

    def remove(self, member: MemberId) -> None:
        """Remove a member, and the sub-patterns that are no maximal common ones any more: linear in their number.

        Raises
        ------
        PlanError
            The graph does not have it.
        """
        number = self._of(member)
        for key, pairs in list(self._pairs_of(number)):
            common = self._common[key]
            common.pairs -= pairs
            if common.pairs <= 0:
                self._forget(key)
            else:
                common.members &= ~(1 << number)
        for leaf in self.members[member].subsets.masks_of_leaves:
            del self._with_leaf[leaf][number]
        del self.members[member], self._number[member], self._named[number], self._of_member[number]
        del self._leaves[number]
        self._free.append(number)

    # -- questions -------------------------------------------------------------------------------------------------

    @property
    def common(self) -> Iterator[tuple[Subpattern, tuple[MemberId, ...]]]:
        """The first table: maximal common sub-patterns of any two members, and all members that contain each."""
        for entry in self._common.values():
            yield entry.subpattern, self._ids(entry.members)

    def common_of(self, member: MemberId) -> tuple[Subpattern, ...]:
        """The second table: those of the maximal common sub-patterns of any two members that this one contains."""
        return tuple(self._common[key].subpattern for key in self._of_member[self._of(member)])

    def maximal_common(self, one: MemberId, other: MemberId) -> tuple[Subpattern, ...]:
        """The maximal common sub-patterns of two members: what the edge between them carries."""
        number, bit = self._of(one), 1 << self._of(other)
        both = [key for key in self._of_member[number] if self._common[key].members & bit]
        return tuple(self._common[key].subpattern for key in both if not any(self._larger(number, key, both)))

    def neighbours(self, member: MemberId) -> tuple[MemberId, ...]:
        """The members that have a sub-pattern in common with one."""
        number = self._of(member)
        return self._ids(self._adjacent(number, 1))

    def members_with(self, subpattern: Subpattern) -> tuple[MemberId, ...]:
        """All members that contain a sub-pattern, of whatever size."""
        known = self._common.get(subpattern.key)
        return self._ids(self._containing(subpattern) if known is None else known.members)

    def edges(self, min_size: int = 1) -> int:
        """The number of pairs of members with a common sub-pattern of so many variables or more."""
        return sum(self._adjacent(number, min_size).bit_count() for number in self._named) // 2

    def density(self, min_size: int = 1) -> float:
        """The share of all pairs of members that have an edge."""
        pairs = len(self.members) * (len(self.members) - 1) // 2
        return self.edges(min_size) / pairs if pairs else 0.0

    def components(self, min_size: int = 1) -> list[tuple[MemberId, ...]]:
        """The connected components, which can be planned apart (MCEP [0098]); in the order of their first members.

        Parameters
        ----------
        min_size
            Only common sub-patterns of so many variables or more count as edges. Subtrees of one variable are shared
            whatever the trees, so that 2 is enough for the multitree.
        """
        left = dict.fromkeys(self.members)
        found = []
        while left:
            reached = waiting = 1 << self._number[next(iter(left))]
            while waiting:
                new = 0
                for number in bits_of(waiting):
                    new |= self._adjacent(number, min_size)
                waiting = new & ~reached
                reached |= new
            component = self._ids(reached)
            found.append(component)
            for member in component:
                del left[member]
        return found

    # -- how it is found -------------------------------------------------------------------------------------------

    def _maximal_with_others(self, member: Member) -> Iterator[int]:
        """The sets of a new member's variables that are its maximal common sub-patterns with members of the graph."""
        here: dict[int, int] = {}
        there: dict[int, int] = {}
        for leaf, mask in member.subsets.masks_of_leaves.items():
            for other, of_other in self._with_leaf.get(leaf, {}).items():
                here[other] = here.get(other, 0) | mask
                there[other] = there.get(other, 0) | of_other
        # Many others have the same in common: each such group is looked at once.
        groups: dict[tuple[int, str], int] = {}
        for other, mask in here.items():
            groups.setdefault((mask, self._named[other].subsets.key(there[other])), other)
        for (mask, _), other in groups.items():
            yield from maximal_within(member.subsets, mask, self._named[other].subsets, there[other])

    def _enter(self, subpattern: Subpattern) -> None:
        """Enter a sub-pattern into both tables, with the members that contain it."""
        entry = _Common(subpattern, self._bits_of_leaves(subpattern.leaves), self._containing(subpattern))
        self._common[subpattern.key] = entry
        self._with_first_leaf.setdefault(subpattern.leaves[0], {})[subpattern.key] = None
        for number in bits_of(entry.members):
            self._of_member[number][subpattern.key] = self._masks(subpattern, self._named[number])

    def _forget(self, key: str) -> None:
        """Strike a sub-pattern out of both tables: it is a maximal common one of no two members any more."""
        entry = self._common.pop(key)
        del self._with_first_leaf[entry.subpattern.leaves[0]][key]
        for number in bits_of(entry.members):
            del self._of_member[number][key]

    def _containing(self, subpattern: Subpattern) -> int:
        leaves = [self._with_leaf.get(leaf, {}) for leaf in subpattern.leaves]
        candidates = min(leaves, key=len)
        asked, found = self._bits_of_leaves(subpattern.leaves), 0
        for number in candidates:
            if not asked & ~self._leaves[number] and subpattern.is_in(self._named[number]):
                found |= 1 << number
        return found

    def _bits_of_leaves(self, leaves: Iterable[str]) -> int:
        bits = 0
        for leaf in leaves:
            bits |= 1 << self._leaf_number.setdefault(leaf, len(self._leaf_number))
        return bits

    def _masks(self, subpattern: Subpattern, member: Member) -> tuple[int, ...]:
        return tuple(member.subsets.masks_with(subpattern.key, subpattern.leaves))

    def _pairs_of(self, number: int) -> Iterator[tuple[str, int]]:
        """The number of members with which each sub-pattern of a member is a maximal common one."""
        contained = self._of_member[number]
        for key in contained:
            covered = 1 << number
            for larger in self._larger(number, key, contained):
                covered |= self._common[larger].members
            yield key, (self._common[key].members & ~covered).bit_count()

    def _adjacent(self, number: int, min_size: int) -> int:
        found = 0
        for key in self._of_member[number]:
            if self._common[key].subpattern.size >= min_size:
                found |= self._common[key].members
        return found & ~(1 << number)

    def _of(self, member: MemberId) -> int:
        if member not in self._number:
            raise PlanError(f"the pattern graph has no member {member}; it has {len(self.members)} others")
        return self._number[member]

    def _ids(self, numbers: int) -> tuple[MemberId, ...]:
        return tuple(self._named[number].id for number in bits_of(numbers))

    def _larger(self, number: int, key: str, among: Iterable[str]) -> Iterator[str]:
        """The sub-patterns of a member that contain one of these."""
        contained, part = self._of_member[number], self._common[key].subpattern
        masks = contained[key]
        size, [only, *others] = part.size, masks
        for other in among:
            mask = contained[other][0]
            if mask.bit_count() <= size:
                continue
            found = not only & ~mask or any(not mine & ~mask for mine in others)
            if not found and len(masks) == MAX_EMBEDDINGS:  # perhaps in a place that is not among those
                found = bool(self._named[number].subsets.masks_with(key, part.leaves, among=mask))
            if found:
                yield other
