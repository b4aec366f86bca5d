"""The mechanisms of join networks: many patterns by one shared plan, or each clause of a pattern by its own plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep_pipeline.detection.instances.clause_runs import find_by_clause
from cep_pipeline.detection.mechanism import Counters, Orders, Owned, orders_only
from cep_pipeline.detection.network.run import Held, NetworkRun
from cep_pipeline.detection.refusal import other_strategy, refuse
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.multi_pattern import Member, Sharing, members_of
from cep_pipeline.planning.trees import OrderOrTree, as_tree, leaves_of
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.ownership import Finality
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
    """The owned matches of patterns by a shared plan; see `Mechanism.find_many` (MCEP [0066]-[0072], [0117]-[0119]).

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
        refuse_for(mechanism, pattern)
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
) -> Iterator[Block]:
    """The owned matches of a pattern, each clause on a network of its own; see `Mechanism.find` (JQPG section 5.4).

    Parameters
    ----------
    mechanism, sharing
        The mechanism's name, and by what rule its plans could be shared: "prefix" runs orders, "subexpression" trees.

    Raises
    ------
    UnsupportedPattern
        The mechanism does not run the pattern.
    PlanError
        It does not run an order or a tree, or that is not of its clause.
    """
    refuse_for(mechanism, pattern)
    plans = _runnable(mechanism, sharing, pattern, orders)
    members = members_of([pattern])
    held = Held(len(events))

    def start(clause: Clause, plan: OrderOrTree, finality: Finality) -> _RunOfOne:
        _refuse_other_variables(sharing, pattern, clause, plan)
        [member] = [member for member in members if member.clause is clause]
        return _RunOfOne(member, plan, sharing, events, owned, finality, held)

    yield from find_by_clause(None, pattern, plans, owned, counters, start)
    held.count(counters)


class _RunOfOne:
    """The network of one clause over one slice: iterate over it once for its blocks of matches."""

    def __init__(
        self,
        member: Member,
        plan: OrderOrTree,
        sharing: Sharing,
        events: PreparedEvents,
        owned: Owned,
        finality: Finality,
        held: Held,
    ) -> None:
        with_negated = sharing == "subexpression"
        self._held = held
        self._run = NetworkRun([member], [plan], "none", events, owned, with_negated=with_negated, finality=finality)

    def __iter__(self) -> Iterator[Block]:
        for _, block in self._run:
            yield block

    def count(self, counters: Counters) -> None:
        """Add what the finished run did, and what it held."""
        self._run.count(counters, self._held)


def refuse_for(mechanism: str, pattern: Pattern) -> None:
    """Raise for a pattern that join networks do not run.

    Raises
    ------
    UnsupportedPattern
        The pattern is under another strategy than skip_till_any_match: what its runs take depends on the whole clause.
    """
    refuse(mechanism, pattern, other_strategy(pattern))


def _runnable(mechanism: str, sharing: Sharing, pattern: Pattern, orders: Orders) -> list[OrderOrTree]:
    """The plans of a pattern as its network runs them: trees, or orders."""
    if sharing == "subexpression":
        return [as_tree(order) for order in orders]
    return list(orders_only(mechanism, pattern, orders))


def _refuse_other_variables(sharing: Sharing, pattern: Pattern, clause: Clause, plan: OrderOrTree) -> None:
    names = [variable.name for variable in clause.positive]
    planned = leaves_of(as_tree(plan))
    if sorted(planned) == sorted(names):
        return
    what = "the plan's tree joins" if sharing == "subexpression" else "the plan orders"
    raise PlanError(
        f"pattern {pattern.name!r}: {what} {', '.join(planned)}, but clause {clause.index} binds {', '.join(names)}: "
        "plan the pattern again"
    )
