"""Workloads as lazy queries of Polars: inequality joins by `join_where`, bucketed joins where those are faster.

Each query was written several ways, and the fastest stays: pairs that are rare are joined first, the streaming engine
runs it, and where the order of events is free (W2) or they agree on a key (W7) they meet in buckets of time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import polars as pl
import pyarrow as pa
from polars import col

from benchmarks.measure import Measurement
from benchmarks.workloads import MANY_WINDOW_MS, draw_types

Frame = pl.LazyFrame


def load(events: pa.Table) -> pl.DataFrame:
    """The events with their times in whole milliseconds, as `ts`."""
    frame = pl.from_arrow(events)
    assert isinstance(frame, pl.DataFrame)
    columns = [name for name in ("ticker", "diff", "report_id", "avg_speed") if name in frame.columns]
    return frame.select(col("timestamp").dt.epoch("ms").alias("ts"), *columns).rechunk()


def count(workload: str, events: pl.DataFrame) -> Measurement:
    """Count the matches of a workload, in seconds of the processor."""
    start = time.process_time()
    matches = sum(int(query.collect(engine="streaming").item()) for query in QUERIES[workload](events.lazy()))
    return Measurement(time.process_time() - start, matches)


def _of_type(events: Frame, code: int, name: str) -> Frame:
    """The events of a type: their times and values under names that begin with that of the variable."""
    chosen = events.filter(col("ticker") == f"S{code:02d}")
    return chosen.select(col("ts").alias(f"{name}_ts"), col("diff").alias(f"{name}_v"))


def _rising(events: Frame, types: Sequence[int], window: int) -> Frame:
    """Count sequences of rising values; they are joined from the last to the first."""
    names = [f"x{place}" for place in range(len(types))]
    leaves = [_of_type(events, code, name) for code, name in zip(types, names, strict=True)]
    joined, last = leaves[-1], f"{names[-1]}_ts"
    for place in range(len(types) - 2, -1, -1):
        one, other = names[place], names[place + 1]
        joined = joined.join_where(
            leaves[place],
            col(f"{one}_ts") < col(f"{other}_ts"),
            col(f"{one}_ts") >= col(last) - window,
            col(f"{one}_v") < col(f"{other}_v"),
        ).select(f"{one}_ts", f"{one}_v", last)
    return joined.select(pl.len())


def _w1(events: Frame) -> list[Frame]:
    return [_rising(events, (0, 7, 15), 2000)]


def _w2(events: Frame) -> list[Frame]:
    """Two pairs are joined each, then pairs of pairs."""
    ab = _near(_of_type(events, 5, "x"), _of_type(events, 8, "y"), "ab")
    cd = _near(_of_type(events, 11, "x"), _of_type(events, 14, "y"), "cd")
    met = _in_buckets(ab, "ab_lo", 500, (-1, 0, 1)).join(_in_buckets(cd, "cd_lo", 500, (0,)), on="bucket")
    together = pl.max_horizontal("ab_hi", "cd_hi") - pl.min_horizontal("ab_lo", "cd_lo") <= 500
    return [met.filter(together).select(pl.len())]


def _near(xs: Frame, ys: Frame, name: str) -> Frame:
    """Pairs within 500 ms whose values rise, in any order: the first and the last time of each."""
    met = _in_buckets(xs, "x_ts", 500, (-1, 0, 1)).join(_in_buckets(ys, "y_ts", 500, (0,)), on="bucket")
    near = met.filter(((col("x_ts") - col("y_ts")).abs() <= 500) & (col("x_v") < col("y_v")))
    first, last = pl.min_horizontal("x_ts", "y_ts"), pl.max_horizontal("x_ts", "y_ts")
    return near.select(first.alias(f"{name}_lo"), last.alias(f"{name}_hi"))


def _in_buckets(frame: Frame, ts: str, width: int, offsets: Sequence[int]) -> Frame:
    """Each row in the bucket of its time, or in several ones beside it."""
    if len(offsets) == 1:
        return frame.with_columns((col(ts) // width + offsets[0]).alias("bucket"))
    buckets = pl.concat_list([col(ts) // width + offset for offset in offsets])
    return frame.with_columns(buckets.alias("bucket")).explode("bucket")


def _w3(events: Frame) -> list[Frame]:
    """Find first, for each first event, the time of the first one that rejects."""
    a, b = _of_type(events, 2, "a"), _of_type(events, 12, "b")
    c, d = _of_type(events, 6, "c"), _of_type(events, 13, "d")
    rejecting = a.join_where(b, col("b_ts") > col("a_ts"), col("b_ts") <= col("a_ts") + 1500, col("b_v") < col("a_v"))
    first = rejecting.group_by("a_ts").agg(col("b_ts").min().alias("end"))
    open_a = a.join(first, on="a_ts", how="left").with_columns(col("end").fill_null(col("a_ts") + 1501))
    cd = c.join_where(d, col("c_ts") < col("d_ts"), col("d_ts") <= col("c_ts") + 1500, col("c_v") < col("d_v"))
    met = cd.join_where(
        open_a,
        col("a_ts") < col("c_ts"),
        col("a_ts") >= col("d_ts") - 1500,
        col("a_v") < col("c_v"),
        col("c_ts") < col("end"),
    )
    return [met.select(pl.len())]


def _w4(events: Frame) -> list[Frame]:
    """Lists are counted, not made: n events between give 2^n - 1 of them; n is a difference of positions."""
    positions = _of_type(events, 10, "b").select("b_ts").with_row_index("before", offset=1)

    def placed(code: int, name: str) -> Frame:
        leaf = _of_type(events, code, name).join_asof(positions, left_on=f"{name}_ts", right_on="b_ts")
        before = col("before").cast(pl.Int64).fill_null(0).alias(f"{name}_before")
        return leaf.select(f"{name}_ts", f"{name}_v", before)

    met = placed(12, "c").join_where(
        placed(8, "a"), col("a_ts") < col("c_ts"), col("a_ts") >= col("c_ts") - 700, col("a_v") < col("c_v")
    )
    lists = pl.lit(2, pl.Int64).pow(col("c_before") - col("a_before")) - 1
    return [met.select(lists.sum())]


def _w6(events: Frame) -> list[Frame]:
    return [_rising(events, types, MANY_WINDOW_MS) for types in draw_types()]


def _w7(events: Frame) -> list[Frame]:
    window = 900_000
    readings = [
        events.select(col("report_id"), col("ts").alias(f"{name}_ts"), col("avg_speed").alias(f"{name}_v"))
        for name in "abc"
    ]
    joined = readings[0]
    for before, name, leaf in (("a", "b", readings[1]), ("b", "c", readings[2])):
        met = _in_buckets(joined, "a_ts", window, (0, 1)).join(
            _in_buckets(leaf, f"{name}_ts", window, (0,)), on=["report_id", "bucket"]
        )
        ts, v = col(f"{name}_ts"), col(f"{name}_v")
        inside = (ts > col(f"{before}_ts")) & (ts <= col("a_ts") + window) & (v < col(f"{before}_v"))
        joined = met.filter(inside).select("report_id", *dict.fromkeys(["a_ts", f"{name}_ts", f"{name}_v"]))
    return [joined.select(pl.len())]


QUERIES: dict[str, Callable[[Frame], list[Frame]]] = {
    "W1": _w1,
    "W2": _w2,
    "W3": _w3,
    "W4": _w4,
    "W6": _w6,
    "W7": _w7,
}
"""Workload -> its queries over the events, whose counts add up."""
