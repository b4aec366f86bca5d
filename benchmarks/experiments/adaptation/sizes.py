"""The extents of `cep experiment adaptation`, and the names of what it compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.experiments.adaptation.patterns import CHAIN_BY, SETS, TREE_BY
from benchmarks.experiments.adaptation.streams import PERMUTED, STOCKS, TRAFFIC
from cep_pipeline.adaptation.distance import SCANNED_DISTANCES

COMPARISON, CHANGES, FREQUENCY = "comparison", "changes", "frequency"
"""The parts: patterns of five sets over stocks and traffic; one over rates that are permuted; and some of the stocks
that are decided about more and less often."""
STATIC, UNCONDITIONAL, AVERAGE, META = "static", "unconditional", "average", "meta"
SAME = 0.02
"""Times that differ by less are alike."""
OTHER_K = "other K"
"""Invariants of the K that a planner is not compared by, at d = 0."""


@dataclass(frozen=True)
class Sizes:
    """The extent of what is measured.

    Attributes
    ----------
    checks
        Stream -> decisions that are taken over it.
    sequences, others
        Pattern sizes of the sequences, by which t and d are chosen, and of the other four sets.
    distances, thresholds
        What is tried of d, and of t: as many.
    work
        Tries of an event on a partial match that the static plan makes between two decisions, in the mean: windows,
        and with them intervals, are chosen so.
    phases, phase_size
        Events after which rates are permuted, and the size of the sequence there.
    repetitions
        The most runs of each that count, of which the least time does: it is run until two times are alike.
    frequencies, frequency_size
        Decisions while a window passes, and the size of the sequence and the conjunction that are decided so.
    beside
        The sets that `fused` runs too, beside permuted rates.
    processes
        Cells that are measured at a time.
    """

    checks: Mapping[str, int]
    sequences: tuple[int, ...]
    others: tuple[int, ...]
    distances: tuple[float, ...]
    thresholds: tuple[float, ...]
    work: float
    phases: tuple[int, ...]
    phase_size: int
    repetitions: int
    frequencies: tuple[int, ...]
    frequency_size: int
    beside: tuple[str, ...] = SETS
    processes: int = 1

    def __post_init__(self) -> None:
        if len(self.distances) != len(self.thresholds):
            raise ValueError("as many distances as thresholds are tried")


SMALL = Sizes(
    {STOCKS: 32, TRAFFIC: 48, PERMUTED: 32},
    (4, 6, 8),
    (5,),
    (0.0, 0.1, 0.25, 0.5),
    (0.1, 0.3, 0.75, 2.0),
    1_000_000.0,
    (5_000, 10_000, 20_000),
    5,
    2,
    (1, 4, 16, 64),
    5,
    processes=4,
)
_THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0)
FULL = Sizes(
    {STOCKS: 32, TRAFFIC: 48, PERMUTED: 32},
    (3, 4, 5, 6, 7, 8),
    (3, 4, 5, 6, 7, 8),
    SCANNED_DISTANCES,
    _THRESHOLDS,
    1_000_000.0,
    (5_000, 10_000, 20_000, 40_000),
    6,
    2,
    (1, 2, 4, 8, 16, 32, 64),
    5,
    processes=4,
)


@dataclass(frozen=True)
class Contender:
    """A mechanism and the planner whose plans it runs."""

    name: str
    mechanism: str
    planner: str
    cost: str | None = None
    """The cost model, where it is not that of the mechanism."""
    k: int | None = 1
    """Invariants a block; None takes all comparisons: of dynamic programming, where the patent advises against 1."""
    unmeasured: int = 0
    """Runs before those that count: a mechanism that compiles a kernel for each plan is given one."""

    @property
    def other_k(self) -> int | None:
        """The K that is not compared by."""
        return None if self.k == 1 else 1


CHAIN = Contender("greedy", CHAIN_BY[2], CHAIN_BY[0], CHAIN_BY[1])
TREE = Contender("zstream", TREE_BY[2], TREE_BY[0], TREE_BY[1], k=None)
FUSED = Contender("fused", "fused", "dp_left_deep", k=None, unmeasured=1)
CONTENDERS = (CHAIN, TREE, FUSED)
OF_THE_PATENT = (CHAIN, TREE)


def threshold_name(threshold: float) -> str:
    """The name of a decision function by a constant threshold."""
    return f"t={threshold:g}"


def distance_name(distance: float) -> str:
    """The name of one by invariants with a minimal distance."""
    return f"d={distance:g}"
