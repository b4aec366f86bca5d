"""The mechanisms of join networks: many patterns by one shared plan, or each clause of a pattern by its own plan.

A run is over one slice: events enter the nodes of its network, and the matches of each member leave its root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.clause_runs import ClauseSlice, find_by_clause
from cep_pipeline.detection.conditions.program import KERNEL_SOURCES, EventRows, FoundMatches, Program, StreamRules
from cep_pipeline.detection.conditions.writer import CommonTerms
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import (
    EVERYTHING,
    Counters,
    Mechanism,
    Orders,
    Owned,
    beyond_any_match,
    conjuncts_joining,
    orders_only,
    refuse,
    refuse_other_orders,
)
from cep_pipeline.detection.negated_structures import unrejected_by_structures
from cep_pipeline.detection.network import codes as c
from cep_pipeline.detection.network.memory import MOST_FOUND, Compiled, Memory, Output, held_after
from cep_pipeline.detection.network.network import MOST_VARIABLES, Automaton, Node, network_of
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.multi_pattern.members import Member, MemberId, members_of
from cep_pipeline.planning.trees import OrderOrTree, as_tree, leaves_of
from cep_pipeline.slices.blocks import Block, without_earlier
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.ownership import Finality, earliest_row, finality_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import leaf_view
from cep_pipeline.statistics.observed import NodeCounts

FIRST_FOUND, FIRST_FOUND_ALONE = 1 << 10, 1 << 16
"""Events of matches that there is room for at first: of one of many members, and of a single one."""

_run_network = NativeKernel(
    "cep_pipeline.detection.network.kernel",
    "run_network",
    ("int64*",),
    sources=(
        *KERNEL_SOURCES,
        *(f"cep_pipeline.detection.network.{module}" for module in ("codes", "stores")),
    ),
)


class Held:
    """The number of events and instances that networks hold together, at most after an event.

    Parameters
    ----------
    events
        Number of events of the slice.
    """

    def __init__(self, events: int) -> None:
        self.instances: Array = np.zeros(events, np.int64)
        self.buffered: Array = np.zeros(events, np.int64)

    def count(self, counters: Counters) -> None:
        """Count the most partial matches, and the most events outside of these."""
        counters.count_peak(int(self.instances.max(initial=0)))
        counters.events_buffered = max(counters.events_buffered, int(self.buffered.max(initial=0)))


class NetworkRun:
    """One run of members over a slice: iterate over it (or over `found`) once for its blocks of matches.

    Parameters
    ----------
    members, plans
        Clauses of patterns under skip_till_any_match, and the order or tree of each.
    sharing
        What of the plans is shared.
    events, owned
        The slice's own events with the look-back before them, and the slice `[start, end)`.
    with_negated
        Whether the events of negated variables count as buffered.
    finality
        When matches count as final, for the run of one member; None: when those of each member are.
    automaton
        As of `network.Network`.
    by_counter
        Whether a lazy tree binds the variable with the smallest counter next.
    held
        Where what is held is added by `count`, beside that of other runs.

    Raises
    ------
    PlanError
        An order or a tree does not fit its member, or is not run where plans are shared so.
    DataError
        While it is iterated over: a window has more instances than memory is there for.
    """

    def __init__(
        self,
        members: Sequence[Member],
        plans: Sequence[OrderOrTree],
        sharing: Sharing,
        events: PreparedEvents,
        owned: Owned,
        *,
        with_negated: bool,
        finality: Finality | None = None,
        automaton: Automaton = "",
        by_counter: bool = False,
        held: Held | None = None,
    ) -> None:
        self.held = held or Held(len(events))
        self.events, self.owned, self.finality = events, owned, finality
        self._with_negated, self._by_counter = with_negated, by_counter
        self.network = network_of(members, plans, sharing, events, automaton)
        self.members, self._groups = self.network.shared.members, self.network.groups
        self._compiled: dict[MemberId, Compiled] = {}
        self._common = CommonTerms(events, ())
        self._memory: Memory | None = None

    def prepare(self) -> None:
        """Do all that is done before the first event is read; iteration does, unless somebody has."""
        if self._memory is not None or not self.members:
            return
        _run_network.compile()
        compiled = self._compiled = self._compile()
        begin = min(earliest_row(member.pattern, self.events, self.owned) for member in self.members.values())
        leaves = {
            node.number: EventRows(self.events, *node.events[:3], begin, self.events.rows_in(self.owned)[1])
            for node in self.network.nodes
            if node.events is not None
        }
        self._memory = Memory(
            self.network, compiled, self._outputs(), leaves, self._common, self.events, by_counter=self._by_counter
        )

    def _outputs(self) -> dict[int, list[Output]]:
        """The outputs of each node.

        A binding that two clauses of a pattern match is final at the earlier of their points: the later one leaves it
        out, once both are known (`blocks.without_earlier`).
        """
        by_node: dict[int, list[Output]] = {}
        room = FIRST_FOUND if len(self.members) > 1 else FIRST_FOUND_ALONE
        for node in self.network.nodes:
            for name, slots in node.members:
                member = self.members[name]
                own = finality_of(member.pattern, member.clause) if self.finality is None else self.finality
                points: dict[MemberId | None, Finality] = {None: own}
                for other in self.members.values() if self.owned != EVERYTHING else ():
                    later = finality_of(other.pattern, other.clause)
                    same = other.pattern is member.pattern and other.clause.positive == member.clause.positive
                    if same and later > own:
                        points[other.id] = later
                for leaving, finality in points.items():
                    found = FoundMatches(member.pattern, member.clause, self.events, self.owned, finality, room)
                    first = self.events.rows_in(self.owned)[0] if finality is Finality.LAST_EVENT else 0
                    by_node.setdefault(node.number, []).append(Output(name, slots, first, found, leaving))
        return by_node

    def _compile(self) -> dict[MemberId, Compiled]:
        """The conditions and rules of all members over the events."""
        tested = [tested for groups in self._groups.values() for tested in groups.conditions.tested]
        self._common = CommonTerms(self.events, [atom for one in tested for atom in one.conjunct.atoms])
        compiled = {}
        for name, member in self.members.items():
            pattern, clause = member.pattern, member.clause
            program = Program(pattern, clause, self.events, self._common, self._groups[name])
            rules = StreamRules(pattern, clause, self.events, program)
            compiled[name] = Compiled(program, rules)
        return compiled

    def __iter__(self) -> Iterator[Block]:
        return (block for _, block in self.found())

    def found(self) -> Iterator[tuple[MemberId, Block]]:
        """The blocks of matches, each with its member."""
        self.prepare()
        memory = self._memory
        if memory is None:
            return
        left: dict[MemberId, list[Output]] = {}
        for output in memory.outputs:
            if output.leaving is not None:
                left.setdefault(output.leaving, []).append(output)
        while True:
            go_on()
            code = _run_network(memory.words)
            if code == c.FINISHED:
                break
            if code == c.FOUND_FULL:
                number = int(memory.registers[c.SHORT_OF])
                found = memory.outputs[number].found
                empty = not len(found)
                yield from self._drain(memory.outputs[number], left)
                if empty or found.capacity < MOST_FOUND:
                    found.grow()
                memory.point_to_output(number)
            if code == c.NEW_STATE:
                self.network.wait_for(self.network.nodes[memory.registers[c.SHORT_OF]], int(memory.registers[c.CHOSEN]))
                memory = self._memory = memory.with_new_nodes()
            memory.make_room(code)
        for output in memory.outputs:
            yield from self._drain(output, left)
        for own in memory.outputs:
            if own.leaving is None and own.member in left:
                earlier = [output.waiting for output in left[own.member]]
                yield from ((own.member, block) for block in without_earlier(own.waiting, earlier))

    def _drain(self, output: Output, left: Mapping[MemberId, Sequence[Output]]) -> Iterator[tuple[MemberId, Block]]:
        """The matches that an output has, but for those that wait for what others find."""
        block, member = output.found.drain(), self.members[output.member]
        if block is None:
            return
        found: Iterable[Block] = (block,)
        if self.finality is None:  # what one clause finds alone is looked at behind its run
            found = unrejected_by_structures(member.pattern, member.clause, self.events, found)
        if output.leaving is not None or output.member in left:
            output.waiting.extend(found)
        else:
            yield from ((output.member, one) for one in found)

    @property
    def work(self) -> tuple[int, int]:
        """Candidates that joins and lists have tested, and partial matches that they have made; none of them events."""
        counts = None if self._memory is None else self._memory.counts
        return (0, 0) if counts is None else (int(counts[:, c.CANDIDATES].sum()), int(counts[:, c.CREATED].sum()))

    # --- counts --------------------------------------------------------------------------------------------------

    def count(self, counters: Counters) -> None:
        """Add what has been counted, when the run is over: every node once, whoever uses it."""
        memory, held = self._memory, self.held
        if memory is None:
            return
        size = len(self.events)
        held.instances += np.cumsum(memory.held[:size], dtype=np.int64)
        for node in self.network.nodes[: len(memory.counts)]:  # another run may have added states since
            if node.events is not None:
                self._count_events(node, memory, counters, held)
            elif node.places and (self.network.choices is None or memory.counts[node.number, c.CANDIDATES]):
                counters.count(self._counts_of(node, memory))
        if any(member.clause.negated for member in self.members.values()):
            held.buffered += self._negated(counters)
        counters.condition_evaluations += int(self._common.counts[0])

    def _counts_of(self, node: Node, memory: Memory) -> NodeCounts:
        (pattern, clause, names), *others = node.places
        holding = node.number if node.lists < 0 else node.lists
        candidates, passes, _ = memory.counts[node.number].tolist()
        created = int(memory.counts[holding, c.CREATED])
        if self.network.is_instance_tree(node.member) and not self.network.nodes[holding].stored:
            created = 0  # a tree counts what it holds, and not what only the newest event is joined with
        tested = None
        if (
            node.kind == c.JOIN and node.sides and node.member is self.members[node.member.id]
        ):  # it is made in its member's order
            tested = conjuncts_joining(node.member.clause, node.slots[: node.sides], node.slots[node.sides :])
        elif node.kind == c.STATE:
            tested = self._tested_at(node)
        return NodeCounts(pattern, clause, names, candidates, passes, created, tested, tuple(dict.fromkeys(others)))

    def _tested_at(self, state: Node) -> tuple[Conjunct, ...] | None:
        """The conjuncts that all edges to a state of an eager automaton test; None where they test different ones."""
        into = [edge for leaf in self.network.event_nodes for edge in leaf.edges if edge.parent == state.number]
        tested = {
            conjuncts_joining(state.member.clause, self.network.nodes[edge.sibling].slots, (state.slots[edge.own],))
            for edge in into
            if edge.sibling >= 0
        }
        return tested.pop() if len(tested) == 1 else None

    def _count_events(self, node: Node, memory: Memory, counters: Counters, held: Held) -> None:
        """Count the events of a node: for each leaf of an instance tree that it is, or once for all that share it."""
        leaf = memory.leaves[node.number]
        counters.condition_evaluations += leaf.tested
        of_leaf = None
        if node.stored:
            of_leaf = held_after(leaf.by_key, self._compiled[node.window.id].rules.ceiling, len(self.events))
        read, made = (leaf.typed, len(leaf.rows)), len(leaf.by_key)
        if not self.network.is_instance_tree(node.member):
            if of_leaf is not None:
                total = held.instances if node.partial else held.buffered
                total += of_leaf
            if node.places:
                (pattern, clause, names), *others = node.places
                created = made if node.partial else 0
                shared = tuple(dict.fromkeys(others))
                counters.count(NodeCounts(pattern, clause, names, *read, created, shared_with=shared))
            return
        above = self.network.nodes
        holding = {above[edge.parent].slots[edge.own] for edge in node.edges if edge.holds}
        for pattern, clause, (name,) in node.places:
            holds = name in holding
            counters.count(NodeCounts(pattern, clause, (name,), *read, made if holds else 0))
            if holds and of_leaf is not None:
                held.instances += of_leaf

    def _negated(self, counters: Counters) -> Array:
        """int64: after each row the events that are held to reject matches, each for the longest window."""
        held = np.zeros(len(self.events), np.int64)
        windows: dict[tuple[EventType, frozenset[Conjunct]], Array] = {}
        for name, member in self.members.items():
            for variable in member.clause.negated:
                filters = self._groups[name].conditions.filters(variable.name)
                what = variable.event_type, frozenset(filters)
                rules = self._compiled[name].rules
                if what not in windows:
                    counters.condition_evaluations += len(filters) * len(self.events.leaf_rows(variable.event_type))
                windows[what] = np.maximum(windows.get(what, rules.ceiling), rules.ceiling)
        if self._with_negated:
            for (event_type, alone), ceiling in windows.items():
                rows = leaf_view(self.events, event_type, tuple(alone), 0, self.events.rows_in(self.owned)[1]).rows
                held += held_after(rows, ceiling, len(held))
        return held


# --- mechanisms -------------------------------------------------------------------------------------------------------


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
    for (name, _), block in run.found():
        yield numbers[name], block
    run.count(counters)
    run.held.count(counters)


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
    options: frozenset[str] = frozenset(),
) -> Iterator[Block]:
    """Find the owned matches of a pattern, each clause on a network of its own; see `Finder` (JQPG section 5.4).

    Parameters
    ----------
    mechanism, sharing
        The mechanism's name, and by what rule its plans could be shared: "prefix" runs orders, "subexpression" trees.
    automaton
        As of `network.Network`. Eager automata need the pattern's order; lazy ones find their own, whatever the plan.
    options
        With `smallest_counter` a lazy tree binds the variable with the fewest events in the input buffer next (DEBS'15,
        section 6), without it the one that is expected to cost least. With both, an instance waits for the variable
        that was chosen when it was made, where the paper chooses anew at each event; and the root changes only when
        that pays.

    Raises
    ------
    UnsupportedPattern
        The mechanism does not run the pattern.
    PlanError
        It does not run an order or a tree, or that is not of its clause.
    """
    refuse(mechanism, pattern, _beyond(automaton, pattern))
    members, held = members_of([pattern]), Held(len(events))
    if automaton == "lazy":
        orders = [tuple(variable.name for variable in clause.positive) for clause in pattern.clauses]
    plans = _runnable(mechanism, sharing, pattern, orders)

    def start(of: ClauseSlice, plan: OrderOrTree) -> NetworkRun:
        if automaton == "eager":
            refuse_other_orders(mechanism, pattern, of.clause, leaves_of(as_tree(plan)))
        return NetworkRun(
            [member for member in members if member.clause is of.clause],
            [plan],
            "none",
            of.events,
            of.owned,
            with_negated=sharing == "subexpression",
            finality=of.finality,
            automaton=automaton,
            by_counter=SMALLEST_COUNTER in options,
            held=held,
        )

    yield from find_by_clause(pattern, plans, events, owned, counters, start)
    held.count(counters)


def _runnable(mechanism: str, sharing: Sharing, pattern: Pattern, orders: Orders) -> list[OrderOrTree]:
    """The plans of a pattern as its network runs them: trees, or orders."""
    if sharing == "subexpression":
        return [as_tree(order) for order in orders]
    return list(orders_only(mechanism, pattern, orders))


def _beyond(automaton: Automaton, pattern: Pattern) -> str | None:
    """The first feature of a pattern that is not run alone, in words; None if it is run."""
    most = max(len(clause.positive) for clause in pattern.clauses)
    if automaton == "eager" and not before_is_earlier(pattern.ties):
        return beyond_any_match(pattern) or f"TIES {pattern.ties.value}"
    if automaton == "lazy" and most > MOST_VARIABLES:
        return beyond_any_match(pattern) or f"a clause of {most} variables (at most {MOST_VARIABLES})"
    return beyond_any_match(pattern)


def _of_one(name: str, sharing: Sharing, automaton: Automaton = "", **rest: Any) -> Mechanism:
    """A mechanism that runs one pattern after another, each clause on a join network of its own."""
    find, beyond = partial(find_alone, name, sharing, automaton=automaton), partial(_beyond, automaton)
    trees = sharing == "subexpression"
    return Mechanism(name, find, unsupported_feature=beyond, runs_trees=trees, **rest)


def _of_many(name: str, sharing: Sharing) -> Mechanism:
    """A mechanism that runs many patterns together on one join network, and one pattern as the only one."""
    find_many = partial(find_together, name, sharing)

    def find(
        pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
    ) -> Iterator[Block]:
        for _, block in find_many([pattern], [orders], events, owned, counters):
            yield block

    runs_trees = sharing == "subexpression"
    return Mechanism(name, find, find_many=find_many, always_shares=True, runs_trees=runs_trees)


SMALLEST_COUNTER = "smallest_counter"
"""The option by which a lazy tree chooses as in the paper."""
LAZY_TREE_NFA = _of_one("lazy_tree_nfa", "prefix", "lazy", options=(SMALLEST_COUNTER,))
EAGER_NFA = _of_one("eager_nfa", "prefix", "eager", in_pattern_order=True)
LAZY_CHAIN_NFA = _of_one("lazy_chain_nfa", "prefix")
EVALUATION_TREE = _of_one("evaluation_tree", "subexpression")
MULTI_PATTERN_NFA = _of_many("multi_pattern_nfa", "prefix")
MULTITREE = _of_many("multitree", "subexpression")
