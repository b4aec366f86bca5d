"""`cep bench crimes`: templates of queries over a city, drawn many times, beside DuckDB's joins by hand.

The templates are those of Zhu, Huang and Chaudhuri, "High-Performance Row Pattern Recognition Using Joins", PVLDB
16(5), 2023: types in an order, within a window and within a box around the first event. Theirs are queries of
MATCH_RECOGNIZE, which finds at most one match for each first event; here all matches are counted.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.crimes_stream import CITY_EVENTS, SHARES, city_schema, generate_city
from benchmarks.measure import (
    Engine,
    Measurement,
    Progress,
    engine_process,
    read_events,
    timed,
    write_events,
)
from benchmarks.peers import duckdb_missing
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import format_seconds, times_as_fast
from cep_pipeline.detection.detect import detect
from cep_pipeline.errors import CepError
from cep_pipeline.patterns.pattern import Pattern

TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "sequence": ("A B C",),
    "long sequence": ("A B C D E F G",),
    "alternation": ("A|B C|D",),
    "repeats": ("A B+ C D+ E F+",),
    "alternation of repeats": ("A B+ D", "A C+ D"),
    "repeated group": ("A B+ C D", "A B+ C B+ C D"),
}
"""Name -> its branches, of which a match takes one. A letter is a type; any events may lie between two steps."""
DRAWS, SEED = 100, 16
WINDOWS_MIN, BOXES = (30, 60, 120), (0.01, 0.02, 0.025, 0.05)
"""Windows, and distances in degrees of latitude and of longitude, that are drawn."""
OURS, JOINS = "cep.detect, output count", "DuckDB, joins"
LIMIT_S, SLOW_S = 10.0, 1.0
"""A query of DuckDB is stopped after so long; one that takes longer than the second is run once."""
STOPPED = -1
"""The matches of a query that was stopped."""


@dataclass(frozen=True)
class Draw:
    """A query: a template with a type for each letter, a window, and a box around the first event."""

    template: str
    types: Mapping[str, str]
    window_min: int
    latitude: float
    longitude: float

    def branches(self) -> list[list[tuple[tuple[str, ...], bool]]]:
        """The steps of each branch: their types, and whether they are lists of events."""
        return [
            [
                (tuple(self.types[one] for one in step.rstrip("+").split("|")), step[-1] == "+")
                for step in branch.split()
            ]
            for branch in TEMPLATES[self.template]
        ]

    def pattern(self) -> Pattern:
        """The query in the pattern language."""
        from cep_pipeline.language.parser import parse_patterns

        structures, conditions = [], []
        for place, steps in enumerate(self.branches()):
            operands = []
            for number, (types, is_list) in enumerate(steps):
                name = f"v{place}_{number}"
                asked = " | ".join(f'"{one}"' for one in types)
                operands.append(f"({asked}){'+' * is_list} {name}{'[]' * is_list}")
                if number:
                    conditions += [
                        f"abs({name}.{axis} - v{place}_0.{axis}) <= {most}"
                        for axis, most in (("latitude", self.latitude), ("longitude", self.longitude))
                    ]
            structures.append(f"SEQ({', '.join(operands)})")
        structure = f"OR({', '.join(structures)})" if structures[1:] else structures[0]
        text = f"NAME q PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN {self.window_min} minutes"
        return parse_patterns(text, city_schema(), source=self.template)[0]

    def sql(self) -> str:
        """The query as joins, which count all matches; `Joins` has the table."""
        return f"SELECT {' + '.join(f'({self._joined(steps)})' for steps in self.branches())}"

    def _joined(self, steps: Sequence[tuple[tuple[str, ...], bool]]) -> str:
        """A count of the matches of one branch.

        Single events are joined first, the rarest before the others, with the first event of the pattern at once: the
        window and the box begin there. Then the events of each list are counted: n of them make 2^n - 1 lists.
        """
        rarity = [sum(SHARES[one] for one in types) for types, _ in steps]
        by_rarity = sorted(range(len(steps)), key=rarity.__getitem__)
        singles = [number for number in by_rarity if not steps[number][1]]
        rarest = singles.pop(0)
        order = [rarest, *([0] if rarest else []), *(number for number in singles if number)]
        joined = self._source(rarest, steps[rarest][0])
        for place, number in enumerate(order[1:], start=1):
            conditions = [f"s{number}.k = s{rarest}.k", *self._near(f"s{number or rarest}", "s0")]
            conditions += [f"s{min(number, one)}.seq < s{max(number, one)}.seq" for one in order[:place]]
            joined += f"\nJOIN {self._source(number, steps[number][0])} ON {' AND '.join(conditions)}"
        lists = [number for number in by_rarity if steps[number][1]]
        if not lists:
            return f"SELECT count(*) FROM {joined}"
        kept = ", ".join(f"s{number}.seq AS seq{number}" for number in order)
        tables = [f"t AS (SELECT s0.k, s0.ts, s0.latitude, s0.longitude, {kept} FROM {joined})"]
        last = "t"
        for number in lists:
            conditions = [f"s{number}.k = {last}.k", *self._near(f"s{number}", last)]
            conditions += [f"s{number}.seq > {last}.seq{number - 1}"]
            conditions += [f"s{number}.seq < {last}.seq{number + 1}"] * (number + 1 < len(steps))
            joined = f"{last}\nJOIN {self._source(number, steps[number][0])} ON {' AND '.join(conditions)}"
            tables.append(f"t{number} AS (SELECT {last}.*, count(*) AS n{number} FROM {joined} GROUP BY ALL)")
            last = f"t{number}"
        product = " * ".join(f"((1::HUGEINT << n{number}) - 1)" for number in lists)
        return f"WITH {', '.join(tables)}\nSELECT coalesce(sum({product}), 0) FROM {last}"

    def _source(self, number: int, types: Sequence[str]) -> str:
        """Rows of some types with the bucket `k` of their time; those behind the first step also in the one before."""
        codes = ", ".join(str(list(SHARES).index(one)) for one in types)
        window = self.window_min
        bucket = f"unnest([ts // {window} - 1, ts // {window}])" if number else f"ts // {window}"
        return f"(SELECT *, {bucket} AS k FROM s WHERE code IN ({codes})) AS s{number}"

    def _near(self, event: str, first: str) -> list[str]:
        """Conditions on an event and the first one."""
        return [
            f"{event}.ts <= {first}.ts + {self.window_min}",
            f"abs({event}.latitude - {first}.latitude) <= {self.latitude}",
            f"abs({event}.longitude - {first}.longitude) <= {self.longitude}",
        ]


def draw_queries(template: str, draws: int = DRAWS, seed: int = SEED) -> list[Draw]:
    """Draw the queries of a template; fewer draws are the first of more.

    The types of a query are different ones: in every other query each is as likely as any other, else by its share.
    """
    rng = np.random.default_rng([seed, list(TEMPLATES).index(template)])
    letters = sorted({letter for branch in TEMPLATES[template] for letter in branch if letter.isalpha()})
    shares = np.array(list(SHARES.values())) / sum(SHARES.values())
    drawn = []
    for number in range(draws):
        types = rng.choice(list(SHARES), len(letters), replace=False, p=shares if number % 2 == 0 else None)
        window, latitude, longitude = rng.choice(WINDOWS_MIN), *rng.choice(BOXES, 2)
        letter_types = dict(zip(letters, types.tolist(), strict=True))
        drawn.append(Draw(template, letter_types, int(window), float(latitude), float(longitude)))
    return drawn


class Joins:
    """DuckDB on one thread, with the events in a table of its own: types as small numbers, sorted by type and time.

    So a type is read without the others. The joins run in the order in which they are written, which is faster than
    what the optimizer makes of the boxes.
    """

    def __init__(self, events: Any) -> None:
        import duckdb

        self._connection: Any = duckdb.connect()
        self._stopped = duckdb.InterruptException
        self._connection.execute("SET threads = 1; SET disabled_optimizers = 'join_order'")
        codes = list(SHARES)
        self._connection.register("arrow_events", events)
        self._connection.execute(
            "CREATE TABLE s AS SELECT (epoch_us(timestamp) // 60000000)::INTEGER AS ts, seq::INTEGER AS seq, "
            f"(list_position({codes}, primary_type::VARCHAR) - 1)::UTINYINT AS code, latitude, longitude "
            "FROM arrow_events ORDER BY code, seq"
        )

    def count(self, draw: Draw) -> int:
        """Count the matches of a query; `STOPPED` where they take too long."""
        timer = threading.Timer(LIMIT_S, self._connection.interrupt)
        timer.start()
        try:
            return int(self._connection.execute(draw.sql()).fetchall()[0][0])
        except self._stopped:
            return STOPPED
        finally:
            timer.cancel()


def of_duckdb() -> str:
    """A sentence on the peer: why it is not here, or whether its release has MATCH_RECOGNIZE."""
    if (why := duckdb_missing()) is not None:
        return f"DuckDB is not here: it {why}."
    import duckdb

    clause = "MATCH_RECOGNIZE (ORDER BY x MEASURES a.x AS first PATTERN (a b) DEFINE a AS x = 1, b AS x = 2)"
    has = "has MATCH_RECOGNIZE, which is not run here: it finds one match for each first event"
    with suppress(duckdb.Error):
        duckdb.sql(f"SELECT * FROM (SELECT unnest([1, 2]) AS x) {clause}").fetchall()
        return f"DuckDB {duckdb.__version__} {has}."
    return f"DuckDB {duckdb.__version__} has no MATCH_RECOGNIZE that could be run beside its joins."


def _count_ours(events: Any, pattern: Pattern) -> int:
    return int(detect([pattern], events.slice(), output="count")[pattern.name]["count"][0].as_py())


def _start_ours(draws: Sequence[Draw], events: Path) -> Engine:
    return _one_by_one([partial(_count_ours, read_events(events), draw.pattern()) for draw in draws])


def _start_joins(draws: Sequence[Draw], events: Path) -> Engine:
    return _one_by_one(list(map(partial(partial, Joins(read_events(events)).count), draws)))


def _one_by_one(counts: Sequence[Callable[[], int]]) -> Engine:
    """An engine that runs the next query on each call: twice, of which the second is counted, or once if it is slow."""
    remaining = iter(counts)

    def run() -> Measurement:
        count = next(remaining)
        first = timed(count)
        return first if first.seconds > SLOW_S else timed(count)

    return run


ENGINES: dict[str, Callable[[Sequence[Draw], Path], Engine]] = {OURS: _start_ours, JOINS: _start_joins}


@dataclass
class TemplateResult:
    """The draws of a template: the matches of each, and its measurement by each engine."""

    template: str
    matches: list[int] = field(default_factory=list)
    measured: dict[str, list[Measurement]] = field(default_factory=dict)

    def ratios(self) -> list[float]:
        """Times of the joins as multiples of ours, for each query: at least that where they were stopped."""
        pairs = zip(self.measured.get(JOINS, ()), self.measured[OURS], strict=False)
        return [theirs.seconds / own.seconds for theirs, own in pairs]


def measure_crimes(draws: int, progress: Progress, events: int = CITY_EVENTS) -> list[TemplateResult]:
    """Run all draws of all templates by both engines in turn; counts that differ are a CepError."""
    results = []
    queries = {template: draw_queries(template, draws) for template in TEMPLATES}
    every = [draw for drawn in queries.values() for draw in drawn]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        progress.begin("a city is made", 1)
        path = Path(folder) / "city.arrow"
        write_events(generate_city(events), path)
        engines = {
            name: processes.enter_context(engine_process(partial(start, every, path)))
            for name, start in ENGINES.items()
            if name == OURS or duckdb_missing() is None
        }
        for template, drawn in queries.items():
            progress.begin(f"crimes: {template}", len(drawn))
            results.append(result := TemplateResult(template, measured={name: [] for name in engines}))
            for draw in drawn:
                for name, run in engines.items():
                    result.measured[name].append(run())
                found = {measured[-1].matches for measured in result.measured.values()} - {STOPPED}
                if len(found) > 1:
                    raise CepError(f"the engines find {sorted(found)} matches of {draw.pattern()}")
                result.matches.append(found.pop())
                progress.advance()
    return results


def crimes_summary(results: Sequence[TemplateResult]) -> str:
    """A sentence on the ratios of all queries."""
    ratios = [ratio for result in results for ratio in result.ratios()]
    if not ratios:
        return ""
    of_templates = sorted(statistics.median(result.ratios()) for result in results)
    least, most = map(times_as_fast, (of_templates[0], of_templates[-1]))
    faster = sum(ratio > 1 for ratio in ratios)
    return (
        f"The joins take {times_as_fast(statistics.median(ratios))} times as long as our call, by the median over all "
        f"queries, and {least} to {most} times by that of a template; our call is the faster one on {faster:,} of "
        f"{len(ratios):,} queries."
    )


def crimes_table(results: Sequence[TemplateResult]) -> str:
    """The times of the engines for each template, in Markdown, and how many times as fast ours is."""
    rows = []
    for result in results:
        for name, measured in result.measured.items():
            seconds = [one.seconds for one in measured]
            stopped = sum(one.matches == STOPPED for one in measured)
            cells = [*_quartiles(seconds, format_seconds), format_seconds(max(seconds)), str(stopped or "")]
            ratios = ["", ""] if name == OURS else _quartiles(result.ratios(), times_as_fast)
            rows.append(
                [
                    result.template,
                    f"{sum(result.matches):,}",
                    f"{sum(map(bool, result.matches)):,}",
                    name,
                    *cells,
                    *ratios,
                ]
            )
    times = ["median", "quartiles", "slowest", "stopped"]
    header = ["template", "matches", "queries with matches", "engine", *times, "we are x as fast", "quartiles of that"]
    return markdown_table(header, rows)


def _quartiles(values: Sequence[float], shown: Callable[[float], str]) -> list[str]:
    """The median, and the quartiles beside it."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
    return [shown(middle), f"{shown(low)} to {shown(high)}"]
