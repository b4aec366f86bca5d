"""Sizes of a moment for `cep experiment adaptation`."""

from __future__ import annotations

from benchmarks.experiments.adaptation.patterns import SEQUENCE
from benchmarks.experiments.adaptation.sizes import Sizes
from benchmarks.experiments.adaptation.streams import PERMUTED, STOCKS, TRAFFIC

CHECKS = {STOCKS: 3, TRAFFIC: 3, PERMUTED: 3}
TINY = Sizes(CHECKS, (3, 4), (3,), (0.0, 0.5), (0.1, 2.0), 3_000.0, (300,), 3, 1, (2, 8), 3, beside=(SEQUENCE,))
