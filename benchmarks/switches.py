"""`cep bench switches`: the work of adaptive detection where plans pay, and where they hardly differ, by its tries.

Tries, events that are tested on partial matches, do not depend on the machine: the clock of the loop stands still.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.measure import Progress
from benchmarks.report import markdown_table
from cep_pipeline.adaptation import AdaptiveDetection, decision_function
from cep_pipeline.errors import CepError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern

ROTATING, TIED = "another type gets rare", "all types are alike and drift"
MOST = 1.1
"""The loop may have so many times the tries of the better one of two others: no switch, and a switch for any gain."""
PLANNERS: Mapping[str, tuple[str, str]] = {
    "greedy": ("lazy_chain_nfa", "throughput"),
    "zstream": ("evaluation_tree", "instances"),
}
"""Planner -> the mechanism that runs its plans, and their cost."""
DISTANCES = (0.0, 0.3)
WINDOW_S, DECISIONS_A_WINDOW = 60, 4
RARE_ORDER = "ACEBD"
"""The types in the order in which they get rare: one that no condition ties to the one before."""
RARE_SHARE, SELECTIVITY = 0.01, 0.003
DRIFT_EVERY_S, _STEP, _BACK = 15, 0.05, 0.01
"""Seconds after which rates drift, the step of an ln rate, and the part of it that it goes back."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A stream of five types, so many seconds long.

    Attributes
    ----------
    per_s
        The events a second of a type that is not rare.
    change_s
        In a stream that is `ROTATING`, the time for which a type is rare.
    """

    stream: str
    seconds: int
    seed: int
    per_s: float = 10.0
    change_s: int = 400

    def events(self) -> pa.Table:
        """The events, always the same."""
        random = np.random.default_rng((self.seed, self.seconds))
        counts = random.poisson(self._rates(random))
        codes = np.repeat(np.tile(np.arange(len(RARE_ORDER)), self.seconds), counts.ravel())
        second = np.repeat(np.arange(self.seconds), counts.sum(axis=1))
        time_us = second * 1_000_000 + random.integers(0, 1_000_000, len(codes))
        order = np.argsort(time_us, kind="stable")
        kinds = pa.DictionaryArray.from_arrays(pa.array(codes[order]), pa.array(sorted(RARE_ORDER)))
        return pa.table(
            {
                "timestamp": pa.array(time_us[order]).cast(pa.timestamp("us", tz="UTC")),
                "seq": pa.array(np.arange(len(codes))),
                "kind": kinds.cast(pa.string()),
                "x": pa.array(random.random(len(codes))),
            }
        )

    def _rates(self, random: np.random.Generator) -> Floats:
        """Events a second of each type, second by second."""
        second = np.arange(self.seconds)
        rates = np.full((self.seconds, len(RARE_ORDER)), self.per_s)
        if self.stream == ROTATING:
            rare = np.array([ord(name) - ord("A") for name in RARE_ORDER])
            rates[second, rare[second // self.change_s % len(rare)]] *= RARE_SHARE
            return rates
        ln_rate = np.zeros((self.seconds // DRIFT_EVERY_S + 1, len(RARE_ORDER)))
        for before, now in pairwise(ln_rate):
            now[:] = (1 - _BACK) * before + random.normal(0, _STEP, len(now))
        return rates * np.exp(ln_rate[second // DRIFT_EVERY_S])


CASES = (
    *(Case(ROTATING, seconds, seed) for seconds in (600, 800) for seed in (1, 2, 3)),
    Case(ROTATING, 2_000, 1),
    *(Case(TIED, 900, seed, per_s=5.0) for seed in (1, 2, 3)),
)


@dataclass(frozen=True)
class Tries:
    """The tries of a case by a planner, and the switches, of three ways to decide.

    Attributes
    ----------
    static, free, default
        No switch; a switch for any gain; the loop's own rule.
    """

    case: Case
    planner: str
    distance: float
    events: int
    static: int
    free: int
    default: int
    free_switches: int
    switches: int

    @property
    def ratio(self) -> float:
        """The tries of the loop's own rule, relative to those of the better one of the others."""
        return self.default / min(self.static, self.free)


def conjunction() -> Pattern:
    """One event of each type, each near the one before in the alphabet, so many that some match."""
    names = sorted(RARE_ORDER.lower())
    # Of two even draws from 0 to 1, nearly 2 c are nearer than c.
    near = " AND ".join(f"abs({one}.x - {other}.x) < {SELECTIVITY / 2}" for one, other in pairwise(names))
    operands = ", ".join(f"{name.upper()} {name}" for name in names)
    schema = StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "float64"}})
    (pattern,) = parse_patterns(f"NAME near PATTERN AND({operands}) WHERE {near} WITHIN {WINDOW_S} seconds", schema)
    return pattern


def measure_switches(cases: Sequence[Case], progress: Progress) -> Iterator[Tries]:
    """Run each case by each planner and distance.

    Raises
    ------
    CepError
        Two plans found different matches.
    """
    progress.begin("switches of plans", len(cases) * len(PLANNERS))
    for case in cases:
        events = case.events()
        for planner in PLANNERS:
            static, _, matches = _run(case, events, planner, None, None)
            for distance in DISTANCES:
                free, default = (_run(case, events, planner, distance, gain) for gain in (0.0, None))
                if {free[2], default[2]} != {matches}:
                    raise CepError(
                        f"switches, {planner}: {free[2]:,} and {default[2]:,} matches in place of {matches:,}"
                    )
                tries = static, free[0], default[0]
                yield Tries(case, planner, distance, events.num_rows, *tries, free[1], default[1])
            progress.advance()


def _run(
    case: Case, events: pa.Table, planner: str, distance: float | None, gain: float | None
) -> tuple[int, int, int]:
    """The tries, switches and matches of the loop with this minimal gain; without a distance, of a static plan."""
    mechanism, cost = PLANNERS[planner]
    loop = AdaptiveDetection(
        planner=planner,
        cost=cost,
        mechanism=mechanism,
        decision=decision_function("static") if distance is None else decision_function("invariant", distance=distance),
        every_events=round((len(RARE_ORDER) - 1) * case.per_s * WINDOW_S / DECISIONS_A_WINDOW),
        minimum_gain=gain,
        clock=_standing,
    )
    tables, report = loop.detect([conjunction()], events, output="count")
    matches = int(tables["near"].column("count")[0].as_py())
    return sum(node.candidates for node in report.metrics.nodes), len(report.switches), matches


def _standing() -> float:
    return 0.0


def switches_table(found: Sequence[Tries]) -> str:
    """The tries with the bar, in Markdown."""
    rows = [
        [
            f"{one.case.stream}, seed {one.case.seed}",
            f"{one.events:,}",
            one.planner,
            f"{one.distance:g}",
            f"{one.static / 1e6:.2f} M",
            f"{one.free / 1e6:.2f} M ({one.free_switches})",
            f"{one.default / 1e6:.2f} M ({one.switches})",
            f"{one.ratio:.2f}",
            f"{MOST:g}: {'met' if one.ratio <= MOST else 'MISSED'}",
        ]
        for one in found
    ]
    header = ["stream", "events", "planner", "d", "static", "free (switches)", "default (switches)", "ratio", "bound"]
    return markdown_table(header, rows)
