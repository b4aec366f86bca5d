"""Speeds of other engines on the workloads, as they were measured once, and what they are worth on this machine.

Esper is published for Maven alone, OpenCEP and UMass SASE are repositories without packages: none of them can be
installed to run beside us. They are compared through DuckDB, which ran beside them then and runs beside us now: what
DuckDB gained from machine and version, they are given too. Where DuckDB does not run a workload, its gain on W1 stands
for the machine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DUCKDB = "DuckDB, bucketed join"

EVENTS_PER_S: Mapping[str, Mapping[str, float]] = {
    "W1": {DUCKDB: 4.3e6, "Esper": 0.55e6, "OpenCEP": 16e3, "UMass SASE": 10e3},
    "W2": {DUCKDB: 2.9e6, "Esper": 0.48e6, "OpenCEP": 40e3},
    "W3": {DUCKDB: 1.0e6, "Esper": 0.23e6, "OpenCEP": 13e3},
    "W4": {DUCKDB: 10e6, "UMass SASE": 25e3},
    "W4b": {"UMass SASE": 7e3},
    "W5": {"UMass SASE": 0.88e6, "Esper": 0.47e6},
    "W5n": {"UMass SASE": 0.59e6},
    "W6": {DUCKDB: 41e3, "Esper": 5e3, "OpenCEP": 0.2e3},
    "W7": {DUCKDB: 1.6e6, "Esper": 66e3, "UMass SASE": 11e3},
}
"""Workload -> engine -> events a second in detection alone, of the engines that give all its matches.

One core of four shared ones, November 2026; streams of 1,000,000 events, for engines that need seconds a match 100,000.
Esper cannot say W4, and OpenCEP loses matches of it, so that they are not among its engines.
"""


@dataclass(frozen=True)
class PublishedEngine:
    """An engine that was measured elsewhere: its events a second there.

    `here_per_s` is what it would reach here; None where there is no DuckDB here to tell.
    """

    engine: str
    measured_per_s: float
    here_per_s: float | None


def peers_of(workload: str, duckdb_per_s: Mapping[str, float]) -> list[PublishedEngine]:
    """The engines that were measured on a workload, from fast to slow, DuckDB itself aside.

    `duckdb_per_s` has the events a second of DuckDB's bucketed join here, by workload.

    Examples
    --------
    >>> [(peer.engine, peer.here_per_s) for peer in peers_of("W5n", {"W1": 8.6e6})]
    [('UMass SASE', 1180000.0)]
    """
    gain = machine_gain(workload, duckdb_per_s)
    engines = EVENTS_PER_S.get(workload, {})
    return [
        PublishedEngine(engine, engines[engine], None if gain is None else engines[engine] * gain)
        for engine in sorted(engines, key=lambda engine: -engines[engine])
        if engine != DUCKDB
    ]


def reference_of(workload: str) -> str:
    """The workload by which engines that were measured on this one are compared with DuckDB: itself, or W1."""
    return workload if DUCKDB in EVENTS_PER_S.get(workload, {}) else "W1"


def machine_gain(workload: str, duckdb_per_s: Mapping[str, float]) -> float | None:
    """Return the speed of DuckDB here as a multiple of its published one, on this workload or else on W1."""
    for name in (workload, "W1"):
        if name in duckdb_per_s and DUCKDB in EVENTS_PER_S.get(name, {}):
            return duckdb_per_s[name] / EVENTS_PER_S[name][DUCKDB]
    return None
