"""A new plan beside the current one: by cost on fresh statistics, and by what both do over a sample of events.

Costs rest on estimates, and the sample shows where they are wrong. What both plans did there is counted, not timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cep_pipeline.adaptation import gain, ln_cost_on
from cep_pipeline.adaptation.plan_quality import same_plans
from cep_pipeline.detection.detect import detect
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.errors import CepError
from cep_pipeline.pipeline.plan_checks import finite
from cep_pipeline.planning import Plan
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.spark.slicing import RowGroup, read_events, read_row_groups

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import PatternSet
    from cep_pipeline.pipeline.fresh_statistics import FreshStatistics
    from cep_pipeline.warehouse.records import EventsSnapshot
    from cep_pipeline.warehouse.stream_tables import StreamReader


STRETCHES = 4
"""A sample is so many stretches of consecutive events, spread over the day: windows need neighbours."""


@dataclass(frozen=True)
class Trial:
    """The run of a plan over a sample.

    `work` counts tuples of events that conditions were tested on, and partial matches that were stored; `matches` are
    by pattern.
    """

    work: int
    matches: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"work": self.work, "matches": self.matches}


def sample_of_day(
    tables: StreamReader, events: EventsSnapshot, day: date, pattern_set: PatternSet, size: int
) -> list[pa.Table]:
    """Stretches of consecutive events of a day, `size` events together; the whole day where it has no more."""
    files = tables.events_files(day, day, snapshot=events)
    groups = read_row_groups((file.path for file in files), tables.events_schema)
    rows = sum(group.rows for group in groups)
    columns = ["timestamp", "seq", *columns_needed(pattern_set.patterns)]
    if not rows or not size:
        return []
    if rows <= size:
        return [_rows_of(groups, 0, rows, columns)]
    length = max(1, size // STRETCHES)
    starts = [(rows - length) * place // (STRETCHES - 1) for place in range(STRETCHES)]
    return [_rows_of(groups, start, start + length, columns) for start in starts]


def _rows_of(groups: Sequence[RowGroup], first: int, end: int, columns: Sequence[str]) -> pa.Table:
    wanted = list(dict.fromkeys(columns))
    parts = []
    begin = 0
    for group in groups:
        if begin < end and first < begin + group.rows:
            part = read_events([group], wanted)
            parts.append(part.slice(max(0, first - begin), min(group.rows, end - begin) - max(0, first - begin)))
        begin += group.rows
    return pa.concat_tables(parts, promote_options="permissive").unify_dictionaries().combine_chunks()


def run_plans(pattern_set: PatternSet, plans: Sequence[Plan], sample: Sequence[pa.Table]) -> list[Trial]:
    """Run plans over a sample; those that find different matches are a CepError."""
    trials = [_over(pattern_set, plan, sample) for plan in plans]
    for trial in trials[1:]:
        if trial.matches != trials[0].matches:
            raise CepError(
                f"pattern set {pattern_set.name!r}: two plans find different matches in a sample of events, "
                f"{trials[0].matches} and {trial.matches}: neither is to be trusted; the current plan stays"
            )
    return trials


def _over(pattern_set: PatternSet, plan: Plan, sample: Sequence[pa.Table]) -> Trial:
    patterns, work = pattern_set.patterns, 0
    matches = {pattern.name: 0 for pattern in patterns}
    output = "verbose" if any(map(has_output_policy, patterns)) else "count"
    for stretch in sample:
        tables, metrics = detect(
            patterns, stretch, plan=plan, mechanism=pattern_set.mechanism, output=output, metrics=True
        )
        work += sum(node.candidates + node.created for node in metrics.nodes)
        for name, table in tables.items():
            counted = "count" in table.column_names
            matches[name] += int(table["count"][0].as_py()) if counted else table.num_rows
    return Trial(work, matches)


@dataclass(frozen=True)
class PlanComparison:
    """A new plan beside the current one; they are the `same` where they run every pattern alike.

    The costs are by the new plan's cost models on the fresh statistics. The `trials` over a sample, the current plan's
    first (None: none was run), are compared by their work. The new plan must save more than the share `minimum_gain`.
    """

    same: bool
    ln_current: float
    ln_new: float
    trials: tuple[Trial, Trial] | None = None
    minimum_gain: float = 0.0

    @property
    def gain(self) -> float:
        """The share of the current plan's cost that the new one saves."""
        return 0.0 if self.same else gain(self.ln_current, self.ln_new)

    @property
    def measured_gain(self) -> float | None:
        """The share of the work over the sample that the new plan saves; None where nothing was measured."""
        if self.trials is None:
            return None
        current, new = (one.work for one in self.trials)
        return 1 - new / current if current else (0.0 if not new else -1.0)

    @property
    def observed_gain(self) -> float:
        """The share that the new plan saves over the sample; by its cost where the sample tells nothing."""
        if self.measured_gain is None or self.trials is None:
            return self.gain
        return self.measured_gain if any(trial.work for trial in self.trials) else self.gain

    @property
    def better(self) -> bool:
        """True if the new plan costs less and does no more over the sample, and saves more than the least gain."""
        if self.same or self.gain <= 0 or self.observed_gain < 0:
            return False
        return not self.minimum_gain or min(self.gain, self.observed_gain) > self.minimum_gain

    def describe(self) -> str:
        """A sentence for people."""
        if self.same:
            return "planning again gives the same plan"
        said = f"by cost the new plan {_saved(self.gain)}"
        if self.measured_gain is not None:
            said += f", over a sample of the latest day it {_saved(self.measured_gain, 'work')}"
        if self.gain > 0 and self.observed_gain >= 0 and not self.better:
            said += f"; it has to save more than {self.minimum_gain:.1%} by both (minimum_gain)"
        return said

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "same": self.same,
            "ln_current": finite(self.ln_current),
            "ln_new": finite(self.ln_new),
            "gain": finite(self.gain),
            "measured_gain": self.measured_gain,
            "minimum_gain": self.minimum_gain,
            "current": None if self.trials is None else self.trials[0].to_json(),
            "new": None if self.trials is None else self.trials[1].to_json(),
        }


def _saved(gain: float, measure: str = "") -> str:
    if abs(gain) < 0.0005:
        return f"takes the same {measure}" if measure else "is as good"
    if gain > 0:
        return f"saves {gain:.1%}" + (f" of the {measure}" if measure else "")
    return f"takes {-gain:.1%} more {measure}".rstrip()


def compare(
    tables: StreamReader, pattern_set: PatternSet, current: Plan, made: Plan, fresh: FreshStatistics
) -> PlanComparison:
    """Compare a new plan with the current one of some patterns, by fresh statistics and over a sample of their day.

    The patterns are all of a set, or a part of it that shares nothing with the rest; the plans are of these at least.
    Plans that find different matches are a CepError.
    """
    patterns = pattern_set.patterns
    if len(patterns) < len(made.patterns):
        current, made = (one.part(pattern.name for pattern in patterns) for one in (current, made))
    same = same_plans(current, made)
    ln_current = ln_cost_on(_costed_as(current, made), patterns, fresh.snapshot)
    ln_made = ln_cost_on(made, patterns, fresh.snapshot) if made.sharing != "none" else made.ln_cost
    if same:
        return PlanComparison(True, ln_current, ln_made)
    least = pattern_set.adaptation.minimum_gain
    sample = sample_of_day(tables, fresh.events, fresh.day, pattern_set, pattern_set.adaptation.sample)
    if not sample:
        return PlanComparison(False, ln_current, ln_made, minimum_gain=least)
    before, now = run_plans(pattern_set, (current, made), sample)
    return PlanComparison(False, ln_current, ln_made, (before, now), least)


def _costed_as(plan: Plan, other: Plan) -> Plan:
    """Return a plan with the cost models of another one."""
    patterns = (
        replace(one, cost_model=other.for_pattern(one.pattern).cost_model, unit=other.for_pattern(one.pattern).unit)
        for one in plan.patterns
    )
    return replace(plan, alpha=other.alpha, patterns=tuple(patterns))


def made_alike(plan: Plan, other: Plan) -> bool:
    """Return True if plans are the same, and made by the same planners for the same costs."""
    by = [{one.pattern: (one.planner, one.cost_model) for one in of.patterns} for of in (plan, other)]
    return same_plans(plan, other) and by[0] == by[1] and plan.alpha == other.alpha
