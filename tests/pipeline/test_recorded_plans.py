"""Recorded plans are read once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

import cep_pipeline as cep
from cep_pipeline.errors import InputError
from cep_pipeline.pipeline import plans
from cep_pipeline.pipeline.plans import plan_of
from cep_pipeline.warehouse.records import PlanRecord
from tests.streams import events_table, stream_schema


def record(text: str = "NAME p PATTERN SEQ(A a, B b) WITHIN 9 us", version: int = 1) -> PlanRecord:
    patterns = cep.parse_patterns(text, stream_schema())
    events = events_table([{"timestamp": at, "kind": "AB"[at % 2]} for at in range(9)])
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, events))
    return PlanRecord("set", version, plan.to_json(), plan.explain(), "", "v", "run", datetime(2024, 1, 1, tzinfo=UTC))


def test_a_recorded_plan_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = record()
    read = plan_of(first)
    assert read.to_json() == first.plan
    assert plan_of(replace(first)) is read
    assert plan_of(replace(first, version=2)) is not read
    other = record("NAME p PATTERN SEQ(B b, A a) WITHIN 9 us")
    assert plan_of(other).to_json() == other.plan
    monkeypatch.setattr(plans, "MOST_PLANS", 1)
    plan_of(replace(first, version=3))
    assert len(plans._plans) == 1
    assert plan_of(first) is not read
    with pytest.raises(InputError, match="plan 4 of set"):
        plan_of(replace(first, version=4, plan={**first.plan, "version": 1}))
