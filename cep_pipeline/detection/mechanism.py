"""What an evaluation mechanism is, and what it counts while it works."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.planning.trees import Join, OrderOrTree
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
from cep_pipeline.statistics.node_counts import NodeCounts

Owned = tuple[Boundary | None, Boundary | None]
"""`[start, end)`: the matches that become final between these points are wanted; None is an open end.

When a match is final says `finality.finality_of`: mostly at its last event; with a negated variable that nothing comes
after, at `(first timestamp + W, +inf)` or, with a count window, at the event n - 1 positions behind the first one, so
that the slice that contains that point owns it and has seen all that could reject it: `ownership.owned_matches` tells
which do. A start of None owns what was final before, too. An end of None means that the stream has ended: all that is
not final by then is final at the end. A binding that several clauses match is final at the earliest of their points,
and found by the slice that contains it only.

What a slice reads are the events from `extent.look_back_us` before its start up to its end, and none behind it.
"""
EVERYTHING: Owned = (None, None)
PRUNE = "prune"
"""The option by which a mechanism that `prunes` leaves out matches that OUTPUT NON_OVERLAP would not keep."""
Orders = Sequence[OrderOrTree]
"""For each clause of a pattern its positive variables in the order of the plan, or the plan's tree over them."""


def conjuncts_joining(clause: Clause, *parts: Collection[str]) -> tuple[Conjunct, ...] | None:
    """The conjuncts over positive variables that can be tested first where all of the parts are bound.

    None where one of the variables is a Kleene variable: what is tested on lists depends on how they are made.
    """
    names = frozenset(name for part in parts for name in part)
    if any(clause.by_name[name].kleene for name in names):
        return None
    return tuple(
        conjunct
        for conjunct in clause.conjuncts
        if conjunct.variables <= names and not any(conjunct.variables <= frozenset(part) for part in parts)
    )


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What became of the runs of an automaton (SIGMOD'08 section 6).

    Attributes
    ----------
    started
        Runs from the start state.
    merged
        Runs that another one went on for.
    selected
        Entries of the match buffer.
    read, read_again
        Events shown to runs, and those of them that had been shown to a run before it was postponed.
    most_entries
        The most pointers that the match buffer held.
    """

    started: int = 0
    merged: int = 0
    selected: int = 0
    read: int = 0
    read_again: int = 0
    most_entries: int = 0

    def plus(self, other: RunCounts) -> RunCounts:
        """With what was counted over another part of the stream, or for another clause."""
        return RunCounts(
            self.started + other.started,
            self.merged + other.merged,
            self.selected + other.selected,
            self.read + other.read,
            self.read_again + other.read_again,
            max(self.most_entries, other.most_entries),
        )


@dataclass(frozen=True)
class Metrics:
    """What detection did, by the measures of the papers.

    Attributes
    ----------
    mechanisms
        Pattern name -> the mechanism that ran it.
    nodes
        One for each node of each plan.
    peak_instances
        Most partial matches alive at a time.
    events_buffered
        Most events held outside partial matches.
    condition_evaluations
        Tests of one conjunct on one tuple; tests of order and window are not among them.
    runs
        Pattern name -> what became of its runs, where an automaton with a match buffer ran it.
    """

    mechanisms: dict[str, str]
    nodes: tuple[NodeCounts, ...] = ()
    peak_instances: int = 0
    events_buffered: int = 0
    condition_evaluations: int = 0
    runs: dict[str, RunCounts] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"<Metrics of {len(self.mechanisms):,} patterns by {', '.join(dict.fromkeys(self.mechanisms.values()))}: "
            f"{self.condition_evaluations:,} condition evaluations, at most {self.peak_instances:,} partial matches>"
        )


@dataclass
class Counters:
    """Where a mechanism counts; the public result is `Metrics`.

    Attributes
    ----------
    counted
        What happened at each node, as far as it is worked out.
    peak
        The highest number of instances found so far.
    evaluations
        Tests of one conjunct on one tuple, as far as they are worked out.
    peaks
        Those that are still to be found, from the lives of all instances: that takes time, and is done when somebody
        asks for `peak_instances`.
    later
        What is still to be counted when somebody asks for `nodes` or `condition_evaluations`: of a thousand patterns
        that takes as long as to run many of them.
    """

    counted: dict[tuple[str, int, tuple[str, ...]], NodeCounts] = field(default_factory=dict)
    peak: int = 0
    events_buffered: int = 0
    evaluations: int = 0
    runs: dict[str, RunCounts] = field(default_factory=dict)
    peaks: list[Callable[[], int]] = field(default_factory=list)
    later: list[Callable[[Counters], None]] = field(default_factory=list)

    @property
    def nodes(self) -> dict[tuple[str, int, tuple[str, ...]], NodeCounts]:
        """What happened at each node, by pattern, clause and variables."""
        self._settle()
        return self.counted

    @property
    def condition_evaluations(self) -> int:
        """Tests of one conjunct on one tuple."""
        self._settle()
        return self.evaluations

    def settle(self) -> None:
        """Find out and count all that is left for when somebody asks: what tells it, such as events, is let go of."""
        self._settle()
        self.count_peak(self.peak_instances)

    def _settle(self) -> None:
        waiting, self.later = self.later, []
        for count in waiting:
            count(self)

    @property
    def peak_instances(self) -> int:
        """The most instances alive at a time."""
        while self.peaks:
            self.count_peak(self.peaks.pop()())
        return self.peak

    def count_peak(self, instances: int) -> None:
        """So many instances were alive at a time; the highest stays."""
        self.peak = max(self.peak, instances)

    def count(self, node: NodeCounts) -> None:
        """Add what happened at a node; runs over parts of a stream add up, and of peaks the highest stays."""
        key = node.pattern, node.clause, node.node
        before = self.counted.get(key)
        self.counted[key] = node if before is None else before.plus(node)

    def count_runs(self, pattern: str, runs: RunCounts) -> None:
        """Add what became of a pattern's runs."""
        self.runs[pattern] = self.runs.get(pattern, RunCounts()).plus(runs)

    def add(self, other: Counters) -> None:
        """Add what was counted over another part of the stream."""
        for node in other.nodes.values():
            self.count(node)
        for pattern, runs in other.runs.items():
            self.count_runs(pattern, runs)
        self.count_peak(other.peak_instances)  # found now, so that what it needs for that is let go of
        self.events_buffered = max(self.events_buffered, other.events_buffered)
        self.evaluations += other.condition_evaluations

    def metrics(self, mechanisms: Mapping[str, str]) -> Metrics:
        """What was counted, with the mechanism that ran each pattern."""
        return Metrics(
            dict(mechanisms),
            tuple(self.nodes.values()),
            self.peak_instances,
            self.events_buffered,
            self.condition_evaluations,
            dict(self.runs),
        )


@dataclass(frozen=True)
class Mechanism:
    """An evaluation mechanism: a way to find the matches of a pattern.

    Attributes
    ----------
    check
        Raises UnsupportedPattern where the mechanism does not run a pattern.
    find
        Finds the owned matches of a pattern over prepared events, by the orders or trees of a plan, block after block,
        and counts in `Counters` what it did. A match of one clause is found once. Raises PlanError for an order or a
        tree that it does not run. It takes a Pattern, Orders, PreparedEvents, Owned and Counters.
    count
        Counts all matches of a pattern without listing them; None where it cannot.
    find_many
        Finds the owned matches of several patterns of one stream over the same prepared events in one run, in which
        what their orders or trees have in common is done once (MCEP): pairs of a pattern's index among them and a
        block, in no order of the patterns. Of each pattern they are the matches that `find` finds of it alone. It takes
        the patterns, the Orders of each, PreparedEvents, Owned and Counters. None where patterns are run one by one.
    share
        Told, before patterns are run one by one, which ones will be, by which Orders, over the same PreparedEvents:
        what their plans have in common may then be kept for the next by the one that finds it. None: nothing is kept.
    always_shares
        Whether patterns are run together whatever the plan says; otherwise they are where the plan shares.
    in_pattern_order
        Whether it binds events in the pattern's order, and refuses plans of other orders.
    runs_trees
        Whether it runs tree plans; otherwise it refuses them.
    options
        The names of what can be asked of it beside the matches, which are the same with every option; `find` takes
        them as `options`.
    prunes
        Whether `find` takes the option `PRUNE`, too: asked for everything, it may then leave out matches of a pattern
        with OUTPUT NON_OVERLAP which that last step would drop, whatever was left out.
    in_order
        Whether it goes event by event, so that it finds the matches of patterns that allow it in the order of their
        last events (`in_order.comes_in_order`).
    """

    check: Callable[[Pattern], None]
    find: Callable[..., Iterable[Block]]
    count: Callable[[Pattern, Orders, PreparedEvents, Counters], int | None] = lambda *_: None
    find_many: Callable[..., Iterable[tuple[int, Block]]] | None = None
    share: Callable[[Sequence[Pattern], Sequence[Orders], PreparedEvents], None] | None = None
    always_shares: bool = False
    in_pattern_order: bool = False
    runs_trees: bool = False
    options: tuple[str, ...] = ()
    prunes: bool = False
    in_order: bool = False

    def with_options(self, options: Collection[str]) -> Mechanism:
        """The mechanism as it runs with some of its options."""
        if not options:
            return self
        wanted = frozenset(options)
        many = None if self.find_many is None else partial(self.find_many, options=wanted)
        return replace(self, find=partial(self.find, options=wanted), find_many=many)


def orders_only(mechanism: str, pattern: Pattern, orders: Orders) -> list[Sequence[str]]:
    """The orders of a plan, for a mechanism that runs no trees.

    Raises
    ------
    PlanError
        A clause is planned as a tree.
    """
    found: list[Sequence[str]] = []
    for clause, order in zip(pattern.clauses, orders, strict=True):
        if isinstance(order, Join):
            raise PlanError(
                f"pattern {pattern.name!r}: the plan joins clause {clause.index} by the tree {order}; {mechanism} runs "
                "orders only: use a planner that makes orders, or mechanism 'evaluation_tree'"
            )
        found.append(order)
    return found


def refuse_other_orders(mechanism: str, pattern: Pattern, clause: Clause, order: Sequence[str]) -> None:
    """Raise for a plan that is not in the pattern's order, where that is the only one in which events are bound.

    Raises
    ------
    PlanError
        The order is another one.
    """
    names = [variable.name for variable in clause.positive]
    if list(order) != names:
        binding = mechanism if pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH else pattern.strategy.value
        raise PlanError(
            f"pattern {pattern.name!r}: the plan orders {', '.join(order)}; {binding} binds events in the pattern's "
            f"order, {', '.join(names)}: use planner 'trivial'"
        )
