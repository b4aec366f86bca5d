"""`cep experiment lazy_nfa`: eager, chain and tree NFA against the frequency of the rare event (DEBS'15, section 7).

In this order: trades, the measurements with the paper's own tree NFA, findings, and the page.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, lru_cache, partial
from itertools import permutations, product
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.charts import Axis, Style, line_chart
from benchmarks.experiments.experiment import (
    Cell,
    Experiment,
    Figure,
    Request,
    Row,
    number,
    refuse_different_matches,
    rows_of,
)
from benchmarks.experiments.findings import (
    Measured,
    finding,
    findings_of,
    ratio_range,
    verdict_at_least,
    verdict_at_most,
)
from benchmarks.experiments.page import Page, Picture, findings_page, table_across, zeros_not_drawn
from benchmarks.measure import list_matches
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import times_as_fast
from cep_pipeline.detection.mechanisms import Counters, Orders
from cep_pipeline.events.derived import Carry, derive
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.schema import StreamSchema, schema_of
from cep_pipeline.events.stream_document import StreamDocument
from cep_pipeline.expressions.arithmetic import deviations_of_all
from cep_pipeline.expressions.columns import column_from_arrow
from cep_pipeline.generate import Market
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents

FREQUENT, RARE = ("AIG", "IBM"), "SPY"
"""The two stocks that trade about equally often, and the one that is made rare."""
HISTORY = 20
"""Prices in the history of a trade, its own among them."""
FIRST_DAY = date(2013, 10, 7)
COLUMNS = ("timestamp", "seq", "symbol", "price", "history")
_SCHEMA = {
    "name": "us_equity_trades",
    "timezone": "America/New_York",
    "base_type": "Trade",
    "type_attribute": "symbol",
    "timestamp": {"column": "timestamp", "format": "iso"},
    "attributes": {"symbol": "string", "price": "float64"},
    "derived": {"history": {"history": {"of": "price", "length": HISTORY}}},
    "source": {"format": "csv", "path": "{day:%Y-%m-%d}/trades.csv.gz"},
}


def trades_schema() -> StreamSchema:
    """Schema of the trades, raw and with their histories."""
    return schema_of(StreamDocument.model_validate(_SCHEMA))


@dataclass(frozen=True)
class Trades:
    """Trades of the three stocks in stream order, the rare one as often as the others or more, and where from."""

    events: pa.Table
    description: str

    def with_rare(self, share: float, seed: int) -> pa.Table:
        """The trades, with so many of the rare stock left out that it trades `share` times as often as the others.

        `share` is relative to the mean of the two frequent stocks; which trades are left out is drawn by the seed.
        """
        symbols = self.events.column("symbol")
        rows = np.arange(self.events.num_rows)
        rare = pc.equal(symbols, RARE).to_numpy(zero_copy_only=False)
        wanted = round(share * int((~rare).sum()) / len(FREQUENT))
        if wanted > int(rare.sum()):
            raise ValueError(f"{wanted:,} trades of {RARE} are wanted of {int(rare.sum()):,}")
        kept = np.random.default_rng(seed).permutation(rows[rare])[:wanted]
        return self.events.take(pa.array(np.sort(np.concatenate((rows[~rare], kept)))))


@cache
def read_trades(data: Path | None, days: int, most: int | None, seed: int) -> Trades:
    """The trades of some days: real ones of a folder of public data, or generated ones where they are missing.

    Parameters
    ----------
    data
        Folder with us_equity_trades/DATE/trades.csv.gz.
    days
        Trading days from 2013-10-07 on.
    most
        Only the first so many trades of the two frequent stocks, and of the other what falls between; None takes all.
    seed
        Of generated trades.

    Raises
    ------
    InputError
        A file of real trades is there and cannot be read.
    """
    wanted = [FIRST_DAY + timedelta(days=number) for number in range(days)]
    files = [] if data is None else [data / "us_equity_trades" / f"{day}" / "trades.csv.gz" for day in wanted]
    if files and all(file.is_file() for file in files):
        events = load_events(trades_schema(), files).events
        description = "real trades of " + " and ".join([", ".join(FREQUENT), RARE])
    else:
        events = _generate(wanted, seed)
        description = "generated trades that are named " + " and ".join([", ".join(FREQUENT), RARE])
    chosen = events.filter(pc.is_in(events.column("symbol"), pa.array([*FREQUENT, RARE])))
    if most is not None:
        frequent = pc.not_equal(chosen.column("symbol"), RARE).to_numpy(zero_copy_only=False)
        chosen = chosen.slice(0, int(np.searchsorted(np.cumsum(frequent), most)) + 1)
    chosen = chosen.select(COLUMNS).combine_chunks()
    span = f"{wanted[0]}" if days == 1 else f"{wanted[0]} to {wanted[-1]}"
    return Trades(chosen, f"{description}, {span}")


def _generate(days: list[date], seed: int) -> pa.Table:
    """Days of a market whose stocks trade about once a second each."""
    market = Market(stocks=4, seed=seed, min_rate_per_s=0.9, max_rate_per_s=1.6, drift=0.2)
    trades = pa.concat_tables([market.trades(day).select(["symbol", "timestamp", "price"]) for day in days])
    return with_histories(trades.column("timestamp").cast(pa.timestamp("us")), trades)


def with_histories(timestamp: pa.ChunkedArray, trades: pa.Table) -> pa.Table:
    """Symbols and prices in stream order as events, each with the last prices of its symbol."""
    numbered = pa.table(
        {
            "timestamp": timestamp.cast(pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "seq": pa.array(np.arange(trades.num_rows, dtype=np.int64)),
            "symbol": trades.column("symbol").cast(pa.string()),
            "price": trades.column("price"),
        }
    )
    return derive(numbered, trades_schema().derived, trades_schema().type_attribute, Carry()).select(COLUMNS)


PHASES = (RARE, *FREQUENT)
"""The rare stock of each phase; then it begins again."""
PER_S = 4.0
"""Events a second."""
_MARKET_STEP, _OWN_STEP = 0.00028, 0.0004


@lru_cache(maxsize=1)
def changing_trades(events: int, phase: int, rare_share: float, seed: int) -> pa.Table:
    """Make trades whose prices partly move together.

    Parameters
    ----------
    events
        Number of trades.
    phase
        Events after which the next stock of `PHASES` is the rare one.
    rare_share
        How often the rare stock trades, relative to each of the others, which trade equally often.
    seed
        Of all draws.

    Returns
    -------
    pyarrow.Table
        As `with_histories` returns them.
    """
    rng = np.random.default_rng((seed, events))
    number = np.arange(events)
    others = rng.integers(1, len(PHASES), events)
    is_rare = rng.random(events) < rare_share / (rare_share + len(PHASES) - 1)
    # Counted from the rare stock of the phase, so that the others are the two after it.
    stock = (number // phase + np.where(is_rare, 0, others)) % len(PHASES)
    market = np.cumsum(rng.normal(0, _MARKET_STEP, events))
    own = rng.normal(0, _OWN_STEP, events)
    log_price = market.copy()
    for code in range(len(PHASES)):
        rows = np.flatnonzero(stock == code)
        log_price[rows] += np.cumsum(own[rows])
    time_us = np.cumsum(rng.exponential(1e6 / PER_S, events)).astype(np.int64)
    symbols = pa.DictionaryArray.from_arrays(pa.array(stock.astype(np.int32)), pa.array(PHASES))
    trades = pa.table({"symbol": symbols.cast(pa.string()), "price": pa.array(np.round(100 * np.exp(log_price), 4))})
    return with_histories(pa.chunked_array([pa.array(time_us)]), trades)


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
TREE = Contender("tree NFA", "")
"""The tree NFA of the paper, by which its findings are judged: `TreeNfa`, whose work is counted."""
ONCE_TREE = Contender("tree NFA that chooses once", "lazy_tree_nfa", options=("smallest_counter",))
"""The mechanism by the paper's counters: an instance chooses when it is made."""
OWN_TREE = Contender("tree NFA by expected tests", "lazy_tree_nfa")
"""The own way of `lazy_tree_nfa`: counters and the shares of events that passed decide."""
CHAINS = tuple(
    Contender(f"chain {order}", "lazy_chain_nfa", order)
    for order in sorted(("".join(letters) for letters in permutations("abc")), key=lambda order: order.index("c"))
)
CONTENDERS = (EAGER, *CHAINS, TREE, ONCE_TREE, OWN_TREE)


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
    if contender == TREE:
        return {"events": events.num_rows, **TreeNfa(sequence, events).run()}
    _warm_up(contender, sequence)
    pattern = pattern_of(sequence)
    counters = Counters()
    prepared = PreparedEvents(events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    matches = _list(contender, pattern, sequence, prepared, counters)
    return {
        "events": events.num_rows,
        "matches": matches,
        "computations": sum(node.candidates for node in counters.nodes.values()),
        "evaluations": counters.condition_evaluations,
        "peak_instances": counters.peak_instances,
        "events_buffered": counters.events_buffered,
    }


class TreeNfa:
    """The tree NFA as section 6 describes it: each state chooses its next event on each matching attempt.

    An event that arrives is an attempt of every instance. It is made where the buffer holds an event of each name that
    the instance misses. The name with the fewest is next, and the instance takes all its events: each that passes makes
    an instance of the next layer, which attempts at once. The text does not say how a match is kept from being found
    in two orders. Here an instance takes nothing that the one it was made from had taken before.

    Parameters
    ----------
    sequence
        The letters of the events in their order.
    events
        Trades with their histories.
    """

    def __init__(self, sequence: str, events: pa.Table) -> None:
        self._sequence = sequence
        lists, begins, lengths, squares = deviations_of_all(column_from_arrow(events.column("history")))
        self._histories = [
            lists[begin : begin + length].tolist() for begin, length in zip(begins, lengths, strict=True)
        ]
        self._squares = squares.tolist()
        self._times = events.column("timestamp").cast(pa.int64()).to_pylist()
        letters = {stock: letter for letter, stock in STOCK_OF.items()}
        self._letters = [letters[stock] for stock in events.column("symbol").to_pylist()]
        self._buffer: dict[str, deque[int]] = {letter: deque() for letter in sequence}
        self._figures = dict.fromkeys(
            ("matches", "computations", "evaluations", "peak_instances", "events_buffered"),
            0,
        )

    def run(self) -> dict[str, int]:
        """Read all events; returns the figures of `measure`."""
        begin = _Instance({}, dict.fromkeys(self._sequence, -1))
        alive: list[_Instance] = []
        for row, (time_us, letter) in enumerate(zip(self._times, self._letters, strict=True)):
            first_us = time_us - WINDOW_S * 1_000_000
            self._buffer[letter].append(row)
            for rows in self._buffer.values():
                while rows and self._times[rows[0]] < first_us:
                    rows.popleft()
            alive = [one for one in alive if self._times[min(one.bound.values())] >= first_us]
            for instance in (begin, *alive):
                self._attempt(instance, alive)
            self._peak("peak_instances", len(alive))
            self._peak("events_buffered", sum(map(len, self._buffer.values())))
        return self._figures

    def _peak(self, name: str, now: int) -> None:
        self._figures[name] = max(self._figures[name], now)

    def counters(self, bound: Mapping[str, int]) -> dict[str, int]:
        """The numbers of events in the buffer, of each name that an instance misses."""
        return {letter: len(self._buffer[letter]) for letter in self._sequence if letter not in bound}

    def _attempt(self, instance: _Instance, alive: list[_Instance]) -> None:
        counters = self.counters(instance.bound)
        if not all(counters.values()):
            return
        chosen = min(counters, key=lambda letter: counters[letter])
        taken = instance.taken[chosen]
        for row in [row for row in self._buffer[chosen] if row > taken]:
            instance.taken[chosen] = row
            if not self._passes(instance.bound, chosen, row):
                continue
            if len(counters) == 1:
                self._figures["matches"] += 1
                continue
            made = _Instance({**instance.bound, chosen: row}, dict(instance.taken))
            if self._sequence[-1] not in made.bound:  # else what it misses has come before
                alive.append(made)
            self._attempt(made, alive)

    def _passes(self, bound: Mapping[str, int], letter: str, row: int) -> bool:
        """Try an event on an instance: its place in the sequence, then the correlations with its neighbours."""
        place = self._sequence.index(letter)
        if any((other < row) != (self._sequence.index(name) < place) for name, other in bound.items()):
            return False
        self._figures["computations"] += 1
        for name in "abc":
            if name in bound and {name, letter} != {"a", "c"}:
                self._figures["evaluations"] += 1
                if not self._correlation(bound[name], row) > THRESHOLD:
                    return False
        return True

    def _correlation(self, one: int, other: int) -> float:
        mine, theirs = self._histories[one], self._histories[other]
        if len(mine) != len(theirs):
            return math.nan
        products = 0.0
        for a, b in zip(
            mine, theirs, strict=True
        ):  # summed in the order of `correlation`, so that rounding is the same
            products += a * b
        return products / math.sqrt(self._squares[one] * self._squares[other])


@dataclass
class _Instance:
    """Events by their letters, and of each letter the last row up to which all have been taken."""

    bound: Mapping[str, int]
    taken: dict[str, int]


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


@lru_cache(maxsize=2)
def _trades(sizes: Sizes, request: Request, share: float, draw: int = 0) -> pa.Table:
    """The trades with the rare stock as rare as wanted."""
    trades = read_trades(request.data, sizes.days, sizes.most, request.seed)
    return trades.with_rare(share, seed=request.seed + 1_000 * draw)


_SUMS = ("events", "matches", "computations", "evaluations")
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


def _cells(sizes: Sizes, request: Request) -> Iterator[Cell]:
    def cell(key: Row, contender: Contender, sequence: str, events: Callable[[], pa.Table]) -> Cell:
        return Cell({**key, "contender": contender.name}, lambda: measure(contender, sequence, events()))

    extent: Row = {"days": sizes.days, "most": sizes.most}
    for share, draw, sequence, contender in product(sizes.shares, range(sizes.draws), SEQUENCES, CONTENDERS):
        key = {"part": FREQUENCY, **extent, "share": share, "draw": draw, "sequence": sequence}
        yield cell(key, contender, sequence, partial(_trades, sizes, request, share, draw))
    for part, contender in product(sizes.inputs, CONTENDERS):
        key = {"part": INPUT, **extent, "share": sizes.input_share, "part_of_input": part}
        yield cell(key, contender, "abc", partial(_begin_of_input, sizes, request, part))
    for last, contender in product(range(sizes.step, sizes.changing + 1, sizes.step), CONTENDERS):
        key = {"part": CHANGING, "phase": sizes.phase, "share": sizes.changing_share}
        key |= {"of_events": sizes.changing, "up_to": last}
        yield cell(key, contender, "abc", partial(_first_changing, sizes, request, last))


def _first_changing(sizes: Sizes, request: Request, last: int) -> pa.Table:
    return changing_trades(sizes.changing, sizes.phase, sizes.changing_share, request.seed).slice(0, last)


def _begin_of_input(sizes: Sizes, request: Request, part: float) -> pa.Table:
    events = _trades(sizes, request, sizes.input_share)
    return events.slice(0, round(part * events.num_rows))


ORDER_OF_MAGNITUDE = 10.0
THREE_ORDERS = 1_000.0
NEARLY_EQUAL = 10**0.5
"""Costs within half a decade count as alike: the paper shows them on logarithmic axes."""
NOT_WORSE = 10**0.1
"""A tenth of a decade, a line's width on these axes: the tree NFA may need so much more than the best chain."""
ALL_CHAINS = tuple(chain.name for chain in CHAINS)
RARE_FIRST = tuple(chain.name for chain in CHAINS if chain.order[0] == "c")
COUNT = "{:,.0f}".format
RARE_LATER = tuple(chain.name for chain in CHAINS if chain.order[0] != "c")

Figures = dict[str, float]
"""Contender -> figure, over the same events."""


@finding()
def chains_beat_eager(rows: Sequence[Row]) -> Measured:
    """Observation 3 on figure 7."""
    complete = _by_share(rows, "abc")
    lowest = min(complete)
    ratios = [complete[lowest][EAGER.name] / complete[lowest][name] for name in RARE_FIRST]
    verdict = verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE, surpassed=THREE_ORDERS)
    return verdict, {"ratios": ratio_range(ratios), "lowest": lowest}


@finding()
def other_chains_are_like_eager(rows: Sequence[Row]) -> Measured:
    """Observation 2 on figure 7."""
    complete = _by_share(rows, "abc")
    lowest = min(complete)
    best = min(complete[lowest][name] for name in RARE_FIRST)
    ratios = [complete[lowest][name] / best for name in RARE_LATER]
    return verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE), {"ratios": ratio_range(ratios), "lowest": lowest}


@finding()
def tree_is_as_good_as_the_best_chain(rows: Sequence[Row]) -> Measured:
    """Observation 4 on figure 7."""
    return _tree_against_chains(rows, "abc")


@finding()
def tree_is_as_good_for_every_sequence(rows: Sequence[Row]) -> Measured:
    """Figure 8."""
    return _tree_against_chains(rows, *(one for one in SEQUENCES if one != "abc"))


def _tree_against_chains(rows: Sequence[Row], *sequences: str) -> Measured:
    ratios, own = (
        [
            figures[tree] / min(figures[name] for name in ALL_CHAINS)
            for sequence in sequences
            for figures in _by_share(rows, sequence).values()
        ]
        for tree in (TREE.name, OWN_TREE.name)
    )
    return verdict_at_most(max(ratios), NOT_WORSE), {"ratios": ratio_range(ratios), "by_tests": ratio_range(own)}


@finding()
def sequences_do_not_matter_to_lazy(rows: Sequence[Row]) -> Measured:
    """Figure 8, first observation."""
    per_sequence = [_by_share(rows, sequence) for sequence in SEQUENCES]
    ratios = []
    for share, name in product(per_sequence[0], (*ALL_CHAINS, TREE.name)):
        costs = [figures[share][name] for figures in per_sequence]
        ratios.append(max(costs) / min(costs))
    return verdict_at_most(max(ratios), NEARLY_EQUAL), {"ratios": ratio_range(ratios)}


@finding()
def sequences_matter_to_eager(rows: Sequence[Row]) -> Measured:
    """Figure 8, second observation."""
    begins, ends = (_by_share(rows, sequence) for sequence in ("cba", "abc"))
    ratios = {share: ends[share][EAGER.name] / begins[share][EAGER.name] for share in ends}
    lowest = min(ratios)
    figures = {"ratio": times_as_fast(ratios[lowest]), "lowest": lowest}
    return verdict_at_least(ratios[lowest], ORDER_OF_MAGNITUDE), figures


@finding()
def lazy_needs_fewer_instances(rows: Sequence[Row]) -> Measured:
    """Observation 1 on figure 9."""
    complete = _by_input(rows).values()
    chains = [max(figures[name] for name in RARE_FIRST) for figures in complete]
    eager = [figures[EAGER.name] for figures in complete]
    ratios = [one / max(other, 1) for one, other in zip(eager, chains, strict=True)]
    verdict = verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE)
    return verdict, {"chains": ratio_range(chains, COUNT), "eager": ratio_range(eager, COUNT)}


@finding()
def tree_needs_as_few_instances(rows: Sequence[Row]) -> Measured:
    """Observation 4 on figure 9."""
    complete = _by_input(rows).values()
    tree, own = ([one[name] for one in complete] for name in (TREE.name, OWN_TREE.name))
    chain = [min(one[name] for name in ALL_CHAINS) for one in complete]
    ratios = [one / max(other, 1) for one, other in zip(tree, chain, strict=True)]
    figures = {
        "tree": ratio_range(tree, COUNT),
        "chain": ratio_range(chain, COUNT),
        "by_tests": ratio_range(own, COUNT),
    }
    return verdict_at_most(max(ratios), NEARLY_EQUAL), figures


@finding()
def tree_is_flat(rows: Sequence[Row]) -> Measured:
    """Figure 10: the tree NFA."""
    complete = [*_by_step(rows).values()]
    step, worst = _peaks_of_steps(complete, TREE.name)
    by_tests = " and ".join(map(times_as_fast, _peaks_of_steps(complete, OWN_TREE.name)))
    figures = {"step": times_as_fast(step), "worst": times_as_fast(worst), "by_tests": by_tests}
    return verdict_at_most(max(step / NEARLY_EQUAL, worst / NOT_WORSE), 1.0), figures


def _peaks_of_steps(steps: Sequence[Figures], tree: str) -> tuple[float, float]:
    """The dearest step of a tree NFA beside its median step, and beside the cheapest chain in the same step."""
    costs = sorted(figures[tree] for figures in steps)
    beside = max(figures[tree] / min(figures[name] for name in ALL_CHAINS) for figures in steps)
    return costs[-1] / costs[len(costs) // 2], beside


@finding()
def chains_are_not_flat(rows: Sequence[Row]) -> Measured:
    """Figure 10: the chain NFAs."""
    steps = _by_step(rows)
    costs = [[figures[name] for figures in steps.values()] for name in ALL_CHAINS]
    ratios = [max(own) / min(own) for own in costs]
    return verdict_at_least(min(ratios), ORDER_OF_MAGNITUDE), {"ratios": ratio_range(ratios)}


def _by_share(rows: Iterable[Row], sequence: str) -> dict[float, Figures]:
    """Relative frequency of c -> the computations for one sequence."""
    return _grouped(rows_of(rows, part=FREQUENCY, sequence=sequence), "share", "computations")


def _by_input(rows: Iterable[Row]) -> dict[float, Figures]:
    """Share of the input -> peak instances."""
    return _grouped(rows_of(rows, part=INPUT), "part_of_input", "peak_instances", least=0)


def _by_step(rows: Iterable[Row]) -> dict[float, Figures]:
    """First event of a step of the changing stream -> computations."""
    return _grouped(steps_of(rows_of(rows, part=CHANGING)), "first", "computations")


def _grouped(rows: Iterable[Row], by: str, figure: str, least: float = 1) -> dict[float, Figures]:
    """Figures by contender for each value of `by`, each no less than `least`, so that ratios can be taken."""
    grouped: dict[float, Figures] = {}
    for row in rows:
        grouped.setdefault(number(row, by), {})[str(row["contender"])] = max(number(row, figure), least)
    return grouped


STYLES = {
    EAGER.name: Style("#d1495b"),
    **{
        chain.name: Style({"c": "#3b82d6", "a": "#b7791f", "b": "#8e6bbf"}[chain.order[0]], dashed)
        for chain, dashed in zip(CHAINS, (False, True, False, False, True, True), strict=True)
    },
    TREE.name: Style("#2a9d5c"),
    ONCE_TREE.name: Style("#79818c"),
    OWN_TREE.name: Style("#2a9d5c", dashed=True),
}
"""Chains by the event that they wait for first, the second of them dashed."""


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of finished cells.

    Raises
    ------
    CepError
        Contenders found different numbers of matches in the same events.
    """
    refuse_different_matches(rows, ("part", "sequence", "share", "draw", "part_of_input", "up_to"), "contender")
    rows = summed(rows)
    changing = steps_of(rows_of(rows, part=CHANGING))
    frequency = rows_of(rows, part=FREQUENCY)
    by_frequency = rows_of(frequency, sequence="abc")
    return findings_page(
        __name__,
        sizes,
        request,
        findings_of(__name__, rows),
        [*_pictures(rows, changing, sizes)],
        description=read_trades(request.data, sizes.days, sizes.most, request.seed).description,
        computations=_tables(frequency, _figure("computations")),
        evaluations=_tables(frequency, _figure("evaluations")),
        peaks_by_input=_table(
            rows_of(rows, part=INPUT), "part_of_input", "share of the input", _figure("peak_instances")
        ),
        peaks_by_frequency=_table(by_frequency, "share", "f_c", _figure("peak_instances")),
        buffered=_table(by_frequency, "share", "f_c", _figure("events_buffered")),
        phases=_phase_table(changing, sizes),
    )


def _pictures(rows: Sequence[Row], changing: Sequence[Row], sizes: Sizes) -> Iterator[Picture]:
    frequency = [{**row, "panel": f"sequence {_spaced(str(row['sequence']))}"} for row in rows_of(rows, part=FREQUENCY)]
    growing = rows_of(rows, part=INPUT)
    computations = Axis("computations", "computations", log=True)
    share, events = Axis("share", "f_c", log=True), Axis("events", "events of the input")
    peaks, last = Axis("peak_instances", "peak instances", log=True), Axis("last", "events from the beginning")
    yield Picture(
        "computations",
        "Computations against the frequency of c",
        f"Figures 7 and 8: lower is better.{zeros_not_drawn(frequency, 'computations', 'contender')}",
        line_chart(frequency, share, computations, "contender", styles=STYLES, facet="panel", width=220),
    )
    yield Picture(
        "instances",
        "Peak instances against the length of the input",
        f"Figure 9, for f_c = {sizes.input_share:g}: lower is better."
        f"{zeros_not_drawn(growing, 'peak_instances', 'contender')}",
        line_chart(growing, events, peaks, "contender", styles=STYLES, width=480),
    )
    yield Picture(
        "changing",
        f"Computations at every {sizes.step:,} events of a changing stream",
        f"Figure 10: the rare stock changes after every {sizes.phase:,} events."
        f"{zeros_not_drawn(changing, 'computations', 'contender')}",
        line_chart(changing, last, computations, "contender", styles=STYLES, points=False, width=640),
    )


Text = Callable[[Row], str]
"""The text of a table's cell."""


def _figure(name: str) -> Text:
    return lambda row: f"{row[name]:,}"


def _tables(rows: Sequence[Row], text: Text) -> str:
    """A table for each sequence, under its letters."""
    return "\n\n".join(
        f"Sequence {_spaced(sequence)}:\n\n{_table(rows_of(rows, sequence=sequence), 'share', 'f_c', text)}"
        for sequence in SEQUENCES
    )


def _table(rows: Sequence[Row], across: str, header: str, text: Text) -> str:
    return table_across(rows, "contender", across, header, lambda own: text(own[0]))


def _phase_table(rows: Sequence[Row], sizes: Sizes) -> str:
    letters = {stock: letter for letter, stock in STOCK_OF.items()}
    by_phase: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        steps = by_phase.setdefault(str(row["contender"]), {})
        steps.setdefault(int(number(row, "first")) // sizes.phase, []).append(number(row, "computations"))
    header = [f"{phase + 1}: {letters[PHASES[phase % len(PHASES)]]} is rare" for phase in next(iter(by_phase.values()))]
    lines = [[name, *(f"{mean(own):,.0f}" for own in phases.values())] for name, phases in by_phase.items()]
    return markdown_table(["phase", *header], lines)


def _spaced(letters: str) -> str:
    return ", ".join(letters)


EXPERIMENT = Experiment("lazy_nfa", SMALL, FULL, _cells, write_page)
