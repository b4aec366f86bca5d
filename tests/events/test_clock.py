"""Clocks that go back are found within event types; files that are sorted by type are ordinary."""

from __future__ import annotations

from datetime import date
from functools import reduce
from itertools import pairwise
from operator import add
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cep_pipeline.events.clock import ClockBack, WatchedPart
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.parse import StagedDay
from cep_pipeline.events.row_checks import LINE, LOCAL_DAY
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.timestamps import INSTANT
from tests.events.raw import SHARED

SCHEMA = """\
name: ticks
type_attribute: kind
timezone: America/New_York
timestamp: {column: time, format: iso}
attributes: {kind: string, x: int64}
source: {format: csv, path: "{day:%Y-%m-%d}.csv"}
"""


def table(stamps: list[int], kinds: str, days: list[int] | None = None, first: int = 2) -> pa.Table:
    return pa.table(
        {
            "timestamp": pa.array(stamps, pa.int64()).cast(INSTANT),
            "kind": list(kinds),
            LINE: np.arange(first, first + len(stamps)),
            LOCAL_DAY: pa.array(days or [0] * len(stamps), pa.int32()),
        }
    )


def part_of(*tables: pa.Table) -> WatchedPart:
    return reduce(add, (WatchedPart.of(one, "kind") for one in tables), WatchedPart())


def found(*tables: pa.Table) -> tuple[ClockBack, ...]:
    return part_of(*tables).found


def test_a_file_that_is_sorted_by_type_and_then_by_time_is_ordinary() -> None:
    assert found(table([1, 5, 9, 1, 5, 9, 0, 9], "AAABBBCC")) == ()
    assert found(table([1, 5, 9], "AAA"), table([1, 5], "BB"), table([9, 9], "BA")) == ()
    assert found(table([], "")) == ()


def test_a_clock_that_goes_back_is_counted_with_its_first_line_and_its_largest_step() -> None:
    assert found(table([5, 6, 4, 7, 2, 3], "ABABAB")) == (ClockBack(date(1970, 1, 1), 3, 4, 4, "A"),)


def test_a_clock_that_goes_back_from_one_part_of_a_file_to_the_next_is_found() -> None:
    parts = table([5, 6], "AB"), table([6, 9], "BB", first=4), table([4, 9], "AB", first=6)
    assert found(*parts) == (ClockBack(date(1970, 1, 1), 1, 1, 6, "A"),)


def test_days_are_told_apart_and_summed() -> None:
    days = found(table([5, 4, 9, 2, 1, 20], "AAAAAA", [0, 0, 1, 1, 0, 1]))
    assert [(back.day, back.rows, back.most_us, back.line) for back in days] == [
        (date(1970, 1, 1), 2, 1, 3),
        (date(1970, 1, 2), 1, 7, 5),
    ]
    whole = reduce(add, days)
    assert (whole.rows, whole.most_us) == (3, 7)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_a_look_at_one_row_after_another_finds(seed: int) -> None:
    draw = np.random.default_rng(seed)
    stamps, kinds = draw.integers(0, 40, 300).cumsum() - 15 * np.arange(300), draw.choice(list("ABCD"), 300)
    last: dict[str, int] = {}
    steps = []
    for line, (stamp, kind) in enumerate(zip(stamps.tolist(), kinds.tolist(), strict=True), start=2):
        if stamp < last.get(kind, stamp):
            steps.append((line, last[kind] - stamp, kind))
        last[kind] = stamp
    whole = table(stamps.tolist(), "".join(kinds))
    cuts = [0, *sorted(draw.integers(0, 300, 4).tolist()), 300]
    parts = [whole.slice(a, b - a) for a, b in pairwise(cuts)]
    (back,) = found(*parts)
    assert (back.rows, back.most_us) == (len(steps), max(step for _, step, _ in steps))
    assert (back.line, back.event_type) == (steps[0][0], steps[0][2])
    assert found(whole) == (back,)
    assert (part_of(*parts[:2]) + part_of(*parts[2:])).found == (back,), "parts that are read by themselves"


def test_where_parts_of_a_file_meet_is_looked_at_by_type_over_parts_without_it() -> None:
    ordinary = part_of(table([1, 2, 3], "ABA"), table([3, 4], "CC", first=5), table([3, 2], "AB", first=7))
    assert ordinary.found == ()
    late = part_of(table([1], "B", [1], first=9), table([7, 6], "BB", [1, 1], first=10))
    back = ClockBack(date(1970, 1, 2), 2, 1, 9, "B")
    assert (ordinary + late).found == (back,)
    assert late.found == (ClockBack(date(1970, 1, 2), 1, 1, 11, "B"),)
    assert part_of().found == ()


def write(folder: Path, rows: list[str]) -> tuple[StreamSchema, Path]:
    (folder / "ticks.yaml").write_text(SCHEMA)
    path = folder / "2024-03-04.csv"
    path.write_text("\n".join(["time,kind,x", *(f"2024-03-04 {row}" for row in rows), ""]))
    return StreamSchema.load(folder / "ticks.yaml"), path


def test_files_whose_clock_goes_back_are_named_when_they_are_loaded(tmp_path: Path) -> None:
    schema, path = write(tmp_path, ["10:00:05,A,1", "10:00:02,B,2", "10:00:03,A,3", "10:00:09,A,4", "10:00:06,B,5"])
    loaded = load_events(schema, [path])
    assert loaded.events["x"].to_pylist() == [2, 3, 1, 5, 4]
    (note,) = loaded.notes
    assert note == (
        f"{path}: the clock goes back once within an event type, by up to 0:00:02 (first: A on line 4); the rows are "
        "put in the order of time"
    )
    ready = tmp_path / "ready.parquet"
    pq.write_table(loaded.events.take([3, 0, 1, 2, 4]), ready)
    (note,) = load_events(schema, [ready]).notes
    assert "ready.parquet: the clock goes back once within an event type" in note
    pq.write_table(loaded.events, ready)
    assert load_events(schema, [ready]).notes == ()


def test_two_stocks_one_after_the_other_are_no_clock_that_goes_back(tmp_path: Path) -> None:
    rows = [f"10:{minute:02}:00,{kind},1" for kind in "AB" for minute in range(30)]
    assert load_events(*(lambda schema, path: (schema, [path]))(*write(tmp_path, rows))).notes == ()


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not beside the checkout")
@pytest.mark.parametrize(
    ("stream", "file"),
    [
        ("nasdaq_minute_bars", "nasdaq_minute_bars/NASDAQ_MEDIUM.txt"),
        ("us_equity_trades", "us_equity_trades/2013-10-07/trades.csv.gz"),
    ],
)
def test_real_files_are_ordinary(stream: str, file: str) -> None:
    schema = StreamSchema.load(Path(__file__).parents[2] / "streams" / f"{stream}.yaml")
    assert not [note for note in load_events(schema, [SHARED / file]).notes if "clock" in note]


def test_a_day_that_an_older_version_staged_is_published_by_this_one() -> None:
    staged = StagedDay(date(2024, 3, 4), (), "digest", clock_back=2)
    content = staged.to_json()
    assert StagedDay.from_json(content) == staged
    del content["clock_back"]
    assert StagedDay.from_json(content).clock_back == 0
