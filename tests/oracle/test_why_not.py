"""What `why` and `why_not` say, against the oracle: counts of changed patterns, and the reasons of single events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.patterns.pattern import Consume, Output, Pattern, Strategy
from cep_pipeline.patterns.structure import types_of
from cep_pipeline.questions.match_checks import part_of
from cep_pipeline.questions.near_misses import LeftOut, MatchCount
from tests.oracle import evaluate
from tests.oracle.answer import kept_matches, read_stream
from tests.oracle.clauses import Conjunct, conjunctive_normal_form
from tests.oracle.events import Event, read_events
from tests.oracle.values import Binding
from tests.pattern_strategies import THIRD_EDITION, WHOLE_LANGUAGE, Statement, files, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

LANGUAGE = replace(WHOLE_LANGUAGE, max_operands=2)
PREFERRED = replace(THIRD_EDITION, max_operands=2, returns=False)
TUPLES = 40
"""Combinations of events that are explained of one case."""


def undecided(pattern: Pattern) -> Pattern:
    return replace(pattern, output=Output.ALL, consume=Consume.NONE)


def bindings_of(pattern: Pattern, table: pa.Table) -> set[tuple[tuple[str, int], ...]]:
    return {match.bindings for match in evaluate([undecided(pattern)], table)}


def combinations(pattern: Pattern, events: Sequence[Event]) -> Iterator[dict[str, list[Event]]]:
    """Events for the variables of each part of a pattern: those of its types, and lists of one or two."""
    for clause in pattern.clauses:
        choices = []
        for variable in clause.positive:
            own = [[event] for event in events if not event.types.isdisjoint(types_of(variable.event_type))]
            pairs = [[one, other] for [one] in own for [other] in own if one.place < other.place]
            choices.append([*own, *pairs] if variable.kleene else own)
        names = [variable.name for variable in clause.positive]
        found = list(islice(product(*choices), 400))
        for chosen in found[:: max(1, len(found) // TUPLES)]:
            yield dict(zip(names, chosen, strict=True))


@settings(max_examples=examples(60), deadline=None)
@given(statements(LANGUAGE), rows(max_size=8))
def test_events_are_explained_as_a_match_where_the_oracle_has_one(statement: Statement, stream_rows: list[Row]) -> None:
    pattern, table = statement.pattern, events_table(stream_rows)
    matches = bindings_of(pattern, table)
    for chosen in combinations(pattern, read_events(table, pattern)):
        given_events = {name: [event.seq for event in events] for name, events in chosen.items()}
        explained = cep.why(pattern, table, given_events)
        bound = tuple((name, seq) for name, seqs in given_events.items() for seq in seqs)
        assert explained.is_match == (bound in matches), (bound, str(explained))


@st.composite
def composing(draw: st.DrawFn) -> Pattern:
    """A pattern that binds matches of others."""
    file = draw(files(replace(THIRD_EDITION, max_operands=2)))
    patterns = cep.parse_patterns(file.text, stream_schema(), params=file.params)
    found = [pattern for pattern in patterns if pattern.composes and pattern.summary is None]
    assume(found)
    return undecided(draw(st.sampled_from(found)))


@settings(max_examples=examples(60), deadline=None)
@given(composing(), rows(max_size=8))
def test_matches_among_events_are_explained_as_the_oracle_binds_them(pattern: Pattern, stream_rows: list[Row]) -> None:
    table = events_table(stream_rows)
    stream = read_stream(table, pattern)
    matches = {
        frozenset((name, event.place) for name, event in flat_events(binding))
        for binding in kept_matches(pattern, stream)
    }
    inside = cep.detect(list(pattern.composes), table)
    ids = set(map(str, cep.detect(pattern, table)[pattern.name]["match_id"].to_pylist()))

    def named(event: Event) -> int | str:
        if event.match is None:
            return event.seq
        name, number = event.match
        return str(inside[name]["match_id"][number].as_py())

    for chosen in combinations(pattern, stream):
        explained = cep.why(pattern, table, {name: [*map(named, events)] for name, events in chosen.items()})
        bound = frozenset((name, event.place) for name, event in flat_events(chosen))
        assert explained.is_match == (bound in matches), (chosen, str(explained))
        assert (explained.match_id in ids) == explained.is_match
        assert len(explained.inside) == len(explained.composed)
        assert all(one.is_match for one in explained.inside), str(explained)


@settings(max_examples=examples(30), deadline=None)
@given(composing(), rows(max_size=8))
def test_numbers_of_matches_of_matches_are_those_of_the_oracle(pattern: Pattern, stream_rows: list[Row]) -> None:
    table = events_table(stream_rows)
    found = cep.why_not(pattern, table, near=2)
    assert found.matches == MatchCount(len(kept_matches(pattern, read_stream(table, pattern))))
    own = set(map(str, cep.detect(pattern, table)[pattern.name]["match_id"].to_pylist()))
    for near in found.near:
        assert len(near.failed) == 1 and near.match_id not in own


@settings(max_examples=examples(30), deadline=None)
@given(statements(LANGUAGE), rows(max_size=8))
def test_numbers_of_matches_are_those_of_the_oracle(statement: Statement, stream_rows: list[Row]) -> None:
    pattern, table = undecided(statement.pattern), events_table(stream_rows)
    found = cep.why_not(pattern, table, near=4)
    own = bindings_of(pattern, table)
    assert found.matches == MatchCount(len(own))
    for clause in pattern.clauses[:4]:
        steps = [one.count for one in found.reached if one.part == clause.index]
        names = [variable.name for variable in clause.positive]
        for number, count in enumerate(steps[: len(names)], 1):
            assert count == MatchCount(len(bindings_of(part_of(pattern, names[:number]), table)))
        if len(pattern.clauses) == 1:
            assert steps[-1] == found.matches
    by_text: dict[str, LeftOut] = {}
    for one in found.left_out:
        matches = bindings_of(one.changed, table)
        assert one.without == MatchCount(len(matches))
        # A negation may reject more where an order or a window is left out.
        negations = any(clause.negations for clause in pattern.clauses)
        if pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH and not (negations and one.rule in ("order", "window")):
            assert one.rule in ("negation", "agreement") or own <= matches
        by_text[one.text] = one
    for near in found.near:
        [reason] = near.failed
        assert near.bindings not in own
        without = [one for text, one in by_text.items() if text == reason.text or one.rule == reason.rule]
        assert any(near.bindings in bindings_of(one.changed, table) for one in without), (str(near), list(by_text))


@settings(max_examples=examples(100), deadline=None)
@given(statements(PREFERRED), rows(max_size=8))
def test_matches_that_are_not_kept_have_output_as_their_reason(statement: Statement, stream_rows: list[Row]) -> None:
    pattern, table = statement.pattern, events_table(stream_rows)
    assume(pattern.output.is_preferred)
    kept = {match.bindings for match in evaluate([pattern], table)}
    preferred = {
        match.bindings for match in evaluate([replace(pattern, output=Output.PREFERRED, consume=Consume.NONE)], table)
    }
    for bound in sorted(bindings_of(pattern, table))[:TUPLES]:
        given_events: dict[str, list[int]] = {}
        for name, seq in bound:
            given_events.setdefault(name, []).append(seq)
        found = cep.why_not(pattern, table, given_events).explanation
        assert found is not None
        assert [one.rule for one in found.failed] == ([] if bound in kept else ["output"])
        assert ("preferred is" in str(found)) == (bound not in preferred)


@settings(max_examples=examples(30), deadline=None)
@given(statements(replace(LANGUAGE, strategies=("skip_till_any_match",))), rows(max_size=8))
def test_a_rule_left_out_is_one_condition(statement: Statement, stream_rows: list[Row]) -> None:
    """The matches without a condition that fulfil it, by the oracle, are the matches with it."""
    pattern, table = undecided(statement.pattern), events_table(stream_rows)
    conjuncts, _ = conjunctive_normal_form(pattern.condition)
    own = bindings_of(pattern, table)
    for one in cep.why_not(pattern, table, near=0).left_out:
        if one.rule == "condition":
            kept, _ = conjunctive_normal_form(one.changed.condition)
            still = [frozenset(conjunct.atoms) for conjunct in kept]
            left = [conjunct for conjunct in conjuncts if frozenset(conjunct.atoms) not in still]
            assert len({frozenset(conjunct.atoms) for conjunct in left}) == 1
            bound = kept_matches(one.changed, read_events(table, pattern))
            assert {flat(match) for match in bound if fulfils(left[0], match)} == own


def flat_events(binding: Mapping[str, Sequence[Event]]) -> Iterator[tuple[str, Event]]:
    return ((name, event) for name, events in binding.items() for event in events)


def flat(binding: Binding) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, event.seq) for name, event in flat_events(binding)))


def fulfils(conjunct: Conjunct, binding: Binding) -> bool:
    return not conjunct.variables <= binding.keys() or conjunct.holds(binding)
