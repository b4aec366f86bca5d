"""Plan many patterns at once: find parts that their plans have in common, and share them (MCEP)."""

from typing import TYPE_CHECKING

from cep_pipeline.lazy_names import lazy_names

if TYPE_CHECKING:  # the names of the package, each imported when it is first used
    from cep_pipeline.planning.clause_plans import SHARINGS as SHARINGS
    from cep_pipeline.planning.clause_plans import Sharing as Sharing
    from cep_pipeline.planning.multi_pattern.canonical import ClauseForms as ClauseForms
    from cep_pipeline.planning.multi_pattern.canonical import NodeForm as NodeForm
    from cep_pipeline.planning.multi_pattern.members import Member as Member
    from cep_pipeline.planning.multi_pattern.members import MemberId as MemberId
    from cep_pipeline.planning.multi_pattern.members import members_of as members_of
    from cep_pipeline.planning.multi_pattern.shared_plan import SharedNode as SharedNode
    from cep_pipeline.planning.multi_pattern.shared_plan import SharedPlan as SharedPlan
    from cep_pipeline.planning.multi_pattern.shared_plan import share as share
    from cep_pipeline.planning.multi_pattern.shared_plan import shared_plan_of as shared_plan_of
    from cep_pipeline.planning.multi_pattern.shared_plan import slot_name as slot_name
    from cep_pipeline.planning.planners import MULTI_PATTERN_PLANNERS as MULTI_PATTERN_PLANNERS

__getattr__, __dir__ = lazy_names(__name__)
