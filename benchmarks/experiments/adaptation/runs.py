"""One pattern under every decision function: decisions are timed, then detection once for all with the same plans."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from benchmarks.experiments.adaptation.decisions import TOO_EARLY, NotedAverage, decisions_of
from benchmarks.experiments.adaptation.hindsight import in_hindsight
from benchmarks.experiments.adaptation.patterns import Fitted, matches_in, output_of
from benchmarks.experiments.adaptation.prediction import REACHES, prediction, saved
from benchmarks.experiments.adaptation.sizes import SAME, Contender, Sizes
from benchmarks.experiments.adaptation.streams import ExperimentStream
from benchmarks.experiments.cells import Figure
from benchmarks.measure import one_core
from cep_pipeline.adaptation import AdaptationReport, AdaptiveDetection
from cep_pipeline.errors import CepError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics

SWEPT_BYTES = 1 << 24
"""More than the caches of a core hold."""
Asked = tuple[tuple[int, str], ...]
"""The plans that a mechanism is to run after the first one, each with the event that it begins with."""


def intervals_read(checks: int, reach: int) -> int:
    """The intervals of a stream over which so many decisions are taken: the first ones fill the statistics."""
    return reach + checks + 1


@dataclass
class _Decided:
    """The decisions of a decision function, and the least of their times."""

    report: AdaptationReport
    least: dict[str, float] = field(default_factory=dict)

    def add(self, report: AdaptationReport) -> None:
        total = report.total
        times = {"deciding": total.deciding, "planning": total.planning, "estimating": report.seconds_estimating}
        self.least = {name: min(seconds, self.least.get(name, seconds)) for name, seconds in times.items()}

    @property
    def asked(self) -> Asked:
        """The plans that the mechanism is asked to run."""
        return tuple((switch.row, switch.orders) for switch in self.report.switches)


@dataclass
class Detected:
    """A mechanism's matches, the number of events that it tried on partial matches, and its times."""

    output: pa.Table
    candidates: int
    times: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The least time."""
        return min(self.times)

    @property
    def spread(self) -> float:
        """The share of the least time by which the next one is more; 0 for one time."""
        least, following = [*sorted(self.times), self.seconds][:2]
        return following / least - 1 if least else 0.0

    @property
    def agrees(self) -> bool:
        """True where two times are alike: another one would tell nothing new."""
        return len(self.times) > 1 and self.spread <= SAME


def measure(
    contender: Contender,
    stream: ExperimentStream,
    fitted: Fitted,
    sizes: Sizes,
    seed: int,
    reaches: Sequence[int] = REACHES,
    *,
    hindsight: bool = True,
) -> dict[str, Figure]:
    """Run a pattern under every decision function, so often as is asked for.

    What is decided does not depend on what is found. So decisions are timed first, without detection: in between the
    caches are swept, as detection would. Then the mechanism runs, once for all decision functions that switched to the
    same plans at the same events, which ask the same of it; and again until two of the times are alike.

    Parameters
    ----------
    reaches
        How many intervals back the statistics may reach.
    hindsight
        Whether the plans that were the best ones in hindsight are run, too.

    Returns
    -------
    dict of str to figure
        For each decision function `NAME:` and a figure; seconds of processor time.

    Raises
    ------
    CepError
        A decision function led to other matches.
    """
    average, pattern, every_us = NotedAverage(), fitted.pattern, fitted.every_us
    checks = fitted.checks_of(sizes.checks[stream.name])
    settled = AdaptiveDetection(
        planner=contender.planner,
        cost=contender.cost,
        mechanism=contender.mechanism,
        every=f"{every_us} us",
        seed=seed,
        max_pairs=fitted.pairs,
        minimum_gain=0.0,  # a switch is free, as in the patent
        detect_events=1,  # and so many windows as the loop goes over at once
        clock=time.process_time,
    )
    # How far the statistics reach is found on the stretch that begins like the longest one that it may ask for.
    told = prediction(settled, pattern, stream.before(every_us * intervals_read(checks, max(reaches))), reaches)
    settled = replace(settled, window=f"{told.reach * every_us} us")
    events = stream.before(every_us * intervals_read(checks, told.reach))
    begin = stream.before(every_us * told.reach)
    from_us = begin.column("timestamp").cast(pa.int64())[-1].as_py()
    snapshot = estimate_statistics([pattern], begin, seed=seed, max_pairs=told.reach * fitted.pairs)
    loops = {
        name: replace(settled, decision=decision)
        for name, decision in decisions_of(contender, sizes, average, from_us).items()
    }
    decided: dict[str, _Decided] = {}
    gc.collect()
    for _ in range(sizes.repetitions):
        for name, loop in loops.items():
            _, report = _run(replace(loop, find=False), pattern, _swept(events, every_us), snapshot)
            decided.setdefault(name, _Decided(report)).add(report)
    detected: dict[Asked, Detected] = {}
    asking = {of.asked: name for name, of in reversed(decided.items())}
    for _ in range(contender.unmeasured + sizes.repetitions):
        for asked, name in asking.items():
            if asked in detected and detected[asked].agrees:
                continue
            output, report = _run(loops[name], pattern, events, snapshot)
            first = next(iter(detected.values()), None)
            if first is not None and not output.equals(first.output):
                raise _found_otherwise(name, contender, stream, matches_in(output), matches_in(first.output))
            of = detected.setdefault(asked, Detected(output, sum(node.candidates for node in report.metrics.nodes)))
            of.times.append(report.total.detecting)
    by_latest, by_next = saved(settled, pattern, events, told, snapshot)
    figures: dict[str, Figure] = {
        "events_read": events.num_rows,
        "interval_s": every_us / 1e6,
        "reach": told.reach,
        "average_d": average.found,
        "average_d_of_all": average.of_all,
        "by_latest": by_latest,
        "by_next": by_next,
        **{f"error_{reach}": error for reach, error in told.error.items()},
    }
    if hindsight:
        following = told.following[: intervals_read(checks, told.reach)]
        best = in_hindsight(settled, pattern, events, snapshot, following, told.reach + 1, fitted.intervals)
        found = matches_in(next(iter(detected.values())).output)
        if best.matches != found:
            raise _found_otherwise("in hindsight", contender, stream, best.matches, found)
        figures |= {
            "hindsight_candidates": best.tries,
            "hindsight_switches": best.switches,
            "switch_price": best.price,
        }
    for name, by in decided.items():
        figures |= {f"{name}:{figure}": value for figure, value in _figures(by, detected[by.asked]).items()}
    return figures


def _found_otherwise(name: str, contender: Contender, stream: ExperimentStream, matches: int, others: int) -> CepError:
    return CepError(
        f"adaptation: {name} on {contender.mechanism} finds {matches:,} matches in the {stream.name}, where {others:,} "
        "were found; plans must not change what is found"
    )


def _run(
    loop: AdaptiveDetection, pattern: Pattern, events: pa.Table | Iterator[pa.Table], snapshot: StatisticsSnapshot
) -> tuple[pa.Table, AdaptationReport]:
    with one_core(), _nothing_collected():
        tables, report = loop.detect([pattern], events, snapshot=snapshot, output=output_of(pattern))
    return tables[pattern.name], report


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Leave what runs leave behind in memory, so that it is not swept up in the middle of a plan."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _swept(events: pa.Table, every_us: int) -> Iterator[pa.Table]:
    """The stream in the parts between decisions, with nothing left in the caches of the one before."""
    sweep = np.zeros(SWEPT_BYTES // 8)
    time_us = events.column("timestamp").cast(pa.int64()).to_numpy()
    cuts = np.searchsorted(time_us, np.arange(time_us[0], time_us[-1] + every_us + 1, every_us))
    for first, stop in pairwise(np.unique(cuts).tolist()):
        sweep += 1.0
        yield events.slice(first, stop - first)


def _figures(decided: _Decided, detected: Detected) -> dict[str, Figure]:
    report = decided.report
    return {
        **decided.least,
        "detecting": detected.seconds,
        "spread": detected.spread,
        "matches": matches_in(detected.output),
        "checks": sum(check.reason != TOO_EARLY for check in report.checks),
        "planned": report.replannings,
        "switches": len(report.switches),
        "candidates": detected.candidates,
    }
