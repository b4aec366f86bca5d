"""Canonical keys: which nodes of plans of different members are the same (MCEP [0073], [0093], [0121]).

A node's partial matches are bindings of some positive variables of a clause. Two nodes have the same ones, but for the
size of their windows, if a mapping of the variables makes everything equal that decides them: event types, Kleene
closure, the conjuncts over these variables alone, the temporal order among them with its TIES, the attributes on which
events agree, and what windows measure. Names of variables and patterns are no part of that, nor are negated variables
and their conjuncts, nor conjuncts without a variable: those decide about matches of a member, never about a node.

Keys are digests of that in positional names, the *slots* of a node: with each key comes which variable is in which
slot. A key is one of

- a **leaf**: one variable;
- an **order**'s beginning: its leaves in sequence, slot k is the k-th variable of the order;
- a **tree**: two smaller trees and what joins them; slots are those of the side with the smaller key, then the other's;
- a **test of order**: a tree that is made without its order, and the same tree in order, whose slots it has.

Conjuncts are compared as text (`conjunct_text`), as they are written but for what never changes their truth: names of
variables, which become numbers of slots; the order of the comparisons; the direction of one; the order of the two sides
of `+` and `*`; the name of a parameter (its values count); the order of the values after IN. A number that something is
compared with is the same as int and as float, as comparison is exact; a number in arithmetic is not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, combinations, groupby, islice, permutations, product
from typing import Any

from cep_pipeline.patterns.conditions import (
    Atom,
    Between,
    Comparison,
    Conjunct,
    Like,
    Membership,
    NullTest,
    Truth,
    Value,
)
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Call,
    Expression,
    Length,
    Literal,
    Negative,
    Reference,
)
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import Join, OrderOrTree, PositionTree, Tree, tree_of_positions

MAX_SYMMETRIES = 64
"""Most ways to put a tree's variables into its slots that are kept. Where more are alike, equal trees above such a node
may get different keys: less is shared, never too much."""

Places = tuple[int, ...]
"""Variables of a clause by their places among its positive ones, in pattern order."""


@dataclass(frozen=True, slots=True)
class NodeForm:
    """A node of a member's order or tree.

    Attributes
    ----------
    key
        The same for the same partial matches.
    slots
        The member's variable in each slot.
    left, right
        The places of the nodes below it among the nodes of the plan, none for a leaf. Its slots are those of the left
        one, then those of the right one; a node of an order has no right one, but its last slot is one variable.
    unordered
        True if it is made without the temporal order among its variables.
    turned
        Of a test of order, which has a left one alone: its own slot for each slot of that.
    """

    key: str
    slots: tuple[str, ...]
    left: int | None = None
    right: int | None = None
    unordered: bool = False
    turned: tuple[int, ...] = ()


class ClauseForms:
    """The keys of one clause's nodes; each is computed once.

    Attributes
    ----------
    names
        The positive variables in pattern order.
    leaf_keys
        The key of each one's leaf.
    counted
        Whether the window counts events.

    Notes
    -----
    A clause under another strategy than skip_till_any_match has keys of its own: what its runs take depends on the
    whole clause.

    Examples
    --------
    >>> from cep_pipeline.events.schema import StreamSchema
    >>> from cep_pipeline.language.parser import parse_patterns
    >>> schema = StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string", "x": "int64"}})
    >>> text = '''PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x AND b.x < c.x WITHIN 10 seconds;
    ...           PATTERN SEQ(A p, D q, C r) WHERE r.x > p.x WITHIN 20 seconds'''
    >>> one, other = (ClauseForms(pattern, pattern.clauses[0]) for pattern in parse_patterns(text, schema))
    >>> [k == l for k, l in zip(one.order_keys(["a", "c", "b"]), other.order_keys(["p", "r", "q"]))]
    [True, True, False]
    """

    def __init__(self, pattern: Pattern, clause: Clause) -> None:
        self.names = tuple(variable.name for variable in clause.positive)
        self.counted = pattern.window.events is not None
        self._place = {name: place for place, name in enumerate(self.names)}
        self._agreement = sorted(set(clause.agree_on))
        self._ties = pattern.ties.value
        self._before = [
            (self._place[one], self._place[other])
            for one, other in sorted(clause.precedence)
            if one in self._place and other in self._place
        ]
        alone: list[list[Conjunct]] = [[] for _ in self.names]
        self._joint: list[tuple[Places, Conjunct]] = []
        for conjunct in clause.conjuncts:
            if conjunct.variables and conjunct.variables <= self._place.keys():
                places = tuple(sorted(self._place[name] for name in conjunct.variables))
                if len(places) == 1:
                    alone[places[0]].append(conjunct)
                else:
                    self._joint.append((places, conjunct))
        self._texts: dict[tuple[int, Places], str] = {}
        self._orders: dict[Places, str] = {}
        self._trees: dict[PositionTree, _TreeForm] = {}
        self._nodes: dict[Tree, tuple[NodeForm, ...]] = {}
        setting = _setting(pattern, clause)
        self.leaf_keys = tuple(
            digest(
                "leaf",
                *setting,
                variable.event_type if isinstance(variable.event_type, str) else sorted(variable.event_type),
                variable.kleene,
                sorted({conjunct_text(conjunct, {variable.name: 0}) for conjunct in conjuncts}),
                self._agreement if variable.kleene else [],
            )
            for variable, conjuncts in zip(clause.positive, alone, strict=True)
        )

    def nodes(self, order_or_tree: OrderOrTree | str) -> tuple[NodeForm, ...]:
        """The nodes of an order or of a tree, each after those below it, the whole last.

        An order has one node a variable: its beginnings. A tree of one variable may be given by its name.
        """
        if isinstance(order_or_tree, Join | str):
            return self.tree_nodes(order_or_tree)
        return self.order_nodes(order_or_tree)

    def order_keys(self, order: Sequence[str]) -> tuple[str, ...]:
        """The keys of all beginnings of an order, the shortest first."""
        places = tuple(self._place[name] for name in order)
        return tuple(self.order_key(places[:length]) for length in range(1, len(places) + 1))

    def order_key(self, places: Places) -> str:
        """The key of one beginning of an order, given by the places of its variables in pattern order."""
        known = self._orders.get(places)
        if known is None:
            *earlier, last = places
            known = self.leaf_keys[last]
            if earlier:
                before = tuple(earlier)
                known = digest("order", self.order_key(before), known, *self.joining(before, (last,)))
            self._orders[places] = known
        return known

    def order_nodes(self, order: Sequence[str]) -> tuple[NodeForm, ...]:
        """The beginnings of an order, each above the one before it."""
        return tuple(
            NodeForm(key, tuple(order[: length + 1]), length - 1 if length else None)
            for length, key in enumerate(self.order_keys(order))
        )

    def tree_key(self, tree: Tree) -> str:
        """The key of a tree; the key of a variable is its leaf's."""
        return self._tree(tree_of_positions(tree, self.names)).key

    def position_key(self, tree: PositionTree) -> str:
        """The key of a tree of places in pattern order."""
        return self._tree(tree).key

    def tree_nodes(self, tree: Tree) -> tuple[NodeForm, ...]:
        """The nodes of a tree, leaves too, each after those below it; sides of a join in the order of their keys."""
        if tree not in self._nodes:
            found: list[NodeForm] = []
            self._add_nodes(tree_of_positions(tree, self.names), None, found)
            self._nodes[tree] = tuple(found)
        return self._nodes[tree]

    def _add_nodes(self, tree: PositionTree, slots: Places | None, found: list[NodeForm]) -> int:
        form = self._tree(tree)
        places = form.symmetries[0] if slots is None else slots
        below: list[int] = []
        if not isinstance(tree, int):
            # Of two sides with equal keys it does not matter which one is the first: their nodes have equal keys, too.
            left, right = sorted(tree, key=lambda side: self._tree(side).key)
            cut = len(self._tree(left).symmetries[0])
            below = [self._add_nodes(left, places[:cut], found), self._add_nodes(right, places[cut:], found)]
        one, other = below or (None, None)
        found.append(NodeForm(form.key, tuple(self.names[place] for place in places), one, other))
        return len(found) - 1

    def _tree(self, tree: PositionTree) -> _TreeForm:
        known = self._trees.get(tree)
        if known is None:
            known = self._trees[tree] = self._tree_form(tree)
        return known

    def _tree_form(self, tree: PositionTree) -> _TreeForm:
        if isinstance(tree, int):
            return _TreeForm(self.leaf_keys[tree], ((tree,),))
        one, other = sorted((self._tree(side) for side in tree), key=lambda side: side.key)
        sides = [(one, other), (other, one)] if one.key == other.key else [(one, other)]
        least: tuple[object, ...] | None = None
        slots: list[Places] = []
        for first, second in sides:
            for left in first.symmetries:
                for right in second.symmetries:
                    joining = self.joining(left, right)
                    if least is None or joining < least:
                        least, slots = joining, []
                    if joining == least and len(slots) < MAX_SYMMETRIES:
                        slots.append(left + right)
        assert least is not None
        return _TreeForm(digest("tree", one.key, other.key, *least), tuple(slots))

    def joining(self, left: Places, right: Places) -> tuple[object, ...]:
        """The conditions that join partial matches of two sides, by the slots that they have together."""
        return self._content((*left, *right), len(left))

    def within(self, places: Places) -> tuple[object, ...]:
        """The conditions that make combinations of variables' instances partial matches, by their slots."""
        return self._content(places, None)

    def _content(self, places: Places, cut: int | None) -> tuple[object, ...]:
        """Conjuncts, order and agreement among variables; where there is a cut, those on both sides of it."""
        slot = {place: number for number, place in enumerate(places)}
        before = sorted(
            (slot[one], slot[other])
            for one, other in self._before
            if one in slot and other in slot and (cut is None or (slot[one] < cut) != (slot[other] < cut))
        )
        return sorted(self._conjuncts(slot, cut)), before, self._ties if before else "", self._agreement

    def _conjuncts(self, slot: Mapping[int, int], cut: int | None) -> set[str]:
        """The texts of conjuncts over two or more variables."""
        found = set()
        for number, (mentioned, _) in enumerate(self._joint):
            try:
                into = tuple([slot[place] for place in mentioned])
            except KeyError:
                continue
            if cut is None or min(into) < cut <= max(into):
                found.add(self._text(number, into))
        return found

    def _text(self, number: int, into: Places) -> str:
        """A joint conjunct with its variables, in pattern order, in these slots."""
        known = self._texts.get((number, into))
        if known is None:
            places, conjunct = self._joint[number]
            names = (self.names[place] for place in places)
            known = self._texts[number, into] = conjunct_text(conjunct, dict(zip(names, into, strict=True)))
        return known


@dataclass(frozen=True, slots=True)
class _TreeForm:
    """A tree's key, and all ways to put its variables into its slots (or `MAX_SYMMETRIES` of them)."""

    key: str
    symmetries: tuple[Places, ...]


def _setting(pattern: Pattern, clause: Clause) -> tuple[object, ...]:
    """The setting of a node's events: the stream, and the measure of windows."""
    window: list[object] = ["time"]
    if pattern.window.events is not None:
        window = ["events", *sorted(set(pattern.partition_by))]
    own: list[object] = []
    if not pattern.strategy.forks:
        own = [pattern.strategy.value, pattern.name, clause.index]
    return pattern.stream, pattern.type_attribute, pattern.base_type, window, own


def private_key(owner: Iterable[object], number: int) -> str:
    """The key of a node that is shared with nobody: the `number`-th of the plan of its owner.

    Examples
    --------
    >>> private_key(("rise", 0), 1) == private_key(("fall", 0), 1)
    False
    """
    return digest("private", *owner, number)


def digest(*parts: object) -> str:
    """32 hexadecimal digits of parts whose `repr` tells them apart: texts, numbers, bools, None, lists and pairs."""
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


MAX_TRIED = 1000
"""Most orders of variables, or sets of them, that are tried; where more are alike, a sub-pattern may be missed, and is
not shared."""


class SubsetKeys:
    """The keys of the sub-patterns of one clause; each is computed once.

    Sets of variables are the bits of an integer, by their places in pattern order.

    Attributes
    ----------
    masks_of_leaves
        By the key of a leaf, the variables that have it.

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

    def masks_with(self, key: str, leaves: Sequence[str]) -> list[int]:
        """The sets with a key and the keys of its leaves, among the first `MAX_TRIED`."""
        return [mask for mask in islice(self._masks_with_leaves(leaves), MAX_TRIED) if self.key(mask) == key]

    def relation(self, one: int, other: int) -> str:
        """The relation of two variables, seen from the first one."""
        known = self._relations.get((one, other))
        if known is None:
            known = self._relations[one, other] = digest(*self.forms.joining((one,), (other,)))
        return known

    def _masks_with_leaves(self, leaves: Sequence[str]) -> Iterator[int]:
        choices: list[Iterable[int]] = []
        for leaf, asked in Counter(leaves).items():
            bits = [1 << place for place in bits_of(self.masks_of_leaves.get(leaf, 0))]
            choices.append(map(sum, combinations(bits, asked)))
        return map(sum, product(*choices))

    def _form(self, mask: int) -> tuple[str, Places]:
        known = self._known.get(mask)
        if known is None:
            known = self._known[mask] = self._canonical(mask)
        return known

    def _canonical(self, mask: int) -> tuple[str, Places]:
        """The key, and the slots: variables are told apart by their leaves, and by what they have to do with others.

        Of those that are alike yet all orders are tried, `MAX_TRIED` at most: the least content is the canonical one.
        Those that may change places without a difference have one order.
        """
        places, leaf_keys = bits_of(mask), self.forms.leaf_keys
        told: dict[int, Any] = {place: (leaf_keys[place],) for place in places}
        if len({leaf_keys[place] for place in places}) < len(places):
            for place in places:
                others = sorted((leaf_keys[one], self.relation(place, one)) for one in places if one != place)
                told[place] = leaf_keys[place], others
        cells = _cells(told)
        members = tuple(chain.from_iterable(cells))
        fixed = [self._are_exchangeable(cell, members) for cell in cells]
        tried = islice(_orders(cells, fixed), MAX_TRIED)
        content, slots = min(((self.forms.within(slots), slots) for slots in tried), key=lambda found: found[0])
        return digest("set", [leaf_keys[place] for place in slots], *content), slots

    def _are_exchangeable(self, cell: Sequence[int], members: Places) -> bool:
        """True if exchanging the first of some variables with any other one of them changes nothing."""
        whole = self.forms.within(members) if len(cell) > 1 else ()
        swaps = ({cell[0]: other, other: cell[0]} for other in cell[1:])
        return all(self.forms.within(tuple(swap.get(place, place) for place in members)) == whole for swap in swaps)


def bits_of(mask: int) -> list[int]:
    """The places of the bits of an integer.

    Examples
    --------
    >>> bits_of(0b1010)
    [1, 3]
    """
    return [place for place in range(mask.bit_length()) if mask >> place & 1]


def _orders(cells: Sequence[Sequence[int]], fixed: Sequence[bool]) -> Iterator[Places]:
    """All orders of the variables within their cells, one after another; those of a fixed cell stay as they are."""
    if not cells:
        yield ()
        return
    for first in [tuple(cells[0])] if fixed[0] else permutations(cells[0]):
        yield from (first + rest for rest in _orders(cells[1:], fixed[1:]))


def _cells(colours: dict[int, Any]) -> list[list[int]]:
    """Variables of one colour together, in the order of the colours."""
    ordered = sorted(colours, key=lambda place: colours[place])
    return [list(cell) for _, cell in groupby(ordered, key=lambda place: colours[place])]


# -- conjuncts as text -------------------------------------------------------------------------------------------------

MOST_VALUES = 32
"""The most values after IN that stand in the text; of more, a digest does."""


def conjunct_text(conjunct: Conjunct, slots: Mapping[str, int]) -> str:
    """A conjunct with the numbers of slots for its variables, the same for all ways to write it that are one.

    Examples
    --------
    >>> from cep_pipeline.patterns.conditions import Comparator
    >>> from cep_pipeline.patterns.expressions import Element, ValueType
    >>> x, y = (Reference(name, "price", Element.ONLY, ValueType.INT64) for name in "xy")
    >>> one = conjunct_text(Conjunct((Comparison(Comparator.LT, x, y),)), {"x": 0, "y": 1})
    >>> one, one == conjunct_text(Conjunct((Comparison(Comparator.GT, y, x),)), {"x": 0, "y": 1})
    ("(0 only 'price' int64) < (1 only 'price' int64)", True)
    """
    return " or ".join(sorted({_atom(atom, slots) for atom in conjunct.atoms}))


def _atom(atom: Atom, slots: Mapping[str, int]) -> str:
    match atom:
        case Comparison(comparator, left, right):
            one, other = _compared(left, slots), _compared(right, slots)
            if one == other:
                return f"{one} {min(comparator.value, comparator.mirror.value)} {other}"
            return f"{one} {comparator.value} {other}" if one < other else f"{other} {comparator.mirror.value} {one}"
        case Membership(expression, values, _, negated):
            members = _values(values, any(isinstance(value, bool) for value in values[:1]))
            return f"{_compared(expression, slots)} {'not in' if negated else 'in'} ({members})"
        case Between(expression, low, high, negated):
            sides = f"{_compared(low, slots)} and {_compared(high, slots)}"
            return f"{_compared(expression, slots)} {'not between' if negated else 'between'} {sides}"
        case NullTest(expression, negated):
            return f"{_compared(expression, slots)} is {'not null' if negated else 'null'}"
        case Like(expression, text, negated):
            return f"{_compared(expression, slots)} {'not like' if negated else 'like'} {text!r}"
        case Truth(holds):
            return repr(holds)


def _compared(expression: Expression, slots: Mapping[str, int]) -> str:
    """An expression that is compared: of a constant only the value counts, as comparison is exact."""
    return _value(expression.value) if isinstance(expression, Literal) else _expression(expression, slots)


@lru_cache(maxsize=256)
def _values(values: tuple[Value, ...], of_bools: bool) -> str:
    """A set of constants; of many, which a parameter may have, a digest.

    With `of_bools` True and 1 are told apart, which are one to a table.
    """
    texts = {_value(value) for value in values}
    text = ", ".join(sorted(texts))
    return text if len(texts) <= MOST_VALUES else blake2b(text.encode(), digest_size=16).hexdigest()


def _value(value: Value) -> str:
    if isinstance(value, bool | str):
        return repr(value)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    return f"number {value!r}"


def _expression(expression: Expression, slots: Mapping[str, int]) -> str:
    match expression:
        case Literal(value, kind):
            return f"({value!r} {kind.value})"
        case Reference(variable, attribute, element, kind):
            return f"({slots[variable]} {element.value} {attribute!r} {kind.value})"
        case Length(variable):
            return f"({slots[variable]} length)"
        case Aggregate(function, variable, attribute, prefix, kind):
            over = "before" if prefix else "all"
            return f"({function} {slots[variable]} {over} {attribute!r} {kind.value})"
        case Negative(operand):
            return f"(- {_expression(operand, slots)})"
        case Arithmetic(operator, left, right):
            sides = [_expression(left, slots), _expression(right, slots)]
            if operator in ("+", "*"):
                sides.sort()
            return f"({operator} {sides[0]} {sides[1]})"
        case Call(function, arguments, _, zone):
            at = "" if zone is None else f" {zone}"
            return f"({function}{at} {' '.join(_expression(argument, slots) for argument in arguments)})"
