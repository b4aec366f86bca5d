from __future__ import annotations

import gzip
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.generate import GeneratedDay, Market, generate_days

MONDAY = date(2013, 10, 7)
WEEK = [MONDAY + timedelta(days=k) for k in range(7)]
REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "us_equity_trades" / "2013-10-07" / "trades.csv.gz"


def generate(root: Path, days: list[date], **settings: object) -> list[GeneratedDay]:
    return generate_days(root, days, events_per_day=2_000, **settings)  # type: ignore[arg-type]


def test_a_week_has_five_files(tmp_path: Path) -> None:
    made = generate(tmp_path, WEEK)
    assert [day.day for day in made] == WEEK
    assert [day.path is None for day in made] == [False] * 5 + [True] * 2
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()) == [
        f"{day.isoformat()}/trades.csv.gz" for day in WEEK[:5]
    ]
    assert [day.events for day in made[5:]] == [0, 0]


def test_the_layout_is_the_vendors(tmp_path: Path) -> None:
    (made,) = generate(tmp_path, [MONDAY])
    assert made.path is not None
    lines = gzip.decompress(made.path.read_bytes()).decode("ascii").splitlines()
    assert lines[0] == '"symbol","timestamp","price","size","exchange","suspicious"'
    assert len(lines) == made.events + 1
    symbol, timestamp, price, size, exchange, suspicious = lines[1].split(",")
    assert symbol in ('"SPY"', '"BAC"', '"AIG"', '"IBM"') and exchange.startswith('"')
    assert timestamp.startswith("2013-10-07 09:30:00.") and len(timestamp) == 23
    assert float(price) > 0 and int(size) > 0 and suspicious in ("true", "false")


@pytest.mark.skipif(not REAL.exists(), reason="the real trades are not beside this checkout")
def test_the_layout_reads_as_the_real_trades_do(tmp_path: Path) -> None:
    (made,) = generate(tmp_path, [MONDAY])
    schemas = []
    for path in (made.path, REAL):
        with gzip.open(path) as file:  # type: ignore[arg-type]
            schemas.append(pa.csv.read_csv(file).schema)
    assert schemas[0] == schemas[1]


def test_what_is_read_back_is_what_the_market_made(tmp_path: Path) -> None:
    (made,) = generate(tmp_path, [MONDAY], stocks=9, seed=4)
    assert made.path is not None
    with gzip.open(made.path) as file:
        read = pa.csv.read_csv(file)
    expected = Market(stocks=9, seed=4, events_per_day=2_000).trades(MONDAY)
    # Times are read with the unit that the reader chooses.
    at = read.schema.get_field_index("timestamp")
    read = read.set_column(at, "timestamp", read["timestamp"].cast(pa.timestamp("ms")))
    assert read.equals(expected)


def test_a_day_is_the_same_bytes_whichever_days_are_made_with_it(tmp_path: Path) -> None:
    generate(tmp_path / "week", WEEK, seed=7)
    generate(tmp_path / "alone", [WEEK[2]], seed=7)
    generate(tmp_path / "backwards", WEEK[::-1], seed=7)
    name = f"{WEEK[2].isoformat()}/trades.csv.gz"
    one, two, three = ((tmp_path / run / name).read_bytes() for run in ("week", "alone", "backwards"))
    assert one == two == three
    other = f"{WEEK[3].isoformat()}/trades.csv.gz"
    assert gzip.decompress(one)[100:] != gzip.decompress((tmp_path / "week" / other).read_bytes())[100:]


def test_another_seed_makes_another_day(tmp_path: Path) -> None:
    one, two = (generate(tmp_path / str(seed), [MONDAY], seed=seed)[0].path for seed in (1, 2))
    assert one is not None and two is not None
    assert one.read_bytes() != two.read_bytes()


def test_progress_is_told_of_each_day_in_turn(tmp_path: Path) -> None:
    told: list[GeneratedDay] = []
    assert generate(tmp_path, WEEK, progress=told.append) == told
    assert len(told) == 7


def test_nothing_but_the_files_is_left(tmp_path: Path) -> None:
    generate(tmp_path, [MONDAY])
    generate(tmp_path, [MONDAY])
    assert [p.name for p in (tmp_path / "2013-10-07").iterdir()] == ["trades.csv.gz"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"file/2013-10-07/trades\.csv\.gz: the generated day cannot be written"):
        generate(tmp_path / "file", [MONDAY])
