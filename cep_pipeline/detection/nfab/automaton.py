"""The NFA^b of a clause, compiled by the six steps of SIGMOD'08 section 3.2: states, edges and their formulas.

It is what `explain` prints and what the kernels run. A formula is kept as its conjuncts, in the words of the language;
the kernels test the same conjuncts at the same edges.

The value vector of a run (section 5.2.2) holds the values of its past that decide its future. A run's future depends on
its state, its start, and those values of what it has bound that some later edge reads. Two runs in one state that agree
on these take the same events from now on, whatever their histories: they can be merged. `value_vector` finds these
values in a clause; `vector_words` writes for the kernel how each is read from a run's slots and the cells of its lists.

References
----------
J. Agrawal, Y. Diao, D. Gyllstrom, N. Immerman: Efficient pattern matching over event streams. SIGMOD 2008, sections 3
and 5.2.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

import numpy as np

from cep_pipeline.compiled.native import address
from cep_pipeline.detection.conditions.groups import Mention, mentions
from cep_pipeline.detection.conditions.program import Program
from cep_pipeline.detection.nfab import words as at
from cep_pipeline.expressions.columns import Array
from cep_pipeline.language.formatter import format_type, format_window
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Aggregate, Element, Length, Reference, ValueType
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.patterns.structure import EventType, type_alternatives
from cep_pipeline.slices.order import earlier_is_before
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.terms import format_conjunct


class Move(Enum):
    """The effect of an edge: begin and take put an event into the buffer, ignore passes over it, proceed reads none."""

    BEGIN = "begin"
    TAKE = "take"
    PROCEED = "proceed"
    IGNORE = "ignore"


@dataclass(frozen=True)
class NfabEdge:
    """An edge of a state.

    Attributes
    ----------
    move
        What it does with the event.
    target
        The name of the state that it leads to.
    formula
        The conjuncts that must hold; none: True.
    """

    move: Move
    target: str
    formula: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.move.value:<7} -> {self.target:<6} {' AND '.join(self.formula) or 'True'}"


@dataclass(frozen=True)
class State:
    """A state: of a single variable `v`, of the first event of a Kleene variable `v[1]`, or of its others `v[i]`."""

    name: str
    variable: str
    edges: tuple[NfabEdge, ...]

    def edge(self, move: Move) -> NfabEdge | None:
        """The edge of that kind, if the state has one."""
        return next((edge for edge in self.edges if edge.move is move), None)


@dataclass(frozen=True)
class NfabAutomaton:
    """The NFA^b of one clause: a linear sequence of states, of which the last leads to F."""

    clause: int
    strategy: Strategy
    states: tuple[State, ...]

    def __str__(self) -> str:
        lines = [f"NFA^b of clause {self.clause}, {self.strategy.value}"]
        for state in self.states:
            lines.append(f"  state {state.name}")
            lines.extend(f"    {edge}" for edge in state.edges)
        lines.append(f"  state {FINAL}")
        return "\n".join(lines)


FINAL = "F"


def is_chain(clause: Clause) -> bool:
    """Return whether the clause's positive variables follow each other in pattern order."""
    names = [variable.name for variable in clause.positive]
    return all(pair in clause.precedence for pair in pairwise(names))


def reads_whole_list(node: Mention) -> bool:
    """Return whether the node is bound only when its Kleene variable is left."""
    return (
        isinstance(node, Length)
        or (isinstance(node, Aggregate) and not node.prefix)
        or (isinstance(node, Reference) and node.element is Element.LAST)
    )


def last_variable(conjunct: Conjunct, clause: Clause) -> int:
    """The place in the chain of the variable that is bound last among those that the conjunct mentions."""
    return max(place for place, variable in enumerate(clause.positive) if variable.name in conjunct.variables)


def tested_at(conjunct: Conjunct, clause: Clause) -> tuple[int, frozenset[Move]]:
    """The place of a conjunct's test: its last variable in the chain, and the edges (step 2 of the paper)."""
    place = last_variable(conjunct, clause)
    variable = clause.positive[place]
    if not variable.kleene:
        return place, frozenset({Move.BEGIN})
    if conjunct == variable.at_most:
        return place, frozenset({Move.TAKE})
    own = [node for node in mentions(conjunct.atoms) if node.variable == variable.name]
    if any(map(reads_whole_list, own)):
        return place, frozenset({Move.PROCEED})
    elements = {node.element for node in own if isinstance(node, Reference)}
    moves = set()
    if Element.EACH in elements:
        moves = {Move.BEGIN, Move.TAKE}
    if elements & {Element.CURRENT, Element.PREVIOUS} or any(isinstance(node, Aggregate) for node in own):
        # With an index there is a choice from the second element on.
        moves = {Move.TAKE}
    return place, frozenset(moves or {Move.BEGIN})


def compile_automaton(pattern: Pattern, clause: Clause) -> NfabAutomaton:
    """The NFA^b of a chain.

    Parameters
    ----------
    pattern, clause
        A pattern, and one of its clauses, whose positive variables are a chain; negated ones are no part of the
        automaton, they are asked of finished matches.
    """
    drafts = _structure(clause)
    drafts = _with_predicates(drafts, clause)
    drafts = _with_ignore(drafts, pattern, clause)
    if not earlier_is_before(pattern.ties):  # a later place in the stream does not suffice
        drafts = _conjoined(drafts, "timestamp > all before", lambda place, edge: place > 0 and edge.move is Move.BEGIN)
    # Steps 4 and 5: WITHIN on the edges to the final state, and wherever an event was bound before, to end runs early.
    drafts = _conjoined(
        drafts,
        f"within {format_window(pattern.window)}",
        lambda place, edge: edge.target == FINAL or (place > 0 and edge.move is not Move.PROCEED),
    )
    drafts = _proceed_constrained(drafts)
    return NfabAutomaton(clause.index, pattern.strategy, tuple(drafts))


def describe(pattern: Pattern) -> str:
    """The automata of all clauses of a pattern, one after another, as text."""
    return "\n".join(str(compile_automaton(pattern, clause)) for clause in pattern.clauses if is_chain(clause))


def _structure(clause: Clause) -> list[State]:
    """Step 1: a state for each single variable, a pair for each Kleene variable, and their edges."""
    firsts = [f"{v.name}[1]" if v.kleene else v.name for v in clause.positive] + [FINAL]
    states = []
    for place, variable in enumerate(clause.positive):
        following = firsts[place + 1]
        ignoring = (NfabEdge(Move.IGNORE, firsts[place]),) if place else ()
        if not variable.kleene:
            states.append(State(firsts[place], variable.name, (NfabEdge(Move.BEGIN, following), *ignoring)))
            continue
        second = f"{variable.name}[i]"
        states.append(State(firsts[place], variable.name, (NfabEdge(Move.BEGIN, second), *ignoring)))
        edges = (NfabEdge(Move.TAKE, second), NfabEdge(Move.PROCEED, following), NfabEdge(Move.IGNORE, second))
        states.append(State(second, variable.name, edges))
    return states


def _with_predicates(states: list[State], clause: Clause) -> list[State]:
    """Step 2: each conjunct on the edges where the last of its identifiers is bound; types and equivalences too."""
    place_of = {variable.name: place for place, variable in enumerate(clause.positive)}
    positive = [c for c in clause.conjuncts if c.variables and c.variables <= place_of.keys()]
    placed = [(conjunct, *tested_at(conjunct, clause)) for conjunct in positive]
    result = []
    for state in states:
        variable = clause.by_name[state.variable]
        place = place_of[state.variable]
        own = [(format_conjunct(conjunct), moves) for conjunct, at, moves in placed if at == place]
        edges = []
        for edge in state.edges:
            formula: list[str] = []
            if edge.move in (Move.BEGIN, Move.TAKE):
                formula.append(f"{_element(state, variable)} is {type_alternatives(variable.event_type, format_type)}")
                formula.extend(_equivalences(state, clause, place))
            formula.extend(text for text, moves in own if edge.move in moves)
            edges.append(replace(edge, formula=tuple(formula)))
        result.append(replace(state, edges=tuple(edges)))
    return result


def _with_ignore(states: list[State], pattern: Pattern, clause: Clause) -> list[State]:
    """Step 3: what the selection strategy lets a state ignore.

    Differs from the paper, which has no greatest number of events, in that a list that is full does not ignore an event
    that begins the next variable.
    """
    by_name, strategy = {state.name: state for state in states}, pattern.strategy
    result = []
    for state in states:
        taking, formula = state.edge(Move.TAKE) or state.edge(Move.BEGIN), tuple[str, ...]()
        assert taking is not None
        if not strategy.skips:
            agreeing = () if strategy.crosses_partitions else clause.agree_on
            formula = (f"NOT [{', '.join(agreeing)}]" if agreeing else "False",)
        elif not strategy.forks:
            formula = (f"NOT ({' AND '.join(taking.formula)})",)
            leaving, most = state.edge(Move.PROCEED), clause.by_name[state.variable].maximum
            if leaving is not None and most is not None and leaving.target != FINAL:
                begins = by_name[leaving.target].edges[0].formula
                full = " AND ".join((f"{state.variable}.LEN = {most}", *leaving.formula, *begins))
                formula = (*formula, f"NOT ({full})")
        edges = (replace(edge, formula=formula) if edge.move is Move.IGNORE else edge for edge in state.edges)
        result.append(replace(state, edges=tuple(edges)))
    return result


def _proceed_constrained(states: list[State]) -> list[State]:
    """Step 6: a proceed edge peeks whether the event can begin the next variable.

    Differs from the paper in that the proceed edges with a formula are constrained, too, and that there is no
    opportunistic move where take and ignore are both False: the next state would have no use for the event either.
    """
    by_name = {state.name: state for state in states}
    result = []
    for state in states:
        edges = []
        for edge in state.edges:
            if edge.move is Move.PROCEED and edge.target != FINAL:
                begin = by_name[edge.target].edge(Move.BEGIN)
                assert begin is not None
                edge = replace(edge, formula=(*edge.formula, *begin.formula))
            edges.append(edge)
        result.append(replace(state, edges=tuple(edges)))
    return result


def _conjoined(states: list[State], text: str, wanted: Callable[[int, NfabEdge], bool]) -> list[State]:
    """One more conjunct on the edges that are wanted, by their state's place among all and by themselves."""
    return [
        replace(
            state,
            edges=tuple(
                replace(edge, formula=(*edge.formula, text)) if wanted(place, edge) else edge for edge in state.edges
            ),
        )
        for place, state in enumerate(states)
    ]


def _element(state: State, variable: Variable) -> str:
    return state.name if variable.kleene else variable.name


def _equivalences(state: State, clause: Clause, place: int) -> list[str]:
    """The equivalence tests in canonical form: each event agrees with the first one of the match."""
    start = clause.positive[0]
    first = f"{start.name}[1]" if start.kleene else start.name
    name = _element(state, clause.positive[place])
    return [] if name == first else [f"{name}.{attribute} = {first}.{attribute}" for attribute in clause.agree_on]


TIMESTAMP = "timestamp"


@dataclass(frozen=True, order=True)
class Value:
    """One column of the value vector: of the variable at a place in the chain, instantiated there.

    Attributes
    ----------
    how
        How it is got, as in `words`: an attribute of the first or of the newest event (of a single variable, both are
        its event), how many events a list has, a running aggregate (`WORD_OF_CELL`: all that its next value is computed
        from), or the list itself, for conditions that read every element of a list that has been left.
    """

    variable: int
    how: int
    attribute: str = ""
    function: str = ""


def value_vector(pattern: Pattern, clause: Clause) -> list[list[Value]]:
    """The columns that two runs in the state of each variable of a chain must agree on to be merged.

    They are those that are bound there and read by the state's edges or those of later states: what the paper's masks
    `M_q OR M_(q+1) OR ...` select, without what is not yet bound; by the variable that instantiates them.
    """
    places = range(len(clause.positive))
    place_of = {variable.name: place for place, variable in enumerate(clause.positive)}
    relevant: list[set[Value]] = [set() for _ in places]
    for conjunct in clause.conjuncts:
        if not conjunct.variables or not conjunct.variables <= place_of.keys():
            continue
        last = last_variable(conjunct, clause)
        read = tuple(mentions(conjunct.atoms))
        for state in places[: last + 1]:
            if state == last and not _read_again(conjunct, clause, last):
                continue
            for node in read:
                if place_of[node.variable] <= state:
                    growing = place_of[node.variable] == last and not _reads_pairs(read, node.variable)
                    relevant[state].update(_values(node, place_of, clause, growing=growing))
    if not earlier_is_before(pattern.ties):
        # A later variable begins after the newest event; of one that is left, nothing of this is asked any more.
        for state in places[:-1]:
            relevant[state].add(Value(state, at.VALUE_OF_NEWEST, TIMESTAMP))
    return [sorted(own) for own in relevant]


def _read_again(conjunct: Conjunct, clause: Clause, last: int) -> bool:
    """Return whether a run in the state of the last variable will test it again, as its list grows or is left."""
    variable = clause.positive[last]
    if not variable.kleene:
        return False
    own = [node for node in mentions(conjunct.atoms) if node.variable == variable.name]
    return any(not isinstance(node, Reference) or node.element is not Element.FIRST for node in own)


def _reads_pairs(read: tuple[Mention, ...], variable: str) -> bool:
    """Return whether a conjunct compares elements of a growing list with other elements of it, or with all of it."""
    own = [node for node in read if node.variable == variable]
    whole = any(map(reads_whole_list, own))
    each = any(isinstance(node, Reference) and node.element is Element.EACH for node in own)
    indexed = any(
        (isinstance(node, Reference) and node.element in (Element.CURRENT, Element.PREVIOUS))
        or (isinstance(node, Aggregate) and node.prefix)
        for node in own
    )
    return whole + each + indexed > 1


def _values(node: Mention, place_of: dict[str, int], clause: Clause, *, growing: bool) -> tuple[Value, ...]:
    """The values that a conjunct reads of a variable; of a list that still grows, those beside the new element."""
    place = place_of[node.variable]
    if isinstance(node, Length):
        return (Value(place, at.LENGTH_OF_LIST),)
    if isinstance(node, Aggregate):
        if node.function in ("first", "last"):
            end = at.VALUE_OF_FIRST if node.function == "first" else at.VALUE_OF_NEWEST
            return (Value(place, end, node.attribute),)
        if node.function == "median" or (node.prefix and not growing):
            return (Value(place, at.WHOLE_OF_SLOT),)
        return (Value(place, at.WORD_OF_CELL, node.attribute, node.function),)
    if not clause.positive[place].kleene or node.element is Element.FIRST:
        return (Value(place, at.VALUE_OF_FIRST, node.attribute),)
    if reads_whole_list(node):
        return (Value(place, at.VALUE_OF_NEWEST, node.attribute),)
    if not growing:
        return (Value(place, at.WHOLE_OF_SLOT),)
    if node.element is Element.PREVIOUS:
        return (Value(place, at.VALUE_OF_NEWEST, node.attribute),)
    return ()


def vector_words(pattern: Pattern, clause: Clause, program: Program, merges: bool) -> tuple[Array, Array, list[Array]]:
    """The words of the values that runs in the state of each variable must agree on; of none where nothing is merged.

    Returns
    -------
    words, starts : Array
        int64: `VALUE_WORDS` of each value; those of variable v are from `starts[v]` to `starts[v + 1]`.
    columns : list of Array
        What the words point to.
    """
    columns: list[Array] = []
    vector = value_vector(pattern, clause) if merges else [[] for _ in clause.positive]
    found = [[word for value in own for word in _words(value, clause, program, columns)] for own in vector]
    words = np.array([word for own in found for value in own for word in value] or [0], np.int64)
    return words, np.cumsum([0, *map(len, found)]).astype(np.int64), columns


def _words(value: Value, clause: Clause, program: Program, columns: list[Array]) -> list[tuple[int, int, int, int]]:
    variable = clause.positive[value.variable]
    if value.how == at.WORD_OF_CELL:
        return _aggregate_words(value, variable.event_type, program)
    if value.attribute:
        columns.append(identity_codes(program.events, value.attribute))
    return [(value.how, value.variable, address(columns[-1]) if value.attribute else 0, int(variable.kleene))]


def _aggregate_words(value: Value, of: EventType, program: Program) -> list[tuple[int, int, int, int]]:
    """The words of a cell that the next value of an aggregate is computed from."""
    whole = program.events.column(value.attribute).type is ValueType.INT64
    found = program.accumulators.of(of, value.attribute, value.function, whole=whole)
    if found is None:
        return [(at.WHOLE_OF_SLOT, value.variable, 0, 1)]
    begin, size = found
    # Of an extreme or a sum, how many values there were matters only in that there were any.
    counted = at.WORD_OF_CELL if value.function in ("avg", "count", "stddev") else at.SIGN_OF_CELL
    hows = [counted, *[at.WORD_OF_CELL] * (size - 1)]
    return [(how, value.variable, word, 1) for word, how in enumerate(hows, begin)]


def identity_codes(events: PreparedEvents, attribute: str) -> Array:
    """int64: equal only for rows with the same value of an attribute (or both without one)."""

    def make() -> Array:
        column = events.column(attribute)
        if column.type is ValueType.FLOAT64_LIST:
            return np.arange(len(events), dtype=np.int64)
        if column.valid is not None:
            numbers = np.full(len(events), -1, np.int64)
            numbers[column.valid] = np.unique(column.values[column.valid], return_inverse=True)[1]
            return numbers
        if column.type is ValueType.FLOAT64:
            return np.ascontiguousarray(column.values).view(np.int64)
        return np.ascontiguousarray(column.values.astype(np.int64))

    return events.derive(("identity of values", attribute), make)
