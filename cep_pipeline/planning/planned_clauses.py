"""The plan of a clause and of a pattern, made of the orders or trees that a planner has found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.normal_form import Clause, NegatedStructure, negation_of
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import structure_text
from cep_pipeline.planning.clause_plans import (
    Alternative,
    ClausePlan,
    PatternPlan,
    PlacedNegation,
    PlanNode,
    PlanStep,
    StatisticsSummary,
    TestedCondition,
)
from cep_pipeline.planning.clause_questions import (
    ClauseQuestions,
    ln_lists,
    ln_planned_selectivity,
    planned_events_in_window,
)
from cep_pipeline.planning.clause_statistics import ClauseStatistics, ln_order_share
from cep_pipeline.planning.costs import DEAR, LATENCY, NUMBER, THROUGHPUT, CostModel, cost_named, with_latency
from cep_pipeline.planning.orderings import Ordering, TreeOrdering, ln_costs, ln_order_cost, named_over
from cep_pipeline.planning.planners import PLANNERS
from cep_pipeline.planning.trees import Join, PositionTree, left_deep, named_join, positions_of
from cep_pipeline.slices.order import before_is_earlier, compared_with, surrounding
from cep_pipeline.statistics.joint import SMALLEST, ClauseTerms
from cep_pipeline.statistics.snapshot import Selectivity, StatisticsSnapshot
from cep_pipeline.statistics.terms import agreeing_attributes, format_conjunct, leaf_of

LN_2 = math.log(2)
_A_LITTLE = 1.001


@dataclass(frozen=True)
class Expectations:
    """The expected numbers of one clause by a snapshot."""

    pattern: Pattern
    clause: Clause
    snapshot: StatisticsSnapshot
    asked: ClauseQuestions | None = None
    """The questions that snapshots are asked about the clause, where they are known."""

    @cached_property
    def statistics(self) -> ClauseStatistics:
        """The clause's numbers as planners see them."""
        return self._questions.statistics(self.snapshot)

    @cached_property
    def _questions(self) -> ClauseQuestions:
        return ClauseQuestions(self.pattern, self.clause) if self.asked is None else self.asked

    def steps(self, order: Sequence[int]) -> tuple[PlanStep, ...]:
        """The steps of an order of positions."""
        return tuple(self._step(order[:length], order[length]) for length in range(len(order)))

    def leaves(self, tree: PositionTree) -> tuple[PlanStep, ...]:
        """The leaves of a tree of positions from left to right."""
        return tuple(self._step((), position) for position in positions_of(tree))

    def nodes(self, tree: PositionTree) -> tuple[PlanNode, ...]:
        """The joins of a tree of positions, those below before those above."""
        if isinstance(tree, int):
            return ()
        return (*self.nodes(tree[0]), *self.nodes(tree[1]), self._node(*map(positions_of, tree)))

    def negations(self, reached: Sequence[tuple[str, ...]], *, whole: bool = False) -> tuple[PlacedNegation, ...]:
        """The points at which negated variables, and negated composites and lists, are asked for.

        Parameters
        ----------
        reached
            The variables bound at each step or node, none before those below it.
        whole
            Whether what depends on the window of the whole match is asked at the root only.
        """
        found = []
        for variable in self.clause.negated:
            between = surrounding(self.pattern, self.clause, variable.name)
            compared = compared_with(self.pattern, self.clause, variable)
            enough = (bound for bound in reached if {*between, *compared} <= set(bound))
            asked_with = reached[-1] if whole and not self._enclosed(variable.name) else next(enough)
            leaf, rate = (
                leaf_of(self.pattern, self.clause, variable.name),
                self.snapshot.rate(self.pattern, self.clause, variable.name),
            )
            found.append(PlacedNegation(variable.name, leaf.key, rate.per_s, between, compared, asked_with))
        return (*found, *(self._negated_structure(structure) for structure in self.clause.negated_structures))

    def _negated_structure(self, structure: NegatedStructure) -> PlacedNegation:
        """A negated composite or list, which is asked of each finished match, whatever the order of the plan."""
        leaves, compared = {}, set[str]()
        for negated in structure.clauses:
            compared |= {name for conjunct in negated.conjuncts for name in conjunct.variables}
            for variable in negated.positive:
                leaf = leaf_of(self.pattern, negated, variable.name)
                leaves[leaf.key] = self.snapshot.rate(self.pattern, negated, variable.name).per_s
        names = tuple(variable.name for variable in self.clause.positive)
        return PlacedNegation(
            structure_text(negation_of(self.pattern.structure, structure)).removeprefix("~"),
            ", ".join(leaves),
            sum(leaves.values()),
            surrounding(self.pattern, self.clause, structure.name),
            tuple(name for name in names if name in compared),
            names,
        )

    @cached_property
    def events_in_window(self) -> float | None:
        """The number of the stream's events that come while the time of one window passes, if it is known."""
        window = self.pattern.window
        events = window.events if window.time_us is None else window.time_us / 1e6 * self.snapshot.events_per_s
        return float(events) if events else None

    # -- one step, one node -----------------------------------------------------------------------------------------

    def _step(self, earlier: Sequence[int], position: int) -> PlanStep:
        statistics, beginning = self.statistics, (*earlier, position)
        variable = statistics.names[position]
        rate = self._questions.rate(variable, self.snapshot)
        return PlanStep(
            variable=variable,
            leaf=rate.leaf,
            rate_per_s=rate.per_s,
            count=rate.count,
            ln_instances=statistics.ln_instances[position],
            order_share=self._order_share(earlier, [position]),
            conditions=tuple(self._conditions(earlier, [position], step=True)),
            ln_partial_matches=self._ln_alive(beginning),
            ln_made=self._ln_made(beginning),
        )

    def _node(self, left: tuple[int, ...], right: tuple[int, ...]) -> PlanNode:
        return PlanNode(
            variables=tuple(self.statistics.names[position] for position in (*left, *right)),
            order_share=self._order_share(left, right),
            conditions=tuple(self._conditions(left, right, step=False)),
            ln_partial_matches=self._ln_alive((*left, *right)),
            ln_made=self._ln_made((*left, *right)),
        )

    def _order_share(self, left: Sequence[int], right: Sequence[int]) -> float:
        """Share of the combinations of both sides that are in order."""
        apart = ln_order_share(self.statistics, left) + ln_order_share(self.statistics, right)
        return min(math.exp(ln_order_share(self.statistics, (*left, *right)) - apart), 1.0)

    def _ln_made(self, positions: Sequence[int]) -> float:
        """ln of the partial matches made while the time of one window passes.

        Of sets with n instances alive in a window of length W, dn/dW are made in each unit of time: k n / W of k single
        events, and more where lists are among them, whose number grows exponentially with W.
        """
        growth = math.fsum(self._growth[position] for position in positions)
        return self._ln_alive(positions) + math.log(growth)

    def _ln_alive(self, positions: Sequence[int]) -> float:
        """ln PM."""
        return THROUGHPUT.node.one(self.statistics, positions)

    @cached_property
    def _growth(self) -> tuple[float, ...]:
        """d ln(instances) / d ln(window) of each variable."""
        found = []
        for variable in self.clause.positive:
            rate = self._questions.rate(variable.name, self.snapshot)
            events = planned_events_in_window(self.pattern, self.snapshot, rate)
            neighbours = variable.kleene and self._questions.of_neighbours
            if variable.limits or neighbours:
                some = max(events, SMALLEST)
                less, more = (ln_lists(variable, of, neighbours=neighbours) for of in (some, some * _A_LITTLE))
                found.append((more - less) / math.log(_A_LITTLE))
                continue
            found.append(events * LN_2 / -math.expm1(-events * LN_2) if variable.kleene else 1.0)
        return tuple(found)

    def _conditions(self, left: Sequence[int], right: Sequence[int], *, step: bool) -> Iterator[TestedCondition]:
        """The conditions that can be tested where two sides meet; at a step, also those over its variable alone."""
        names = self.statistics.names
        one, other = [names[position] for position in left], [names[position] for position in right]
        together = {*one, *other}
        for variables, text, prior, kind in self._questions.tested:
            if variables <= together and not (variables <= {*one} or (variables <= {*other} and not step)):
                known = self.snapshot.by_condition.get(prior.condition) or prior
                yield TestedCondition.of(known, text, kind=kind if kind in DEAR else NUMBER)
        for attribute in agreeing_attributes(self.pattern, self.clause) if one else ():
            yield self._agreement(attribute, one, other, step=step)
        yield from self._together(one, other, step=step)

    def _together(self, left: Sequence[str], right: Sequence[str], *, step: bool) -> Iterator[TestedCondition]:
        """Conditions that depend on each other, all of which hold only where two sides meet."""
        if not self.snapshot.joints:
            return
        terms = self._terms
        below = [terms.within(left), *([] if step else [terms.within(right)])]
        here = terms.within([*left, *right])
        for chosen, ln_ratio in terms.increments.items():
            if chosen <= here and not any(chosen <= known for known in below):
                joint = terms.joints[chosen]
                texts = [
                    f"[{term.attribute}] of {' and '.join(term.names)}"
                    if term.conjunct is None
                    else format_conjunct(term.conjunct)
                    for term in (terms.terms[place] for place in sorted(chosen))
                ]
                pairs = joint.tested
                share = Selectivity("", joint.value, pairs, pairs, joint.source, joint.low, joint.high)
                yield TestedCondition.of(share, " and ".join(texts), correction=math.exp(ln_ratio))

    @cached_property
    def _terms(self) -> ClauseTerms:
        return ClauseTerms(self.pattern, self.clause, self.snapshot)

    def _agreement(self, attribute: str, left: Sequence[str], right: Sequence[str], *, step: bool) -> TestedCondition:
        """The agreement of both sides on an attribute: the pair of variables that agrees most rarely."""
        pairs = {
            (one, other): self.snapshot.agreement(self.pattern, self.clause, attribute, one, other)
            for one in left
            for other in right
        }
        one, other = min(pairs, key=lambda pair: ln_planned_selectivity(pairs[pair]))
        text = f"[{attribute}] with {one}" if step else f"[{attribute}] of {one} and {other}"
        return TestedCondition.of(pairs[one, other], text, agreement=True)

    def _enclosed(self, negated: str) -> bool:
        """True if what an event of a negated variable rejects is decided by the events around it."""
        around = self.clause.predecessors(negated) and self.clause.successors(negated)
        return bool(around) and before_is_earlier(self.pattern.ties)


BEST_SWAP = "swapping two neighbours"
"""Name of the cheapest order that exchanges two neighbours of the chosen one."""
MAX_SWAPPED_VARIABLES = 22
"""Largest size at which neighbours are tried."""


def summary_of(snapshot: StatisticsSnapshot) -> StatisticsSummary:
    """The summary of a snapshot that its plans contain."""
    return StatisticsSummary(snapshot.digest, snapshot.stream, snapshot.events, snapshot.start_us, snapshot.end_us)


def default_cost(pattern: Pattern, *, on_kernel: bool = True) -> str:
    """The cost model that a pattern is planned by where none is asked for: that of the mechanism that runs it.

    CONSUME changes nothing of it: it chooses among finished matches, so that there are as many partial matches with it
    as without. `consume_matched` (JQPG section 6.2) would be right where a partial match, too, took its events away.
    """
    return "kernel" if on_kernel else THROUGHPUT.name


def cost_model(pattern: Pattern, cost: str | None, alpha: float) -> CostModel:
    """The cost model that a pattern is planned by, as `plan` takes its name and the weight of latency.

    Raises
    ------
    InputError
        The name is unknown, or `alpha` is no weight.
    """
    check_alpha(alpha)
    model = cost_named(default_cost(pattern) if cost is None else cost)
    if alpha and model is LATENCY:
        raise InputError(f"alpha is {alpha}: it weighs latency against another cost than {model.name!r}")
    return with_latency(model, alpha)


def check_alpha(alpha: float) -> None:
    """Raise InputError for a weight of latency that is no finite number of 0 or more."""
    if not 0 <= alpha < float("inf"):
        raise InputError(f"alpha is {alpha}: it weighs latency, and is a finite number, 0 or more")


def pattern_plan(
    expected: Sequence[Expectations], clauses: Iterable[ClausePlan], planner: str, model: CostModel
) -> PatternPlan:
    """The plan of a pattern by those of its clauses."""
    pattern = expected[0].pattern
    return PatternPlan(
        pattern.name,
        str(pattern.window),
        pattern.strategy.value,
        tuple(clauses),
        planner,
        model.name,
        model.unit,
        expected[0].events_in_window,
    )


def clause_plan(
    expected: Expectations, found: Ordering | TreeOrdering, model: CostModel, *, compared_with: str | None = None
) -> ClausePlan:
    """The plan of a clause, made of the order or tree that a planner found for it.

    Parameters
    ----------
    compared_with
        The planner, where the plans of the others are put beside.
    """
    statistics = expected.statistics
    tree = found.tree if isinstance(found, TreeOrdering) and not isinstance(found.tree, int) else None
    order = positions_of(found.tree) if isinstance(found, TreeOrdering) else found.order
    alternatives = [] if compared_with is None else _alternatives(statistics, model, compared_with, order, tree)
    nodes: tuple[PlanNode, ...] = ()
    if tree is None:
        steps = expected.steps(order)
        reached = [tuple(step.variable for step in steps[: max(length, 2)]) for length in range(1, len(steps) + 1)]
    else:
        steps, nodes = expected.leaves(tree), expected.nodes(tree)
        reached = [node.variables for node in nodes]
    ln_cost, ln_waiting = ln_costs(model, statistics, found)
    return ClausePlan(
        clause=expected.clause.index,
        steps=steps,
        ln_cost=ln_cost,
        alternatives=tuple(alternatives),
        comparisons=found.comparisons,
        note=found.note,
        tree=None if tree is None else named_join(tree, statistics.names),
        nodes=nodes,
        negations=expected.negations(reached, whole=tree is not None),
        ln_waiting=ln_waiting,
    )


def _alternatives(
    statistics: ClauseStatistics,
    model: CostModel,
    planner: str,
    order: Sequence[int],
    tree: tuple[PositionTree, PositionTree] | None,
) -> list[Alternative]:
    """The plans of the other planners for a clause: those of the same kind first, each kind from the cheapest on.

    Beside a tree, an order counts as the left-deep tree that it is.
    """
    others: dict[str, Ordering | TreeOrdering] = {
        name: other(statistics, model)
        for name, other in PLANNERS.items()
        if name != planner and (other.compared_up_to is None or statistics.size <= other.compared_up_to)
    }
    if tree is None and 1 < statistics.size <= MAX_SWAPPED_VARIABLES:
        others[BEST_SWAP] = Ordering(_best_swap(statistics, model, order))
    found = []
    for name, other in others.items():
        if tree is not None and isinstance(other, Ordering):
            other = TreeOrdering(left_deep(other.order))
        run = named_over(other, statistics.names)
        names, join = (run.leaves, run) if isinstance(run, Join) else (tuple(run), None)
        found.append(Alternative(name, names, ln_costs(model, statistics, other)[0], join))
    return sorted(found, key=lambda other: ((other.tree is None) != (tree is None), other.ln_cost))


def _best_swap(statistics: ClauseStatistics, model: CostModel, order: Sequence[int]) -> tuple[int, ...]:
    neighbours = [
        (*order[:place], order[place + 1], order[place], *order[place + 2 :]) for place in range(len(order) - 1)
    ]
    return min(neighbours, key=lambda neighbour: ln_order_cost(model, statistics, neighbour))
