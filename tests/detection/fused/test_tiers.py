"""Shapes that are interpreted, that have code of their own, and that go over from the one to the other."""

from __future__ import annotations

import numpy as np
import pytest

from cep_pipeline.compiled import object_code
from cep_pipeline.detection.fused import kernel
from cep_pipeline.detection.fused.clause import run_clause
from cep_pipeline.detection.fused.programs import program_of
from cep_pipeline.detection.fused.shape import RangeResult, Shape
from tests.detection.fused.running import pattern_of, prepare
from tests.streams import events_table

TEXTS = (
    "PATTERN SEQ(A a, B b, C c, A d) WHERE a.x < b.x AND b.y <= c.y AND d.x > a.x WITHIN 60 us",
    "PATTERN AND(A a, B b, C c) WHERE a.x < b.x AND b.x + a.x < 2 * c.x AND NOT (a.y = 3 OR c.x >= b.x) WITHIN 50 us",
    "PATTERN AND(A a, B b, A c) WHERE sqrt(abs(a.x - b.x)) / (b.y - c.y) != 1 AND c.x BETWEEN a.x - 9 AND b.x "
    "WITHIN 30 us TIES ANY",
    "PATTERN SEQ(A a, ~C n, B b) WHERE n.x > a.x AND n.y < b.y AND a.y != b.y WITHIN 25 us",
    "PATTERN SEQ(A a, ~C n, B b, ~C m, A c) WHERE n.x > a.x + b.x - 9 AND m.y - b.y > c.y AND a.x <= c.x WITHIN 40 us",
    "PATTERN SEQ(A a, ~C n, B b) WHERE n.x > a.x + b.x - 9 AND n.y = a.y WITHIN 60 us",
    "PATTERN SEQ(~C n, A a, B b) WHERE n.x = a.x + b.x - 9 AND n.y = b.y WITHIN 60 us",
    "PATTERN AND(A a, ~C n, B b) WHERE n.x * a.y > b.x + 20 AND n.y = b.y WITHIN 60 us",
)
ROWS = [
    {"timestamp": place // 2, "kind": "ABC"[place * 7 % 3], "x": place * 7919 % 31, "y": float(place % 13)}
    for place in range(180)
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("owned", [(None, None), ((40, 0), (70, 0))])
def test_a_run_may_go_over_between_any_two_blocks(
    text: str, owned: tuple[tuple[int, int] | None, tuple[int, int] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = pattern_of(text)
    (clause,) = pattern.clauses
    events = prepare(pattern, events_table(ROWS))
    order = [variable.name for variable in clause.positive][::-1]
    found = []
    for compiled_from in (1 << 40, 0, 1, 30, 200, 1000):
        kernel.forget_shapes()
        monkeypatch.setattr(kernel, "COMPILED_FROM", compiled_from)
        run = run_clause(pattern, clause, order, events, owned, block_rows=20)
        found.append((np.hstack([np.empty((len(order), 0), np.int32), *(b.rows for b in run)]), run.counts))
    rows, counts = found[0]
    assert rows.shape[1] > 20
    for others, other_counts in found[1:]:
        assert np.array_equal(rows, others)
        assert other_counts == counts


def test_code_that_somebody_has_made_is_taken_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = pattern_of(TEXTS[0])
    (clause,) = pattern.clauses
    events = prepare(pattern, events_table(ROWS))
    loaded: list[str] = []
    library_for = object_code.library_for
    monkeypatch.setattr(kernel, "LOADED_FROM", 100)
    monkeypatch.setattr(kernel, "COMPILED_FROM", 1 << 40)
    monkeypatch.setattr(
        object_code, "library_for", lambda key, make_ir: (loaded.append(key), library_for(key, make_ir))[1]
    )
    for at_hand in (False, True):
        kernel.forget_shapes()
        monkeypatch.setattr(object_code, "is_at_hand", lambda key, at_hand=at_hand: at_hand)
        first = sum(len(block) for block in run_clause(pattern, clause, "abcd", events, block_rows=20))
        assert bool(loaded) == at_hand
        assert first > 0


def test_programs_tell_shapes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: set[Shape] = set()
    run = kernel.running_shape
    monkeypatch.setattr(kernel, "running_shape", lambda shape, program: (shapes.add(shape), run(shape, program))[1])
    for text in TEXTS:
        pattern = pattern_of(text)
        names = [variable.name for variable in pattern.clauses[0].positive]
        for order in (names, names[::-1]):
            list(run_clause(pattern, pattern.clauses[0], order, prepare(pattern, events_table(ROWS))))
    assert len({program_of(shape).words.tobytes() for shape in shapes}) == len(shapes) > 6
    assert all(program_of(shape).runs for shape in shapes)
    listing = next(shape for shape in shapes if len(shape.levels) == 4)
    lists = Shape(listing.levels, 2, listing.slots, listing.constants, None, False, RangeResult.LISTS)
    assert not program_of(lists).runs
