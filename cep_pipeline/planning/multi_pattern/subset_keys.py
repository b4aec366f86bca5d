"""Canonical keys of sub-patterns: sets of a clause's variables, in no order of evaluation (MCEP [0093]).

A sub-pattern is the projection of a clause on some of its positive variables. Two have the same key if and only if a
mapping of the variables makes them equal in all that decides a binding but for the size of the window. With the key
come its slots: the variables in an order in which those of another clause with this key correspond to them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, groupby, islice, product
from typing import Any

from cep_pipeline.planning.multi_pattern.canonical import ClauseForms, Places, digest

MAX_EMBEDDINGS = 64
"""So many places of a sub-pattern in one clause are found, where several of its variables are alike."""
MAX_TRIED = 1000
"""So many places are tried; where more variables are alike, a sub-pattern may be missed, and is not shared."""


class SubsetKeys:
    """The keys of the sub-patterns of one clause; each is computed once.

    Sets of variables are the bits of an integer, by their places in pattern order.

    Attributes
    ----------
    masks_of_leaves
        By the key of a leaf, the variables that have it.
    distinct
        Whether no two variables have one.

    Examples
    --------
    >>> from cep_pipeline.events.schema import StreamSchema
    >>> from cep_pipeline.language.parser import parse_patterns
    >>> schema = StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string", "x": "int64"}})
    >>> text = '''PATTERN AND(A a, A b, B c) WHERE a.x < b.x WITHIN 1 second;
    ...           PATTERN SEQ(B p, AND(A q, A r)) WITHIN 1 second'''
    >>> one, other = (SubsetKeys(ClauseForms(pattern, pattern.clauses[0])) for pattern in parse_patterns(text, schema))
    >>> one.key(0b001) == one.key(0b010) == other.key(0b100), one.key(0b011) == other.key(0b110)
    (True, False)
    """

    def __init__(self, forms: ClauseForms) -> None:
        self.forms = forms
        self._known: dict[int, tuple[str, Places]] = {1 << v: (k, (v,)) for v, k in enumerate(forms.leaf_keys)}
        self._relations: dict[tuple[int, int], str] = {}
        self.masks_of_leaves: dict[str, int] = {}
        for place, key in enumerate(forms.leaf_keys):
            self.masks_of_leaves[key] = self.masks_of_leaves.get(key, 0) | 1 << place
        self.distinct = len(self.masks_of_leaves) == len(forms.leaf_keys)

    def key(self, mask: int) -> str:
        """The key of a set of at least one variable; of one variable it is the leaf's."""
        return self._form(mask)[0]

    def slots(self, mask: int) -> Places:
        """The variables of a set in the order of the slots of its key."""
        return self._form(mask)[1]

    def names(self, mask: int) -> tuple[str, ...]:
        """The names of the variables of a set in the order of the slots of its key."""
        return tuple(self.forms.names[place] for place in self.slots(mask))

    def leaves(self, mask: int) -> tuple[str, ...]:
        """The keys of the leaves of a set, in the order of the slots: ascending."""
        return tuple(self.forms.leaf_keys[place] for place in self.slots(mask))

    def masks_with(self, key: str, leaves: Sequence[str], among: int = -1) -> list[int]:
        """The sets of these variables (-1: all) with a key and the keys of its leaves; or `MAX_EMBEDDINGS` of them."""
        if self.distinct:
            mask = 0
            for leaf in leaves:
                mask |= self.masks_of_leaves.get(leaf, 0) & among
            return [mask] if mask.bit_count() == len(leaves) and self.key(mask) == key else []
        found: list[int] = []
        for mask in islice(self._masks_with_leaves(leaves, among), MAX_TRIED):
            if self.key(mask) == key:
                found.append(mask)
                if len(found) == MAX_EMBEDDINGS:
                    break
        return found

    def relation(self, one: int, other: int) -> str:
        """What two variables have to do with each other, seen from the first one."""
        known = self._relations.get((one, other))
        if known is None:
            known = self._relations[one, other] = digest(*self.forms.joining((one,), (other,)))
        return known

    def _masks_with_leaves(self, leaves: Sequence[str], among: int) -> Iterator[int]:
        choices: list[list[int]] = []
        for leaf in dict.fromkeys(leaves):
            here = self.masks_of_leaves.get(leaf, 0) & among
            asked = leaves.count(leaf)
            if here.bit_count() < asked:
                return
            if here.bit_count() == asked:
                choices.append([here])
            else:
                bits = [1 << place for place in bits_of(here)]
                choices.append([sum(chosen) for chosen in combinations(bits, asked)])
        for chosen in product(*choices):
            yield sum(chosen)

    def _form(self, mask: int) -> tuple[str, Places]:
        known = self._known.get(mask)
        if known is None:
            known = self._known[mask] = self._canonical(mask)
        return known

    def _canonical(self, mask: int) -> tuple[str, Places]:
        places = bits_of(mask)
        leaf_keys = self.forms.leaf_keys
        cells = _cells({place: leaf_keys[place] for place in places})
        if any(len(cell) > 1 for cell in cells):
            content, slots = min(self._labelled(cells), key=lambda found: found[0])
        else:
            slots = tuple(cell[0] for cell in cells)
            content = self.forms.within(slots)
        return digest("set", [leaf_keys[place] for place in slots], *content), slots

    # -- which variable goes into which slot -----------------------------------------------------------------------

    def _labelled(self, cells: list[list[int]]) -> Iterator[tuple[tuple[object, ...], Places]]:
        """Ways to order variables that are alike, the least of whose contents is the canonical one.

        Variables are told apart by what they have to do with others, again and again. Of those that are still alike one
        is put first, each in turn; but of those that may change places with one another without a difference only one.
        """
        cells = self._refined(cells)
        place = next((number for number, cell in enumerate(cells) if len(cell) > 1), None)
        if place is None:
            slots = tuple(cell[0] for cell in cells)
            yield self.forms.within(slots), slots
            return
        tried: list[int] = []
        members = [v for cell in cells for v in cell]
        for chosen in cells[place]:
            if any(self._exchangeable(chosen, other, members) for other in tried):
                continue
            tried.append(chosen)
            others = [v for v in cells[place] if v != chosen]
            yield from self._labelled([*cells[:place], [chosen], others, *cells[place + 1 :]])

    def _refined(self, cells: list[list[int]]) -> list[list[int]]:
        while True:
            number = {place: index for index, cell in enumerate(cells) for place in cell}
            told = {
                place: (
                    number[place],
                    sorted((number[other], self.relation(place, other)) for other in number if other != place),
                )
                for place in number
            }
            finer = _cells(told)
            if len(finer) == len(cells):
                return finer
            cells = finer

    def _exchangeable(self, one: int, other: int, members: Sequence[int]) -> bool:
        """Whether exchanging two variables changes nothing."""
        swapped = tuple({one: other, other: one}.get(place, place) for place in members)
        return self.forms.within(tuple(members)) == self.forms.within(swapped)


def bits_of(mask: int) -> list[int]:
    """The places of the bits of an integer.

    Examples
    --------
    >>> bits_of(0b1010)
    [1, 3]
    """
    return [place for place in range(mask.bit_length()) if mask >> place & 1]


def _cells(colours: dict[int, Any]) -> list[list[int]]:
    """Variables of one colour together, in the order of the colours."""
    ordered = sorted(colours, key=lambda place: colours[place])
    return [list(cell) for _, cell in groupby(ordered, key=lambda place: colours[place])]
