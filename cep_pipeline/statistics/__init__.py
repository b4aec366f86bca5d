"""Statistics of a stream: arrival rates and selectivities, as snapshots that plans are made from."""

from typing import TYPE_CHECKING

from cep_pipeline.lazy_names import lazy_names

if TYPE_CHECKING:  # the names of the package, each imported when it is first used
    from cep_pipeline.statistics.estimate import PartialStatistics as PartialStatistics
    from cep_pipeline.statistics.estimate import estimate_statistics as estimate_statistics
    from cep_pipeline.statistics.estimate import partial_statistics as partial_statistics
    from cep_pipeline.statistics.estimate import windowed_statistics as windowed_statistics
    from cep_pipeline.statistics.snapshot import JointSelectivity as JointSelectivity
    from cep_pipeline.statistics.snapshot import Kind as Kind
    from cep_pipeline.statistics.snapshot import LeafRate as LeafRate
    from cep_pipeline.statistics.snapshot import Selectivity as Selectivity
    from cep_pipeline.statistics.snapshot import Source as Source
    from cep_pipeline.statistics.snapshot import StatisticsSnapshot as StatisticsSnapshot
    from cep_pipeline.statistics.windowed import WindowedStatistics as WindowedStatistics

__getattr__, __dir__ = lazy_names(__name__)
