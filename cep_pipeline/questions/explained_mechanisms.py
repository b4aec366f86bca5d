"""The mechanism of each pattern, the reason for it, and how matches are found and counted, in words for `explain`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cep_pipeline.detection.counting.choice import binds_lists
from cep_pipeline.detection.kleene.list_conditions import ListConditions, limit_in, possible_course
from cep_pipeline.detection.mechanisms import MECHANISMS, Executor, Route, Sink, choose_mechanisms
from cep_pipeline.detection.output_policy import decides_in_order, has_output_policy
from cep_pipeline.detection.outputs import route_of
from cep_pipeline.detection.preferred.search import is_searched
from cep_pipeline.detection.preferred.sweep import steps_of
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.language.checks import no_events_text
from cep_pipeline.patterns.composing import plain_pattern
from cep_pipeline.patterns.conditions import Conjunct, expressions_of
from cep_pipeline.patterns.expressions import Aggregate, Reference, ValueType, walk
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.patterns.rewriting import TimeSpan
from cep_pipeline.slices.keys import keys_of
from cep_pipeline.slices.views import implied_by
from cep_pipeline.statistics.terms import format_conjunct

MOST_FACTS = 4
"""The most facts that are listed of those that follow from a pattern's conditions; of more, their number is told."""


def explained_choice(patterns: Sequence[Pattern], mechanism: str | None = None) -> dict[str, str]:
    """Each pattern's mechanism and the reason for it, by the pattern's name; `Plan.explain` prints it.

    It also says how matches are counted where that is not by finding them; of a pattern with Kleene variables whether
    they are listed to be counted or compressed; which equalities are used as keys, and which conditions no events
    fulfil; and of one that `fused` runs what follows from its conditions and is used beside them.

    Raises
    ------
    InputError, UnsupportedPattern
        As `choose_mechanisms`.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}})
    >>> text = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.kind < b.kind } WITHIN 1 second"
    >>> explained_choice(cep.parse_patterns(text, schema))["pattern_1"]
    'nfab, the fastest that runs it: no faster one runs the strategy skip_till_next_match'
    """
    chosen = choose_mechanisms(patterns, mechanism)
    explained = {}
    for pattern in map(plain_pattern, patterns):
        name = chosen[pattern.name]
        reason = _reason(pattern, name) if mechanism is None else "as asked for"
        implied = [implied_by(clause, pattern.window, pattern.ties) for clause in pattern.clauses]
        if all(found.contradiction for found in implied):
            explained[pattern.name] = f"{name}, {reason}; it has no matches: {no_events_text(pattern, implied)}"
            continue
        rewritten = f"{_keys(pattern, name)}{_implied(pattern, name)}"
        explained[pattern.name] = f"{name}, {reason}{_on_counts(pattern, name)}{rewritten}"
    return explained


def _keys(pattern: Pattern, mechanism: str) -> str:
    """Name the equalities by which events are divided or sorted, beside those that are written `[k]`."""
    facts: dict[str, None] = {}
    types = {**dict(pattern.attributes), "timestamp": ValueType.INT64, "seq": ValueType.INT64}
    for written, clause in zip(pattern.written_clauses, pattern.clauses, strict=True):
        said = [
            (*one.conjuncts, *(c for s in one.negated_structures for own in s.clauses for c in own.conjuncts))
            for one in (written, clause)
        ]
        made = [conjunct for conjunct in clause.conjuncts if conjunct not in written.conjuncts]
        facts.update((f"{format_conjunct(conjunct)} is asked of a list as it grows", None) for conjunct in made)
        gone = [one for one in dict.fromkeys(said[0]) if one not in said[1] and not _of_timestamps(one)]
        if gone:
            agreed = [attribute for attribute in clause.agree_on if attribute not in written.agree_on]
            test = f"[{', '.join(agreed or clause.agree_on)}]"
            facts[f"{' AND '.join(map(format_conjunct, gone))} is a key of all events, like {test}"] = None
        for key in keys_of(clause, types) if mechanism == "fused" else ():
            if key.conjuncts:
                equal = " AND ".join(sorted(map(format_conjunct, key.conjuncts)))
                facts[f"{equal} is a key of {' and '.join(key.variables)}"] = None
    return "".join(f"; {fact}" for fact in facts)


def _of_timestamps(conjunct: Conjunct) -> bool:
    read = (node for atom in conjunct.atoms for side in expressions_of(atom) for node in walk(side))
    return any(isinstance(node, Reference | Aggregate) and node.attribute == "timestamp" for node in read)


def _implied(pattern: Pattern, mechanism: str) -> str:
    """The facts that follow from the conditions of a pattern and are written in none of them."""
    facts: dict[str, None] = {}
    for clause in pattern.clauses:
        found = implied_by(clause, pattern.window, pattern.ties)
        if found.contradiction:
            facts[f"clause {clause.index + 1} has no matches, since {no_events_text(pattern, [found])}"] = None
            continue
        if mechanism != "fused":
            continue
        facts.update(
            (f"{format_conjunct(conjunct)} is a range of times, which is not tested", None) for conjunct in found.spans
        )
        facts.update((f"it follows that {_in_words(span)}", None) for span in found.narrowed)
        facts.update((f"it follows that {format_conjunct(one)}", None) for one in (*found.filters, *found.comparisons))
    shown = list(facts)[:MOST_FACTS]
    more = f"; and {len(facts) - MOST_FACTS} more of this kind" if len(facts) > MOST_FACTS else ""
    return "".join(f"; {fact}" for fact in shown) + more


def _in_words(span: TimeSpan) -> str:
    if span.most_us == 0:
        return f"{span.second} is not later than {span.first}"
    distance = Window(time_us=abs(span.most_us))
    if span.most_us > 0:
        return f"{span.second} is at most {distance} later than {span.first}"
    return f"{span.second} is at least {distance} earlier than {span.first}"


def _on_counts(pattern: Pattern, mechanism: str) -> str:
    """Say how SUMMARIZE makes groups, and how matches are counted where that is not by finding them, or takes lists."""
    columnar = MECHANISMS[mechanism].is_columnar
    if pattern.summary is not None:
        route = route_of(pattern, Sink.SUMMARIZE)
        made = (
            f"matches are listed to make groups, since {route.because}"
            if route.lists
            else "groups are made by sweeps over the events, and matches are not listed"
        )
        return f"; {made}{_on_counts(replace(pattern, summary=None), mechanism)}"
    if pattern.output.is_preferred:
        passes = "; NON_OVERLAP and CONSUME go through these in the order of first events"
        then = passes if decides_in_order(pattern) else ""
        if mechanism == "nfab" and is_searched(pattern):
            return f"; preferred matches are found by a search that tries what is preferred first{then}"
        of_lists = [clause for clause in pattern.clauses if any(variable.kleene for variable in clause.positive)]
        if columnar and of_lists and all(steps_of(pattern, clause) is not None for clause in of_lists):
            return f"; preferred lists are found by a sweep over the window of each first event{then}"
        return f"; all matches are listed, and of those with one first event the preferred one is selected{then}"
    if has_output_policy(pattern):
        return ""
    if binds_lists(pattern):
        return _on_lists(pattern, columnar=columnar)
    if route_of(pattern, Sink.COUNT, columnar=columnar).executor is Executor.SWEEP:
        return "; many matches are counted by a sweep over the events, without being found"
    return ""


def _kept_apart(pattern: Pattern, route: Route) -> str:
    """Say which conditions join lists so that no sweep counts them, but runs for each value that is compared."""
    joined = [
        format_conjunct(conjunct)
        for clause in pattern.clauses
        for conjunct in clause.conjuncts
        if sum(clause.by_name[name].kleene for name in conjunct.variables) > 1
    ]
    if route.executor is not Executor.GRAPH or not joined:
        return ""
    return f"; for {joined[0]}, which joins two lists, runs are kept apart by each value that may still be compared"


def _on_lists(pattern: Pattern, *, columnar: bool) -> str:
    """Say of a pattern with Kleene variables whether its matches are counted and compressed without being listed."""
    counted, compressed = (route_of(pattern, sink, columnar=columnar) for sink in (Sink.COUNT, Sink.COMPRESS))
    reason = compressed.because
    if not compressed.lists:
        return f"; matches are counted and compressed without being listed{_kept_apart(pattern, counted)}"
    if not counted.lists:
        return f"; matches are counted without being listed; they are listed to be compressed, because of {reason}"
    tried = [
        format_conjunct(conjunct)
        for clause in pattern.clauses
        for variable in clause.positive
        if variable.kleene
        for conjunct in ListConditions.of(clause, variable.name, frozenset(clause.by_name)).whole
        if limit_in(conjunct, variable.name, possible_course) is None
    ]
    # A list of which no condition ends the growth may be any of 2**n.
    all_lists = (
        f"; for {tried[0]}, which only a whole list decides, all lists are tried: 2**n of n events" if tried else ""
    )
    return f"; matches are listed to be counted or compressed (within --limit), because of {reason}{all_lists}"


def _reason(pattern: Pattern, chosen: str) -> str:
    refusals: dict[str, list[str]] = {}
    for faster in MECHANISMS:  # from fast to slow
        if faster == chosen:
            break
        try:
            MECHANISMS[faster].check(pattern)
        except UnsupportedPattern as refusal:
            refusals.setdefault(refusal.feature, []).append(faster)
    if not refusals:
        return "the fastest mechanism"
    if len(refusals) == 1 and len(next(iter(refusals.values()))) > 1:
        return f"the fastest that runs it: no faster one runs {next(iter(refusals))}"
    told = (
        f"{', '.join(names)} {'do' if len(names) > 1 else 'does'} not run {feature}"
        for feature, names in refusals.items()
    )
    return f"the fastest that runs it: {'; '.join(told)}"
