"""The evaluation mechanisms: their registry, the record and functions of each, and the counters they fill.

`MECHANISMS` says where the record of each mechanism is; `Mechanism` is the record; `Finder`, `MatchCounter` and
`ManyFinder` are the functions in it. They work on the events of a slice (`PreparedEvents`), by the
orders or trees of a plan (`Orders`), find the matches that the slice owns (`Owned`), and count in `Counters`.

What a pattern asks for is a *sink*. Its *executor* follows from the pattern, as long as there are many matches
(`outputs.route_of`); where the events say that finding them takes less time, they are found (`costs`). Executors note
in `Counters.routes` which way they went: `explain` prints it and runs keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from importlib import import_module

from cep_pipeline.errors import InputError, PlanError, UnsupportedPattern
from cep_pipeline.patterns.composing import plain_pattern
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, once_a_set
from cep_pipeline.planning.trees import Join, OrderOrTree
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
from cep_pipeline.statistics.observed import NodeCounts

Owned = tuple[Boundary | None, Boundary | None]
"""`[start, end)`: the matches that become final between these points are wanted; None is an open end.

When a match is final says `ownership.finality_of`: mostly at its last event; with a negated variable that nothing comes
after, at `(first timestamp + W, +inf)` or, with a count window, at the event n - 1 positions behind the first one, so
that the slice that contains that point owns it and has seen all that could reject it: `ownership.owned_matches` tells
which do. A start of None owns what was final before, too. An end of None means that the stream has ended: all that is
not final by then is final at the end. A binding that several clauses match is final at the earliest of their points,
and found by the slice that contains it only.

What a slice reads are the events from `ownership.look_back` before its start up to its end, and none behind it.
"""
EVERYTHING: Owned = (None, None)
PRUNE = "prune"
"""The option by which a mechanism that `prunes` leaves out matches that OUTPUT NON_OVERLAP would not keep."""
Orders = Sequence[OrderOrTree]
"""The order of the positive variables by the plan, or the plan's tree over them, for each clause of a pattern."""


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
    """Numbers of the runs of an automaton (SIGMOD'08 section 6).

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
        """The sum with the numbers of another part of the stream, or of another clause."""
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
    """The work that detection did, by the measures of the papers.

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
        Pattern name -> the numbers of its runs, if an automaton with a match buffer ran it.
    routes
        Pattern name -> the ways that detection went for it, one for each sink and executor.
    """

    mechanisms: dict[str, str]
    nodes: tuple[NodeCounts, ...] = ()
    peak_instances: int = 0
    events_buffered: int = 0
    condition_evaluations: int = 0
    runs: dict[str, RunCounts] = field(default_factory=dict)
    routes: dict[str, tuple[Route, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"<Metrics of {len(self.mechanisms):,} patterns by {', '.join(dict.fromkeys(self.mechanisms.values()))}: "
            f"{self.condition_evaluations:,} condition evaluations, at most {self.peak_instances:,} partial matches>"
        )


@dataclass
class Counters:
    """The numbers that a mechanism fills in while it works; the public result is `Metrics`.

    Attributes
    ----------
    nodes
        The counts of each node, by pattern, clause and variables.
    peak_instances
        The most instances alive at a time.
    condition_evaluations
        Tests of one conjunct on one tuple.
    routes
        The ways that detection went for each pattern.
    wanted
        Whether anybody reads the numbers of nodes. If not, matches may be counted in ways that have none.
    """

    nodes: dict[tuple[str, int, tuple[str, ...]], NodeCounts] = field(default_factory=dict)
    peak_instances: int = 0
    events_buffered: int = 0
    condition_evaluations: int = 0
    runs: dict[str, RunCounts] = field(default_factory=dict)
    routes: dict[str, tuple[Route, ...]] = field(default_factory=dict)
    wanted: bool = True

    def anew(self) -> Counters:
        """Counters without counts, of which the same is read."""
        return Counters(wanted=self.wanted)

    def count_peak(self, instances: int) -> None:
        """Note how many instances were alive at a time; the highest number stays."""
        self.peak_instances = max(self.peak_instances, instances)

    def count(self, node: NodeCounts) -> None:
        """Add the counts of a node; runs over parts of a stream add up."""
        key = node.pattern, node.clause, node.node
        before = self.nodes.get(key)
        self.nodes[key] = node if before is None else before.plus(node)

    def count_runs(self, pattern: str, runs: RunCounts) -> None:
        """Add the numbers of a pattern's runs."""
        self.runs[pattern] = self.runs.get(pattern, RunCounts()).plus(runs)

    def went(self, pattern: str, *routes: Route) -> None:
        """Note the routes that were taken for a pattern; what was gone for the same reason before is there once."""
        self.routes[pattern] = tuple(dict.fromkeys((*self.routes.get(pattern, ()), *routes)))

    def add(self, other: Counters) -> None:
        """Add the counts of another part of the stream."""
        for pattern, routes in other.routes.items():
            self.went(pattern, *routes)
        for node in other.nodes.values():
            self.count(node)
        for pattern, runs in other.runs.items():
            self.count_runs(pattern, runs)
        self.count_peak(other.peak_instances)
        self.events_buffered = max(self.events_buffered, other.events_buffered)
        self.condition_evaluations += other.condition_evaluations

    def metrics(self, mechanisms: Mapping[str, str]) -> Metrics:
        """The counts as the public result, with the mechanism that ran each pattern."""
        return Metrics(
            dict(mechanisms),
            tuple(self.nodes.values()),
            self.peak_instances,
            self.events_buffered,
            self.condition_evaluations,
            dict(self.runs),
            dict(self.routes),
        )


Finder = Callable[[Pattern, Orders, PreparedEvents, Owned, Counters], Iterable[Block]]
"""Finds the matches of one pattern over one slice, block after block, and counts what was done for them.

It is given the order or the tree of each clause, from a plan; the events of the slice and of the look-back before it;
and the points between which a match must become final. A match of one clause is found once. It raises
`UnsupportedPattern` where the mechanism does not run the pattern, and `PlanError` where it does not run an order or a
tree.
"""
MatchCounter = Callable[[Pattern, Orders, PreparedEvents, Counters], int | None]
"""Counts the matches of one pattern over all events without listing them; None where that needs the matches."""
ManyFinder = Callable[
    [Sequence[Pattern], Sequence[Orders], PreparedEvents, Owned, Counters], Iterable[tuple[int, Block]]
]
"""Finds the matches of several patterns of one stream in one run over one slice (MCEP), and does once what their orders
or trees have in common: a pattern's place and some of its matches, in no order of the patterns. A pattern has the same
matches as `Finder` finds of it alone."""


def beyond_any_match(pattern: Pattern) -> str | None:
    """The strategy of a pattern in words, if it is another one than skip_till_any_match; otherwise None."""
    if pattern.strategy.forks:
        return None
    return f"the strategy {pattern.strategy.value}"


def refuse(mechanism: str, pattern: Pattern, feature: str | None) -> None:
    """Raise if a pattern has a feature that a mechanism does not run; None means that it has none.

    Raises
    ------
    UnsupportedPattern
        The message names the mechanism, the pattern and the feature.
    """
    if feature is not None:
        raise UnsupportedPattern(mechanism, feature, pattern=pattern.name)


@dataclass(frozen=True)
class Mechanism:
    """The record of an evaluation mechanism: its functions, and flags that say what it can do.

    Planning, explaining and distributing work look at the flags only, never at the name.

    Attributes
    ----------
    name
        The public name, as `mechanism="fused"` gives it.
    find, count, find_many
        The functions; see `Finder`, `MatchCounter` and `ManyFinder`. Without a `count` of its own the
        blocks of `find` are counted; without `find_many` patterns are run one by one.
    unsupported_feature
        Returns the first feature of a pattern that the mechanism does not run, in words, or None. The default is that
        of a mechanism that runs the whole language under skip_till_any_match and no other strategy.
    describe
        Describes how the mechanism reads a pattern; `cep plan` prints it. None: the plan says it all.
    always_shares
        It runs patterns together whatever the plan says; otherwise only if the plan shares.
    in_pattern_order
        It binds events in the pattern's order only and refuses plans of other orders.
    runs_trees
        It runs tree plans; otherwise it refuses them.
    is_columnar
        Its loops are compiled for the shape of a plan and go over sorted columns without storing partial matches, so
        that the cost model `kernel` describes it, and its code can be compiled before tasks start.
    options
        The names of options that change its costs and never the matches; `find` takes them as `options`.
    prunes
        `find` knows the option `PRUNE`, too: asked for everything, it may then leave out matches of a pattern with
        OUTPUT NON_OVERLAP which that last step would drop, whatever was left out.
    """

    name: str
    find: Finder
    count: MatchCounter = lambda *_: None
    find_many: ManyFinder | None = None
    unsupported_feature: Callable[[Pattern], str | None] = beyond_any_match
    describe: Callable[[Pattern], str] | None = None
    always_shares: bool = False
    in_pattern_order: bool = False
    runs_trees: bool = False
    is_columnar: bool = False
    options: tuple[str, ...] = ()
    prunes: bool = False

    def check(self, pattern: Pattern) -> None:
        """Raise UnsupportedPattern if the mechanism does not run a pattern."""
        refuse(self.name, pattern, self.unsupported_feature(pattern))

    def with_options(self, options: Collection[str]) -> Mechanism:
        """The mechanism with some of its options set."""
        if not options:
            return self
        wanted = frozenset(options)
        find: Callable[..., Iterable[Block]] = self.find
        many: Callable[..., Iterable[tuple[int, Block]]] | None = self.find_many
        return replace(
            self,
            find=partial(find, options=wanted),
            find_many=None if many is None else partial(many, options=wanted),
        )


class Mechanisms(Mapping[str, Mechanism]):
    """Mechanisms by name, each loaded when it is first asked for; their names are known without loading any.

    Parameters
    ----------
    places
        Name -> the place of the record, as `module:attribute`, or the record itself.
    """

    def __init__(self, places: Mapping[str, str | Mechanism]) -> None:
        self.places = dict(places)

    def __getitem__(self, name: str) -> Mechanism:
        place = self.places[name]
        if isinstance(place, str):
            module, _, attribute = place.partition(":")
            place = self.places[name] = getattr(import_module(module), attribute)
            assert isinstance(place, Mechanism) and place.name == name, f"{name} is not the mechanism of its place"
        return place

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


_PACKAGE = "cep_pipeline.detection"
MECHANISMS = Mechanisms(
    {
        "fused": f"{_PACKAGE}.fused.mechanism:MECHANISM",
        "lazy_chain_nfa": f"{_PACKAGE}.network.run:LAZY_CHAIN_NFA",
        "lazy_tree_nfa": f"{_PACKAGE}.network.run:LAZY_TREE_NFA",
        "evaluation_tree": f"{_PACKAGE}.network.run:EVALUATION_TREE",
        "eager_nfa": f"{_PACKAGE}.network.run:EAGER_NFA",
        "nfab": f"{_PACKAGE}.nfab.mechanism:MECHANISM",
        "multi_pattern_nfa": f"{_PACKAGE}.network.run:MULTI_PATTERN_NFA",
        "multitree": f"{_PACKAGE}.network.run:MULTITREE",
    }
)
"""The evaluation mechanisms by name, from fast to slow; those that are only for many patterns at once come last.

A new mechanism is a package with a `Mechanism` record, and a line here. `choose_mechanisms` takes the first one
that runs a pattern.
"""


def choose_mechanisms(patterns: Sequence[Pattern], mechanism: str | None = None) -> Mapping[str, str]:
    """The mechanism that runs each pattern, by the pattern's name: the one asked for, or the fastest that can.

    Raises
    ------
    InputError
        There is no such mechanism, or two patterns have one name.
    UnsupportedPattern
        The mechanism does not run a pattern; without one asked for: none does.
    """
    if mechanism is not None and mechanism not in MECHANISMS:
        raise InputError(f"there is no mechanism {mechanism!r}; there are: {', '.join(MECHANISMS)}")
    return _chosen(patterns, mechanism, *MECHANISMS.places.values())


@once_a_set
def _chosen(patterns: Sequence[Pattern], mechanism: str | None, *_: object) -> Mapping[str, str]:
    """The mechanism of each pattern, of those that there are."""
    chosen: dict[str, str] = {}
    for pattern in patterns:
        if pattern.name in chosen:
            raise InputError(f"two patterns are named {pattern.name!r}; the tables are told apart by name: rename one")
        run = plain_pattern(pattern)
        chosen[pattern.name] = mechanism if mechanism is not None else _fastest(run)
        MECHANISMS[chosen[pattern.name]].check(run)
    return chosen


def _fastest(pattern: Pattern) -> str:
    """The first of `MECHANISMS`, which go from fast to slow, that runs the pattern (the first of all if none does)."""
    for name in MECHANISMS:
        try:
            MECHANISMS[name].check(pattern)
        except UnsupportedPattern:
            continue
        return name
    return next(iter(MECHANISMS))


def check_options(chosen: Mapping[str, str], options: Sequence[str]) -> None:
    """Refuse options that the chosen mechanisms do not have: an InputError."""
    for option in options:
        for name in chosen.values():
            known = MECHANISMS[name].options
            if option not in known:
                others = f"; it knows {', '.join(known)}" if known else ""
                raise InputError(f"mechanism {name} has no option {option!r}{others}")


def in_pattern_order(chosen: Mapping[str, str]) -> set[str]:
    """The patterns whose mechanism, of those chosen, runs plans in the pattern's order only."""
    return {pattern for pattern, mechanism in chosen.items() if MECHANISMS[mechanism].in_pattern_order}


def orders_only(mechanism: str, pattern: Pattern, orders: Orders) -> list[Sequence[str]]:
    """Return the orders of a plan, for a mechanism that runs no trees.

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
        binding = mechanism if pattern.strategy.forks else pattern.strategy.value
        raise PlanError(
            f"pattern {pattern.name!r}: the plan orders {', '.join(order)}; {binding} binds events in the pattern's "
            f"order, {', '.join(names)}: use planner 'trivial'"
        )


class Sink(Enum):
    """The result that is asked of the matches of a pattern."""

    LIST = "listed"
    COUNT = "counted"
    COMPRESS = "compressed"
    SUMMARIZE = "summarized"


class Executor(Enum):
    """The part of detection that makes this result (docs/mechanisms.md)."""

    MECHANISM = "finding each match"
    SWEEP = "a semiring sweep over the events"
    PARTS = "finding single events, and counting the lists beside them"
    GRAPH = "a factorised graph"


@dataclass(frozen=True)
class Route:
    """One sink of a pattern, its executor, and the reason for it in words; "" where no other one would be better.

    Examples
    --------
    >>> print(Route(Sink.COUNT, Executor.MECHANISM, "finding 60 candidates takes less time than a sweep"))
    counted by finding each match: finding 60 candidates takes less time than a sweep
    """

    sink: Sink
    executor: Executor
    because: str = ""

    @property
    def lists(self) -> bool:
        """True where each match is found."""
        return self.executor is Executor.MECHANISM

    def __str__(self) -> str:
        return f"{self.sink.value} by {self.executor.value}{self.because and ': '}{self.because}"


def by_route(routes: Mapping[str, tuple[Route, ...]]) -> dict[str, tuple[str, ...]]:
    """Routes of patterns, by the pattern's name, as each route in words with the names of its patterns."""
    found: dict[str, list[str]] = {}
    for name, taken in routes.items():
        for route in taken:
            found.setdefault(str(route), []).append(name)
    return {said: tuple(names) for said, names in found.items()}


CHOSEN_AMONG = "OUTPUT and CONSUME choose among them"
NOT_SWEPT = "no sweep tests its conditions"
LISTS_LATER = "there are more than are listed at once"
NODES_ASKED = "the work at each node is asked for"
LISTED_SOONER = "finding the matches takes less time here"
"""Reasons that several executors give."""
