"""The eager NFA of a clause (DEBS'15 section 3): every event is tried on every instance when it arrives.

The paper compiles a sequence into a chain. A clause has a partial order: its states are the sets of bound variables
that the order allows, each set with all that comes before its members, because events are taken as they arrive. For a
sequence they are the paper's chain. At a state that has bound a Kleene variable and nothing behind it, an edge back to
the state takes further elements. Ignore edges are everywhere: an instance stays when an event makes a new one of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from cep_pipeline.detection.instances.groups import Moment
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern

MOST_STATES = 1 << 14
"""Sets of bound variables that an automaton may have: an AND of 14 variables, a sequence of any length."""


@dataclass(frozen=True)
class EagerEdge:
    """A take edge.

    Attributes
    ----------
    source, target
        Numbers of states, equal where the edge appends to a list.
    variable
        The variable that takes the event.
    before, after
        What an instance knows at the source and at the target.
    directly_before
        Bound variables that the event must come after, without those that another one of them comes after.
    """

    source: int
    target: int
    variable: str
    before: Moment
    after: Moment
    directly_before: tuple[str, ...]

    @property
    def appends(self) -> bool:
        """True if the edge takes a further element of a list."""
        return self.source == self.target


@dataclass(frozen=True)
class EagerAutomaton:
    """The eager NFA of a clause.

    Attributes
    ----------
    states
        What is bound in each state; state 0 has bound nothing, the last one everything.
    edges
        All take edges.
    """

    states: tuple[frozenset[str], ...]
    edges: tuple[EagerEdge, ...]

    def is_final(self, state: int) -> bool:
        """Return whether an instance in the state is a match, if its lists are left as they are."""
        return state == len(self.states) - 1

    def goes_on(self, state: int) -> bool:
        """Return whether an instance in the state can take a further event."""
        return any(edge.source == state for edge in self.edges)


def compile_automaton(pattern: Pattern, clause: Clause) -> EagerAutomaton:
    """Compile a clause into its eager NFA.

    Raises
    ------
    UnsupportedPattern
        It has more than `MOST_STATES` states.
    """
    names = [variable.name for variable in clause.positive]
    before = {name: frozenset(variable.name for variable in clause.predecessors(name)) for name in names}
    numbers: dict[frozenset[str], int] = {frozenset(): 0}
    waiting = [frozenset[str]()]
    while waiting:  # by size, so that the complete set comes last
        following: dict[frozenset[str], None] = {}
        for state in waiting:
            for name in names:
                if name not in state and before[name] <= state:
                    following[state | {name}] = None
        for state in following:
            numbers[state] = len(numbers)
        if len(numbers) > MOST_STATES:
            feature = f"an automaton of more than {MOST_STATES:,} states"
            hint = "join fewer variables by AND, or use mechanism 'fused'"
            raise UnsupportedPattern("eager_nfa", feature, pattern=pattern.name, hint=hint)
        waiting = list(following)
    edges = []
    for state, number in numbers.items():
        for name in names:
            if name not in state and before[name] <= state:
                target = state | {name}
                latest = tuple(one for one in before[name] if not any(one in before[other] for other in before[name]))
                edges.append(
                    EagerEdge(number, numbers[target], name, _moment(clause, state), _moment(clause, target), latest)
                )
            elif name in state and _grows(clause, state, name):
                moment = _moment(clause, state)
                edges.append(EagerEdge(number, number, name, moment, moment, ()))
    return EagerAutomaton(tuple(numbers), tuple(edges))


def _grows(clause: Clause, state: frozenset[str], name: str) -> bool:
    """Return whether the list of a bound variable takes further elements: nothing behind it is bound."""
    return clause.by_name[name].kleene and not any(variable.name in state for variable in clause.successors(name))


def _moment(clause: Clause, state: frozenset[str]) -> Moment:
    return Moment(state, frozenset(name for name in state if not _grows(clause, state, name)))
