"""The columnar kernel for skip_till_any_match: generated loops over sorted columns, depth first.

No partial match is stored but the current one, so that memory does not grow with the number of matches.
"""

from cep_pipeline.detection.fused.clause import BLOCK_ROWS, ClauseRun, run_clause, shapes_of
from cep_pipeline.detection.fused.counts import LevelCount
from cep_pipeline.detection.fused.support import unsupported_feature
from cep_pipeline.detection.fused.tiers import compile_shapes

__all__ = ["BLOCK_ROWS", "ClauseRun", "LevelCount", "compile_shapes", "run_clause", "shapes_of", "unsupported_feature"]
