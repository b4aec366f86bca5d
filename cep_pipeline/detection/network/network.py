"""A network made of a shared plan: nodes of events, lists and joins, and the edges along which events go up.

Every node of the shared plan becomes one node, whoever uses it, written in the variables of its first user (the *model*
of `SharedNode`): those of another user stand in the same slots. Beside these there are nodes of events, one for all
that read the same, from which lists are made and orders go on. They are the input buffer of the automaton.

Where one side of a tree's join is a Kleene variable, lists are made for the partial matches of the other side, as in an
order that binds the variable next. All lists of a window, exponentially many, are made only where it takes them: for a
root, the beginning of an order, and one of two such sides.

A tree in a plan that shares nothing is the instance-based tree of JQPG section 2.3. The leaf of a Kleene variable
makes all lists (the power set of section 5.2), and a negated variable is asked for at the lowest node that has all that
its events are compared with (section 5.3). Where the window of the whole match decides, that is the root. Leaves that
read the same events are one node, but each of them counts what it holds.

Networks are kept: a plan is run over slice after slice, and its network has no part in the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from threading import get_ident
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from cep_pipeline.detection.conditions.groups import ClauseConditions, ConditionGroups, Moment
from cep_pipeline.detection.network import codes as c
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.multi_pattern.members import Member, MemberId
from cep_pipeline.planning.multi_pattern.shared_plan import SharedNode, SharedPlan, share
from cep_pipeline.planning.trees import Join, OrderOrTree, leaves_of, nodes_of
from cep_pipeline.slices.order import before_is_earlier, compared_with, earlier_is_before, may_be_one
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import may_match


class EventsOf(NamedTuple):
    """The key of a node's events: nodes with equal keys read and buffer them once.

    Attributes
    ----------
    event_type, filters
        The type, and the conjuncts that one event decides, over `ANY_EVENT`.
    agree_on
        The attributes that events agree on above the node, sorted.
    window
        What windows above it measure: time, or positions in partitions by these attributes.
    """

    event_type: EventType
    filters: frozenset[Conjunct]
    agree_on: tuple[str, ...]
    window: tuple[str, ...]


class MemberParts:
    """One clause of one pattern: its rules of order and distinctness, and which events its variables read.

    Attributes
    ----------
    conditions
        Its conjuncts.
    agree_on
        The attributes that its events agree on, sorted.
    """

    def __init__(self, pattern: Pattern, clause: Clause) -> None:
        self.conditions = ClauseConditions(pattern, clause)
        self.agree_on = tuple(sorted(set(clause.agree_on)))
        self._pattern, self._clause = pattern, clause
        self._window = ("time",) if pattern.window.events is None else ("events", *sorted(set(pattern.partition_by)))
        self._numbers = {variable.name: number for number, variable in enumerate(clause.positive)}

    def events_of(self, name: str) -> EventsOf:
        """The events that fit a variable."""
        filters = frozenset(self.conditions.filters(name))
        return EventsOf(self._clause.by_name[name].event_type, filters, self.agree_on, self._window)

    def rejecting_early(self, variable: Variable) -> frozenset[str] | None:
        """The positive variables with which events of a negated one can be asked for; None: only with all of them.

        With nothing before it or nothing after it the window of the whole match decides; under TIES ANY an event that
        comes later may still be before those that have been.
        """
        clause, name = self._clause, variable.name
        if not (before_is_earlier(self._pattern.ties) and clause.predecessors(name) and clause.successors(name)):
            return None
        compared = compared_with(self._pattern, clause, variable)
        return frozenset((*clause.next_before(name), *clause.next_behind(name), *compared))

    def may_come_last(self, name: str, others: Sequence[str]) -> bool:
        """True if an event of a variable can come later in the stream than those of others."""
        if not before_is_earlier(self._pattern.ties):
            return True
        return not any((name, other) in self._clause.precedence for other in others)

    def order(self, names: Sequence[str]) -> list[int]:
        """The words of a test of the order among some variables: 1, then the pairs that follow one another."""
        return [1, *self._pairs((x, y) for x, y in product(names, repeat=2) if self._follow(x, y, names))]

    def ascents(self, own: tuple[str, ...], others: tuple[str, ...], *, listed: bool = False) -> list[list[int]]:
        """The pairs that a join compares, for each own variable that has the newest event (`ascent`).

        Where events become elements of lists (`listed`), the kernel compares all pairs.
        """
        if listed:
            return [[int(self.may_come_last(name, others)), 0, 0, 0, 0] for name in own]
        return [self.ascent(own, others, name) for name in own]

    def ascent(self, own: Sequence[str], others: Sequence[str], newest: str) -> list[int]:
        """The pairs that a join compares: of `own`, whose newest event is of one variable, with `others`.

        First whether there can be any that came before (1 or 0). Then, each with its length before it: the own
        variables that bound the scan from below (some event of the other side comes after theirs) and from above (all
        come before theirs), the pairs whose order is tested, and those that must be told apart. A pair is two words. A
        search of events that may be later than all that are bound has `newest` among the others.
        """
        before, by_name = self._clause.precedence, self._clause.by_name
        lower = [x for x in own if any((x, y) in before for y in others)]
        upper = [x for x in own if all((y, x) in before for y in others)]
        single = not by_name[newest].kleene
        one_event = len(others) == 1 and not by_name[others[0]].kleene
        needed = [
            (x, y)
            for x, y in (*product(own, others), *product(others, own))
            if self._follow(x, y, (*own, *others))
            and not ((x in own and one_event) or y in upper)
            and not (y == newest and single and earlier_is_before(self._pattern.ties))
        ]
        distinct = [
            (x, y)
            for x, y in product(own, others)
            if not (x == newest and single) and may_be_one(self._pattern, self._clause, by_name[x], by_name[y])
        ]
        bounds = [word for part in (lower, upper) for word in (len(part), *map(self._numbers.__getitem__, part))]
        return [int(self.may_come_last(newest, others)), *bounds, *self._pairs(needed), *self._pairs(distinct)]

    def _follow(self, one: str, other: str, names: Sequence[str]) -> bool:
        """Return whether a variable comes before another one, with none of some names between them."""
        before = self._clause.precedence
        return (one, other) in before and not any((one, name) in before and (name, other) in before for name in names)

    def _pairs(self, pairs: Iterable[tuple[str, str]]) -> list[int]:
        words = [self._numbers[name] for pair in pairs for name in pair]
        return [len(words) // 2, *words]


_parts: WeakKeyDictionary[Member, MemberParts] = WeakKeyDictionary()


def parts_of(member: Member) -> MemberParts:
    """The parts of a member, kept as long as it."""
    known = _parts.get(member)
    if known is None:
        known = _parts[member] = MemberParts(member.pattern, member.clause)
    return known


MOST_VARIABLES = 62
"""Sets of variables are bits of an int64."""


class Choices:
    """The knowledge of the lazy tree of a clause (DEBS'15 section 6) where it chooses the variable that is bound next.

    A state of the tree is the variables that are bound, in their order. It has an edge for each variable that is
    missing; an instance takes the one that is cheapest by the counters of the input buffer: the rarest, where
    conditions are alike. At the root nothing is done before every type has an event in the buffer, but under TIES ANY
    and STRICT, where the first variable is chosen at once. The answer is that of every chain.

    Differs from the paper in two points. A counter is not all that is looked at: how many of the events passed their
    conditions of late, and which conditions are tested next, make a type dearer that no condition joins to what is
    bound. And an instance keeps its edge, so that each match is found once. The root keeps its variable until another
    one is so much cheaper that a change pays: then all instances are given up, and the new root takes the events of
    its variable that are in the buffer; only matches that end later are looked for.

    Positive variables are numbered in pattern order.

    Attributes
    ----------
    pairs
        Of each two variables, one after another, the share of the conjuncts over these two.
    """

    def __init__(self, clause: Clause) -> None:
        numbers = {variable.name: number for number, variable in enumerate(clause.positive)}
        self._variables = range(len(numbers))
        self._joined = [
            frozenset(numbers[name] for name in conjunct.variables)
            for conjunct in clause.conjuncts
            if len(conjunct.variables) > 1 and conjunct.variables <= numbers.keys()
        ]
        self._shares: dict[frozenset[int], int] = {frozenset(): 0}
        self.pairs = [self.share((one,), other) for one in self._variables for other in self._variables]

    def __len__(self) -> int:
        """The number of shares, with that of all tests together."""
        return len(self._shares)

    def share(self, bound: Sequence[int], variable: int) -> int:
        """The share of the conjuncts that a variable completes; 0 without any.

        Equal conjuncts have one share, in whatever order their variables are bound.
        """
        known = {*bound, variable}
        completed = frozenset(
            number for number, joined in enumerate(self._joined) if variable in joined and joined <= known
        )
        return self._shares.setdefault(completed, len(self._shares))

    def after(self, bound: Sequence[int]) -> list[int]:
        """The words of a choice, `codes.CHOICE_WORDS` of each variable, where these are bound."""
        words: list[int] = []
        for variable in self._variables:
            known = {*bound, variable}
            missing = [joined - known for joined in self._joined if len(joined - known) == 1]
            linked = sum(1 << other for other in set().union(*missing))
            words += [c.BOUND if variable in bound else c.UNMADE, self.share(bound, variable), linked]
        return words


Automaton = Literal["", "eager", "lazy"]
Place = tuple[str, int, tuple[str, ...]]
"""A pattern, one of its clauses, and variables of it."""


@dataclass(eq=False)
class Edge:
    """A connection from a node up to one that is made of it.

    Attributes
    ----------
    parent, role, sibling
        As in `codes.py`.
    own, other
        The first slot of this side and of the other one at the parent.
    ascents
        For each own slot, what is looked at when it has the newest event (`Ascents.words`).
    holds
        Whether what is below is held for later events of the other side.
    group
        The group of conjuncts that is tested along it; -1: that of the parent.
    bound
        What the other side has bound where events become elements of lists; else None.
    """

    parent: int
    role: int
    sibling: int
    own: int
    other: int
    ascents: list[list[int]]
    holds: bool = False
    group: int = -1
    bound: tuple[str, ...] | None = None


@dataclass(eq=False)
class Node:
    """A node of a network.

    Attributes
    ----------
    number, kind
        As in `codes.py`.
    member, slots
        The first user, and its variable in each slot; of nodes of events one variable.
    sides
        How many of the slots are of the left side; the others are of the right one. Of lists the right one is their
        variable.
    events
        What events a node of events has.
    edges
        In the order in which events go along them.
    members
        Whose root it is, with their variables in the slots.
    places
        What it stands for in the plans: the first one is what is counted by.
    windows
        Members with the window of each size there is among its users.
    stored, partial
        Whether later events can meet what it holds, and whether that is partial matches of a plan: other events are
        held as input buffer only.
    lists
        The node of lists that may grow; its own number where complete lists may grow, too.
    complete, begins, grows
        The groups of conjuncts that a tuple (or a complete list) is tested for, the first element of a list, and a
        later one.
    negated
        The negated variables whose events reject tuples here, in the order of the clause.
    final, choices, share, open
        Of a lazy tree: the node that puts out what is complete here (-1: itself); what it knows where it chooses
        (`lazy.Choices.after`); the share of its tests; and whether later events can make more of its instances.
    """

    number: int
    kind: int
    member: Member
    slots: tuple[str, ...]
    sides: int = 0
    events: EventsOf | None = None
    edges: list[Edge] = field(default_factory=list)
    members: list[tuple[MemberId, tuple[str, ...]]] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    windows: dict[int, Member] = field(default_factory=dict)
    stored: bool = False
    partial: bool = False
    lists: int = -1
    complete: int = -1
    begins: int = -1
    grows: int = -1
    negated: tuple[str, ...] = ()
    final: int = -1
    choices: list[int] = field(default_factory=list)
    share: int = 0
    open: bool = False

    @property
    def last(self) -> Variable:
        """The variable of the last slot."""
        return self.member.clause.by_name[self.slots[-1]]

    @property
    def listed(self) -> tuple[Variable, ...]:
        """The Kleene variables of a node that makes lists."""
        variables = map(self.member.clause.by_name.__getitem__, self.slots)
        return tuple(one for one in variables if one.kleene) if self.kind in (c.STATE, c.LISTS) else ()

    @property
    def window(self) -> Member:
        """A member with the largest window of its users."""
        return self.windows[max(self.windows)]

    @property
    def agree_on(self) -> tuple[str, ...]:
        """The attributes that its events agree on, sorted."""
        return parts_of(self.member).agree_on


class Network:
    """The nodes of a shared plan, wired.

    Attributes
    ----------
    nodes
        Each behind those that it is made of.

    Parameters
    ----------
    shared
        The plan of all members.
    groups
        The conditions of each member, which are asked for groups of conjuncts.
    automaton
        By which automata members are run whatever the plan: "eager" or "lazy" ones; or none.

    Attributes
    ----------
    choices
        Those of a lazy tree; it has one member.
    """

    def __init__(
        self, shared: SharedPlan, groups: Mapping[MemberId, ConditionGroups], *, automaton: Automaton = ""
    ) -> None:
        self.shared = shared
        self.choices: Choices | None = None
        self.groups = groups
        self.nodes: list[Node] = []
        self._events: dict[EventsOf, Node] = {}
        self._of: dict[int, Node] = {}
        self._arranged: dict[int, tuple[int, ...]] = {}
        self._spellings: dict[MemberId, dict[frozenset[str], tuple[str, ...]]] = {}
        self._asked_early: dict[MemberId, set[str]] = {}
        for node in () if automaton else shared:
            self._add(node)
        for member in shared.members.values():
            if automaton == "eager":
                self._add_states(member)
            elif automaton == "lazy":
                self._add_tree(member)
            elif self.is_instance_tree(member):
                self._reject_early(member)

    @cached_property
    def event_nodes(self) -> tuple[Node, ...]:
        """The nodes of events."""
        return tuple(node for node in self.nodes if node.kind == c.EVENTS)

    def rejecting_last(self, name: MemberId) -> list[str]:
        """The negated variables of a member that are asked for when its matches are put out."""
        early = self._asked_early.get(name, set())
        return [variable.name for variable in self.shared.members[name].clause.negated if variable.name not in early]

    def is_instance_tree(self, member: Member) -> bool:
        """True if a member is run by a tree of its own, whose every variable has a leaf."""
        return self.shared.sharing == "none" and isinstance(self.shared.plans[member.id], Join | str)

    def _reject_early(self, member: Member) -> None:
        """Say of each negated variable which node asks for it, unless it is asked for at the root."""
        nodes = [self._of[node.index] for node in self.shared.nodes_of(member.id) if node.index in self._of]
        early = self._asked_early[member.id] = set()
        for variable in member.clause.negated:
            needed = parts_of(member).rejecting_early(variable)
            if needed is None:
                continue
            lowest = min((node for node in nodes if needed <= {*node.slots}), key=lambda node: len(node.slots))
            if not lowest.members:
                lowest.negated = (*lowest.negated, variable.name)
                early.add(variable.name)

    # --- nodes ---------------------------------------------------------------------------------------------------

    def _add(self, shared: SharedNode) -> None:
        if shared.left is None:
            self._add_leaf(shared)
            return
        if shared.turned:
            self._add_order_test(shared, shared.left)
            return
        left, right, cut = shared.left, shared.right, shared.below[0]
        before, behind = self._placed(left, range(cut)), self._placed(right, range(cut, shared.size))
        member = shared.model[0]
        alone = self.is_instance_tree(member)
        if right is not None and self._is_kleene(left) and not self._is_kleene(right) and not alone:
            left, right, before, behind = right, left, behind, before
        self._arranged[shared.index] = (*before, *behind)
        slots = self._slots(shared, shared.model[1])
        lists = len(behind) == 1 and member.clause.by_name[slots[-1]].kleene and not alone
        node = self._new(c.LISTS if lists else c.JOIN, member, slots)
        self._of[shared.index] = node
        self._note(node, shared, self._users(shared))
        node.sides = len(before)
        if right is None or lists:
            other = self.event_node(member, slots[-1])
        else:
            other = self._below(right, member, slots[node.sides :])
        self._connect(node, self._below(left, member, slots), other, in_tree=right is not None and not lists)

    def _add_order_test(self, shared: SharedNode, left: int) -> None:
        """A test of order: its slots are those of what it tests."""
        arranged = self._placed(left, range(shared.size))
        self._arranged[shared.index] = tuple(shared.turned[place] for place in arranged)
        member, below = shared.model[0], self._of[left]
        node = self._of[shared.index] = self._new(c.IN_ORDER, member, self._slots(shared, shared.model[1]))
        self._note(node, shared, self._users(shared))
        node.sides = len(node.slots)
        for window, user in node.windows.items():
            below.windows.setdefault(window, user)
        words = parts_of(member).order(node.slots)
        below.edges.append(Edge(node.number, c.TESTED, -1, 0, 0, [words] * len(node.slots)))

    def _add_leaf(self, shared: SharedNode) -> None:
        """A leaf, or the first state of an order: events, and lists of them for those who need lists by themselves."""
        member, slots = shared.model
        of_lists = self._listed.get(shared.index, ())
        if of_lists:
            node = self._of[shared.index] = self._new(c.LISTS, member, slots)
            self._note(node, shared, [user for user in self._users(shared) if user.id in of_lists])
            self._connect(node, None, self.event_node(member, slots[-1]), in_tree=False)
        for user in self._users(shared):
            if user.id not in of_lists:
                self._note(self.event_node(user, shared.sharers[user.id][0][0]), shared, [user])

    @cached_property
    def _listed(self) -> dict[int, set[MemberId]]:
        """The Kleene variables of the plan of which all lists are made, and for whom."""
        found: dict[int, set[MemberId]] = {}
        for name, root in self.shared.roots.items():
            alone = self.is_instance_tree(self.shared.members[name])
            before = [
                node.left
                for node in self.shared.nodes_of(name)
                if node.left is not None and (node.right is None or self._is_kleene(node.right))
            ]
            leaves = [node.index for node in self.shared.nodes_of(name) if alone and node.left is None]
            for index in (root, *before, *leaves):
                if self._is_kleene(index):
                    found.setdefault(index, set()).add(name)
        return found

    def _is_kleene(self, index: int) -> bool:
        """True if a node of the plan is a Kleene variable by itself."""
        node = self.shared[index]
        member, slots = node.model
        return node.left is None and member.clause.by_name[slots[-1]].kleene

    def _placed(self, index: int | None, places: Sequence[int]) -> tuple[int, ...]:
        """Map slots of a node of the plan to the order in which this network keeps them."""
        arranged = None if index is None else self._arranged.get(index)
        return tuple(places) if arranged is None else tuple(places[place] for place in arranged)

    def _slots(self, shared: SharedNode, slots: tuple[str, ...]) -> tuple[str, ...]:
        """The variables in the slots of a node of the plan as the node here has them."""
        arranged = self._arranged.get(shared.index)
        return slots if arranged is None else tuple(slots[place] for place in arranged)

    def _new(self, kind: int, member: Member, slots: tuple[str, ...]) -> Node:
        node = Node(len(self.nodes), kind, member, slots)
        self.nodes.append(node)
        return node

    def _users(self, shared: SharedNode) -> list[Member]:
        return [self.shared.members[user] for user in shared.sharers]

    def _note(self, node: Node, shared: SharedNode, users: list[Member]) -> None:
        # A node counts for those who have it in their plan before those who test the order of what it makes.
        for user in sorted(users, key=lambda one: one.id in shared.unordered):
            node.windows.setdefault(user.window, user)
            if user.id not in shared.unordered or shared.left is None or not node.places:
                for slots in shared.sharers[user.id]:
                    node.places.append((*user.id, self._spelled(user, slots)))
            if user.id in shared.members:
                [root] = shared.sharers[user.id]
                node.members.append((user.id, self._slots(shared, root)))

    def _below(self, index: int, member: Member, slots: tuple[str, ...]) -> Node:
        """The node of a node of the plan, or of its events where it is one event, as a member sees it."""
        return self._of[index] if index in self._of else self.event_node(member, slots[0])

    def event_node(self, member: Member, name: str) -> Node:
        """The node of the events that fit a variable of a member."""
        what = parts_of(member).events_of(name)
        if what not in self._events:
            node = self._events[what] = self._new(c.EVENTS, member, (name,))
            node.events = what
        return self._events[what]

    def _spelled(self, member: Member, slots: tuple[str, ...]) -> tuple[str, ...]:
        """The variables of a node as the member's plan has them from left to right."""
        plan = self.shared.plans[member.id]
        if isinstance(plan, Join):
            if member.id not in self._spellings:
                self._spellings[member.id] = {frozenset(leaves_of(node)): leaves_of(node) for node in nodes_of(plan)}
            return self._spellings[member.id][frozenset(slots)]
        return tuple(name for name in plan if name in slots) if not isinstance(plan, str) else slots

    def _add_states(self, member: Member) -> None:
        """The states of a member's eager automaton (DEBS'15 section 3), and its take edges.

        The paper compiles a sequence into a chain. A clause has a partial order: its states are the sets of bound
        variables that the order allows, each set with all that comes before its members, because events are taken as
        they arrive. At a state that has bound a Kleene variable and nothing behind it, an edge back to the state takes
        further elements. Ignore edges are everywhere: an instance stays when an event makes a new one of it. An event
        that arrives meets what the states hold, and is not held itself.
        """
        clause, groups = member.clause, self.groups[member.id]
        names = [variable.name for variable in clause.positive]
        before = {name: frozenset(variable.name for variable in clause.predecessors(name)) for name in names}
        events = {name: self.event_node(member, name) for name in names}
        everything, nodes, states = frozenset(names), dict[frozenset[str], Node](), [frozenset[str]()]
        for state in states:  # by size, so that the complete set comes last
            for name in names:
                target, kleene = state | {name}, clause.by_name[name].kleene
                if not (before[name] <= state and (name not in state or _grows(clause, state, name))):
                    continue
                if target not in nodes:
                    states.append(target)
                    nodes[target] = node = self._new(c.STATE, member, tuple(one for one in names if one in target))
                    node.places.append((*member.id, node.slots))
                    if len(states) > MOST_STATES:
                        feature = f"an automaton of more than {MOST_STATES:,} states"
                        hint = "join fewer variables by AND, or use mechanism 'fused'"
                        raise UnsupportedPattern("eager_nfa", feature, pattern=member.pattern.name, hint=hint)
                node, known, after = nodes[target], _moment(clause, state), _moment(clause, target)
                if name in state:
                    group = groups.element_group(name, known)
                else:
                    group = groups.group(after, (known,), begun=name)
                if target == everything:
                    node.complete = groups.group(Moment(everything, everything), (after,))
                source = nodes.get(state)
                bound = () if source is None else source.slots
                words = parts_of(member).ascents((name,), bound, listed=kleene)
                edge = Edge(node.number, c.BEGIN, -1, node.slots.index(name), c.ANY, words, False, group)
                edge.bound = bound if kleene else None
                if source is not None:
                    edge.role, edge.sibling, source.stored = c.SIDE, source.number, True
                events[name].edges.append(edge)
        for node in self.nodes:
            node.windows.setdefault(member.window, member)
        nodes[everything].members.append((member.id, nodes[everything].slots))

    def _add_tree(self, member: Member) -> None:
        """The first states of a member's lazy tree, and the node of what is complete, whatever the order it came in."""
        names = tuple(variable.name for variable in member.clause.positive)
        choices = self.choices = Choices(member.clause)
        groups = self.groups[member.id]
        groups.group_of([one.conjunct for one in groups.conditions.tested])  # whatever states will ask for is compiled
        final = self._new(c.JOIN, member, names)
        final.members.append((member.id, names))
        for name in names:
            self.event_node(member, name).stored = True
            self._add_step(member, choices, None, name)

    def wait_for(self, before: Node, variable: int) -> None:
        """Add the state of the instances of a node that wait for a variable, by its number, and what they become."""
        assert self.choices is not None
        word = variable * c.CHOICE_WORDS + c.H_NODE
        if before.choices[word] == c.UNMADE:
            member = before.member
            name = member.clause.positive[variable].name
            waiting = self._new(c.WAITING, member, before.slots)
            waiting.stored = parts_of(member).may_come_last(name, before.slots)
            self._add_step(member, self.choices, waiting, name)
            before.choices[word] = waiting.number

    def _add_step(self, member: Member, choices: Choices, waiting: Node | None, name: str) -> None:
        """The node of those that have bound one more variable, and how its events and they come there."""
        parts, names = parts_of(member), [variable.name for variable in member.clause.positive]
        path = waiting.slots if waiting is not None else ()
        numbers, number, kleene = [*map(names.index, path)], names.index(name), member.clause.by_name[name].kleene
        node, events = self._new(c.LISTS if kleene else c.JOIN, member, (*path, name)), self.event_node(member, name)
        node.sides, node.share = len(path), choices.share(numbers, number)
        node.places.append((*member.id, node.slots))
        missing = [other for other in names if other not in node.slots]
        node.open = any(parts.may_come_last(other, node.slots) for other in missing)
        if missing:
            node.choices = choices.after([*numbers, number])
        else:
            node.final = 0
        self._ask(node)
        if kleene:
            self._hold_lists(node, apart=True)
        for one in self.nodes:
            one.windows.setdefault(member.window, member)
        if kleene:
            self._take_elements(node, events, waiting, number)
        else:
            ascents = parts.ascents((name,), path)
            if waiting is None:
                edge = Edge(node.number, c.BEGIN, -1, 0, number, ascents)
            else:
                edge = Edge(node.number, c.SIDE, waiting.number, node.sides, 0, ascents)
            events.edges.append(edge)
        if waiting is None:
            return
        role = c.BEFORE_LIST if kleene else c.SIDE
        search = [parts.ascent(path, (name,), name)]
        waiting.edges.append(Edge(node.number, role, events.number, 0, node.sides, search))

    # --- edges ---------------------------------------------------------------------------------------------------

    def _connect(self, node: Node, left: Node | None, right: Node, *, in_tree: bool) -> None:
        """Let a node be made of what is on its left (None: of nothing) and on its right, a node of the plan or not."""
        self._ask(node)
        cut = node.sides
        for below in (left, right):
            if below is not None:
                for window, user in node.windows.items():
                    below.windows.setdefault(window, user)
        if left is not None:
            role = c.BEFORE_LIST if node.kind == c.LISTS else c.SIDE
            self._edge(node, left, right, role, 0, cut)
        if node.kind == c.LISTS:
            self._hold_lists(node, apart=not self.groups[node.member.id].is_empty(node.complete))
            rest = node.slots[:cut] if left is not None else ()
            self._take_elements(node, right, left, holds=self._holds(node, right, node.slots[cut:], rest, in_tree))
        else:
            self._edge(node, right, left, c.SIDE, cut, 0, partial=in_tree)

    def _take_elements(
        self, node: Node, events: Node, before: Node | None, root: int = c.ANY, *, holds: bool = False
    ) -> None:
        """The edges by which events begin lists at a node, and go on those that there are."""
        rest, own = node.slots[:-1], len(node.slots) - 1
        words = parts_of(node.member).ascents(node.slots[-1:], rest, listed=True)
        if before is None:
            events.edges.append(Edge(node.number, c.BEGIN, -1, own, root, words, holds, node.begins, ()))
        events.edges.append(Edge(node.number, c.SIDE, node.lists, own, 0, words, False, node.grows, node.slots))
        if before is not None:
            events.edges.append(Edge(node.number, c.SIDE, before.number, own, 0, words, holds, node.begins, rest))

    def _edge(
        self, node: Node, below: Node, other: Node | None, role: int, own: int, others: int, *, partial: bool = True
    ) -> None:
        mine = node.slots[own : own + len(below.slots)]
        rest = node.slots[others : others + (len(other.slots) if other else 0)]
        holds = self._holds(node, below, mine, rest, partial)
        sibling = -1 if other is None else other.number
        below.edges.append(
            Edge(node.number, role, sibling, own, others, parts_of(node.member).ascents(mine, rest), holds)
        )

    def _holds(self, node: Node, below: Node, mine: tuple[str, ...], rest: tuple[str, ...], partial: bool) -> bool:
        """Let a node hold what can meet later events of the other side, if these can come last."""
        holds = any(parts_of(node.member).may_come_last(name, mine) for name in rest)
        below.stored = below.stored or holds
        below.partial = below.partial or (holds and partial)
        return holds

    def _hold_lists(self, node: Node, *, apart: bool) -> None:
        """Hold lists that may grow: with those that are complete, or apart from these."""
        lists = self._new(c.LISTS, node.member, node.slots) if apart else node
        lists.stored = parts_of(node.member).may_come_last(node.slots[-1], node.slots[:-1])
        lists.windows, lists.lists, node.lists = node.windows, lists.number, lists.number

    def _ask(self, node: Node) -> None:
        """Ask for the groups of conjuncts of a node that is made of others."""
        groups, slots = self.groups[node.member.id], node.slots
        left, right = frozenset(slots[: node.sides]), frozenset(slots[node.sides :])
        if node.kind == c.JOIN:
            sides = [Moment(side, side) for side in (left, right)]
            node.complete = groups.group(Moment(left | right, left | right), sides)
            return
        [name] = right
        begun = Moment(left | right, left)
        node.begins = groups.first_group(name, Moment(left, left))
        node.grows = groups.element_group(name, begun)
        node.complete = groups.left_group(begun, (name,))


MOST_NETWORKS = 1 << 10
"""Networks that are kept; those that were not asked for longest go first."""
MOST_STATES = 1 << 14
"""Sets of bound variables that an eager automaton may have: an AND of 14 variables, a sequence of any length."""


def _grows(clause: Clause, state: frozenset[str], name: str) -> bool:
    """Return whether the list of a variable takes further elements in a state: nothing behind it is bound."""
    return clause.by_name[name].kleene and not any(variable.name in state for variable in clause.successors(name))


def _moment(clause: Clause, state: frozenset[str]) -> Moment:
    return Moment(state, frozenset(name for name in state if not _grows(clause, state, name)))


def network_of(
    members: Sequence[Member],
    plans: Sequence[OrderOrTree],
    sharing: Sharing,
    events: PreparedEvents,
    automaton: Automaton = "",
) -> Network:
    """The network of members by their orders or trees, or by automata; the same again where it is known.

    Raises
    ------
    PlanError
        An order or a tree does not fit its member, or is not run where plans are shared so.
    """
    # A clause that contradicts itself has no matches; shared nodes are not written in its variables.
    possible = tuple(may_match(member.pattern, member.clause, events) for member in members)
    orders = tuple(tuple(plan) if isinstance(plan, list) else plan for plan in plans)
    # A lazy tree gets states while it runs: threads have one each.
    thread = get_ident() if automaton == "lazy" else 0
    return _made(tuple(members), orders, sharing, possible, automaton, thread)


@lru_cache(MOST_NETWORKS)
def _made(
    members: tuple[Member, ...],
    plans: tuple[OrderOrTree, ...],
    sharing: Sharing,
    possible: tuple[bool, ...],
    automaton: Automaton,
    thread: int,
) -> Network:
    taken = []
    for member, plan, may_have_matches in zip(members, plans, possible, strict=True):
        if may_have_matches:
            taken.append((member, plan))
        else:
            share([member], [plan], sharing)  # only refuses a plan that does not fit
    shared = share([member for member, _ in taken], [plan for _, plan in taken], sharing)
    groups = {member.id: ConditionGroups(parts_of(member).conditions) for member, _ in taken}
    network = Network(shared, groups, automaton=automaton)
    for member, _ in taken:
        for variable in member.clause.negated:
            groups[member.id].rejecting_group(variable.name)
    return network
