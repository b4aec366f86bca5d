"""The questions that planning asks a snapshot about a clause, and the numbers that it makes of the answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, combinations

from cep_pipeline.patterns.conditions import Comparator, Comparison, Conjunct
from cep_pipeline.patterns.expressions import variables_of
from cep_pipeline.patterns.implications import Implications, implications_of
from cep_pipeline.patterns.normal_form import Clause, Variable, connected_parts
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.rewriting import time_spans
from cep_pipeline.planning.clause_statistics import (
    Agreement,
    ClauseStatistics,
    JointCondition,
    PlanCondition,
)
from cep_pipeline.planning.costs import kind_of
from cep_pipeline.statistics.joint import SMALLEST, ClauseTerms, ln_planned
from cep_pipeline.statistics.snapshot import LeafRate, Selectivity, StatisticsSnapshot
from cep_pipeline.statistics.terms import (
    agreeing_attributes,
    equal_classes,
    format_conjunct,
    leaf_of,
    positive_conjuncts,
)


def clause_statistics(pattern: Pattern, clause: Clause, snapshot: StatisticsSnapshot) -> ClauseStatistics:
    """Gather the numbers of a clause from a snapshot.

    Raises
    ------
    PlanError
        The snapshot does not know one of the leaves.

    Notes
    -----
    Nothing seen is not nothing to come: a rate of 0 is planned with as half an event in the span of the data, and a
    selectivity of 0 as half a pair of those tested, so that the rest of the plan is still decided by its numbers.
    """
    return ClauseQuestions(pattern, clause).statistics(snapshot)


class ClauseQuestions:
    """The questions that planning asks a snapshot about a clause.

    To write the keys of leaves and conditions takes longer than to read their numbers; whoever reads many snapshots,
    as checks of plans do, writes them once.
    """

    def __init__(self, pattern: Pattern, clause: Clause) -> None:
        self._pattern, self._clause = pattern, clause
        self._latest: tuple[StatisticsSnapshot, ClauseStatistics] | None = None
        # Of what is implied, planning has numbers of spans of time only.
        spans = bool(time_spans(clause))
        self._implied = implications_of(clause, pattern.window.time_us, pattern.ties) if spans else Implications({})
        self._position = {variable.name: index for index, variable in enumerate(clause.positive)}
        self._leaves = {name: leaf_of(pattern, clause, name).key for name in self._position}
        asked = [
            (one, format_conjunct(one), _UNKNOWN.selectivity(pattern, clause, one), kind_of(one, across=True))
            for one in positive_conjuncts(clause)
        ]
        # The conditions over positive variables in the order of the clause: variables, text, key with prior, kind.
        self.tested = [(frozenset(one.variables), text, prior, kind) for one, text, prior, kind in asked]
        self._conditions = [
            (
                tuple(sorted(self._position[name] for name in one.variables)),
                prior,
                is_equality(one),
                spans and one in self._implied.spans,
                kind,
            )
            for one, _, prior, kind in sorted(asked, key=lambda written: written[1])
        ]
        self._agreements = [
            self._pairs(attribute, [*self._position]) for attribute in agreeing_attributes(pattern, clause)
        ]
        # Each has the pairs that are written, and all pairs.
        self._equal = [
            ([*chain(*(self._pairs(attribute, pair) for pair in written))], self._pairs(attribute, names))
            for attribute, names, written in equal_classes(clause)
        ]
        self._window_us = pattern.window.time_us
        self._sequences = series_groups(clause)
        self._last = _last_in_order(clause)
        self._kleene = frozenset(self._position[variable.name] for variable in clause.positive if variable.kleene)

    def _pairs(self, attribute: str, names: Iterable[str]) -> dict[tuple[int, int], Selectivity]:
        """Return keys and priors of "the two agree on the attribute", by the positions of each pair of variables."""
        pairs = combinations(sorted(names, key=self._position.__getitem__), 2)
        return {
            (self._position[one], self._position[other]): _UNKNOWN.agreement(
                self._pattern, self._clause, attribute, one, other
            )
            for one, other in pairs
        }

    def statistics(self, snapshot: StatisticsSnapshot) -> ClauseStatistics:
        """The numbers of `clause_statistics`; those of the latest snapshot are kept."""
        if self._latest is None or self._latest[0] is not snapshot:
            self._latest = snapshot, self._ask(snapshot)
        return self._latest[1]

    def _ask(self, snapshot: StatisticsSnapshot) -> ClauseStatistics:
        events = [
            max(planned_events_in_window(self._pattern, snapshot, self.rate(name, snapshot)), SMALLEST)
            for name in self._leaves
        ]
        ln_events = ln_instances = tuple(map(math.log, events))
        if self._kleene:
            ln_instances = tuple(
                self._ln_lists(place, one, number, snapshot) if one.kleene else ln
                for place, (one, number, ln) in enumerate(zip(self._clause.positive, events, ln_events, strict=True))
            )
        ln_selectivities = [_ln_known(prior, snapshot) for _, prior, *_ in self._conditions]
        joints = self._joints(snapshot) if snapshot.joints else ()
        if self._implied.narrowed and self._window_us is not None:
            joints += self._gaps(self._window_us, ln_selectivities)
        if not self._pattern.strategy.skips:
            joints += self._neighbours(snapshot)
        for written, pairs in self._equal:
            joints += _equal_together(written, {pair: _ln_known(prior, snapshot) for pair, prior in pairs.items()})
        last = self._last
        if last is None:
            last = last_so_far(self._pattern.name, [*self._position], snapshot)
        conditions = zip(self._conditions, ln_selectivities, strict=True)
        return ClauseStatistics(
            names=tuple(self._position),
            ln_instances=ln_instances,
            conditions=tuple(
                PlanCondition(places, share, equal, span, kind) for (places, _, equal, span, kind), share in conditions
            ),
            agreements=tuple(_agreement(pairs, len(events), snapshot) for pairs in self._agreements),
            sequences=self._sequences,
            joints=joints,
            last=last,
            kleene=self._kleene,
            ln_events=ln_events,
        )

    def _joints(self, snapshot: StatisticsSnapshot) -> tuple[JointCondition, ...]:
        terms = self._terms.by(snapshot)
        places = (tuple(sorted(map(self._position.__getitem__, terms.names_of(one)))) for one in terms.increments)
        return tuple(map(JointCondition, places, terms.increments.values()))

    def _gaps(self, window_us: int, ln_selectivities: Sequence[float]) -> tuple[JointCondition, ...]:
        written: dict[tuple[int, ...], float] = {}
        for (places, _, _, span, _), ln_share in zip(self._conditions, ln_selectivities, strict=True):
            if span:
                written[places] = written.get(places, 0.0) + ln_share
        return _implied_gaps(self._clause, window_us, self._implied, written)

    def _ln_lists(self, place: int, variable: Variable, events: float, snapshot: StatisticsSnapshot) -> float:
        """The logarithm of the number of lists of a variable; those of neighbours are within the events that agree."""
        if not self.of_neighbours:
            return ln_lists(variable, events)
        shares = (
            [_ln_known(prior, snapshot) for pair, prior in one.items() if place in pair] for one in self._agreements
        )
        ln_agreeing = sum(min(ln, default=0.0) for ln in shares)
        return ln_lists(variable, max(events * math.exp(ln_agreeing), SMALLEST), neighbours=True) - ln_agreeing

    def _neighbours(self, snapshot: StatisticsSnapshot) -> tuple[JointCondition, ...]:
        """The factors of variables that follow one another where a run passes over nothing: no event is between theirs.

        Of the N events in a window that agree with a run, N - 1 pairs are neighbours, of N (N - 1) / 2 in order.
        """
        window = planned_events_in_window(self._pattern, snapshot, LeafRate("", snapshot.events_per_s))
        before, joints = self._clause.precedence, []
        for one, other in combinations(self._position, 2):
            if (one, other) in before and not any((one, k) in before and (k, other) in before for k in self._position):
                pair = self._position[one], self._position[other]
                agreeing = sum(_ln_known(pairs[pair], snapshot) for pairs in self._agreements)
                joints.append(JointCondition(pair, min(math.log(2.0) - math.log(window) - agreeing, 0.0)))
        return tuple(joints)

    @cached_property
    def _terms(self) -> ClauseTerms:
        return ClauseTerms(self._pattern, self._clause, _UNKNOWN)

    def numbers(self, snapshot: StatisticsSnapshot) -> dict[str, float]:
        """Events a second and selectivities as planning takes them, by the keys of leaves and conditions.

        Raises
        ------
        PlanError
            The snapshot does not know one of the leaves.
        """
        rates = {key: planned_rate(snapshot, self.rate(name, snapshot)) for name, key in self._leaves.items()}
        asked = [prior for _, prior, *_ in self._conditions]
        asked += self._agreeing
        return rates | {prior.condition: math.exp(_ln_known(prior, snapshot)) for prior in asked}

    @property
    def _agreeing(self) -> list[Selectivity]:
        """The pairs that agree, by agreement or by equalities that follow from others: keys and priors."""
        return [
            prior for pairs in (*self._agreements, *(pairs for _, pairs in self._equal)) for prior in pairs.values()
        ]

    @property
    def of_neighbours(self) -> bool:
        """True if the strategy fills lists without a gap: their first and last events tell them."""
        return not self._pattern.strategy.forks

    def rate(self, name: str, snapshot: StatisticsSnapshot) -> LeafRate:
        """The arrival rate of a positive variable's leaf; PlanError where the snapshot does not know it."""
        return snapshot.by_leaf.get(self._leaves[name]) or snapshot.rate(self._pattern, self._clause, name)


def questions_of(patterns: Sequence[Pattern]) -> dict[str, tuple[ClauseQuestions, ...]]:
    """The questions to snapshots about each pattern, by its name."""
    return {pattern.name: tuple(ClauseQuestions(pattern, clause) for clause in pattern.clauses) for pattern in patterns}


_UNKNOWN = StatisticsSnapshot()
"""A snapshot that knows nothing: it answers the keys of conditions with their priors."""


def _ln_known(prior: Selectivity, snapshot: StatisticsSnapshot) -> float:
    return ln_planned_selectivity(snapshot.by_condition.get(prior.condition) or prior)


def is_equality(conjunct: Conjunct) -> bool:
    """True if a conjunct asks expressions of two variables to be equal, so that events can be sorted by them."""
    match conjunct.atoms:
        case (Comparison(Comparator.EQ, left, right),):
            sides = variables_of(left), variables_of(right)
            return len(sides[0]) == len(sides[1]) == 1 and sides[0] != sides[1]
    return False


def _last_in_order(clause: Clause) -> int | None:
    """The variable after which nothing comes in the clause's order."""
    names = [variable.name for variable in clause.positive]
    for place, name in enumerate(names):
        if all(other == name or (other, name) in clause.precedence for other in names):
            return place
    return None


def last_so_far(pattern: str, names: Sequence[str], snapshot: StatisticsSnapshot) -> int | None:
    """The variable that is mostly the last one in the matches so far (JQPG section 6.1)."""
    for profile in snapshot.output_profiles:
        if profile.pattern == pattern and list(profile.variables) == list(names) and profile.likely_last is not None:
            return names.index(profile.likely_last)
    return None


def planned_events_in_window(pattern: Pattern, snapshot: StatisticsSnapshot, rate: LeafRate) -> float:
    """Expected number of a leaf's events in one window, W r; in a window of n events, n times the leaf's share."""
    per_s = planned_rate(snapshot, rate)
    if pattern.window.time_us is not None:
        return per_s * pattern.window.time_us / 1e6
    assert pattern.window.events is not None
    return per_s / max(snapshot.events_per_s, per_s) * pattern.window.events


def planned_rate(snapshot: StatisticsSnapshot, rate: LeafRate) -> float:
    """Events a second that planning works with: where none was seen, half an event in the span of the data."""
    return rate.per_s if rate.per_s > 0 else 0.5 / snapshot.span_s


def ln_planned_selectivity(selectivity: Selectivity) -> float:
    """Logarithm of the selectivity that planning works with."""
    return ln_planned(selectivity.value, selectivity.tested)


def ln_lists(variable: Variable, events: float, *, neighbours: bool = False) -> float:
    """Return the logarithm of the number of lists of expected events.

    Of k events that is ln(2^k - 1), the non-empty lists of JQPG section 5.2, where the paper counts 2^k; for a variable
    `A{n,m} v[]` the sum of the binomial coefficients from n to m, of which the largest thousand are added up. Lists of
    neighbours begin and end anywhere, and leave out nothing between: k - n + 1 have n events, and k + k^2 / 2 are
    expected of all lengths where events come at random (the mean of K (K + 1) / 2 for a Poisson number K of mean k).

    Examples
    --------
    >>> three = Variable("k", "K", True, False, 0, minimum=2, maximum=3)
    >>> round(math.exp(ln_lists(three, 5.0)), 6)  # 10 and 10
    20.0
    >>> round(math.exp(ln_lists(three, 5.0, neighbours=True)), 6)  # 4 and 3
    7.0
    """
    if neighbours:
        return _ln_lists_of_neighbours(variable, events)
    if not variable.limits:
        return ln_any_lists(events)
    most = max(variable.minimum, math.ceil(events)) if variable.maximum is None else variable.maximum
    likely = min(max(int(events / 2), variable.minimum), most)
    lengths = range(max(variable.minimum, likely - 500), min(most, likely + 500) + 1)
    terms = [_ln_choices(events, length) for length in lengths]
    largest = max(terms)
    return largest + math.log(math.fsum(math.exp(term - largest) for term in terms))


def _ln_lists_of_neighbours(variable: Variable, events: float) -> float:
    if not variable.limits:
        return math.log(events + events * events / 2)
    least, most = variable.minimum, math.floor(events)
    if variable.maximum is not None:
        most = min(most, variable.maximum)
    lengths = most - least + 1
    if lengths < 1:
        return _ln_choices(events, least)
    return math.log(lengths * (events + 1 - (least + most) / 2))


def ln_any_lists(events: float) -> float:
    """Return the logarithm of the number of lists of any length, ln(2^k - 1)."""
    exponent = events * math.log(2)
    return exponent + math.log(-math.expm1(-exponent))


def _ln_choices(events: float, length: int) -> float:
    """Return the logarithm of the number of lists of a length; fewer than one where fewer events are expected."""
    if length > events:
        return length * math.log(events / length)
    return math.lgamma(events + 1) - math.lgamma(length + 1) - math.lgamma(events - length + 1)


def _agreement(pairs: Mapping[tuple[int, int], Selectivity], size: int, snapshot: StatisticsSnapshot) -> Agreement:
    matrix = [[0.0] * size for _ in range(size)]
    for (i, j), prior in pairs.items():
        matrix[i][j] = matrix[j][i] = _ln_known(prior, snapshot)
    return Agreement(tuple(tuple(row) for row in matrix))


def series_groups(clause: Clause) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The temporal order of the positive variables as the SEQ groups that nest to it.

    The order of a nested SEQ / AND pattern is series-parallel, and so is that of any of its variables: a set whose
    incomparable variables do not hang together is a SEQ of the components, one whose comparable variables do not is
    an AND of them.
    """
    position = {variable.name: index for index, variable in enumerate(clause.positive)}
    before = {(position[a], position[b]) for a, b in clause.precedence if a in position and b in position}
    groups: list[tuple[tuple[int, ...], ...]] = []
    pending = [tuple(range(len(position)))]
    while pending:
        members = pending.pop()
        if len(members) < 2:
            continue
        related = {(a, b) for a, b in combinations(members, 2) if (a, b) in before or (b, a) in before}
        parts = connected_parts(members, related)
        if len(parts) == 1:
            parts = connected_parts(members, set(combinations(members, 2)) - related)
            if len(parts) == 1:
                raise ValueError(f"the order of the variables {members} is not series-parallel")
            groups.append(tuple(parts))
        pending.extend(parts)
    return tuple(groups)


MOST_BOUNDED = 6
"""The most variables with bounds for which anything is worked out: each set of them has a number."""
_LITTLE = 1e-9


def _implied_gaps(
    clause: Clause, window_us: int, implied: Implications, written: Mapping[tuple[int, ...], float]
) -> tuple[JointCondition, ...]:
    """The factors of sets of variables that bounds on gaps imply, beyond the conditions that are written.

    If `b` is at most 5 seconds after `a`, and `c` at most 5 seconds after `b`, `c` is at most 10 seconds after `a`. The
    fused mechanism uses such a bound as it uses the window, so a plan that binds `b` last finds few pairs of `a` and
    `c`.

    A set of variables is expected to hold the bounds of the pairs of a minimum spanning tree: those that leave least.
    Each pair's share is that of independent arrivals; of a bound that is written, it is the measured one. What the
    written conditions of a set say already is taken off.

    Parameters
    ----------
    written
        For the positions of two variables, the logarithm of the measured share of the written bounds between them.
    """
    if not implied.narrowed:
        return ()
    position = {variable.name: place for place, variable in enumerate(clause.positive)}
    most: dict[tuple[int, int], float] = {}
    said = (span for found in implied.spans.values() for span in found)
    for span in (*said, *implied.narrowed):
        if span.first in position and span.second in position:
            pair = position[span.first], position[span.second]
            most[pair] = min(most.get(pair, window_us), span.most_us)
    bounded = sorted({place for pair in most for place in pair})
    if len(bounded) > MOST_BOUNDED:
        return ()
    before = {(position[one], position[other]) for one, other in clause.precedence if {one, other} <= position.keys()}
    shares = {
        pair: min(_ln_share(*pair, most, before, window_us), written.get(pair, 0.0))
        for pair in combinations(bounded, 2)
        if pair in most or pair[::-1] in most
    }
    found = _corrections(bounded, written, lambda chosen: _ln_tree(chosen, shares))
    return tuple(JointCondition(places, ln_ratio, in_range=True) for places, ln_ratio in found.items())


def _corrections(
    members: Sequence[int], written: Mapping[tuple[int, ...], float], ln_expected: Callable[[Sequence[int]], float]
) -> dict[tuple[int, ...], float]:
    """The factors of sets, by their logarithms, that make of what is written of pairs what is expected of each set."""
    found: dict[tuple[int, ...], float] = {}
    for size in range(2, len(members) + 1):
        for chosen in combinations(members, size):
            inside = frozenset(chosen)
            known = sum(ln_ratio for smaller, ln_ratio in found.items() if inside.issuperset(smaller))
            known += sum(ln_share for pair, ln_share in written.items() if inside.issuperset(pair))
            ln_ratio = ln_expected(chosen) - known
            if abs(ln_ratio) > _LITTLE:
                found[chosen] = ln_ratio
    return found


def _equal_together(
    written: Sequence[tuple[int, int]], shares: Mapping[tuple[int, int], float]
) -> tuple[JointCondition, ...]:
    """The factors of sets of variables that equalities of one attribute join.

    What is equal to one event of a class is equal to all of it, so the shares of three equalities of three events are
    not multiplied: as of an `Agreement`, of each further variable only the most selective pair with the earlier ones
    counts. So a further equality never raises an estimate, though it makes two classes one, or all of it agreement.

    Parameters
    ----------
    written
        The pairs of positions that conditions ask to be equal.
    shares
        The logarithm of the share of all pairs of the class that are equal.
    """
    members = sorted({place for pair in written for place in pair})

    def ln_expected(chosen: Sequence[int]) -> float:
        parts = connected_parts(chosen, (pair for pair in written if {*pair} <= {*chosen}))
        return sum(
            min((shares[earlier, place] for earlier in part[:number]), default=0.0)
            for part in parts
            for number, place in enumerate(part)
        )

    found = _corrections(members, {pair: written.count(pair) * shares[pair] for pair in written}, ln_expected)
    return tuple(JointCondition(places, ln_ratio, equality=True) for places, ln_ratio in found.items())


def _ln_share(
    one: int, other: int, most: Mapping[tuple[int, int], float], before: set[tuple[int, int]], window_us: int
) -> float:
    """The share of the pairs in window and order that are within their bounds, by its logarithm."""

    def below(gap: float) -> float:
        """The number of pairs with at most this gap, up to a factor: pairs of a gap g are as many as W - |g|."""
        gap = max(-window_us, min(gap, window_us))
        return (window_us**2 + math.copysign(2 * window_us * abs(gap) - gap**2, gap)) / 2

    least, greatest = (0 if (one, other) in before else -window_us, 0 if (other, one) in before else window_us)
    low, high = max(least, -most.get((other, one), window_us)), min(greatest, most.get((one, other), window_us))
    share = (below(high) - below(low)) / (below(greatest) - below(least))
    return math.log(max(share, SMALLEST))


def _ln_tree(chosen: Sequence[int], shares: Mapping[tuple[int, int], float]) -> float:
    """The sum of the shares along a minimum spanning tree, or along those of the parts that hang together."""
    part = {place: place for place in chosen}
    total = 0.0
    for ln_share, pair in sorted((shares[pair], pair) for pair in combinations(chosen, 2) if pair in shares):
        one, other = (part[place] for place in pair)
        if one != other:
            total += ln_share
            part = {place: other if own == one else own for place, own in part.items()}
    return total
