"""The queries of `cep bench crimes` on cuts of the city: ours, and DuckDB's joins, count what brute force counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import cep_pipeline as cep
from benchmarks import crimes
from benchmarks.crimes import JOINS, OURS, TEMPLATES, Draw, Joins, TemplateResult, crimes_table, draw_queries
from benchmarks.crimes_stream import SHARES, city_schema, generate_city
from benchmarks.measure import Engine, Measurement, Progress
from benchmarks.peers import duckdb_missing
from cep_pipeline.errors import CepError
from tests.benchmarks.test_benchmarks import cells
from tests.cli.command_line import cep as command

QUICK, CUT = 4, 1_500
without_duckdb = pytest.mark.skipif(duckdb_missing() is not None, reason="duckdb is not installed")

Crime = tuple[datetime, str, float, float]

STEPS = {
    "sequence": [["A", "B", "C"]],
    "long sequence": [["A", "B", "C", "D", "E", "F", "G"]],
    "alternation": [["A", "C"], ["A", "D"], ["B", "C"], ["B", "D"]],
    "repeats": [["A", "B+", "C", "D+", "E", "F+"]],
    "alternation of repeats": [["A", "B+", "D"], ["A", "C+", "D"]],
    "repeated group": [["A", "B+", "C", "D"], ["A", "B+", "C", "B+", "C", "D"]],
}


def count_by_hand(draw: Draw, crimes_read: list[Crime]) -> int:
    """Count every way to take crimes for the steps, one crime after another."""
    return sum(_ways(draw, steps, crimes_read) for steps in STEPS[draw.template])


def _ways(draw: Draw, steps: list[str], read: list[Crime]) -> int:
    total = 0
    for place, (time, kind, latitude, longitude) in enumerate(read):
        if kind != draw.types[steps[0]]:
            continue
        end = time + timedelta(minutes=draw.window_min)
        # Ways to have taken crimes for so many steps, the last of them a crime that was read.
        ways = [1] + [0] * (len(steps) - 1)
        for later, other, north, east in read[place + 1 :]:
            if later > end:
                break
            if abs(north - latitude) > draw.latitude or abs(east - longitude) > draw.longitude:
                continue
            for number in range(len(steps) - 1, 0, -1):
                if other == draw.types[steps[number][0]]:
                    ways[number] += ways[number - 1] + (ways[number] if steps[number].endswith("+") else 0)
        total += ways[-1]
    return total


@cache
def cut() -> tuple[pa.Table, list[Crime]]:
    """A cut of the city, as a table and as rows."""
    table = generate_city(20_000).slice(0, CUT)
    columns = ("timestamp", "primary_type", "latitude", "longitude")
    return table, list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def wide(draw: Draw) -> Draw:
    """The query with a box of half the city, so that a cut has matches of it."""
    return replace(draw, latitude=0.2, longitude=0.15)


def ours(draw: Draw, table: pa.Table) -> int:
    pattern = draw.pattern()
    return int(cep.detect([pattern], table, output="count")[pattern.name]["count"][0].as_py())


NUMBERS = [pytest.param(range(QUICK), id="some"), pytest.param(range(QUICK, 100), id="all", marks=pytest.mark.long)]


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("numbers", NUMBERS)
def test_we_count_what_brute_force_counts(template: str, numbers: range) -> None:
    table, rows = cut()
    drawn = draw_queries(template)
    asked = [query for number in numbers for query in (drawn[number], wide(drawn[number]))]
    expected = [count_by_hand(query, rows) for query in asked]
    assert sum(map(bool, expected)) >= len(numbers) // 5
    assert [ours(query, table) for query in asked] == expected


@without_duckdb
@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("numbers", NUMBERS)
def test_the_joins_count_what_brute_force_counts(template: str, numbers: range) -> None:
    table, rows = cut()
    joins, drawn = Joins(table), draw_queries(template)
    asked = [query for number in numbers for query in (drawn[number], wide(drawn[number]))]
    assert [joins.count(query) for query in asked] == [count_by_hand(query, rows) for query in asked]


def test_matches_that_are_listed_are_as_many_as_are_counted() -> None:
    table, _ = cut()
    for template in TEMPLATES:
        drawn = wide(draw_queries(template, 1)[0])
        pattern = drawn.pattern()
        count = ours(drawn, table)
        if count < 100_000:
            assert cep.detect([pattern], table)[pattern.name].num_rows == count


def test_brute_force_counts_a_case_that_is_plain() -> None:
    start = datetime(2001, 1, 1)
    letters = "ABBCDX"
    rows = [(start + timedelta(minutes=number), letter, 0.0, 0.0) for number, letter in enumerate(letters)]
    rows.insert(2, (start + timedelta(minutes=1), "B", 1.0, 0.0))
    draw = Draw("alternation of repeats", {letter: letter for letter in "ABCD"}, 30, 0.5, 0.5)
    assert count_by_hand(draw, rows) == 3 + 1  # lists of one and of two B; the list of one C
    assert count_by_hand(replace(draw, latitude=1.0), rows) == 7 + 1
    assert count_by_hand(replace(draw, window_min=3), rows) == 0


def test_the_example_of_the_paper_counts_what_brute_force_counts() -> None:
    types = {"A": "ROBBERY", "B": "BATTERY", "C": "MOTOR VEHICLE THEFT"}
    draw = Draw("sequence", types, 30, latitude=0.02, longitude=0.05)
    assert "MOTOR VEHICLE THEFT" in str(draw.pattern().structure)
    table = generate_city(60_000)
    columns = ("timestamp", "primary_type", "latitude", "longitude")
    rows = list(zip(*(table[name].to_pylist() for name in columns), strict=True))
    assert ours(draw, table) == count_by_hand(draw, rows) > 0


def test_the_city_is_as_it_is_said_to_be() -> None:
    city = generate_city(50_000)
    assert city.equals(generate_city(50_000))
    assert city.schema.names == city_schema().arrow_schema.names
    times = city["timestamp"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all() and (times % 60_000_000 == 0).all()
    days = (times[-1] - times[0]) / 86_400e6
    assert 0.8 < len(city) / days / (7_000_000 / 8_035) < 1.2
    kinds = np.array(city["primary_type"].to_pylist())
    for name, share in list(SHARES.items())[:12]:
        assert abs((kinds == name).mean() * 100 - share) < 0.7
    hours = np.bincount(times // 3_600_000_000 % 24, minlength=24)
    assert hours[5] * 2 < hours[19]
    beats = city["beat"].to_numpy()
    for name, box in (("latitude", 0.37), ("longitude", 0.30)):
        places = city[name].to_numpy()
        assert box * 0.9 < np.ptp(places) <= box + 1e-9
        assert np.std(places[beats == beats[0]]) < np.std(places) / 4


def test_draws_are_different_queries_and_always_the_same() -> None:
    for template in TEMPLATES:
        drawn = draw_queries(template)
        assert len(drawn) == 100 == len({str(draw) for draw in drawn})
        assert drawn[:QUICK] == draw_queries(template, QUICK)
        assert all(len(set(draw.types.values())) == len(draw.types) for draw in drawn)
        common = [sum(SHARES[one] for one in draw.types.values()) for draw in drawn]
        assert np.median(common[::2]) > np.median(common[1::2])


@without_duckdb
def test_a_query_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    joins = Joins(generate_city(60_000))
    draw = replace(draw_queries("long sequence", 1)[0], window_min=60 * 24 * 60, latitude=1.0, longitude=1.0)
    monkeypatch.setattr(crimes, "LIMIT_S", 0.2)
    assert joins.count(draw) == crimes.STOPPED
    monkeypatch.undo()
    assert joins.count(draw_queries("sequence", 1)[0]) >= 0


def test_the_table_has_quartiles_and_tells_what_was_stopped() -> None:
    own = [Measurement(seconds, 2) for seconds in (0.1, 0.1, 0.1, 0.1, 0.4)]
    theirs = [Measurement(seconds, 2) for seconds in (0.1, 0.2, 0.3, 0.4)] + [Measurement(10.0, crimes.STOPPED)]
    result = TemplateResult("sequence", [2] * 4 + [0], {OURS: own, JOINS: theirs})
    mine, peer = cells(crimes_table([result]))
    told = "template", "matches", "queries with matches", "median", "slowest"
    assert [mine[name] for name in told] == ["sequence", "8", "4", "100.0 ms", "400.0 ms"]
    assert [mine[name] for name in ("stopped", "we are x as fast", "quartiles of that")] == ["", "", ""]
    told = "median", "quartiles", "slowest", "stopped"
    assert [peer[name] for name in told] == ["300.0 ms", "200.0 ms to 400.0 ms", "10.00 s", "1"]
    assert [peer[name] for name in ("we are x as fast", "quartiles of that")] == ["3.00", "2.00 to 4.00"]
    assert "take 3.00 times as long as our call" in crimes.crimes_summary([result])
    assert "the faster one on 4 of 5 queries" in crimes.crimes_summary([result])


@pytest.mark.long
def test_the_command_writes_the_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crimes, "measure_crimes", partial(crimes.measure_crimes, events=20_000))
    done = command("bench", "crimes", "--draws", "2", "--out", "page.md", folder=tmp_path)
    assert done.code == 0, done.errors
    page = (tmp_path / "page.md").read_text()
    assert "## Crimes: templates of queries over a city" in page and "each of the 2 queries" in page
    rows = cells(page[page.index("| template | matches") :])
    assert [*dict.fromkeys(row["template"] for row in rows)] == [*TEMPLATES]


@without_duckdb
def test_counts_that_differ_end_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(crimes.ENGINES, JOINS, _too_many)
    with pytest.raises(CepError, match="the engines find"):
        crimes.measure_crimes(1, Progress(), 2_000)


def _too_many(_draws: Sequence[Draw], _events: Path) -> Engine:
    return partial(Measurement, 1.0, 5_000_000)
