"""Partial matches extended by the lists of one Kleene variable: every non-empty sub-list of its candidates.

Lists grow by one element a step, all partial matches of a piece together, depth first where they become many. A list
that breaks a condition which every longer list would break too is not grown: `sum(v[].x) < 10` where no x is negative,
`v.LEN = 3`, or `max(v[].x) <= a.x`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from cep_pipeline.detection.kleene.bindings import BindingRules, Bindings
from cep_pipeline.detection.limits import go_on
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import Bound, Lists, Uses, holds_over_lists, pieces, ranges, take
from cep_pipeline.patterns.conditions import Between, Comparator, Comparison, Conjunct
from cep_pipeline.patterns.expressions import Aggregate, Element, Length, variables_of
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import clause_cache_of

CANDIDATES_AT_ONCE = 1 << 18
"""Candidates of partial matches, or next elements of lists, that are held at once."""


@dataclass(frozen=True)
class ListConditions:
    """The conjuncts over a Kleene variable and variables bound before it, by when they can be decided.

    The limits of `A{n,m} v[]` are not among them: whoever makes lists looks at the variable for these.

    Attributes
    ----------
    leaf
        On one event alone: they choose the variable's candidates.
    elements
        On one element, and variables bound before.
    adjacent
        On an element and the one before it, and variables bound before.
    growing
        Other ones that a longer list cannot make true again.
    whole
        Those that need the whole list.
    """

    leaf: tuple[Conjunct, ...]
    elements: tuple[Conjunct, ...]
    adjacent: tuple[Conjunct, ...]
    growing: tuple[Conjunct, ...]
    whole: tuple[Conjunct, ...]

    @classmethod
    def of(cls, clause: Clause, variable: str, bound: frozenset[str]) -> ListConditions:
        """The conditions of a variable, where others are bound already; divided once for all slices."""
        key = "list conditions", variable, bound
        return clause_cache_of(clause).once(key, lambda: cls._divided(clause, variable, bound))

    @classmethod
    def _divided(cls, clause: Clause, variable: str, bound: frozenset[str]) -> ListConditions:
        found: dict[str, list[Conjunct]] = {kind: [] for kind in ("leaf", "elements", "adjacent", "growing", "whole")}
        limits = clause.by_name[variable].limits
        for conjunct in clause.conjuncts:
            if conjunct in limits or variable not in conjunct.variables or not conjunct.variables <= bound | {variable}:
                continue
            uses = Uses.of(conjunct)
            kinds = uses.kinds[variable]
            if kinds == {Element.EACH}:
                found["leaf" if conjunct.variables == {variable} else "elements"].append(conjunct)
            elif kinds <= {Element.CURRENT, Element.PREVIOUS}:
                found["adjacent"].append(conjunct)
            else:
                found["whole" if variable in uses.whole else "growing"].append(conjunct)
        return cls(**{kind: tuple(conjuncts) for kind, conjuncts in found.items()})


def limit_in(
    conjunct: Conjunct, name: str, course_of: Callable[[Length | Aggregate], tuple[bool, bool]]
) -> Conjunct | None:
    """The part of a condition on a whole list that a longer list cannot make true again; None where there is none.

    Parameters
    ----------
    course_of
        Returns whether a value of the list never falls as it grows, and whether it never rises.
    """
    match conjunct.atoms:
        case (Comparison(comparator, left, right),):
            sides = [(left, comparator, right), (right, comparator.mirror, left)]
        case (Between(expression, low, high, False),):
            sides = [(expression, Comparator.LE, high), (expression, Comparator.GE, low)]
        case _:
            return None
    for side, comparator, other in sides:
        if name in variables_of(other) or not isinstance(side, Length | Aggregate) or side.variable != name:
            continue
        never_falls, never_rises = course_of(side)
        if never_falls and comparator in (Comparator.LT, Comparator.LE, Comparator.EQ):
            kept = Comparator.LT if comparator is Comparator.LT else Comparator.LE
        elif never_rises and comparator in (Comparator.GT, Comparator.GE, Comparator.EQ):
            kept = Comparator.GT if comparator is Comparator.GT else Comparator.GE
        else:
            continue
        whole = kept is comparator and not isinstance(conjunct.atoms[0], Between)
        return conjunct if whole else Conjunct((Comparison(kept, side, other),))
    return None


def possible_course(side: Length | Aggregate) -> tuple[bool, bool]:
    """The most that can be true of a value of the list: a sum never falls, or never rises, by the signs in the data."""
    if isinstance(side, Length) or side.function in ("count", "max"):
        return True, False
    return side.function == "sum", side.function in ("sum", "min")


def course_among(events: PreparedEvents, leaf: Array, side: Length | Aggregate) -> tuple[bool, bool]:
    """Return whether a value of a list never falls, and whether it never rises, by the values of its candidates."""
    never_falls, never_rises = possible_course(side)
    if isinstance(side, Length) or side.function == "count" or not (never_falls or never_rises):
        return never_falls, never_rises
    column = events.column(side.attribute)
    if column.valid is not None and not column.valid[leaf].all():
        return False, False  # a value appears with the first element that is not null
    if side.function != "sum":
        return never_falls, never_rises
    values = column.values[leaf]
    return not (values < 0).any(), not (values > 0).any()


@dataclass(frozen=True, eq=False)
class ListCandidates:
    """The candidates of a Kleene variable for each of some partial matches.

    Attributes
    ----------
    bindings
        The partial matches.
    anchors
        The first element of each list, where that is chosen already.
    offsets, rows
        Partial match m has the candidates `rows[offsets[m] : offsets[m + 1]]`, ascending: for its list, or for the
        elements behind its anchor.
    """

    bindings: Bindings
    anchors: Array | None
    offsets: Array
    rows: Array

    def __len__(self) -> int:
        return len(self.bindings)


class Extension:
    """The extension of a clause's partial matches by one Kleene variable.

    Attributes
    ----------
    leaf
        The rows of the events that may be elements, by the conditions on one event alone.
    tested, passed, evaluations
        Lists tried and passed so far, and tests of a conjunct on an event, a pair of them or a list.
    """

    def __init__(
        self, rules: BindingRules, variable: Variable, bound: frozenset[str], first_row: int, end_row: int
    ) -> None:
        """Candidates have rows in [first_row, end_row)."""
        self.rules, self.variable, self.name = rules, variable, variable.name
        self.conditions = ListConditions.of(rules.clause, variable.name, bound)
        leaf = rules.events.leaf_rows(variable.event_type)
        leaf = leaf[np.searchsorted(leaf, first_row) : np.searchsorted(leaf, end_row)]
        self.tested = self.passed = self.evaluations = 0
        for conjunct in self.conditions.leaf:
            leaf = leaf[self._holds(conjunct, {self.name: _as_lists(leaf[:, np.newaxis])}, len(leaf))]
        self.leaf = leaf
        limits = {
            conjunct: limit
            for conjunct in self.conditions.whole
            if (limit := limit_in(conjunct, self.name, self._course_of))
        }
        if limits:
            growing = (*self.conditions.growing, *limits.values())
            whole = tuple(conjunct for conjunct in self.conditions.whole if limits.get(conjunct) != conjunct)
            self.conditions = replace(self.conditions, growing=growing, whole=whole)

    def _course_of(self, side: Length | Aggregate) -> tuple[bool, bool]:
        return course_among(self.rules.events, self.leaf, side)

    def extended(self, bindings: Bindings, anchors: Array | None = None) -> Iterator[Bindings]:
        """The partial matches with every list that obeys the rules and conditions, in pieces of bounded size.

        Parameters
        ----------
        anchors
            The first element of each list, as a row; it is an event of the partial match already.
        """
        for candidates in self.candidates(bindings, anchors):
            for owner, chains in self._lists(candidates):
                self.tested += len(owner)
                found = candidates.bindings.take(owner).with_list(self.name, _as_lists(chains))
                found = self._that_hold(found, self.conditions.whole)
                self.passed += len(found)
                if len(found):
                    yield found

    def _places(self, bindings: Bindings, anchors: Array | None) -> tuple[Array, Array]:
        """The places in the leaf of each partial match's candidates, whatever the conditions say."""
        begin, end = self.rules.rows_in_window(bindings)
        if anchors is not None:
            begin = np.maximum(begin, anchors + 1)
        return self.rules.places(self.leaf, bindings, self.variable, begin, end)

    def candidates(self, bindings: Bindings, anchors: Array | None = None) -> Iterator[ListCandidates]:
        """The candidates of the partial matches, in pieces of bounded size."""
        begin, end = self._places(bindings, anchors)
        for start, stop in pieces(end - begin + 1, CANDIDATES_AT_ONCE):
            part = bindings.between(start, stop)
            sizes = (end - begin)[start:stop]
            owner = np.repeat(np.arange(stop - start, dtype=np.int64), sizes)
            rows = self.leaf[ranges(begin[start:stop], sizes)]
            keep = self.rules.distinct_and_agreeing(part, self.variable, owner, rows)
            owner, rows = owner[keep], rows[keep]
            for conjunct in self.conditions.elements:
                bound = {**take(part.bound, owner), self.name: _as_lists(rows[:, np.newaxis])}
                keep = self._holds(conjunct, bound, len(owner))
                owner, rows = owner[keep], rows[keep]
            offsets = np.zeros(stop - start + 1, np.int64)
            np.cumsum(np.bincount(owner, minlength=stop - start), out=offsets[1:])
            yield ListCandidates(part, None if anchors is None else anchors[start:stop], offsets, rows)

    def steps(self, candidates: ListCandidates, owner: Array, chosen: Array) -> Array:
        """Return whether each candidate may follow an element directly, by the conditions on adjacent elements.

        Parameters
        ----------
        owner
            The partial match of each pair of elements.
        chosen
            Rows, shape (n, 2): the element and the candidate.
        """
        holds = np.ones(len(owner), dtype=bool)
        if self.conditions.adjacent:
            bound = {**take(candidates.bindings.bound, owner), self.name: _as_lists(chosen)}
            for conjunct in self.conditions.adjacent:
                holds &= self._holds(conjunct, bound, len(owner))
        return holds

    def _lists(self, candidates: ListCandidates) -> Iterator[tuple[Array, Array]]:
        """(partial match of each list, lists as rows of shape (n, length)): all that may become a match."""
        if candidates.anchors is None:
            sizes = np.diff(candidates.offsets)
            owner = np.repeat(np.arange(len(candidates), dtype=np.int64), sizes)
            following, chains = np.arange(1, len(owner) + 1), candidates.rows[:, np.newaxis]
        else:
            owner = np.arange(len(candidates), dtype=np.int64)
            following, chains = candidates.offsets[:-1], candidates.anchors[:, np.newaxis]
        waiting = []
        grown = self._growing(candidates, owner, following, chains)
        while True:
            owner, following, chains = grown
            if len(owner):
                if self.variable.minimum <= chains.shape[1]:
                    yield owner, chains
                if self.variable.maximum is None or chains.shape[1] < self.variable.maximum:
                    waiting.append(grown)
            if not waiting:
                return
            go_on()
            owner, following, chains = waiting.pop()
            sizes = candidates.offsets[owner + 1] - following
            cuts = [stop for _, stop in pieces(sizes, CANDIDATES_AT_ONCE)]
            if len(cuts) > 1:
                rest = slice(cuts[0], None)
                waiting.append((owner[rest], following[rest], chains[rest]))
                owner, following, chains, sizes = (part[: cuts[0]] for part in (owner, following, chains, sizes))
            grown = self._grown(candidates, owner, following, chains, sizes)

    def _grown(
        self, candidates: ListCandidates, owner: Array, following: Array, chains: Array, sizes: Array
    ) -> tuple[Array, Array, Array]:
        """Each list with each candidate behind it."""
        grows = np.repeat(np.arange(len(owner)), sizes)
        places = ranges(following, sizes)
        rows = candidates.rows[places]
        measured = self.rules.window.of_row
        keep = measured[rows] - measured[chains[grows, 0]] <= self.rules.window.width
        grows, places, rows = grows[keep], places[keep], rows[keep]
        keep = self.steps(candidates, owner[grows], np.stack((chains[grows, -1], rows), axis=1))
        grows, places, rows = grows[keep], places[keep], rows[keep]
        longer = np.concatenate((chains[grows], rows[:, np.newaxis]), axis=1)
        return self._growing(candidates, owner[grows], places + 1, longer)

    def _growing(
        self, candidates: ListCandidates, owner: Array, following: Array, chains: Array
    ) -> tuple[Array, Array, Array]:
        """The lists whose conditions hold that do not wait for the whole list, and that may become long enough."""
        if chains.shape[1] < self.variable.minimum:
            keep = chains.shape[1] + candidates.offsets[owner + 1] - following >= self.variable.minimum
            owner, following, chains = owner[keep], following[keep], chains[keep]
        for conjunct in self.conditions.growing:
            bound = {**take(candidates.bindings.bound, owner), self.name: _as_lists(chains)}
            keep = self._holds(conjunct, bound, len(owner))
            owner, following, chains = owner[keep], following[keep], chains[keep]
        return owner, following, chains

    def _holds(self, conjunct: Conjunct, bound: Bound, count: int) -> Array:
        self.evaluations += count
        return holds_over_lists(conjunct, self.rules.events, bound, count)

    def _that_hold(self, bindings: Bindings, conjuncts: tuple[Conjunct, ...]) -> Bindings:
        for conjunct in conjuncts:
            holds = self._holds(conjunct, bindings.bound, len(bindings))
            if not holds.all():
                bindings = bindings.take(np.flatnonzero(holds))
        return bindings


def _as_lists(chains: Array) -> Lists:
    """Lists of one length, as rows of shape (n, length)."""
    count, length = chains.shape
    starts = np.arange(0, count * length, length, dtype=np.int64)
    return Lists(starts, np.full(count, length, np.int64), np.ascontiguousarray(chains).reshape(-1))
