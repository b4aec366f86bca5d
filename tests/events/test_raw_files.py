from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_files import UNBOUNDED, PathTemplate, Period, files_of_day, periods_of

DAY = date(2014, 8, 3)


@pytest.mark.parametrize(
    ("template", "pattern", "period"),
    [
        ("{day:%Y-%m-%d}/trades.csv.gz", "2014-08-03/trades.csv.gz", Period(DAY, DAY)),
        ("{day:%Y}/{day:%j}.csv", "2014/215.csv", Period(DAY, DAY)),
        ("{day:%Y-%m}.parquet", "2014-08.parquet", Period(date(2014, 8, 1), date(2014, 8, 31))),
        ("y{day:%Y}.csv", "y2014.csv", Period(date(2014, 1, 1), date(2014, 12, 31))),
        ("bars*.txt", "bars*.txt", UNBOUNDED),
    ],
)
def test_the_finest_directive_says_the_period(template: str, pattern: str, period: Period) -> None:
    assert PathTemplate(template).pattern(DAY) == pattern
    assert PathTemplate(template).period(DAY) == period


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("/etc/passwd", "relative"),
        ("../x.csv", "relative"),
        ("", "relative"),
        ("{day:%H}.csv", "no date"),
        ("{date:%Y}.csv", "no date"),
        ("{day}.csv", "no date"),
        ("{day:%Y.csv", "brace"),
        ("{day:%d}.csv", "needs month"),
        ("{day:%m}.csv", "needs a year"),
    ],
)
def test_templates_that_say_no_file_are_refused(template: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        PathTemplate(template)


def test_files_of_a_day_come_in_order_of_their_names(tmp_path: Path) -> None:
    for name in (
        "2014-08-03/b.csv",
        "2014-08-03/a.csv",
        "2014-08-04/c.csv",
        "2014-08-03/deep/d.csv",
        "2014-08-03/e.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    files, missing = files_of_day([PathTemplate("{day:%Y-%m-%d}/*.csv"), PathTemplate("none.csv")], str(tmp_path), DAY)
    assert [file.name for file in files] == ["2014-08-03/a.csv", "2014-08-03/b.csv"]
    assert missing == ["none.csv"]
    assert files[0].size == 1


def test_a_missing_data_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such data folder"):
        files_of_day([PathTemplate("a.csv")], str(tmp_path / "nowhere"), DAY)


def test_periods_of_the_files_that_are_there(tmp_path: Path) -> None:
    for name in ("2014-08-04.csv", "2014-08-03.csv", "2014-13-01.csv", "notes.csv"):
        (tmp_path / name).write_text("")
    assert periods_of([PathTemplate("{day:%Y-%m-%d}.csv")], str(tmp_path)) == [
        Period(date(2014, 8, 3), date(2014, 8, 3)),
        Period(date(2014, 8, 4), date(2014, 8, 4)),
    ]
    assert periods_of([PathTemplate("note?.csv")], str(tmp_path)) == [UNBOUNDED]


@pytest.mark.parametrize(
    ("template", "path", "event_type"),
    [
        ("AarhusPollutionData{type}.csv", "/data/AarhusPollutionData158324.csv", "158324"),
        ("{day:%Y-%m-%d}/{type}.csv.gz", "2014-08-03/north.csv.gz", "north"),
        ("{type}/{day:%Y/%m}/part-*.csv", "/raw/north/2014/08/part-3.csv", "north"),
        ("{type}/{day:%Y-%m}.csv", "2014-08.csv", None),
        ("{type}.csv", "north.txt", None),
    ],
)
def test_the_name_of_a_file_tells_the_type(template: str, path: str, event_type: str | None) -> None:
    assert PathTemplate(template).type_in(path) == event_type


def test_files_of_all_types_are_found(tmp_path: Path) -> None:
    for name in ("north-2014-08-03.csv", "south-2014-08-03.csv", "south-2014-08-04.csv"):
        (tmp_path / name).write_text("x")
    template = PathTemplate("{type}-{day:%Y-%m-%d}.csv")
    files, _ = files_of_day([template], str(tmp_path), DAY)
    assert [file.name for file in files] == ["north-2014-08-03.csv", "south-2014-08-03.csv"]
    assert periods_of([template], str(tmp_path)) == [Period(DAY, DAY), Period(date(2014, 8, 4), date(2014, 8, 4))]
