"""From files of one's own to a project: `init`, `preview`, `check`; what `--events`, `--out` take."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from cep_pipeline.events.inference import infer_schema
from cep_pipeline.events.schema import StreamSchema
from tests.cli.command_line import cep

READINGS = "time,room,temperature,door\n" + "".join(
    f"2025-03-04 {hour:02}:{minute:02},room-{room},-{18 - hour / 10:.1f},{'open' if hour == 3 else 'closed'}\n"
    for hour in range(6)
    for minute in range(0, 60, 5)
    for room in (1, 2, 3)
)
PATTERN = "NAME warm PATTERN SEQ(Event a, Event b) WHERE [room] AND b.temperature > a.temperature WITHIN 5 minutes\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "readings").mkdir()
    (tmp_path / "readings" / "2025-03-04.csv").write_text(READINGS)
    (tmp_path / "warm.sase").write_text(PATTERN)
    return tmp_path


def inferred(folder: Path, text: str | bytes, timezone: str | None = None, name: str = "data.csv") -> dict[str, object]:
    """The schema that is proposed for a file, which must load and read every row of the file."""
    data = text if isinstance(text, bytes) else text.encode()
    (folder / name).write_bytes(data)
    propose(folder, name, timezone)
    StreamSchema.load(folder / "s.yaml")
    seen = cep("preview", name, "--schema", "s.yaml", "--json", folder=folder)
    assert seen.code == 0, seen.errors
    assert json.loads(seen.output)["rejected"] == 0, seen.output
    schema = yaml.safe_load((folder / "s.yaml").read_text())
    assert isinstance(schema, dict)
    return schema


def propose(folder: Path, name: str, timezone: str | None = "UTC") -> str:
    """Write the schema that is proposed for a file; returns its text."""
    made = infer_schema(folder / name, timezone=timezone)
    (folder / "s.yaml").write_text(made.text)
    return made.text


def test_a_schema_is_proposed_that_detect_takes_at_once(folder: Path) -> None:
    file = "readings/2025-03-04.csv"
    done = cep("init", "p", "--data", file, "--timezone", "Europe/Copenhagen", folder=folder)
    assert done.code == 0, done.errors
    rooms = "p/streams/readings.yaml"
    schema = yaml.safe_load((folder / rooms).read_text())
    assert schema["name"] == "readings"
    assert schema["type_attribute"] == "room"
    assert schema["timestamp"] == {"column": "time", "format": "iso"}
    assert schema["attributes"] == {"room": "string", "temperature": "float64", "door": "string"}
    assert schema["source"] == {"format": "csv", "path": "{day:%Y-%m-%d}.csv"}
    found = cep(
        *("detect", "--patterns", "warm.sase", "--schema", rooms, "--events", file, "--out", "m.csv"),
        folder=folder,
    )
    assert found.code == 0, found.errors


def test_times_without_a_zone_are_asked_for_one(folder: Path) -> None:
    done = cep("init", "p", "--data", "readings/2025-03-04.csv", folder=folder)
    assert done.code == 2
    assert "'time'" in done.error and "--timezone" in done.error
    done = cep("init", "p", "--data", "readings/2025-03-04.csv", "--timezone", "Europe/Kopenhagen", folder=folder)
    assert done.code == 2
    assert "Europe/Kopenhagen" in done.error


@pytest.mark.parametrize(
    ("value", "text_format", "needs_zone"),
    [
        ("2014-08-03T00:05:00.123Z", "iso", False),
        ("2014-08-03 00:05:00+02:00", "iso", False),
        ("2014-08-03", "iso", True),
        ("1407024300", "epoch_s", False),
        ("1407024300123", "epoch_ms", False),
        ("1407024300123456", "epoch_us", False),
        ("201408030005", "%Y%m%d%H%M", True),
        ("20140803000500", "%Y%m%d%H%M%S", True),
        ("23.08.2014 00:05", "%d.%m.%Y %H:%M", True),
        ("08/23/2014 00:05:30", "%m/%d/%Y %H:%M:%S", True),
        ("2014/08/03 00:05:30.5", "%Y/%m/%d %H:%M:%S.%f", True),
    ],
)
def test_times_are_recognised(value: str, text_format: str, needs_zone: bool, tmp_path: Path) -> None:
    zone = "Europe/Copenhagen" if needs_zone else None
    schema = inferred(tmp_path, f"time,x\n{value},1\n{value},2\n", zone)
    assert schema["timestamp"] == {"column": "time", "format": text_format}


def test_layouts_and_types_are_recognised(tmp_path: Path) -> None:
    text = "AAPL;200802010900;135,9;1;true;007;\nIBM;200802010901;136,0;2;false;008;\n" * 3
    schema = inferred(tmp_path, text, "UTC", name="bars.txt")
    assert schema["source"] == {
        "format": "csv",
        "header": False,
        "columns": [f"column_{number}" for number in range(1, 7)],
        "delimiter": ";",
        "decimal": ",",
        "path": "bars.txt",
    }
    assert schema["attributes"] == {
        "column_1": "string",
        "column_3": "float64",
        "column_4": "int64",
        "column_5": "bool",
        "column_6": "string",
    }
    odd = "timestamp,Temp (C),day,2nd,temp_c,Temp_C\n2025-01-01 00:00,1.5,1,2,3,4\n2025-01-01 00:01,2.5,1,2,3,4\n"
    schema = inferred(tmp_path, gzip.compress(odd.encode()), "UTC", name="odd.csv.gz")
    assert schema["attributes"] == {
        "Temp_C": {"type": "float64", "column": "Temp (C)"},
        "source_day": {"type": "int64", "column": "day"},
        "source_2nd": {"type": "int64", "column": "2nd"},
        "temp_c_2": {"type": "int64", "column": "temp_c"},
        "Temp_C_3": {"type": "int64", "column": "Temp_C"},
    }
    assert "type_attribute" not in schema


def test_a_parquet_file_says_its_types(tmp_path: Path) -> None:
    at = pa.array([0, 60_000_000, 120_000_000, 180_000_000], pa.timestamp("us"))
    table = pa.table({"at": at, "sensor": [7, 8, 7, 8], "open": [True, False, None, True], "all": [[1], [2], [3], []]})
    pq.write_table(table, tmp_path / "1970-01.parquet")
    text = (tmp_path / "1970-01.parquet").read_bytes()
    schema = inferred(tmp_path, text, "UTC", name="1970-01.parquet")
    assert schema["timestamp"] == {"column": "at"}
    assert schema["type_attribute"] == "sensor"
    assert schema["attributes"] == {"sensor": "int64", "open": "bool"}
    assert schema["source"] == {"format": "parquet", "path": "{day:%Y-%m}.parquet"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "no column has times that can be read; the columns, with the first values, are: a (1), b (2)"),
        ("time,x,x\n2025-01-01,1,2\n", "names a column twice"),
        ("time,x\n", "no rows below its header"),
    ],
)
def test_a_file_that_tells_no_schema_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(text)
    done = cep("init", "p", "--data", "data.csv", "--timezone", "UTC", folder=tmp_path)
    assert done.code == 2
    assert said in done.error


def test_a_project_is_made_and_checked(folder: Path) -> None:
    done = cep("init", "demo", folder=folder)
    assert done.code == 0, done.errors
    assert done.output.splitlines()[-5:] == ["next:", "  cd demo", "  cep check", "  cep run", "  cep matches"]
    done = cep("check", folder=folder / "demo")
    assert (done.code, done.output) == (0, "1 stream, 1 pattern: no errors, 0 warnings\n")
    done = cep("init", "demo", folder=folder)
    assert done.code == 2
    assert "nothing is overwritten" in done.error
    done = cep("init", "own", "--data", "readings/2025-03-04.csv", "--timezone", "UTC", folder=folder)
    assert done.code == 0, done.errors
    seen = cep("preview", "--day", "2025-03-04", folder=folder / "own")
    assert seen.code == 0, seen.errors
    assert "216 events, 0 rows rejected" in seen.output
    assert "days: 2025-03-04 (UTC)" in seen.output


def test_times_of_attributes_are_shown_by_the_clock_of_the_stream(folder: Path) -> None:
    schema = """
        name: t
        timezone: Europe/Copenhagen
        base_type: T
        timestamp: time
        attributes: {x: float64, due: timestamp, seen: {type: timestamp, timezone: UTC}}
        source: {format: csv, path: t.csv}
    """
    (folder / "s.yaml").write_text(schema)
    (folder / "t.csv").write_text("time,x,due,seen\n2025-03-04 09:00,1,2025-03-07,2025-03-04 08:01\n")
    (folder / "p.sase").write_text("NAME p PATTERN T a WHERE a.due > a.seen WITHIN 1 second")
    [first] = json.loads(cep("preview", "t.csv", "--schema", "s.yaml", "--json", folder=folder).output)["first"]
    assert (first["due"], first["seen"]) == ("2025-03-07 00:00:00+01:00", "2025-03-04 09:01:00+01:00")
    asked = ("--patterns", "p.sase", "--schema", "s.yaml", "--events", "t.csv")
    shown = cep("detect", *asked, folder=folder).errors
    assert "2025-03-07 00:00:00.000" in shown and "2025-03-04 09:01:00.000" in shown
    assert "2025-03-07 00:00:00.000 > 2025-03-04 09:01:00.000" in cep("why", "p", "1", *asked, folder=folder).output


def test_files_whose_names_tell_no_day_are_previewed_and_run_day_by_day(folder: Path) -> None:
    (folder / "all.csv").write_text(READINGS + READINGS.partition("\n")[2].replace("03-04", "03-06"))
    made = cep("init", "p", "--data", "all.csv", "--timezone", "UTC", folder=folder)
    assert "  cep run --from 2025-03-04 --to 2025-03-06\n" in made.output
    seen = cep("preview", folder=folder / "p")
    assert seen.code == 0, seen.errors
    assert "432 events, 0 rows rejected\ndays: 2025-03-04 to 2025-03-06 (UTC)" in seen.output
    assert json.loads(cep("preview", "--json", folder=folder / "p").output)["days"] == ["2025-03-04", "2025-03-06"]
    done = cep("run", folder=folder / "p")
    assert done.code == 2
    assert "say which: --day YYYY-MM-DD, or --from and --to (`cep preview` shows the days in them)" in done.error
    (folder / "all.csv").unlink()
    assert "there is no file of the stream: all.csv" in cep("preview", folder=folder / "p").error


def test_raw_files_that_are_not_there_yet_are_a_note(folder: Path) -> None:
    assert cep("init", "p", folder=folder).code == 0
    project = folder / "p"
    settings = yaml.safe_load((project / "pipeline.yaml").read_text())
    stream, schema = settings["streams"]["cold_rooms"], (project / "streams" / "cold_rooms.yaml").read_text()
    stream["data"] = "one"

    def checked(*arguments: str) -> dict[str, list[str]]:
        (project / "pipeline.yaml").write_text(yaml.safe_dump(settings))
        done = cep("check", "--json", *arguments, folder=project)
        assert done.code == 0, done.errors
        told: dict[str, list[str]] = json.loads(done.output)
        return told

    named = (
        f"streams.cold_rooms.data: there is no folder {project / 'one'} with the raw files, which `cep run` needs; "
        "make it, or name another one here or with --data FOLDER"
    )
    told = checked()
    assert told["warnings"] == [] and [one.partition(" ")[2] for one in told["notes"]] == [named]
    for name, data in (("more", "two"), ("made", "var/generated_trades")):
        settings["streams"][name] = {**stream, "schema": f"{name}.yaml", "data": data}
        (project / f"{name}.yaml").write_text(schema.replace("name: cold_rooms", f"name: {name}"))
    listed = (
        "the raw files of cold_rooms, made, more are not there yet; `cep check --stream cold_rooms` names the folder"
    )
    assert checked() == {"errors": [], "warnings": [], "notes": [listed]}
    shown = cep("check", folder=project)
    assert (shown.output, shown.errors) == (f"3 streams, 3 patterns: no errors, 0 warnings\nnote: {listed}\n", "")
    for name in ("cold_rooms", "made"):
        told = checked("--stream", name)
        assert f"streams.{name}.data: there is no folder" in told["notes"][0] and told["warnings"] == []
    (project / "one").mkdir()
    (project / "two").mkdir()
    assert ["streams.made.data: there is no folder" in one for one in checked()["notes"]] == [True]


def test_a_pattern_that_days_cannot_publish_is_told(folder: Path) -> None:
    assert cep("init", "p", folder=folder).code == 0
    project = folder / "p"
    settings = yaml.safe_load((project / "pipeline.yaml").read_text())
    settings["streams"]["cold_rooms"]["pattern_sets"]["second"] = {"file": "patterns/waits.sase"}
    (project / "pipeline.yaml").write_text(yaml.safe_dump(settings))
    text = (
        "NAME quiet PATTERN SEQ(Event a, ~Event b) WITHIN 3 EVENTS PARTITION BY door RETURN a.door AS door;\n"
        "NAME alike PATTERN SEQ(quiet q, Event a) WITHIN 3 EVENTS PARTITION BY door;\n"
        "NAME timed PATTERN SEQ(quiet q, Event a) WITHIN 1 day;\n"
    )
    (project / "patterns" / "waits.sase").write_text(text)
    told = json.loads(cep("check", "--json", folder=project).output)
    [error] = told["errors"]
    assert "waits.sase: daily runs do not publish pattern 'alike', which binds matches and counts the events" in error


def test_all_errors_of_a_project_are_told_at_once(folder: Path) -> None:
    assert cep("init", "p", folder=folder).code == 0
    project = folder / "p"
    (project / "patterns" / "wrong.sase").write_text(
        "PATTERN Event a WHERE a.door > 1 AND a.dor = 'x' WITHIN 1 day;\nPATTERN Event a\n"
    )
    (project / "streams" / "wrong.yaml").write_text("name: wrong\ntimezone: Nowhere\n")
    settings = yaml.safe_load((project / "pipeline.yaml").read_text())
    settings["streams"]["cold_rooms"]["pattern_sets"]["second"] = {"file": "patterns/wrong.sase"}
    settings["streams"]["cold_rooms"]["pattern_sets"]["third"] = {"file": "patterns/none.sase"}
    settings["streams"]["wrong"] = {"schema": "streams/wrong.yaml", "data": "data"}
    (project / "pipeline.yaml").write_text(yaml.safe_dump(settings))
    done = cep("check", "--json", folder=project)
    assert done.code == 2
    told = json.loads(done.output)
    assert (len(told["errors"]), told["warnings"]) == (3, [])
    patterns, missing, schema = told["errors"]
    for words in ("cannot compare string with int", "unknown attribute 'dor'", "wrong.sase:2:16: expected WITHIN"):
        assert words in patterns
    assert "none.sase" in missing
    assert "timestamp: this setting is required" in schema and "source: this setting is required" in schema
    schema = ("--schema", "streams/cold_rooms.yaml")
    done = cep("check", "patterns/wrong.sase", *schema, folder=project)
    assert done.code == 2
    assert "unknown attribute 'dor'" in done.errors and "expected WITHIN" in done.errors
    (project / "in.sase").write_text("NAME x PATTERN Event a WHERE a.room IN $rooms WITHIN 1 day")
    over_file = ("check", "in.sase", "--schema", "streams/cold_rooms.yaml")
    assert "give its values: --param rooms=A,B" in cep(*over_file, folder=project).errors
    assert cep(*over_file, "--param", "rooms=room-1,room-2", folder=project).code == 0
    assert cep("check", "--param", "rooms=room-1", folder=project).code == 2
    (project / "at.sase").write_text("NAME at PATTERN Event a WHERE a.room = $room WITHIN 1 day")
    over_file = ("check", "at.sase", "--schema", "streams/cold_rooms.yaml")
    done = cep(*over_file, "--param", "room=room-1", folder=project)
    assert (done.code, "1 pattern" in done.output) == (0, True), done.errors
    done = cep(*over_file, "--param", "room=room-1,room-2", folder=project)
    assert done.code == 2 and "not to a set" in done.errors
    both = "PATTERN Event a WHERE a.room = $room AND a.room IN $room WITHIN 1 day"
    (project / "both.sase").write_text(both)
    done = cep("check", "both.sase", *over_file[2:], "--param", "room=room-1", folder=project)
    assert done.code == 2 and "give the two uses two names" in done.errors


def over(folder: Path, *events: str, out: str = "m.csv") -> str:
    """The number of events that detection over these files reads."""
    if not (folder / "s.yaml").exists():
        propose(folder, "readings/2025-03-04.csv")
    given = [word for one in events for word in ("--events", one)]
    done = cep("detect", "--patterns", "warm.sase", "--schema", "s.yaml", *given, "--out", out, folder=folder)
    assert done.code == 0, done.errors
    assert "216 events, 0 rows rejected" in done.errors
    return done.output


def test_events_are_files_folders_patterns_and_stdin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over(folder, "readings/2025-03-04.csv")
    wanted = (folder / "m.csv").read_text()
    (folder / "readings" / "notes.txt").write_text("no events")
    for events in (["readings"], ["readings/*.csv"], ["readings", "readings/2025-03-04.csv"], ["**/2025-*.csv"]):
        over(folder, *events)
        assert (folder / "m.csv").read_text() == wanted
    for data in (READINGS.encode(), gzip.compress(READINGS.encode())):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert over(folder, "-", out="-") == wanted
    done = cep("preview", "nothing/*.csv", "--schema", "s.yaml", folder=folder)
    assert done.code == 2
    assert "no file fits this pattern" in done.error
    (folder / "empty").mkdir()
    done = cep("preview", "empty", "--schema", "s.yaml", folder=folder)
    assert done.code == 2
    assert "its files are named" in done.error


def test_types_and_texts_that_no_event_has_are_told(folder: Path) -> None:
    (folder / "warm.sase").write_text(
        "PATTERN SEQ(\"room-9\" a, Event b) WHERE b.door = 'opened' WITHIN 5 minutes;\nPATTERN Event a WITHIN 1 minute"
    )
    propose(folder, "readings/2025-03-04.csv")
    done = cep(
        *("detect", "--patterns", "warm.sase", "--schema", "s.yaml", "--events", "readings", "--out", "m.csv"),
        folder=folder,
    )
    assert done.code == 0
    told = " ".join(done.errors.split())
    assert "no event has the type room-9, asked for by pattern_1; there are: room-1, room-2, room-3" in told
    assert "no event has door = 'opened', asked for by pattern_1; there are: 'closed', 'open'" in told


def test_types_that_are_numbers_are_known_by_their_digits(folder: Path) -> None:
    (folder / "numbers.csv").write_text(READINGS.replace("room-", "15832"))
    propose(folder, "numbers.csv")
    assert StreamSchema.load(folder / "s.yaml").attributes["room"].value == "int64"
    given = ("--patterns", "warm.sase", "--schema", "s.yaml", "--events", "numbers.csv", "--out", "m.csv")
    (folder / "warm.sase").write_text('PATTERN SEQ("158321" a, "158322" b) WITHIN 5 minutes')
    done = cep("detect", *given, folder=folder)
    assert done.code == 0 and "no event has the type" not in done.errors, done.errors
    (folder / "warm.sase").write_text('PATTERN SEQ("158321" a, "158329" b) WITHIN 5 minutes')
    told = " ".join(cep("detect", *given, folder=folder).errors.split())
    assert "no event has the type 158329, asked for by pattern_1; there are: 158321, 158322, 158323" in told


EXPORT = "Zeitpunkt;Filiale;Betrag (€);Notiz\n" + "".join(
    f'03.03.2025 09:{minute};7;{amount};"Zeile 1\nZeile 2"\n'
    for minute, amount in (("00:00", "1.250,50"), ("00:30", "980,00"), ("01:10", "12.000,00"), ("02:00", "15,75"))
)
LARGE = (
    "PATTERN SEQ(Buchung a, Buchung b) WHERE [filiale] AND a.betrag >= 1000 AND b.betrag >= 1000 WITHIN 5 minutes "
    "RETURN a.betrag AS a, b.betrag AS b"
)
CASE = Path(__file__).resolve().parents[3] / "shared" / "cases" / "11-excel-export"


@pytest.mark.parametrize("real", [False, True], ids=["generated", "shared"])
def test_an_export_with_decimal_commas_has_its_right_matches(real: bool, tmp_path: Path) -> None:
    if real and not CASE.exists():
        pytest.skip(f"there is no {CASE}")
    (tmp_path / "u8.csv").write_text((CASE / "u8.csv").read_text() if real else "\ufeff" + EXPORT)
    (tmp_path / "p.sase").write_text((CASE / "p.sase").read_text() if real else LARGE)
    schema = {
        "name": "umsatz",
        "timezone": "Europe/Berlin",
        "base_type": "Buchung",
        "timestamp": {"column": "Zeitpunkt", "format": "%d.%m.%Y %H:%M:%S"},
        "attributes": {
            "filiale": {"type": "int64", "column": "Filiale.Nr" if real else "Filiale"},
            "betrag": {"type": "float64", "column": "Betrag (€)"},
        },
        "source": {"format": "csv", "path": "u8.csv", "delimiter": ";"},
    }
    given = ("detect", "--patterns", "p.sase", "--schema", "u.yaml", "--events", "u8.csv", "--out", "m.csv")
    (tmp_path / "u.yaml").write_text(yaml.safe_dump(schema))
    done = cep(*given, folder=tmp_path)
    hint = '\'1.250,50\' is no float64; it is a number with `decimal: ",", thousands: "."` in `source` of the schema'
    assert done.code == 3 and hint in done.errors
    schema["source"] |= {"decimal": ",", "thousands": "."}  # type: ignore[operator]
    (tmp_path / "u.yaml").write_text(yaml.safe_dump(schema))
    done = cep(*given, folder=tmp_path)
    assert done.code == 0, done.errors
    _, only = csv.reader((tmp_path / "m.csv").read_text().splitlines())
    assert only[-2:] == ["1250.5", "12000"]


def test_signs_of_numbers_are_proposed_and_text_that_looks_like_numbers_is_told(tmp_path: Path) -> None:
    (tmp_path / "2025-03-03.csv").write_text(EXPORT)
    assert cep("init", "p", "--data", "2025-03-03.csv", "--timezone", "Europe/Berlin", folder=tmp_path).code == 0
    project = tmp_path / "p"
    [stream] = (project / "streams").iterdir()
    proposed = stream.read_text()
    schema = yaml.safe_load(proposed)
    assert schema["attributes"]["Betrag"] == {"type": "float64", "column": "Betrag (€)"}
    assert (schema["source"]["decimal"], schema["source"]["thousands"]) == (",", ".")
    assert "# numbers are written such as 1.250,50" in proposed
    assert cep("check", folder=project).output == "1 stream, 1 pattern: no errors, 0 warnings\n"
    stream.write_text(proposed.replace("float64", "string"))
    [patterns] = (project / "patterns").iterdir()
    patterns.write_text("NAME up PATTERN SEQ(Event a, Event b)\nWHERE b.Betrag > a.Betrag WITHIN 1 hour\n")
    said = (
        "'Betrag' is text, which up orders by its characters; its values, such as '1.250,50', look like numbers, and "
        "as text '99' comes after '100': give it the type int64 or float64 in the stream schema"
    )
    files = ("--patterns", str(patterns), "--schema", str(stream), "--events", str(tmp_path / "2025-03-03.csv"))
    calls = [("preview",), ("detect", *files), ("run",), ("check",)]
    for call in calls:
        done = cep(*call, folder=project)
        assert done.code == 0, done.errors
        told = " ".join(f"{done.output} {done.errors}".split()).count(said)
        assert told == (call != ("run",)), (call, done.output, done.errors)
    assert said in json.loads(cep("preview", "--json", folder=project).output)["warnings"][0]


@pytest.mark.parametrize(
    ("rows", "kind", "source", "comment"),
    [
        (
            "1,234;1\n2,345;2\n",
            "float64",
            {"decimal": ","},
            'no value tells if it is 1234: that would be thousands: ","',
        ),
        ("1,234;1,5\n2,345;2\n", "float64", {"decimal": ","}, "numbers are written such as 1,234"),
        ("1.234;1,5\n2.345;2\n", "int64", {"decimal": ",", "thousands": "."}, "numbers are written such as"),
        (
            "1.234;1\n2.345;2\n",
            "float64",
            {},
            "1.234 is read as 1.234; no value tells if it is 1234: that would be dec",
        ),
        ("1.5;0,5\n2.75;2,25\n", "float64", {}, 'its numbers need decimal: ",", unlike others in the file'),
    ],
)
def test_signs_that_are_not_certain_are_told(
    rows: str, kind: str, source: dict[str, str], comment: str, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("time;x;y\n" + "".join(f"2025-03-03 09:00;{row}" for row in rows.splitlines(True)))
    text = propose(tmp_path, "x.csv")
    schema = yaml.safe_load(text)
    assert schema["attributes"]["x"] == kind
    assert schema["source"] == {"format": "csv", "delimiter": ";", **source, "path": "x.csv"}
    assert comment in text


def test_the_first_pattern_of_bursts_has_some_thousand_matches_at_most(tmp_path: Path) -> None:
    rows, cents, draw = ["time,symbol,price"], 10_000, Random(7)
    for number in range(6000):
        cents += draw.choice((-3, -2, -1, 0, 1, 2, 3))
        at = datetime(2025, 3, 4, 9) + timedelta(seconds=number // 300 * 60, milliseconds=number % 300)
        rows.append(f"{at.isoformat()},{'AB'[number % 2]},{cents / 100:.2f}")
    (tmp_path / "2025-03-04.csv").write_text("\n".join(rows) + "\n")
    made = cep("init", tmp_path / "mine", "--data", "2025-03-04.csv", "--timezone", "UTC", folder=tmp_path)
    assert made.code == 0, made.errors
    said = re.search(r"the first pattern, rising, has ([\d,]+) matches in the 6,000 rows .* of 2025-03-04", made.output)
    assert said is not None and 10 <= int(said[1].replace(",", "")) <= 2000
    (schema,) = (tmp_path / "mine" / "streams").iterdir()
    (patterns,) = (tmp_path / "mine" / "patterns").iterdir()
    files = "--patterns", patterns, "--schema", schema, "--events", "2025-03-04.csv"
    assert said[1] in cep("detect", *files, "--output", "count", folder=tmp_path).errors
    assert "on_missing: skip" in schema.read_text()
