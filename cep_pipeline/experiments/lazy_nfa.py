"""`cep experiment lazy_nfa`: eager, chain and tree NFA against the frequency of the rare event (DEBS'15, section 7)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations
from typing import cast

import numpy as np
import pyarrow as pa

from cep_pipeline.benchmarks.measure import list_matches
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanism import Counters, Orders
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.experiments.cells import Cell, Figure, Row
from cep_pipeline.experiments.changing_trades import changing_trades
from cep_pipeline.experiments.correlated_trades import FREQUENT, RARE, Trades, read_trades, trades_schema
from cep_pipeline.experiments.experiment import Experiment, Request, Work
from cep_pipeline.experiments.page import Page
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern

WINDOW_S = 60
THRESHOLD = 0.5
"""Least correlation of the price histories of neighbours."""
STOCK_OF = {"a": FREQUENT[0], "b": FREQUENT[1], "c": RARE}
SEQUENCES = ("abc", "cba", "acb")
"""Of events, by rarity: c is the rare one."""
FREQUENCY, INPUT, CHANGING = "frequency", "input", "changing"
"""The parts of the experiment: figures 7 and 8, figure 9, figure 10."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes
    ----------
    days, most
        Days of trades, and of them the first so many of the frequent stocks (None: all).
    shares
        How often the rare stock trades, relative to each of the others.
    inputs
        Shares of the input over which the growth of memory is measured.
    input_share
        How often the rare stock trades there.
    changing, phase, step
        Events of the changing stream, after how many another stock is rare, and how many are measured together.
    changing_share
        How often the rare stock trades there.
    """

    days: int
    most: int | None
    shares: tuple[float, ...]
    inputs: tuple[float, ...]
    changing: int
    phase: int
    step: int
    input_share: float = 0.1
    changing_share: float = 0.01


SMALL = Sizes(1, 20_000, (0.003, 0.01, 0.03, 0.1, 0.3, 1.0), (0.25, 0.5, 0.75, 1.0), 300_000, 100_000, 10_000)
_MANY_SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FULL = Sizes(3, None, _MANY_SHARES, (0.2, 0.4, 0.6, 0.8, 1.0), 900_000, 100_000, 10_000)


@dataclass(frozen=True)
class Contender:
    """A mechanism, with an evaluation order where it takes one."""

    name: str
    mechanism: str
    order: str = ""

    @property
    def is_there(self) -> bool:
        return self.mechanism in MECHANISMS


EAGER, TREE = Contender("eager NFA", "eager_nfa"), Contender("tree NFA", "lazy_tree_nfa")
CHAINS = tuple(
    Contender(f"chain {order}", "lazy_chain_nfa", order)
    for order in sorted(("".join(letters) for letters in permutations("abc")), key=lambda order: order.index("c"))
)
CONTENDERS = (EAGER, *CHAINS, TREE)


@cache
def pattern_of(sequence: str) -> Pattern:
    """The paper's pattern over a sequence of its events: neighbours a and b, and b and c, are correlated."""
    events = ", ".join(f"{STOCK_OF[letter]} {letter}" for letter in sequence)
    text = (
        f"NAME correlated PATTERN SEQ({events}) WHERE corr(a.history, b.history) > {THRESHOLD} "
        f"AND corr(b.history, c.history) > {THRESHOLD} WITHIN {WINDOW_S} seconds"
    )
    return parse_patterns(text, trades_schema())[0]


def measure(contender: Contender, sequence: str, events: pa.Table) -> dict[str, Figure]:
    """Run a contender over events; what it compiles has been compiled before."""
    _warm_up(contender, sequence)
    pattern = pattern_of(sequence)
    counters = Counters()
    begin = time.perf_counter()
    prepared = PreparedEvents(events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    matches = list_matches(contender.mechanism, pattern, _orders(contender, sequence), prepared, counters)
    return {
        "events": events.num_rows,
        "matches": matches,
        "evaluations": counters.condition_evaluations,
        "peak_instances": counters.peak_instances,
        "events_buffered": counters.events_buffered,
        "seconds": time.perf_counter() - begin,
    }


def _orders(contender: Contender, sequence: str) -> Orders:
    return [tuple(contender.order or sequence)]


@cache
def _warm_up(contender: Contender, sequence: str) -> None:
    pattern = pattern_of(sequence)
    few = PreparedEvents(changing_trades(300, 100, 1.0, 1), type_attribute=pattern.type_attribute)
    list_matches(contender.mechanism, pattern, _orders(contender, sequence), few)


def measure_step(contender: Contender, stream: _ChangingStream, first: int, last: int) -> dict[str, Figure]:
    """What a contender does at the events `first` to `last` of a stream that is running.

    What it does at an event depends on no event that is more than the window away. So it runs over these events with
    the window before them, and over that window alone: the difference is what it does at them.
    """
    before = stream.first_within(first)
    with_window = measure(contender, "abc", stream.events.slice(before, last - before))
    window = measure(contender, "abc", stream.events.slice(before, first - before))
    counted = ("matches", "evaluations")
    return {name: cast(int, with_window[name]) - cast(int, window[name]) for name in counted} | {
        "peak_instances": with_window["peak_instances"]
    }


class _ChangingStream:
    """The changing stream, made when it is first asked for."""

    def __init__(self, sizes: Sizes, seed: int) -> None:
        self._sizes, self._seed = sizes, seed
        self._events: pa.Table | None = None

    @property
    def events(self) -> pa.Table:
        if self._events is None:
            sizes = self._sizes
            self._events = changing_trades(sizes.changing, sizes.phase, sizes.changing_share, self._seed)
        return self._events

    def first_within(self, row: int) -> int:
        """The first event that is within the window before an event."""
        times = self.events.column("timestamp").cast(pa.int64()).to_numpy()
        return int(np.searchsorted(times, times[row] - WINDOW_S * 1_000_000))


class _TradesByShare:
    """The trades with the rare stock as rare as wanted; the last two streams are kept."""

    def __init__(self, request: Request, sizes: Sizes) -> None:
        self._request, self._sizes = request, sizes
        self._trades: Trades | None = None
        self._kept: dict[float, pa.Table] = {}

    @property
    def trades(self) -> Trades:
        if self._trades is None:
            self._trades = read_trades(self._request.data, self._sizes.days, self._sizes.most, self._request.seed)
        return self._trades

    def at(self, share: float) -> pa.Table:
        if share not in self._kept:
            self._kept = dict([*self._kept.items()][-1:])
            self._kept[share] = self.trades.with_rare(share, self._request.seed)
        return self._kept[share]


def plan_work(request: Request) -> Work:
    """The measurements of all contenders that are there, and their page."""
    sizes: Sizes = request.sizes or (FULL if request.full else SMALL)
    streams = _TradesByShare(request, sizes)
    changing = _ChangingStream(sizes, request.seed)
    cells = [*_frequency_cells(sizes, streams), *_input_cells(sizes, streams), *_changing_cells(sizes, changing)]

    def page(rows: Sequence[Row]) -> Page:
        from cep_pipeline.experiments.lazy_nfa_page import write_page

        return write_page(rows, sizes, request, streams.trades.description)

    return Work(cells, page)


def _contenders() -> list[Contender]:
    return [contender for contender in CONTENDERS if contender.is_there]


def _frequency_cells(sizes: Sizes, streams: _TradesByShare) -> Iterator[Cell]:
    for share in sizes.shares:
        for sequence in SEQUENCES:
            for contender in _contenders():
                key = {**_key(FREQUENCY, sizes), "sequence": sequence, "share": share, "contender": contender.name}

                def run(contender: Contender = contender, sequence: str = sequence, share: float = share) -> Row:
                    return measure(contender, sequence, streams.at(share))

                yield Cell(key, run)


def _input_cells(sizes: Sizes, streams: _TradesByShare) -> Iterator[Cell]:
    def run(contender: Contender, part: float) -> Row:
        events = streams.at(sizes.input_share)
        return measure(contender, "abc", events.slice(0, round(part * events.num_rows)))

    for part in sizes.inputs:
        for contender in _contenders():
            key = {**_key(INPUT, sizes), "share": sizes.input_share, "part_of_input": part, "contender": contender.name}
            yield Cell(key, partial(run, contender, part))


def _changing_cells(sizes: Sizes, stream: _ChangingStream) -> Iterator[Cell]:
    for first in range(0, sizes.changing, sizes.step):
        for contender in _contenders():
            key: Mapping[str, Figure] = {
                "part": CHANGING,
                "of_events": sizes.changing,
                "phase": sizes.phase,
                "share": sizes.changing_share,
                "first": first,
                "step": sizes.step,
                "contender": contender.name,
            }
            yield Cell(key, partial(measure_step, contender, stream, first, first + sizes.step))


def _key(part: str, sizes: Sizes) -> dict[str, Figure]:
    return {"part": part, "days": sizes.days, "most": sizes.most}


EXPERIMENT = Experiment(
    "lazy_nfa",
    "Lazy evaluation: eager, chain and tree NFA",
    "Kolchinsky, Sharfman, Schuster: Lazy Evaluation Methods for Detecting Complex Events, DEBS 2015, section 7",
    plan_work,
)
