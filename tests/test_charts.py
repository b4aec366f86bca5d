"""Charts of matches: each bound event is marked where it is, series stand apart, and nothing of the data is markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.charts import Drawing, MatchSeries, draw_match
from cep_pipeline.errors import InputError

OPEN_US = 1_381_152_600_000_000  # 2013-10-07 09:30 in New York
SECOND = 1_000_000
SVG = "{http://www.w3.org/2000/svg}"
SCHEMA = cep.StreamSchema.from_dict(
    {
        "base_type": "Trade",
        "type_attribute": "symbol",
        "attributes": {"symbol": "string", "account": "int64", "price": "float64", "size": "int64", "venue": "string"},
    }
)


def events(symbols: str = "ABAB", prices: tuple[float | None, ...] = (10.0, 200.0, 14.0, 190.0)) -> pa.Table:
    count = len(symbols)
    at = pa.array([OPEN_US + place * 60 * SECOND for place in range(count)], pa.timestamp("us", tz="UTC"))
    return pa.table({"timestamp": at, "seq": list(range(count)), "symbol": list(symbols), "price": pa.array(prices)})


def chart_of(
    rows: pa.Table,
    bound: Sequence[tuple[str, int]],
    *,
    timezone: str = "UTC",
    series: Sequence[str] = (),
    window: str | None = None,
    name: str = "p",
) -> str:
    """A match of some events, drawn over their prices."""
    bindings = [{"variable": variable, "seq": seq} for variable, seq in bound]
    match = {"pattern": name, "match_id": "1f8a", "bindings": bindings}
    text = f"NAME p PATTERN SEQ(Trade a, Trade b) WITHIN {window}"
    pattern = None if window is None else cep.parse_patterns(text, SCHEMA)[0]
    return draw_match(match, rows, MatchSeries("price", tuple(series)), pattern, timezone).svg


def tips(chart: str) -> list[str]:
    """What the marks of a chart say where a user points at them."""
    return ["".join(one.itertext()) for one in ElementTree.fromstring(chart).iter(f"{SVG}title")]


def texts(chart: str) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(chart).iter(f"{SVG}text")]


def lines(chart: str) -> list[list[tuple[float, float]]]:
    """The points of each series that is drawn."""
    found = re.findall(r'aria-roledescription="line mark[^"]*"[^>]*>(?:<path)? ?d="M([^"]*)Z?"', chart)
    found = found or re.findall(r'class="mark-line[^>]*><path [^>]*?\bd="M([^"Z]*)', chart)
    return [[tuple(map(float, point.split(","))) for point in way.split("L")] for way in found]  # type: ignore[misc]


def places(chart: str) -> list[tuple[float, float]]:
    """Where the events of a match are marked."""
    found = re.findall(r'<path [^>]*transform="translate\(([\d.]+),([\d.]+)\)"[^>]*><title>', chart)
    return [(float(x), float(y)) for x, y in found]


def test_bound_events_are_marked_with_variable_value_and_local_time() -> None:
    chart = chart_of(events(), [("a", 0), ("b", 2)], timezone="America/New_York")
    (first, low), (last, high) = places(chart)
    assert first < last and low > high, "later is further right, more is higher up"
    assert tips(chart) == ["a: price 10, 2013-10-07 09:30:00", "b: price 14, 2013-10-07 09:32:00"]
    assert {"a", "b", "09:30", "09:31"} <= set(texts(chart))


def test_series_have_panels_of_their_own_and_those_without_an_event_of_the_match_have_none() -> None:
    both = chart_of(events(), [("a", 0), ("b", 1)], series=["symbol"])
    one = chart_of(events(), [("a", 0), ("b", 2)], series=["symbol"])
    assert (len(lines(both)), len(lines(one))) == (2, 1)
    assert "B price" in texts(both) and "B price" not in texts(one)


def test_a_value_that_is_missing_still_marks_the_event() -> None:
    chart = chart_of(events(prices=(10.0, None, 14.0, None)), [("a", 0), ("b", 1)])
    assert [tip.partition(",")[0] for tip in tips(chart)] == ["a: price 10", "b: price none"]
    nothing = events(prices=(None,) * 4).set_column(3, "price", pa.array([None] * 4, pa.float64()))
    assert len(tips(chart_of(nothing, [("a", 3)]))) == 1


def test_many_events_are_thinned_but_for_those_of_the_match() -> None:
    count = 100_000
    prices = [5.0] * count
    prices[77_777] = 99.0
    at = pa.array([OPEN_US + place * SECOND for place in range(count)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"timestamp": at, "seq": list(range(count)), "price": prices})
    (way,) = lines(chart_of(table, [("a", 0), ("b", 77_777)]))
    assert len(way) < 4_000
    heights = [height for _, height in way]
    assert min(heights) < max(heights) - 100


def test_names_of_the_data_are_text_and_not_markup() -> None:
    hostile = '<script>alert("x")</script>\u202e'
    table = events().set_column(2, "symbol", pa.array([hostile] * 4))
    chart = chart_of(table, [(hostile, 0)], series=["symbol"], name=hostile)
    assert "<script" not in chart and "\u202e" not in chart and "\\u202e" in chart
    assert ElementTree.fromstring(chart).tag == f"{SVG}svg"


def test_prices_hold_until_the_next_event() -> None:
    (way,) = lines(chart_of(events("AAA", (10.0, 200.0, 14.0)), [("a", 0), ("b", 2)]))
    assert all(x == x2 or y == y2 for (x, y), (x2, y2) in pairwise(way)), "steps, and no slopes"
    assert len({y for _, y in way}) == 3


def test_a_short_match_is_drawn_alone_and_among_what_lies_around_it() -> None:
    count = 200
    at = pa.array([OPEN_US + place * 30_000 for place in range(count)], pa.timestamp("us", tz="UTC"))
    table = pa.table(
        {"timestamp": at, "seq": list(range(count)), "price": [10.0 + place % 7 for place in range(count)]}
    )
    short = chart_of(table, [("a", 100), ("b", 101), ("c", 102)], timezone="America/New_York")
    (x1, _), _, (x3, _) = places(short)
    assert x3 - x1 > 780 / 3 and len(lines(short)) == 2 and len(tips(short)) == 3
    long = chart_of(table, [("a", 10), ("b", 150)])
    assert len(lines(long)) == 1 and "the match, shaded, and what lies around it" not in texts(long)
    assert {"the match, shaded, and what lies around it", "2013-10-07, America/New_York"} <= set(texts(short))
    clocks = [one for one in texts(short) if re.fullmatch(r"09:30:0\d(\.\d+)?", one)]
    assert len(clocks) >= 8, "each axis of times has labels"


def test_names_of_events_at_one_place_do_not_cover_each_other() -> None:
    at = pa.array([OPEN_US, *[OPEN_US + SECOND + place for place in range(4)], OPEN_US + 9 * SECOND])
    rows = pa.table({"timestamp": at.cast(pa.timestamp("us", tz="UTC")), "seq": range(6), "price": [5.0] * 6})
    names = ["first", "second", "third", "fourth"]
    chart = chart_of(rows, [("begin", 0), *zip(names, range(1, 5), strict=True), ("end", 5)])
    found = re.findall(r'translate\(([\d.]+),([\d.]+)\)"[^>]*font-weight="bold"[^>]*>(\w+)<', chart)
    heights = sorted(float(y) for _, y, name in found if name in names)
    assert len(heights) == 4 and all(b - a >= 12 for a, b in pairwise(heights))


def test_a_window_is_drawn_where_it_ends() -> None:
    inside, outside = (chart_of(events(), [("a", 0), ("b", 1)], window=f"{minutes} minutes") for minutes in (2, 90))
    assert "stroke-dasharray" in inside and "stroke-dasharray" not in outside


@pytest.mark.parametrize("span", [0, 1, 7, 999, 12 * SECOND, 3_000 * SECOND, 90_000 * SECOND, 10**14])
def test_a_chart_has_a_few_labels_at_any_scale(span: int) -> None:
    at = pa.array([OPEN_US, OPEN_US + span], pa.timestamp("us", tz="UTC"))
    table = pa.table({"timestamp": at, "seq": [0, 1], "price": [1.0, 1.0]})
    chart = chart_of(table, [("a", 0), ("b", 1)], timezone="America/New_York")
    assert len(tips(chart)) == 2 and 3 <= len(texts(chart)) <= 22


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("SEQ(A a, B b) WHERE a.size < b.size", ("size", ("symbol",))),
        ("SEQ(A a, B b) WHERE [account] AND a.price < b.price", ("price", ("symbol", "account"))),
        ("SEQ(Trade a, Trade b) WHERE [venue, size] AND a.price < b.price", ("price", ("venue",))),
        ("SEQ(Trade a, Trade b) WHERE a.venue != b.venue", ("account", ("symbol",))),
    ],
)
def test_series_are_told_apart_by_what_the_events_of_a_match_have_in_common(
    pattern: str, wanted: tuple[str, tuple[str, ...]]
) -> None:
    [parsed] = cep.parse_patterns(f"NAME p PATTERN {pattern} WITHIN 1 hour", SCHEMA)
    series = MatchSeries.of(SCHEMA.arrow_schema, parsed)
    assert (series.attribute, series.apart) == wanted
    assert MatchSeries.of(SCHEMA.arrow_schema, parsed, "size").attribute == "size"
    assert MatchSeries.of(SCHEMA.arrow_schema, None, None, "symbol") == MatchSeries("account", ("symbol",))
    with pytest.raises(InputError, match=r"'venue' is none; the events have: account, price, size"):
        MatchSeries.of(SCHEMA.arrow_schema, parsed, "venue")


def test_nothing_is_drawn_beyond_the_ends_of_the_calendar() -> None:
    first, last = (datetime(year, 6, 1, tzinfo=UTC) for year in (1, 9999))
    shown = MatchSeries("price", ()).near({"start_ts": first, "end_ts": last}, events())
    assert shown[:2] == (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


def test_a_drawing_is_saved_in_the_format_of_its_file(tmp_path: Path) -> None:
    drawing = Drawing(chart_of(events(), [("a", 0), ("b", 2)]), "<b>")
    for ending in (".svg", ".html", ".png"):
        drawing.save(tmp_path / f"match{ending}")
    assert ElementTree.fromstring((tmp_path / "match.svg").read_text()).tag == f"{SVG}svg"
    page = (tmp_path / "match.html").read_text()
    assert drawing.svg in page and "<title>&lt;b&gt;</title>" in page and "<script" not in page
    assert (tmp_path / "match.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"name it \.html, \.svg or \.png"):
        drawing.save(tmp_path / "match.gif")
