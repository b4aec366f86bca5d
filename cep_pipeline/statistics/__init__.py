"""Statistics of a stream: arrival rates and selectivities, as snapshots that plans are made from."""

from cep_pipeline.statistics.estimate import estimate_statistics, partial_statistics, windowed_statistics
from cep_pipeline.statistics.partial import PartialStatistics, combine
from cep_pipeline.statistics.snapshot import JointSelectivity, Kind, LeafRate, Selectivity, Source, StatisticsSnapshot
from cep_pipeline.statistics.windowed import WindowedStatistics

__all__ = [
    "JointSelectivity",
    "Kind",
    "LeafRate",
    "PartialStatistics",
    "Selectivity",
    "Source",
    "StatisticsSnapshot",
    "WindowedStatistics",
    "combine",
    "estimate_statistics",
    "partial_statistics",
    "windowed_statistics",
]
