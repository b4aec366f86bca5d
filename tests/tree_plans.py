"""Tree plans for tests: made of the order plans that the planners give."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cep_pipeline.planning import Join, Plan
from cep_pipeline.planning.trees import Tree

MANY = 24
"""Most trees of one clause that a test tries."""


def many_trees(plan: Plan, seed: int = 0) -> Iterable[Plan]:
    """The plan of one pattern with trees for its clauses: all trees of the first clause, or some 24 drawn by `seed`.

    The trees of the other clauses are drawn. Clauses of one variable keep their order, which is all that they can have.
    """
    [pattern_plan] = plan.patterns
    first, *others = pattern_plan.clauses
    drawn = random.Random(seed)
    size = len(first.order)
    every = list(all_trees(first.order)) if size <= 4 else [random_tree(first.order, drawn) for _ in range(MANY)]
    if len(every) > MANY:
        every = drawn.sample(every, MANY)
    for tree in every:
        trees = [tree, *(random_tree(clause.order, drawn) for clause in others)]
        clauses = tuple(
            clause if isinstance(tree, str) else replace(clause, tree=tree, alternatives=(), comparisons=())
            for clause, tree in zip((first, *others), trees, strict=True)
        )
        yield replace(plan, patterns=(replace(pattern_plan, clauses=clauses),))


def random_tree(names: Sequence[str], drawn: random.Random) -> Tree:
    """A tree over all the names: any two parts joined until one is left."""
    parts: list[Tree] = list(names)
    while len(parts) > 1:
        left, right = drawn.sample(range(len(parts)), 2)
        joined = Join(parts[left], parts[right])
        parts = [part for place, part in enumerate(parts) if place not in (left, right)] + [joined]
    return parts[0]


def all_trees(names: Sequence[str]) -> Iterator[Tree]:
    """Every tree over the names, left and right sides told apart."""
    if len(names) == 1:
        yield names[0]
        return
    for chosen in range(1, 2 ** len(names) - 1):
        left = [name for place, name in enumerate(names) if chosen >> place & 1]
        right = [name for place, name in enumerate(names) if not chosen >> place & 1]
        for one in all_trees(left):
            for other in all_trees(right):
                yield Join(one, other)
