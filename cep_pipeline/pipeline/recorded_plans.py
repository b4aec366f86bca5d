"""Recorded plans, read once: a day asks for its plan several times, and that of a thousand patterns is large."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from cep_pipeline.planning import Plan
from cep_pipeline.warehouse.records import PlanRecord

MOST_PLANS = 8
"""Plans that are remembered; those not asked for longest go first."""

_plans: OrderedDict[Hashable, Plan] = OrderedDict()


def plan_of(record: PlanRecord) -> Plan:
    """The plan of a record; what is recorded does not change.

    Raises
    ------
    InputError
        It is of another version, or no plan.
    """
    key = record.run_id, record.created_at, record.pattern_set, record.version, record.plan.get("plan_id")
    known = _plans.get(key)
    if known is not None:
        _plans.move_to_end(key)
        return known
    made = _plans[key] = Plan.from_json(record.plan, f"plan {record.version} of {record.pattern_set}")
    while len(_plans) > MOST_PLANS:
        _plans.popitem(last=False)
    return made
