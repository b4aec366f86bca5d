"""The events that a network reads, the arrays that its kernel works in, and their growth between its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from cep_pipeline.detection.conditions.codes import CODE_WORDS, FOUND_WORDS, RING_WORDS, RULES_WORDS
from cep_pipeline.detection.conditions.program import CellRing, EventRows, FoundMatches, Program, StreamRules
from cep_pipeline.detection.conditions.writer import CommonTerms
from cep_pipeline.detection.limits import ask_for
from cep_pipeline.detection.network import codes as c
from cep_pipeline.detection.network.network import Network, Node
from cep_pipeline.errors import DataError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.structure import types_of
from cep_pipeline.planning.multi_pattern.members import MemberId
from cep_pipeline.planning.trees import Join
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.prepared import PreparedEvents

_OF_NODES, _OF_ROWS = (13, 14, 19, 29, 32, 34), (0, 23, 35)
"""Places of the kernel's arrays in `Memory._all_arrays` that have an entry of each node, each key of a node or each
share, and of those that are the same however many nodes there are."""
ROOM = 1 << 8
"""Instances that each store has room for at first."""
MOST_WORDS = 1 << 31
"""Words of the instances of one node: 8 GB."""
MOST_FOUND = 1 << 18
"""Events of matches of one member that are held before they are taken away, unless one event makes more."""


@dataclass(frozen=True, eq=False)
class Output:
    """The place for the matches of a member.

    Attributes
    ----------
    member, slots
        The member, and its variable in each slot of its root.
    first_row
        The row from which on the last event of a match lies.
    leaving, waiting
        The member that leaves these matches out (None: they are put out), and those that wait for what others find.
    """

    member: MemberId
    slots: tuple[str, ...]
    first_row: int
    found: FoundMatches
    leaving: MemberId | None = None
    waiting: list[Block] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A member over the events of a slice: its conditions and rules."""

    program: Program
    rules: StreamRules


def held_after(rows: Array, ceiling: Array, size: int) -> Array:
    """int32, shape (size,): how many of the events at some rows are held after each row, each until its window ends."""
    change = np.bincount(rows, minlength=size + 1) - np.bincount(ceiling[rows] + np.int32(1), minlength=size + 1)
    return np.cumsum(change[:size], dtype=np.int32)


def steps_of(leaves: Sequence[tuple[int, EventRows]]) -> tuple[Array, Array, Array]:
    """The rows at which events come, int32; where the nodes of each begin, int64; and these nodes, int32."""
    rows = np.concatenate([np.zeros(0, np.int32), *(leaf.rows for _, leaf in leaves)])
    nodes = np.repeat(
        np.array([node for node, _ in leaves], np.int32), np.array([len(leaf.rows) for _, leaf in leaves], np.int64)
    )
    if len(leaves) == 1:
        return rows.astype(np.int32, copy=False), np.arange(len(rows) + 1), nodes
    order = np.argsort(rows, kind="stable")
    rows, nodes = rows[order], nodes[order]
    starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1]))) if len(rows) else np.zeros(0, np.int64)
    return rows[starts].astype(np.int32), np.append(starts, len(rows)).astype(np.int64), nodes.astype(np.int32)


class Memory:
    """All that the kernel reads and writes for a network over one slice.

    Parameters
    ----------
    network, members
        The nodes, and of each member what is compiled.
    outputs
        Of each node by number.
    leaves
        Of each node of events its rows.
    common
        What the members' conditions have in common.
    by_counter
        Whether a lazy tree chooses by the smallest counter.
    before
        The memory of the same network before it got its newest nodes: what is held there is held here.
    """

    def __init__(
        self,
        network: Network,
        members: Mapping[MemberId, Compiled],
        outputs: Mapping[int, Sequence[Output]],
        leaves: Mapping[int, EventRows],
        common: CommonTerms,
        events: PreparedEvents,
        before: Memory | None = None,
        *,
        by_counter: bool = False,
    ) -> None:
        self.network, self.leaves, self.common = network, leaves, common
        self.outputs = [output for node in network.nodes for output in outputs.get(node.number, ())]
        self._members, self._events, self._by_node = members, events, outputs
        nodes = len(network.nodes)
        self._widest = max(len(member.program.variables) for member in members.values()) + 1
        self._steps: tuple[Array, ...] = steps_of(list(leaves.items())) if before is None else before._steps
        self.registers = np.zeros(c.REGISTERS, np.int64)
        self._event_types = sorted(
            {variable.event_type for node in network.nodes for variable in node.listed}, key=types_of
        )
        self.ring = CellRing(common.accumulators, self._event_types)
        self._places: list[int] = []
        self._masks: list[Array] = []
        self._choices: list[int] = []
        self._ascent_starts: list[int] = []
        self._ascents: list[int] = []
        self._edges: list[int] = []
        self._outputs: list[int] = []
        self._heads = 0
        self._code_at, self._rules_at, blocks, begin = self._blocks()
        self._own_rules: list[int] = []
        self._own_rules_at = begin
        self._nodes = np.array([self._node(node, outputs.get(node.number, ())) for node in network.nodes], np.int64)
        self._found_at = begin + len(self._own_rules)
        for number in range(len(self.outputs)):
            self._outputs[number * c.OUTPUT_WORDS + c.O_FOUND] = self._found_at + number * FOUND_WORDS
        self._stores = [
            np.empty(0 if node.kind == c.EVENTS else ROOM * (c.SLOTS + len(node.slots)), np.int32)
            for node in network.nodes
        ]
        self._store_addresses = np.array([int(store.ctypes.data) for store in self._stores], np.int64)
        self._rooms = np.full(nodes, ROOM, np.int64)
        self.counts = np.zeros((nodes, c.COUNTS), np.int64)
        self.held = np.zeros(len(events) + 2, np.int32)
        self._arrays = self._all_arrays(nodes)
        r = self.registers
        r[c.STEPS], r[c.NODES] = len(self._steps[0]), nodes
        r[c.LISTING], r[c.ROOT] = bool(self._event_types), c.ANY
        if network.choices is not None:
            r[c.VARIABLES] = variables = len(next(iter(members.values())).program.clause.positive)
            r[c.ROOT], r[c.BY_COUNTER] = c.NO_ROOT if variables > 1 else 0, by_counter
            r[c.KEYS] = next(iter(leaves.values())).different
        if before is not None:
            self._take_over(before)
        self.words = np.array(
            [
                *(int(array.ctypes.data) for array in self._arrays),
                *self.ring.kernel_words(),
                *blocks,
                *self._own_rules,
                *(word for output in self.outputs for word in output.found.kernel_words()),
            ],
            np.int64,
        )
        assert len(self._arrays) == c.MACHINE_WORDS

    def with_new_nodes(self) -> Memory:
        """The memory of the network with the nodes that it has got since."""
        return Memory(self.network, self._members, self._by_node, self.leaves, self.common, self._events, self)

    def _take_over(self, before: Memory) -> None:
        """Hold what another memory holds."""
        own, held, nodes = self._arrays, before._arrays, len(before._stores)
        before.registers[c.NODES] = self.registers[c.NODES]
        self.registers, self.ring, self.held = before.registers, before.ring, before.held
        self._stores[:nodes] = before._stores
        self._store_addresses[:nodes], self._rooms[:nodes] = before._store_addresses, before._rooms
        self.counts[:nodes] = before.counts
        for place in _OF_NODES:
            own[place][: len(held[place])] = held[place]
        for place in _OF_ROWS:
            own[place] = held[place]

    def _all_arrays(self, nodes: int) -> list[Array]:
        outputs = len(self.outputs)
        # Of each row: where the largest window of a node's users ends that begins with it.
        longest = [self._members[one.window.id].rules.ceiling for one in self.network.nodes if one.listed]
        return [
            *(self.registers, self._nodes, _whole(self._edges), _whole(self._outputs)),
            *(np.array([*self._places, 0], np.int32), np.concatenate((*self._masks, np.zeros(1, np.uint8)))),
            *(_whole(self._ascent_starts), _whole(self._ascents)),
            *self._steps,
            *(self._store_addresses, self._rooms, np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)),
            *(self.counts, np.zeros((nodes, c.COUNTS), np.int64), np.zeros(nodes, np.int64)),
            *(np.zeros(nodes + 1, np.int32), np.full(self._heads + 1, -1, np.int32)),
            *(np.zeros((nodes + 2) * c.FRAME_WORDS, np.int64),),
            *(np.full(self._widest, -1, np.int32), np.full(self._widest, -1, np.int32)),
            self.held,
            *(np.zeros(2 * outputs + 1, np.int64), np.zeros(outputs + 1, np.int64), np.zeros(outputs + 1, np.int32)),
            self.common.counts,
            reduce(np.maximum, longest) if longest else np.zeros(1, np.int32),
            *(np.zeros(nodes, np.int64), _whole(self._choices), *self._array_of_choices(nodes)),
        ]

    def _array_of_choices(self, nodes: int) -> tuple[Array, ...]:
        """The knowledge of a lazy tree: shares of pairs, all shares, the nodes of events, counters and expectations."""
        network = self.network
        if network.choices is None:
            return (np.zeros(1, np.int64),) * 4 + (np.zeros(1),)
        [member] = network.shared.members.values()
        events = [network.event_node(member, variable.name).number for variable in member.clause.positive]
        shares = np.zeros((len(network.choices), c.SHARE_WORDS), np.int64)
        counters = shares.ravel(), np.array(events, np.int64), np.zeros(nodes, np.int64)
        return (np.array(network.choices.pairs, np.int64), *counters, np.zeros(len(events) + 1))

    # --- words ---------------------------------------------------------------------------------------------------

    def _blocks(self) -> tuple[dict[MemberId, int], dict[MemberId, int], list[int], int]:
        """The words of all members' conditions and rules, where those of each are, and where they end."""
        words: list[int] = []
        code_at, rules_at = {}, {}
        begin = c.MACHINE_WORDS + RING_WORDS
        for name, member in self._members.items():
            rules_at[name] = begin + len(words)
            words += member.rules.kernel_words(self.network.rejecting_last(name))
            code_at[name] = begin + len(words)
            words += member.program.kernel_words()
        assert len(words) == len(self._members) * (CODE_WORDS + RULES_WORDS)
        self._rule_words = {name: words[at - begin : at - begin + RULES_WORDS] for name, at in rules_at.items()}
        return code_at, rules_at, words, begin + len(words)

    def _node(self, node: Node, outputs: Sequence[Output]) -> list[int]:
        member = self._members[node.member.id]
        words = [0] * c.NODE_WORDS
        words[c.N_KIND], words[c.N_WIDTH] = node.kind, len(node.slots)
        slots = [member.program.slots[name] for name in node.slots]
        words[c.N_PLACES] = len(self._places)
        self._places += slots
        words[c.N_CODE] = self._code_at[node.member.id]
        words[c.N_RULES] = self._own_rules_at + len(self._own_rules)
        # The rules of its first user, in the largest window of all.
        window = self._rule_words[node.window.id]
        rules = self._rule_words[node.member.id]
        if node.negated:
            rules = member.rules.kernel_words(node.negated, node.slots)
            words[c.N_REJECTS] = 1
        self._own_rules += [*window[:2], *rules[2:]]
        words[c.N_CEILING] = window[1]
        words[c.N_GROUP], words[c.N_BEGINS], words[c.N_GROWS] = node.complete, node.begins, node.grows
        words[c.N_LISTS] = node.lists
        words[c.N_STORED], words[c.N_HEADS] = node.stored, -1
        words[c.N_FINAL] = node.number if node.final < 0 else node.final
        words[c.N_CHOICES] = len(self._choices) if node.choices else -1
        self._choices += node.choices
        words[c.N_SHARE], words[c.N_OPEN] = node.share, node.open
        if node.kind == c.LISTS:
            words[c.N_MASKS] = sum(map(len, self._masks))
            mask = np.zeros((2, len(member.program.variables)), np.uint8)
            mask[0, slots[:-1]] = 1
            mask[1, slots] = 1
            self._masks.append(mask.ravel())
        words[c.N_EDGES] = len(self._edges) // c.EDGE_WORDS
        for edge in node.edges:
            # Nothing that is new below can be joined with something that came before: it never comes last.
            if node.kind == c.EVENTS and edge.sibling >= 0 and not any(words[0] for words in edge.ascents):
                continue
            ascents = len(self._ascent_starts)
            for ascent in edge.ascents:
                self._ascent_starts.append(len(self._ascents))
                self._ascents += ascent
            parent, place = self.network.nodes[edge.parent], -1
            if edge.bound is not None:
                slots_of = self._members[parent.member.id].program.slots
                place = sum(map(len, self._masks))
                self._masks.append(np.zeros(len(slots_of), np.uint8))
                self._masks[-1][[slots_of[name] for name in edge.bound]] = 1
            group = parent.complete if edge.group < 0 else edge.group
            self._edges += [edge.parent, edge.role, edge.sibling, edge.own, edge.other, ascents, group, place]
        words[c.N_EDGES_END] = len(self._edges) // c.EDGE_WORDS
        words[c.N_OUTPUTS] = len(self._outputs) // c.OUTPUT_WORDS
        for output in outputs:
            places = [self._members[output.member].program.slots[name] for name in output.slots]
            at = words[c.N_PLACES] if places == slots else len(self._places)
            self._places += places
            code, rules_at = self._code_at[output.member], self._rules_at[output.member]
            self._outputs += [0, code, rules_at, at, output.first_row]
        words[c.N_OUTPUTS_END] = len(self._outputs) // c.OUTPUT_WORDS
        if node.kind in (c.JOIN, c.IN_ORDER) and not node.edges:
            words[c.N_FROM] = min((output.first_row for output in outputs), default=0)
        if node.kind == c.EVENTS:
            leaf = self.leaves[node.number]
            words[c.N_KEYS] = 0 if leaf.keys is None else int(leaf.keys.ctypes.data)
            words[c.N_ROWS], words[c.N_STARTS] = int(leaf.by_key.ctypes.data), int(leaf.starts.ctypes.data)
            words[c.N_READ] = int(leaf.read.ctypes.data)
            if node.last.event_type in self._event_types:
                words[c.N_EVENT_TYPE] = self._event_types.index(node.last.event_type)
        elif node.agree_on and node.stored:
            words[c.N_HEADS] = self._heads
            self._heads += max(agreement_codes(self._events, node.agree_on)[1], 1)
        return words

    # --- growth --------------------------------------------------------------------------------------------------

    def make_room(self, code: int) -> None:
        """Make room for what the kernel had none for, but for matches."""
        if code == c.STORE_FULL:
            self._enlarge(int(self.registers[c.SHORT_OF]))
        elif code == c.CELLS_FULL:
            self.ring.grow()
            self.words[c.MACHINE_WORDS : c.MACHINE_WORDS + RING_WORDS] = self.ring.kernel_words()

    def point_to_output(self, number: int) -> None:
        """Say where the matches of an output go from now on."""
        at = self._found_at + number * FOUND_WORDS
        self.words[at : at + FOUND_WORDS] = self.outputs[number].found.kernel_words()

    def _enlarge(self, node: int) -> None:
        before, holder = self._stores[node], _holder(self.network)
        if 2 * len(before) > MOST_WORDS:
            raise DataError(
                f"{holder} holds more than {self._rooms[node]:,} instances within a window: shorten the window, add "
                "conditions, or use mechanism 'fused', which stores none of single events"
            )
        ask_for(2 * before.nbytes, f"{holder} holds {self._rooms[node]:,} instances within a window")
        self._stores[node] = np.concatenate((before, np.empty_like(before)))
        self._store_addresses[node] = int(self._stores[node].ctypes.data)
        self._rooms[node] *= 2


def _holder(network: Network) -> str:
    """A node in the words of the mechanism that it is of."""
    if any(node.kind == c.STATE for node in network.nodes):
        return "a state of the eager automaton"
    plan, *others = network.shared.plans.values()
    if others or network.shared.sharing != "none":
        return "a node of the shared plan"
    return "a node of the tree" if isinstance(plan, Join | str) else "a state of the lazy automaton"


def _whole(numbers: Sequence[int]) -> Array:
    return np.array([*numbers, 0], np.int64)
