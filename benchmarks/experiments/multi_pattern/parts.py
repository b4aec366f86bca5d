"""The parts of `cep experiment multi_pattern`, by the figures of the patent."""

from __future__ import annotations

WORKLOAD, SIZE, SEARCH, TIME, COUNT = "workload size", "pattern size", "search time", "time window", "count window"
DENSITY, RATES, ADAPTIVE, RECOMPUTED = "density", "rate difference", "adaptive", "recomputed"
"""The parts: figures 10 and 12A, E; 11A and 12B, F; 11B; 11C and 12C, G; 11D and 12D, H; 14A-B; 14C-D; 13; and
what computing costs by differences is worth."""
COMPARED_BY_GAINS = (WORKLOAD, SIZE, SEARCH, TIME, COUNT, DENSITY, RATES)
"""The parts whose cells have contenders."""
