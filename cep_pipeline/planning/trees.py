"""Tree plans (JQPG section 4.2): a clause's positive variables are leaves, inner nodes join what is below them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from typing_extensions import TypeAliasType


@dataclass(frozen=True)
class Join:
    """An inner node of a tree plan: partial matches of the left side joined with those of the right side.

    Attributes
    ----------
    left, right
        The name of a positive variable, or another join.
    in_order
        True if it is made as for an AND, without the temporal order among its variables, and the order is tested on
        what that makes: so another pattern's AND node serves a SEQ (MOTTO's operator transformation).

    Raises
    ------
    ValueError
        A side is neither, or both sides have a variable in common.

    Examples
    --------
    >>> tree = Join("c", Join("a", "b"))
    >>> tree.leaves, str(tree), str(Join("c", Join("a", "b", in_order=True)))
    (('c', 'a', 'b'), '(c, (a, b))', '(c, (a, b) in order)')
    """

    left: Tree
    right: Tree
    in_order: bool = False

    def __post_init__(self) -> None:
        for side in (self.left, self.right):
            if not isinstance(side, str | Join):
                raise ValueError(f"a side of a join is a variable or a join, not {side!r}")
        names = self.leaves
        if len(set(names)) != len(names):
            raise ValueError(f"the tree {self} binds a variable twice")

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The variables from left to right."""
        return leaves_of(self.left) + leaves_of(self.right)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        def read(content: Any) -> Join:
            tree = _tree_from_json(content)
            if isinstance(tree, str):
                raise ValueError(f"the tree {tree!r} joins nothing: a clause of one variable has an order only")
            return tree

        written = core_schema.plain_serializer_function_ser_schema(tree_to_json)
        return core_schema.no_info_plain_validator_function(read, serialization=written)

    def __str__(self) -> str:
        return f"({self.left}, {self.right}){' in order' if self.in_order else ''}"


Tree = str | Join
"""A tree plan: one variable, or a join."""
PositionTree: TypeAlias = "int | tuple[PositionTree, PositionTree]"
"""A tree plan over positions of variables: one of them, or the two sides of a join."""
Side = TypeAliasType("Side", "int | tuple[Side, ...]")
"""One side of a comparison: the beginning of an order, or for measure `tree` a tree of positions."""
OrderOrTree = Sequence[str] | Join
"""The order, which is a left-deep tree, or the tree by which the positive variables of a clause are bound."""


def written(plan: OrderOrTree) -> str:
    """An order or a tree as people read it.

    Examples
    --------
    >>> written(("a", "b")), written(Join("a", Join("b", "c")))
    ('a, b', '(a, (b, c))')
    """
    return str(plan) if isinstance(plan, Join) else ", ".join(plan)


def leaves_of(tree: Tree) -> tuple[str, ...]:
    """The variables of a tree from left to right."""
    return (tree,) if isinstance(tree, str) else tree.leaves


def nodes_of(tree: Tree) -> Iterator[Tree]:
    """The nodes of a tree, each after those below it.

    Examples
    --------
    >>> [str(node) for node in nodes_of(Join("c", Join("a", "b")))]
    ['c', 'a', 'b', '(a, b)', '(c, (a, b))']
    """
    if isinstance(tree, Join):
        yield from nodes_of(tree.left)
        yield from nodes_of(tree.right)
    yield tree


def positions_of(side: Side) -> tuple[int, ...]:
    """The positions of a tree from left to right; an order as it is.

    Examples
    --------
    >>> positions_of((2, (0, 1)))
    (2, 0, 1)
    """
    if isinstance(side, int):
        return (side,)
    found: list[int] = []
    for part in side:
        found += (part,) if isinstance(part, int) else positions_of(part)
    return tuple(found)


def tree_of_positions(tree: Tree, names: Sequence[str]) -> PositionTree:
    """A tree over the places that its variables have among all.

    Examples
    --------
    >>> tree_of_positions(Join("c", Join("a", "b")), "abc")
    (2, (0, 1))
    """
    if isinstance(tree, str):
        return names.index(tree)
    return tree_of_positions(tree.left, names), tree_of_positions(tree.right, names)


def placed(tree: PositionTree, places: Sequence[int] | Mapping[int, int]) -> PositionTree:
    """A tree with other numbers at its leaves.

    Examples
    --------
    >>> placed((2, (0, 1)), [5, 6, 7])
    (7, (5, 6))
    """
    if isinstance(tree, int):
        return places[tree]
    return placed(tree[0], places), placed(tree[1], places)


def left_deep(order: Sequence[PositionTree]) -> PositionTree:
    """The tree that joins one position of an order, or one of several trees, after the other.

    Examples
    --------
    >>> left_deep((2, 0, 1))
    ((2, 0), 1)
    """
    tree: PositionTree = order[0]
    for position in order[1:]:
        tree = (tree, position)
    return tree


def named_tree(tree: PositionTree, names: Sequence[str]) -> Tree:
    """A tree of positions as the tree of the variables that are there.

    Examples
    --------
    >>> str(named_tree((2, (0, 1)), "abc"))
    '(c, (a, b))'
    """
    return names[tree] if isinstance(tree, int) else named_join(tree, names)


def named_join(tree: tuple[PositionTree, PositionTree], names: Sequence[str]) -> Join:
    """The tree of variables that a tree of two positions or more stands for."""
    return Join(named_tree(tree[0], names), named_tree(tree[1], names))


def shape_of(order_or_tree: OrderOrTree | str) -> Hashable:
    """A key that is equal for plans that do the same: the side of a join that is the left one does not matter.

    Examples
    --------
    >>> shape_of(Join("c", Join("a", "b"))) == shape_of(Join(Join("b", "a"), "c"))
    True
    >>> shape_of(("a", "b", "c")) == shape_of(Join(Join("a", "b"), "c"))
    False
    """
    if isinstance(order_or_tree, Join):
        sides = frozenset({shape_of(order_or_tree.left), shape_of(order_or_tree.right)})
        return ("in order", sides) if order_or_tree.in_order else sides
    return order_or_tree if isinstance(order_or_tree, str) else tuple(order_or_tree)


def as_tree(order_or_tree: OrderOrTree) -> Tree:
    """A tree as it is, an order as the left-deep tree that joins one variable after the other.

    Examples
    --------
    >>> str(as_tree(("b", "a", "c")))
    '((b, a), c)'
    """
    if isinstance(order_or_tree, Join):
        return order_or_tree
    tree: Tree = order_or_tree[0]
    for name in order_or_tree[1:]:
        tree = Join(tree, name)
    return tree


def tree_to_json(tree: Tree) -> Any:
    """A variable as its name, a join as the list of its two sides; one whose order is tested, as a list of that list.

    Examples
    --------
    >>> tree_to_json(Join("c", Join("a", "b"))), tree_to_json(Join("c", Join("a", "b", in_order=True)))
    (['c', ['a', 'b']], ['c', [['a', 'b']]])
    """
    if isinstance(tree, str):
        return tree
    sides = [tree_to_json(tree.left), tree_to_json(tree.right)]
    return [sides] if tree.in_order else sides


def _tree_from_json(content: Any) -> Tree:
    """Read what `tree_to_json` wrote; ValueError where it is no tree."""
    match content:
        case str():
            return content
        case [[left, right]]:
            return Join(_tree_from_json(left), _tree_from_json(right), in_order=True)
        case [left, right]:
            return Join(_tree_from_json(left), _tree_from_json(right))
    raise ValueError(f"a tree is a variable or a list of two trees, not {content!r}")


def without_order_tests(tree: Tree) -> Tree:
    """The same tree, in which each join is made in order from the start.

    Examples
    --------
    >>> str(without_order_tests(Join("c", Join("a", "b", in_order=True))))
    '(c, (a, b))'
    """
    if isinstance(tree, str) or not has_order_tests(tree):
        return tree
    return Join(without_order_tests(tree.left), without_order_tests(tree.right))


def has_order_tests(plan: OrderOrTree | str) -> bool:
    """True if there is a join in a tree whose order is tested on what is made without it."""
    return isinstance(plan, Join) and any(isinstance(one, Join) and one.in_order for one in nodes_of(plan))


def pruned(tree: Tree, names: frozenset[str]) -> Tree | None:
    """The tree over some of its variables only.

    Examples
    --------
    >>> str(pruned(Join(Join("a", "b"), Join("c", "d")), frozenset("acd")))
    '(a, (c, d))'
    """
    if isinstance(tree, str):
        return tree if tree in names else None
    left, right = pruned(tree.left, names), pruned(tree.right, names)
    if left is None or right is None:
        return right if left is None else left
    return Join(left, right)
