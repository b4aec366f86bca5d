"""The planners that the search is measured against (MCEP [0137], [0146]-[0147]), one file each.

The patent names them and what they do; where it leaves open how, each file says what was chosen. Its account of the
sharing ones is that they do not reorder ([0149]): so here the variables of what is shared, and the rest, are bound in
pattern order.
"""

from __future__ import annotations

from cep_pipeline.planning.multi_pattern.baselines.merge_decomposition import merge_decomposition
from cep_pipeline.planning.multi_pattern.baselines.none import none
from cep_pipeline.planning.multi_pattern.baselines.redundancy_ratio import redundancy_ratio
from cep_pipeline.planning.multi_pattern.baselines.reordering import reordering
from cep_pipeline.planning.multi_pattern.baselines.sharing import sharing

__all__ = ["merge_decomposition", "none", "redundancy_ratio", "reordering", "sharing"]
