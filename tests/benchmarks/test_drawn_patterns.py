"""Pattern files that are drawn: the same for a seed, no two patterns alike, of the rare events that were asked for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.drawn_patterns import Drawing, Rare, draw_statements, types_with_few
from cep_pipeline.errors import InputError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns

SCHEMA = StreamSchema.from_dict(
    {"base_type": "Move", "type_attribute": "code", "attributes": {"code": "int64", "step": "float64"}}, name="moves"
)
DRAWING = Drawing(("step",), (Rare("step", ">", 0.1), Rare("step", "<", 0.05)), (3, 4, 5), 60)


def moves(types: int, events: int = 2000) -> pa.Table:
    random = np.random.default_rng(3)
    return pa.table(
        {
            "timestamp": pa.array(np.arange(events) * 10_000_000).cast(pa.timestamp("us", tz="UTC")),
            "code": random.integers(100, 100 + types, events),
            "step": pa.array(np.round(random.normal(0, 10, events))),
        }
    )


@pytest.mark.parametrize("types", [3, 30])
def test_a_file_is_the_same_for_a_seed_and_begins_with_that_of_fewer_patterns(types: int) -> None:
    events = moves(types)
    text = draw_statements(DRAWING, "code", events, 60, seed=1)
    assert text == draw_statements(DRAWING, "code", events, 60, seed=1)
    assert text != draw_statements(DRAWING, "code", events, 60, seed=2)
    assert text.startswith(draw_statements(DRAWING, "code", events, 20, seed=1).removesuffix("\n") + ";\n")
    patterns = parse_patterns(text, SCHEMA)
    assert len({one.split(" ", 2)[2] for one in text.split(";\n")}) == len(patterns) == 60
    assert [pattern.name for pattern in patterns[:2]] == ["p0000", "p0001"]
    special = sum("KL(" in one or "NOT(" in one for one in text.split(";\n"))
    assert 4 <= special <= 24


def test_patterns_of_many_types_begin_with_one_of_a_hundred_pairs() -> None:
    text = draw_statements(DRAWING, "code", moves(400, 4000), 300, seed=1)
    pairs = {tuple(one.split('"')[1:4:2]) for one in text.split(";\n")}
    assert 50 < len(pairs) <= 100


def test_lists_are_of_types_that_never_have_many_rare_events_in_a_window() -> None:
    """One event each ten seconds, so that seven are in a minute: all of 100 and 101, and of 102 one too many."""
    codes = [100] * 7 + [101] * 6 + [102] * 7
    rare = [1.0, 1, 1, 1, 1, 1, -1] + [1.0] * 6 + [1.0] * 7
    events = pa.table(
        {
            "timestamp": pa.array([10_000_000 * place for place in range(20)]).cast(pa.timestamp("us", tz="UTC")),
            "code": codes,
            "step": rare,
        }
    )
    drawing = Drawing(("step",), (Rare("step", ">", 0.99), Rare("step", "<", 0.0)), (3,), 60)
    assert drawing.rare[0].of(events) == "step > -1" and drawing.rare[0].holds(events).sum() == 19
    assert types_with_few(drawing, "code", events) == {"100", "101"}
    text = draw_statements(drawing, "code", events, 50, seed=1)
    kleene = [one for one in text.split(";\n") if "KL(" in one]
    assert kleene and not any('KL("102"' in one for one in kleene)


@pytest.mark.parametrize(("sign", "share"), [(">", 0.1), ("<", 0.25), (">", 0.004)])
def test_as_many_events_are_rare_as_were_asked_for_or_fewer(sign: str, share: float) -> None:
    events = pa.table({"step": pa.array([*np.arange(1000.0), None])})
    attribute, compared, limit = Rare("step", sign, share).of(events).split()
    passes = (pc.greater if compared == ">" else pc.less)(events[attribute], float(limit))
    assert share - 0.002 <= pc.sum(passes).as_py() / 1000 <= share


def test_more_patterns_than_there_are_cannot_be_drawn() -> None:
    few = Drawing(("step",), (Rare("step", ">", 0.1),), (2,), 60)
    with pytest.raises(InputError, match=r"no 50 patterns can be drawn of 1 event types: only \d+"):
        draw_statements(few, "code", moves(1), 50, seed=1)
