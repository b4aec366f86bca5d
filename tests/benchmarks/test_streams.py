"""The streams and workloads of the benchmarks: the very data whose match counts others have reported."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import cep_pipeline as cep
from benchmarks.sase_stream import generate_sase_stream
from benchmarks.streams import Streams
from benchmarks.traffic_stream import generate_traffic
from benchmarks.workloads import SCHEMAS, WORKLOADS, draw_types
from tests.benchmarks.sase_runs import matches_of_runs

SHARED = Path(__file__).resolve().parents[3] / "shared"


def as_lines(table: pa.Table) -> str:
    times = table["timestamp"].cast(pa.int64()).to_numpy() // 1000
    columns = [times, *(table[name].to_numpy() for name in ("symbol", "price", "volume"))]
    return "".join(",".join(map(str, row)) + "\n" for row in zip(*(c.tolist() for c in columns), strict=True))


def test_the_sase_stream_is_the_published_one() -> None:
    digest = hashlib.sha256(as_lines(generate_sase_stream(2_000)).encode()).hexdigest()
    assert digest == "ce952c780abb68ebdcd93d8d1d746d38d008c33a25e7c8fd344666e5fa564963"


@pytest.mark.parametrize(("events", "seed", "rising"), [(1_000, 10, 0.7), (3_000, 4, 0.2), (1, 10, 0.7)])
def test_the_sase_stream_equals_that_of_the_shared_generator(
    events: int, seed: int, rising: float, tmp_path: Path
) -> None:
    generator = SHARED / "bench" / "gen_sase.py"
    if not generator.is_file():
        pytest.skip("../shared/bench is not there")
    file = tmp_path / "sase.csv"
    subprocess.run([sys.executable, generator, file, str(events), str(seed), str(rising)], check=True)
    assert file.read_text() == "ts,symbol,price,volume\n" + as_lines(generate_sase_stream(events, seed, rising))


def test_prices_of_the_sase_stream_move_by_little_and_stay_positive() -> None:
    table = generate_sase_stream(5_000, seed=1, rising=0.1)
    for symbol in (1, 2):
        prices = table.filter(pa.compute.equal(table["symbol"], symbol))["price"].to_numpy()
        assert prices.min() == 1
        assert np.abs(np.diff(prices)).max() <= 3


def test_the_hundred_patterns_are_the_published_ones(tmp_path: Path) -> None:
    types = draw_types()
    assert len(types) == len(set(types)) == 100
    assert types[0] == (1, 2, 3, 5, 9) and types[1] == (2, 17, 1, 13, 19)
    generator = SHARED / "bench" / "gen_patterns.py"
    if generator.is_file():
        subprocess.run([sys.executable, generator, tmp_path / "w6.json"], check=True)
        lines = (tmp_path / "w6.txt").read_text().splitlines()
        assert lines == ["500", *(" ".join(map(str, one)) for one in types)]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in WORKLOADS if WORKLOADS[name].stream == "stock"])
def test_workloads_over_the_stock_stream_have_their_published_counts(name: str) -> None:
    workload = WORKLOADS[name]
    tables = cep.detect(workload.patterns(), Streams().table("stock", 10_000), output="count")
    assert sum(int(table["count"][0].as_py()) for table in tables.values()) == workload.matches[10_000]


@pytest.mark.parametrize("name", ["W5", "W5n"])
def test_the_counts_of_the_sase_workloads_follow_from_the_definition_of_runs(name: str) -> None:
    known = WORKLOADS[name].matches
    for events in (10_000, 100_000):
        found = matches_of_runs(generate_sase_stream(events), skipping=name == "W5n", window_ms=500)
        assert len(found) == known[events]


def test_the_generated_readings_match_about_as_often_as_the_real_ones() -> None:
    workload = WORKLOADS["W7"]
    twin = generate_traffic(200)
    assert twin.schema.names == SCHEMAS["traffic"]().arrow_schema.names
    times = twin["timestamp"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    rate = int(cep.detect(workload.patterns(), twin, output="count")["W7"]["count"][0].as_py()) / len(twin)
    ((real_events, real_matches),) = workload.matches.items()
    assert 0.5 < rate / (real_matches / real_events) < 2
    assert Streams(SHARED / "none", looks=3).traffic.description.startswith("W7: 1,347 generated readings")
