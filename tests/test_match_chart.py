"""Charts of matches: each bound event is marked where it is, series stand apart, and nothing of the data is markup."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.errors import InputError
from cep_pipeline.match_chart import Drawing, MatchSeries, TimeAxis, match_chart, sparklines, value_ticks

OPEN_US = 1_381_152_600_000_000  # 2013-10-07 09:30 in New York
SECOND = 1_000_000
SVG = "{http://www.w3.org/2000/svg}"


def events(symbols: str = "ABAB", prices: tuple[float | None, ...] = (10.0, 200.0, 14.0, 190.0)) -> pa.Table:
    count = len(symbols)
    at = pa.array([OPEN_US + place * 60 * SECOND for place in range(count)], pa.timestamp("us", tz="UTC"))
    return pa.table({"timestamp": at, "seq": list(range(count)), "symbol": list(symbols), "price": pa.array(prices)})


def circles(chart: str) -> list[tuple[float, float, str]]:
    found = ElementTree.fromstring(chart).iter(f"{SVG}circle")
    return [(float(one.attrib["cx"]), float(one.attrib["cy"]), "".join(one.itertext())) for one in found]


def test_bound_events_are_marked_with_variable_value_and_local_time() -> None:
    chart = match_chart(events(), [("a", 0), ("b", 2)], "price", timezone="America/New_York")
    (first, low, a), (last, high, b) = circles(chart)
    assert first < last and low > high, "later is further right, more is higher up"
    assert a == "a: price 10, 2013-10-07 09:30:00" and b == "b: price 14, 2013-10-07 09:32:00"
    texts = [one.text for one in ElementTree.fromstring(chart).iter(f"{SVG}text")]
    assert {"a", "b", "09:30:00", "09:31:00"} <= set(texts)


def test_series_have_panels_of_their_own_and_those_without_an_event_of_the_match_have_none() -> None:
    both = match_chart(events(), [("a", 0), ("b", 1)], "price", series=["symbol"])
    one = match_chart(events(), [("a", 0), ("b", 2)], "price", series=["symbol"])
    assert (both.count("<polyline"), one.count("<polyline")) == (2, 1)
    assert "B price" in both and "B price" not in one


def test_a_value_that_is_missing_still_marks_the_event() -> None:
    chart = match_chart(events(prices=(10.0, None, 14.0, None)), [("a", 0), ("b", 1)], "price")
    assert [tip.partition(",")[0] for _, _, tip in circles(chart)] == ["a: price 10", "b: price none"]
    assert len(circles(match_chart(events(prices=(None,) * 4).set_column(
        3, "price", pa.array([None] * 4, pa.float64())), [("a", 3)], "price"))) == 1  # fmt: skip


def test_many_events_are_thinned_to_the_pixels_and_keep_their_extremes() -> None:
    count = 100_000
    prices = [5.0] * count
    prices[77_777] = 99.0
    at = pa.array([OPEN_US + place * SECOND for place in range(count)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"timestamp": at, "seq": list(range(count)), "price": prices})
    chart = match_chart(table, [("a", 0), ("b", count - 1)], "price")
    (way,) = (one.attrib["points"].split() for one in ElementTree.fromstring(chart).iter(f"{SVG}polyline"))
    assert len(way) < 4_000
    heights = [float(point.partition(",")[2]) for point in way]
    assert min(heights) < max(heights) - 100


def test_names_of_the_data_are_text_and_not_markup() -> None:
    hostile = '<script>alert("x")</script>\u202e'
    table = events().set_column(2, "symbol", pa.array([hostile] * 4))
    chart = match_chart(table, [(hostile, 0)], "price", series=["symbol"], title=hostile)
    assert "<script" not in chart and "\u202e" not in chart and "\\u202e" in chart
    assert ElementTree.fromstring(chart).tag == f"{SVG}svg"


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(InputError, match="no column 'size'"):
        match_chart(events(), [("a", 0)], "size")
    with pytest.raises(InputError, match="'symbol' is of type string"):
        match_chart(events(), [("a", 0)], "symbol")


def test_a_window_is_drawn_where_it_ends() -> None:
    inside, outside = (
        match_chart(events(), [("a", 0), ("b", 1)], "price", window_us=minutes * 60 * SECOND) for minutes in (2, 90)
    )
    assert "stroke-dasharray" in inside and "stroke-dasharray" not in outside


@pytest.mark.parametrize("span", [0, 1, 7, 999, 12 * SECOND, 3_000 * SECOND, 90_000 * SECOND, 10**14])
def test_an_axis_has_a_few_round_labels_at_any_scale(span: int) -> None:
    axis = TimeAxis(OPEN_US, OPEN_US + span, 0, 100, "America/New_York")
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 9 and len({label for _, label in ticks}) == len(ticks)
    assert all(0 <= axis.x(at) <= 100 for at, _ in ticks)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1e-9), (-5.0, 5.0), (1e12, 1e12 + 3), (0.1, 0.1)])
def test_values_have_a_few_ticks_within_their_range(low: float, high: float) -> None:
    ticks = value_ticks(low, high)
    assert 1 <= len(ticks) <= 6 and all(low - 1e-9 <= tick <= high + 1e-3 for tick in ticks)


SCHEMA = cep.StreamSchema.from_dict(
    {
        "base_type": "Trade",
        "type_attribute": "symbol",
        "attributes": {"symbol": "string", "account": "int64", "price": "float64", "size": "int64", "venue": "string"},
    }
)


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
    drawing = Drawing(match_chart(events(), [("a", 0), ("b", 2)], "price"), "<b>")
    for ending in (".svg", ".html", ".png"):
        drawing.save(tmp_path / f"match{ending}")
    assert ElementTree.fromstring((tmp_path / "match.svg").read_text()).tag == f"{SVG}svg"
    page = (tmp_path / "match.html").read_text()
    assert drawing.svg in page and "<title>&lt;b&gt;</title>" in page and "<script" not in page
    assert (tmp_path / "match.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"name it \.html, \.svg or \.png"):
        drawing.save(tmp_path / "match.gif")


def test_series_in_characters_have_their_marks_below_their_events() -> None:
    one, other = sparklines(
        events("ABABA", (1.0, 9.0, 2.0, 8.0, 3.0)), [("a", 2), ("b", 3)], MatchSeries("price", ("symbol",)), 5
    )
    assert (one.name, one.course, one.marks) == ("A", "▁▁▅▅█", "  a") and (one.low, one.high) == (1, 3)
    assert (other.name, other.course, other.marks) == ("B", " ██▁▁", "   b")
    [flat] = sparklines(
        events(prices=(5.0,) * 4), [("first", 0), ("second", 1), ("third", 3)], MatchSeries("price", ()), 12
    )
    assert (flat.course, flat.marks) == ("▅" * 12, "^  second  third")
    [empty] = sparklines(
        events(prices=(None,) * 4).set_column(3, "price", pa.nulls(4, pa.float64())),
        [("a", 1)],
        MatchSeries("price", ()),
        4,
    )
    assert empty.course == "    " and empty.low != empty.low
