"""`Plan`: how each clause of each pattern is run, with the numbers it was chosen by; and its text for people.

The text has the order or the tree, what it is expected to cost, why it won, and what is shared.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.foreign_text import html_table
from cep_pipeline.foreign_text import listed as listed_shortly
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import (
    ON_KERNEL,
    SHARINGS,
    Alternative,
    ClausePlan,
    NodeUse,
    PatternPlan,
    PlanNode,
    PlanStep,
    SharedPlanNode,
    Sharing,
    StatisticsSummary,
    WorkloadPlan,
)
from cep_pipeline.planning.clause_statistics import format_ln, format_number, from_ln, ln_difference, ln_sum
from cep_pipeline.planning.costs import NUMBER, kernel_costs
from cep_pipeline.planning.orderings import DecidingComparison, named, tightest_of_blocks
from cep_pipeline.planning.planners import without_invariants_because
from cep_pipeline.planning.trees import Join, Tree, leaves_of, nodes_of, positions_of, shape_of, written
from cep_pipeline.statistics.observed import NodeCounts
from cep_pipeline.statistics.snapshot import Selectivity, Source
from cep_pipeline.storage import digest_of

VERSION = 3
"""Version of the JSON form. Plans of version 1 knew neither nodes of trees nor cost models by pattern, those of version
2 nothing that patterns share."""


def _named(patterns: Sequence[str]) -> str:
    """Name up to four patterns, and count those after them."""
    shown = ", ".join(patterns[:4])
    more = f" and {len(patterns) - 4:,} more" if len(patterns) > 4 else ""
    return f"{len(patterns):,} pattern{'' if len(patterns) == 1 else 's'}: {shown}{more}"


@dataclass(frozen=True)
class Plan:
    """The plan of a set of patterns: the order or tree by which each clause is run.

    Attributes
    ----------
    alpha
        What latency weighed against the cost of the work.
    statistics
        The snapshot that it was made from.
    patterns
        In the order of the patterns.
    sharing
        What the orders or trees of all clauses share (MCEP [0076], [0121]): nothing, equal beginnings of orders, or
        equal subtrees. `planning.multi_pattern.share` merges them.
    workload
        Where it was planned for all patterns at once, how, and what they share.
    """

    alpha: float
    statistics: StatisticsSummary
    patterns: tuple[PatternPlan, ...] = field(default=())
    sharing: Sharing = "none"
    workload: WorkloadPlan | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha weighs latency: it is finite and not negative, not {self.alpha}")
        if len(self._by_name) != len(self.patterns):
            raise ValueError("a plan has one entry a pattern")
        if self.sharing not in SHARINGS:
            raise ValueError(f"there is no sharing {self.sharing!r}; there are: {', '.join(SHARINGS)}")
        if self.sharing == "prefix" and any(plan.tree is not None for one in self.patterns for plan in one.clauses):
            raise ValueError("beginnings of orders are shared, not trees")
        if self.workload is not None and not self._by_name.keys() >= self.workload.patterns:
            raise ValueError("patterns share nodes that the plan does not have; take part of a plan by `part`")
        if self.sharing == "none" and self.workload is not None and self.workload.shared:
            raise ValueError("a plan that shares nothing has shared nodes")

    def __repr__(self) -> str:
        return f"<Plan {self.plan_id[:8]} by {self.planner}, {_named([one.pattern for one in self.patterns])}>"

    def _repr_html_(self) -> str:
        rows = (
            (
                one.pattern,
                one.planner,
                "; ".join(written(clause.order_or_tree) for clause in one.clauses),
                f"{from_ln(one.ln_cost):.3g}",
            )
            for one in self.patterns
        )
        return html_table(("pattern", "planner", "orders or trees", "cost"), rows, f"Plan {self.plan_id[:8]}")

    @property
    def planner(self) -> str:
        """The planners of its patterns, by name."""
        return ", ".join(dict.fromkeys(plan.planner for plan in self.patterns))

    @property
    def cost_model(self) -> str:
        """The cost models of its patterns, by name."""
        return ", ".join(dict.fromkeys(plan.cost_model for plan in self.patterns))

    @property
    def unit(self) -> str:
        """The units of its patterns' costs."""
        return "; ".join(dict.fromkeys(plan.unit for plan in self.patterns))

    @cached_property
    def _by_name(self) -> dict[str, PatternPlan]:
        return {plan.pattern: plan for plan in self.patterns}

    @property
    def ln_cost(self) -> float:
        """Natural logarithm of the cost of all patterns together; what they share counts once."""
        if self.workload is not None:
            return self.workload.ln_cost
        return ln_sum(plan.ln_cost for plan in self.patterns)

    @property
    def cost(self) -> float:
        """The cost of all patterns together; infinity where it exceeds a float."""
        return from_ln(self.ln_cost)

    def for_pattern(self, name: str) -> PatternPlan:
        """The plan of one pattern.

        Raises
        ------
        PlanError
            The plan was not made for it.
        """
        if name not in self._by_name:
            known = listed_shortly(self._by_name) or "none"
            raise PlanError(
                f"the plan {self.plan_id} has no pattern {name!r}; it has: {known}; plan these patterns again"
            )
        return self._by_name[name]

    def part(self, names: Iterable[str]) -> Plan:
        """The plan of some of its patterns, which share by the same rule; what all of them share is not said there.

        Raises
        ------
        PlanError
            As `for_pattern`.
        """
        return replace(self, patterns=tuple(map(self.for_pattern, names)), workload=None)

    @cached_property
    def plan_id(self) -> str:
        """32 hexadecimal digits that change with anything in the plan."""
        return str(self.to_json()["plan_id"])

    def explain(
        self,
        mechanism: str | Mapping[str, str] | None = None,
        patterns: Collection[str] | None = None,
    ) -> str:
        """The plan as text for people.

        Parameters
        ----------
        mechanism
            The mechanism that will run it, or for each pattern by name, and why it does where that is known.
        patterns
            The names of those that are explained; None: all, of more than `MOST_EXPLAINED` what they do together, and a
            list.

        Raises
        ------
        InputError
            The plan has no pattern of one of these names.
        """
        if patterns is None and len(self.patterns) > MOST_EXPLAINED:
            return "\n".join([*_headed(self, None), "", *_list(self, mechanism)]) + "\n"
        return _explained(self, mechanism, {}, patterns)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values, with its version and id."""
        from cep_pipeline.documents import in_json

        content = in_json(self)
        # A plan of a thousand patterns is written once for both, unless its id is known already.
        plan_id = self.__dict__.get("plan_id") or digest_of(content)
        return {"version": VERSION, "plan_id": plan_id, **content}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "plan") -> Plan:
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            `content` is of another version, or no plan; `source` names it in the message.
        """
        from cep_pipeline.documents import check_version, read_as, reading

        check_version(content, VERSION, "plan", source)
        own = {name: value for name, value in content.items() if name not in ("version", "plan_id")}
        told = "no plan", source, "make the plan again"
        plan: Plan = read_as(cls, own, *told)
        with reading(*told):
            for clause in (clause for one in plan.patterns for clause in one.clauses):
                _check_comparisons(clause)
        return plan


def _check_comparisons(plan: ClausePlan) -> None:
    """Refuse comparisons that are of no variables of a clause: ValueError."""
    places = range(len(plan.steps))
    for one in plan.comparisons:
        sides = [positions_of(side) for side in (one.chosen, one.rejected)]
        fit = all(len(side) == len({*side}.intersection(places)) == len(sides[0]) > 0 for side in sides)
        if one.step not in places or not fit:
            raise ValueError(f"a comparison of step {one.step} binds {sides} of {len(places)} variables")


def validate(plan: Plan, patterns: Iterable[Pattern]) -> None:
    """Check that a plan can run these patterns.

    Raises
    ------
    PlanError
        A pattern is not in the plan, or has other clauses or variables than the plan was made for.
    """
    for pattern in patterns:
        pattern_plan = plan.for_pattern(pattern.name)
        if len(pattern_plan.clauses) != len(pattern.clauses):
            raise PlanError(
                f"pattern {pattern.name!r} has {len(pattern.clauses)} clauses, the plan {plan.plan_id} has "
                f"{len(pattern_plan.clauses)}: the plan was made for another pattern of this name; plan it again"
            )
        for clause, clause_plan in zip(pattern.clauses, pattern_plan.clauses, strict=True):
            variables = tuple(variable.name for variable in clause.positive)
            # The tree of a clause plan has the variables of its steps.
            if clause_plan.order != variables and sorted(clause_plan.order) != sorted(variables):
                raise PlanError(
                    f"clause {clause.index} of pattern {pattern.name!r} binds {', '.join(variables)}, the plan "
                    f"{plan.plan_id} orders {', '.join(clause_plan.order)}: an order or a tree has each positive "
                    "variable once; plan the pattern again"
                )


WIDTH = 118
"""Longest line of text."""
MOST_EXPLAINED = 20
"""The most patterns of a plan that are shown in full; of more, a list is shown until some are asked for."""
MOST_LISTED = 40
"""The most patterns that are listed: those that cost most."""
LONGEST_TREE = 80
"""Most characters of an order or tree in the list."""
FAR_OFF = 10.0
"""An estimate is marked where more than so many times as much, or as little, has happened."""
FEW = 100.0
"""The fewest tests by which a selectivity is judged."""
LONGEST_LIST = 6
"""The most variables that are all named; of more, the first two and the last two."""
_TEXT = {"step", "binds", "node", "leaf", "condition", "rests on", "where", "pattern", "order or tree", ""}
_TEXT |= {"a test on fused", "mechanisms"}
"""Headings of the columns of text."""
MOST_NODES = 25
"""The most shared nodes that are shown: those that save most."""
MOST_USES = 4
"""The most patterns that are named of those that share a node."""
_KINDS: dict[Sharing, str] = {
    "none": "nothing is shared",
    "prefix": "equal beginnings of orders are shared",
    "subexpression": "equal subtrees are shared",
}


class DetectionMetrics(Protocol):
    """The counts of a detection, as in `detection.mechanism.Metrics`."""

    @property
    def mechanisms(self) -> Mapping[str, str]: ...
    @property
    def nodes(self) -> Sequence[NodeCounts]: ...


def explain_analyzed(
    plan: Plan, metrics: DetectionMetrics, events: int | None = None, patterns: Collection[str] | None = None
) -> str:
    """The plan, and beside what was expected of each node what really happened there.

    Parameters
    ----------
    metrics
        What detection by this plan has counted.
    events
        The number of events that it ran over; None where they are those that the plan was made from.
    patterns
        The names of those that are explained; None: all.

    Notes
    -----
    An estimate is marked where it was off by more than 10 times: of the partial matches that were made at a node, or of
    the share of candidates that passed its conditions. What negated events reject is not expected, but counted.
    Patterns that are run together show each what they share, with what happened there for the longest of their windows.
    """
    seen = plan.statistics.events if events is None else events
    found: dict[str, dict[int, dict[frozenset[str], NodeCounts]]] = {}
    for node in metrics.nodes:
        for name, index, variables in ((node.pattern, node.clause, node.node), *node.shared_with):
            found.setdefault(name, {}).setdefault(index, {})[frozenset(variables)] = node
    observed: dict[str, dict[int, ObservedClause]] = {}
    for pattern in plan.patterns:
        windows = seen / pattern.events_in_window if seen and pattern.events_in_window else None
        counts = found.get(pattern.pattern, {})
        observed[pattern.pattern] = {
            clause.clause: ObservedClause(windows, counts.get(clause.clause, {})) for clause in pattern.clauses
        }
    return _explained(plan, metrics.mechanisms, observed, patterns)


def _explained(
    plan: Plan,
    mechanism: str | Mapping[str, str] | None,
    observed: Mapping[str, Mapping[int, ObservedClause]],
    only: Collection[str] | None,
) -> str:
    lines = [*_headed(plan, only)]
    for pattern in plan.patterns:
        if only is None or pattern.pattern in only:
            lines += ["", *_pattern(plan, pattern, mechanism, observed.get(pattern.pattern, {}))]
    return "\n".join(lines) + "\n"


def _headed(plan: Plan, only: Collection[str] | None) -> Iterator[str]:
    """The head of the text: the plan, and the work that its patterns (or some of them) share."""
    names = [pattern.pattern for pattern in plan.patterns]
    if unknown := sorted(set(only or ()).difference(names)):
        raise InputError(f"the plan has no pattern {unknown[0]!r}; it has: {listed(names)}")
    units = {pattern.unit for pattern in plan.patterns}
    total = f": {format_ln(plan.ln_cost)} {plan.unit}" if len(units) == 1 else ""
    alpha = f", alpha {plan.alpha:g}" if plan.alpha else ""
    yield f"plan {plan.plan_id}"
    yield f"  planner {plan.planner}, cost {plan.cost_model}{alpha}{total}"
    yield f"  statistics {plan.statistics.digest}: {_statistics(plan)}"
    if plan.workload is not None:
        yield from workload_lines(plan.sharing, plan.workload, only)
        tested = sum(len(list(_order_tested(clause))) for pattern in plan.patterns for clause in pattern.clauses)
        if tested:
            joins = "1 join takes" if tested == 1 else f"{tested:,} joins take"
            yield f"  {joins} what an AND of another pattern makes, and test{'s' if tested == 1 else ''} its order"


def _list(plan: Plan, mechanism: str | Mapping[str, str] | None) -> Iterator[str]:
    """The patterns that cost most, a line each."""
    named = {one.pattern: _runs_on(one, mechanism) for one in plan.patterns}
    for text, number in Counter(filter(None, named.values())).most_common():
        yield f"{number:,} of {len(plan.patterns):,} patterns run on {text}"
    units = {one.unit for one in plan.patterns}
    shown = (sorted(plan.patterns, key=lambda one: -one.ln_cost) if len(units) == 1 else plan.patterns)[:MOST_LISTED]
    rows: list[tuple[str, ...]] = [("pattern", "within", "cost", "order or tree")]
    for one in shown:
        cost = format_ln(one.ln_cost) + ("" if len(units) == 1 else f" {one.unit}")
        trees = "; ".join(written(clause.order_or_tree) for clause in one.clauses)
        rows.append((one.pattern, one.window, cost, textwrap.shorten(trees, LONGEST_TREE)))
    what = f"that cost most by themselves, in {plan.unit}" if len(units) == 1 else "that come first"
    yield f"the {len(shown):,} {what}:"
    yield ""
    yield from in_columns(rows, "    ")
    yield ""
    yield "steps, conditions and invariants of one: `cep explain --pattern NAME`; of all: `cep explain --json`"


def _runs_on(pattern: PatternPlan, mechanism: str | Mapping[str, str] | None) -> str | None:
    return mechanism.get(pattern.pattern) if isinstance(mechanism, Mapping) else mechanism


def _statistics(plan: Plan) -> str:
    summary = plan.statistics
    events = f"{summary.events:,} events of {summary.stream}"
    if summary.start_us is None or summary.end_us is None:
        return events
    return f"{events}, {_instant(summary.start_us)} to {_instant(summary.end_us)}"


def _instant(timestamp_us: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_us} us"


def _pattern(
    plan: Plan,
    pattern: PatternPlan,
    mechanism: str | Mapping[str, str] | None,
    observed: Mapping[int, ObservedClause],
) -> Iterator[str]:
    runs_on = _runs_on(pattern, mechanism)
    first, *more = f", runs on {runs_on}".split("; ") if runs_on else [""]
    yield f"pattern {pattern.pattern}: {pattern.strategy} within {pattern.window}{first}"
    for text in more:
        yield from _wrapped("  ", text)
    several = len(plan.patterns) > 1 or len(pattern.clauses) > 1
    if several:
        yield f"  by planner {pattern.planner}, cost {pattern.cost_model}: {format_ln(pattern.ln_cost)} {pattern.unit}"
    for clause in pattern.clauses:
        if len(pattern.clauses) > 1:
            yield ""
            yield f"  clause {clause.clause + 1} of {len(pattern.clauses)}"
        what = "order" if clause.tree is None else "tree "
        yield from _wrapped(f"  {what} ", written(clause.order_or_tree))
        for tested in _order_tested(clause):
            yield from _wrapped(
                "  order ", f"{tested}: made without it, as the AND of others is, and tested afterwards"
            )
        yield f"  cost  {format_ln(clause.ln_cost)} {pattern.unit}"
        if clause.ln_waiting is not None and plan.alpha:
            yield f"        of which latency {format_ln(clause.ln_waiting)}, weighed by {plan.alpha:g}"
        if clause.note:
            yield from _wrapped("  note  ", clause.note)
        yield ""
        yield from node_lines(clause, observed.get(clause.clause))
        if len(clause.steps) > 1:
            yield ""
            yield from _wrapped("    ", f"invariants: {_invariants_of(pattern, clause)}")
            names = _names_by_position(clause)
            for comparison in tightest_of_blocks(clause.comparisons):
                yield from _wrapped("      ", _comparison(comparison, names))
            against = list(_against(pattern, clause))
            if against:
                yield "    why"
            for line in against:
                yield from _wrapped("      ", line)


def _wrapped(head: str, text: str) -> list[str]:
    """A text behind its head, on several lines where it is long."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * (len(head) + 2), break_long_words=False
    )


def _invariants_of(pattern: PatternPlan, clause: ClausePlan) -> str:
    if clause.comparisons:
        return f"as soon as one of these comes out otherwise, {pattern.planner} makes another plan"
    return f"none; {without_invariants_because(pattern.planner) or clause.note or 'there is no other way'}"


def _names_by_position(clause: ClausePlan) -> tuple[str, ...]:
    """The clause's variables in pattern order, to which positions refer: as the sides that were chosen bind them."""
    joins = [] if clause.tree is None else [node.leaves for node in nodes_of(clause.tree) if isinstance(node, Join)]
    names: dict[int, str] = {}
    for comparison in clause.comparisons:
        bound = clause.order[: comparison.step + 1]
        if comparison.measure == "tree":
            bound = joins[comparison.step]
        elif comparison.measure == "instances":
            bound = bound[-1:]
        names.update(zip(positions_of(comparison.chosen), bound, strict=True))
    left = [name for name in clause.order if name not in names.values()]
    return tuple(names.get(position) or left.pop() for position in range(len(clause.order)))


def _comparison(comparison: DecidingComparison, names: Sequence[str]) -> str:
    sides = f"{format_ln(comparison.ln_chosen)} against {format_ln(comparison.ln_rejected)}"
    if comparison.measure == "tree":
        chosen, rejected = (named(side, names) for side in (comparison.chosen, comparison.rejected))
        return f"join {comparison.step + 1}: {chosen} rather than {rejected}: the joins below it cost {sides}"
    of_chosen, of_rejected = positions_of(comparison.chosen), positions_of(comparison.rejected)
    if comparison.measure == "cost":
        chosen, rejected = (listed([names[p] for p in order]) for order in (of_chosen, of_rejected))
        text = f"{chosen} rather than {rejected}: the steps before it cost {sides}"
    else:
        chosen, rejected = names[of_chosen[-1]], names[of_rejected[-1]]
        what = "instances in a window" if comparison.measure == "instances" else "cost of it"
        text = f"{chosen} rather than {rejected}: {what} {sides}"
    tied = comparison.ln_rejected == comparison.ln_chosen
    tie = " (a tie: the pattern's order decides)" if tied else ""
    return f"step {comparison.step + 1}: {text}{tie}"


def _against(pattern: PatternPlan, clause: ClausePlan) -> Iterator[str]:
    own, kind = shape_of(clause.order_or_tree), "order" if clause.tree is None else "tree"
    found: dict[Hashable, list[Alternative]] = {}
    for other in clause.alternatives:
        found.setdefault((other.planner == ON_KERNEL, shape_of(other.order_or_tree)), []).append(other)
    for of, alike in found.items():
        one, by, cost = alike[0], ", ".join(other.planner for other in alike), format_ln(alike[0].ln_cost)
        if one.planner == ON_KERNEL:
            yield (
                f"columnar mechanisms run the order {written(one.order)} instead, which stores nothing to be shared: "
                f"it takes {cost} ns a window there"
            )
        elif of == (False, own):
            yield f"the same {kind} by {by}"
        else:
            head = "runner-up" if one is clause.runner_up else "also tried"
            # What mechanisms of one kind do says nothing of the other.
            times = f", {format_ln(one.ln_cost - clause.ln_cost)} times this one's"
            same_kind = (one.tree is None) == (clause.tree is None)
            yield f"{head}: {written(one.order_or_tree)} (by {by}), cost {cost}{times if same_kind else ''}"
    cheapest = clause.runner_up
    if cheapest is not None and cheapest.ln_cost < clause.ln_cost - 1e-9:
        yield f"kept because the planner is {pattern.planner}, though {cheapest.planner}'s {kind} is cheaper"


@dataclass(frozen=True)
class ObservedClause:
    """The observed counts of a clause.

    Attributes
    ----------
    windows
        How many times the time of a window has passed; None where it is not known.
    counts
        The variables bound at a node -> what happened there.
    """

    windows: float | None
    counts: Mapping[frozenset[str], NodeCounts]


def node_lines(clause: ClausePlan, observed: ObservedClause | None = None) -> Iterator[str]:
    """The steps or the tree, what is tested where, and what has happened where that is known."""
    yield from in_columns(_steps(clause.steps) if clause.tree is None else _tree(clause, clause.tree), "    ")
    conditions = _conditions(clause)
    if len(conditions) > 1:
        yield ""
        yield from in_columns(conditions, "    ")
    if clause.negations:
        yield ""
        yield from (f"    {line}" for line in _negations(clause))
    if observed is not None:
        yield ""
        yield from in_columns(_happened(clause, observed), "    ")


def _steps(steps: Sequence[PlanStep]) -> list[tuple[str, ...]]:
    heading = ("step", "binds", "leaf", "events", "events/s", "in a window", "passing", "partial matches")
    rows: list[tuple[str, ...]] = [heading]
    earlier = 0.0
    for number, step in enumerate(steps, 1):
        passing = step.ln_partial_matches - earlier - step.ln_instances
        rows.append((str(number), step.variable, *_leaf(step), *_passing(passing, step)))
        earlier = step.ln_partial_matches
    return rows


def _leaf(step: PlanStep) -> tuple[str, ...]:
    events = "given" if step.count is None else f"{step.count:,}" if step.count else "0, as if 0.5"
    return step.leaf, events, format_number(step.rate_per_s), format_ln(step.ln_instances)


def _passing(ln_share: float, expected: PlanStep | PlanNode) -> tuple[str, str]:
    return format_ln(min(ln_share, 0.0)), format_ln(expected.ln_partial_matches)


def _tree(clause: ClausePlan, tree: Join) -> list[tuple[str, ...]]:
    """The nodes of the tree, each above those that it joins, with lines from the one to the others."""
    heading = ("node", "leaf", "events", "events/s", "in a window", "passing", "partial matches")
    rows: list[tuple[str, ...]] = [heading]
    expected = clause.expected
    numbers = node_names(clause)

    def add(node: Tree, own: str, below: str) -> None:
        found = expected.get(leaves_of(node))
        label = own + numbers[leaves_of(node)]
        if isinstance(found, PlanStep):
            passing = found.ln_partial_matches - found.ln_instances
            rows.append((label, *_leaf(found), *_passing(passing, found)))
        elif isinstance(node, Join) and found is not None:
            sides = (expected[leaves_of(node.left)], expected[leaves_of(node.right)])
            passing = found.ln_partial_matches - sum(side.ln_partial_matches for side in sides)
            rows.append((label, "", "", "", "", *_passing(passing, found)))
        else:
            rows.append((label, "", "", "", "", "", ""))
        if isinstance(node, str):
            return
        add(node.left, f"{below}|- ", f"{below}|  ")
        add(node.right, f"{below}`- ", f"{below}   ")

    add(tree, "", "")
    return rows


def _order_tested(clause: ClausePlan) -> Iterator[str]:
    """The variables of each join whose order is tested on what is made without it."""
    if clause.tree is not None:
        yield from (listed(one.leaves) for one in nodes_of(clause.tree) if isinstance(one, Join) and one.in_order)


def node_names(clause: ClausePlan) -> dict[tuple[str, ...], str]:
    """The name of each step, leaf or join in the tables, by its variables in plan order."""
    if clause.tree is None:
        return {clause.order[: place + 1]: str(place + 1) for place in range(len(clause.order))}
    joins = [node.leaves for node in nodes_of(clause.tree) if isinstance(node, Join)]
    names = {(variable,): variable for variable in clause.order}
    return names | {leaves: f"join {number}: {listed(leaves)}" for number, leaves in enumerate(joins, 1)}


def listed(names: Sequence[str]) -> str:
    """The names, of many the first and the last ones.

    Examples
    --------
    >>> listed("abc"), listed("abcdefghij")
    ('a, b, c', 'a, b, ..., i, j')
    """
    if len(names) <= LONGEST_LIST:
        return ", ".join(names)
    return ", ".join((*names[:2], "...", *names[-2:]))


def _conditions(clause: ClausePlan) -> list[tuple[str, ...]]:
    what = "step" if clause.tree is None else "node"
    rows: list[tuple[str, ...]] = [(what, "condition", "selectivity", "rests on", "a test on fused")]
    names = node_names(clause)
    for variables, expected in clause.expected.items():
        name = names[variables].partition(":")[0]
        if expected.order_share < 1 - 1e-12:
            rows.append((name, "temporal order", format_number(expected.order_share), "the pattern's order", ""))
        for condition in expected.conditions:
            evidence = _evidence(condition)
            if condition.correction is not None:
                evidence = f"together {format_number(condition.correction)} times what each alone says; {evidence}"
            rows.append((name, condition.text, format_number(condition.value), evidence, _test(condition.kind)))
    return rows if any(row[-1] for row in rows[1:]) else [row[:-1] for row in rows]


def _test(kind: str) -> str:
    """The nanoseconds of a test of a kind; nothing of a plain comparison, and of what was not measured."""
    cost = kernel_costs().tests.get(kind)
    return "" if cost is None or kind == NUMBER else f"{cost:.2g} ns ({kind})"


def _evidence(selectivity: Selectivity) -> str:
    match selectivity.source:
        case Source.ALL_PAIRS:
            return f"all {selectivity.pairs:,} pairs"
        case Source.SAMPLED_PAIRS:
            return f"{selectivity.tested:,} of {selectivity.pairs:,} pairs"
        case Source.PRIOR:
            return "nothing measured: a prior by the condition's form"
        case Source.COUNT | Source.GIVEN | Source.WINDOW:
            return str(selectivity.source.value)


def _negations(clause: ClausePlan) -> Iterator[str]:
    names = node_names(clause)
    for negation in clause.negations:
        place = names.get(negation.asked_with, "").partition(":")[0]
        where = f"step {place}" if clause.tree is None else place
        reasons = [f"its place is said by the events of {listed(negation.between)}"]
        if negation.compared:
            reasons.append(f"it is compared with {listed(negation.compared)}")
        leaf = f"{negation.leaf}, {format_number(negation.rate_per_s)} events/s"
        if negation.variable.endswith((")", "]")):  # a composite or a list
            yield f"~{negation.variable} ({leaf}) is asked of each finished match:"
        else:
            yield f"~{negation.variable} ({leaf}) is asked at {where}, the earliest with all of these bound:"
        yield f"  {', and '.join(reasons)}"


def _happened(clause: ClausePlan, observed: ObservedClause) -> list[tuple[str, ...]]:
    """A table of the observed and the expected numbers of each node, and its sharers; `<<` marks estimates far off."""
    heading = ("step" if clause.tree is None else "node", "expected", "candidates", "passes", "of expected")
    rows: list[tuple[str, ...]] = [(*heading, "passing expected", "passing", "stored", "")]
    names = node_names(clause)
    for variables, expected in clause.expected.items():
        name = names[variables].partition(":")[0]
        counts = observed.counts.get(frozenset(variables))
        if counts is None:
            rows.append((name, "", "", "", "", "", "", "", "the mechanism has no such node"))
            continue
        made = None if observed.windows is None else expected.ln_made + math.log(observed.windows)
        tests = [c.value if c.correction is None else c.correction for c in expected.conditions if not c.agreement]
        share, passing = math.prod(tests), counts.passes / counts.candidates if counts.candidates else 0.0
        judged = bool(tests) and counts.candidates >= FEW
        uses = len(counts.shared_with) + 1
        notes = [f"found once for {uses} uses"] if uses > 1 else []
        marks = []
        if made is not None and far_off(from_ln(made), counts.passes):
            marks.append("partial matches")
        if judged and far_off(share * counts.candidates, counts.passes):
            marks.append("selectivity")
        if marks:
            notes.append(f"<< {' and '.join(marks)} off by more than {FAR_OFF:g}x")
        rows.append(
            (
                name,
                "" if made is None else format_ln(made),
                f"{counts.candidates:,}",
                f"{counts.passes:,}",
                "" if made is None else format_number(counts.passes / max(from_ln(made), 1e-300)),
                format_number(share) if tests else "",
                format_number(passing) if tests and counts.candidates else "",
                f"{counts.created:,}" if counts.created else "",
                "  ".join(notes),
            )
        )
    return rows


def far_off(expected: float, happened: float) -> bool:
    """True if an estimate was off by more than `FAR_OFF` times; numbers below one count as one.

    Examples
    --------
    >>> far_off(3.0, 31), far_off(0.001, 9), far_off(250.0, 24)
    (True, False, True)
    """
    one, other = max(expected, 1.0), max(happened, 1.0)
    return one > FAR_OFF * other or other > FAR_OFF * one


def in_columns(rows: Sequence[tuple[str, ...]], indent: str) -> Iterator[str]:
    """Columns side by side: numbers to the right, text to the left."""
    columns = list(zip(*rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [column[0] not in _TEXT for column in columns]
    for row in rows:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        yield (indent + "  ".join(cells)).rstrip()


def summary_lines(sharing: Sharing, workload: WorkloadPlan) -> Iterator[str]:
    """The search that found the plan, and the cost of its patterns together and apart."""
    search = workload.search
    details = [
        *([f"neighbourhood {search.neighbourhood}"] if search.neighbourhood else []),
        *([f"seed {search.seed}"] if search.seed is not None else []),
        *([f"{search.steps:,} steps"] if search.steps is not None else []),
    ]
    found = ", ".join([f"found by {search.planner}", *details])
    yield f"  sharing {sharing}: {_KINDS[sharing]}; {found}"
    times = format_ln(workload.ln_apart - workload.ln_cost)
    yield (
        f"  {workload.nodes:,} nodes instead of {workload.nodes_apart:,}, cost {format_ln(workload.ln_cost)} instead "
        f"of {format_ln(workload.ln_apart)} {workload.unit}: {times} times less"
    )


def workload_lines(sharing: Sharing, workload: WorkloadPlan, only: Collection[str] | None = None) -> Iterator[str]:
    """The summary of a plan, and the nodes that its patterns share; of these, those that one of some patterns uses."""
    yield from summary_lines(sharing, workload)
    if not workload.shared:
        return
    shared = [work for work in workload.shared if only is None or any(use.pattern in only for use in work.uses)]
    if len(shared) > MOST_NODES:  # of many those say most that are more than events of one type
        shared = [work for work in shared if len(work.uses[0].variables) > 1]
    if shared:
        yield ""
        yield from _table(shared)


def _table(shared: Sequence[SharedPlanNode]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("node", "uses", "within", "cost", "apart", "saves", "where")]
    for number, work in enumerate(shared[:MOST_NODES], 1):
        saved = format_ln(ln_difference(work.ln_apart, work.ln_cost))
        size = f"{number}: {len(work.uses[0].variables)} variables"
        if len(work.uses[0].variables) == 1:
            size = size.removesuffix("s")
        costs = format_ln(work.ln_cost), format_ln(work.ln_apart)
        rows.append((size, str(len(work.uses)), work.window, *costs, saved, _users(work)))
    yield from in_columns(rows, "    ")
    if len(shared) > MOST_NODES:
        yield f"    and {len(shared) - MOST_NODES:,} more that save less"


def _users(work: SharedPlanNode) -> str:
    users = "; ".join(map(_use, work.uses[:MOST_USES]))
    more = len(work.uses) - MOST_USES
    return f"{users}; and {more:,} more" if more > 0 else users


def _use(use: NodeUse) -> str:
    clause = f" ({use.clause + 1})" if use.clause else ""
    return f"{use.pattern}{clause}: {listed(use.variables)}"
