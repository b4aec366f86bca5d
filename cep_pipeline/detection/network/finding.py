"""The mechanisms of join networks: many patterns by one shared plan, or each clause of a pattern by its own plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from cep_pipeline.detection.clause_runs import ClauseSlice, find_by_clause
from cep_pipeline.detection.mechanisms import (
    Counters,
    Mechanism,
    Orders,
    Owned,
    beyond_any_match,
    orders_only,
    refuse,
    refuse_other_orders,
)
from cep_pipeline.detection.network.lazy import MOST_VARIABLES
from cep_pipeline.detection.network.network import Automaton
from cep_pipeline.detection.network.run import Held, NetworkRun
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.multi_pattern import Member, Sharing, members_of
from cep_pipeline.planning.trees import OrderOrTree, as_tree, leaves_of
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.prepared import PreparedEvents


def find_together(
    mechanism: str,
    sharing: Sharing,
    patterns: Sequence[Pattern],
    orders: Sequence[Orders],
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
) -> Iterator[tuple[int, Block]]:
    """Find the owned matches of patterns by a shared plan; see `ManyFinder` (MCEP [0066]-[0072], [0117]-[0119]).

    Parameters
    ----------
    mechanism, sharing
        The mechanism's name, and what of the plans it shares: beginnings of orders, or any subtrees.

    Raises
    ------
    UnsupportedPattern
        The mechanism does not run a pattern.
    PlanError
        It does not run an order or a tree, or that is not of its clause.
    """
    plans: list[OrderOrTree] = []
    for pattern, own in zip(patterns, orders, strict=True):
        refuse(mechanism, pattern, beyond_any_match(pattern))
        plans += _runnable(mechanism, sharing, pattern, own)
    numbers = {pattern.name: number for number, pattern in enumerate(patterns)}
    run = NetworkRun(members_of(patterns), plans, sharing, events, owned, with_negated=sharing == "subexpression")
    for (name, _), block in run:
        yield numbers[name], block
    held = Held(len(events))
    run.count(counters, held)
    held.count(counters)


def find_alone(
    mechanism: str,
    sharing: Sharing,
    pattern: Pattern,
    orders: Orders,
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
    *,
    automaton: Automaton = "",
    by_counter: bool = False,
) -> Iterator[Block]:
    """Find the owned matches of a pattern, each clause on a network of its own; see `Finder` (JQPG section 5.4).

    Parameters
    ----------
    mechanism, sharing
        The mechanism's name, and by what rule its plans could be shared: "prefix" runs orders, "subexpression" trees.
    automaton, by_counter
        As of `NetworkRun`. Eager automata need the pattern's order; lazy ones find their own, whatever the
        plan says (`lazy.py`).

    Raises
    ------
    UnsupportedPattern
        The mechanism does not run the pattern.
    PlanError
        It does not run an order or a tree, or that is not of its clause.
    """
    refuse(mechanism, pattern, beyond_any_match(pattern))
    members = members_of([pattern])
    if automaton == "lazy":
        orders = [tuple(variable.name for variable in clause.positive) for clause in pattern.clauses]
    plans = _runnable(mechanism, sharing, pattern, orders)
    held = Held(len(events))

    def start(of: ClauseSlice, plan: OrderOrTree) -> _RunOfOne:
        if automaton == "eager":
            refuse_other_orders(mechanism, pattern, of.clause, leaves_of(as_tree(plan)))
        _refuse_other_variables(sharing, pattern, of.clause, plan)
        [member] = [member for member in members if member.clause is of.clause]
        return _RunOfOne(member, plan, sharing, of, held, automaton, by_counter)

    yield from find_by_clause(pattern, plans, events, owned, counters, start)
    held.count(counters)


class _RunOfOne:
    """The network of one clause over one slice: iterate over it once for its blocks of matches."""

    def __init__(
        self,
        member: Member,
        plan: OrderOrTree,
        sharing: Sharing,
        of: ClauseSlice,
        held: Held,
        automaton: Automaton,
        by_counter: bool,
    ) -> None:
        self._held = held
        self._run = NetworkRun(
            [member],
            [plan],
            "none",
            of.events,
            of.owned,
            with_negated=sharing == "subexpression",
            finality=of.finality,
            automaton=automaton,
            by_counter=by_counter,
        )

    def __iter__(self) -> Iterator[Block]:
        for _, block in self._run:
            yield block

    def count(self, counters: Counters) -> None:
        """Add what the finished run did, and what it held."""
        self._run.count(counters, self._held)


def _runnable(mechanism: str, sharing: Sharing, pattern: Pattern, orders: Orders) -> list[OrderOrTree]:
    """The plans of a pattern as its network runs them: trees, or orders."""
    if sharing == "subexpression":
        return [as_tree(order) for order in orders]
    return list(orders_only(mechanism, pattern, orders))


def _refuse_other_variables(sharing: Sharing, pattern: Pattern, clause: Clause, plan: OrderOrTree) -> None:
    names = [variable.name for variable in clause.positive]
    planned = (plan,) if isinstance(plan, str) else leaves_of(as_tree(plan))  # a tree of one variable is its name
    if sorted(planned) == sorted(names):
        return
    what = "the plan's tree joins" if sharing == "subexpression" else "the plan orders"
    raise PlanError(
        f"pattern {pattern.name!r}: {what} {', '.join(planned)}, but clause {clause.index} binds {', '.join(names)}: "
        "plan the pattern again"
    )


def _of_one(name: str, sharing: Sharing) -> Mechanism:
    """A mechanism that runs one pattern after another, each clause on a join network of its own."""
    return Mechanism(name, partial(find_alone, name, sharing), runs_trees=sharing == "subexpression", in_order=True)


def _of_many(name: str, sharing: Sharing) -> Mechanism:
    """A mechanism that runs many patterns together on one join network, and one pattern as the only one."""
    find_many = partial(find_together, name, sharing)

    def find(
        pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
    ) -> Iterator[Block]:
        for _, block in find_many([pattern], [orders], events, owned, counters):
            yield block

    runs_trees = sharing == "subexpression"
    return Mechanism(name, find, find_many=find_many, always_shares=True, runs_trees=runs_trees, in_order=True)


def _beyond_eager(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the eager NFA does not run, in words; None if it runs the pattern."""
    return beyond_any_match(pattern) or (None if before_is_earlier(pattern.ties) else f"TIES {pattern.ties.value}")


def _find_eagerly(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    EAGER_NFA.check(pattern)
    yield from find_alone(EAGER_NFA.name, "prefix", pattern, orders, events, owned, counters, automaton="eager")


SMALLEST_COUNTER = "smallest_counter"
"""The option by which a lazy tree chooses as in the paper."""


def _beyond_lazy_tree(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the lazy tree does not run, in words; None if it runs the pattern."""
    most = max(len(clause.positive) for clause in pattern.clauses)
    too_many = f"a clause of {most} variables (at most {MOST_VARIABLES})" if most > MOST_VARIABLES else None
    return beyond_any_match(pattern) or too_many


def _find_by_tree(
    pattern: Pattern,
    orders: Orders,
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
    options: frozenset[str] = frozenset(),
) -> Iterator[Block]:
    LAZY_TREE_NFA.check(pattern)
    by_counter = SMALLEST_COUNTER in options
    name = LAZY_TREE_NFA.name
    yield from find_alone(
        name, "prefix", pattern, orders, events, owned, counters, automaton="lazy", by_counter=by_counter
    )


LAZY_TREE_NFA = Mechanism(
    "lazy_tree_nfa",
    _find_by_tree,
    unsupported_feature=_beyond_lazy_tree,
    options=(SMALLEST_COUNTER,),
    in_order=True,
)
EAGER_NFA = Mechanism(
    "eager_nfa", _find_eagerly, unsupported_feature=_beyond_eager, in_pattern_order=True, in_order=True
)
LAZY_CHAIN_NFA = _of_one("lazy_chain_nfa", "prefix")
EVALUATION_TREE = _of_one("evaluation_tree", "subexpression")
MULTI_PATTERN_NFA = _of_many("multi_pattern_nfa", "prefix")
MULTITREE = _of_many("multitree", "subexpression")
