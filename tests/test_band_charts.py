"""Charts of estimates over time: everything given is drawn, and the clock is the stream's."""

from __future__ import annotations

from datetime import datetime, timedelta
from xml.etree import ElementTree

from cep_pipeline.vega import BandPanel, BandPoint, band_chart

OPEN = datetime(2013, 10, 7, 9, 30)


def panels() -> list[BandPanel]:
    points = [BandPoint(OPEN + timedelta(minutes=20 * n), 10.0 + n, 9.0 + n, 12.0 + n) for n in range(9)]
    points[4] = BandPoint(points[4].at, None, None, None)
    title = "(Trade where x.size >= 2000) before (Trade) within 2 s: x.symbol = y.symbol and x.exchange != y.exchange"
    return [BandPanel("SPY", points, level=11.0), BandPanel(title, points[:1]), BandPanel("nothing", [])]


def test_every_panel_its_level_and_its_clock_are_drawn() -> None:
    chart = band_chart(panels(), level_title="what plan 1 was made from")
    assert ElementTree.fromstring(chart).tag.endswith("svg")
    text = " ".join(ElementTree.fromstring(chart).itertext())
    for shown in (
        "SPY",
        "nothing",
        "(Trade where x.size >= 2000) before",
        "what plan 1 was made from",
        "10:00",
        "12:00",
    ):
        assert shown in text, shown
    assert "stroke-dasharray" in chart
    assert "dashed" not in band_chart([BandPanel("SPY", panels()[0].points)], level_title="a plan")


def test_the_line_breaks_where_there_is_no_estimate() -> None:
    broken = band_chart(panels()[:1])
    whole = band_chart([BandPanel("SPY", [point for point in panels()[0].points if point.value is not None])])
    assert broken != whole
    assert broken == band_chart(panels()[:1]), "the same chart is the same file"


def test_one_point_stands_in_the_hours_around_it() -> None:
    chart = ElementTree.fromstring(band_chart([BandPanel("SPY", panels()[0].points[:1])]))
    texts = ["".join(one.itertext()) for one in chart.iter() if one.tag.endswith("text")]
    assert {"00:00", "06:00", "12:00", "18:00"} <= {*texts} or {"03:00", "09:00", "15:00"} <= {*texts}, texts
