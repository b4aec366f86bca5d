"""No sharing and no reordering: the trivial global plan that gains are measured over (MCEP [0137])."""

from __future__ import annotations

from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload


def none(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Every pattern in its own order, by itself."""
    return {member.id: member.names for member in workload.members}, 0
