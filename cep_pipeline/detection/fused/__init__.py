"""The columnar kernel for skip_till_any_match: generated loops over sorted columns, depth first.

No partial match is stored but the current one, so that memory does not grow with the number of matches.
"""

from cep_pipeline.detection.fused.clause import BLOCK_ROWS, ClauseRun, LevelCount, run_clause
from cep_pipeline.detection.fused.support import unsupported_feature

__all__ = ["BLOCK_ROWS", "ClauseRun", "LevelCount", "run_clause", "unsupported_feature"]
