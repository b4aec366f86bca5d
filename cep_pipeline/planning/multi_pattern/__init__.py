"""Many patterns at once: what their plans have in common, and how it is shared (MCEP)."""

from __future__ import annotations

from cep_pipeline.planning.clause_plans import SHARINGS, Sharing
from cep_pipeline.planning.multi_pattern.canonical import ClauseForms, NodeForm
from cep_pipeline.planning.multi_pattern.members import Member, MemberId, members_of
from cep_pipeline.planning.multi_pattern.pattern_graph import PatternGraph, Subpattern, maximal_common, subpattern_of
from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload
from cep_pipeline.planning.multi_pattern.shared_plan import SharedNode, SharedPlan, share, shared_plan_of, slot_name
from cep_pipeline.planning.multi_pattern.workload import SearchProgress
from cep_pipeline.planning.planners import MULTI_PATTERN_PLANNERS

__all__ = [
    "MULTI_PATTERN_PLANNERS",
    "SHARINGS",
    "ClauseForms",
    "Member",
    "MemberId",
    "NodeForm",
    "PatternGraph",
    "SearchProgress",
    "SharedNode",
    "SharedPlan",
    "Sharing",
    "Subpattern",
    "maximal_common",
    "members_of",
    "plan_workload",
    "share",
    "shared_plan_of",
    "slot_name",
    "subpattern_of",
]
