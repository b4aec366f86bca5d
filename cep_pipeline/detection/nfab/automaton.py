"""The NFA^b of a clause, compiled by the six steps of SIGMOD'08 section 3.2: states, edges and their formulas.

It is what `explain` prints and what the kernels run. A formula is kept as its conjuncts, in the words of the language;
the kernels test the same conjuncts at the same edges.

References
----------
J. Agrawal, Y. Diao, D. Gyllstrom, N. Immerman: Efficient pattern matching over event streams. SIGMOD 2008, section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from cep_pipeline.detection.conditions.groups import Mention, mentions
from cep_pipeline.language.formatter import format_type, format_window
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Aggregate, Element, Length, Reference
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.patterns.structure import type_alternatives
from cep_pipeline.slices.order import earlier_is_before
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
