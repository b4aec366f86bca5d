"""The interpreter tests what the vectorized evaluation does, over the whole language's conditions, step by step."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.conditions.groups import NOTHING, Moment
from cep_pipeline.detection.conditions.program import KERNEL_SOURCES, Program
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import Lists, holds_over_lists
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents
from tests.pattern_strategies import WHOLE_LANGUAGE, statements
from tests.streams import Row, events_table, rows
from tests.thoroughness import examples

bind_all = NativeKernel("tests.detection.conditions.binding_kernel", "bind_all", ("int64*",), KERNEL_SOURCES)


def holds_step_by_step(pattern: Pattern, clause: Clause, events: PreparedEvents, lists: list[list[list[int]]]) -> Array:
    """Whether the conjuncts over several events hold for bindings: for each its variables' rows, in slot order."""
    program = Program(pattern, clause, events)
    groups: list[int] = []
    moment = NOTHING
    for variable in program.variables[: len(clause.positive)]:
        groups.append(program.groups.first_group(variable.name, moment))
        single = frozenset[str]() if variable.kleene else frozenset({variable.name})
        moment = Moment(moment.bound | {variable.name}, moment.complete | single)
        groups.append(program.groups.element_group(variable.name, moment))
        groups.append(program.groups.left_group(moment, {variable.name}))
        moment = Moment(moment.bound, moment.complete | {variable.name})
    flat = np.array([row for binding in lists for own in binding for row in own], np.int32)
    starts = np.cumsum([0, *(len(own) for binding in lists for own in binding)]).astype(np.int64)
    slots = np.zeros(len(program.variables), np.int32)
    holds = np.zeros(len(lists), np.uint8)
    kleene = np.array([variable.kleene for variable in program.variables], np.uint8)
    ring = program.ring()
    while ring.size < len(flat) + 1:
        ring.grow()
    arrays = starts, flat, np.array(groups, np.int64), slots, holds, kleene
    words = [len(lists), len(clause.positive), *(int(array.ctypes.data) for array in arrays)]
    result = bind_all(np.array([*words, *program.kernel_words(), *ring.kernel_words()], np.int64))
    assert result == 0
    return holds.astype(bool)


def holds_at_once(clause: Clause, events: PreparedEvents, lists: list[list[list[int]]]) -> Array:
    """The same by the vectorized evaluation."""
    holds = np.ones(len(lists), dtype=bool)
    names = {variable.name for variable in clause.positive}
    bound: dict[str, Array | Lists] = {}
    for slot, variable in enumerate(clause.positive):
        own = [binding[slot] for binding in lists]
        flat = np.array([row for part in own for row in part], np.int32)
        lengths = np.array([len(part) for part in own], np.int64)
        bound[variable.name] = Lists(np.cumsum(lengths) - lengths, lengths, flat) if variable.kleene else flat
    for conjunct in clause.conjuncts:
        if conjunct.variables and conjunct.variables <= names:
            holds &= holds_over_lists(conjunct, events, bound, len(lists))
    return holds


@settings(max_examples=examples(250), deadline=None)
@given(data=st.data(), stream=rows(min_size=3))
def test_conditions_hold_as_they_do_at_once(data: st.DataObject, stream: list[Row]) -> None:
    statement = data.draw(statements(WHOLE_LANGUAGE))
    pattern = statement.pattern
    events = PreparedEvents(events_table(stream), type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    clause = data.draw(st.sampled_from(pattern.clauses))
    program = Program(pattern, clause, events)
    fitting = [np.flatnonzero(own).tolist() for own in program.fits[: len(clause.positive)]]
    assume(all(fitting))
    choose = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    lists = []
    for _ in range(30):
        binding = []
        for variable, candidates in zip(clause.positive, fitting, strict=True):
            size = min(int(choose.integers(1, 5)), len(candidates)) if variable.kleene else 1
            binding.append(np.sort(choose.choice(candidates, size, replace=False)).tolist())
        lists.append(binding)
    expected = holds_at_once(clause, events, lists)
    assert holds_step_by_step(pattern, clause, events, lists).tolist() == expected.tolist()
