"""Measuring: engines one after the other, round after round, and every count compared before a time is kept.

Engines run in processes of their own: none finds memory, threads and settings as another one left them. The processes
are copies of a small one that has loaded the code of our own engines and nothing else. They map a file of events, in
Arrow's format.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from benchmarks.report import Timing
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Orders
from cep_pipeline.errors import CepError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.slices.prepared import PreparedEvents

SHARING_OF: Mapping[str, Sharing] = {"multi_pattern_nfa": "prefix", "multitree": "subexpression"}
"""The things that the mechanisms for many patterns share."""
SEARCH_STEPS = 20_000
"""Steps of the search for a plan of patterns that share."""
SLOW_ROUND_S = 4.0
"""An engine whose run takes longer than this is measured once."""


@dataclass(frozen=True)
class Measurement:
    """One run of one engine: seconds of detection alone, and the matches that it found."""

    seconds: float
    matches: int


@dataclass
class Progress:
    """The place where a benchmark says how far it is: of a piece of work and its steps, and that one step is done."""

    begin: Callable[[str, int], None] = field(default=lambda _text, _steps: None)
    advance: Callable[[], None] = field(default=lambda: None)


@contextmanager
def one_core() -> Iterator[None]:
    """Keep Arrow from using its thread pool, so that one core is measured."""
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        yield
    finally:
        pa.set_cpu_count(threads)


def measure_in_turn(
    engines: Mapping[str, Callable[[], Measurement]],
    repetitions: int,
    expected: int | None,
    what: str,
    progress: Progress,
) -> tuple[dict[str, Timing], int]:
    """Run engines in turn, round after round; in each an engine is run twice, and the second run is counted.

    The first one brings back what the others have displaced: caches, and memory that the system took. An engine with
    runs of more than `SLOW_ROUND_S` seconds has one round only. Returned are the timings, and the number of matches
    that all have found: the expected one, where it is known, else that of the first engine. Another one is a CepError,
    which names the work as `what`.
    """
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    slow: set[str] = set()
    progress.begin(f"{what}: {', '.join(engines)}", repetitions)
    for _ in range(repetitions):
        for name, run in engines.items():
            if name in slow:
                continue
            for _twice in range(2):
                gc.collect()  # or the run pays for what the one before it has left
                measured = run()
                if expected is None:
                    expected = measured.matches
                if measured.matches != expected:
                    raise CepError(f"{name} finds {measured.matches:,} matches of {what}, but there are {expected:,}")
            seconds[name].append(measured.seconds)
            if measured.seconds > SLOW_ROUND_S:
                slow.add(name)
        progress.advance()
    assert expected is not None
    return {name: Timing(name, tuple(values)) for name, values in seconds.items()}, expected


def planned_orders(
    patterns: Sequence[Pattern], events: pa.Table, mechanism: str, sharing: Sharing = "none"
) -> list[Orders]:
    """Plan for each pattern the orders or trees by which the mechanism binds events, by the statistics of the events.

    Patterns that share are planned together, by a search of so many steps that each run of it finds the same plan.
    """
    from cep_pipeline.detection.planned import plan_for
    from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload
    from cep_pipeline.statistics import estimate_statistics

    chosen = dict.fromkeys((pattern.name for pattern in patterns), mechanism)
    snapshot = estimate_statistics(patterns, events)
    if sharing == "none" or len(patterns) == 1:
        made = plan_for(patterns, snapshot, chosen, compare=False)
    else:
        made = plan_workload(patterns, snapshot, sharing=sharing, steps=SEARCH_STEPS, time_limit_s=None)
    return [[clause.order_or_tree for clause in made.for_pattern(pattern.name).clauses] for pattern in patterns]


def list_matches(
    mechanism: str,
    pattern: Pattern,
    orders: Orders,
    events: PreparedEvents,
    counters: Counters | None = None,
    options: Sequence[str] = (),
) -> int:
    """Let a mechanism, with options of its own, list all matches of a pattern of one clause; count them by blocks."""
    find = MECHANISMS[mechanism].with_options(options).find
    counters = Counters() if counters is None else counters
    return sum(len(block) for block in find(pattern, orders, events, EVERYTHING, counters))


def mechanism_runner(
    mechanism: str,
    patterns: Sequence[Pattern],
    events: pa.Table,
    *,
    counting: bool = False,
) -> Callable[[], Measurement]:
    """A function that prepares the events and finds all matches of all patterns, in seconds of the processor.

    They are found one pattern after another, or together by a mechanism that runs many patterns at once.

    Making the plan comes before: it is done once for a plan, not once a day; what a mechanism compiles is kept from its
    first run on. With `counting` matches are counted without being listed, where the mechanism can.
    """
    orders = planned_orders(patterns, events, mechanism, SHARING_OF.get(mechanism, "none"))
    first = patterns[0]
    find_many = MECHANISMS[mechanism].find_many

    def find(prepared: PreparedEvents, counted: Counters) -> int:
        if find_many is not None:
            return sum(len(block) for _, block in find_many(patterns, orders, prepared, EVERYTHING, counted))
        matches = 0
        for pattern, order in zip(patterns, orders, strict=True):
            at_once = MECHANISMS[mechanism].count(pattern, order, prepared, counted) if counting else None
            matches += list_matches(mechanism, pattern, order, prepared, counted) if at_once is None else at_once
        return matches

    def run() -> int:
        return find(PreparedEvents(events, type_attribute=first.type_attribute, base_type=first.base_type), Counters())

    return partial(timed, run)


def timed(run: Callable[[], int]) -> Measurement:
    """Run what finds matches, and measure the seconds of the processor."""
    start = time.process_time()
    matches = run()
    return Measurement(time.process_time() - start, matches)


Engine = Callable[[], Measurement]
"""Does the work once."""

_engine: Engine | None = None


@contextmanager
def engine_process(start: Callable[[], Engine]) -> Iterator[Engine]:
    """Start an engine in a process of its own, which ends with the block; what it raises is raised here.

    The function that starts it, and what it is bound to, must be importable by name.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.detection"])
    with ProcessPoolExecutor(1, mp_context=context) as process:
        process.submit(_start, start).result()
        yield lambda: process.submit(_run).result()


def _start(start: Callable[[], Engine]) -> None:
    global _engine
    pa.set_cpu_count(1)
    _engine = start()


def _run() -> Measurement:
    assert _engine is not None
    gc.collect()  # or the run pays for what the one before it has left
    return _engine()


def write_events(events: pa.Table, path: Path) -> None:
    """Write events as the processes read them."""
    with pa.ipc.new_file(pa.OSFile(str(path), "wb"), events.schema) as file:
        file.write_table(events)


def read_events(path: Path) -> pa.Table:
    """Map a file of events; nothing is copied."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
