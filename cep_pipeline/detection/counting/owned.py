"""The number of matches that a slice owns, by sweeps, by parts of lists, or by merged runs."""

from __future__ import annotations

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.counting.choice import signed_clauses, sweeps_over
from cep_pipeline.detection.counting.last_variable import count_without_last
from cep_pipeline.detection.counting.list_parts import counted_by_parts, parts_of_lists
from cep_pipeline.detection.counting.sweep import count_swept
from cep_pipeline.detection.fused.clause import run_clause
from cep_pipeline.detection.kleene.bindings import has_kleene
from cep_pipeline.detection.kleene.clause import KleeneRun, count_matches, counts_at_once
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Owned
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import Finality, finality_of
from cep_pipeline.slices.prepared import PreparedEvents

NOT_COUNTED = "matches are not counted without being found"


def count_owned(pattern: Pattern, events: PreparedEvents, owned: Owned, *, always: bool = False) -> int | None:
    """The number of matches that a slice owns, without listing them; None where they have to be listed to be counted.

    Matches with lists are counted by parts or by merged runs where no sweep counts them: those of a slice are those of
    its events with the look-back, without those of the look-back alone.

    Parameters
    ----------
    always
        Whether sweeps count even where matches would be found sooner.
    """
    swept = _count_by_sweeps(pattern, events, owned, always=always)
    of_one = always and all(len(clause.positive) == 1 for clause in pattern.clauses)
    if swept is not None or not (of_one or _binds_lists(pattern)) or _reason_to_list(pattern) is not None:
        return swept
    if owned == EVERYTHING:
        return _count_unswept(pattern, events)
    if any(finality_of(pattern, clause) is not Finality.LAST_EVENT for clause in pattern.clauses):
        return None
    found = []
    for rows in events.rows_in(owned):
        part = PreparedEvents(
            events.table.slice(0, rows), type_attribute=events.type_attribute, base_type=events.base_type
        )
        found.append(_count_unswept(pattern, part) if rows else 0)
    before, within = found
    return None if before is None or within is None else within - before


def not_counted_because(pattern: Pattern) -> str | None:
    """The reason why the matches of a pattern are not counted without being found; None: they are."""
    if sweeps_over(pattern):
        return None
    if not _binds_lists(pattern):
        return NOT_COUNTED
    because = _reason_to_list(pattern)
    return because and f"matches are not counted without being listed, because of {because}"


def _reason_to_list(pattern: Pattern) -> str | None:
    from cep_pipeline.detection.compressed.components import reason_to_list

    return None if counted_by_parts(pattern) else reason_to_list(pattern)


def _count_unswept(pattern: Pattern, events: PreparedEvents) -> int | None:
    """The number of matches over all events, by parts of lists where all clauses have such, else by merged runs."""
    from cep_pipeline.detection.compressed.compressing import count_merged

    counted = _count_by_parts(pattern, events) if counted_by_parts(pattern, events) else None
    return count_merged(pattern, events, Counters()) if counted is None else counted


def _count_by_parts(pattern: Pattern, events: PreparedEvents) -> int | None:
    total = 0
    for clause in pattern.clauses:
        parts = parts_of_lists(clause, pattern.ties, events)
        for part in (clause,) if parts is None else parts:
            of = ClauseSlice(pattern, part, events, EVERYTHING, finality_of(pattern, clause))
            count = _count_of_part(of)
            if count is None:
                return None
            total += count
    return total


def _count_of_part(of: ClauseSlice) -> int | None:
    swept = count_swept(of)
    if swept is not None:
        return swept
    order = tuple(variable.name for variable in of.clause.positive)
    if has_kleene(of.clause):
        run = KleeneRun(of, order)
        return count_matches(run) if counts_at_once(run) else None
    unfound = count_without_last(of, order)
    if unfound is not None:
        return unfound
    return sum(map(len, run_clause(of.pattern, of.clause, order, of.events, of.owned, finality=of.finality)))


def _binds_lists(pattern: Pattern) -> bool:
    return any(operand.kleene and not operand.negated for operand in pattern.operands)


def _count_by_sweeps(pattern: Pattern, events: PreparedEvents, owned: Owned, *, always: bool) -> int | None:
    if not sweeps_over(pattern):
        return None
    total = 0
    for sign, clause in signed_clauses(pattern) or ():
        count = count_swept(ClauseSlice(pattern, clause, events, owned, finality_of(pattern, clause)), always=always)
        if count is None:
            return None
        total += sign * count
    return total
