"""`cep experiment lazy_nfa`: eager, chain and tree NFA against the frequency of the rare event (DEBS'15, section 7)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations, product

import pyarrow as pa

from benchmarks.experiments.cells import Cell, Figure, Row, number
from benchmarks.experiments.changing_trades import changing_trades
from benchmarks.experiments.correlated_trades import FREQUENT, RARE, Trades, read_trades, trades_schema
from benchmarks.experiments.experiment import Experiment, Request, Work
from benchmarks.experiments.page import Page
from benchmarks.measure import list_matches
from cep_pipeline.detection.mechanisms import Counters, Orders
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents

WINDOW_S = 1
"""Length of a window, in which the frequent stocks trade once or a few times, as in the paper's minutes."""
THRESHOLD = 0.5
"""Least correlation of the price histories of neighbours."""
STOCK_OF = {"a": FREQUENT[0], "b": FREQUENT[1], "c": RARE}
SEQUENCES = ("abc", "cba", "acb")
"""Sequences of events, by rarity: c is the rare one."""
FREQUENCY, INPUT, CHANGING = "frequency", "input", "changing"
"""The parts of the experiment: figures 7 and 8, figure 9, figure 10."""


@dataclass(frozen=True)
class Sizes:
    """The amount of work that is measured.

    Attributes
    ----------
    days, most
        Days of trades, and of them the first so many of the frequent stocks (None: all).
    shares
        How often the rare stock trades, relative to each of the others.
    draws
        How many times it is drawn which of its trades are left out; figures are sums over the draws.
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
    draws: int
    inputs: tuple[float, ...]
    changing: int
    phase: int
    step: int
    input_share: float = 0.01
    changing_share: float = 0.01


SMALL = Sizes(3, None, (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0), 1, (0.25, 0.5, 0.75, 1.0), 300_000, 100_000, 10_000)
_MANY_SHARES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FULL = Sizes(3, None, _MANY_SHARES, 5, (0.2, 0.4, 0.6, 0.8, 1.0), 900_000, 100_000, 10_000)


@dataclass(frozen=True)
class Contender:
    """A mechanism, with an evaluation order where it takes one, and options of its own."""

    name: str
    mechanism: str
    order: str = ""
    options: tuple[str, ...] = ()


EAGER = Contender("eager NFA", "eager_nfa")
TREE = Contender("tree NFA", "lazy_tree_nfa", options=("smallest_counter",))
"""The tree NFA of the paper, by which its findings are judged."""
OWN_TREE = Contender("tree NFA by expected tests", "lazy_tree_nfa")
"""The own way of `lazy_tree_nfa`: counters and the shares of events that passed decide."""
CHAINS = tuple(
    Contender(f"chain {order}", "lazy_chain_nfa", order)
    for order in sorted(("".join(letters) for letters in permutations("abc")), key=lambda order: order.index("c"))
)
CONTENDERS = (EAGER, *CHAINS, TREE, OWN_TREE)


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
    """Run a contender over events; what it compiles has been compiled before.

    Returns
    -------
    dict of str to figure
        Among them `computations`, the paper's measure: how many times the condition on an edge is evaluated, that is,
        an event in order and window is tried on an instance; and `evaluations`, tests of one conjunct on one tuple.
    """
    _warm_up(contender, sequence)
    pattern = pattern_of(sequence)
    counters = Counters()
    begin = time.process_time()
    prepared = PreparedEvents(events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    matches = _list(contender, pattern, sequence, prepared, counters)
    return {
        "events": events.num_rows,
        "matches": matches,
        "computations": sum(node.candidates for node in counters.nodes.values()),
        "evaluations": counters.condition_evaluations,
        "peak_instances": counters.peak_instances,
        "events_buffered": counters.events_buffered,
        "seconds": time.process_time() - begin,
    }


def _list(
    contender: Contender, pattern: Pattern, sequence: str, events: PreparedEvents, counters: Counters | None = None
) -> int:
    orders: Orders = [tuple(contender.order or sequence)]
    return list_matches(contender.mechanism, pattern, orders, events, counters, contender.options)


@cache
def _warm_up(contender: Contender, sequence: str) -> None:
    pattern = pattern_of(sequence)
    few = PreparedEvents(changing_trades(300, 100, 1.0, 1), type_attribute=pattern.type_attribute)
    _list(contender, pattern, sequence, few)


def steps_of(rows: Sequence[Row]) -> list[Row]:
    """The rows of the changing stream, each less the one before of its contender: what was done in between.

    A contender reads the stream in order, so what it does at the first events does not depend on how many follow.
    """
    before: dict[Figure, Row] = {}
    steps: list[Row] = []
    for row in rows:
        last = before.get(row["contender"])
        differences = {
            name: number(row, name) - (0 if last is None else number(last, name))
            for name in ("events", "matches", "computations", "evaluations")
        }
        first = 0 if last is None else last["events"]
        steps.append({**row, **differences, "first": first, "last": row["events"]})
        before[row["contender"]] = row
    return steps


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


class _TradesByShare:
    """The trades with the rare stock as rare as wanted; the last two streams are kept."""

    def __init__(self, request: Request, sizes: Sizes) -> None:
        self._request, self._sizes = request, sizes
        self._trades: Trades | None = None
        self._kept: dict[tuple[float, int], pa.Table] = {}

    @property
    def trades(self) -> Trades:
        if self._trades is None:
            self._trades = read_trades(self._request.data, self._sizes.days, self._sizes.most, self._request.seed)
        return self._trades

    def at(self, share: float, draw: int = 0) -> pa.Table:
        if (share, draw) not in self._kept:
            self._kept = dict([*self._kept.items()][-1:])
            self._kept[share, draw] = self.trades.with_rare(share, seed=self._request.seed + 1_000 * draw)
        return self._kept[share, draw]


def plan_work(request: Request) -> Work:
    """The measurements of all contenders, and their page."""
    sizes: Sizes = request.sizes or (FULL if request.full else SMALL)
    streams = _TradesByShare(request, sizes)
    changing = _ChangingStream(sizes, request.seed)
    cells = [*_frequency_cells(sizes, streams), *_input_cells(sizes, streams), *_changing_cells(sizes, changing)]

    def page(rows: Sequence[Row]) -> Page:
        from benchmarks.experiments.lazy_nfa.page import write_page

        return write_page(rows, sizes, request, streams.trades.description)

    return Work(cells, page)


_SUMS = ("events", "matches", "computations", "evaluations", "seconds")
_PEAKS = ("peak_instances", "events_buffered")


def summed(rows: Sequence[Row]) -> list[Row]:
    """The rows, with those of all draws as one: the sums of the figures, and the highest of the peaks.

    Rows belong together by the names and values of their keys. The order of the names does not matter: it differs
    between a row that was just measured and one that was kept on disk.
    """
    together: dict[frozenset[tuple[str, Figure]], dict[str, Figure]] = {}
    for row in rows:
        key = {name: value for name, value in row.items() if name not in (*_SUMS, *_PEAKS, "draw")}
        own = together.setdefault(frozenset(key.items()), key)
        for name in (name for name in (*_SUMS, *_PEAKS) if name in row):
            value, before = number(row, name), number(own, name) if name in own else 0
            own[name] = max(value, before) if name in _PEAKS else value + before
    return [*together.values()]


def _frequency_cells(sizes: Sizes, streams: _TradesByShare) -> Iterator[Cell]:
    def run(contender: Contender, sequence: str, share: float, draw: int) -> Row:
        return measure(contender, sequence, streams.at(share, draw))

    for share, draw, sequence, contender in product(sizes.shares, range(sizes.draws), SEQUENCES, CONTENDERS):
        key = {**_key(FREQUENCY, sizes), "share": share, "draw": draw, "sequence": sequence}
        yield Cell({**key, "contender": contender.name}, partial(run, contender, sequence, share, draw))


def _input_cells(sizes: Sizes, streams: _TradesByShare) -> Iterator[Cell]:
    def run(contender: Contender, part: float) -> Row:
        events = streams.at(sizes.input_share)
        return measure(contender, "abc", events.slice(0, round(part * events.num_rows)))

    for part in sizes.inputs:
        for contender in CONTENDERS:
            key = {**_key(INPUT, sizes), "share": sizes.input_share, "part_of_input": part, "contender": contender.name}
            yield Cell(key, partial(run, contender, part))


def _changing_cells(sizes: Sizes, stream: _ChangingStream) -> Iterator[Cell]:
    def run(contender: Contender, last: int) -> Row:
        return measure(contender, "abc", stream.events.slice(0, last))

    for last, contender in product(range(sizes.step, sizes.changing + 1, sizes.step), CONTENDERS):
        key: dict[str, Figure] = {"part": CHANGING, "phase": sizes.phase, "share": sizes.changing_share}
        key |= {"of_events": sizes.changing, "up_to": last, "contender": contender.name}
        yield Cell(key, partial(run, contender, last))


def _key(part: str, sizes: Sizes) -> dict[str, Figure]:
    return {"part": part, "days": sizes.days, "most": sizes.most}


EXPERIMENT = Experiment("lazy_nfa", plan_work)
