"""Hypothesis strategies for workloads whose patterns are much alike."""

from __future__ import annotations

from hypothesis import strategies as st

from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.planning.multi_pattern.members import Member, members_of

SCHEMA = StreamSchema.from_dict(
    {"type_attribute": "type", "attributes": {"type": "string", "x": "int64", "y": "int64"}}
)
"""The stream of all workloads."""
CONDITIONS = (
    "{0}.x < {1}.x",
    "{0}.x < {1}.x",
    "{0}.y = {1}.y",
    "{0}.x > 1",
    "{0}.x + {1}.x < {2}.x",
    "{1}.x < {0}.x",
)


@st.composite
def workloads(draw: st.DrawFn, max_size: int = 5) -> list[Member]:
    """Patterns of few types and conditions, so that much is alike: SEQ, AND, a SEQ in an AND, Kleene closure, NOT."""
    texts = []
    for _ in range(draw(st.integers(2, max_size))):
        size = draw(st.integers(1, 4))
        types = [draw(st.sampled_from(("A", "A", "B", "B", "C", "X"))) for _ in range(size)]
        operands = [f"{kind}+ v{k}[]" if kind == "X" else f"{kind} v{k}" for k, kind in enumerate(types)]
        if draw(st.integers(0, 4)) == 4:
            operands.append("~D n")
        structure = f"{draw(st.sampled_from(('SEQ', 'SEQ', 'AND')))}({', '.join(operands)})"
        if size > 2 and draw(st.booleans()):
            structure = f"AND(SEQ({', '.join(operands[:2])}), {', '.join(operands[2:])})"
        names = [f"v{k}[1]" if kind == "X" else f"v{k}" for k, kind in enumerate(types)]
        conditions = [
            draw(st.sampled_from(CONDITIONS)).format(*(draw(st.sampled_from(names)) for _ in range(3)))
            for _ in range(draw(st.integers(0, 2)))
        ]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        tail = draw(st.sampled_from(("WITHIN 1 second", "WITHIN 2 seconds", "WITHIN 2 seconds", "WITHIN 5 EVENTS")))
        tail += draw(st.sampled_from(("", "", "", " TIES STRICT", " PARTITION BY y")))
        texts.append(f"PATTERN {structure} {where} {tail}")
    return list(members_of(parse_patterns(";".join(texts), SCHEMA)))
